//! One thing that a client did.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::parameter::Parameter;
use crate::particulars::Particulars;

/// One thing that a client did, with what the source knew of how it went.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The session's number in this workload.
    pub session: u64,
    /// Place within the session, from 0. Unique and without gaps within a session; the order in
    /// which the client did things, which is also the order of `due_us`.
    pub sequence: u64,
    /// When the client sent it, in microseconds from the workload's start. Never negative.
    pub due_us: i64,
    /// What was done.
    pub kind: EventKind,
    /// What came of it, as far as the source knew.
    pub outcome: Outcome,
    /// Why this cannot be replayed as it was, if so. A replay counts it as skipped.
    pub unreplayable: Option<Unreplayable>,
    /// Which of [`crate::Provenance::sources`] it was read from.
    pub source: u32,
    /// The line (from 1) or packet in that source; 0 where there is none.
    pub line: u64,
    /// It was done before this workload's start, and is due at it: a slice keeps it because it
    /// brings its session to where the session was then (a *prelude*).
    pub prelude: bool,
    /// What only a capture from the wire knows; `None` in a workload from a log. Events that were
    /// alike in it, such as the executions of one statement, share it.
    pub particulars: Option<Arc<Particulars>>,
}

/// What a client did. SQL is shared: the executions of one prepared statement hold one text.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// Opened the session. Every session has exactly one, its first event; sessions that were
    /// there before the capture have it at the time of their first sign of life.
    Connect {
        /// The database; empty where the source does not know it.
        database: Arc<str>,
        /// The role; empty where the source does not know it.
        user: Arc<str>,
        /// `application_name`, empty where unknown or unset.
        application: Arc<str>,
    },
    /// Sent a simple query, which may hold several statements.
    Simple {
        /// The text as sent.
        sql: Arc<str>,
    },
    /// Prepared a statement by message, and the source shows nothing that used it (a statement
    /// that failed to parse, for one). What is used is prepared by its first [`Self::Execute`].
    Prepare {
        /// The statement's name; empty for the unnamed one.
        statement: Arc<str>,
        /// The text as sent.
        sql: Arc<str>,
    },
    /// Bound parameters to a prepared statement and executed it. The replay prepares the name
    /// anew where it is not yet known to the session with this very text.
    Execute {
        /// The statement's name; empty for the unnamed one.
        statement: Arc<str>,
        /// The portal's name; empty for the unnamed one.
        portal: Arc<str>,
        /// The text of the prepared statement.
        sql: Arc<str>,
        /// The parameters, `None` for NULL.
        parameters: Vec<Option<Parameter>>,
    },
    /// Fetched more rows from a portal that an earlier [`Self::Execute`] left open.
    Fetch {
        /// The statement's name.
        statement: Arc<str>,
        /// The portal's name.
        portal: Arc<str>,
        /// The text of the prepared statement.
        sql: Arc<str>,
    },
    /// Cancelled the statement that this session was running.
    Cancel,
    /// Ended the session.
    Disconnect,
}

impl EventKind {
    /// The name under which the kind is stored.
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::Connect { .. } => "connect",
            EventKind::Simple { .. } => "simple",
            EventKind::Prepare { .. } => "prepare",
            EventKind::Execute { .. } => "execute",
            EventKind::Fetch { .. } => "fetch",
            EventKind::Cancel => "cancel",
            EventKind::Disconnect => "disconnect",
        }
    }

    /// The SQL it carries, if any.
    pub fn sql(&self) -> Option<&Arc<str>> {
        match self {
            EventKind::Simple { sql }
            | EventKind::Prepare { sql, .. }
            | EventKind::Execute { sql, .. }
            | EventKind::Fetch { sql, .. } => Some(sql),
            EventKind::Connect { .. } | EventKind::Cancel | EventKind::Disconnect => None,
        }
    }

    /// Whether it is a statement: something with SQL, which a run must account for.
    pub fn is_statement(&self) -> bool {
        self.sql().is_some()
    }
}

/// What came of an event where it was captured. `None` is "the source does not say".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The server's own time for it (parse, bind and execute summed), in microseconds.
    pub duration_us: Option<u64>,
    /// Rows returned or affected.
    pub rows: Option<u64>,
    /// Bytes of the result.
    pub bytes: Option<u64>,
    /// The error it ended in. `None` where it succeeded or where nothing is known:
    /// a log names every failure (unless `log_min_messages` hides them), so in a workload from a
    /// log `None` is success. [`Sqlstate::UNKNOWN`] where it failed and the source hid the code.
    pub sqlstate: Option<Sqlstate>,
}

/// A five-character error code (PostgreSQL documentation, appendix A).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
#[schemars(inline)]
pub struct Sqlstate(#[schemars(with = "String")] pub [u8; 5]);

impl Serialize for Sqlstate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl Sqlstate {
    /// A failure whose code the source did not show (stderr logs show it only where
    /// `log_line_prefix` has `%e` or `log_error_verbosity` is verbose). Not a code of the server's.
    pub const UNKNOWN: Sqlstate = Sqlstate(*b"?????");

    /// Reads a code: five digits or upper-case letters, or the mark for an unknown one.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; 5] = text.as_bytes().try_into().ok()?;
        let code = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        (bytes.iter().all(code) || bytes == Self::UNKNOWN.0).then_some(Sqlstate(bytes))
    }

    /// The code as text.
    pub fn as_str(&self) -> &str {
        // The field is public for const codes; one that is no ASCII prints as unknown.
        std::str::from_utf8(&self.0).unwrap_or("?????")
    }
}

impl fmt::Display for Sqlstate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Sqlstate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an event cannot be replayed as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unreplayable {
    /// The source holds a statement with `$1` and no values for it
    /// (`log_parameter_max_length = 0`; for one that failed, `log_parameter_max_length_on_error`).
    /// One that was refused because its transaction had failed before is always so: the server
    /// does not look at its values.
    ParametersMissing,
    /// The source cut a value short (`log_parameter_max_length`).
    ParametersCut,
    /// `COPY … FROM STDIN`: the data is not in the source.
    CopyDataMissing,
    /// A further fetch from an open portal: the replayed execution fetched all rows at once.
    PortalFetch,
    /// A capture from the wire has no text for its name: it was prepared before the capture began, in a part
    /// that was lost, or by SQL; or the name stood for nothing any more (deallocated, closed), which a
    /// replay brings about where the server said so (26000, 34000).
    StatementUnknown,
    /// Its text, or a value in text form, is not UTF-8: the client uses another encoding.
    NotUtf8,
    /// Its text, parameters or COPY data are longer than the capture keeps.
    TooLong,
    /// It had a password in it, which is never written.
    SecretRemoved,
}

impl Unreplayable {
    /// All reasons.
    pub const ALL: [Unreplayable; 8] = [
        Unreplayable::ParametersMissing,
        Unreplayable::ParametersCut,
        Unreplayable::CopyDataMissing,
        Unreplayable::PortalFetch,
        Unreplayable::StatementUnknown,
        Unreplayable::NotUtf8,
        Unreplayable::TooLong,
        Unreplayable::SecretRemoved,
    ];

    /// The name under which the reason is stored.
    pub fn name(self) -> &'static str {
        match self {
            Unreplayable::ParametersMissing => "parameters_missing",
            Unreplayable::ParametersCut => "parameters_cut",
            Unreplayable::CopyDataMissing => "copy_data_missing",
            Unreplayable::PortalFetch => "portal_fetch",
            Unreplayable::StatementUnknown => "statement_unknown",
            Unreplayable::NotUtf8 => "not_utf8",
            Unreplayable::TooLong => "too_long",
            Unreplayable::SecretRemoved => "secret_removed",
        }
    }

    /// The reason in words, with what to change next time.
    pub fn explanation(self) -> &'static str {
        match self {
            Unreplayable::ParametersMissing => {
                "its parameters are not in the log; set log_parameter_max_length and log_parameter_max_length_on_error to -1"
            }
            Unreplayable::ParametersCut => {
                "its parameters were cut in the log; set log_parameter_max_length = -1"
            }
            Unreplayable::CopyDataMissing => {
                "the data of COPY FROM STDIN is not in the source (a log never has it)"
            }
            Unreplayable::PortalFetch => {
                "a further fetch from a portal; the replay fetches all rows at the first"
            }
            Unreplayable::StatementUnknown => {
                "the capture has no text for its name: prepared before the capture began, in a part that was lost, or by SQL, or deallocated or closed; begin the capture before the clients connect"
            }
            Unreplayable::NotUtf8 => {
                "its text is not UTF-8; have the client use client_encoding = UTF8"
            }
            Unreplayable::TooLong => {
                "its text, parameters or COPY data are longer than the 64 MiB that a capture keeps"
            }
            Unreplayable::SecretRemoved => {
                "it had a password in it, which is never written; set passwords on the target yourself"
            }
        }
    }

    /// The reason stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}
