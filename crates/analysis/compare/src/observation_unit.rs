//! Unit of observation of a comparison.

use schemars::JsonSchema;
use serde::Serialize;

/// Unit of observation of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObservationUnit {
    /// A block of time within one run a side.
    Block,
    /// A run.
    Run,
    /// A pair of runs, one of either side, made one directly after the other.
    Pair,
}
