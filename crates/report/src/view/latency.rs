//! A distribution of times.

use analyse::LatencySummary;
use schemars::JsonSchema;
use serde::Serialize;

/// A distribution of times, in microseconds. Which time it is the field that holds it says.
/// Quantiles are nearest rank.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct LatencyView {
    /// How many values.
    pub count: u64,
    /// Their sum.
    pub total_us: f64,
    /// Their arithmetic mean.
    pub mean_us: f64,
    /// Half are not greater.
    pub p50_us: f64,
    /// 95 % are not greater.
    pub p95_us: f64,
    /// 99 % are not greater.
    pub p99_us: f64,
    /// The greatest.
    pub max_us: f64,
}

impl From<LatencySummary> for LatencyView {
    fn from(latency: LatencySummary) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        Self {
            count: latency.count,
            total_us: latency.total_ns / 1e3,
            mean_us: latency.mean_ns / 1e3,
            p50_us: us(latency.p50_ns),
            p95_us: us(latency.p95_ns),
            p99_us: us(latency.p99_ns),
            max_us: us(latency.max_ns),
        }
    }
}
