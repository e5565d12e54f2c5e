//! Measure of a distribution that a finding rests on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Measure that a finding rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Median: the typical call.
    Median,
    /// Mean: the total at equal numbers of calls.
    Mean,
    /// 99th percentile: the slow calls.
    P99,
}

impl Measure {
    /// Returns its serialised name.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Median => "median",
            Measure::Mean => "mean",
            Measure::P99 => "p99",
        }
    }
}
