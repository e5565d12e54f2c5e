//! Events: actions of clients.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::parameter::Parameter;
use crate::wire_details::WireDetails;

/// One action of a client, with its outcome as far as the source knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Number of the session in this workload.
    pub session: u64,
    /// Position within the session, from 0, without gaps. It follows the order of the client's actions, which
    /// is also the order of `due_us`.
    pub sequence: u64,
    /// Time at which the client sent it, in microseconds from the workload's start. Never negative.
    pub due_us: i64,
    /// Action.
    pub kind: EventKind,
    /// Outcome, as far as the source knows it.
    pub outcome: Outcome,
    /// Reason why it cannot be replayed unchanged, if so. A replay counts it as skipped.
    pub unreplayable: Option<Unreplayable>,
    /// Index of the source in [`crate::Provenance::sources`].
    pub source: u32,
    /// Line (from 1) or packet in that source; 0 if there is none.
    pub line: u64,
    /// It happened before this workload's start and is due at the start (a *prelude*). A slice keeps it to
    /// restore the session's state.
    pub prelude: bool,
    /// Details that only a wire capture knows; `None` in a workload from a log. Events with equal details,
    /// such as the executions of one statement, share them.
    pub wire_details: Option<Arc<WireDetails>>,
}

/// Action of a client. SQL is shared: the executions of one prepared statement hold one text.
#[derive(Debug, Clone, PartialEq)]
pub enum EventKind {
    /// Opened the session. It is the first event of every session. A session that began before the capture
    /// has it at the time of its first activity.
    Connect {
        /// The database; empty if the source does not know it.
        database: Arc<str>,
        /// The role; empty if the source does not know it.
        user: Arc<str>,
        /// `application_name`; empty if unknown or unset.
        application: Arc<str>,
    },
    /// Sent a simple query, which may hold several statements.
    Simple {
        /// The text as sent.
        sql: Arc<str>,
    },
    /// Prepared a statement that the source does not show being used, such as one that failed to parse. A
    /// statement that is used is prepared by its first [`Self::Execute`].
    Prepare {
        /// The statement's name; empty for the unnamed one.
        statement: Arc<str>,
        /// The text as sent.
        sql: Arc<str>,
    },
    /// Bound parameters to a prepared statement and executed it. The replay prepares the statement if the
    /// session does not yet have this text under the name.
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
    /// Called a function by its OID (the fast-path interface), as libpq and JDBC do for large objects.
    FunctionCall {
        /// The function's OID, in decimal.
        function: Arc<str>,
        /// The call in words, such as `lo_open($1, $2)`. The client did not send it.
        sql: Arc<str>,
        /// The arguments, `None` for NULL.
        parameters: Vec<Option<Parameter>>,
    },
    /// Cancelled the statement that this session was running.
    Cancel,
    /// Ended the session.
    Disconnect,
}

impl EventKind {
    /// Returns the name under which the kind is stored.
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::Connect { .. } => "connect",
            EventKind::Simple { .. } => "simple",
            EventKind::Prepare { .. } => "prepare",
            EventKind::Execute { .. } => "execute",
            EventKind::Fetch { .. } => "fetch",
            EventKind::FunctionCall { .. } => "function_call",
            EventKind::Cancel => "cancel",
            EventKind::Disconnect => "disconnect",
        }
    }

    /// Returns the SQL of the event, if any.
    pub fn sql(&self) -> Option<&Arc<str>> {
        match self {
            EventKind::Simple { sql }
            | EventKind::Prepare { sql, .. }
            | EventKind::Execute { sql, .. }
            | EventKind::Fetch { sql, .. }
            | EventKind::FunctionCall { sql, .. } => Some(sql),
            EventKind::Connect { .. } | EventKind::Cancel | EventKind::Disconnect => None,
        }
    }

    /// Whether it is a statement: an event with SQL, which a run must account for.
    pub fn is_statement(&self) -> bool {
        self.sql().is_some()
    }
}

/// Outcome of an event when it was captured. `None` means that the source does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Duration measured by the server (parse, bind and execute summed), in microseconds.
    pub duration_us: Option<u64>,
    /// Number of rows returned or affected.
    pub rows: Option<u64>,
    /// Bytes of the result.
    pub bytes: Option<u64>,
    /// Error code, or `None` on success or if the outcome is unknown. A log names every failure (unless
    /// `log_min_messages` hides them), so in a workload from a log `None` is success. [`Sqlstate::UNKNOWN`]
    /// if it failed and the source hid the code.
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
    /// A failure whose code the source does not show. It is not a code of the server. Logs of format stderr
    /// show codes only if `log_line_prefix` has `%e` or `log_error_verbosity` is verbose.
    pub const UNKNOWN: Sqlstate = Sqlstate(*b"?????");

    /// Parses a code: five digits or upper-case letters, or the mark for an unknown one.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes: [u8; 5] = text.as_bytes().try_into().ok()?;
        let code = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        (bytes.iter().all(code) || bytes == Self::UNKNOWN.0).then_some(Sqlstate(bytes))
    }

    /// Returns the code as text.
    pub fn as_str(&self) -> &str {
        // The field is public for const codes. A code that is not ASCII prints as unknown.
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

/// Reason why an event cannot be replayed unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unreplayable {
    /// The source holds a statement with `$1` and no values for it (`log_parameter_max_length = 0`; for a
    /// failed one, `log_parameter_max_length_on_error`). A statement that was refused in a failed transaction
    /// always has this reason: the server does not read its values.
    ParametersMissing,
    /// The source truncated a value (`log_parameter_max_length`).
    ParametersCut,
    /// The log holds only a part of the statement: its other lines were lost, could not be read, or belong to
    /// another message.
    StatementCut,
    /// `COPY … FROM STDIN`: the data is not in the source.
    CopyDataMissing,
    /// A further fetch from an open portal. The replayed execution fetches all rows at once.
    PortalFetch,
    /// The capture has no text for the statement's name. On the wire it was prepared before the capture began, in
    /// a part that was lost, or by SQL. In a log the name does not exist, or pgAudit logged an EXECUTE by the text
    /// of its PREPARE alone. The name may also be invalid (deallocated, closed); a replay reproduces that if the
    /// server reported it (26000, 34000).
    StatementUnknown,
    /// Its text, or a value in text form, is not UTF-8: the client uses another encoding.
    NotUtf8,
    /// Its text, parameters or COPY data exceed the size limit of the capture.
    TooLong,
    /// It held a password, which is never written.
    SecretRemoved,
    /// It succeeded and was rolled back: a later statement before the same Sync failed. Also that later statement, which
    /// may have failed because of the earlier ones.
    RolledBack,
    /// It succeeded, and a statement that may have been sent before the same Sync failed directly after it. The
    /// source does not show whether it was rolled back. Also that later statement.
    FateUnknown,
    /// Its Bind failed. A log has at most the value that was refused, and nothing of a message that broke the protocol.
    BindFailed,
    /// It failed, and the source has the error without its text (`log_min_error_statement`; a function call by the
    /// fast-path protocol).
    TextMissing,
    /// It called a user-defined function by its OID, which may be another function's on the target.
    FunctionUnknown,
}

impl Unreplayable {
    /// All reasons.
    pub const ALL: [Unreplayable; 14] = [
        Unreplayable::ParametersMissing,
        Unreplayable::ParametersCut,
        Unreplayable::StatementCut,
        Unreplayable::CopyDataMissing,
        Unreplayable::PortalFetch,
        Unreplayable::StatementUnknown,
        Unreplayable::NotUtf8,
        Unreplayable::TooLong,
        Unreplayable::SecretRemoved,
        Unreplayable::RolledBack,
        Unreplayable::FateUnknown,
        Unreplayable::BindFailed,
        Unreplayable::TextMissing,
        Unreplayable::FunctionUnknown,
    ];

    /// Returns the name under which the reason is stored.
    pub fn name(self) -> &'static str {
        match self {
            Unreplayable::ParametersMissing => "parameters_missing",
            Unreplayable::ParametersCut => "parameters_cut",
            Unreplayable::StatementCut => "statement_cut",
            Unreplayable::CopyDataMissing => "copy_data_missing",
            Unreplayable::PortalFetch => "portal_fetch",
            Unreplayable::StatementUnknown => "statement_unknown",
            Unreplayable::NotUtf8 => "not_utf8",
            Unreplayable::TooLong => "too_long",
            Unreplayable::SecretRemoved => "secret_removed",
            Unreplayable::RolledBack => "rolled_back",
            Unreplayable::FateUnknown => "fate_unknown",
            Unreplayable::BindFailed => "bind_failed",
            Unreplayable::TextMissing => "text_missing",
            Unreplayable::FunctionUnknown => "function_unknown",
        }
    }

    /// Returns the reason in words, with the setting to change for the next capture.
    pub fn explanation(self) -> &'static str {
        match self {
            Unreplayable::ParametersMissing => {
                "its parameters are not in the log; set log_parameter_max_length and log_parameter_max_length_on_error to -1"
            }
            Unreplayable::ParametersCut => {
                "its parameters were cut in the log; set log_parameter_max_length = -1"
            }
            Unreplayable::StatementCut => {
                "the log holds only a part of it: lines after it were lost, could not be read, or are another message's; capture whole files of the server"
            }
            Unreplayable::CopyDataMissing => {
                "the data of COPY FROM STDIN is not in the source (a log never has it)"
            }
            Unreplayable::PortalFetch => {
                "a further fetch from a portal; the replay fetches all rows at the first"
            }
            Unreplayable::StatementUnknown => {
                "the capture has no text for its name: prepared before the capture began, in a part that was lost, or by SQL, or deallocated or closed, or its EXECUTE is only in pgAudit's lines; begin the capture before the clients connect"
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
            Unreplayable::RolledBack => {
                "an error in the same pipeline rolled it back in the capture, so it left nothing"
            }
            Unreplayable::FateUnknown => {
                "an error directly after it rolled it back if both were in one transaction without a savepoint between, which the log does not show; log all statements, to csvlog or jsonlog, or add %v to log_line_prefix"
            }
            Unreplayable::BindFailed => {
                "its Bind failed in the capture, and no setting logs all values of a failed Bind"
            }
            Unreplayable::TextMissing => {
                "it failed, and the log has no text for it: set log_min_error_statement = error; no setting shows a fast-path function call"
            }
            Unreplayable::FunctionUnknown => {
                "it called a user-defined function by its OID, which may be another function's on the target; call it by SQL"
            }
        }
    }

    /// Returns the reason stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}
