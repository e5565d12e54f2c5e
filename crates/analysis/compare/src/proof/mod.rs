//! Decides whether a change wins: the effect on a goal from replays in blocks, judged at scheduled
//! looks.
//!
//! ```text
//! blocks of A B B A (or B A A B) ─► one number a run ─► effect() ─► interval ─► verdict()
//!                                          at the looks of looks(), decided before
//! ```
//!
//! - [`Goal`]: the number of a run, and whether more of it is better;
//! - [`effect()`]: the ratio after / before, with an interval from the block design ([`Effect`]);
//! - [`plan_interim_looks()`]: the schedule of the interim looks and the error allotted to each, so that stopping at a clear
//!   verdict does not inflate the error rate;
//! - [`verdict()`]: won, lost, same or not proven.
//!
//! Statement-level changes are found by [`crate::compare()`]. The crate `study` makes the runs,
//! calls this module and stops when the verdict is clear; the program displays it. Making runs and
//! reading their numbers is not part of this module.

mod effect;
mod goal;
mod looks;

pub use effect::{Effect, PairedBlock, RUNS_A_SIDE, effect, half_width};
pub use goal::Goal;
pub use looks::{BLOCKS_MIN, ERROR, InterimLook, plan_interim_looks};

use schemars::JsonSchema;
use serde::Serialize;

/// Verdict of a proof on a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval is better than the margin.
    Won,
    /// The whole interval is worse than the margin.
    Lost,
    /// The whole interval is within the margin: shown, not assumed.
    Same,
    /// None of these could be shown.
    NotProven,
}

impl Verdict {
    /// Returns the verdict in words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Won => "won",
            Verdict::Lost => "lost",
            Verdict::Same => "same",
            Verdict::NotProven => "not proven",
        }
    }

    /// Whether more runs cannot change it.
    pub fn is_clear(self) -> bool {
        self != Verdict::NotProven
    }
}

/// Judges an effect. Differences up to the share `margin` are ignored: 0.05 is from 1/1.05 to 1.05.
pub fn verdict(effect: &Effect, goal: Goal, margin: f64) -> Verdict {
    let (low, high) = (1.0 / (1.0 + margin), 1.0 + margin);
    let (less, more) = match goal.more_is_better() {
        true => (Verdict::Lost, Verdict::Won),
        false => (Verdict::Won, Verdict::Lost),
    };
    if effect.high < low {
        less
    } else if effect.low > high {
        more
    } else if effect.low >= low && effect.high <= high {
        Verdict::Same
    } else {
        Verdict::NotProven
    }
}

#[cfg(test)]
mod tests;
