//! Changes that are SQL scripts.

use connect::login::{Dialer, Login};
use replay::{LoginMap, Target};
use sql::statement_texts;

use crate::environment::STATEMENTS_TIME_MAX;
use crate::error::ExperimentError;

/// Number of characters of a statement that an error shows.
const SHOWN: usize = 80;

/// A script of SQL. Each statement is sent separately, so that `CREATE INDEX CONCURRENTLY` and `VACUUM` can be among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeScript {
    path: String,
    statements: Vec<String>,
}

impl ChangeScript {
    /// Splits a file's text into statements.
    ///
    /// # Errors
    /// If it has no statement, or a command of psql.
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

    /// Sends the statements to a private server, as its superuser.
    ///
    /// # Errors
    /// As [`Self::apply_as`].
    pub fn apply(&self, target: &Target) -> Result<(), ExperimentError> {
        self.apply_as(
            target,
            &LoginMap::default().login(target, "", "", "rehearse"),
        )
    }

    /// Sends the statements.
    ///
    /// # Errors
    /// With the server's message and the statement that it refused.
    pub(crate) fn apply_as(&self, target: &Target, login: &Login) -> Result<(), ExperimentError> {
        let dialer = Dialer::new(target)?;
        let mut questions = dialer.open_query_connection(login).map_err(|error| {
            ExperimentError::Failed(format!(
                "cannot connect to the database {} of {} to carry out {}: {error}; --as-database NAME takes another one",
                login.database,
                target.address(),
                self.path
            ))
        })?;
        questions.limit(STATEMENTS_TIME_MAX);
        for (number, statement) in (1..).zip(&self.statements) {
            questions.query(statement).map_err(|error| {
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
