//! Orders of a workload's statements.

use schemars::JsonSchema;
use serde::Serialize;

use super::StatementStats;

/// An order of statements, the greatest first.
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

    /// Returns the number that statements are ordered by; −1 if it is unknown.
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
