//! Confidence intervals of ratios by a block bootstrap over time.
//!
//! Consecutive executions are correlated (one checkpoint slows a thousand of them), so they must
//! not be resampled one by one. Stretches of time are resampled with replacement: Künsch, "The
//! Jackknife and the Bootstrap for General Stationary Observations", Annals of Statistics 17
//! (1989), here with stretches that do not overlap (Carlstein 1986). The interval is the percentile
//! interval of the resampled ratios (Efron & Tibshirani, "An Introduction to the Bootstrap", 1993,
//! chapter 13). It assumes no distribution, and turns into its inverse when before and after are
//! swapped.
//!
//! Runs of one workload at one speed did the same things in the same stretches. Then the same
//! stretches are drawn for all of them ("paired"), so that a stretch with expensive parameters is
//! expensive in each and does not widen the interval. Otherwise stretches are drawn for each run
//! separately. Correlated neighbouring stretches are drawn together ([`crate::block_length`]).
//!
//! This interval does not include the differences between runs of the *same* server. With one run
//! on each side they cannot be estimated; the margin around 1 stands in for them. With several
//! runs, [`crate::variance_components`] gives the interval.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::Serialize;

use crate::quantile;
use crate::quantile::{P50, P99};
use crate::random::SplitMix64;
use crate::series::{Series, StretchSums, slot_of, value_of};
use crate::timeline::STRETCHES_MAX;

/// Number of resamples: ten ratios lie outside the interval at either end.
pub const RESAMPLES: usize = 400;

/// Confidence level of the intervals, in percent.
pub const INTERVAL_LEVEL_PERCENT: u32 = 95;

/// Minimum number of resampled ratios that exist (a run may have no draws): nine of ten.
const RESAMPLES_MIN: usize = RESAMPLES * 9 / 10;

/// Minimum number of samples between two stored prefix sums. Below it, adding up is as fast as
/// looking up.
const CHUNK_MIN: usize = 256;
/// Maximum number of prefix sums of a series.
const CHUNKS_MAX: usize = 32;

/// Confidence interval of a ratio at the 95 % level.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Ratio after / before: 2 is twice the time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Ratio {
    /// Ratio of the measured values.
    pub value: f64,
    /// 95 % confidence interval; `None` if there is too little data.
    pub interval: Option<Interval>,
}

/// Number of accumulators that are summed in parallel.
const LANES: usize = 8;

/// Number of times that each stretch was drawn.
type Weights = [u16; STRETCHES_MAX];

/// Number of samples in each stretch.
type Counts = [u32; STRETCHES_MAX];

/// Maximum block length in stretches, as a power of two ([`crate::block_length`]).
const BLOCK_BITS_MAX: usize = STRETCHES_MAX.ilog2() as usize;

/// Bootstrap draws, shared by all statements of a comparison. They do not depend on the data, so
/// they are made once.
pub struct Draws {
    /// All runs did the same things in the same stretches, so the same stretches are drawn for all.
    paired: bool,
    used: usize,
    /// Draws by run (or one entry for all), and by block length.
    drawn: Vec<[OnceLock<Vec<Weights>>; BLOCK_BITS_MAX + 1]>,
}

impl Draws {
    /// Prepares draws for a number of runs with `used` non-empty stretches.
    pub fn new(runs: usize, used: usize, paired: bool) -> Self {
        let tables = if paired { 1 } else { runs };
        Self {
            paired,
            used,
            drawn: (0..tables).map(|_| Default::default()).collect(),
        }
    }

    /// Whether the stretches of both sides are drawn together.
    pub fn paired(&self) -> bool {
        self.paired
    }

    /// Returns the draws for a run.
    fn weights_of(&self, run: usize, block_bits: u32) -> &[Weights] {
        let at = if self.paired { 0 } else { run };
        self.drawn[at][block_bits as usize].get_or_init(|| {
            let mut random = SplitMix64::new(((at as u64) << 32) + u64::from(block_bits) + 1);
            let blocks = self.used.div_ceil(1 << block_bits);
            (0..RESAMPLES)
                .map(|_| draw(blocks, block_bits, &mut random))
                .collect()
        })
    }
}

/// Series prepared for many weighted quantiles.
pub struct Resampler {
    sorted: Vec<u32>,
    sums: StretchSums,
    /// Counts and totals of `sums` in separate arrays, for SIMD arithmetic.
    counts: [f64; STRETCHES_MAX],
    totals_ns: [f64; STRETCHES_MAX],
    chunk: usize,
    /// Number of samples of each stretch before each chunk of `sorted`.
    before_chunk: Vec<Counts>,
    /// Number of samples in each stretch.
    in_all: Counts,
}

impl Resampler {
    /// Prepares a series for resampling.
    pub fn new(series: &Series) -> Self {
        let sorted = series.sorted();
        let chunk = sorted.len().div_ceil(CHUNKS_MAX).max(CHUNK_MIN);
        let mut counted = [0u32; STRETCHES_MAX];
        let mut before_chunk = Vec::new();
        for samples in sorted.chunks(chunk) {
            before_chunk.push(counted);
            for sample in samples {
                counted[slot_of(*sample)] += 1;
            }
        }
        let sums = series.stretch_sums();
        Self {
            counts: sums.map(|sum| sum.count as f64),
            totals_ns: sums.map(|sum| sum.total_ns),
            sums,
            sorted,
            chunk,
            before_chunk,
            in_all: counted,
        }
    }

    /// Returns the samples in ascending order.
    pub fn sorted(&self) -> &[u32] {
        &self.sorted
    }

    /// Returns the exact counts and sums of the stretches.
    pub fn sums(&self) -> &StretchSums {
        &self.sums
    }

    /// Returns the number of non-empty stretches.
    pub fn stretches(&self) -> usize {
        self.sums.iter().filter(|sum| sum.count > 0).count()
    }

    /// Returns the mean over the drawn stretches.
    fn mean(&self, weights: &Weights) -> Option<f64> {
        // Sums in lanes, because the compiler may not reorder floating-point additions.
        let mut count = [0.0; LANES];
        let mut total_ns = [0.0; LANES];
        for at in (0..STRETCHES_MAX).step_by(LANES) {
            for lane in 0..LANES {
                let weight = f64::from(weights[at + lane]);
                count[lane] += self.counts[at + lane] * weight;
                total_ns[lane] += self.totals_ns[at + lane] * weight;
            }
        }
        let (count, total_ns): (f64, f64) = (count.iter().sum(), total_ns.iter().sum());
        (count > 0.0).then(|| total_ns / count)
    }

    /// Returns the weighted quantile over the drawn stretches: the first sample at which the
    /// cumulative weight reaches the rank. Each sample's weight is the number of draws of its
    /// stretch.
    fn quantile(&self, weights: &Weights, per_mille: u64) -> Option<f64> {
        let rank = quantile::rank(per_mille, weighted(&self.in_all, weights));
        if rank == 0 {
            return None;
        }
        let chunk = self
            .before_chunk
            .partition_point(|before| weighted(before, weights) < rank)
            .checked_sub(1)?;
        let mut seen = weighted(&self.before_chunk[chunk], weights);
        for sample in &self.sorted[chunk * self.chunk..] {
            seen += u64::from(weights[slot_of(*sample)]);
            if seen >= rank {
                return Some(value_of(*sample));
            }
        }
        None
    }
}

fn weighted(counts: &Counts, weights: &Weights) -> u64 {
    // A series keeps at most 2^16 samples and a stretch is drawn at most 128 times, so 32 bits
    // suffice.
    let each = counts.iter().zip(weights);
    let sum: u32 = each.map(|(c, w)| c * u32::from(*w)).sum();
    u64::from(sum)
}

/// Number of measures of a distribution: median, mean and 99th percentile.
pub const MEASURES: usize = 3;

/// Ratios of the three measures.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ratios {
    /// Ratio of the medians.
    pub median: Option<Ratio>,
    /// Ratio of the means.
    pub mean: Option<Ratio>,
    /// Ratio of the 99th percentiles.
    pub p99: Option<Ratio>,
}

impl Ratios {
    /// Returns the ratios in the order median, mean, 99th percentile.
    pub fn as_array(&self) -> [Option<Ratio>; MEASURES] {
        [self.median, self.mean, self.p99]
    }

    /// Returns mutable ratios in the same order.
    pub fn as_array_mut(&mut self) -> [&mut Option<Ratio>; MEASURES] {
        [&mut self.median, &mut self.mean, &mut self.p99]
    }
}

/// Options of [`ratios`].
#[derive(Debug, Clone, Copy)]
pub struct RatioOptions {
    /// There is enough data for intervals.
    pub intervals: bool,
    /// There is enough data for the interval of the 99th percentile.
    pub tail: bool,
    /// Block length in stretches, as a power of two.
    pub block_bits: u32,
}

/// Result of [`ratios`].
#[derive(Debug, Clone, Default)]
pub struct RatioEstimates {
    /// Ratios after / before.
    pub ratios: Ratios,
    /// Natural logarithms of each run's median, mean and 99th percentile; before, then after.
    pub logs: [Vec<[Option<f64>; MEASURES]>; 2],
    /// Variance of these logarithms within a run, estimated by resampling and averaged over the
    /// runs; `None` without intervals.
    pub variance_within: [Option<f64>; MEASURES],
}

/// Computes the ratios of two sides with their intervals. With several runs on a side, the ratio is
/// that of the geometric means over the runs.
pub fn ratios(
    before: &[Resampler],
    after: &[Resampler],
    draws: &Draws,
    request: RatioOptions,
) -> RatioEstimates {
    let runs: Vec<&Resampler> = before.iter().chain(after).collect();
    let once = [1; STRETCHES_MAX];
    let estimates = |run: &Resampler, weights: &Weights, tail: bool| {
        let log = |value: Option<f64>| value.filter(|value| *value > 0.0).map(f64::ln);
        let p99 = if tail {
            run.quantile(weights, P99)
        } else {
            None
        };
        [
            log(run.quantile(weights, P50)),
            log(run.mean(weights)),
            log(p99),
        ]
    };
    let measured: Vec<_> = runs.iter().map(|run| estimates(run, &once, true)).collect();

    let mut drawn: [Vec<f64>; MEASURES] = Default::default();
    let mut spreads = vec![[RunningVariance::default(); MEASURES]; runs.len()];
    if request.intervals {
        let mut tables: Vec<_> = (0..runs.len())
            .map(|run| draws.weights_of(run, request.block_bits).iter())
            .collect();
        let mut logs = vec![[None; MEASURES]; runs.len()];
        for _ in 0..RESAMPLES {
            for (at, (run, table)) in runs.iter().zip(&mut tables).enumerate() {
                let Some(weights) = table.next() else { break };
                logs[at] = estimates(run, weights, request.tail);
                for (spread, log) in spreads[at].iter_mut().zip(logs[at]) {
                    spread.add(log);
                }
            }
            for (measure, drawn) in drawn.iter_mut().enumerate() {
                drawn.extend(difference(&logs, before.len(), measure));
            }
        }
    }
    let variance_within = std::array::from_fn(|measure| {
        let variances: Option<Vec<f64>> =
            spreads.iter().map(|run| run[measure].variance()).collect();
        let variances = variances?;
        (request.intervals && !variances.is_empty())
            .then(|| variances.iter().sum::<f64>() / variances.len() as f64)
    });
    let mut ratios = Ratios::default();
    for (measure, (ratio, drawn)) in ratios.as_array_mut().into_iter().zip(drawn).enumerate() {
        *ratio = difference(&measured, before.len(), measure).map(|log| Ratio {
            value: log.exp(),
            interval: percentile_interval(drawn),
        });
    }
    let (logs_before, logs_after) = measured.split_at(before.len());
    RatioEstimates {
        ratios,
        logs: [logs_before.to_vec(), logs_after.to_vec()],
        variance_within,
    }
}

/// Returns the difference of the mean logarithms after and before; `None` if a side has none.
fn difference(logs: &[[Option<f64>; MEASURES]], before: usize, measure: usize) -> Option<f64> {
    let (before, after) = logs.split_at(before);
    let mean = |side: &[[Option<f64>; MEASURES]]| {
        let known = side.iter().filter_map(|logs| logs[measure]);
        let (count, sum) = known.fold((0.0, 0.0), |(count, sum), log| (count + 1.0, sum + log));
        (count > 0.0).then(|| sum / count)
    };
    Some(mean(after)? - mean(before)?)
}

/// Running mean and variance (Welford 1962).
#[derive(Debug, Clone, Copy, Default)]
struct RunningVariance {
    count: f64,
    mean: f64,
    squares: f64,
}

impl RunningVariance {
    fn add(&mut self, value: Option<f64>) {
        let Some(value) = value else { return };
        self.count += 1.0;
        let off = value - self.mean;
        self.mean += off / self.count;
        self.squares += off * (value - self.mean);
    }

    fn variance(&self) -> Option<f64> {
        (self.count >= RESAMPLES_MIN as f64).then(|| self.squares / (self.count - 1.0))
    }
}

/// Draws as many blocks as there are, with replacement.
fn draw(blocks: usize, block_bits: u32, random: &mut SplitMix64) -> Weights {
    let mut weights = [0; STRETCHES_MAX];
    for _ in 0..blocks {
        let block = random.below(blocks as u64) as usize;
        for weight in &mut weights[block << block_bits..(block + 1) << block_bits] {
            *weight += 1;
        }
    }
    weights
}

/// Returns the percentile interval of the ratios, given their resampled logarithms.
fn percentile_interval(mut resampled: Vec<f64>) -> Option<Interval> {
    if resampled.len() < RESAMPLES_MIN {
        return None;
    }
    resampled.sort_unstable_by(f64::total_cmp);
    // As many ratios lie above the upper end as below the lower end.
    let beyond = resampled.len() * (100 - INTERVAL_LEVEL_PERCENT as usize) / 200;
    Some(Interval {
        low: resampled[beyond].exp(),
        high: resampled[resampled.len() - 1 - beyond].exp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a series of `count` skewed times around `middle_ns`, spread evenly over all
    /// stretches. Each stretch has its own disturbance, so that neighbours are correlated.
    fn series(seed: u64, count: u64, middle_ns: f64) -> Series {
        let mut random = SplitMix64::new(seed);
        let mut uniform = move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let disturbance: Vec<f64> = (0..STRETCHES_MAX).map(|_| 0.9 + 0.2 * uniform()).collect();
        let mut series = Series::new(seed);
        for number in 0..count {
            let slot = number * STRETCHES_MAX as u64 / count;
            let skewed = (0.3 * (uniform() + uniform() + uniform() - 1.5) * 2.0).exp();
            let value = middle_ns * skewed * disturbance[slot as usize];
            series.record(value as u64, slot as u8);
        }
        series
    }

    const REQUEST: RatioOptions = RatioOptions {
        intervals: true,
        tail: true,
        block_bits: 0,
    };

    fn between(before: Resampler, after: Resampler, paired: bool) -> Ratios {
        let draws = Draws::new(2, STRETCHES_MAX, paired);
        ratios(&[before], &[after], &draws, REQUEST).ratios
    }

    #[test]
    fn interval_of_equal_distributions_contains_one() {
        for paired in [true, false] {
            let mut within = [0; 3];
            for seed in 0..100 {
                let before = Resampler::new(&series(2 * seed, 2_000, 1e6));
                let after = Resampler::new(&series(2 * seed + 1, 2_000, 1e6));
                let ratios = between(before, after, paired);
                for (at, ratio) in [ratios.median, ratios.mean, ratios.p99].iter().enumerate() {
                    let interval = ratio.unwrap().interval.unwrap();
                    within[at] += u32::from(interval.low <= 1.0 && 1.0 <= interval.high);
                }
            }
            // The expected number is 95 of 100; three standard errors of the binomial are 6.5.
            assert!(within.iter().all(|count| *count >= 88), "{within:?}");
        }
    }

    #[test]
    fn interval_of_changed_distribution_contains_the_ratio() {
        let before = Resampler::new(&series(1, 20_000, 1e6));
        let after = Resampler::new(&series(2, 20_000, 2e6));
        let found = between(before, after, true).median.unwrap();
        let interval = found.interval.unwrap();
        assert!(interval.low < 2.0 && 2.0 < interval.high, "{found:?}");
        assert!(interval.high - interval.low < 0.2, "{found:?}");
    }

    #[test]
    fn swapped_sides_invert_paired_ratios() {
        let one = || Resampler::new(&series(1, 5_000, 1e6));
        let other = || Resampler::new(&series(2, 4_000, 3e6));
        let there = between(one(), other(), true);
        let back = between(other(), one(), true);
        for (there, back) in [
            (there.median, back.median),
            (there.mean, back.mean),
            (there.p99, back.p99),
        ] {
            let (there, back) = (there.unwrap(), back.unwrap());
            let (wide, narrow) = (there.interval.unwrap(), back.interval.unwrap());
            for (a, b) in [
                (there.value, back.value),
                (wide.low, narrow.high),
                (wide.high, narrow.low),
            ] {
                assert!((a * b - 1.0).abs() < 1e-9, "{a} {b}");
            }
        }
    }

    #[test]
    fn weighted_quantile_equals_quantile_of_repeated_samples() {
        let series = series(9, 4_000, 1e6);
        let resampler = Resampler::new(&series);
        assert!(resampler.before_chunk.len() > 1);
        let mut random = SplitMix64::new(4);
        for _ in 0..20 {
            let weights = draw(STRETCHES_MAX, 0, &mut random);
            let repeated: Vec<f64> = resampler
                .sorted()
                .iter()
                .flat_map(|sample| {
                    let times = usize::from(weights[slot_of(*sample)]);
                    std::iter::repeat_n(value_of(*sample), times)
                })
                .collect();
            for per_mille in [1, P50, P99, 1_000] {
                assert_eq!(
                    resampler.quantile(&weights, per_mille),
                    quantile::of_sorted(&repeated, per_mille)
                );
            }
        }
    }

    #[test]
    fn empty_side_has_no_ratio() {
        let some = Resampler::new(&series(1, 500, 1e6));
        let none = Resampler::new(&Series::new(1));
        assert_eq!(between(none, some, true), Ratios::default());
    }
}
