//! Keeps a session read-only. The session starts with `default_transaction_read_only` on. If a statement turned
//! it off, it is set again in front of the next statement.
//!
//! From PostgreSQL 14 on, the server reports changes of that setting (documentation, 54.2.7,
//! `ParameterStatus`), also if a function made them. On older servers it is set in front of every statement.
//!
//! The server reports a change only when it is ready for the next statement, and a transaction keeps the mode
//! that it began with. So no statement is sent before the previous one is answered, except within a group of
//! messages that one Sync ends: such a group is one transaction, if no statement within it ends that.

use workload::Sqlstate;

use crate::connect::ConnectError;

/// Name of the setting.
pub(crate) const SETTING: &str = "default_transaction_read_only";

/// `read_only_sql_transaction`: here, the session is not read-only.
const NOT_KEPT: Sqlstate = Sqlstate(*b"25006");

/// Guard of one session: whether the setting must be set again before the next statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReadOnlyGuard {
    reports: SettingReports,
    needed: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SettingReports {
    /// The session may write.
    #[default]
    Off,
    /// The server reports changes of the setting.
    Reported,
    /// The server does not report them.
    Unreported,
}

impl ReadOnlyGuard {
    /// Creates the guard of a session that must not write. `reported` is the setting's value at the session's
    /// start; `None` if the server did not report it.
    ///
    /// # Errors
    /// If the server did not apply the setting.
    pub(crate) fn new(reported: Option<bool>) -> Result<Self, ConnectError> {
        match reported {
            Some(true) => Ok(ReadOnlyGuard {
                reports: SettingReports::Reported,
                ..ReadOnlyGuard::default()
            }),
            None => Ok(ReadOnlyGuard {
                reports: SettingReports::Unreported,
                needed: true,
            }),
            Some(false) => Err(ConnectError {
                sqlstate: NOT_KEPT,
                message: format!(
                    "--read-only: {SETTING} is not on in a session that asked for it; is there a pooler in between that does not pass it on?"
                ),
            }),
        }
    }

    /// Takes a ParameterStatus message.
    pub(crate) fn parameter_changed(&mut self, name: &[u8], value: &[u8]) {
        if self.reports == SettingReports::Reported && name == SETTING.as_bytes() {
            self.needed = value != b"on";
        }
    }

    /// Whether [`message`] must precede the next statement.
    #[inline]
    pub(crate) fn is_needed(&self) -> bool {
        self.needed
    }

    /// Whether the session must be read-only.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.reports != SettingReports::Off
    }
}

/// Returns the message that sets the setting again. In a failed transaction it fails, and is sent again with
/// the next statement. In an open transaction it takes effect, or is rolled back together with the change.
pub(crate) fn message() -> &'static [u8] {
    b"Q\0\0\0\x35SET SESSION default_transaction_read_only TO on \0"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guard_message_is_the_encoded_query() {
        let mut encoded = Vec::new();
        protocol::frontend::Query {
            sql: b"SET SESSION default_transaction_read_only TO on ",
        }
        .encode(&mut encoded)
        .unwrap();
        assert_eq!(message(), encoded);
    }

    #[test]
    fn guard_is_needed_from_a_report_of_off_until_on() {
        let mut guard = ReadOnlyGuard::new(Some(true)).unwrap();
        assert!(!guard.is_needed());
        guard.parameter_changed(b"application_name", b"off");
        assert!(!guard.is_needed());
        guard.parameter_changed(SETTING.as_bytes(), b"off");
        assert!(guard.is_needed());
        // In a failed transaction the server refuses it: it is sent again.
        assert!(guard.is_needed());
        guard.parameter_changed(SETTING.as_bytes(), b"on");
        assert!(!guard.is_needed());
    }

    #[test]
    fn guard_without_reports_is_always_needed_and_off_at_start_is_refused() {
        let mut guard = ReadOnlyGuard::new(None).unwrap();
        assert!(guard.is_needed());
        guard.parameter_changed(SETTING.as_bytes(), b"on");
        assert!(guard.is_needed());
        assert!(ReadOnlyGuard::new(Some(false)).is_err());
        let mut free = ReadOnlyGuard::default();
        free.parameter_changed(SETTING.as_bytes(), b"off");
        assert!(!free.is_needed());
    }
}
