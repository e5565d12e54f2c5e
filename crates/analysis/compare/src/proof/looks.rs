//! When a proof may be judged.
//!
//! Who looks after each block and stops when it pleases errs more often than he says (Armitage,
//! McPherson & Rowe, "Repeated Significance Tests on Accumulating Data", JRSS A 132, 1969). So it is
//! decided before the first block after how many there will be a look, and the chance of error is dealt out to the looks:
//! what is spent up to a share t of the blocks is 5 % · t² (the power family of Kim & DeMets,
//! Biometrika 74, 1987; spending as such is Lan & DeMets, Biometrika 70, 1983). A look has what was
//! added since the one before, and its interval misses the truth with that chance: with all of them together it
//! is no more than 5 %, whatever hangs on what (Bonferroni). These are repeated confidence intervals
//! (Jennison & Turnbull, JRSS B 51, 1989): that a proof stops early, or does not, takes
//! nothing away from them, for all of its verdicts at once. The dealing asks for nothing but each
//! look's own interval, so that it holds for Student's with few degrees of freedom, where tables
//! of group-sequential limits, made for known variances, do not.

/// The chance that any look's interval misses the truth.
pub const ERROR: f64 = 0.05;
/// With fewer blocks there is no look: the spread within them would be known by next to nothing.
pub const BLOCKS_MIN: u32 = 2;

/// A time at which a proof is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// After so many blocks.
    pub blocks: u32,
    /// The chance of error that it has.
    pub error: f64,
    /// What is not spent before the last look: this look has it where no further block can be done.
    pub last_error: f64,
}

/// The looks of a proof of at most so many blocks, the last of them after all; none where that is less than
/// [`BLOCKS_MIN`]. Each comes after about 1.4 times as many blocks as the one before.
pub fn looks(blocks_max: u32) -> Vec<Look> {
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
        .map(|(&blocks, before)| Look {
            blocks,
            error: spent(blocks) - before,
            last_error: ERROR - before,
        })
        .collect()
}
