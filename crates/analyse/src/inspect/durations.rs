//! How many statements took how long.

/// The bins' upper ends, in microseconds: 1, 2 and 5 to a decade, from 1 µs to 5,000 s. What takes
/// longer is in a last bin without end.
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

/// Counts of durations between fixed bounds; exact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durations {
    bins: [DurationBin; DURATION_BOUNDS_US.len() + 1],
}

/// What is in one bin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DurationBin {
    /// Statements.
    pub count: u64,
    /// Their time together, in microseconds.
    pub time_us: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            bins: [DurationBin::default(); DURATION_BOUNDS_US.len() + 1],
        }
    }
}

impl Durations {
    /// Counts one.
    pub fn add(&mut self, duration_us: u64) {
        let at = DURATION_BOUNDS_US.partition_point(|bound| *bound <= duration_us);
        self.bins[at].count += 1;
        self.bins[at].time_us += duration_us;
    }

    /// The bins from the first to the last that hold something, each with its lower end (included)
    /// and its upper end (not included; `None` for the last of all).
    pub fn bins(&self) -> Vec<(u64, Option<u64>, DurationBin)> {
        let full = |bin: &DurationBin| bin.count > 0;
        let (Some(first), Some(last)) = (
            self.bins.iter().position(full),
            self.bins.iter().rposition(full),
        ) else {
            return Vec::new();
        };
        (first..=last)
            .map(|at| {
                let from_us = at.checked_sub(1).map_or(0, |at| DURATION_BOUNDS_US[at]);
                (from_us, DURATION_BOUNDS_US.get(at).copied(), self.bins[at])
            })
            .collect()
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
    fn each_duration_is_between_its_bins_ends() {
        let mut durations = Durations::default();
        assert_eq!(durations.bins(), []);
        for duration_us in [7, 10, 19, 20, u64::MAX / 2] {
            durations.add(duration_us);
        }
        let bins = durations.bins();
        let bin = |count, time_us| DurationBin { count, time_us };
        assert_eq!(bins[0], (5, Some(10), bin(1, 7)));
        assert_eq!(bins[1], (10, Some(20), bin(2, 29)));
        assert_eq!(bins[2], (20, Some(50), bin(1, 20)));
        assert_eq!(
            bins.last().unwrap(),
            &(5_000_000_000, None, bin(1, u64::MAX / 2))
        );
    }
}
