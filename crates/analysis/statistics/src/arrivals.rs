//! Counts of statement arrivals over time.

use schemars::JsonSchema;
use serde::Serialize;

/// Maximum number of buckets: about as many as a terminal row shows.
pub const ARRIVAL_BUCKETS_MAX: usize = 60;

/// Round bucket widths in microseconds, from 1 ms to a day. Beyond a day the width doubles.
const WIDTHS_US: [i64; 22] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    15_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    900_000_000,
    1_800_000_000,
    3_600_000_000,
    21_600_000_000,
    86_400_000_000,
];

/// Returns the narrowest width that covers `span_us` with at most `buckets_max` buckets.
pub fn width_us(span_us: i64, buckets_max: usize) -> i64 {
    let buckets = buckets_max as i64;
    let mut width_us = WIDTHS_US
        .into_iter()
        .find(|width| span_us < width * buckets)
        .unwrap_or(WIDTHS_US[WIDTHS_US.len() - 1]);
    while span_us / width_us >= buckets {
        width_us *= 2;
    }
    width_us
}

/// Arrival counts in buckets of equal width from the workload's start, at most
/// [`ARRIVAL_BUCKETS_MAX`] of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Arrivals {
    /// Width of a bucket, in microseconds.
    pub width_us: i64,
    /// Statements in each bucket; the last may cover less than the width.
    pub counts: Vec<u64>,
}

impl Arrivals {
    /// Creates empty buckets with the narrowest width that covers `span_us`. A later arrival
    /// doubles the width.
    pub fn new(span_us: i64) -> Self {
        Self {
            width_us: width_us(span_us, ARRIVAL_BUCKETS_MAX),
            counts: Vec::new(),
        }
    }

    /// Adds an arrival at `at_us` from the start.
    pub fn add(&mut self, at_us: i64) {
        let mut at = (at_us.max(0) / self.width_us) as usize;
        while at >= ARRIVAL_BUCKETS_MAX {
            self.counts = self.counts.chunks(2).map(|two| two.iter().sum()).collect();
            self.width_us *= 2;
            at = (at_us / self.width_us) as usize;
        }
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
    }

    /// Returns the maximum rate of any bucket, per second.
    pub fn rate_max(&self) -> f64 {
        let most = self.counts.iter().max().copied().unwrap_or(0);
        most as f64 * 1e6 / self.width_us as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_covers_the_span() {
        assert_eq!(Arrivals::new(0).width_us, 1_000);
        assert_eq!(Arrivals::new(60_000_000 - 1).width_us, 1_000_000);
        assert_eq!(Arrivals::new(60_000_000).width_us, 2_000_000);
        assert!(Arrivals::new(i64::MAX / 2).width_us > 86_400_000_000);
    }

    #[test]
    fn arrivals_beyond_the_span_widen_buckets_and_keep_counts() {
        let mut arrivals = Arrivals::new(0);
        for at_us in 0..200_000 {
            arrivals.add(at_us);
        }
        assert!(arrivals.counts.len() <= ARRIVAL_BUCKETS_MAX);
        assert_eq!(arrivals.width_us, 4_000);
        assert_eq!(arrivals.counts.iter().sum::<u64>(), 200_000);
        assert!(arrivals.counts.iter().all(|count| *count == 4_000));
        assert_eq!(arrivals.rate_max(), 1e6);
    }
}
