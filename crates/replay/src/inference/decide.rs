//! Decides, after the pass over the workload, which statements made which values.

use std::collections::{HashMap, HashSet};

use super::generated_columns::SequenceIndex;
use super::observations::InferencePass;
use super::sequence_values::{Precision, Use};
use super::{InferredResults, InferredValue};
use crate::connect::Dialer;
use crate::event_id::EventId;
use crate::generated::{ColumnName, Place, Value};

/// Least number and share of the values of a place without a column that must agree with the order of calls.
const CARRIED_VALUES_MIN: usize = 10;
const CARRIED_SHARE: f64 = 0.95;

impl InferencePass<'_> {
    /// Finds the values of all results. Values that the target has already are queried through `dialer`. The target of a
    /// replay that is resumed has values of the replay, and is not queried.
    pub(crate) fn finish(mut self, dialer: Option<&Dialer>, tolerance_us: i64) -> InferredResults {
        let columns = self.columns;
        let existing = |column: &ColumnName, values: &[String]| match dialer {
            Some(dialer) => columns.existing(dialer, column, values).ok(),
            None => Some(Vec::new()),
        };
        self.decide(existing, tolerance_us)
    }

    /// As [`Self::finish`]. `existing` returns those values that the column of the target has; `None` if they cannot be queried.
    pub(super) fn decide(
        &mut self,
        existing: impl Fn(&ColumnName, &[String]) -> Option<Vec<String>>,
        tolerance_us: i64,
    ) -> InferredResults {
        let precision = Precision {
            tolerance_us,
            has_positions: self.positions.tell_order(tolerance_us),
        };
        let mut inferred = InferredResults::default();
        let mut made: HashMap<(SequenceIndex, i64), EventId> = HashMap::new();
        let mut values = Vec::new();
        for sequence in 0..self.sequences.len() {
            let there = self.existing_numbers(sequence, &existing);
            let Some(there) = there else {
                let calls = self.sequences[sequence].calls.iter();
                let open = calls.filter(|call| call.result.is_some() || call.is_conditional);
                inferred.counts.ambiguous += open.count() as u64;
                continue;
            };
            self.take_carried(sequence, &there, precision, &mut inferred);
            let increment = self.columns.sequences()[sequence].increment;
            let evidence = &self.sequences[sequence];
            let solved = evidence.solve(increment, &there, precision);
            inferred.counts.by_order += solved.by_order;
            inferred.counts.ambiguous += solved.ambiguous;
            inferred.counts.unused += solved.unused;
            let of = &self.columns.sequences()[sequence].columns;
            for (call, value) in evidence.calls.iter().zip(&solved.values) {
                if let (Some(event), Some(value)) = (call.result, value) {
                    made.insert((sequence, *value), event);
                    let names = self.names.get(&event);
                    let is_it = |name: &String| of.iter().any(|(_, column)| column == name);
                    let column = names.and_then(|names| names.iter().position(is_it));
                    values.push(InferredValue {
                        event,
                        row: call.row,
                        column: column.unwrap_or(0),
                        value: Value::Integer(*value),
                    });
                }
            }
        }
        self.add_uuids(&made, &existing, tolerance_us, &mut values, &mut inferred);
        inferred.set_values(values, std::mem::take(&mut self.names));
        inferred
    }

    /// Returns the used values of a sequence that a column has; `None` if the target cannot be queried.
    fn existing_numbers(
        &self,
        sequence: SequenceIndex,
        existing: impl Fn(&ColumnName, &[String]) -> Option<Vec<String>>,
    ) -> Option<HashSet<i64>> {
        let evidence = &self.sequences[sequence];
        let placed = self.placed.iter().filter(|((_, of), _)| *of == sequence);
        let placed = placed.flat_map(|(_, uses)| uses).map(|one| one.value);
        let used: HashSet<i64> = evidence.first_uses.keys().copied().chain(placed).collect();
        let used: Vec<String> = used.iter().map(i64::to_string).collect();
        let mut there = HashSet::new();
        if evidence.calls.is_empty() {
            return Some(there);
        }
        for column in &self.columns.sequences()[sequence].columns {
            let found = existing(column, &used)?;
            there.extend(found.iter().filter_map(|value| value.parse::<i64>().ok()));
        }
        Some(there)
    }

    /// Takes the uses at places that carry values of a sequence.
    fn take_carried(
        &mut self,
        sequence: SequenceIndex,
        there: &HashSet<i64>,
        precision: Precision,
        inferred: &mut InferredResults,
    ) {
        let increment = self.columns.sequences()[sequence].increment;
        let places: Vec<Place> = self
            .placed
            .keys()
            .filter(|(_, of)| *of == sequence)
            .map(|(place, _)| *place)
            .collect();
        for place in places {
            let uses = self.placed.remove(&(place, sequence)).unwrap_or_default();
            let evidence = &mut self.sequences[sequence];
            let (share, agreeing) = evidence.agreement(&uses, increment, there, precision);
            if agreeing >= CARRIED_VALUES_MIN && share >= CARRIED_SHARE {
                let column = &self.columns.sequences()[sequence].columns[0];
                inferred.carriers.insert(place, column.clone());
                for one in &uses {
                    let call = &evidence.calls[one.call];
                    evidence.first_uses.entry(one.value).or_insert(Use {
                        position: call.next_position,
                        due_us: call.latest_us,
                    });
                }
                evidence.own_uses.extend(uses);
            }
        }
    }

    fn add_uuids(
        &self,
        made: &HashMap<(SequenceIndex, i64), EventId>,
        existing: impl Fn(&ColumnName, &[String]) -> Option<Vec<String>>,
        tolerance_us: i64,
        values: &mut Vec<InferredValue>,
        inferred: &mut InferredResults,
    ) {
        for (column, evidence) in &self.uuids {
            let text = |value: &Value| String::from_utf8_lossy(&value.text()).into_owned();
            let used: Vec<String> = evidence.first_uses.keys().map(text).collect();
            let all = evidence.results.len() as u64 + evidence.in_other_results;
            let Some(there) = existing(column, &used) else {
                inferred.counts.ambiguous += all;
                continue;
            };
            let there: HashSet<&String> = there.iter().collect();
            let known = evidence.solve(made, |value| !there.contains(&text(&value)), tolerance_us);
            let assigned: HashSet<&Value> = known.values().collect();
            let left = used.len() - there.len() - assigned.len();
            let open = all - known.len() as u64;
            let ambiguous = open.min(left as u64);
            inferred.counts.ambiguous += ambiguous;
            inferred.counts.unused += open - ambiguous;
            for (event, value) in &known {
                let names = self.names.get(event);
                let is_it = |name: &String| *name == column.1;
                if let Some(at) = names.and_then(|names| names.iter().position(is_it)) {
                    values.push(InferredValue {
                        event: *event,
                        row: 0,
                        column: at,
                        value: *value,
                    });
                }
            }
        }
    }
}
