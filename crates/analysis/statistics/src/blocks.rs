//! How many neighbouring stretches of a run are one witness.
//!
//! A disturbance of half a minute makes all stretches in it alike; drawn or exchanged one by one
//! they would pass for many witnesses of one thing. As long as neighbours are correlated, two become
//! one: the blocking of Flyvbjerg and Petersen, "Error Estimates on Averages of Correlated Data",
//! Journal of Chemical Physics 91 (1989). It stops at [`BLOCKS_MIN`] blocks: with fewer nothing could
//! be shown, and what is still alike then is a drift, which is told as one ([`compare::remark`]).

use crate::bootstrap::Resampler;
use crate::quantile;
use crate::series::{slot_of, value_of};
use crate::timeline::STRETCHES_MAX;

/// No fewer blocks than this are made, where there are as many stretches.
const BLOCKS_MIN: usize = 16;

/// Neighbours count as correlated from this many standard errors on (one-sided, 5 %).
const CORRELATED: f64 = 1.645;

/// The shares of values that are looked at: those above the median, and those above the 90th
/// percentile, in which a disturbance shows that spares most calls.
const PER_MILLES: [u64; 2] = [500, 900];

/// Of how many stretches, as a power of two, a block consists.
pub fn block_bits(before: &[Resampler], after: &[Resampler], paired: bool) -> u32 {
    let mut bits = 0;
    for per_mille in PER_MILLES {
        let before: Vec<Above> = before
            .iter()
            .map(|run| Above::new(run, per_mille))
            .collect();
        let after: Vec<Above> = after.iter().map(|run| Above::new(run, per_mille)).collect();
        if paired {
            bits = bits.max(needed(|slots| {
                Some(excess(&after, slots.clone())? - excess(&before, slots)?)
            }));
        } else {
            for run in before.iter().chain(&after) {
                let run = std::slice::from_ref(run);
                bits = bits.max(needed(|slots| excess(run, slots)));
            }
        }
    }
    bits
}

/// Of each stretch, how many samples there are, and how many of them are above a quantile of the run.
struct Above {
    counts: [u32; STRETCHES_MAX],
    above: [u32; STRETCHES_MAX],
}

impl Above {
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

/// The share of a side's samples in some stretches that are above.
fn excess(runs: &[Above], slots: std::ops::Range<usize>) -> Option<f64> {
    let (mut count, mut above) = (0, 0);
    for run in runs {
        count += run.counts[slots.clone()].iter().sum::<u32>();
        above += run.above[slots.clone()].iter().sum::<u32>();
    }
    (count > 0).then(|| f64::from(above) / f64::from(count))
}

fn needed(value: impl Fn(std::ops::Range<usize>) -> Option<f64>) -> u32 {
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

/// Of neighbours; `None` where nothing varies.
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

    /// A run whose stretches are disturbed in groups of `alike`.
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
    fn what_is_alike_becomes_one_block() {
        let mut bits = [0; 2];
        for seed in 0..20 {
            for (at, alike) in [1, 8].into_iter().enumerate() {
                let before = [run(2 * seed, alike)];
                let after = [run(2 * seed + 1, alike)];
                bits[at] += block_bits(&before, &after, seed % 2 == 0);
            }
        }
        // One by one mostly (each look errs in 5 % of cases); in eights nearly all of the way.
        assert!(bits[0] <= 12, "{bits:?}");
        assert!(bits[1] >= 45, "{bits:?}");
    }

    #[test]
    fn few_stretches_are_left_as_they_are() {
        let mut series = Series::new(1);
        for slot in 0..20 {
            series.record(1_000 * (u64::from(slot) + 1), slot);
        }
        let one = [Resampler::new(&series)];
        assert_eq!(block_bits(&one, &one, false), 0);
    }
}
