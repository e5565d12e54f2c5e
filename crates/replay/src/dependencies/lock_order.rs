//! Order in which statements that ran at the same time got the locks of the same rows.
//!
//! A statement that waits for a row lock ends after the one that holds it. So of two overlapping ones, the first to end
//! had the lock, even if it began later. One pass over the workload finds them, since the dispatcher has not read the
//! later one when it dispatches the earlier one.

use std::collections::HashMap;

use sql::classify;
use workload::{ArchiveError, Event, EventKind, WorkloadReader};

use super::access::{self, RowSet};
use crate::event_id::EventId;
use crate::event_stream::COPY_SESSION_OFFSET;
use crate::generated::{KeyColumns, PlacesCache};

/// Most sets of rows with running statements, after which those that are over are forgotten.
const SETS_MAX: usize = 10_000;

/// Statements that began later and had the lock first.
#[derive(Debug, Default)]
pub(crate) struct LockOrder {
    first: HashMap<EventId, Vec<EventId>>,
}

impl LockOrder {
    /// Learns the order from a workload.
    ///
    /// # Errors
    /// If the workload cannot be read.
    pub(crate) fn learn(reader: &WorkloadReader, keys: &KeyColumns) -> Result<Self, ArchiveError> {
        let mut pass = Pass::default();
        for item in reader.events()? {
            pass.add(&item?.0, keys);
        }
        Ok(pass.order)
    }

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
}

#[derive(Default)]
struct Pass {
    places: PlacesCache,
    running: HashMap<RowSet, Vec<Running>>,
    order: LockOrder,
}

impl Pass {
    fn add(&mut self, event: &Event, keys: &KeyColumns) {
        let (EventKind::Simple { sql } | EventKind::Execute { sql, .. }) = &event.kind else {
            return;
        };
        let duration_us = event.outcome.duration_us.unwrap_or(0);
        let Some(places) = self
            .places
            .get(event, keys)
            .filter(|places| !places.tables.is_empty())
        else {
            return;
        };
        let this = Running {
            id: (event.session, event.sequence),
            end_us: event.due_us.saturating_add_unsigned(duration_us),
        };
        let has_failed = event.outcome.sqlstate.is_some();
        for (rows, mode) in access::row_sets(event, sql, classify(sql), &places, keys) {
            if !mode.locks_rows() {
                continue;
            }
            let running = self.running.entry(rows).or_default();
            running.retain(|one| one.end_us > event.due_us);
            for other in running
                .iter()
                .filter(|one| one.end_us > this.end_us && one.id.0 != this.id.0)
            {
                // A statement that failed had no lock.
                if !has_failed {
                    self.order.first.entry(other.id).or_default().push(this.id);
                }
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
    use workload::{Outcome, Sqlstate};

    /// Returns the statements that had locks before the first one. Each is session, start, end and text.
    fn before_first(script: &[(u64, i64, i64, &str)], failed: bool) -> Vec<EventId> {
        let keys = KeyColumns::default().with_key("a", "id");
        let mut pass = Pass::default();
        for (session, due_us, end_us, sql) in script {
            let event = Event {
                session: *session,
                sequence: 0,
                due_us: *due_us,
                kind: EventKind::Simple { sql: (*sql).into() },
                outcome: Outcome {
                    duration_us: Some((end_us - due_us) as u64),
                    sqlstate: (failed && *due_us > 0).then_some(Sqlstate(*b"40P01")),
                    ..Outcome::default()
                },
                unreplayable: None,
                source: 0,
                line: 0,
                prelude: false,
                wire_details: None,
            };
            pass.add(&event, &keys);
        }
        let copy = 3 * COPY_SESSION_OFFSET;
        let found = pass.order.before((copy + script[0].0, 0));
        found
            .map(|(session, sequence)| (session - copy, sequence))
            .collect()
    }

    #[test]
    fn first_to_end_had_the_lock() {
        let first = (1, 0, 20, "UPDATE a SET n = 1 WHERE id = 7");
        let second = (2, 5, 10, "UPDATE a SET n = 2 WHERE id = 7");
        assert_eq!(before_first(&[first, second], false), [(2, 0)]);
        assert_eq!(before_first(&[first, second], true), []);
        let ends_later = (2, 5, 30, "UPDATE a SET n = 2 WHERE id = 7");
        assert_eq!(before_first(&[first, ends_later], false), []);
        let begins_later = (2, 25, 30, "UPDATE a SET n = 2 WHERE id = 7");
        assert_eq!(before_first(&[first, begins_later], false), []);
        let of_another_row = (2, 5, 10, "UPDATE a SET n = 2 WHERE id = 8");
        assert_eq!(before_first(&[first, of_another_row], false), []);
        let reads = (2, 5, 10, "SELECT n FROM a WHERE id = 7");
        assert_eq!(before_first(&[first, reads], false), []);
    }
}
