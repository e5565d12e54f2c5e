//! Summary of a distribution of times.

use schemars::JsonSchema;
use serde::Serialize;

use crate::measure::Measure;

/// Summary of a non-empty distribution of times, in nanoseconds. Quantiles are nearest rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct LatencySummary {
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub total_ns: f64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Greatest value.
    pub max_ns: u64,
}

impl LatencySummary {
    /// Returns the value of a measure, in nanoseconds.
    pub fn measure_ns(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Median => self.p50_ns as f64,
            Measure::Mean => self.mean_ns,
            Measure::P99 => self.p99_ns as f64,
        }
    }
}
