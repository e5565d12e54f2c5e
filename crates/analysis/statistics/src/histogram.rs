//! A distribution in little memory.
//!
//! Log-linear bins, as in HdrHistogram (G. Tene) and DDSketch (Masson, Rim & Lee, VLDB 2019):
//! every power of two is cut in 64 equal bins, so a bin is at most 1/64 of its lower end wide,
//! and its middle is within 1/128 (0.79 %) of every value in it. Below 128 every value has its
//! own bin. Only bins that hold something are kept, in order, at 10 bytes each: 10,000
//! distributions with 100 such bins are 10 MB. Values wait in a small buffer and are put into bins
//! together: sorting 256 of them costs less than finding a place 256 times.

use std::borrow::Cow;

use crate::latency_summary::LatencySummary;
use crate::quantile;
use crate::quantile::{P50, P95, P99};

/// Bins to a power of two, as a power of two.
const BINS_BITS: u32 = 6;

/// Counts of values in bins; quantiles within 0.8 %, count, sum and maximum exact.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// The bins that hold something, ascending.
    bins: Vec<u16>,
    /// How many values each of them holds.
    counts: Vec<u64>,
    /// Bins of values that are not counted yet, in no order.
    waiting: Vec<u16>,
    count: u64,
    total: f64,
    max: u64,
}

/// So many values wait before they are counted: half a kilobyte.
const WAITING_MAX: usize = 256;

/// The bin of a value: its exponent and the bits after its leading one. At most 3,776.
fn bin_of(value: u64) -> u16 {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BINS_BITS + 1);
    // With shift 0 the value is its own bin; from there on 64 bins a shift, whose leading bit
    // adds the 64 that the bins of shift 0 have more.
    ((shift << BINS_BITS) as u64 + (value >> shift)) as u16
}

/// The middle of a bin.
fn middle_of(bin: u16) -> u64 {
    let bins = 1u64 << BINS_BITS;
    let bin = u64::from(bin);
    if bin < 2 * bins {
        return bin;
    }
    let shift = bin / bins - 1;
    let low = (bin - shift * bins) << shift;
    low + (1u64 << shift) / 2
}

impl Histogram {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        self.waiting.push(bin_of(value));
        if self.waiting.len() >= WAITING_MAX {
            self.settle();
        }
        self.count += 1;
        self.total += value as f64;
        self.max = self.max.max(value);
    }

    /// Counts what waits.
    fn settle(&mut self) {
        self.waiting.sort_unstable();
        let mut from = 0;
        for run in self.waiting.chunk_by(|one, other| one == other) {
            let (bin, more) = (run[0], run.len() as u64);
            // They come in order, so the place of the next is not before this one's.
            match self.bins[from..].binary_search(&bin) {
                Ok(at) => {
                    self.counts[from + at] += more;
                    from += at;
                }
                Err(at) => {
                    self.bins.insert(from + at, bin);
                    self.counts.insert(from + at, more);
                    from += at;
                }
            }
        }
        self.waiting.clear();
    }

    /// This one with nothing waiting.
    fn settled(&self) -> Cow<'_, Histogram> {
        if self.waiting.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut settled = self.clone();
        settled.settle();
        Cow::Owned(settled)
    }

    /// Adds what another has.
    pub fn absorb(&mut self, other: &Histogram) {
        let theirs = other.settled();
        for (bin, count) in theirs.bins.iter().zip(&theirs.counts) {
            match self.bins.binary_search(bin) {
                Ok(at) => self.counts[at] += count,
                Err(at) => {
                    self.bins.insert(at, *bin);
                    self.counts.insert(at, *count);
                }
            }
        }
        self.count += other.count;
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// How many values were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The quantile `per_mille`, within 0.8 % of the exact one; `None` of nothing.
    pub fn quantile(&self, per_mille: u64) -> Option<u64> {
        self.settled().settled_quantile(per_mille)
    }

    fn settled_quantile(&self, per_mille: u64) -> Option<u64> {
        let rank = quantile::rank(per_mille, self.count);
        if rank == 0 {
            return None;
        }
        let mut seen = 0;
        for (bin, count) in self.bins.iter().zip(&self.counts) {
            seen += count;
            if seen >= rank {
                return Some(middle_of(*bin).min(self.max));
            }
        }
        Some(self.max)
    }

    /// The latency summary of the values, which were nanoseconds; `None` of nothing.
    pub fn latency_summary(&self) -> Option<LatencySummary> {
        let settled = self.settled();
        Some(LatencySummary {
            count: self.count,
            total_ns: self.total,
            mean_ns: self.total / self.count as f64,
            p50_ns: settled.settled_quantile(P50)?,
            p95_ns: settled.settled_quantile(P95)?,
            p99_ns: settled.settled_quantile(P99)?,
            max_ns: self.max,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bins_follow_each_other_without_gap() {
        let mut last = bin_of(0);
        for value in 1..1_000_000u64 {
            let bin = bin_of(value);
            assert!(bin == last || bin == last + 1, "{value}");
            last = bin;
        }
        assert_eq!(bin_of(127), 127);
        assert_eq!(bin_of(u64::MAX), 3_775);
        assert!(middle_of(3_775) > u64::MAX / 128 * 127);
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(Histogram::new().quantile(P50), None);
        assert_eq!(Histogram::new().latency_summary(), None);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_one_percent(
            values in prop::collection::vec(
                (0u32..63).prop_flat_map(|bits| 0..(1u64 << (bits + 1)) - 1), 1..900),
            per_mille in 0u64..=1_000,
        ) {
            let mut histogram = Histogram::new();
            for value in &values {
                histogram.record(*value);
            }
            let mut sorted = values;
            sorted.sort_unstable();
            let exact = quantile::of_sorted(&sorted, per_mille).unwrap() as f64;
            let binned = histogram.quantile(per_mille).unwrap() as f64;
            prop_assert!((binned - exact).abs() <= exact * 0.01, "{binned} for {exact}");
            prop_assert_eq!(histogram.count(), sorted.len() as u64);
            let mut twice = histogram.clone();
            twice.absorb(&histogram);
            prop_assert_eq!(twice.quantile(per_mille), histogram.quantile(per_mille));
            prop_assert_eq!(twice.count(), 2 * histogram.count());
        }
    }
}
