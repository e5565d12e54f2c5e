//! The number of a distribution that a finding rests on.

use schemars::JsonSchema;
use serde::Serialize;

/// The measure that a finding rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The typical call.
    Median,
    /// The total at equal calls.
    Mean,
    /// The slow calls.
    P99,
}

impl Measure {
    /// The name under which it is written.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Median => "median",
            Measure::Mean => "mean",
            Measure::P99 => "p99",
        }
    }
}
