//! Tells causes from what slowed along with them.
//!
//! A statement *changed independently* if its plan or its work differs and it takes more time, or if it takes more
//! time than the change that all statements of the run share. A statement with the same work that took longer
//! *slowed along*: it waited for what others use, or the machine was busy. Whether it is a victim of a cause
//! or of the machine cannot be told from the statement.
//!
//! The common change is the median of the logarithms of the ratios of all statements with the same work, so
//! that up to half of them may have changed. Its dispersion is their median absolute deviation, scaled for a
//! normal distribution (Rousseeuw & Croux, J. Am. Stat. Assoc. 88, 1993).
//!
//! Evidence adds up: what one measure shows is not taken back by another that shows nothing.

mod execution;

use schemars::JsonSchema;
use serde::Serialize;
use statistics::bootstrap::MEASURES;
use statistics::{Measure, Ratio};

use crate::compare::{StatementComparison, TimesComparison};
use crate::judgement::{Finding, InsufficientData};
use crate::statement_role::StatementRole;
use crate::work::{WORKERS_MIN, WorkChange, WorkComparison};

/// Factor, relative to the common change, that makes a difference of execution time alone a cause with one run
/// a side, if the statistics of the server and the times of the client agree.
pub const TIME_FACTOR: f64 = 2.0;
/// The same without statement statistics, where only the client's times are known.
const CLIENT_TIME_FACTOR: f64 = 3.0;
/// The same if too few statements have the same work to know a common change. No busy machine slows the typical
/// execution as much.
const LONE_TIME_FACTOR: f64 = 8.0;
/// Factor that the median of the client's times must have, so that a few long executions are no cause.
const MEDIAN_FACTOR: f64 = 1.5;
/// Factor of time that more work must have.
const WORK_TIME_FACTOR: f64 = 1.25;
/// Minimum distance from the common change for time alone, in deviations: of 20 statements of equal servers, one
/// is as far in one of 70 comparisons if the distances are normal.
const DEVIATIONS: f64 = 3.2;
/// Least deviation of the common change. Statements of an idle server differ by as much.
const DEVIATION_MIN: f64 = 0.05;
/// Factor from a normal distribution's median absolute deviation to its standard deviation.
const NORMAL_MAD: f64 = 1.4826;
/// Minimum number of statements with the same work for a common change.
const COMMON_MIN: usize = 5;
/// Common change at which a run as a whole is slower or faster.
pub const COMMON_NOTICEABLE: f64 = 1.25;

/// Direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// More time.
    Slower,
    /// Less time.
    Faster,
}

impl Direction {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Slower => "slower",
            Direction::Faster => "faster",
        }
    }

    /// Returns the ratio as it counts in this direction: above 1 if it is in it.
    fn turned(self, ratio: f64) -> f64 {
        match self {
            Direction::Slower => ratio,
            Direction::Faster => 1.0 / ratio,
        }
    }
}

/// Evidence that a statement changed independently.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "evidence", rename_all = "snake_case")]
pub enum Evidence {
    /// Its plan differs.
    OtherPlan,
    /// A counter of work differs.
    Work(WorkChange),
    /// Parallel workers of an execution differ, planned or launched.
    ParallelWorkers {
        /// Planned before.
        planned_before: f64,
        /// Planned after.
        planned_after: f64,
        /// Launched before.
        launched_before: f64,
        /// Launched after.
        launched_after: f64,
    },
    /// Execution time by the server's statistics, relative to the common change.
    ExecutionTime {
        /// Ratio.
        relative: f64,
    },
    /// Time by the client, relative to the common change.
    ServiceTime {
        /// Ratio.
        relative: f64,
    },
}

/// Change of a statement, by its cause.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StatementChange {
    /// None was shown.
    #[default]
    None,
    /// It changed independently: a cause.
    Independent {
        /// Direction.
        direction: Direction,
        /// Time relative to the common change.
        relative: f64,
        /// The evidence.
        evidence: Vec<Evidence>,
    },
    /// The same work took more or less time, as did that of others.
    Along {
        /// Direction.
        direction: Direction,
    },
    /// It looks changed, and that is not proven.
    Unproven {
        /// Direction.
        direction: Direction,
        /// Time relative to the common change.
        relative: f64,
        /// The evidence.
        evidence: Vec<Evidence>,
    },
}

impl StatementChange {
    /// Returns its direction; `None` without a change.
    pub fn direction(&self) -> Option<Direction> {
        match self {
            StatementChange::None => None,
            StatementChange::Independent { direction, .. }
            | StatementChange::Along { direction }
            | StatementChange::Unproven { direction, .. } => Some(*direction),
        }
    }

    /// Whether it is a cause of this direction.
    pub fn is_cause(&self, wanted: Direction) -> bool {
        matches!(self, StatementChange::Independent { direction, .. } if *direction == wanted)
    }

    /// Whether it moved along with others in this direction.
    pub fn is_along(&self, wanted: Direction) -> bool {
        matches!(self, StatementChange::Along { direction } if *direction == wanted)
    }

    /// Whether it looks slower, and that is not proven.
    pub fn is_suspected(&self) -> bool {
        let direction = Direction::Slower;
        matches!(self, StatementChange::Unproven { direction: found, .. } if *found == direction)
    }

    /// Returns its importance: a cause is more important than a suspicion, which is more important than what moved
    /// along.
    pub fn importance(&self) -> u8 {
        match self {
            StatementChange::Independent { .. } => 3,
            StatementChange::Unproven { .. } => 2,
            StatementChange::Along { .. } => 1,
            StatementChange::None => 0,
        }
    }

    /// Returns the evidence.
    pub fn evidence(&self) -> &[Evidence] {
        match self {
            StatementChange::Independent { evidence, .. }
            | StatementChange::Unproven { evidence, .. } => evidence,
            StatementChange::None | StatementChange::Along { .. } => &[],
        }
    }
}

/// Change that all statements of a run share, as factors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct CommonChange {
    /// Number of statements with the same work that it was estimated from.
    pub statements: usize,
    /// Factor of the execution time by the servers' statistics; `null` without them.
    pub execution: Option<f64>,
    /// Factor of the client's mean times.
    pub mean: f64,
    /// Factor of the client's median times.
    pub median: f64,
    /// Standard deviation of the logarithms of [`Self::factor`] of the statements.
    pub deviation: f64,
    /// Standard deviation of the logarithms of the client's medians.
    pub median_deviation: f64,
}

impl CommonChange {
    /// Returns the factor of the best measure.
    pub fn factor(&self) -> f64 {
        self.execution.unwrap_or(self.mean)
    }

    /// Estimates it from the statements; `None` if too few have the same work on both sides.
    pub(crate) fn estimate(statements: &[StatementComparison]) -> Option<Self> {
        let alike = || {
            let alike = |one: &&StatementComparison| {
                one.role == StatementRole::Application
                    && one.work.as_ref().is_none_or(WorkComparison::is_same)
                    && !has_other_plan(one)
            };
            statements.iter().filter(alike)
        };
        let logs = |of: &dyn Fn(&StatementComparison) -> Option<f64>| -> Vec<f64> {
            let ratios = alike().filter_map(of);
            ratios
                .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
                .map(f64::ln)
                .collect()
        };
        let enough = |logs: &[f64]| logs.len() >= COMMON_MIN;
        let execution = logs(&execution_ratio);
        let mean = logs(&|one| one.service.mean_ratio.map(|ratio| ratio.value));
        let medians = logs(&|one| one.service.median_ratio.map(|ratio| ratio.value));
        if !enough(&mean) || !enough(&medians) {
            return None;
        }
        let best = match enough(&execution) {
            true => &execution,
            false => &mean,
        };
        Some(Self {
            statements: best.len(),
            execution: enough(&execution).then(|| median(execution.clone()).exp()),
            deviation: deviation(best),
            median_deviation: deviation(&medians),
            mean: median(mean).exp(),
            median: median(medians).exp(),
        })
    }
}

/// Returns the ratio of the execution times of an execution.
fn execution_ratio(one: &StatementComparison) -> Option<f64> {
    one.work.as_ref().and_then(WorkComparison::execution_ratio)
}

fn has_other_plan(one: &StatementComparison) -> bool {
    one.plans.as_ref().is_some_and(|plans| plans.is_changed())
        || one
            .work
            .as_ref()
            .is_some_and(WorkComparison::has_other_workers)
}

/// Returns the parallel workers of both sides, if those that were planned or launched differ.
fn worker_evidence(work: &WorkComparison) -> Option<Evidence> {
    let planned = work
        .before
        .workers_planned
        .zip(work.after.workers_planned)?;
    let launched = work
        .before
        .workers_launched
        .zip(work.after.workers_launched)?;
    let differs = |(before, after): (f64, f64)| (before - after).abs() >= WORKERS_MIN;
    (differs(planned) || differs(launched)).then_some(Evidence::ParallelWorkers {
        planned_before: planned.0,
        planned_after: planned.1,
        launched_before: launched.0,
        launched_after: launched.1,
    })
}

/// Whether a statement did the same work, and its execution time excludes that it takes [`TIME_FACTOR`] times as long,
/// relative to the common change (97.5 % of a normal distribution are below 1.96).
pub(crate) fn excludes_doubling(one: &StatementComparison, common: Option<&CommonChange>) -> bool {
    let Some(work) = one.work.as_ref().filter(|work| work.is_same()) else {
        return false;
    };
    let factor = common.map_or(1.0, CommonChange::factor);
    let known = work.execution_ratio().zip(work.execution_error());
    !has_other_plan(one)
        && known
            .is_some_and(|(ratio, error)| (ratio / factor).ln() + 1.96 * error < TIME_FACTOR.ln())
}

/// Returns the standard deviation by the median absolute deviation.
fn deviation(values: &[f64]) -> f64 {
    let center = median(values.to_vec());
    let distances = values.iter().map(|value| (value - center).abs()).collect();
    (NORMAL_MAD * median(distances)).max(DEVIATION_MIN)
}

/// Returns the median; 0 for none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.len() % 2, values.get(middle)) {
        (_, None) => 0.0,
        (0, Some(above)) => (values[middle - 1] + above) / 2.0,
        (_, Some(value)) => *value,
    }
}

/// Context of a judgement: what holds for all statements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JudgementContext {
    /// The common change, if it is known.
    pub(crate) common: Option<CommonChange>,
    /// Whether differences between runs of one server are known.
    pub(crate) is_noise_known: bool,
    /// Margin of a difference.
    pub(crate) margin: f64,
    /// Service time of all statements before, in nanoseconds.
    pub(crate) all_ns: f64,
    /// Number of runs before.
    pub(crate) runs_before: f64,
}

/// Judges the change of a statement.
pub(crate) fn judge_change(
    one: &StatementComparison,
    context: &JudgementContext,
) -> StatementChange {
    if one.role != StatementRole::Application {
        return StatementChange::None;
    }
    let judge = |direction| Judge::new(one, context, direction).judge();
    let changes = [Direction::Slower, Direction::Faster].map(judge);
    let [slower, faster] = changes;
    match faster.importance() > slower.importance() {
        true => faster,
        false => slower,
    }
}

/// Facts of a statement, seen in one direction: ratios above 1 are in it.
struct Judge<'a> {
    one: &'a StatementComparison,
    context: &'a JudgementContext,
    direction: Direction,
    /// Execution time by the server, relative to the common change.
    execution: Option<f64>,
    /// Mean of the client's times, relative to the common change.
    mean: Option<f64>,
    /// Median of the client's times, relative to the common change.
    median: Option<f64>,
    work: &'a [WorkChange],
    other_plan: bool,
}

impl<'a> Judge<'a> {
    fn new(
        one: &'a StatementComparison,
        context: &'a JudgementContext,
        direction: Direction,
    ) -> Self {
        let relative = |ratio: Option<f64>, common: Option<f64>| {
            ratio.map(|ratio| direction.turned(ratio / common.unwrap_or(1.0)))
        };
        let common = context.common;
        let value = |ratio: Option<Ratio>| ratio.map(|ratio| ratio.value);
        let work = one.work.as_ref();
        Self {
            one,
            context,
            direction,
            execution: relative(execution_ratio(one), common.map(|one| one.factor())),
            mean: relative(value(one.service.mean_ratio), common.map(|one| one.mean)),
            median: relative(
                value(one.service.median_ratio),
                common.map(|one| one.median),
            ),
            work: match direction {
                Direction::Slower => work.map_or(&[], |work| &work.more),
                Direction::Faster => work.map_or(&[], |work| &work.less),
            },
            other_plan: has_other_plan(one),
        }
    }

    fn judge(&self) -> StatementChange {
        let direction = self.direction;
        let Some(relative) = self.relative() else {
            return StatementChange::None;
        };
        if !self.is_noticeable() {
            return StatementChange::None;
        }
        let evidence = self.evidence();
        if self.is_cause(relative) {
            return StatementChange::Independent {
                direction,
                relative,
                evidence,
            };
        }
        let is_clear = self.is_proven() || self.is_clear_by_chance();
        let is_same_work =
            self.one.work.as_ref().is_some_and(WorkComparison::is_same) && !self.other_plan;
        let is_doubled =
            relative >= TIME_FACTOR && !self.is_typical_run_equal() && !self.may_be_stalls();
        if is_clear && is_same_work && !is_doubled {
            return StatementChange::Along { direction };
        }
        // If the server took less time for it, the client waited for something that others use.
        let is_contradicted = self.execution.is_some_and(|relative| relative <= 1.0);
        let is_suspect = !is_contradicted
            && (is_doubled
                || (is_clear && relative.max(self.own_ratio()) > 1.0 + self.context.margin)
                || (relative >= WORK_TIME_FACTOR && (self.other_plan || !self.work.is_empty())));
        match is_suspect {
            true => StatementChange::Unproven {
                direction,
                relative,
                evidence,
            },
            false if is_clear => StatementChange::Along { direction },
            false => StatementChange::None,
        }
    }

    /// Returns the time relative to the common change, by the best measure.
    fn relative(&self) -> Option<f64> {
        self.execution.or(self.mean)
    }

    fn is_cause(&self, relative: f64) -> bool {
        let more_work = !self.work.is_empty() && relative >= WORK_TIME_FACTOR;
        let other_plan = self.other_plan
            && (relative >= TIME_FACTOR
                || (relative >= MEDIAN_FACTOR && (self.is_proven() || self.is_clear_by_chance())));
        more_work
            || other_plan
            || self.is_execution_cause()
            || self.is_time_cause(relative)
            || self.is_proven_cause()
    }

    /// Whether time alone shows a cause with one run a side.
    fn is_time_cause(&self, relative: f64) -> bool {
        let (Some(median), Some(mean)) = (self.median, self.mean) else {
            return false;
        };
        let (wanted, wanted_median) = match (self.context.common, self.execution) {
            (None, _) => (LONE_TIME_FACTOR, LONE_TIME_FACTOR),
            (Some(_), Some(_)) => (TIME_FACTOR, MEDIAN_FACTOR),
            (Some(_), None) => (CLIENT_TIME_FACTOR, CLIENT_TIME_FACTOR),
        };
        let common = self.context.common.as_ref();
        let is_far = common.is_none_or(|one| {
            relative.ln() >= DEVIATIONS * one.deviation
                || median.ln() >= DEVIATIONS * one.median_deviation
        });
        let is_certain = self
            .lowest()
            .is_some_and(|low| low > 1.0 + self.context.margin);
        relative >= wanted
            && median >= wanted_median
            && mean >= MEDIAN_FACTOR
            && is_far
            && is_certain
    }

    /// Whether repeated runs prove that it differs from the common change.
    fn is_proven_cause(&self) -> bool {
        self.context.is_noise_known
            && self.is_proven()
            && self.own_low() > 1.0 + self.context.margin
            && self
                .execution
                .is_none_or(|relative| relative >= WORK_TIME_FACTOR)
    }

    /// Returns the ratio of the measure that the finding rests on, relative to the common change.
    fn own_ratio(&self) -> f64 {
        let ratio = self.one.service.ratio(self.one.service.measure());
        ratio.map_or(1.0, |ratio| {
            self.direction.turned(ratio.value / self.own_common())
        })
    }

    /// Returns the lower bound of that ratio.
    fn own_low(&self) -> f64 {
        let ratio = self.one.service.ratio(self.one.service.measure());
        let interval = ratio.and_then(|ratio| ratio.interval);
        interval.map_or(1.0, |interval| match self.direction {
            Direction::Slower => interval.low / self.own_common(),
            Direction::Faster => self.own_common() / interval.high,
        })
    }

    /// Returns the common change of the measure that the finding rests on.
    fn own_common(&self) -> f64 {
        let measure = self.one.service.measure();
        self.context.common.map_or(1.0, |common| match measure {
            Measure::Median => common.median,
            Measure::Mean | Measure::P99 => common.mean,
        })
    }

    /// Returns the greatest lower bound of a measure's ratio, relative to the common change.
    fn lowest(&self) -> Option<f64> {
        let common = self.context.common;
        let measures = [
            (self.one.service.median_ratio, common.map(|one| one.median)),
            (self.one.service.mean_ratio, common.map(|one| one.mean)),
        ];
        let bounds = measures.into_iter().filter_map(|(ratio, common)| {
            let interval = ratio?.interval?;
            let (low, high) = (
                self.direction.turned(interval.low / common.unwrap_or(1.0)),
                self.direction.turned(interval.high / common.unwrap_or(1.0)),
            );
            Some(low.min(high))
        });
        bounds.reduce(f64::max)
    }

    /// Whether the client's times prove a difference.
    fn is_proven(&self) -> bool {
        match self.direction {
            Direction::Slower => matches!(self.one.service.finding, Finding::Slower { .. }),
            Direction::Faster => matches!(self.one.service.finding, Finding::Faster { .. }),
        }
    }

    /// Whether an interval is clear of the margin in this direction, and may be chance.
    fn is_clear_by_chance(&self) -> bool {
        let may_be_chance = Finding::InsufficientData {
            reason: InsufficientData::MayBeChance,
        };
        let ratios = [
            self.one.service.median_ratio,
            self.one.service.mean_ratio,
            self.one.service.p99_ratio,
        ];
        let margins: [f64; MEASURES] = self.one.margins;
        self.one.service.finding == may_be_chance
            && ratios.into_iter().zip(margins).any(|(ratio, margin)| {
                let interval = ratio.and_then(|ratio| ratio.interval);
                interval.is_some_and(|interval| match self.direction {
                    Direction::Slower => interval.low > 1.0 + margin,
                    Direction::Faster => interval.high < 1.0 / (1.0 + margin),
                })
            })
    }

    fn evidence(&self) -> Vec<Evidence> {
        let mut evidence = Vec::new();
        if self
            .one
            .plans
            .as_ref()
            .is_some_and(|plans| plans.is_changed())
        {
            evidence.push(Evidence::OtherPlan);
        }
        evidence.extend(self.one.work.as_ref().and_then(worker_evidence));
        evidence.extend(self.work.iter().copied().map(Evidence::Work));
        match (self.execution, self.mean) {
            (Some(relative), _) => evidence.push(Evidence::ExecutionTime { relative }),
            (None, Some(relative)) => evidence.push(Evidence::ServiceTime { relative }),
            (None, None) => {}
        }
        evidence
    }

    /// Whether the difference adds or saves enough time to be noticed.
    fn is_noticeable(&self) -> bool {
        let measures = [Measure::Mean, self.one.service.measure()];
        let times = &self.one.service;
        measures
            .into_iter()
            .any(|measure| is_noticeable(times, measure, self.direction, self.context.all_ns))
            || self.is_execution_noticeable()
    }

    /// The same by the server's execution time, after the common change.
    fn is_execution_noticeable(&self) -> bool {
        let (Some(work), Some(common)) = (&self.one.work, self.context.common) else {
            return false;
        };
        let added_ns = work.after.exec_ns / common.factor() - work.before.exec_ns;
        let longer_ns = match self.direction {
            Direction::Slower => added_ns,
            Direction::Faster => -added_ns,
        };
        let calls = self.one.calls_before as f64 / self.context.runs_before;
        is_time_noticeable(longer_ns, longer_ns * calls, self.context.all_ns)
    }
}

/// Minimum share of all service time that a changed statement must add or save.
pub const NOTICEABLE_SHARE: f64 = 0.001;

/// Minimum time of a call, in nanoseconds, that makes a change noticeable in any case. A tenth of a second is
/// where people begin to notice (Miller 1968; Nielsen, "Usability Engineering", 1993).
pub const NOTICEABLE_CALL_NS: f64 = 100_000_000.0;

/// Minimum time of a call, in nanoseconds, for any change. The network and the scheduler cause as much
/// difference between any two runs.
pub const NOTICEABLE_CALL_NS_MIN: f64 = 20_000.0;

/// Whether a changed statement adds or saves enough time to be noticed.
pub(crate) fn is_noticeable(
    times: &TimesComparison,
    measure: Measure,
    direction: Direction,
    all_ns: f64,
) -> bool {
    let (Some(before), Some(after)) = (times.before, times.after) else {
        return false;
    };
    let sign = match direction {
        Direction::Slower => 1.0,
        Direction::Faster => -1.0,
    };
    let longer_ns = sign * (after.measure_ns(measure) - before.measure_ns(measure));
    let added_ns = sign * times.added_ns.unwrap_or(0.0);
    is_time_noticeable(longer_ns, added_ns, all_ns)
}

/// Whether so much longer calls, and so much more time of all of them, are noticed.
fn is_time_noticeable(longer_ns: f64, added_ns: f64, all_ns: f64) -> bool {
    longer_ns >= NOTICEABLE_CALL_NS_MIN
        && (longer_ns >= NOTICEABLE_CALL_NS || added_ns >= NOTICEABLE_SHARE * all_ns)
}
