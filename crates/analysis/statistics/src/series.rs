//! Times of one statement in one run: all of them while they are few, a uniform sample after that.
//!
//! A sample takes four bytes: the time in nanoseconds as the upper 25 bits of an `f32` (its sign is
//! always 0; 17 bits of mantissa remain, a relative error of 4·10⁻⁶) and the stretch of the run in
//! 7 bits. Sorting packed samples sorts them by time.
//!
//! Past [`SAMPLES_MAX`] values, a new value replaces a random earlier one with the probability that
//! keeps all equally likely (algorithm R; Vitter, "Random Sampling with a Reservoir", ACM TOMS 11,
//! 1985). Counts and sums of every stretch stay exact.

use crate::latency_summary::LatencySummary;
use crate::quantile;
use crate::quantile::{P50, P95, P99};
use crate::random::SplitMix64;
use crate::timeline::STRETCHES_MAX;

/// Maximum number of samples of one statement in one run: 655 of them lie beyond the 99th
/// percentile. They take 256 KiB.
pub const SAMPLES_MAX: usize = 65_536;

const SLOT_BITS: u32 = STRETCHES_MAX.ilog2();
const SLOT_MASK: u32 = STRETCHES_MAX as u32 - 1;
/// Low bits of an `f32` that make room for the slot, less the sign bit.
const VALUE_SHIFT: u32 = SLOT_BITS - 1;

/// Returns the slot of a packed sample.
pub fn slot_of(sample: u32) -> usize {
    (sample & SLOT_MASK) as usize
}

/// Returns the value of a packed sample, in nanoseconds.
pub fn value_of(sample: u32) -> f64 {
    f64::from(f32::from_bits((sample >> SLOT_BITS) << VALUE_SHIFT))
}

fn pack(value_ns: u64, slot: u8) -> u32 {
    // Adds half a unit of the truncated bits, to round instead of truncate.
    let bits = (value_ns as f32).to_bits() + (1 << (VALUE_SHIFT - 1));
    ((bits >> VALUE_SHIFT) << SLOT_BITS) | u32::from(slot)
}

/// Count and sum of one stretch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StretchSum {
    /// Number of values.
    pub count: u64,
    /// Their sum, in nanoseconds.
    pub total_ns: f64,
}

/// Count and sum of each stretch.
pub type StretchSums = [StretchSum; STRETCHES_MAX];

/// The times of one statement in one run.
#[derive(Debug, Clone)]
pub struct Series {
    count: u64,
    total_ns: f64,
    max_ns: u64,
    samples: Vec<u32>,
    /// Exact sums, once the samples are no longer complete.
    sums: Option<Box<StretchSums>>,
    random: SplitMix64,
}

impl Series {
    /// Creates an empty series. The seed determines which samples are kept.
    pub fn new(seed: u64) -> Self {
        Self {
            count: 0,
            total_ns: 0.0,
            max_ns: 0,
            samples: Vec::new(),
            sums: None,
            random: SplitMix64::new(seed),
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all values, in nanoseconds.
    pub fn total_ns(&self) -> f64 {
        self.total_ns
    }

    /// Adds a value in the stretch `slot`.
    pub fn record(&mut self, value_ns: u64, slot: u8) {
        self.count += 1;
        self.total_ns += value_ns as f64;
        self.max_ns = self.max_ns.max(value_ns);
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(pack(value_ns, slot));
            return;
        }
        if self.sums.is_none() {
            self.sums = Some(Box::new(self.stretch_sums()));
        }
        if let Some(sums) = &mut self.sums {
            let sum = &mut sums[usize::from(slot)];
            sum.count += 1;
            sum.total_ns += value_ns as f64;
        }
        let place = self.random.below(self.count) as usize;
        if let Some(sample) = self.samples.get_mut(place) {
            *sample = pack(value_ns, slot);
        }
    }

    /// Merges neighbouring stretches, because the run is longer than the timeline.
    pub fn double_stretches(&mut self) {
        for sample in &mut self.samples {
            *sample = (*sample & !SLOT_MASK) | ((*sample & SLOT_MASK) >> 1);
        }
        if let Some(sums) = &mut self.sums {
            let mut halved = [StretchSum::default(); STRETCHES_MAX];
            for (slot, sum) in sums.iter().enumerate() {
                halved[slot / 2].count += sum.count;
                halved[slot / 2].total_ns += sum.total_ns;
            }
            **sums = halved;
        }
    }

    /// Returns count and sum of every stretch.
    pub fn stretch_sums(&self) -> StretchSums {
        if let Some(sums) = &self.sums {
            return **sums;
        }
        let mut sums = [StretchSum::default(); STRETCHES_MAX];
        for sample in &self.samples {
            let sum = &mut sums[slot_of(*sample)];
            sum.count += 1;
            sum.total_ns += value_of(*sample);
        }
        sums
    }

    /// Returns the latency summary, given the samples in ascending order; `None` if there are no
    /// values.
    pub fn latency_summary(&self, sorted: &[u32]) -> Option<LatencySummary> {
        let at = |per_mille| {
            let value_ns = value_of(quantile::of_sorted(sorted, per_mille)?).round() as u64;
            Some(value_ns.min(self.max_ns))
        };
        Some(LatencySummary {
            count: self.count,
            total_ns: self.total_ns,
            mean_ns: self.total_ns / self.count as f64,
            p50_ns: at(P50)?,
            p95_ns: at(P95)?,
            p99_ns: at(P99)?,
            max_ns: self.max_ns,
        })
    }

    /// Returns the samples in ascending order of their value.
    pub fn sorted(&self) -> Vec<u32> {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        sorted
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_sample_keeps_slot_and_approximate_value(
            bits in 0u32..63, low in any::<u64>(), slot in 0u8..128,
        ) {
            let value = low >> (63 - bits);
            let sample = pack(value, slot);
            prop_assert_eq!(slot_of(sample), usize::from(slot));
            prop_assert!((value_of(sample) - value as f64).abs() <= value as f64 * 4.1e-6);
        }
    }

    #[test]
    fn past_the_sample_limit_sums_are_exact_and_samples_uniform() {
        let mut series = Series::new(1);
        let many = SAMPLES_MAX as u64 * 8;
        for number in 0..many {
            series.record(number, (number * 128 / many) as u8);
        }
        let sums = series.stretch_sums();
        assert_eq!(series.samples.len(), SAMPLES_MAX);
        assert_eq!(sums.iter().map(|sum| sum.count).sum::<u64>(), many);
        assert!(sums.iter().all(|sum| sum.count == many / 128));
        let latency = series.latency_summary(&series.sorted()).unwrap();
        let off = latency.p50_ns as f64 / (many as f64 / 2.0);
        assert!((off - 1.0).abs() < 0.01, "{off}");
        assert_eq!(latency.max_ns, many - 1);
    }

    #[test]
    fn doubled_stretches_keep_all_samples() {
        let mut series = Series::new(1);
        series.record(10, 0);
        series.record(20, 1);
        series.record(40, 5);
        series.double_stretches();
        let sums = series.stretch_sums();
        assert_eq!((sums[0].count, sums[0].total_ns), (2, 30.0));
        assert_eq!((sums[2].count, sums[2].total_ns), (1, 40.0));
        assert_eq!(sums.iter().map(|sum| sum.count).sum::<u64>(), 3);
    }
}
