//! Log-linear histogram in little memory.
//!
//! The bins are those of HdrHistogram (G. Tene) and DDSketch (Masson, Rim & Lee, VLDB 2019): every
//! power of two is divided into 64 equal bins. A bin is at most 1/64 of its lower end wide, and its
//! middle is within 1/128 (0.79 %) of every value in it. Values below 128 have their own bins. Only
//! non-empty bins are kept, in order, at 10 bytes each: 10,000 distributions with 100 such bins are
//! 10 MB. Values are collected in a small buffer and inserted together, because sorting 256 of them
//! costs less than 256 searches.

use std::borrow::Cow;

use crate::latency_summary::LatencySummary;
use crate::quantile;
use crate::quantile::{P50, P95, P99};

/// Bins in each power of two, as a power of two.
const BINS_BITS: u32 = 6;

/// Histogram with quantiles within 0.8 %; count, sum and maximum are exact.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// Non-empty bins, in ascending order.
    bins: Vec<u16>,
    /// Number of values in each of these bins.
    counts: Vec<u64>,
    /// Bins of values that are not counted yet, unordered.
    pending: Vec<u16>,
    count: u64,
    total: f64,
    max: u64,
}

/// Maximum number of pending values: half a kilobyte.
const PENDING_MAX: usize = 256;

/// Returns the bin of a value: its exponent and the bits after its leading one. At most 3,776.
fn bin_of(value: u64) -> u16 {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BINS_BITS + 1);
    // With shift 0 the value is its own bin. From there on there are 64 bins for each shift, whose
    // leading bit adds the 64 by which the bins of shift 0 are more.
    ((shift << BINS_BITS) as u64 + (value >> shift)) as u16
}

/// Returns the middle of a bin.
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
    /// Creates an empty histogram.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        self.pending.push(bin_of(value));
        if self.pending.len() >= PENDING_MAX {
            self.flush_pending();
        }
        self.count += 1;
        self.total += value as f64;
        self.max = self.max.max(value);
    }

    /// Counts the pending values.
    fn flush_pending(&mut self) {
        self.pending.sort_unstable();
        let mut from = 0;
        for run in self.pending.chunk_by(|one, other| one == other) {
            let (bin, more) = (run[0], run.len() as u64);
            // The bins are sorted, so the search resumes at the previous position.
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
        self.pending.clear();
    }

    /// Returns this histogram without pending values.
    fn flushed(&self) -> Cow<'_, Histogram> {
        if self.pending.is_empty() {
            return Cow::Borrowed(self);
        }
        let mut settled = self.clone();
        settled.flush_pending();
        Cow::Owned(settled)
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        let theirs = other.flushed();
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

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the quantile `per_mille`, within 0.8 % of the exact one; `None` if there are no
    /// values.
    pub fn quantile(&self, per_mille: u64) -> Option<u64> {
        self.flushed().flushed_quantile(per_mille)
    }

    fn flushed_quantile(&self, per_mille: u64) -> Option<u64> {
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

    /// Returns the latency summary of values in nanoseconds; `None` if there are no values.
    pub fn latency_summary(&self) -> Option<LatencySummary> {
        let settled = self.flushed();
        Some(LatencySummary {
            count: self.count,
            total_ns: self.total,
            mean_ns: self.total / self.count as f64,
            p50_ns: settled.flushed_quantile(P50)?,
            p95_ns: settled.flushed_quantile(P95)?,
            p99_ns: settled.flushed_quantile(P99)?,
            max_ns: self.max,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bins_are_contiguous() {
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
    fn empty_histogram_has_no_quantile() {
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
            twice.merge(&histogram);
            prop_assert_eq!(twice.quantile(per_mille), histogram.quantile(per_mille));
            prop_assert_eq!(twice.count(), 2 * histogram.count());
        }
    }
}
