//! Generated values: values of results that the server generated in the replay, in place of captured ones.

use archive::{Batch, Column, ColumnType, TableWriter};

use crate::facts_table::Row;

use ColumnType::{Text, U64};

/// Name of the table.
pub(crate) const TABLE: &str = "generated-values";

/// Value that the server generated in the replay. It differs from the captured one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GeneratedValue {
    /// Session of the execution that returned it.
    pub session: u64,
    /// Sequence of the execution within its session.
    pub sequence: u64,
    /// Number of the value within the captured rows of the result, row by row, from 0.
    pub position: u64,
    /// Its text format.
    pub value: Box<str>,
}

impl Row for GeneratedValue {
    const COLUMNS: &'static [Column] = &[
        Column::required("session", U64),
        Column::required("sequence", U64),
        Column::required("position", U64).low_cardinality(),
        Column::required("value", Text),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.u64(self.session);
        table.u64(self.sequence);
        table.u64(self.position);
        table.text(&*self.value);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        Ok(GeneratedValue {
            session: batch.u64(0, row).unwrap_or_default(),
            sequence: batch.u64(1, row).unwrap_or_default(),
            position: batch.u64(2, row).unwrap_or_default(),
            value: batch.text(3, row).unwrap_or_default().into(),
        })
    }
}
