//! Connections that a replay lost.

use archive::{Batch, Column, ColumnType, TableWriter};
use workload::Sqlstate;

use crate::facts_table::Row;

use ColumnType::{I64, Text, U64};

/// Name of the table.
pub(crate) const TABLE: &str = "connection-losses";
/// Time between two losses that are in one range at most, in nanoseconds.
const NEAR_NS: i64 = 1_000_000_000;

/// Range of time in which connections were lost for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionLosses {
    /// First loss, in nanoseconds from the replay's start.
    pub from_ns: i64,
    /// Last loss.
    pub until_ns: i64,
    /// SQLSTATE; 08006 if the server sent none.
    pub sqlstate: Sqlstate,
    /// Number of connections.
    pub connections: u64,
    /// Largest number of connections that were open before one of the losses.
    pub connections_open: u64,
}

impl ConnectionLosses {
    /// Adds losses to a list: to a range that is near, or as a new one.
    pub fn add_to(self, ranges: &mut Vec<ConnectionLosses>) {
        let same = ranges.iter_mut().rev().find(|range| {
            let is_near = self.from_ns <= range.until_ns.saturating_add(NEAR_NS);
            range.sqlstate == self.sqlstate && is_near
        });
        match same {
            Some(range) => {
                range.from_ns = range.from_ns.min(self.from_ns);
                range.until_ns = range.until_ns.max(self.until_ns);
                range.connections += self.connections;
                range.connections_open = range.connections_open.max(self.connections_open);
            }
            None => ranges.push(self),
        }
    }
}

impl Row for ConnectionLosses {
    const COLUMNS: &'static [Column] = &[
        Column::required("from_ns", I64),
        Column::required("until_ns", I64),
        Column::required("sqlstate", Text),
        Column::required("connections", U64),
        Column::required("connections_open", U64),
    ];

    fn write(&self, table: &mut TableWriter) {
        table.i64(self.from_ns);
        table.i64(self.until_ns);
        table.text(self.sqlstate.as_str());
        table.u64(self.connections);
        table.u64(self.connections_open);
    }

    fn read(batch: &Batch, row: usize) -> Result<Self, String> {
        let sqlstate = batch.text(2, row).unwrap_or_default();
        Ok(ConnectionLosses {
            from_ns: batch.i64(0, row).unwrap_or_default(),
            until_ns: batch.i64(1, row).unwrap_or_default(),
            sqlstate: Sqlstate::parse(sqlstate)
                .ok_or_else(|| format!("{sqlstate} is no SQLSTATE"))?,
            connections: batch.u64(3, row).unwrap_or_default(),
            connections_open: batch.u64(4, row).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_that_are_near_are_one_range() {
        let loss = |at_s: i64, open: u64| ConnectionLosses {
            from_ns: at_s * NEAR_NS,
            until_ns: at_s * NEAR_NS,
            sqlstate: Sqlstate(*b"57P01"),
            connections: 1,
            connections_open: open,
        };
        let mut ranges = Vec::new();
        for (at_s, open) in [(5, 8), (6, 7), (10, 8)] {
            loss(at_s, open).add_to(&mut ranges);
        }
        let expected = [
            ConnectionLosses {
                until_ns: 6 * NEAR_NS,
                connections: 2,
                ..loss(5, 8)
            },
            loss(10, 8),
        ];
        assert_eq!(ranges, expected);
    }
}
