//! Estimates the effect of a change on one number of a run, from runs in blocks.
//!
//! A block has equally many runs of both sides, in a random order. Effects common to a block affect
//! both sides equally. The model is additive, log y = block + side + load + residual, and solved by least squares (a
//! randomised block design; Fisher, "The Design of Experiments", 1935; Box, Hunter & Hunter,
//! "Statistics for Experimenters", 2nd ed. 2005, chapter 4). The load of the machine by others is a covariate if every
//! run has it (analysis of covariance; Fisher, "Statistical Methods for Research Workers", 4th ed. 1932). The change does
//! not affect it, so it takes away noise and no effect. The interval is Student's with the
//! residual degrees of freedom: with k blocks of four runs, 4k − k − 1, and one less with the covariate.
//!
//! The order is random, so no course of the load in time favours a side, whatever its shape: a permutation test over the
//! orders that could have been drawn is exact ([`super::permutation`]).

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::ContinuousCDF;

use statistics::variance_components::students_t;

use super::permutation::p_value;
use super::{BLOCKS_MIN, BLOCKS_MIN_UNSUPPORTED, UNSUPPORTED_ERROR, WorkSupport};

/// Runs of each side in a block.
pub const RUNS_A_SIDE: usize = 2;
/// Minimum standard deviation of a logarithm, because numbers have finite resolution.
const DEVIATION_MIN: f64 = 1e-9;

/// One number of each run of a block; all are greater than 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PairedBlock {
    /// Values without the change.
    pub before: [f64; RUNS_A_SIDE],
    /// Values with the change.
    pub after: [f64; RUNS_A_SIDE],
    /// Load of the machine by others in the same runs, without and with the change; `None` if it is unknown.
    pub loads: Option<[[f64; RUNS_A_SIDE]; 2]>,
}

/// Ratio after / before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Effect {
    /// Geometric mean of the ratios.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Probability that the interval misses the truth: 0.05, or the share of it allotted to this
    /// look.
    pub error: f64,
    /// Number of blocks.
    pub blocks: u32,
    /// Standard deviation of the logarithm between runs of the same side and block.
    pub deviation: f64,
    /// Probability, if the change does nothing, that a random order of the runs gives an effect this clear in either
    /// direction; `null` if the interval contains 1.
    pub p_value: Option<f64>,
    /// Whether the load of the machine by others was a covariate.
    pub is_load_adjusted: bool,
    /// Standard error of the ratio's logarithm.
    #[serde(skip)]
    standard_error: f64,
    /// Degrees of freedom of the standard error.
    #[serde(skip)]
    freedom: f64,
}

impl Effect {
    /// Returns the same effect with an interval that misses the truth with another probability.
    pub(super) fn with_error(self, error: f64) -> Self {
        let t = students_t(self.freedom).inverse_cdf(1.0 - error / 2.0);
        let reach = t * self.standard_error;
        Self {
            low: (self.ratio.ln() - reach).exp(),
            high: (self.ratio.ln() + reach).exp(),
            error,
            ..self
        }
    }

    /// Returns an effect that is known by its bounds, without an estimate of the noise.
    pub(super) fn of_bounds([low, ratio, high]: [f64; 3], blocks: u32) -> Self {
        Self {
            ratio,
            low,
            high,
            error: super::ERROR,
            blocks,
            deviation: 0.0,
            p_value: None,
            is_load_adjusted: false,
            standard_error: 0.0,
            freedom: 1.0,
        }
    }
}

/// A run of a block, with the block's means subtracted.
#[derive(Debug, Clone, Copy)]
pub(super) struct CentredRun {
    /// Logarithm of the number.
    pub(super) log: f64,
    /// Load of the machine; 0 if it is unknown.
    pub(super) load: f64,
    /// −½ without the change, ½ with it.
    pub(super) side: f64,
}

/// Least-squares fit of the model to centred runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit {
    pub(super) difference: f64,
    /// Sum of squares of the sides' part that the load does not explain.
    sides: f64,
    /// Sum of squares that side and load leave.
    rest: f64,
    /// Share of the squares, after the load, that the side explains.
    pub(super) explained: f64,
}

impl Fit {
    pub(super) fn new(runs: impl Iterator<Item = CentredRun>) -> Self {
        let [mut ss, mut sl, mut ll, mut sy, mut ly, mut yy] = [0.0; 6];
        for run in runs {
            ss += run.side * run.side;
            sl += run.side * run.load;
            ll += run.load * run.load;
            sy += run.side * run.log;
            ly += run.load * run.log;
            yy += run.log * run.log;
        }
        if ll > f64::EPSILON {
            ss -= sl * sl / ll;
            sy -= sl * ly / ll;
            yy -= ly * ly / ll;
        }
        if ss <= f64::EPSILON {
            // The loads tell the sides apart, so the effect of either is unknown.
            return Self {
                difference: 0.0,
                sides: f64::EPSILON,
                rest: yy.max(0.0),
                explained: 0.0,
            };
        }
        let by_side = sy * sy / ss;
        Self {
            difference: sy / ss,
            sides: ss,
            rest: (yy - by_side).max(0.0),
            explained: if yy > 0.0 { by_side / yy } else { 0.0 },
        }
    }
}

/// Returns the runs of a block with the block's means subtracted.
fn centred(block: &PairedBlock, is_load_known: bool) -> [CentredRun; 2 * RUNS_A_SIDE] {
    let loads = block.loads.filter(|_| is_load_known).unwrap_or_default();
    let [b, a] = [block.before, block.after];
    let run = |at: usize| {
        let (values, side) = if at < RUNS_A_SIDE {
            (b, -0.5)
        } else {
            (a, 0.5)
        };
        CentredRun {
            log: values[at % RUNS_A_SIDE].ln(),
            load: loads[at / RUNS_A_SIDE][at % RUNS_A_SIDE],
            side,
        }
    };
    let mut runs: [CentredRun; 2 * RUNS_A_SIDE] = std::array::from_fn(run);
    let count = runs.len() as f64;
    let log = runs.iter().map(|one| one.log).sum::<f64>() / count;
    let load = runs.iter().map(|one| one.load).sum::<f64>() / count;
    for one in &mut runs {
        one.log -= log;
        one.load -= load;
    }
    runs
}

/// Estimates the effect with an interval that misses the truth with probability `error`. `None` if
/// there are fewer than [`super::BLOCKS_MIN`] blocks, or a number is not greater than 0.
pub fn effect(blocks: &[PairedBlock], error: f64) -> Option<Effect> {
    let numbers = || {
        blocks
            .iter()
            .flat_map(|one| one.before.iter().chain(&one.after))
    };
    if (blocks.len() as u32) < BLOCKS_MIN || !numbers().all(|&one| one > 0.0 && one.is_finite()) {
        return None;
    }
    let is_load_known = blocks.iter().all(|one| one.loads.is_some());
    let runs: Vec<_> = (blocks.iter())
        .map(|block| centred(block, is_load_known))
        .collect();
    let fit = Fit::new(runs.iter().flatten().copied());
    let freedom = freedom(blocks.len() as u32, is_load_known);
    let deviation = (fit.rest / freedom).sqrt().max(DEVIATION_MIN);
    let effect = Effect {
        ratio: fit.difference.exp(),
        low: 0.0,
        high: f64::INFINITY,
        error,
        blocks: blocks.len() as u32,
        deviation,
        p_value: None,
        is_load_adjusted: is_load_known,
        standard_error: deviation / fit.sides.sqrt(),
        freedom,
    };
    let effect = effect.with_error(error);
    let is_clear = effect.low > 1.0 || effect.high < 1.0;
    Some(Effect {
        p_value: is_clear.then(|| p_value(&runs)),
        ..effect
    })
}

/// Returns the half width of the interval that [`super::verdict`] goes by, as a logarithm, if runs differ by `deviation`.
/// `None` if there are too few blocks for a verdict.
pub fn half_width(
    deviation: f64,
    blocks: u32,
    error: f64,
    support: WorkSupport,
    is_load_adjusted: bool,
) -> Option<f64> {
    let (blocks_min, error) = match support {
        WorkSupport::Supported | WorkSupport::SupportedByProcessor => (BLOCKS_MIN, error),
        WorkSupport::SupportedByPlans => (BLOCKS_MIN_UNSUPPORTED, error),
        WorkSupport::Unsupported => (BLOCKS_MIN_UNSUPPORTED, error * UNSUPPORTED_ERROR),
    };
    if blocks < blocks_min {
        return None;
    }
    let runs = f64::from(blocks) * RUNS_A_SIDE as f64;
    let freedom = freedom(blocks, is_load_adjusted);
    let t = students_t(freedom).inverse_cdf(1.0 - error / 2.0);
    Some(t * deviation * (2.0 / runs).sqrt())
}

fn freedom(blocks: u32, is_load_adjusted: bool) -> f64 {
    let blocks = f64::from(blocks);
    2.0 * RUNS_A_SIDE as f64 * blocks - blocks - 1.0 - f64::from(u8::from(is_load_adjusted))
}
