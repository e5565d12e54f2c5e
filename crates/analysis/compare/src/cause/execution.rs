//! Execution time by the server's statistics as evidence, apart from stalls of the machine.

use super::{DEVIATIONS, Direction, Judge, MEDIAN_FACTOR, TIME_FACTOR, WORK_TIME_FACTOR};
use crate::work::{WorkComparison, WorkPerCall};

/// Minimum of [`WorkPerCall::effective_calls`] of the side that took longer for an execution time that alone shows a cause. Cochran's
/// rule, that a mean is about normal with more than 25 times the square of the skewness of executions, is the same for a few equally long executions ("Sampling Techniques", 1977, section 2.15).
const EFFECTIVE_CALLS_MIN: f64 = 25.0;
/// The same for a mean that makes a statement look changed. If chance placed ten equally long executions, all are on one side in one
/// of 512 cases, and so for one of 50 statements in one of ten comparisons.
const SUSPECT_CALLS_MIN: f64 = 10.0;
/// Longest stall of a machine that others use, in nanoseconds: 20 to 140 ms were measured on shared virtual machines.
const STALL_NS_MAX: f64 = 150_000_000.0;
/// Minimum number of runs a side whose typical run contradicts the mean of all executions.
const TYPICAL_RUNS_MIN: usize = 3;

impl Judge<'_> {
    /// Whether the server's execution time alone shows a cause. A client on a busy machine waits for its processor and
    /// shows nothing; the server's time does, if its executions vary little enough.
    pub(super) fn is_execution_cause(&self) -> bool {
        let error = self
            .one
            .work
            .as_ref()
            .and_then(WorkComparison::execution_error);
        let (Some(common), Some(relative), Some(error)) =
            (self.context.common, self.execution, error)
        else {
            return false;
        };
        common.execution.is_some()
            && self.is_typical()
            && relative >= TIME_FACTOR
            && relative.ln() >= DEVIATIONS * common.deviation
            && (relative / (1.0 + self.context.margin)).ln() >= DEVIATIONS * error
    }

    /// Returns by which factors, relative to the common change, a typical run differs at least and at most, with the number of runs
    /// of the side with fewer; `None` with one run on a side.
    fn typical(&self) -> Option<(usize, [f64; 2])> {
        let typical = self.one.work.as_ref()?.typical_runs?;
        let common = self.context.common.map_or(1.0, |one| one.factor());
        let bounds = match self.direction {
            Direction::Slower => [typical.low / common, typical.high / common],
            Direction::Faster => [common / typical.high, common / typical.low],
        };
        Some((typical.runs, bounds))
    }

    /// Whether enough executions make up the mean execution time, and with repeated runs a typical run differs. One stall of the
    /// machine multiplies the mean of short executions also of a whole run.
    fn is_typical(&self) -> bool {
        let differs = self
            .typical()
            .is_none_or(|(_, [least, _])| least >= MEDIAN_FACTOR);
        let is_normal = |(_, effective): (_, f64)| effective >= EFFECTIVE_CALLS_MIN;
        differs && self.longer().is_some_and(is_normal)
    }

    /// Whether a typical run does not differ in this direction, so that the mean rests on a minority of the runs.
    pub(super) fn is_typical_run_equal(&self) -> bool {
        self.typical()
            .is_some_and(|(runs, [_, most])| runs >= TYPICAL_RUNS_MIN && most < WORK_TIME_FACTOR)
    }

    /// Whether the mean execution time rests on stalls of the machine: on few executions, none of which need be longer.
    pub(super) fn may_be_stalls(&self) -> bool {
        self.longer().is_some_and(|(work, effective)| {
            // Length of each if the whole time lay in as many equally long executions.
            let each_ns = work.exec_ns * work.calls as f64 / effective;
            effective < SUSPECT_CALLS_MIN && each_ns < STALL_NS_MAX
        })
    }

    /// Returns the work of the side that took longer, with its effective executions; `None` if they are not known.
    fn longer(&self) -> Option<(&WorkPerCall, f64)> {
        let work = self.one.work.as_ref()?;
        let longer = match self.direction {
            Direction::Slower => &work.after,
            Direction::Faster => &work.before,
        };
        Some((longer, longer.effective_calls()?))
    }
}
