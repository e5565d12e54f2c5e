//! UUIDs that the server made: which statement made which.

use std::collections::HashMap;

use super::generated_columns::SequenceIndex;
use crate::event_id::EventId;
use crate::generated::Value;

/// Least number and share of the first uses that must come from a session that made a value, for it to be its own.
const OWN_USES_MIN: usize = 10;
const OWN_SHARE: f64 = 0.98;

/// Results with values of a column of UUIDs, and uses of these values in a workload.
#[derive(Debug, Default)]
pub(super) struct UuidEvidence {
    /// Statements whose results have one, with the time of their beginning.
    pub(super) results: HashMap<EventId, i64>,
    /// Number of values in results with several rows, or with none if an existing row conflicts. They are not inferred.
    pub(super) in_other_results: u64,
    pub(super) first_uses: HashMap<Value, FirstUse>,
    /// Rows that were read by a value, and then used by a key: the value, the key's sequence, and the key.
    pub(super) links: Vec<(Value, SequenceIndex, i64)>,
}

/// First use of a value by any session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FirstUse {
    pub(super) due_us: i64,
    pub(super) own: OwnResult,
}

/// Result of the session that used a value first, if no other value was used since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnResult {
    None,
    /// A result of the same transaction.
    InTransaction(EventId),
    /// A result of an earlier transaction. With a pool, it may be the result of another client.
    Earlier(EventId),
}

impl UuidEvidence {
    /// Finds the statements that made the values. `made`: statement that took each value of a sequence.
    pub(super) fn solve(
        &self,
        made: &HashMap<(SequenceIndex, i64), EventId>,
        is_new: impl Fn(Value) -> bool,
        tolerance_us: i64,
    ) -> HashMap<EventId, Value> {
        let linked = self.linked(made, tolerance_us);
        let sessions_keep = self.sessions_use_their_own(&linked);
        let mut by_result: HashMap<EventId, Option<Value>> = HashMap::new();
        for (value, first) in &self.first_uses {
            let event = match (first.own, linked.get(value).copied()) {
                (OwnResult::InTransaction(own), Some(Some(linked))) if own != linked => continue,
                (_, Some(Some(event))) | (OwnResult::InTransaction(event), _) => event,
                (OwnResult::Earlier(event), None) if sessions_keep => event,
                _ => continue,
            };
            if !is_new(*value) {
                continue;
            }
            let one = by_result.entry(event).or_insert(Some(*value));
            if *one != Some(*value) {
                // Two values cannot be one.
                *one = None;
            }
        }
        let known = by_result.into_iter();
        known
            .filter_map(|(event, value)| Some((event, value?)))
            .collect()
    }

    /// Returns the statements that made rows which were found by a value; `None` if they are several, or not known.
    fn linked(
        &self,
        made: &HashMap<(SequenceIndex, i64), EventId>,
        tolerance_us: i64,
    ) -> HashMap<Value, Option<EventId>> {
        let mut linked: HashMap<Value, Option<EventId>> = HashMap::new();
        for (value, sequence, key) in &self.links {
            let event = made.get(&(*sequence, *key)).copied();
            let event = event.filter(|event| self.may_have_made(*event, *value, tolerance_us));
            let one = linked.entry(*value).or_insert(event);
            if *one != event {
                *one = None;
            }
        }
        linked
    }

    /// Whether a statement returned a value of the column, and began before this one was used.
    fn may_have_made(&self, event: EventId, value: Value, tolerance_us: i64) -> bool {
        let began_us = self.results.get(&event);
        let used_us = self.first_uses.get(&value).map(|first| first.due_us);
        began_us
            .zip(used_us)
            .is_some_and(|(began_us, used_us)| *began_us <= used_us + tolerance_us)
    }

    /// Whether sessions use what they made, as clients with connections of their own do.
    fn sessions_use_their_own(&self, linked: &HashMap<Value, Option<EventId>>) -> bool {
        let mut unlinked = 0_usize;
        let mut own = 0_usize;
        for (value, first) in &self.first_uses {
            if !linked.contains_key(value) {
                unlinked += 1;
                own += usize::from(first.own != OwnResult::None);
            }
        }
        own >= OWN_USES_MIN && own as f64 >= OWN_SHARE * unlinked as f64
    }
}
