//! A change that is a script of SQL.

use replay::Target;
use target::login::{Dialer, Login};
use workload::sql::statement_texts;

use super::trial::TIME;
use crate::error::ExperimentError;

/// How much of a statement an error shows.
const SHOWN: usize = 80;

/// A script of SQL, cut into its statements: each is sent by itself, so that `CREATE INDEX CONCURRENTLY`
/// and `VACUUM` can be among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeScript {
    path: String,
    statements: Vec<String>,
}

impl ChangeScript {
    /// Of a file's text.
    ///
    /// # Errors
    /// Where there is no statement in it, or a command of psql's.
    pub fn new(path: &str, text: &str) -> Result<Self, ExperimentError> {
        if let Some(line) = text.lines().find(|line| line.starts_with('\\')) {
            return Err(ExperimentError::Usage(format!(
                "{path} has a command of psql ('{}'), and only SQL can be sent; take it out",
                line.trim()
            )));
        }
        let statements: Vec<String> = statement_texts(text)
            .into_iter()
            .map(str::to_owned)
            .collect();
        match statements.is_empty() {
            true => Err(ExperimentError::Usage(format!(
                "{path} has no statement in it; give a file with the SQL of the change"
            ))),
            false => Ok(ChangeScript {
                path: path.to_owned(),
                statements,
            }),
        }
    }

    /// Carries it out.
    ///
    /// # Errors
    /// With the server's message and the statement that it refused.
    pub(super) fn carry_out(&self, target: &Target, login: &Login) -> Result<(), ExperimentError> {
        let dialer = Dialer::new(target).map_err(replay::ReplayError::Target)?;
        let mut questions = dialer.questions(login).map_err(|error| {
            ExperimentError::Failed(format!(
                "cannot connect to the database {} of {} to carry out {}: {error}; --database NAME takes another one",
                login.database,
                target.address(),
                self.path
            ))
        })?;
        questions.limit(TIME);
        for (number, statement) in (1..).zip(&self.statements) {
            questions.ask(statement).map_err(|error| {
                let text: String = statement.split_whitespace().collect::<Vec<_>>().join(" ");
                let shown = match text.char_indices().nth(SHOWN) {
                    Some((end, _)) => format!("{}…", &text[..end]),
                    None => text,
                };
                ExperimentError::Failed(format!(
                    "the change {} fails at its statement {number} ({shown}) in the database {}: {error}; nothing was replayed with it",
                    self.path, login.database
                ))
            })?;
        }
        Ok(())
    }
}
