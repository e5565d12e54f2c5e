//! Time that the replays of a rehearsal need for a decision.

use std::time::Duration;

use clock::Speed;
use compare::proof::{BLOCKS_MIN, RUNS_A_SIDE};
use schemars::JsonSchema;
use serde::Serialize;
use workload::WorkloadReader;

use super::{NOISE_RUNS, UpgradeRequest};
use crate::failure::Failure;
use crate::proof::{ProofJournal, ProofRecord};

/// Share of the time for the replays of both versions.
pub(super) const REPLAYS_SHARE: f64 = 0.6;
/// Number of blocks that the advice is for: they show that the time stays within the margin if unchanged runs differ by 3 %.
const BLOCKS_ADVISED: u32 = 6;

/// Time for `--within` that is advised for a decision.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct AdvisedTime {
    /// Time, in seconds.
    pub within_s: f64,
    /// Whether `--resume` can use it. The number of blocks stays, once it is decided.
    pub can_resume: bool,
}

impl AdvisedTime {
    /// Returns the time for a rehearsal whose runs were shown to be too few; `None` without a run.
    pub(super) fn new(journal: &ProofJournal, within: Duration) -> Option<Self> {
        let run_s = journal.records().map(ProofRecord::attempt_s);
        let run_s = run_s.reduce(f64::max)?;
        let decision = journal.decision();
        let needed_s = within_s(run_s, BLOCKS_ADVISED);
        Some(AdvisedTime {
            within_s: match decision {
                // More noise than the advice is for.
                Some(decision) if decision.blocks >= BLOCKS_ADVISED => {
                    needed_s.max(2.0 * within.as_secs_f64())
                }
                _ => needed_s,
            },
            can_resume: decision.is_none(),
        })
    }

    /// Returns the advice, without a full stop.
    pub(super) fn describe(&self) -> String {
        let way = match self.can_resume {
            true => "--resume",
            false => "in another rehearsal with its own -o, since this one has made its runs",
        };
        format!(
            "give more time with --within (about {}, and {way}), or a part of the workload (`rehearse slice`)",
            option_text(self.within_s)
        )
    }
}

/// Refuses a time in which not even the fewest runs fit, before anything is done.
///
/// # Errors
/// If the workload takes too long.
pub(super) fn refuse_too_short(
    request: &UpgradeRequest<'_>,
    whole: &WorkloadReader,
) -> Result<(), Failure> {
    let speed = match request.replay.speed {
        Speed::Times {
            numerator,
            denominator,
        } => numerator as f64 / denominator as f64,
        // The duration is not known before the first run.
        Speed::Max => return Ok(()),
    };
    let span_s = whole.info().span_us as f64 / 1e6;
    match too_short(span_s, speed, request.within.as_secs_f64()) {
        Some(message) => Err(Failure::usage(message)),
        None => Ok(()),
    }
}

/// `span_s`: duration of the workload in seconds.
fn too_short(span_s: f64, speed: f64, within_given_s: f64) -> Option<String> {
    let run_s = span_s / speed;
    let (least_s, advised_s) = (within_s(run_s, BLOCKS_MIN), within_s(run_s, BLOCKS_ADVISED));
    (within_given_s < least_s).then(|| {
        format!(
            "--within {} is too short: the workload takes {} at this speed, and {:.0} % of the time must suffice for at least {} replays and their restores; \
             give --within {} or more for {} replays, which are enough if runs differ little, or replay faster (--speed {}), \
             or give a part of the workload of at most {} (`rehearse slice`)",
            option_text(within_given_s),
            option_text(run_s),
            100.0 * REPLAYS_SHARE,
            runs(BLOCKS_MIN),
            option_text(advised_s),
            runs(BLOCKS_ADVISED),
            (speed * advised_s / within_given_s).ceil(),
            option_text((span_s * within_given_s / advised_s).floor().max(1.0)),
        )
    })
}

/// Returns the number of runs of a rehearsal with this number of blocks.
fn runs(blocks: u32) -> u32 {
    NOISE_RUNS + blocks * 2 * RUNS_A_SIDE as u32
}

/// Returns the time for all, in seconds, for runs of this duration.
fn within_s(run_s: f64, blocks: u32) -> f64 {
    run_s * f64::from(runs(blocks)) / REPLAYS_SHARE
}

/// Writes a time as an option takes it.
fn option_text(seconds: f64) -> String {
    clock::duration_text((seconds.ceil() * 1e9) as i64).replace(' ', "")
}

#[cfg(test)]
mod tests {
    use compare::proof::{WorkSupport, half_width, plan_interim_looks};

    use super::super::MARGIN;
    use super::*;

    #[test]
    fn advised_blocks_show_the_margin_if_unchanged_runs_differ_by_3_percent() {
        let look = plan_interim_looks(BLOCKS_ADVISED).pop().unwrap();
        let width =
            |blocks| half_width(0.03, blocks, look.error, WorkSupport::Supported, false).unwrap();
        assert!(width(BLOCKS_ADVISED) < MARGIN.ln_1p());
        assert!(width(BLOCKS_MIN) > MARGIN.ln_1p());
    }

    #[test]
    fn time_for_fewer_than_the_fewest_replays_is_refused_with_one_for_a_decision() {
        // 11 replays of 60 s in 60 % of the time are 1100 s.
        assert_eq!(too_short(60.0, 1.0, 1100.0), None);
        let message = too_short(60.0, 1.0, 180.0).unwrap();
        assert!(
            message.starts_with("--within 3min00s is too short"),
            "{message}"
        );
        // 27 replays of 60 s in 60 % of the time are 2700 s.
        assert!(
            message.contains("--within 45min00s or more for 27 replays"),
            "{message}"
        );
        assert!(message.contains("(--speed 15)"), "{message}");
        assert!(message.contains("at most 4.00s"), "{message}");
        assert_eq!(too_short(60.0, 15.0, 180.0), None);
    }
}
