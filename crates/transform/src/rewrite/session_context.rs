//! Tracks the context of a session's statements: whether another session may send them instead.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use workload::{Event, EventKind, SessionState};

/// Context of the next statement of a session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SessionContext {
    /// Hash of the database, the user and the settings: sessions with the same hash are interchangeable.
    pub(super) hash: u64,
    /// It is within a transaction block.
    pub(super) in_transaction: bool,
    /// It has temporary tables, which no other session sees.
    pub(super) has_temporary_objects: bool,
}

impl SessionContext {
    /// Returns whether no other session can send its next statement.
    pub(super) fn is_exclusive(self) -> bool {
        self.in_transaction || self.has_temporary_objects
    }
}

/// Tracks the context of every open session.
#[derive(Debug, Default)]
pub(super) struct SessionContexts {
    sessions: HashMap<u64, Session>,
}

#[derive(Debug, Default)]
struct Session {
    /// Hash of the database, the user and the settings at the start.
    connection: u64,
    state: SessionState,
    context: SessionContext,
}

impl SessionContexts {
    /// Returns the context of a session; one that was never seen is in no transaction.
    pub(super) fn get(&self, session: u64) -> SessionContext {
        let session = self.sessions.get(&session);
        session.map_or_else(SessionContext::default, |session| session.context)
    }

    /// Updates the context by the next event.
    pub(super) fn follow(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Connect { database, user, .. } => {
                let mut hasher = DefaultHasher::new();
                (database, user).hash(&mut hasher);
                if let Some(particulars) = &event.wire_details {
                    particulars.settings.hash(&mut hasher);
                }
                let connection = hasher.finish();
                let session = Session {
                    connection,
                    context: SessionContext {
                        hash: connection,
                        ..SessionContext::default()
                    },
                    ..Session::default()
                };
                self.sessions.insert(event.session, session);
            }
            EventKind::Disconnect => {
                self.sessions.remove(&event.session);
            }
            kind if kind.is_statement() => {
                let session = self.sessions.entry(event.session).or_default();
                if session.state.follow(event) {
                    session.refresh();
                }
            }
            _ => {}
        }
    }
}

impl Session {
    /// Derives the context from the state.
    fn refresh(&mut self) {
        let mut settings = self.state.settings().peekable();
        let hash = match settings.peek() {
            None => self.connection,
            Some(_) => {
                let mut hasher = DefaultHasher::new();
                self.connection.hash(&mut hasher);
                for kind in settings {
                    kind.sql().hash(&mut hasher);
                    if let EventKind::Execute { parameters, .. } = kind {
                        parameters.hash(&mut hasher);
                    }
                }
                hasher.finish()
            }
        };
        self.context = SessionContext {
            hash,
            in_transaction: self.state.in_transaction(),
            has_temporary_objects: self.state.has_temporary_objects(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{connect, simple};
    use super::*;

    /// Returns the context of a session that connects and sends these statements.
    fn context_after(statements: &[&str]) -> SessionContext {
        let mut contexts = SessionContexts::default();
        contexts.follow(&connect(1, 0));
        for sql in statements {
            contexts.follow(&simple(1, 0, sql));
        }
        contexts.get(1)
    }

    #[test]
    fn context_of_sessions_with_the_same_settings_is_the_same() {
        let initial = context_after(&[]).hash;
        for same in [
            &["set a.b = 1", "reset all"][..],
            &["begin", "set a.b = 1", "rollback"],
            &["begin", "set local a.b = 1", "commit"],
            &["prepare p as select 1"],
        ] {
            assert_eq!(context_after(same).hash, initial, "{same:?}");
        }
        let set = context_after(&["set a.b = 1"]).hash;
        assert_ne!(set, initial);
        assert_eq!(context_after(&["set a.b = 2", "set a.b = 1"]).hash, set);
        assert_ne!(context_after(&["set a.b = 2"]).hash, set);
    }

    #[test]
    fn context_is_exclusive_in_a_transaction_and_with_temporary_tables() {
        for (statements, expected) in [
            (&["select 1"][..], false),
            (&["begin"], true),
            (&["begin", "commit"], false),
            (&["create temp table t (a int)"], true),
            (&["create temp table t (a int)", "drop table t"], false),
        ] {
            assert_eq!(
                context_after(statements).is_exclusive(),
                expected,
                "{statements:?}"
            );
        }
    }
}
