//! Values that the server generated in a capture without results, inferred from later statements.
//!
//! ```text
//! log ─► InferencePass (one pass) ─► InferredResults ─► rows of results, as a capture from the wire has them
//! ```
//!
//! A log has `INSERT … RETURNING id` without the id. Two facts show it later. A statement names a value in a column that
//! takes it: its own, or one with a foreign key to it. And a sequence returns its values in the order of its calls.
//!
//! So each INSERT may have only those values that its place among the others allows ([`sequence_values`]). The first of
//! them that its session uses is taken as its own. A UUID is known by its session's first use of it, or by a row that was
//! read with it and has a known key ([`uuid_values`]).
//!
//! INSERTs at the same time may have exchanged their values; these are counted. If it is not known where a sequence began, or
//! which row a UUID belongs to, nothing is inferred. A value that the target has before the replay was not made in the capture.

mod call_windows;
mod decide;
mod generated_columns;
mod log_positions;
mod observations;
mod result_shape;
mod sequence_arithmetic;
mod sequence_values;
mod uuid_values;

pub(crate) use generated_columns::GeneratedColumns;
pub(crate) use observations::InferencePass;

use std::collections::HashMap;
use std::sync::Arc;

use workload::{Event, FirstRows, Parameter, WireDetails};

use crate::event_id::EventId;
use crate::event_stream::COPY_SESSION_OFFSET;
use crate::generated::{ColumnName, Place, Value};

/// Inferred results of a workload's statements.
#[derive(Debug, Default)]
pub(crate) struct InferredResults {
    /// Names of the columns of each result that has values.
    names: HashMap<EventId, Arc<[String]>>,
    /// In the order of their statements.
    values: Vec<InferredValue>,
    /// Parameters and literals without a column of their own that take the values of a generated column.
    carriers: HashMap<Place, ColumnName>,
    counts: InferenceCounts,
}

/// Numbers of generated values that results had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct InferenceCounts {
    /// Those that are known now.
    pub(crate) inferred: u64,
    /// Those of them that statements at the same time may have exchanged.
    pub(crate) by_order: u64,
    /// Those that later statements may have used, and that are not known.
    pub(crate) ambiguous: u64,
    /// Those that no later statement uses.
    pub(crate) unused: u64,
}

/// Value of a result: its row and column, both from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InferredValue {
    event: EventId,
    row: usize,
    column: usize,
    value: Value,
}

impl InferredResults {
    /// Adds the inferred rows of an event's result to it.
    pub(crate) fn add_to(&self, event: &mut Event) {
        let id = (event.session % COPY_SESSION_OFFSET, event.sequence);
        if event.wire_details.is_some() {
            return;
        }
        if let Some(names) = self.names.get(&id) {
            let details = WireDetails {
                first_rows: Some(self.rows_of(id, names)),
                ..WireDetails::default()
            };
            event.wire_details = Some(Arc::new(details));
        }
    }

    fn rows_of(&self, id: EventId, names: &[String]) -> FirstRows {
        let first = self.values.partition_point(|one| one.event < id);
        let values = self.values[first..].iter();
        let mut rows = FirstRows {
            columns: names.iter().map(|name| name.as_str().into()).collect(),
            values: Vec::new(),
        };
        for one in values.take_while(|one| one.event == id) {
            let whole = (one.row + 1) * names.len();
            if rows.values.len() < whole {
                rows.values.resize(whole, None);
            }
            let text = one.value.text();
            let text = String::from_utf8_lossy(&text);
            rows.values[one.row * names.len() + one.column] = Some(Parameter::from(&*text));
        }
        rows
    }

    /// Returns the generated columns whose values places without a column take.
    pub(crate) fn carriers(&self) -> &HashMap<Place, ColumnName> {
        &self.carriers
    }

    /// Returns the numbers of values.
    pub(crate) fn counts(&self) -> InferenceCounts {
        self.counts
    }

    /// Sets the values of results. `names`: the names of the columns of all results.
    fn set_values(
        &mut self,
        mut values: Vec<InferredValue>,
        mut names: HashMap<EventId, Arc<[String]>>,
    ) {
        values.sort_unstable_by_key(|one| (one.event, one.row, one.column));
        self.counts.inferred = values.len() as u64;
        names.retain(|id, _| values.binary_search_by_key(id, |one| one.event).is_ok());
        self.names = names;
        self.values = values;
    }
}

#[cfg(test)]
mod tests;
