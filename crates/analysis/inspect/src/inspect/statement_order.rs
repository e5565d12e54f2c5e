//! Orders in which statements are listed.

use schemars::JsonSchema;
use serde::Serialize;

use super::StatementStats;

/// Descending order of statements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatementOrder {
    /// Total captured time.
    #[default]
    Total,
    /// Number of calls.
    Calls,
    /// Mean captured time.
    Mean,
    /// Slowest call.
    Max,
}

impl StatementOrder {
    /// All orders.
    pub const ALL: [StatementOrder; 4] = [
        StatementOrder::Total,
        StatementOrder::Calls,
        StatementOrder::Mean,
        StatementOrder::Max,
    ];

    /// Returns the sort key of a statement; −1 if it is unknown.
    pub(super) fn key(self, one: &StatementStats) -> f64 {
        match (self, one.captured) {
            (StatementOrder::Calls, _) => one.calls as f64,
            (_, None) => -1.0,
            (StatementOrder::Total, Some(captured)) => captured.total_ns,
            (StatementOrder::Mean, Some(captured)) => captured.mean_ns,
            (StatementOrder::Max, Some(captured)) => captured.max_ns as f64,
        }
    }
}
