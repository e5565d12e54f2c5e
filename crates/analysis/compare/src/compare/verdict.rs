//! Computes the verdict of a comparison.

use crate::cause::{
    COMMON_NOTICEABLE, Direction, JudgementContext, excludes_doubling, is_noticeable, judge_change,
};
use crate::error_change::{ErrorChange, judge_origins};
use crate::judgement::Finding;
use statistics::LatencySummary;

use super::comparison::{
    Comparison, InconclusiveReason, Noise, NoiseSource, TimesComparison, Verdict,
};
use crate::cause::CommonChange;

/// Maximum difference of the numbers of calls, as a share, for judging all statements together.
/// Statements that only one run executed would otherwise look like a difference in time.
const OVERALL_CALLS_DIFFERENCE: f64 = 0.01;

/// Minimum number of runs a side that prove that a run as a whole got slower. Two of four runs may well have met
/// a busy machine.
const OVERALL_RUNS_MIN: usize = 3;

/// Share of the machine, more after than before, that explains a run that was slower as a whole. A slower server does not
/// make other processes use more. What uses all of the machine takes 1 / (1 − 0.1) = 1.11 times as long then, which is
/// beyond the default margin.
const MACHINE_LOST_MORE: f64 = 0.1;

/// Share of the execution time that statements must have whose doubling is excluded, so that the verdict can rest on them.
const MOST_OF_THE_TIME: f64 = 0.9;

impl Comparison {
    /// Judges the changes of all statements, and the comparison. Plans that are added later change both.
    pub(crate) fn judge(&mut self) {
        judge_origins(&mut self.errors, self.targets.as_ref());
        self.common = CommonChange::estimate(&self.statements);
        let context = JudgementContext {
            common: self.common,
            is_noise_known: self.is_noise_known(),
            margin: self.margin,
            all_ns: self.time_before_ns(),
            runs_before: self.before.runs.len() as f64,
        };
        let changes: Vec<_> = self
            .statements
            .iter()
            .map(|statement| judge_change(statement, &context))
            .collect();
        for (statement, change) in self.statements.iter_mut().zip(changes) {
            statement.change = change;
        }
        self.verdict = self.compute_verdict();
    }

    /// Returns the service time of all statements of a run before, in nanoseconds.
    fn time_before_ns(&self) -> f64 {
        let total_ns = self.all.before.map_or(0.0, |latency| latency.total_ns);
        total_ns / self.before.runs.len() as f64
    }

    fn compute_verdict(&self) -> Verdict {
        let count = |is: &dyn Fn(&crate::StatementComparison) -> bool| {
            self.statements.iter().filter(|one| is(one)).count()
        };
        let causes = count(&|one| one.change.is_cause(Direction::Slower));
        let along = count(&|one| one.change.is_along(Direction::Slower));
        let suspects = self.suspected();
        let errors = self.errors.iter().filter(|change| change.regression);
        let errors = errors.count();
        let overall = self.is_slower_overall();
        let is_machine_busier = self
            .machine_lost
            .is_some_and(|more| more >= MACHINE_LOST_MORE);
        let is_overall_proven = overall
            && self.can_prove_overall()
            && !is_machine_busier
            && !self.is_overall_contradicted();
        if causes > 0 || errors > 0 || is_overall_proven {
            return Verdict::Regression {
                causes,
                along,
                errors,
                overall,
            };
        }
        let inconclusive = |reason| Verdict::Inconclusive {
            reason,
            suspects,
            along,
        };
        if self.errors.iter().any(ErrorChange::proves_another_moment) {
            return inconclusive(InconclusiveReason::RowsOfAnotherMoment);
        }
        let common = self.common.map_or(1.0, |common| common.factor());
        if overall || common >= COMMON_NOTICEABLE {
            return inconclusive(match is_machine_busier {
                true => InconclusiveReason::MachineBusier,
                false => InconclusiveReason::RunAsAWhole,
            });
        }
        if suspects > 0 {
            return inconclusive(InconclusiveReason::Suspects);
        }
        let is_known =
            |times: &TimesComparison| !matches!(times.finding, Finding::InsufficientData { .. });
        let faster = count(&|one| one.change.is_cause(Direction::Faster));
        let is_unknown = !is_known(&self.all) && count(&|one| is_known(&one.service)) == 0;
        if faster == 0 && is_unknown && !self.excludes_doubling() {
            return inconclusive(InconclusiveReason::TooLittleData);
        }
        Verdict::NoRegression { faster }
    }

    /// Whether the servers' statistics exclude that statements with most of the execution time take twice as long. Clients
    /// on a busy machine may vary too much to show anything, and the servers' counters still do.
    pub fn excludes_doubling(&self) -> bool {
        let (mut all_ns, mut shown_ns) = (0.0, 0.0);
        for one in &self.statements {
            let Some(work) = &one.work else {
                continue;
            };
            let ns = work.before.exec_ns * work.before.calls as f64;
            all_ns += ns;
            if excludes_doubling(one, self.common.as_ref()) {
                shown_ns += ns;
            }
        }
        shown_ns > MOST_OF_THE_TIME * all_ns
    }

    /// Whether runs of the same server tell by how much a run as a whole differs.
    fn can_prove_overall(&self) -> bool {
        let fewest = self.before.runs.len().min(self.after.runs.len());
        let given = |noise: &Noise| noise.source == NoiseSource::Given;
        fewest >= OVERALL_RUNS_MIN || self.noise.as_ref().is_some_and(given)
    }

    /// Whether the servers' execution times contradict that the run as a whole got slower. On a machine that others use,
    /// clients wait for its processors, and a hump of the load may meet the runs of one side.
    fn is_overall_contradicted(&self) -> bool {
        let is_as_before = |common: &CommonChange| common.factor() < 1.0 + self.margin;
        let is_server_known = self.statements.iter().any(|one| one.work.is_some());
        self.is_machine_busy && is_server_known && self.common.as_ref().is_some_and(is_as_before)
    }

    /// Whether all statements together got noticeably slower. Both sides must have executed about the same.
    fn is_slower_overall(&self) -> bool {
        let done = |side: Option<LatencySummary>| side.map_or(0, |latency| latency.count);
        let (before, after) = (done(self.all.before), done(self.all.after));
        let alike = before.abs_diff(after) as f64 <= OVERALL_CALLS_DIFFERENCE * before as f64;
        let Finding::Slower { measure } = self.all.finding else {
            return false;
        };
        let all_ns = self.time_before_ns();
        alike && is_noticeable(&self.all, measure, Direction::Slower, all_ns)
    }
}
