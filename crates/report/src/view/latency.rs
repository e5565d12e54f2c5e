//! A distribution of times.

use analyse::Landmarks;
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

impl From<Landmarks> for LatencyView {
    fn from(landmarks: Landmarks) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        Self {
            count: landmarks.count,
            total_us: landmarks.total_ns / 1e3,
            mean_us: landmarks.mean_ns() / 1e3,
            p50_us: us(landmarks.p50_ns),
            p95_us: us(landmarks.p95_ns),
            p99_us: us(landmarks.p99_ns),
            max_us: us(landmarks.max_ns),
        }
    }
}
