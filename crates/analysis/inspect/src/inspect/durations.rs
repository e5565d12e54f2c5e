//! Histogram of statement durations.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

/// Upper bounds of the bins, in microseconds: 1, 2 and 5 in each decade, from 1 µs to 5,000 s. A
/// last bin without an upper bound holds longer durations.
pub const DURATION_BOUNDS_US: [u64; 30] = {
    let mut bounds = [0; 30];
    let (mut at, mut decade) = (0, 1);
    while at < 30 {
        bounds[at] = decade;
        bounds[at + 1] = decade * 2;
        bounds[at + 2] = decade * 5;
        at += 3;
        decade *= 10;
    }
    bounds
};

/// Exact histogram of durations with fixed bounds. It is serialised as the list of
/// [`Durations::bins`].
#[derive(Debug, Clone, Default, PartialEq, Eq, JsonSchema)]
#[schemars(with = "Vec<DurationBin>")]
pub struct Durations {
    /// Number of statements and their total time in microseconds, by bin.
    bins: [(u64, u64); DURATION_BOUNDS_US.len() + 1],
}

/// Statements whose duration lies between two bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DurationBin {
    /// Inclusive lower bound.
    pub from_us: u64,
    /// Exclusive upper bound; `null` for the last bin.
    pub to_us: Option<u64>,
    /// Number of statements.
    pub count: u64,
    /// Their total time.
    pub time_us: u64,
}

impl Durations {
    /// Adds a duration.
    pub fn add(&mut self, duration_us: u64) {
        let at = DURATION_BOUNDS_US.partition_point(|bound| *bound <= duration_us);
        self.bins[at].0 += 1;
        self.bins[at].1 += duration_us;
    }

    /// Returns the range of bins from the first to the last that is not empty.
    pub fn bins(&self) -> Vec<DurationBin> {
        let full = |bin: &(u64, u64)| bin.0 > 0;
        let (Some(first), Some(last)) = (
            self.bins.iter().position(full),
            self.bins.iter().rposition(full),
        ) else {
            return Vec::new();
        };
        (first..=last)
            .map(|at| DurationBin {
                from_us: at.checked_sub(1).map_or(0, |at| DURATION_BOUNDS_US[at]),
                to_us: DURATION_BOUNDS_US.get(at).copied(),
                count: self.bins[at].0,
                time_us: self.bins[at].1,
            })
            .collect()
    }
}

impl Serialize for Durations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.bins())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_one_two_five() {
        assert_eq!(DURATION_BOUNDS_US[..6], [1, 2, 5, 10, 20, 50]);
        assert_eq!(DURATION_BOUNDS_US[29], 5_000_000_000);
    }

    #[test]
    fn durations_are_within_their_bins() {
        let mut durations = Durations::default();
        assert_eq!(durations.bins(), []);
        for duration_us in [7, 10, 19, 20, u64::MAX / 2] {
            durations.add(duration_us);
        }
        let bins = durations.bins();
        let bin = |from_us, to_us, count, time_us| DurationBin {
            from_us,
            to_us,
            count,
            time_us,
        };
        assert_eq!(bins[0], bin(5, Some(10), 1, 7));
        assert_eq!(bins[1], bin(10, Some(20), 2, 29));
        assert_eq!(bins[2], bin(20, Some(50), 1, 20));
        let last = bin(5_000_000_000, None, 1, u64::MAX / 2);
        assert_eq!(bins.last(), Some(&last));
    }
}
