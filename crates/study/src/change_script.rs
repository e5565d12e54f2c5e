//! Changes of data: SQL scripts, and commands of migration tools.

use connect::login::{Dialer, Login};
use replay::{LoginMap, Target};
use sql::statement_texts;

use crate::environment::{STATEMENTS_TIME_MAX, run_stoppable_command};
use crate::error::ExperimentError;
use crate::interrupt::Interrupt;

/// Number of characters of a statement that an error shows.
const SHOWN: usize = 80;

/// A change of the data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeScript {
    /// SQL. Each statement is sent separately, so that `CREATE INDEX CONCURRENTLY` and `VACUUM` can be among them.
    Statements {
        /// Path of the file, or another name for messages.
        path: String,
        /// At least one.
        statements: Vec<String>,
    },
    /// A command for the shell, such as one of Flyway or Alembic, with libpq's variables set to the server.
    Command(String),
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
            false => Ok(ChangeScript::Statements {
                path: path.to_owned(),
                statements,
            }),
        }
    }

    /// Applies the change to a private server, as its superuser.
    ///
    /// # Errors
    /// As [`Self::apply_as`].
    pub fn apply(&self, target: &Target, interrupt: &Interrupt) -> Result<(), ExperimentError> {
        let login = LoginMap::default().login(target, "", "", "rehearse");
        self.apply_as(target, &login, interrupt)
    }

    /// Applies the change as the user of a login, in its database. A stop request ends a command.
    ///
    /// # Errors
    /// With the server's message and the statement that it refused, or with what the command printed last. If a stop request ended
    /// the command.
    pub(crate) fn apply_as(
        &self,
        target: &Target,
        login: &Login,
        interrupt: &Interrupt,
    ) -> Result<(), ExperimentError> {
        match self {
            ChangeScript::Statements { path, statements } => {
                send_statements(target, login, path, statements)
            }
            ChangeScript::Command(command) => {
                let mut target = target.clone();
                target.user = Some(login.user.to_string());
                target.database = Some(login.database.to_string());
                run_stoppable_command(command, &target, "--change-command", interrupt)
            }
        }
    }
}

fn send_statements(
    target: &Target,
    login: &Login,
    path: &str,
    statements: &[String],
) -> Result<(), ExperimentError> {
    let dialer = Dialer::new(target)?;
    let mut questions = dialer.open_query_connection(login).map_err(|error| {
            ExperimentError::Failed(format!(
                "cannot connect to the database {} of {} to carry out {}: {error}; --as-database NAME takes another one",
                login.database,
                target.address(),
                path
            ))
        })?;
    questions.limit(STATEMENTS_TIME_MAX);
    for (number, statement) in (1..).zip(statements) {
        questions.query(statement).map_err(|error| {
                let text: String = statement.split_whitespace().collect::<Vec<_>>().join(" ");
                let shown = match text.char_indices().nth(SHOWN) {
                    Some((end, _)) => format!("{}…", &text[..end]),
                    None => text,
                };
                ExperimentError::Failed(format!(
                    "the change {} fails at its statement {number} ({shown}) in the database {}: {error}; nothing was replayed with it",
                    path, login.database
                ))
            })?;
    }
    Ok(())
}
