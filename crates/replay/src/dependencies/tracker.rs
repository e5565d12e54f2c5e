//! Finds, for the dispatcher, the executions of other sessions on which a statement depends.

use std::collections::HashMap;

use sql::{SessionEffect, StatementClass, TwoPhaseCommit};
use workload::{Boundary, Event, EventKind};

use super::access::{Access, Accesses, Conflict, Mode, Precedence};
use super::lock_order::LockOrder;
use super::row_effect::RowEffect;
use super::row_sets::{RowPlan, RowPlanCache, RowSet};
use crate::event_id::EventId;
use crate::followed_values::FollowedValues;
use crate::generated::{KeyColumns, StatementPlaces, Value, ValueSource};

#[derive(Debug, Default)]
struct SessionState {
    /// Number of transactions that are over.
    transaction: u64,
    in_transaction: bool,
    /// Last event.
    last: Option<Access>,
    /// Executions of other sessions that use a snapshot that this transaction exported.
    importers: Vec<Access>,
}

/// Follows the events of a workload in captured time.
#[derive(Debug)]
pub(crate) struct DependencyTracker<'k> {
    keys: &'k KeyColumns,
    locks: &'k LockOrder,
    plans: RowPlanCache,
    /// Space for the sets of rows of one statement, and for values.
    sets: Vec<(RowSet, Mode)>,
    texts: Vec<u8>,
    sessions: HashMap<u64, SessionState>,
    ends: TransactionEnds,
    accesses: Accesses,
    /// Last change of the schema.
    ddl: Option<Access>,
    /// Prepared transactions by name: session and transaction.
    prepared: HashMap<String, (u64, u64)>,
    /// Precision of captured times.
    precision_us: i64,
}

/// Ends of transactions: the sequence number and time of the event that ended each.
#[derive(Debug, Default)]
struct TransactionEnds {
    recent: HashMap<(u64, u64), (EventId, i64)>,
    /// Those before; dropped when there are too many recent ones.
    earlier: HashMap<(u64, u64), (EventId, i64)>,
}

impl TransactionEnds {
    /// Most recent ends.
    const RECENT_MAX: usize = 200_000;

    fn insert(&mut self, transaction: (u64, u64), end: (EventId, i64)) {
        if self.recent.len() == Self::RECENT_MAX {
            self.earlier = std::mem::take(&mut self.recent);
        }
        self.recent.insert(transaction, end);
    }

    fn get(&self, transaction: (u64, u64)) -> Option<(EventId, i64)> {
        let found = self.recent.get(&transaction);
        found.or_else(|| self.earlier.get(&transaction)).copied()
    }
}

impl<'k> DependencyTracker<'k> {
    pub(crate) fn new(values: &'k FollowedValues) -> Self {
        DependencyTracker {
            keys: &values.keys,
            locks: &values.locks,
            precision_us: values.time_precision_us,
            plans: RowPlanCache::default(),
            sets: Vec::new(),
            texts: Vec::new(),
            sessions: HashMap::new(),
            ends: TransactionEnds::default(),
            accesses: Accesses::default(),
            ddl: None,
            prepared: HashMap::new(),
        }
    }

    /// Whether no event of the session was taken.
    pub(crate) fn is_new(&self, session: u64) -> bool {
        !self.sessions.contains_key(&session)
    }

    /// Returns the number of the session's transaction.
    pub(crate) fn transaction(&self, session: u64) -> u64 {
        self.sessions
            .get(&session)
            .map_or(0, |state| state.transaction)
    }

    /// Takes the next event, and returns the executions of other sessions on which it depends. `sources` are those that
    /// generated the values it uses, and `effect` is that of its text.
    pub(crate) fn track(
        &mut self,
        event: &Event,
        places: Option<&StatementPlaces>,
        effect: SessionEffect,
        sources: &[ValueSource],
    ) -> Vec<EventId> {
        let end_us = event
            .due_us
            .saturating_add_unsigned(event.outcome.duration_us.unwrap_or(0));
        let plan = places.and_then(|places| self.plans.get(event, &places.values, self.keys));
        let state = self.sessions.entry(event.session).or_default();
        let access = Access {
            session: event.session,
            transaction: state.transaction,
            sequence: event.sequence,
            end_us,
            has_failed: event.outcome.sqlstate.is_some(),
            effect: plan
                .as_ref()
                .map_or(RowEffect::Unknown, |plan| RowEffect::of(event, plan.class)),
        };
        let mut found = Found {
            due_us: event.due_us,
            latest_due_us: event.due_us + self.precision_us,
            end_us,
            session: event.session,
            effect: access.effect,
            last: HashMap::new(),
        };
        for source in sources {
            let source_access = Access {
                session: source.session,
                transaction: source.transaction,
                sequence: source.sequence,
                end_us: source.end_us,
                has_failed: false,
                effect: RowEffect::Unknown,
            };
            match source.value {
                // The transaction that exported it must be open, and stay so.
                Value::Snapshot(_) => {
                    found.add_execution(source_access);
                    let exporter = self.sessions.entry(source.session).or_default();
                    exporter.importers.push(access);
                }
                _ => {
                    found.add(source_access, Conflict::Visibility, &self.ends);
                    if self.precision_us > 0 {
                        // The use shows that it was over, more exactly than the times of a log.
                        found.add_id((source.session, source.sequence), found.due_us);
                    }
                }
            }
        }
        if let (Some(sql), Some(plan)) = (event.kind.sql(), plan) {
            self.add_statement(event, sql, &plan, access, &mut found);
        }
        for id in self.locks.before((event.session, event.sequence)) {
            found.add_id(id, found.due_us);
        }
        self.end_event(event, effect, access, &mut found);
        found.last.into_iter().collect()
    }

    fn add_statement(
        &mut self,
        event: &Event,
        sql: &str,
        plan: &RowPlan,
        access: Access,
        found: &mut Found,
    ) {
        if let Some(ddl) = self.ddl {
            found.add(ddl, Conflict::Visibility, &self.ends);
        }
        let ends_prepared = TwoPhaseCommit::of(sql) == Some(TwoPhaseCommit::Finish);
        if ends_prepared && event.outcome.sqlstate.is_none() {
            self.finish_prepared(sql, access, found);
        }
        if plan.class == StatementClass::Ddl && changes_schema(sql) {
            // It follows what was over in all sessions.
            for state in self.sessions.values() {
                if let Some(last) = state.last {
                    found.add_execution(last);
                }
            }
            self.ddl = Some(access);
        }
        plan.add_sets(event, &mut self.texts, &mut self.sets);
        for (rows, mode) in self.sets.drain(..) {
            self.accesses.add(rows, mode, access, |one, conflict| {
                found.add(one, conflict, &self.ends)
            });
        }
    }

    /// Ends the transaction that another session prepared.
    fn finish_prepared(&mut self, sql: &str, access: Access, found: &mut Found) {
        if let Some(name) = prepared_name(sql)
            && let Some(transaction) = self.prepared.remove(&name)
        {
            if let Some((id, end_us)) = self.ends.get(transaction) {
                found.add_id(id, end_us);
            }
            self.ends.insert(
                transaction,
                ((access.session, access.sequence), access.end_us),
            );
        }
    }

    /// Follows the transaction of the event's session.
    fn end_event(
        &mut self,
        event: &Event,
        effect: SessionEffect,
        access: Access,
        found: &mut Found,
    ) {
        if event.kind == EventKind::Disconnect {
            self.sessions.remove(&event.session);
            return;
        }
        let Some(state) = self.sessions.get_mut(&event.session) else {
            return;
        };
        state.last = Some(access);
        let details = event.wire_details.as_ref();
        let ends_group = details.is_none_or(|details| details.boundary == Boundary::Sync);
        let ends = effect.ends_transaction
            || !state.in_transaction && !effect.begins_transaction && ends_group;
        if ends {
            for importer in std::mem::take(&mut state.importers) {
                found.add_execution(importer);
            }
            let end = ((event.session, event.sequence), access.end_us);
            let transaction = (event.session, state.transaction);
            self.ends.insert(transaction, end);
            state.transaction += 1;
            if let Some(sql) = event.kind.sql()
                && TwoPhaseCommit::of(sql) == Some(TwoPhaseCommit::Prepare)
                && let Some(name) = prepared_name(sql)
            {
                self.prepared.insert(name, transaction);
            }
        }
        state.in_transaction =
            effect.begins_transaction || state.in_transaction && !effect.ends_transaction;
    }
}

/// Executions found so far: the last of each session.
struct Found {
    due_us: i64,
    /// Latest time at which the statement may have begun, by the precision of captured times.
    latest_due_us: i64,
    end_us: i64,
    session: u64,
    effect: RowEffect,
    last: HashMap<u64, u64>,
}

impl Found {
    /// Adds an execution, or the end of its transaction if that was over.
    fn add(&mut self, access: Access, conflict: Conflict, ends: &TransactionEnds) -> Precedence {
        if access.session == self.session {
            return Precedence::Open;
        }
        match ends.get((access.session, access.transaction)) {
            Some((id, end_us)) if self.is_over(end_us, conflict) => {
                self.add_id(id, end_us);
                Precedence::Over
            }
            _ => {
                let ended_first = access.end_us < self.end_us;
                let had_lock = conflict == Conflict::Locks
                    && access.effect.precedes(self.effect).unwrap_or(ended_first);
                if had_lock || self.is_over(access.end_us, conflict) {
                    self.add_id((access.session, access.sequence), self.due_us);
                }
                Precedence::Open
            }
        }
    }

    /// Whether what ended at a time was over when the statement began. Within the precision of captured times, of two that
    /// lock the same row, the first to end was first.
    fn is_over(&self, end_us: i64, conflict: Conflict) -> bool {
        end_us <= self.due_us
            || end_us <= self.latest_due_us
                && (conflict == Conflict::Visibility || end_us < self.end_us)
    }

    /// Adds an execution, if it was over.
    fn add_execution(&mut self, access: Access) {
        self.add_id((access.session, access.sequence), access.end_us);
    }

    fn add_id(&mut self, (session, sequence): EventId, end_us: i64) {
        if session != self.session && end_us <= self.latest_due_us {
            let last = self.last.entry(session).or_insert(sequence);
            *last = sequence.max(*last);
        }
    }
}

/// Returns the name of a prepared transaction in a text.
fn prepared_name(sql: &str) -> Option<String> {
    let statements = sql::split_statements(sql);
    let of_one = |words: &[sql::Lexeme<'_>]| match words {
        [first, second, name]
            if first.is("prepare") && second.is("transaction") || second.is("prepared") =>
        {
            Some(name.text().to_owned())
        }
        _ => None,
    };
    statements
        .iter()
        .find_map(|statement| of_one(&statement.words))
}

/// Whether a text changes the schema that other sessions see.
fn changes_schema(sql: &str) -> bool {
    let statements = sql::split_statements(sql);
    statements.iter().any(|statement| {
        let Some((first, rest)) = statement.words.split_first() else {
            return false;
        };
        let temporary = |word: &sql::Lexeme<'_>| word.is("temp") || word.is("temporary");
        match first.is("create") {
            true => !rest.iter().take(3).any(temporary),
            false => CHANGES.iter().any(|word| first.is(word)),
        }
    })
}

/// First words of commands of [`StatementClass::Ddl`], other than `CREATE`.
const CHANGES: [&str; 13] = [
    "alter", "drop", "truncate", "grant", "revoke", "comment", "refresh", "reindex", "cluster",
    "repack", "import", "reassign", "security",
];

#[cfg(test)]
mod tests;
