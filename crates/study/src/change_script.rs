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

    /// Applies the change to a private server whose plans are compared, as the user of its address.
    ///
    /// # Errors
    /// As [`Self::apply_as`].
    pub(crate) fn apply_for_plans(
        &self,
        target: &Target,
        interrupt: &Interrupt,
    ) -> Result<(), ExperimentError> {
        let login = LoginMap::default().login(target, "", "", "rehearse");
        self.apply_for(ChangePurpose::Plans, (target, &login), interrupt)
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
        self.apply_for(ChangePurpose::Replay, (target, login), interrupt)
    }

    fn apply_for(
        &self,
        purpose: ChangePurpose,
        (target, login): (&Target, &Login),
        interrupt: &Interrupt,
    ) -> Result<(), ExperimentError> {
        match self {
            ChangeScript::Statements { path, statements } => {
                send_statements(purpose, (target, login), path, statements)
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

/// Purpose of a change, on which the advice of an error depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangePurpose {
    /// A workload is replayed with it, in a database that the user may choose.
    Replay,
    /// Plans are compared with it, in the database of the export.
    Plans,
}

impl ChangePurpose {
    /// Returns what to do if the server cannot be reached.
    fn advice_for_connection(self) -> &'static str {
        match self {
            ChangePurpose::Replay => "--as-database NAME takes another one",
            ChangePurpose::Plans => "no plan was compared; run the check again",
        }
    }

    /// Returns what follows from a refused statement, and what to do.
    fn advice_for_statement(self) -> &'static str {
        match self {
            ChangePurpose::Replay => "nothing was replayed with it",
            ChangePurpose::Plans => {
                "no plan was compared; correct the statement, and run the check again"
            }
        }
    }
}

fn send_statements(
    purpose: ChangePurpose,
    (target, login): (&Target, &Login),
    path: &str,
    statements: &[String],
) -> Result<(), ExperimentError> {
    let dialer = Dialer::new(target)?;
    let mut questions = dialer.open_query_connection(login).map_err(|error| {
        ExperimentError::Failed(format!(
            "cannot connect to the database {} of {} to carry out {path}: {error}; {}",
            login.database,
            target.address(),
            purpose.advice_for_connection()
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
                "the change {path} fails at its statement {number} ({shown}) in the database {}: {error}; {}",
                login.database,
                purpose.advice_for_statement()
            ))
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures(target: &Target, sql: &str) -> [String; 2] {
        let script = ChangeScript::new("next.sql", sql).unwrap();
        let interrupt = Interrupt::default();
        [
            script.apply(target, &interrupt),
            script.apply_for_plans(target, &interrupt),
        ]
        .map(|result| result.unwrap_err().to_string())
    }

    #[test]
    fn failed_change_of_a_plan_check_names_no_replay_and_no_option_of_other_commands() {
        let (_sandbox, endpoint) = test_support::server().start();
        let url = endpoint.url("postgres");
        let target = Target::parse(&url, |_| None).unwrap();
        let [of_replay, of_plans] = failures(&target, "SELECT 1; SELECT nothing_at_all");
        for text in [&of_replay, &of_plans] {
            assert!(text.contains("next.sql fails at its statement 2"), "{text}");
        }
        assert!(of_replay.contains("nothing was replayed"), "{of_replay}");
        assert!(
            !of_plans.contains("replayed") && of_plans.contains("run the check again"),
            "{of_plans}"
        );
        let target = Target::parse(&endpoint.url("elsewhere"), |_| None).unwrap();
        let [of_replay, of_plans] = failures(&target, "SELECT 1");
        assert!(of_replay.contains("--as-database NAME"), "{of_replay}");
        assert!(
            !of_plans.contains("--as-database") && of_plans.contains("run the check again"),
            "{of_plans}"
        );
    }
}
