//! Whether a change wins: the effect on a goal from replays in blocks, and when it may be looked at.
//!
//! ```text
//! blocks of A B B A (or B A A B) ─► one number a run ─► effect() ─► interval ─► verdict()
//!                                          at the looks of looks(), decided before
//! ```
//!
//! - [`Goal`]: which number of a run, and whether more of it is better;
//! - [`effect()`]: the ratio after / before, with an interval that knows of blocks ([`Effect`]);
//! - [`looks()`]: when the proof may be judged, and which part of the chance of error each time has,
//!   so that stopping at a clear verdict does not spoil it;
//! - [`verdict()`]: won, lost, same or not proven.
//!
//! What else moved, statement by statement, is [`crate::compare()`]'s. Who drives: the crate
//! `experiment` asks for looks and stops where the verdict is clear; the program shows. Deliberately
//! absent: how a run comes about, and how its number is read.

mod effect;
mod goal;
mod looks;

pub use effect::{Effect, PairedBlock, RUNS_A_SIDE, effect, half_width};
pub use goal::Goal;
pub use looks::{BLOCKS_MIN, ERROR, Look, looks};

use schemars::JsonSchema;
use serde::Serialize;

/// Verdict of a proof on a goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The interval is wholly better than the margin.
    Won,
    /// It is wholly worse.
    Lost,
    /// It is wholly within the margin: shown, not assumed.
    Same,
    /// Neither could be shown.
    NotProven,
}

impl Verdict {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Won => "won",
            Verdict::Lost => "lost",
            Verdict::Same => "same",
            Verdict::NotProven => "not proven",
        }
    }

    /// More runs would not change it.
    pub fn is_clear(self) -> bool {
        self != Verdict::NotProven
    }
}

/// Judges an effect. `margin`: differences up to this share count as none: 0.05 is from 1/1.05 to 1.05.
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
