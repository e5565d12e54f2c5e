//! Keeps a session from writing: the server has `default_transaction_read_only` on from the start,
//! and where it was turned off, it is set again in front of the next statement.
//!
//! From PostgreSQL 14 on the server tells when that setting changes (documentation, 54.2.7,
//! `ParameterStatus`), also where a function changed it that nobody sees. A server that does not
//! tell is asked to set it in front of every statement.
//!
//! It tells only when it is ready for the next one, and a transaction keeps what it began with. So
//! nothing goes behind what is not answered, but within a group of messages that one Sync ends: that is
//! one transaction, if nothing in the middle of it ends that.

use sql::{ReadOnly, ends_transaction, read_only};
use workload::{Boundary, Event, EventKind, Parameter, Sqlstate};

use crate::connect::ConnectError;

/// The setting.
pub(crate) const SETTING: &str = "default_transaction_read_only";

/// `read_only_sql_transaction`, the other way round: the server would write.
const NOT_KEPT: Sqlstate = Sqlstate(*b"25006");

/// Whether a session must be kept from writing before its next statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Guard {
    watch: Watch,
    needed: bool,
    in_flight: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Watch {
    /// It may write.
    #[default]
    Off,
    /// The server tells when the setting changes.
    Told,
    /// It does not tell.
    Untold,
}

impl Guard {
    /// For a session that must not write. `reported` is whether it was on when the session
    /// began; `None`: the server did not say.
    ///
    /// # Errors
    /// Where the server did not take the setting.
    pub(crate) fn new(reported: Option<bool>) -> Result<Self, ConnectError> {
        match reported {
            Some(true) => Ok(Guard {
                watch: Watch::Told,
                ..Guard::default()
            }),
            None => Ok(Guard {
                watch: Watch::Untold,
                needed: true,
                in_flight: false,
            }),
            Some(false) => Err(ConnectError {
                sqlstate: NOT_KEPT,
                message: format!(
                    "--read-only: {SETTING} is not on in a session that asked for it; is there a pooler in between that does not pass it on?"
                ),
            }),
        }
    }

    /// Takes in what the server tells of a setting.
    pub(crate) fn told(&mut self, name: &[u8], value: &[u8]) {
        if self.watch == Watch::Told && name == SETTING.as_bytes() {
            self.needed = value != b"on";
        }
    }

    /// Whether [`message`] must stand in front of what is sent next.
    #[inline]
    pub(crate) fn is_needed(&self) -> bool {
        self.needed
    }

    /// Whether the session must be kept from writing at all.
    #[inline]
    pub(crate) fn stands(&self) -> bool {
        self.watch != Watch::Off
    }

    /// Whether what comes is the answer to it, up to ReadyForQuery.
    #[inline]
    pub(crate) fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    /// It was sent.
    pub(crate) fn sent(&mut self) {
        self.in_flight = true;
    }

    /// Whether a ReadyForQuery is the answer to it, and not to the statement.
    pub(crate) fn answered(&mut self) -> bool {
        std::mem::take(&mut self.in_flight)
    }
}

/// The message that sets it again. In a failed transaction it fails, and is sent again with the
/// statement after; in an open one it takes hold, or is undone together with what turned it off.
pub(crate) fn message() -> &'static [u8] {
    b"Q\0\0\0\x35SET SESSION default_transaction_read_only TO on \0"
}

/// Makes an event one that may be sent in a replay that must not write; false: it may not be sent.
pub(crate) fn keep_from_writing(event: &mut Event) -> bool {
    let goes_on_in_its_group = (event.particulars.as_ref())
        .is_some_and(|particulars| particulars.boundary != Boundary::Sync);
    let (sql, parameters) = match &mut event.kind {
        EventKind::Simple { sql } | EventKind::Prepare { sql, .. } => (sql, &[][..]),
        EventKind::Execute {
            sql, parameters, ..
        } => (sql, &parameters[..]),
        EventKind::Connect { .. }
        | EventKind::Fetch { .. }
        | EventKind::Cancel
        | EventKind::Disconnect => return true,
    };
    // Behind it the next transaction begins before the server has said what holds then.
    if goes_on_in_its_group && ends_transaction(sql) {
        return false;
    }
    let readable = parameters.iter().flatten().filter_map(Parameter::readable);
    match read_only(sql, readable) {
        ReadOnly::AsItIs => true,
        ReadOnly::Rewritten(instead) => {
            *sql = instead.into();
            true
        }
        ReadOnly::Withheld => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_what_the_encoder_makes_of_it() {
        let mut encoded = Vec::new();
        protocol::frontend::Query {
            sql: b"SET SESSION default_transaction_read_only TO on ",
        }
        .encode(&mut encoded)
        .unwrap();
        assert_eq!(message(), encoded);
    }

    #[test]
    fn it_is_needed_from_when_the_server_says_off_until_it_says_on() {
        let mut guard = Guard::new(Some(true)).unwrap();
        assert!(!guard.is_needed());
        guard.told(b"application_name", b"off");
        assert!(!guard.is_needed());
        guard.told(SETTING.as_bytes(), b"off");
        assert!(guard.is_needed());
        guard.sent();
        // In a failed transaction the server refuses it: it is sent again.
        assert!(guard.answered() && !guard.answered());
        assert!(guard.is_needed());
        guard.told(SETTING.as_bytes(), b"on");
        assert!(!guard.is_needed());
    }

    #[test]
    fn a_server_that_tells_nothing_is_asked_each_time_and_one_that_says_off_is_refused() {
        let mut guard = Guard::new(None).unwrap();
        for _ in 0..3 {
            assert!(guard.is_needed());
            guard.sent();
            assert!(guard.answered());
        }
        assert!(Guard::new(Some(false)).is_err());
        let mut free = Guard::default();
        free.told(SETTING.as_bytes(), b"off");
        assert!(!free.is_needed());
    }
}
