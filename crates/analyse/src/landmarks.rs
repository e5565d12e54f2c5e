//! The few numbers by which a distribution of times is known.

/// The few numbers by which a distribution of times is known. Which time it is (service,
/// response, lag, captured) the field that holds it says. Never of an empty set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Landmarks {
    /// How many values.
    pub count: u64,
    /// Their sum, in nanoseconds.
    pub total_ns: f64,
    /// Half of the values are not greater, in nanoseconds.
    pub p50_ns: u64,
    /// 95 % are not greater, in nanoseconds.
    pub p95_ns: u64,
    /// 99 % are not greater, in nanoseconds.
    pub p99_ns: u64,
    /// The greatest, exactly, in nanoseconds.
    pub max_ns: u64,
}

impl Landmarks {
    /// The arithmetic mean, in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.total_ns / self.count as f64
    }
}
