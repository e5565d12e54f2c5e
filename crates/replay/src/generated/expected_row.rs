//! Captured values of a result's first row, to be paired with those of the replayed row.

use protocol::backend::{DataRow, RowDescription};

use super::replayed_values::ValueNumber;
use super::value::{Form, Value};

/// Longest row description and first row that are decoded, in bytes.
pub(crate) const READ_BYTES_MAX: usize = 64 << 10;

/// Values of a captured result's first row that later statements use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpectedRow {
    /// One for each column; `None` if no statement uses it.
    pub(crate) values: Box<[Option<(Value, ValueNumber)>]>,
    /// Formats of the replayed row's columns, after the server has described them.
    forms: Box<[Option<Form>]>,
}

impl ExpectedRow {
    pub(crate) fn new(values: Box<[Option<(Value, ValueNumber)>]>) -> Self {
        let forms = Box::default();
        ExpectedRow { values, forms }
    }

    /// Takes the server's description of the rows.
    pub(crate) fn set_formats(&mut self, description: &RowDescription<'_>) {
        let fields = description.iter();
        self.forms = fields
            .map(|field| Form::of(field.type_oid, field.format))
            .collect();
    }

    /// Pairs the numbers of the captured values with the values of the replayed row. A row with other columns than the
    /// captured one gives none.
    pub(crate) fn pairs(&self, row: &DataRow<'_>) -> Vec<ReplayedValue> {
        let count = self.values.len();
        if row.columns.len() != count || self.forms.len() != count {
            return Vec::new();
        }
        let columns = self.values.iter().zip(&self.forms).zip(row.columns);
        columns
            .filter_map(|((captured, form), replayed)| {
                let (captured, number) = (*captured)?;
                let replayed = (*form)?.read(replayed?)?;
                captured.is_like(replayed).then_some(ReplayedValue {
                    number,
                    captured,
                    replayed,
                })
            })
            .collect()
    }
}

/// Value that the server generated in the replay, in place of a captured one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplayedValue {
    pub(crate) number: ValueNumber,
    pub(crate) captured: Value,
    pub(crate) replayed: Value,
}
