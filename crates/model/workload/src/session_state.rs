//! State of a session that its later statements depend on, as the statements that restore it.
//!
//! [`SessionStateTracker`] follows one session through its transactions and keeps the statements that made
//! the session's objects. It has three users, which learn the outcome of a transaction from different
//! sources:
//!
//! - A slice reads a workload and also keeps the statements of an open transaction. It uses the tracker.
//! - A transformation, and a replay that is resumed, read a workload only. [`SessionState::follow`] reads
//!   transactions from the text and failures from the events.
//! - A replay and a proxy observe a server, where a statement may succeed or fail other than in the workload.
//!   [`SessionState::record`] takes the outcome from the server, and [`SessionState::idle`] ends a
//!   transaction.
//!
//! Only the text of statements is read; settings that a function makes are not detected. Temporary objects
//! are restored without their rows.

mod objects;
mod tracker;

use crate::event::{Event, EventKind, Outcome, Sqlstate};
use sql::{Effect, SqlStatement, may_have_effects};

pub use tracker::{
    AnalyzedStatement, RestoringStatements, SessionStateTracker, analyze_statements,
    join_statements, with_statement,
};

/// Restorable state of a session: settings, prepared statements, channels, advisory locks, temporary objects. A session
/// without such state takes two words of memory.
#[derive(Debug, Clone, Default)]
pub struct SessionState {
    tracked: Option<Box<Tracked>>,
    /// The server's last command tag that ended a transaction was COMMIT. It may arrive before the statements of the
    /// transaction are recorded.
    committed: bool,
}

#[derive(Debug, Clone, Default)]
struct Tracked {
    tracker: SessionStateTracker,
    /// Number of recorded statements.
    recorded: u64,
}

impl SessionState {
    /// Follows the next event of a session as the workload records it. Returns whether the state may have
    /// changed.
    pub fn follow(&mut self, event: &Event) -> bool {
        let Some(sql) = event.kind.sql() else {
            return false;
        };
        let is_executed = matches!(
            event.kind,
            EventKind::Simple { .. } | EventKind::Execute { .. }
        );
        let fails_transaction = event.outcome.sqlstate.is_some() && self.in_transaction();
        if !(is_executed && may_have_effects(sql) || fails_transaction) {
            return false;
        }
        let statements = analyze_statements(&event.kind, sql);
        let tracked = self.tracked.get_or_insert_default();
        tracked.tracker.record(event, &statements, |_| false);
        true
    }

    /// Records a statement that a server has completed, or failed with `sqlstate`. `in_transaction` is the
    /// status that the server reported before it. Needed only for a text whose
    /// [`sql::SessionEffect::changes_state`] is true.
    pub fn record(&mut self, kind: EventKind, sqlstate: Option<Sqlstate>, in_transaction: bool) {
        let tracked = self.tracked.get_or_insert_default();
        if in_transaction && !tracked.tracker.in_transaction() {
            tracked.begin();
        }
        let Some(sql) = kind.sql().cloned() else {
            return;
        };
        let statements = analyze_statements(&kind, &sql);
        let event = tracked.event(kind, sqlstate);
        tracked.tracker.record(&event, &statements, |_| false);
    }

    /// Records the tag of a command that a server has completed.
    #[inline]
    pub fn command_complete(&mut self, tag: &[u8]) {
        match tag {
            b"COMMIT" => self.committed = true,
            b"ROLLBACK" => self.committed = false,
            _ => {}
        }
    }

    /// Ends the recorded transaction as the last command tag says, since the server reports that none is
    /// open.
    #[inline]
    pub fn idle(&mut self) {
        if let Some(tracked) = &mut self.tracked {
            tracked.tracker.end(self.committed);
        }
    }

    /// Rolls the open transaction back, if there is one.
    pub fn roll_back(&mut self) {
        if let Some(tracked) = &mut self.tracked {
            tracked.tracker.end(false);
        }
    }

    /// Whether a transaction is open.
    pub fn in_transaction(&self) -> bool {
        (self.tracked.as_ref()).is_some_and(|tracked| tracked.tracker.in_transaction())
    }

    /// Whether the state cannot be restored on another connection: rows of temporary tables, cursors, locks,
    /// and channels that are listened to.
    pub fn is_bound_to_connection(&self) -> bool {
        (self.tracked.as_ref())
            .is_some_and(|tracked| tracked.tracker.objects().are_bound_to_connection())
    }

    /// Whether there are temporary objects, including those of an open transaction.
    pub fn has_temporary_objects(&self) -> bool {
        (self.tracked.as_ref())
            .is_some_and(|tracked| tracked.tracker.objects().temporary_count() > 0)
    }

    /// Returns the statements that made the settings outside of transactions, in their order.
    pub fn settings(&self) -> impl Iterator<Item = &EventKind> {
        let tracked = self.tracked.iter();
        tracked.flat_map(|tracked| {
            tracked
                .tracker
                .objects()
                .settings()
                .map(|event| &event.kind)
        })
    }

    /// Returns the statements that restore the state on a new connection, in their order. An open transaction
    /// counts as rolled back.
    pub fn restoring_statements(&self) -> Vec<EventKind> {
        let Some(mut tracked) = self.tracked.clone() else {
            return Vec::new();
        };
        tracked.tracker.end(false);
        let events = tracked.tracker.take_statements().events;
        events.into_iter().map(|event| event.kind).collect()
    }
}

impl Tracked {
    /// Begins a transaction whose BEGIN was not recorded.
    fn begin(&mut self) {
        let sql = "begin";
        let begin = AnalyzedStatement {
            statement: SqlStatement {
                text: sql,
                words: Vec::new(),
            },
            effects: vec![Effect::Begin],
        };
        let event = self.event(EventKind::Simple { sql: sql.into() }, None);
        self.tracker.record(&event, &[begin], |_| false);
    }

    /// Makes the event of the next statement.
    fn event(&mut self, kind: EventKind, sqlstate: Option<Sqlstate>) -> Event {
        self.recorded += 1;
        Event {
            session: 0,
            sequence: self.recorded,
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
            wire_details: None,
        }
    }
}

#[cfg(test)]
mod tests;
