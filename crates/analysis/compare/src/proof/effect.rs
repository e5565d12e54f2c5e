//! The effect of a change on one number of a run, from runs in blocks.
//!
//! A block has as many runs of both sides, mirrored in time (A B B A): what a block has in common, and what
//! drifts evenly within it, falls on both alike. So the model is additive, log y = block + side +
//! rest, solved by least squares (a randomised block design with two runs of each side in a block;
//! Fisher, "The Design of Experiments", 1935; Box, Hunter & Hunter, "Statistics for Experimenters",
//! 2nd ed. 2005, chapter 4), and the interval is Student's with the degrees of freedom of the rest:
//! with k blocks of four runs 4k − k − 1.
//!
//! The rest is taken as independent from run to run. Where neighbouring runs are alike, with a correlation of ρ
//! that fades with the distance, the difference of A B B A has the variance σ²(1 − (ρ + 2ρ² − ρ³)/2), and the
//! rest says σ²(1 − (3ρ + 2ρ² + ρ³)/6), which is never less: the interval is then too wide rather than too
//! narrow. Of several changes in one block (A B C C B A) those that lie apart from A lose that; with ρ = 0.3
//! the interval of C is 6 % too narrow.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::ContinuousCDF;

use statistics::between_runs::students_t;

/// Runs of a side in a block.
pub const RUNS_A_SIDE: usize = 2;
/// A logarithm's standard deviation is no less than this: numbers are counted in parts of their own.
const DEVIATION_MIN: f64 = 1e-9;

/// One number of each run of a block, more than 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedBlock {
    /// Without the change.
    pub before: [f64; RUNS_A_SIDE],
    /// With it.
    pub after: [f64; RUNS_A_SIDE],
}

/// After divided by before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Effect {
    /// The geometric mean of the ratios.
    pub ratio: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The chance that it does not hold the truth: 0.05, or the part of it that this look has.
    pub error: f64,
    /// Blocks that it rests on.
    pub blocks: u32,
    /// By which a run differs from another of its side and block: the standard deviation of the
    /// logarithm.
    pub deviation: f64,
}

/// The effect on a number, with the interval that misses the truth with the chance `error`. `None` of
/// less than [`super::BLOCKS_MIN`] blocks, and where a number is not more than 0.
pub fn effect(blocks: &[PairedBlock], error: f64) -> Option<Effect> {
    let numbers = || {
        blocks
            .iter()
            .flat_map(|one| one.before.iter().chain(&one.after))
    };
    if (blocks.len() as u32) < super::BLOCKS_MIN
        || !numbers().all(|&one| one > 0.0 && one.is_finite())
    {
        return None;
    }
    let logs: Vec<[[f64; RUNS_A_SIDE]; 2]> = blocks
        .iter()
        .map(|one| [one.before.map(f64::ln), one.after.map(f64::ln)])
        .collect();
    let count = logs.len() as f64;
    let mean = |runs: &[f64]| runs.iter().sum::<f64>() / runs.len() as f64;
    let side = |at: usize| logs.iter().map(|block| mean(&block[at])).sum::<f64>() / count;
    let difference = side(1) - side(0);
    // What is left of each run beside its block's middle and its side's part.
    let mut rest = 0.0;
    for block in &logs {
        let middle = (mean(&block[0]) + mean(&block[1])) / 2.0;
        for (at, runs) in block.iter().enumerate() {
            let part = if at == 0 { -difference } else { difference } / 2.0;
            rest += runs
                .iter()
                .map(|log| (log - middle - part).powi(2))
                .sum::<f64>();
        }
    }
    let freedom = freedom(logs.len() as u32);
    let deviation = (rest / freedom).sqrt().max(DEVIATION_MIN);
    let reach = half_width(deviation, logs.len() as u32, error);
    Some(Effect {
        ratio: difference.exp(),
        low: (difference - reach).exp(),
        high: (difference + reach).exp(),
        error,
        blocks: logs.len() as u32,
        deviation,
    })
}

/// How far the interval of so many blocks reaches to either side, as a logarithm, where runs differ
/// by `deviation`.
pub fn half_width(deviation: f64, blocks: u32, error: f64) -> f64 {
    let runs = f64::from(blocks) * RUNS_A_SIDE as f64;
    let t = students_t(freedom(blocks)).inverse_cdf(1.0 - error / 2.0);
    t * deviation * (2.0 / runs).sqrt()
}

fn freedom(blocks: u32) -> f64 {
    let blocks = f64::from(blocks);
    2.0 * RUNS_A_SIDE as f64 * blocks - blocks - 1.0
}
