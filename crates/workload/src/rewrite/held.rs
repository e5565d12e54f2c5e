//! What a session holds at the server, so that another connection can be brought to where it was.
//!
//! Who drives: a replay whose connection was lost. It knows from the server whether a transaction is
//! open; what a statement did is read from its words ([`super`]), so settings that a function makes
//! are not seen, and temporary objects come back without their rows.

use super::effects::{Effect, effects, may_have_effects};
use super::parts::{Part, parts};
use super::session_state::{SessionState, Step};
use super::slice::steps_of;
use crate::event::{Event, EventKind, Outcome, Sqlstate};

/// What a statement has to do with its session's transaction and with what it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Bearing {
    /// It may change what the session holds outside of transactions: [`Held`] is to be told.
    pub holds: bool,
    /// It leaves a transaction open that was not open before.
    pub begins: bool,
    /// It ends an open transaction, and leaves none open.
    pub ends: bool,
}

impl Bearing {
    /// Reads it from the words of a text, which may hold several statements.
    pub fn of(sql: &str) -> Self {
        if !may_have_effects(sql) {
            return Bearing::default();
        }
        let mut bearing = Bearing::default();
        for part in parts(sql) {
            for effect in effects(&part, &[]) {
                match effect {
                    Effect::Begin => bearing.begins = true,
                    Effect::Commit { chain: true } | Effect::Rollback { chain: true } => {}
                    Effect::Commit { chain: false } | Effect::Rollback { chain: false } => {
                        // Of BEGIN … COMMIT in one text nothing is open behind it.
                        bearing.ends = !std::mem::take(&mut bearing.begins);
                    }
                    Effect::Local => {}
                    _ => bearing.holds = true,
                }
            }
        }
        bearing
    }
}

/// What one session holds: settings, prepared statements, channels, locks, temporary objects.
#[derive(Debug, Clone, Default)]
pub struct Held {
    state: SessionState,
    /// Statements that were taken in.
    taken: u64,
}

impl Held {
    /// A statement was done, or failed with `sqlstate`; `in_transaction`: in an open transaction,
    /// as the server said before it.
    pub fn take(&mut self, kind: EventKind, sqlstate: Option<Sqlstate>, in_transaction: bool) {
        if in_transaction && !self.state.in_transaction() {
            let step = Step {
                part: Part {
                    text: "begin",
                    words: Vec::new(),
                },
                effects: vec![Effect::Begin],
            };
            let begin = EventKind::Simple {
                sql: "begin".into(),
            };
            self.state
                .take(&event(begin, None, self.taken), &[step], |_| false);
            self.taken += 1;
        }
        let Some(sql) = kind.sql().cloned() else {
            return;
        };
        let steps = steps_of(&kind, &sql);
        self.state
            .take(&event(kind, sqlstate, self.taken), &steps, |_| false);
        self.taken += 1;
    }

    /// Whether something was told that counts once its transaction has ended.
    pub fn waits_for_commit(&self) -> bool {
        self.state.in_transaction()
    }

    /// The open transaction has ended.
    pub fn transaction_ended(&mut self, committed: bool) {
        self.state.end(committed);
    }

    /// Whether something is held that another connection cannot be given: rows of temporary tables,
    /// cursors, locks, and channels that are listened to.
    pub fn hangs_on_connection(&self) -> bool {
        self.state.items().hang_on_connection()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.state.items().is_empty()
    }

    /// The statements that bring a new connection to what is held outside of transactions, in their
    /// order.
    pub fn statements(&self) -> Vec<EventKind> {
        let mut state = self.state.clone();
        state.end(false);
        let events = state.give_out().events.into_iter();
        events.map(|event| event.kind).collect()
    }
}

fn event(kind: EventKind, sqlstate: Option<Sqlstate>, sequence: u64) -> Event {
    Event {
        session: 0,
        sequence,
        due_us: 0,
        kind,
        outcome: Outcome {
            sqlstate,
            ..Outcome::default()
        },
        unreplayable: None,
        source: 0,
        line: 0,
        prelude: false,
        particulars: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearing(holds: bool, begins: bool, ends: bool) -> Bearing {
        Bearing {
            holds,
            begins,
            ends,
        }
    }

    #[test]
    fn words_say_what_bears_on_the_session() {
        let nothing = Bearing::default();
        for (sql, expected) in [
            ("select 1", nothing),
            ("UPDATE t SET a = 1", nothing),
            ("BEGIN", bearing(false, true, false)),
            ("start transaction read only", bearing(false, true, false)),
            ("COMMIT", bearing(false, false, true)),
            ("end;", bearing(false, false, true)),
            ("rollback", bearing(false, false, true)),
            ("rollback to savepoint a", bearing(true, false, false)),
            ("commit and chain", nothing),
            ("commit prepared 'x'", nothing),
            ("prepare transaction 'x'", bearing(false, false, true)),
            (
                "begin; update t set a = 1; commit",
                bearing(false, false, false),
            ),
            ("commit; begin", bearing(false, true, true)),
            ("begin; set a.b = 1", bearing(true, true, false)),
            ("set search_path = x", bearing(true, false, false)),
            ("set local search_path = x", nothing),
            (
                "select set_config('a.b', '1', false)",
                bearing(true, false, false),
            ),
            ("prepare p as select 1", bearing(true, false, false)),
        ] {
            assert_eq!(Bearing::of(sql), expected, "{sql}");
        }
    }

    fn simple(sql: &str) -> EventKind {
        EventKind::Simple { sql: sql.into() }
    }

    fn texts(held: &Held) -> Vec<String> {
        let sql = |kind: EventKind| kind.sql().unwrap().to_string();
        held.statements().into_iter().map(sql).collect()
    }

    #[test]
    fn what_was_rolled_back_is_not_held() {
        let mut held = Held::default();
        held.take(simple("set a.b = 1"), None, false);
        held.take(simple("set a.c = 1"), Some(Sqlstate(*b"42602")), false);
        assert_eq!(texts(&held), ["set a.b = 1"]);
        held.take(simple("set a.b = 2"), None, true);
        held.take(simple("prepare p as select 1"), None, true);
        assert!(held.waits_for_commit());
        // The connection is lost now: prepared statements stay only as long as it.
        assert_eq!(texts(&held), ["set a.b = 1", "prepare p as select 1"]);
        held.transaction_ended(false);
        assert_eq!(texts(&held), ["set a.b = 1", "prepare p as select 1"]);
        held.take(simple("set a.b = 3"), None, true);
        held.transaction_ended(true);
        held.take(simple("deallocate p"), None, false);
        // It went between the two settings, which did no harm together.
        assert_eq!(texts(&held), ["set a.b = 1", "set a.b = 3"]);
        held.take(simple("set a.b = 4"), None, false);
        assert_eq!(texts(&held), ["set a.b = 4"]);
        assert!(!held.hangs_on_connection() && !held.is_empty());
        held.take(simple("create temp table t (a int)"), None, false);
        assert!(held.hangs_on_connection());
        held.take(simple("discard all"), None, false);
        assert!(!held.hangs_on_connection() && held.is_empty());
        assert_eq!(texts(&held), Vec::<String>::new());
    }
}
