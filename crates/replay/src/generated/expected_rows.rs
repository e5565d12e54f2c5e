//! Captured values of a result's first rows, to be paired with those of the replayed rows.

use protocol::backend::{DataRow, RowDescription};

use super::replayed_values::ValueNumber;
use super::value::{Form, Value};

/// Longest row description and row that are decoded, in bytes.
pub(crate) const READ_BYTES_MAX: usize = 64 << 10;

/// Values of a captured result's first rows that later statements use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpectedRows {
    /// Number of columns, at least 1.
    pub(crate) columns: usize,
    /// One for each column, row by row; `None` if no statement uses it.
    pub(crate) values: Box<[Option<(Value, ValueNumber)>]>,
    /// Number of values of the rows that came.
    paired: usize,
    /// Formats of the replayed rows' columns, after the server has described them.
    forms: Box<[Option<Form>]>,
}

impl ExpectedRows {
    pub(crate) fn new(columns: usize, values: Box<[Option<(Value, ValueNumber)>]>) -> Self {
        ExpectedRows {
            columns: columns.max(1),
            values,
            paired: 0,
            forms: Box::default(),
        }
    }

    /// Iterates over the values that later statements use, with their positions.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (usize, Value, ValueNumber)> {
        let values = self.values.iter().enumerate();
        values
            .filter_map(|(position, value)| value.map(|(value, number)| (position, value, number)))
    }

    /// Takes the server's description of the rows.
    pub(crate) fn set_formats(&mut self, description: &RowDescription<'_>) {
        let fields = description.iter();
        self.forms = fields
            .map(|field| Form::of(field.type_oid, field.format))
            .collect();
    }

    /// Whether the row that comes next is the last one that is expected.
    pub(crate) fn expects_one_row(&self) -> bool {
        self.paired + self.columns >= self.values.len()
    }

    /// Whether no more rows are expected.
    pub(crate) fn is_over(&self) -> bool {
        self.paired >= self.values.len()
    }

    /// Pairs the numbers of the captured values of the next row with the values of the replayed row. A row with other
    /// columns than the captured one gives none.
    pub(crate) fn pair_row(&mut self, row: &DataRow<'_>, found: &mut Vec<ReplayedValue>) {
        let first = self.paired;
        let expected = self.values.iter().enumerate();
        let expected = expected.skip(first).take(self.columns);
        self.paired += self.columns;
        if row.columns.len() != self.columns || self.forms.len() != self.columns {
            return;
        }
        let columns = expected.zip(&self.forms).zip(row.columns);
        found.extend(
            columns.filter_map(|(((position, captured), form), replayed)| {
                let (captured, number) = (*captured)?;
                let replayed = (*form)?.read(replayed?)?;
                captured.is_like(replayed).then_some(ReplayedValue {
                    number,
                    position,
                    captured,
                    replayed,
                })
            }),
        );
    }
}

/// Value that the server generated in the replay, in place of a captured one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplayedValue {
    pub(crate) number: ValueNumber,
    /// Its number within the captured rows of the result, from 0.
    pub(crate) position: usize,
    pub(crate) captured: Value,
    pub(crate) replayed: Value,
}
