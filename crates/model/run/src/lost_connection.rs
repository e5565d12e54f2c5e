//! Connections that a replay lost.

use archive::{Batch, Column, ColumnType, TableWriter};
use workload::Sqlstate;

use crate::facts_table::Row;

use ColumnType::{I64, Text, U64};

/// Name of the table.
pub(crate) const TABLE: &str = "lost-connections";

/// Connection that ended without a disconnect of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostConnection {
    /// Time of the loss, in nanoseconds from the replay's start. Statements that failed with it ended at this time.
    pub at_ns: i64,
    /// Session that used the connection.
    pub session: u64,
    /// SQLSTATE; 08006 if the server sent none.
    pub sqlstate: Sqlstate,
    /// Number of connections that were open before the loss.
    pub connections_open: u64,
}

impl Row for LostConnection {
    const COLUMNS: &'static [Column] = &[
        Column::required("at_ns", I64),
        Column::required("session", U64),
        Column::required("sqlstate", Text),
        Column::required("connections_open", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.i64(self.at_ns);
        table.u64(self.session);
        table.text(self.sqlstate.as_str());
        table.u64(self.connections_open);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        let sqlstate = batch.text(2, row).unwrap_or_default();
        Ok(LostConnection {
            at_ns: batch.i64(0, row).unwrap_or_default(),
            session: batch.u64(1, row).unwrap_or_default(),
            sqlstate: Sqlstate::parse(sqlstate)
                .ok_or_else(|| format!("{sqlstate} is no SQLSTATE"))?,
            connections_open: batch.u64(3, row).unwrap_or_default(),
        })
    }
}
