//! Chooses the block length: how many neighbouring stretches count as one observation.
//!
//! A disturbance of half a minute affects all stretches in it alike. Drawn or permuted one by one,
//! they would pass for many independent observations. While neighbours are correlated, pairs are
//! merged: the blocking of Flyvbjerg and Petersen, "Error Estimates on Averages of Correlated
//! Data", Journal of Chemical Physics 91 (1989). Merging stops at [`BLOCKS_MIN`] blocks, because
//! fewer could show nothing. Correlation that remains at that length is a drift, which is reported
//! as an anomaly (`compare::Anomaly`).

use crate::bootstrap::Resampler;
use crate::quantile;
use crate::series::{slot_of, value_of};
use crate::timeline::STRETCHES_MAX;

/// Minimum number of blocks, if there are as many stretches.
const BLOCKS_MIN: usize = 16;

/// Standard errors from which neighbours count as correlated (one-sided, 5 %).
const CORRELATED: f64 = 1.645;

/// Quantiles at which correlation is checked: calls above the median, and calls above the 90th
/// percentile, which shows a disturbance that spares most calls.
const PER_MILLES: [u64; 2] = [500, 900];

/// Returns the block length in stretches, as a power of two.
pub fn block_bits(before: &[Resampler], after: &[Resampler], paired: bool) -> u32 {
    let mut bits = 0;
    for per_mille in PER_MILLES {
        let before: Vec<ExceedanceCounts> = before
            .iter()
            .map(|run| ExceedanceCounts::new(run, per_mille))
            .collect();
        let after: Vec<ExceedanceCounts> = after
            .iter()
            .map(|run| ExceedanceCounts::new(run, per_mille))
            .collect();
        if paired {
            bits = bits.max(required_bits(|slots| {
                Some(exceedance_share(&after, slots.clone())? - exceedance_share(&before, slots)?)
            }));
        } else {
            for run in before.iter().chain(&after) {
                let run = std::slice::from_ref(run);
                bits = bits.max(required_bits(|slots| exceedance_share(run, slots)));
            }
        }
    }
    bits
}

/// Number of samples in each stretch, and the number above a quantile of the run.
struct ExceedanceCounts {
    counts: [u32; STRETCHES_MAX],
    above: [u32; STRETCHES_MAX],
}

impl ExceedanceCounts {
    fn new(run: &Resampler, per_mille: u64) -> Self {
        let sorted = run.sorted();
        let threshold = quantile::of_sorted(sorted, per_mille).map_or(f64::MAX, value_of);
        let mut found = Self {
            counts: [0; STRETCHES_MAX],
            above: [0; STRETCHES_MAX],
        };
        for sample in sorted {
            found.counts[slot_of(*sample)] += 1;
        }
        let first = sorted.partition_point(|sample| value_of(*sample) <= threshold);
        for sample in &sorted[first..] {
            found.above[slot_of(*sample)] += 1;
        }
        found
    }
}

/// Returns the share of a side's samples in these stretches that exceed the quantile.
fn exceedance_share(runs: &[ExceedanceCounts], slots: std::ops::Range<usize>) -> Option<f64> {
    let (mut count, mut above) = (0, 0);
    for run in runs {
        count += run.counts[slots.clone()].iter().sum::<u32>();
        above += run.above[slots.clone()].iter().sum::<u32>();
    }
    (count > 0).then(|| f64::from(above) / f64::from(count))
}

fn required_bits(value: impl Fn(std::ops::Range<usize>) -> Option<f64>) -> u32 {
    let mut bits = 0;
    loop {
        let values: Vec<f64> = (0..STRETCHES_MAX >> bits)
            .filter_map(|block| value(block << bits..(block + 1) << bits))
            .collect();
        if values.len() / 2 < BLOCKS_MIN {
            return bits;
        }
        match autocorrelation(&values) {
            Some(found) if found > CORRELATED / (values.len() as f64).sqrt() => bits += 1,
            _ => return bits,
        }
    }
}

/// Returns the lag-1 autocorrelation; `None` if nothing varies.
fn autocorrelation(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let products: f64 = values
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    (squares > 0.0).then(|| products / squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;
    use crate::series::Series;

    /// Creates a run whose stretches are disturbed in groups of `alike`.
    fn run(seed: u64, alike: usize) -> Resampler {
        let mut random = SplitMix64::new(seed);
        let mut uniform = move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let disturbance: Vec<f64> = (0..STRETCHES_MAX).map(|_| 1.0 + uniform()).collect();
        let mut series = Series::new(seed);
        for slot in 0..STRETCHES_MAX {
            for _ in 0..30 {
                let value = 1e6 * disturbance[slot / alike] * (0.8 + 0.4 * uniform());
                series.record(value as u64, slot as u8);
            }
        }
        Resampler::new(&series)
    }

    #[test]
    fn correlated_stretches_are_merged_into_blocks() {
        let mut bits = [0; 2];
        for seed in 0..20 {
            for (at, alike) in [1, 8].into_iter().enumerate() {
                let before = [run(2 * seed, alike)];
                let after = [run(2 * seed + 1, alike)];
                bits[at] += block_bits(&before, &after, seed % 2 == 0);
            }
        }
        // Uncorrelated stretches mostly stay single (each check errs in 5 % of cases); groups of
        // eight are nearly always merged.
        assert!(bits[0] <= 12, "{bits:?}");
        assert!(bits[1] >= 45, "{bits:?}");
    }

    #[test]
    fn few_stretches_are_not_merged() {
        let mut series = Series::new(1);
        for slot in 0..20 {
            series.record(1_000 * (u64::from(slot) + 1), slot);
        }
        let one = [Resampler::new(&series)];
        assert_eq!(block_bits(&one, &one, false), 0);
    }
}
