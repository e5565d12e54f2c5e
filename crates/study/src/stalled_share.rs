//! Share of a run in which the replay itself stood still.

use run::{RunInfo, ToolStall};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest share of a run in which the tool may have stalled ([`run::ToolStall`]) without a warning.
pub(crate) const STALLED_SHARE_MAX: f64 = 0.2;

/// Largest share of a trial in which the tool may have stalled. Its times are not used otherwise.
pub(crate) const TRIAL_STALLED_SHARE_MAX: f64 = 0.1;

/// Limit of repetitions of a trial because of stalls.
pub(crate) const REPEATS_MAX: u32 = 2;

/// Returns the share of a run in which the tool stalled, from 0 to 1.
pub(crate) fn stalled_share(info: &RunInfo) -> f64 {
    stalled_share_within(info, (0, info.elapsed_ns))
}

/// Returns the share of an interval of a run, in nanoseconds from its start, in which the tool stalled.
pub(crate) fn stalled_share_within(info: &RunInfo, interval: (i64, i64)) -> f64 {
    share_of(&info.tool_stalls, interval)
}

fn share_of(stalls: &[ToolStall], (from_ns, to_ns): (i64, i64)) -> f64 {
    let stalls = stalls.iter();
    let within = stalls.map(|stall| stall.until_ns.min(to_ns) - stall.from_ns.max(from_ns));
    let stalled_ns: i64 = within.map(|ns| ns.max(0)).sum();
    stalled_ns as f64 / (to_ns - from_ns).max(1) as f64
}

/// Stalls of the tool in a trial of an experiment: it was stopped, starved or throttled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialStalls {
    /// Share of the trial, from 0 to 1.
    pub share: f64,
    /// Number of times that the trial was repeated because of stalls. The measurements are of the last time.
    pub repeats: u32,
}

impl TrialStalls {
    /// Reports whether the tool stalled so much that the trial's times do not show the server's speed.
    pub fn is_disturbed(&self) -> bool {
        self.share > TRIAL_STALLED_SHARE_MAX
    }
}

/// Describes the trials of an experiment in which the tool stalled, and what follows from those whose repetitions did not
/// help. Returns `None` without any.
pub(crate) fn stall_note(trials: &[TrialStalls], consequence: &str) -> Option<String> {
    let repeats: u32 = trials.iter().map(|one| one.repeats).sum();
    let disturbed = trials.iter().filter(|one| one.is_disturbed()).count();
    let longest = trials.iter().map(|one| one.share).fold(0.0, f64::max);
    let repeated = match repeats {
        1 => "1 repetition".to_owned(),
        number => format!("{number} repetitions"),
    };
    match (repeats, disturbed) {
        (0, 0) => None,
        (_, 0) => Some(format!(
            "this program was stopped, starved or throttled in some runs; {repeated} replaced them"
        )),
        _ => Some(format!(
            "this program was stopped, starved or throttled for up to {:.0} % of the time in {disturbed} of {} runs, after {repeated}: {consequence}",
            longest * 100.0,
            trials.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_of_a_stall_within_the_interval_counts() {
        let stall = |from_ns, until_ns| ToolStall {
            from_ns,
            until_ns,
            longest_ns: until_ns - from_ns,
        };
        let stalls = [stall(-50, 50), stall(400, 600), stall(990, 2_000)];
        let is_share = |interval, share: f64| (share_of(&stalls, interval) - share).abs() < 1e-9;
        assert!(is_share((0, 1_000), 0.26));
        assert!(is_share((500, 900), 0.25));
        assert!(is_share((700, 800), 0.0));
    }
}
