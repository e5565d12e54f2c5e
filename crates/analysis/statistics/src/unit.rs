//! Units of numbers.

use schemars::JsonSchema;
use serde::Serialize;

/// Unit of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A count.
    Count,
    /// A mean of counts.
    Mean,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// A share, from 0 to 1.
    Share,
    /// Bytes.
    Bytes,
    /// A rate per second.
    #[serde(rename = "per_s")]
    PerSecond,
    /// A factor.
    Times,
}
