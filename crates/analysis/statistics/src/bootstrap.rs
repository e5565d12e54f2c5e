//! How sure a ratio is: the block bootstrap over time.
//!
//! Executions that follow each other are alike (one checkpoint slows a thousand of them), so they
//! must not be resampled one by one. Whole stretches of time are, with replacement: Künsch, "The
//! Jackknife and the Bootstrap for General Stationary Observations", Annals of Statistics 17
//! (1989); here with stretches that do not overlap (Carlstein 1986). The interval is the
//! percentile interval of the resampled ratios (Efron & Tibshirani, "An Introduction to the
//! Bootstrap", 1993, chapter 13), which needs no shape and turns into its inverse when before and
//! after change places.
//!
//! Runs of one workload at one speed did the same things in the same stretches. Then the same
//! stretches are drawn for all of them ("paired"), so that a stretch with dear parameters is dear in
//! each and does not widen the interval. Otherwise each run draws its own. Stretches that are alike
//! because they follow each other are drawn together ([`crate::blocks`]).
//!
//! What this interval does not know: how much two runs of the *same* server differ. With one run
//! on either side nothing can; the margin around 1 stands in for it. With several,
//! [`crate::between_runs`] makes the interval.

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::Serialize;

use crate::quantile;
use crate::quantile::{P50, P99};
use crate::random::SplitMix64;
use crate::series::{Series, StretchSums, slot_of, value_of};
use crate::timeline::STRETCHES_MAX;

/// How often is resampled: ten ratios lie outside the interval at either end.
pub const RESAMPLES: usize = 400;

/// The share of resampled ratios within an interval, in percent.
pub const INTERVAL_LEVEL_PERCENT: u32 = 95;

/// Of so many resampled ratios some may not exist (nothing was drawn for one run) and the rest
/// still make an interval: nine of ten.
const RESAMPLES_MIN: usize = RESAMPLES * 9 / 10;

/// Samples between two known prefix sums: below it, adding up is as fast as looking up.
const CHUNK_MIN: usize = 256;
/// The most prefix sums that are kept for a series.
const CHUNKS_MAX: usize = 32;

/// The interval that holds a ratio with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// After divided by before: 2 is twice the time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Ratio {
    /// The ratio of what was measured.
    pub value: f64,
    /// Where it lies with 95 % confidence; `None` where there is too little to say.
    pub interval: Option<Interval>,
}

/// Numbers that are added up side by side.
const LANES: usize = 8;

/// How often each stretch was drawn.
type Weights = [u16; STRETCHES_MAX];

/// Samples of each stretch.
type Counts = [u32; STRETCHES_MAX];

/// A block has at most so many stretches, as a power of two ([`crate::blocks`]).
const BLOCK_BITS_MAX: usize = STRETCHES_MAX.ilog2() as usize;

/// What was drawn, for all statements of a comparison alike: which moments are drawn has nothing to do
/// with what is looked at in them, and it is drawn once.
pub struct Draws {
    /// All runs did the same things in the same stretches, and the same are drawn for all.
    paired: bool,
    used: usize,
    /// By run, or one for all; and by the length of blocks.
    drawn: Vec<[OnceLock<Vec<Weights>>; BLOCK_BITS_MAX + 1]>,
}

impl Draws {
    /// For so many runs, of which `used` stretches have anything in them.
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

    /// What was drawn for a run.
    fn of(&self, run: usize, block_bits: u32) -> &[Weights] {
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

/// A series made ready for many weighted quantiles.
pub struct Resampler {
    sorted: Vec<u32>,
    sums: StretchSums,
    /// Counts and totals of `sums`, each in a row, for arithmetic on several at once.
    counts: [f64; STRETCHES_MAX],
    totals_ns: [f64; STRETCHES_MAX],
    chunk: usize,
    /// For each chunk of `sorted`: how many samples of each stretch come before it.
    before_chunk: Vec<Counts>,
    /// How many samples of each stretch there are.
    in_all: Counts,
}

impl Resampler {
    /// Prepares the series for resampling.
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

    /// The samples in ascending order.
    pub fn sorted(&self) -> &[u32] {
        &self.sorted
    }

    /// Exact counts and sums of the stretches.
    pub fn sums(&self) -> &StretchSums {
        &self.sums
    }

    /// The stretches in which something was done.
    pub fn stretches(&self) -> usize {
        self.sums.iter().filter(|sum| sum.count > 0).count()
    }

    /// The mean of the drawn stretches.
    fn mean(&self, weights: &Weights) -> Option<f64> {
        // Sums in lanes: numbers with a point may not be reordered by the compiler.
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

    /// The quantile of the drawn stretches: the first sample up to which, each counted as often
    /// as its stretch was drawn, there are as many as the rank says.
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
    // A series keeps at most 2^16 samples and a stretch is drawn at most 128 times: 32 bits do.
    let each = counts.iter().zip(weights);
    let sum: u32 = each.map(|(c, w)| c * u32::from(*w)).sum();
    u64::from(sum)
}

/// The three measures of a distribution that are looked at.
pub const MEASURES: usize = 3;

/// The three ratios that are looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ratios {
    /// Of the medians.
    pub median: Option<Ratio>,
    /// Of the means.
    pub mean: Option<Ratio>,
    /// Of the 99th percentiles.
    pub p99: Option<Ratio>,
}

impl Ratios {
    /// The ratios in the order of [`MEASURES`]: median, mean, 99th percentile.
    pub fn as_array(&self) -> [Option<Ratio>; MEASURES] {
        [self.median, self.mean, self.p99]
    }

    /// The same, to be changed.
    pub fn as_array_mut(&mut self) -> [&mut Option<Ratio>; MEASURES] {
        [&mut self.median, &mut self.mean, &mut self.p99]
    }
}

/// What is asked of [`ratios`].
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// There is enough for intervals at all.
    pub intervals: bool,
    /// There is enough for the 99th percentile's.
    pub tail: bool,
    /// Stretches are drawn in blocks of so many, as a power of two.
    pub block_bits: u32,
}

/// What [`ratios`] found.
#[derive(Debug, Clone, Default)]
pub struct Resampled {
    /// After to before.
    pub ratios: Ratios,
    /// The natural logarithms of each run's own median, mean and 99th percentile; before, then after.
    pub logs: [Vec<[Option<f64>; MEASURES]>; 2],
    /// The variance that these logarithms have from what is drawn within a run, on average of all
    /// runs; `None` without intervals.
    pub variance_within: [Option<f64>; MEASURES],
}

/// The ratios of two sides, each of one run or several, with their intervals. The ratio of several
/// runs is that of the geometric means of what each run has.
pub fn ratios(
    before: &[Resampler],
    after: &[Resampler],
    draws: &Draws,
    request: Request,
) -> Resampled {
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
    let mut spreads = vec![[Spread::default(); MEASURES]; runs.len()];
    if request.intervals {
        let mut tables: Vec<_> = (0..runs.len())
            .map(|run| draws.of(run, request.block_bits).iter())
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
    Resampled {
        ratios,
        logs: [logs_before.to_vec(), logs_after.to_vec()],
        variance_within,
    }
}

/// The mean of a measure's logarithms after less the one before; `None` where a side has none.
fn difference(logs: &[[Option<f64>; MEASURES]], before: usize, measure: usize) -> Option<f64> {
    let (before, after) = logs.split_at(before);
    let mean = |side: &[[Option<f64>; MEASURES]]| {
        let known = side.iter().filter_map(|logs| logs[measure]);
        let (count, sum) = known.fold((0.0, 0.0), |(count, sum), log| (count + 1.0, sum + log));
        (count > 0.0).then(|| sum / count)
    };
    Some(mean(after)? - mean(before)?)
}

/// Mean and spread of numbers as they come (Welford 1962).
#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
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

/// As many blocks as there are, with replacement.
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

/// The interval of ratios, given the logarithms that were drawn.
fn percentile_interval(mut resampled: Vec<f64>) -> Option<Interval> {
    if resampled.len() < RESAMPLES_MIN {
        return None;
    }
    resampled.sort_unstable_by(f64::total_cmp);
    // As many beyond the upper end as below the lower one.
    let beyond = resampled.len() * (100 - INTERVAL_LEVEL_PERCENT as usize) / 200;
    Some(Interval {
        low: resampled[beyond].exp(),
        high: resampled[resampled.len() - 1 - beyond].exp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A series of `count` times around `middle_ns`, skewed, evenly over all stretches; each
    /// stretch has its own disturbance, so that neighbours are alike.
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

    const REQUEST: Request = Request {
        intervals: true,
        tail: true,
        block_bits: 0,
    };

    fn between(before: Resampler, after: Resampler, paired: bool) -> Ratios {
        let draws = Draws::new(2, STRETCHES_MAX, paired);
        ratios(&[before], &[after], &draws, REQUEST).ratios
    }

    #[test]
    fn the_same_distribution_twice_has_one_in_the_interval_nearly_always() {
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
            // 95 % of 100 are 95; three standard errors of the binomial are 6.5.
            assert!(within.iter().all(|count| *count >= 88), "{within:?}");
        }
    }

    #[test]
    fn a_ratio_that_is_there_is_found() {
        let before = Resampler::new(&series(1, 20_000, 1e6));
        let after = Resampler::new(&series(2, 20_000, 2e6));
        let found = between(before, after, true).median.unwrap();
        let interval = found.interval.unwrap();
        assert!(interval.low < 2.0 && 2.0 < interval.high, "{found:?}");
        assert!(interval.high - interval.low < 0.2, "{found:?}");
    }

    #[test]
    fn paired_ratios_turn_into_their_inverse() {
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
    fn weighted_quantiles_are_those_of_the_repeated_samples() {
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
    fn nothing_has_no_ratio() {
        let some = Resampler::new(&series(1, 500, 1e6));
        let none = Resampler::new(&Series::new(1));
        assert_eq!(between(none, some, true), Ratios::default());
    }
}
