//! Why a system of the lab did not run.

use postgres::error::SqlState;

/// Why it did not.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The server refused something that must work.
    #[error("{what}: {reason}")]
    Server {
        /// What was to be done.
        what: &'static str,
        /// In the server's words.
        reason: String,
        /// Its code, where it is the server's.
        code: Option<SqlState>,
    },
    /// A program of the system broke off.
    #[error("client program {number} broke off: {reason}")]
    Client {
        /// Which.
        number: usize,
        /// Why.
        reason: String,
    },
}

impl LabError {
    /// What was to be done, and the client library's error.
    pub fn server(what: &'static str) -> impl Fn(postgres::Error) -> Self {
        move |error| LabError::Server {
            what,
            reason: reason(&error),
            code: error.code().cloned(),
        }
    }
}

/// The server's words, if it said any.
pub(crate) fn reason(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => said.message().to_owned(),
        None => error.to_string(),
    }
}
