//! How a run went from stretch to stretch: counts, and quantiles for a chart.

use schemars::JsonSchema;
use serde::Serialize;

use statistics::STRETCHES_MAX;
use statistics::quantile;
use statistics::quantile::{P50, P99};

/// Bins to a power of two: a bin's middle is within 3 % of what is in it, which no chart shows.
const BINS_BITS: u32 = 4;
/// Values from 2^44 ns on (some five hours) share the last bins.
const BINS: usize = (44 - BINS_BITS as usize + 1) << BINS_BITS;

/// Times of all statements by stretch, in fixed memory: 330 KB when every stretch has some.
#[derive(Debug, Clone)]
pub(crate) struct TimesByStretch {
    stretches: Vec<Option<Box<[u32; BINS]>>>,
}

fn bin_of(value_ns: u64) -> usize {
    let shift = (u64::BITS - value_ns.leading_zeros()).saturating_sub(BINS_BITS + 1);
    let bin = ((shift as usize) << BINS_BITS) + (value_ns >> shift) as usize;
    bin.min(BINS - 1)
}

/// The middle of a bin, in nanoseconds.
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

    /// Two neighbouring stretches become one.
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

    /// Adds what another run had in the same stretches.
    pub(crate) fn absorb(&mut self, other: &TimesByStretch) {
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

    /// Count, median and 99th percentile of a stretch; `None` where nothing was.
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
    /// How many.
    pub count: u64,
    /// Their median, within 3 %, in nanoseconds.
    pub p50_ns: u64,
    /// Their 99th percentile, within 3 %, in nanoseconds.
    pub p99_ns: u64,
}

/// One stretch of time on one side, all runs of it together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SideStretch {
    /// Statements that were due in it and sent, done or failed.
    pub sent: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Sent → done, of what was done; `None` where nothing was.
    pub service: Option<StretchTimes>,
    /// Due → done, of what was done.
    pub response: Option<StretchTimes>,
    /// The tool's own delay, of what was sent.
    pub tool_lag: Option<StretchTimes>,
}

/// Both sides from stretch to stretch. Stretches are of the time when statements were due, and as
/// wide on both sides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ComparedOverTime {
    /// The width of a stretch, in nanoseconds.
    pub width_ns: u64,
    /// Before, stretch by stretch from the start of the replay.
    pub before: Vec<SideStretch>,
    /// After; as long as `before`.
    pub after: Vec<SideStretch>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_stretch_are_near_the_exact_ones() {
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
    fn doubled_and_added_stretches_hold_all() {
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
        times.absorb(&other);
        assert_eq!(counts(&times), [3, 1, 1, 1]);
    }
}
