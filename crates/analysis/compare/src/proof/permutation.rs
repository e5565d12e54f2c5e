//! Permutation test of an effect, over the orders of runs that could have been drawn.
//!
//! If the change does nothing, a run's number is the same on either side. The sides are exchanged within each block, and
//! the test counts how often the effect is as clear as the observed one (Fisher, "The Design of Experiments", 1935;
//! Edgington & Onghena, "Randomization Tests", 4th ed. 2007). It is exact for any course of the load in time, since the
//! order was random. The statistic is the share of squares that the side explains after the load, which is a monotone
//! function of Student's t.

use statistics::SplitMix64;

use super::effect::{CentredRun, Fit, RUNS_A_SIDE};

type Block = [CentredRun; 2 * RUNS_A_SIDE];

/// Ways to choose the runs with the change among the four of a block.
const ASSIGNMENTS: [[f64; 2 * RUNS_A_SIDE]; 6] = [
    [-0.5, -0.5, 0.5, 0.5],
    [-0.5, 0.5, -0.5, 0.5],
    [-0.5, 0.5, 0.5, -0.5],
    [0.5, -0.5, -0.5, 0.5],
    [0.5, -0.5, 0.5, -0.5],
    [0.5, 0.5, -0.5, -0.5],
];

/// Largest number of permutations that are enumerated: four blocks. Beyond it, as many are drawn (Phipson & Smyth 2010).
const PERMUTATIONS_MAX: u64 = 1_999;

/// Returns the share of all permutations whose effect is as clear as the observed one.
pub(super) fn p_value(blocks: &[Block]) -> f64 {
    // Rounding must not make the observed order less clear than itself.
    let observed = Fit::new(blocks.iter().flatten().copied()).explained - 1e-9;
    let all = (ASSIGNMENTS.len() as u64).checked_pow(blocks.len() as u32);
    match all.filter(|all| *all <= PERMUTATIONS_MAX) {
        Some(all) => {
            let is_as_clear = |number: &u64| {
                let mut rest = *number;
                let mut next = || {
                    let digit = rest % ASSIGNMENTS.len() as u64;
                    rest /= ASSIGNMENTS.len() as u64;
                    digit as usize
                };
                explained(blocks, &mut next) >= observed
            };
            (0..all).filter(is_as_clear).count() as f64 / all as f64
        }
        None => {
            let mut random = SplitMix64::new(1);
            let mut draw = || random.below(ASSIGNMENTS.len() as u64) as usize;
            let drawn = (0..PERMUTATIONS_MAX).filter(|_| explained(blocks, &mut draw) >= observed);
            (1 + drawn.count()) as f64 / (1 + PERMUTATIONS_MAX) as f64
        }
    }
}

/// Returns the share of squares that the side explains if `next` chooses the assignment of each block.
fn explained(blocks: &[Block], next: &mut dyn FnMut() -> usize) -> f64 {
    let runs = blocks.iter().flat_map(|block| {
        let sides = ASSIGNMENTS[next()];
        std::array::from_fn::<CentredRun, { 2 * RUNS_A_SIDE }, _>(|at| CentredRun {
            side: sides[at],
            ..block[at]
        })
    });
    Fit::new(runs).explained
}
