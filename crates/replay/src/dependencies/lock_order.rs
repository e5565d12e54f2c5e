//! Order in which statements that ran at the same time got the locks of the same rows.
//!
//! A statement that waits for a row lock ends after the one that holds it. So of two overlapping ones, the first to end
//! had the lock, even if it began later. The ends are those that the client saw, so that outcomes count first: a
//! duplicate key follows the insert of that key. One pass over the workload finds them, since the dispatcher has not read the
//! later one when it dispatches the earlier one.

use std::collections::HashMap;

use workload::Event;

use super::access::Mode;
use super::row_effect::RowEffect;
use super::row_sets::{RowPlanCache, RowSet};
use crate::event_id::EventId;
use crate::event_stream::COPY_SESSION_OFFSET;
use crate::generated::{KeyColumns, StatementPlaces};

/// Most sets of rows with running statements, after which those that are over are forgotten.
const SETS_MAX: usize = 10_000;

/// Statements that began later and had the lock first.
#[derive(Debug, Default)]
pub(crate) struct LockOrder {
    first: HashMap<EventId, Vec<EventId>>,
}

impl LockOrder {
    /// Returns the statements that began after a statement and had a lock before it. They belong to the same copy of the
    /// workload.
    pub(crate) fn before(
        &self,
        (session, sequence): EventId,
    ) -> impl Iterator<Item = EventId> + '_ {
        let copy = session / COPY_SESSION_OFFSET * COPY_SESSION_OFFSET;
        let first = self.first.get(&(session - copy, sequence));
        let first = first.into_iter().flatten();
        first.map(move |(session, sequence)| (session + copy, *sequence))
    }
}

/// Statement that locks rows, with its end in captured time.
#[derive(Debug, Clone, Copy)]
struct Running {
    id: EventId,
    end_us: i64,
    effect: RowEffect,
}

/// Pass over a workload that learns the order.
#[derive(Default)]
pub(crate) struct LockOrderPass {
    plans: RowPlanCache,
    sets: Vec<(RowSet, Mode)>,
    texts: Vec<u8>,
    running: HashMap<RowSet, Vec<Running>>,
    order: LockOrder,
    /// Precision of captured times.
    precision_us: i64,
}

impl LockOrderPass {
    pub(crate) fn new(precision_us: i64) -> Self {
        LockOrderPass {
            precision_us,
            ..LockOrderPass::default()
        }
    }

    /// Returns the order.
    pub(crate) fn finish(self) -> LockOrder {
        self.order
    }

    /// Takes the next event.
    pub(crate) fn add(&mut self, event: &Event, places: &StatementPlaces, keys: &KeyColumns) {
        let places = &places.values;
        if places.tables.is_empty() {
            return;
        }
        let Some(plan) = self.plans.get(event, places, keys) else {
            return;
        };
        let duration_us = event.outcome.duration_us.unwrap_or(0);
        let this = Running {
            id: (event.session, event.sequence),
            end_us: event.due_us.saturating_add_unsigned(duration_us),
            effect: RowEffect::of(event, plan.class),
        };
        let has_failed = event.outcome.sqlstate.is_some();
        plan.add_sets(event, &mut self.texts, &mut self.sets);
        for (rows, mode) in self.sets.drain(..) {
            if !mode.locks_rows() {
                continue;
            }
            let running = self.running.entry(rows).or_default();
            running.retain(|one| one.end_us > event.due_us);
            let had_lock = |one: &&Running| {
                // A statement that failed had no lock.
                let ended_first = this.end_us + self.precision_us < one.end_us && !has_failed;
                this.effect.precedes(one.effect).unwrap_or(ended_first) && one.id.0 != this.id.0
            };
            for other in running.iter().filter(had_lock) {
                self.order.first.entry(other.id).or_default().push(this.id);
            }
            running.push(this);
        }
        if self.running.len() > SETS_MAX {
            self.running
                .retain(|_, running| running.iter().any(|one| one.end_us > event.due_us));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::PlacesCache;
    use crate::test_events::simple;
    use workload::Sqlstate;

    /// Outcome of a statement: the number of rows, or the code of its error.
    type Rows = Result<u64, [u8; 5]>;

    /// Returns the statements that had locks before the first one. Each is session, start, end, text and outcome.
    fn before_first(script: &[(u64, i64, i64, &str, Rows)]) -> Vec<EventId> {
        let keys = KeyColumns::default().with_key("a", "id");
        let mut pass = LockOrderPass::default();
        let mut cache = PlacesCache::default();
        for (session, due_us, end_us, sql, rows) in script {
            let mut event = simple(*session, 0, *due_us, (end_us - due_us) as u64, sql);
            event.outcome.rows = rows.ok();
            event.outcome.sqlstate = rows.err().map(Sqlstate);
            let places = cache.get(&event, None, &keys).unwrap();
            pass.add(&event, &places, &keys);
        }
        let copy = 3 * COPY_SESSION_OFFSET;
        let found = pass.order.before((copy + script[0].0, 0));
        found
            .map(|(session, sequence)| (session - copy, sequence))
            .collect()
    }

    #[test]
    fn first_to_end_had_the_lock() {
        let first = (1, 0, 20, "UPDATE a SET n = 1 WHERE id = 7", Ok(1));
        let sql = "UPDATE a SET n = 2 WHERE id = 7";
        assert_eq!(before_first(&[first, (2, 5, 10, sql, Ok(1))]), [(2, 0)]);
        let failed = (2, 5, 10, sql, Err(*b"40P01"));
        assert_eq!(before_first(&[first, failed]), []);
        let ends_later = (2, 5, 30, sql, Ok(1));
        assert_eq!(before_first(&[first, ends_later]), []);
        let begins_later = (2, 25, 30, sql, Ok(1));
        assert_eq!(before_first(&[first, begins_later]), []);
        let of_another_row = (2, 5, 10, "UPDATE a SET n = 2 WHERE id = 8", Ok(1));
        assert_eq!(before_first(&[first, of_another_row]), []);
        let reads = (2, 5, 10, "SELECT n FROM a WHERE id = 7", Ok(1));
        assert_eq!(before_first(&[first, reads]), []);
    }

    #[test]
    fn outcomes_tell_the_order_before_ends_do() {
        let insert = "INSERT INTO a (id) VALUES (7)";
        let duplicate = (1, 0, 20, insert, Err(*b"23505"));
        assert_eq!(
            before_first(&[duplicate, (2, 5, 30, insert, Ok(1))]),
            [(2, 0)]
        );
        let inserted = (1, 0, 20, insert, Ok(1));
        let ends_first = (2, 5, 10, insert, Err(*b"23505"));
        assert_eq!(before_first(&[inserted, ends_first]), []);
        let delete = "DELETE FROM a WHERE id = 7";
        let removed = (1, 0, 20, delete, Ok(1));
        assert_eq!(before_first(&[removed, ends_first]), [(2, 0)]);
        let found = (2, 5, 30, "UPDATE a SET n = 1 WHERE id = 7", Ok(1));
        assert_eq!(before_first(&[removed, found]), [(2, 0)]);
        let not_found = (2, 5, 10, "UPDATE a SET n = 1 WHERE id = 7", Ok(0));
        assert_eq!(before_first(&[removed, not_found]), []);
    }
}
