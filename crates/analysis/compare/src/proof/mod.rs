//! Decides whether a change wins: the effect on a goal from replays in blocks, judged at scheduled
//! looks.
//!
//! ```text
//! blocks of A, A, B, B in a random order ─► one number a run ─► effect() ─► interval, p ─► verdict()
//!                                               at the looks of plan_interim_looks(), decided before
//! ```
//!
//! - [`Goal`]: the number of a run, and whether more of it is better;
//! - [`effect()`]: the ratio after / before, with an interval from the block design ([`Effect`]);
//! - [`plan_interim_looks()`]: the schedule of the interim looks and the error allotted to each, so that stopping at a clear
//!   verdict does not inflate the error rate;
//! - [`verdict()`]: won, lost, same or not proven;
//! - [`find_harm`]: a change that is so much worse that no second block is needed.
//!
//! Statement-level changes are found by [`crate::compare()`]. The crate `study` makes the runs,
//! calls this module and stops when the verdict is clear; the program displays it. Making runs and
//! reading their numbers is not part of this module.

mod effect;
mod goal;
mod harm;
mod looks;
mod permutation;

pub use effect::{Effect, PairedBlock, RUNS_A_SIDE, effect, half_width};
pub use goal::Goal;
pub use harm::find_harm;
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

/// Whether counters of work support an effect on time. They do not depend on the load of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkSupport {
    /// The goal is a counter of work itself, or one changed clearly in the same direction.
    Supported,
    /// A counter of work and the server's processor time both changed clearly in the same direction. Times of clients on a
    /// busy machine may be too noisy to show what these do.
    SupportedByProcessor,
    /// No counter of work changed in the same direction, and statements with at least half of the time have other plans. A
    /// plan tells no direction, so that chance must be ruled out, but it makes a change of times likely.
    SupportedByPlans,
    /// No counter of work changed in the same direction, or none is known.
    Unsupported,
}

/// Minimum number of blocks for *won* and *lost* without support by work. The p-value of two blocks is at least 1/18.
pub const BLOCKS_MIN_UNSUPPORTED: u32 = 3;

/// Greatest p-value of the permutation test for *won* and *lost* without support by work. The least of three blocks is
/// 1/108.
const P_VALUE_MAX: f64 = 0.01;

/// Part of a look's error that an interval without support by work may have. A fifth of [`ERROR`] is [`P_VALUE_MAX`], so
/// the interval of the last look and the permutation test are equally strict.
const UNSUPPORTED_ERROR: f64 = 0.2;

/// Judges an effect. Differences up to the share `margin` are ignored: 0.05 is from 1/1.05 to 1.05.
///
/// If work supports it, the interval decides. If only plans do, *won* and *lost* need the blocks and the test below, and the
/// ordinary interval. Otherwise a hump of the load may have met one side of each block. Then
/// *won* and *lost* need [`BLOCKS_MIN_UNSUPPORTED`] blocks, the permutation test, and an interval with a fifth of the
/// error.
pub fn verdict(effect: &Effect, goal: Goal, margin: f64, support: WorkSupport) -> Verdict {
    let found = verdict_by_interval(effect, goal, margin);
    match support {
        WorkSupport::Supported => return found,
        WorkSupport::SupportedByProcessor if found != Verdict::NotProven => return found,
        WorkSupport::SupportedByProcessor => return verdict_by_estimate(effect, goal, margin),
        WorkSupport::SupportedByPlans | WorkSupport::Unsupported if found == Verdict::Same => {
            return found;
        }
        WorkSupport::SupportedByPlans | WorkSupport::Unsupported => {}
    }
    let strict = match support {
        WorkSupport::SupportedByPlans => *effect,
        _ => effect.with_error(effect.error * UNSUPPORTED_ERROR),
    };
    let is_proven = effect.blocks >= BLOCKS_MIN_UNSUPPORTED
        && effect.p_value.is_some_and(|p| p <= P_VALUE_MAX)
        && verdict_by_interval(&strict, goal, margin) == found;
    match is_proven {
        true => found,
        false => Verdict::NotProven,
    }
}

/// Judges by the estimate alone. Others must have shown the direction.
fn verdict_by_estimate(effect: &Effect, goal: Goal, margin: f64) -> Verdict {
    let estimate = Effect::of_bounds([effect.ratio; 3], effect.blocks);
    match verdict_by_interval(&estimate, goal, margin) {
        Verdict::Same => Verdict::NotProven,
        found => found,
    }
}

fn verdict_by_interval(effect: &Effect, goal: Goal, margin: f64) -> Verdict {
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

/// Whether counters of work, which are worse the greater they are, support a ratio of the goal. The server's processor time
/// is a witness for the total of response times, of which it is a part, and not for quantiles.
pub fn support_by_work(
    goal: Goal,
    ratio: f64,
    work: &[Effect],
    processor: Option<&Effect>,
    margin: f64,
) -> WorkSupport {
    let is_better = (ratio < 1.0) != goal.more_is_better();
    let wanted = match is_better {
        true => Verdict::Won,
        false => Verdict::Lost,
    };
    let agrees = |one: &Effect| verdict_by_interval(one, Goal::Blocks, margin) == wanted;
    let is_part = |one: &&Effect| {
        let strict = one.with_error(one.error * UNSUPPORTED_ERROR);
        goal == Goal::Total && agrees(&strict)
    };
    match goal.is_work() || work.iter().any(agrees) {
        true if processor.filter(is_part).is_some() => WorkSupport::SupportedByProcessor,
        true => WorkSupport::Supported,
        false => WorkSupport::Unsupported,
    }
}

#[cfg(test)]
mod tests;
