//! `--remap-generated`: maps values that the server generated in the capture (sequence numbers, UUIDs) to the
//! values that it generates in the replay, and replaces them in later parameters of the session.
//!
//! The dispatcher notes the values of a captured result's first row ([`ExpectedRow`]). The session decodes the
//! first row of the replayed result, and [`Remap`] learns the pairs. The worker calls [`rewrite_bind`] on the
//! messages that it sends next. All of it is without I/O.
//!
//! A value is found by equality, so a parameter with the same number by chance is replaced as well. To limit
//! that, only numbers from [`GENERATED_MIN`] on are learned, and only from [`NUMBER_MIN`] on if the statement
//! shows no sign of generating values.
//!
//! It does not handle rows after the first, values within arrays, documents and longer texts, and literals in
//! SQL.

mod messages;
mod value;

use std::collections::{HashMap, VecDeque};

use protocol::backend::{DataRow, RowDescription};
use workload::{Event, EventKind, Parameter};

pub(crate) use messages::rewrite_bind;
pub(crate) use value::{Form, Value};

/// Most pairs that a session keeps; the oldest are dropped first.
const PAIRS_MAX: usize = 1_024;
/// Smallest number that is learned from a statement that generates values. Smaller ones are flags, quantities
/// and page sizes as often as keys.
const GENERATED_MIN: i64 = 100;
/// Smallest number that is learned from any other statement.
const NUMBER_MIN: i64 = 1_000;
/// Longest row description and first row that are decoded, in bytes.
pub(crate) const READ_BYTES_MAX: usize = 64 << 10;

/// Words of statements that return generated values.
const GENERATING_WORDS: [&str; 4] = ["returning", "nextval", "currval", "lastval"];

/// Names of columns whose numbers are computed, not generated.
const AGGREGATE_COLUMNS: [&str; 8] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "total",
    "rank",
    "row_number",
];

/// Values of a captured result's first row that the server may have generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpectedRow {
    /// One for each column; `None` if it was not generated.
    pub(crate) values: Box<[Option<Value>]>,
    /// Formats of the replayed row's columns, after the server has described them.
    forms: Box<[Option<Form>]>,
}

impl ExpectedRow {
    pub(crate) fn new(values: Box<[Option<Value>]>) -> Self {
        let forms = Box::default();
        ExpectedRow { values, forms }
    }

    /// Returns the values to learn from the event's result; `None` if there are none.
    pub(crate) fn of(event: &Event) -> Option<Box<ExpectedRow>> {
        let row = event.wire_details.as_ref()?.first_row.as_ref()?;
        let (EventKind::Simple { sql } | EventKind::Execute { sql, .. }) = &event.kind else {
            return None;
        };
        let makes = returns_generated(sql);
        let values: Box<[Option<Value>]> = row
            .values
            .iter()
            .enumerate()
            .map(|(index, value)| {
                let value = match value.as_ref()? {
                    Parameter::Text(text) => Value::of_text(text.as_bytes()),
                    Parameter::Binary(bytes) => {
                        Value::of_uuid_text(bytes).or_else(|| Value::of_binary(bytes))
                    }
                }?;
                let number = match value {
                    Value::Uuid(_) => return Some(value),
                    Value::Integer(number) => number,
                };
                let name = row.columns.get(index).map_or("", |name| name);
                let learnt = match makes {
                    true => number >= GENERATED_MIN,
                    false => number >= NUMBER_MIN && !is_aggregate(name),
                };
                learnt.then_some(value)
            })
            .collect();
        let any = values.iter().any(Option::is_some);
        any.then(|| Box::new(ExpectedRow::new(values)))
    }

    /// Takes the server's description of the rows.
    pub(crate) fn set_formats(&mut self, description: &RowDescription<'_>) {
        let fields = description.iter();
        self.forms = fields
            .map(|field| Form::of(field.type_oid, field.format))
            .collect();
    }

    /// Pairs the captured values with those of the replayed row, equal ones included. A row with other columns
    /// than the captured one gives none.
    pub(crate) fn pairs(&self, row: &DataRow<'_>) -> Vec<(Value, Value)> {
        let count = self.values.len();
        if row.columns.len() != count || self.forms.len() != count {
            return Vec::new();
        }
        let columns = self.values.iter().zip(&self.forms).zip(row.columns);
        columns
            .filter_map(|((captured, form), replayed)| {
                let captured = (*captured)?;
                let replayed = (*form)?.read(replayed?)?;
                captured.is_like(replayed).then_some((captured, replayed))
            })
            .collect()
    }
}

/// Whether a statement returns generated values, judged by its words.
fn returns_generated(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    GENERATING_WORDS.iter().any(|word| sql.contains(word))
}

fn is_aggregate(column: &str) -> bool {
    AGGREGATE_COLUMNS
        .iter()
        .any(|name| column.eq_ignore_ascii_case(name))
}

/// Map of captured to replayed values of one session.
#[derive(Debug, Default)]
pub(crate) struct Remap {
    replayed: HashMap<Value, Value>,
    /// Keys, the oldest first.
    order: VecDeque<Value>,
    /// Number of learned pairs that are not yet counted in the metrics.
    pub(crate) unreported: u64,
}

impl Remap {
    /// Learns a pair of a captured and a replayed value. Equal values remove the entry.
    pub(crate) fn learn(&mut self, captured: Value, replayed: Value) {
        if self.replayed.remove(&captured).is_some() {
            self.order.retain(|known| *known != captured);
        }
        if captured == replayed {
            return;
        }
        if self.order.len() == PAIRS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.replayed.remove(&oldest);
        }
        self.replayed.insert(captured, replayed);
        self.order.push_back(captured);
        self.unreported += 1;
    }

    /// Returns the replayed value for a captured one.
    pub(crate) fn map(&self, captured: Value) -> Option<Value> {
        self.replayed.get(&captured).copied()
    }
}

#[cfg(test)]
mod tests;
