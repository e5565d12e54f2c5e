//! Errors of the lab's systems.

use postgres::error::SqlState;

/// The reason why a system of the lab did not run.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The server refused a statement that must succeed.
    #[error("{what}: {reason}")]
    Server {
        /// The action that failed.
        what: &'static str,
        /// The server's message.
        reason: String,
        /// The SQLSTATE, if the server reported the error.
        code: Option<SqlState>,
    },
    /// A client program of the system failed.
    #[error("client program {number} broke off: {reason}")]
    Client {
        /// Number of the program.
        number: usize,
        /// Reason of the failure.
        reason: String,
    },
}

impl LabError {
    /// Builds the error of an action from the client library's error, for `map_err`.
    pub fn server(what: &'static str) -> impl Fn(postgres::Error) -> Self {
        move |error| LabError::Server {
            what,
            reason: reason(&error),
            code: error.code().cloned(),
        }
    }
}

impl From<LabError> for study::Failure {
    fn from(error: LabError) -> Self {
        study::Failure::could_not(error)
    }
}

/// Returns the server's message, or else the client library's.
pub(crate) fn reason(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => said.message().to_owned(),
        None => error.to_string(),
    }
}
