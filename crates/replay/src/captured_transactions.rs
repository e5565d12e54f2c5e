//! Transactions of the capture: which are open, and which have failed.
//!
//! A transaction that was rolled back in the capture must not be committed in the replay. What made it fail may
//! succeed here (a timeout, a lost race), or may not be sent (a Bind whose values the source does not have). So
//! the replay knows of each statement whether its transaction had failed in the capture, and makes the transaction
//! fail here as well, before the statement is sent ([`ABORT_QUERY`]).

use std::collections::HashMap;

use sql::{Effect, SessionEffect, read_effects, split_statements};
use workload::{Event, EventKind, Sqlstate};

/// `in_failed_sql_transaction`
pub(crate) const IN_FAILED_TRANSACTION: Sqlstate = Sqlstate(*b"25P02");

/// A statement that fails and does nothing else; it says in the server's log why it was sent.
pub(crate) const ABORT_QUERY: &[u8] =
    b"Q\0\0\0\x44ROLLBACK TO SAVEPOINT \"rehearse: it failed in the captured run\"\0";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Healthy,
    Failed,
}

/// Open transactions of the capture, by session.
#[derive(Debug, Default)]
pub(crate) struct CapturedTransactions {
    open: HashMap<u64, State>,
}

impl CapturedTransactions {
    /// Takes the next event. Returns whether its transaction had failed before, so that the event was refused or
    /// rolled the transaction back although it asked for a commit.
    pub(crate) fn follow(&mut self, event: &Event, effect: SessionEffect) -> bool {
        let session = event.session;
        let failed = event.outcome.sqlstate.is_some();
        if self.open.is_empty() && !failed && !effect.begins_transaction {
            return false;
        }
        let sql = match &event.kind {
            EventKind::Connect { .. } | EventKind::Disconnect => {
                self.open.remove(&session);
                return false;
            }
            EventKind::Cancel => return false,
            kind => kind.sql().map_or("", |sql| sql),
        };
        if event.outcome.sqlstate == Some(IN_FAILED_TRANSACTION) {
            self.open.insert(session, State::Failed);
            return true;
        }
        if effect.ends_transaction || effect.begins_transaction {
            let before = self.open.remove(&session);
            if effect.begins_transaction && !(failed && effect.ends_transaction) {
                let state = if failed {
                    State::Failed
                } else {
                    State::Healthy
                };
                self.open.insert(session, state);
            }
            return effect.ends_transaction && before == Some(State::Failed) && !rolls_back(sql);
        }
        if let Some(state) = self.open.get_mut(&session) {
            if failed {
                *state = State::Failed;
            } else if is_answered(event) {
                // ROLLBACK TO: nothing else succeeds in a failed transaction.
                *state = State::Healthy;
            }
        }
        false
    }
}

/// Whether the capture knows that the server executed the event. It may have skipped one of a pipeline. A Prepare
/// of a log has no known time.
fn is_answered(event: &Event) -> bool {
    match &event.wire_details {
        None => !matches!(event.kind, EventKind::Prepare { .. }) && event.unreplayable.is_none(),
        Some(_) => event.outcome.duration_us.is_some() || event.outcome.rows.is_some(),
    }
}

/// Returns whether a text that ends a transaction asks for a rollback.
#[cold]
fn rolls_back(sql: &str) -> bool {
    let statements = split_statements(sql);
    let mut ends = statements
        .iter()
        .flat_map(|one| read_effects(one, &[]))
        .filter(|effect| matches!(effect, Effect::Commit { .. } | Effect::Rollback { .. }));
    matches!(ends.next(), Some(Effect::Rollback { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Outcome;

    /// Returns the statements of one session whose transaction had failed before them. A failed one is marked with
    /// `!`, a refused one with `?`.
    fn flagged<'a>(statements: &[&'a str]) -> Vec<&'a str> {
        let mut transactions = CapturedTransactions::default();
        let mut found = Vec::new();
        for marked in statements {
            let sql = marked.trim_end_matches(['!', '?']);
            let sqlstate = match marked.as_bytes()[marked.len() - 1] {
                b'!' => Some(Sqlstate(*b"22P02")),
                b'?' => Some(IN_FAILED_TRANSACTION),
                _ => None,
            };
            let event = Event {
                session: 1,
                sequence: 0,
                due_us: 0,
                kind: EventKind::Simple { sql: sql.into() },
                outcome: Outcome {
                    sqlstate,
                    ..Outcome::default()
                },
                unreplayable: None,
                source: 0,
                line: 0,
                prelude: false,
                wire_details: None,
            };
            if transactions.follow(&event, SessionEffect::of(sql)) {
                found.push(*marked);
            }
        }
        found
    }

    #[test]
    fn commit_after_a_failure_was_a_rollback() {
        assert_eq!(flagged(&["begin", "select 1!", "commit"]), ["commit"]);
        assert_eq!(flagged(&["begin", "x!", "y?", "end"]), ["y?", "end"]);
        assert_eq!(flagged(&["begin; x!", "prepare transaction 'a'"]).len(), 1);
        assert_eq!(
            flagged(&["begin", "x!", "commit and chain", "y", "commit"]),
            ["commit and chain"]
        );
        // A capture that begins within a transaction.
        assert_eq!(flagged(&["y?", "commit", "commit"]), ["y?", "commit"]);
    }

    #[test]
    fn failure_without_consequence_flags_nothing() {
        for statements in [
            &["select 1!", "commit"][..],
            &["begin", "x!", "rollback", "begin", "commit"],
            &["begin", "savepoint a", "x!", "rollback to a", "y", "commit"],
            &["begin", "commit!", "commit"],
            &["begin; x!; commit", "commit"],
            &["begin", "x!", "/* now */ rollback and chain", "y", "commit"],
            &["begin", "commit and chain!", "x", "commit"],
        ] {
            assert_eq!(flagged(statements), [""; 0], "{statements:?}");
        }
    }

    #[test]
    fn abort_query_is_encoded() {
        let mut encoded = Vec::new();
        protocol::frontend::Query {
            sql: &ABORT_QUERY[5..ABORT_QUERY.len() - 1],
        }
        .encode(&mut encoded)
        .unwrap();
        assert_eq!(encoded, ABORT_QUERY);
    }
}
