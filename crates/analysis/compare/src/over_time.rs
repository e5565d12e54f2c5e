//! Course of a run by stretch: counts, and quantiles for a chart.

use schemars::JsonSchema;
use serde::Serialize;

use statistics::STRETCHES_MAX;
use statistics::quantile;
use statistics::quantile::{P50, P99};

/// Bins in each power of two, as a power of two: a bin's middle is within 3 % of its values.
const BINS_BITS: u32 = 4;
/// Number of bins. Values from 2^44 ns (about five hours) share the last bins.
const BINS: usize = (44 - BINS_BITS as usize + 1) << BINS_BITS;

/// Times of all statements by stretch, in bounded memory: 330 KB if every stretch has some.
#[derive(Debug, Clone)]
pub(crate) struct TimesByStretch {
    stretches: Vec<Option<Box<[u32; BINS]>>>,
}

fn bin_of(value_ns: u64) -> usize {
    let shift = (u64::BITS - value_ns.leading_zeros()).saturating_sub(BINS_BITS + 1);
    let bin = ((shift as usize) << BINS_BITS) + (value_ns >> shift) as usize;
    bin.min(BINS - 1)
}

/// Returns the middle of a bin, in nanoseconds.
fn middle_of(bin: usize) -> u64 {
    let bins = 1usize << BINS_BITS;
    if bin < 2 * bins {
        return bin as u64;
    }
    let shift = bin / bins - 1;
    let low = ((bin - shift * bins) as u64) << shift;
    low + (1u64 << shift) / 2
}

impl TimesByStretch {
    pub(crate) fn new() -> Self {
        Self {
            stretches: vec![None; STRETCHES_MAX],
        }
    }

    pub(crate) fn record(&mut self, value_ns: u64, slot: u8) {
        let bins = self.stretches[usize::from(slot)].get_or_insert_with(|| Box::new([0; BINS]));
        let bin = &mut bins[bin_of(value_ns)];
        *bin = bin.saturating_add(1);
    }

    /// Merges neighbouring stretches.
    pub(crate) fn double_stretches(&mut self) {
        for slot in 0..STRETCHES_MAX {
            let Some(bins) = self.stretches[slot].take() else {
                continue;
            };
            match &mut self.stretches[slot / 2] {
                Some(sum) => {
                    for (sum, more) in sum.iter_mut().zip(bins.iter()) {
                        *sum = sum.saturating_add(*more);
                    }
                }
                empty => *empty = Some(bins),
            }
        }
    }

    /// Adds the times of another run with the same stretches.
    pub(crate) fn merge(&mut self, other: &TimesByStretch) {
        for (mine, theirs) in self.stretches.iter_mut().zip(&other.stretches) {
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => {
                    for (sum, more) in mine.iter_mut().zip(theirs.iter()) {
                        *sum = sum.saturating_add(*more);
                    }
                }
                (empty @ None, Some(theirs)) => *empty = Some(theirs.clone()),
                (_, None) => {}
            }
        }
    }

    /// Returns count, median and 99th percentile of a stretch; `None` if it is empty.
    pub(crate) fn stretch(&self, slot: usize) -> Option<StretchTimes> {
        let bins = self.stretches.get(slot)?.as_deref()?;
        let count: u64 = bins.iter().map(|count| u64::from(*count)).sum();
        let at = |per_mille| {
            let rank = quantile::rank(per_mille, count);
            let mut seen = 0;
            bins.iter()
                .position(|in_bin| {
                    seen += u64::from(*in_bin);
                    seen >= rank
                })
                .map_or(0, middle_of)
        };
        Some(StretchTimes {
            count,
            p50_ns: at(P50),
            p99_ns: at(P99),
        })
    }
}

/// Times of one stretch of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StretchTimes {
    /// Number of statements.
    pub count: u64,
    /// Median, within 3 %, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, within 3 %, in nanoseconds.
    pub p99_ns: u64,
}

/// One stretch of time on one side, over all runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SideStretch {
    /// Statements that were due in it and were sent.
    pub sent: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Service time (sent → done) of the statements that succeeded; `None` if there are none.
    pub service: Option<StretchTimes>,
    /// Response time (due → done) of the statements that succeeded.
    pub response: Option<StretchTimes>,
    /// Tool lag of the statements that were sent.
    pub tool_lag: Option<StretchTimes>,
}

/// Both sides by stretch. Statements belong to the stretch in which they were due; stretches have
/// the same width on both sides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ComparedOverTime {
    /// Width of a stretch, in nanoseconds.
    pub width_ns: u64,
    /// Stretches before, from the start of the replay.
    pub before: Vec<SideStretch>,
    /// Stretches after; as many as `before`.
    pub after: Vec<SideStretch>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretch_quantiles_are_within_three_percent() {
        let mut times = TimesByStretch::new();
        for value in 1..=1_000u64 {
            times.record(value * 1_000, 3);
        }
        let stretch = times.stretch(3).unwrap();
        assert_eq!(stretch.count, 1_000);
        for (found, exact) in [(stretch.p50_ns, 500_000.0), (stretch.p99_ns, 990_000.0)] {
            assert!((found as f64 / exact - 1.0).abs() < 0.035, "{found}");
        }
        assert_eq!(times.stretch(2), None);
        times.record(u64::MAX, 127);
        assert!(times.stretch(127).unwrap().p50_ns > 1 << 43);
    }

    #[test]
    fn doubling_and_merging_keep_all_times() {
        let mut times = TimesByStretch::new();
        times.record(10, 0);
        times.record(20, 1);
        times.record(30, 127);
        let other = times.clone();
        times.double_stretches();
        let counts = |times: &TimesByStretch| -> Vec<u64> {
            (0..STRETCHES_MAX)
                .filter_map(|slot| Some(times.stretch(slot)?.count))
                .collect()
        };
        assert_eq!(counts(&times), [2, 1]);
        assert_eq!(times.stretch(63).unwrap().p50_ns, 30);
        times.merge(&other);
        assert_eq!(counts(&times), [3, 1, 1, 1]);
    }
}
