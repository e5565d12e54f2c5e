//! Schedules the interim looks of a proof (group-sequential design).
//!
//! Unplanned interim looks inflate the error rate (Armitage, McPherson & Rowe, "Repeated
//! Significance Tests on Accumulating Data", JRSS A 132, 1969). So the looks are fixed before the
//! first block, and the probability of error is distributed over them. The error spent up to a
//! share t of the blocks is 5 % · t² (the power family of Kim & DeMets, Biometrika 74, 1987; alpha
//! spending is by Lan & DeMets, Biometrika 70, 1983). Each look gets the error added since the
//! previous one, and its interval misses the truth with that probability. Over all looks it is at
//! most 5 %, whatever their dependence (Bonferroni). These are repeated confidence intervals
//! (Jennison & Turnbull, JRSS B 51, 1989), so stopping early or continuing does not affect the
//! guarantee for all verdicts together. The method needs only each look's own interval. Therefore
//! it holds for Student's distribution with few degrees of freedom, unlike tables of
//! group-sequential limits for known variances.

/// Probability that any look's interval misses the truth.
pub const ERROR: f64 = 0.05;
/// Minimum number of blocks for a look: with fewer, the variance within blocks is hardly known.
pub const BLOCKS_MIN: u32 = 2;

/// Scheduled interim look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InterimLook {
    /// Number of blocks after which the look takes place.
    pub blocks: u32,
    /// Probability of error allotted to this look.
    pub error: f64,
    /// Error that is not spent before the last look. This look gets it if no further block can be
    /// done.
    pub last_error: f64,
}

/// Schedules the looks of a proof of at most `blocks_max` blocks; the last look is after all of
/// them. There are none for fewer than [`BLOCKS_MIN`]. Each comes after about 1.4 times as many
/// blocks as the previous one.
pub fn plan_interim_looks(blocks_max: u32) -> Vec<InterimLook> {
    let mut at = Vec::new();
    let mut next = BLOCKS_MIN;
    while next < blocks_max {
        at.push(next);
        next = (next + 1).max((f64::from(next) * std::f64::consts::SQRT_2).round() as u32);
    }
    if blocks_max >= BLOCKS_MIN {
        at.push(blocks_max);
    }
    let spent = |blocks: u32| ERROR * (f64::from(blocks) / f64::from(blocks_max)).powi(2);
    let before = std::iter::once(0.0).chain(at.iter().map(|&blocks| spent(blocks)));
    at.iter()
        .zip(before)
        .map(|(&blocks, before)| InterimLook {
            blocks,
            error: spent(blocks) - before,
            last_error: ERROR - before,
        })
        .collect()
}
