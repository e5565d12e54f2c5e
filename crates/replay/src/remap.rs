//! `--remap-generated`: what the server made up in the capture (a number of a sequence, a uuid), and what
//! it made up instead in the replay. Later parameters of the session that repeat the one are sent as
//! the other.
//!
//! Who drives: the planner notes what the first row of a captured result had ([`Expected`]); the session
//! hears the first row of the replayed one and has [`Remap`] learn the pairs; the worker has
//! [`rewritten`] change the Bind of what it sends next. Without I/O.
//!
//! Values are known by what they are, not by where they stand: a parameter that has the same number by
//! chance is changed too. So only numbers from [`MADE_MIN`] on are learnt, and only from
//! [`NUMBER_MIN`] on where nothing says that the statement makes values.
//!
//! Deliberately absent: rows behind the first, values within arrays, documents and longer texts, and
//! literals in SQL.

mod messages;
mod value;

use std::collections::{HashMap, VecDeque};

use protocol::backend::{DataRow, RowDescription};
use workload::{Event, EventKind, Parameter};

pub(crate) use messages::rewritten;
pub(crate) use value::{Form, Value};

/// So many pairs a session keeps; the oldest go first.
const PAIRS_MAX: usize = 1_024;
/// The smallest number that is learnt from a statement that makes values. Smaller ones are flags,
/// quantities and sizes of pages as often as they are keys.
const MADE_MIN: i64 = 100;
/// The smallest number that is learnt from any other statement.
const NUMBER_MIN: i64 = 1_000;
/// A description of rows or a first row that is longer is not read, in bytes.
pub(crate) const READ_BYTES_MAX: usize = 64 << 10;

/// Words of statements that return what the server made up.
const MAKING: [&str; 4] = ["returning", "nextval", "currval", "lastval"];

/// Names of columns whose numbers are counted, not made up.
const COUNTED: [&str; 8] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "total",
    "rank",
    "row_number",
];

/// What of the first row of a captured result may have been made up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    /// One for each column; `None` for what was not.
    pub(crate) values: Box<[Option<Value>]>,
    /// How the replayed row's columns are to be read, once the server has described them.
    forms: Box<[Option<Form>]>,
}

impl Expected {
    pub(crate) fn new(values: Box<[Option<Value>]>) -> Self {
        let forms = Box::default();
        Expected { values, forms }
    }

    /// `None` where there is nothing to learn from the event's result.
    pub(crate) fn of(event: &Event) -> Option<Box<Expected>> {
        let row = event.particulars.as_ref()?.first_row.as_ref()?;
        let (EventKind::Simple { sql } | EventKind::Execute { sql, .. }) = &event.kind else {
            return None;
        };
        let makes = makes_values(sql);
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
                    true => number >= MADE_MIN,
                    false => number >= NUMBER_MIN && !is_counted(name),
                };
                learnt.then_some(value)
            })
            .collect();
        let any = values.iter().any(Option::is_some);
        any.then(|| Box::new(Expected::new(values)))
    }

    /// The server has described the rows that come.
    pub(crate) fn described(&mut self, description: &RowDescription<'_>) {
        let fields = description.iter();
        self.forms = fields
            .map(|field| Form::of(field.type_oid, field.format))
            .collect();
    }

    /// What the captured row had, with what the replayed one has instead, or again. A row with other
    /// columns than the captured one gives nothing.
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

/// Whether a statement returns what the server made up, as its words tell.
fn makes_values(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    MAKING.iter().any(|word| sql.contains(word))
}

fn is_counted(column: &str) -> bool {
    COUNTED.iter().any(|name| column.eq_ignore_ascii_case(name))
}

/// What one session has learnt.
#[derive(Debug, Default)]
pub(crate) struct Remap {
    replayed: HashMap<Value, Value>,
    /// The keys, the oldest first.
    order: VecDeque<Value>,
    /// Pairs learnt that nobody was told of.
    pub(crate) untold: u64,
}

impl Remap {
    /// Takes in what the server made up in the capture, and what in the replay. What is the same is
    /// not changed any more.
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
        self.untold += 1;
    }

    /// What the server made up instead of this.
    pub(crate) fn map(&self, captured: Value) -> Option<Value> {
        self.replayed.get(&captured).copied()
    }
}

#[cfg(test)]
mod tests;
