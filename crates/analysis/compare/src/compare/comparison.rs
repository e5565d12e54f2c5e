//! Options, inputs and result types of a comparison.

use run::Facts;
use schemars::JsonSchema;
use serde::Serialize;
use sql::{ContextKey, Fingerprint, StatementClass};

use crate::anomaly::Anomaly;
use crate::cause::{CommonChange, Direction, StatementChange};
use crate::condition::ConditionOutcome;
use crate::details::Details;
use crate::error_change::ErrorChange;
use crate::judgement::{Finding, MARGIN_DEFAULT};
use crate::over_time::ComparedOverTime;
use crate::rows_change::RowsComparison;
use crate::rows_reason::{ReasonInputs, rows_reasons, written_tables};
use crate::run_stats::RunStats;
use crate::slowest::SlowExecution;
use crate::statement_role::StatementRole;
use crate::targets::TargetsComparison;
use crate::warning::{Warning, target_warnings};
use crate::work::WorkComparison;
use plans::StatementPlans;
use statistics::FALSE_DISCOVERY_RATE;
use statistics::LatencySummary;
use statistics::Measure;
use statistics::Ratio;
use statistics::bootstrap::MEASURES;
use time_breakdown::observed::ObservedChange;
use time_breakdown::time_model::TimeChange;
use workload::Literals;

use super::facts::SideFacts;
use super::pairing::Pairing;
use crate::observation_unit::ObservationUnit;

/// Options of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareOptions {
    /// Differences up to this share are ignored: 0.1 is from 1/1.1 to 1.1.
    pub margin: f64,
    /// Maximum expected share of statements called slower or faster that are neither.
    pub false_discovery_rate: f64,
    /// Number of computing threads; it does not affect the result. 0 means 1.
    pub threads: usize,
    /// Whether messages and plans keep values of the user's data.
    pub literals: Literals,
    /// Treatment of runs that were made in pairs.
    pub pairing: Pairing,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            margin: MARGIN_DEFAULT,
            false_discovery_rate: FALSE_DISCOVERY_RATE,
            threads: 1,
            literals: Literals::Hidden,
            pairing: Pairing::Recorded,
        }
    }
}

/// Runs to compare.
#[derive(Debug, Default)]
pub struct Runs {
    /// Runs before the change; at least one.
    pub before: Vec<RunStats>,
    /// Runs after the change; at least one.
    pub after: Vec<RunStats>,
    /// Runs of one unchanged server, whose differences are noise. None, or at least two.
    pub noise: Vec<RunStats>,
}

/// Comparison of the runs before a change with those after it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The verdict.
    pub verdict: Verdict,
    /// Whether messages and plans hold values of the user's data.
    pub literals: Literals,
    /// Reasons to read this with care.
    pub warnings: Vec<Warning>,
    /// Differences of medians up to this share are ignored: 0.1 is from 1/1.1 to 1.1. It is the
    /// requested margin, or the given noise if that is greater. A noisier statement has its own
    /// margin.
    pub margin: f64,
    /// Confidence level of the intervals, in percent.
    pub interval_level_percent: u32,
    /// Maximum expected share of statements called slower or faster that are neither.
    pub false_discovery_rate: f64,
    /// Whether the same stretches of the workload were compared with each other.
    pub paired: bool,
    /// Unit of observation.
    pub unit: ObservationUnit,
    /// Change that all statements of the runs share; `null` if too few have the same work.
    pub common: Option<CommonChange>,
    /// Differences between runs of the same server; `null` if each side has one run and none were given.
    pub noise: Option<Noise>,
    /// Share of the machine that others used, or that was stolen, after minus before; `null` if a run does not
    /// know it.
    pub machine_lost: Option<f64>,
    /// Whether others used a third of the machine or more after, so that clients waited for its processors.
    #[serde(skip)]
    pub(crate) is_machine_busy: bool,
    /// Facts about the runs before.
    pub before: SideFacts,
    /// Facts about the runs after.
    pub after: SideFacts,
    /// Service time (sent → done) of all statements together.
    pub all: TimesComparison,
    /// Response time (due → done) of all statements together: it includes the waiting that a stall
    /// causes.
    pub response: TimesComparison,
    /// Both sides by stretch.
    pub over_time: ComparedOverTime,
    /// Captured durations of all statements: from another machine and another day, server time
    /// only.
    pub captured: Option<LatencySummary>,
    /// Time of opening connections.
    pub connects: TimesComparison,
    /// Statements by the time that the change adds, in descending order; those of only one side
    /// come last.
    pub statements: Vec<StatementComparison>,
    /// Comparison by a part of the context that comments name; `null` if it was not requested. It does not affect
    /// the verdict. The caller adds it.
    pub contexts: Option<ContextsComparison>,
    /// Errors that changed; regressions first.
    pub errors: Vec<ErrorChange>,
    /// Row counts that differ. They do not affect the verdict.
    pub rows: RowsComparison,
    /// Outcomes of the conditions that were checked. The caller adds them.
    pub conditions: Vec<ConditionOutcome>,
    /// The targets compared; `null` if a run does not know its own. The caller adds it.
    pub targets: Option<TargetsComparison>,
    /// Components of response time; `null` unless all runs were observed. The caller adds it.
    pub time: Option<TimeChange>,
    /// Numbers observed of the targets; `null` unless all runs were observed. The caller adds it.
    pub observed: Option<ObservedChange>,
}

/// The verdict of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Something got worse independently.
    Regression {
        /// Number of statements that got slower independently.
        causes: usize,
        /// Number of statements that slowed along with others.
        along: usize,
        /// Number of errors, by statement and code, that are new or more frequent.
        errors: usize,
        /// Whether all statements together got slower.
        overall: bool,
    },
    /// No deterioration could be shown.
    NoRegression {
        /// Number of statements that got faster independently.
        faster: usize,
    },
    /// The data suffices for no conclusion.
    Inconclusive {
        /// The reason.
        reason: InconclusiveReason,
        /// Number of statements that look slower, which is not proven.
        suspects: usize,
        /// Number of statements that slowed along with others.
        along: usize,
    },
}

/// Reason why a comparison is inconclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InconclusiveReason {
    /// All statements took longer for the same work, and one run a side cannot tell the server from the machine.
    RunAsAWhole,
    /// All statements took longer for the same work, and others used more of the machine meanwhile.
    MachineBusier,
    /// Errors show that the targets hold rows or sequence values of different moments.
    RowsOfAnotherMoment,
    /// Statements look slower, which is not proven.
    Suspects,
    /// There are too few executions.
    TooLittleData,
}

impl Verdict {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Regression { .. } => "regression",
            Verdict::NoRegression { .. } => "no_regression",
            Verdict::Inconclusive { .. } => "inconclusive",
        }
    }
}

/// Times of one kind on both sides, over statements that succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TimesComparison {
    /// Times before; `None` if nothing succeeded.
    pub before: Option<LatencySummary>,
    /// Times after; `None` if nothing succeeded.
    pub after: Option<LatencySummary>,
    /// Ratio of the medians.
    pub median_ratio: Option<Ratio>,
    /// Ratio of the means, which is that of the totals at equal numbers of calls.
    pub mean_ratio: Option<Ratio>,
    /// Ratio of the 99th percentiles; without an interval if there are too few calls.
    pub p99_ratio: Option<Ratio>,
    /// Time that the change adds: the difference of the means times the calls of a run before, in
    /// nanoseconds.
    pub added_ns: Option<f64>,
    /// Smallest p-value of the three measures, multiplied by their number; `None` if no interval
    /// was clear of the margin.
    pub p_value: Option<f64>,
    /// Judgement of the difference.
    #[serde(flatten)]
    pub finding: Finding,
}

/// Comparison of one statement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StatementComparison {
    /// Fingerprint of the statement.
    pub fingerprint: Fingerprint,
    /// Normalised SQL, if the runs have it.
    pub sql: Option<String>,
    /// Statement class, if the runs have it.
    pub class: Option<StatementClass>,
    /// Service time (sent → done) of the executions that succeeded.
    pub service: TimesComparison,
    /// Response time (due → done) of the executions that succeeded before.
    pub response_before: Option<LatencySummary>,
    /// Response time of the executions that succeeded after.
    pub response_after: Option<LatencySummary>,
    /// Session lag (waiting for the session's previous statement) before.
    pub session_lag_before: Option<LatencySummary>,
    /// Session lag after.
    pub session_lag_after: Option<LatencySummary>,
    /// Anomalies in the times.
    pub anomalies: Vec<Anomaly>,
    /// Details for the statements with the most time, at most [`crate::DETAILED_MAX`].
    pub details: Option<Details>,
    /// Number of executions sent before.
    pub calls_before: u64,
    /// Number of executions sent after.
    pub calls_after: u64,
    /// Number of failures before.
    pub errors_before: u64,
    /// Number of failures after.
    pub errors_after: u64,
    /// Number of failures in the capture.
    pub errors_captured: u64,
    /// Number of executions not sent before.
    pub skipped_before: u64,
    /// Number of executions not sent after.
    pub skipped_after: u64,
    /// Captured durations: from another machine and another day, server time only.
    pub captured: Option<LatencySummary>,
    /// Work of an execution, as the servers counted it; `null` unless both sides have it.
    pub work: Option<WorkComparison>,
    /// Its origin. Only the application's statements are judged.
    pub role: StatementRole,
    /// Its change, by cause.
    pub change: StatementChange,
    /// Margins of its median, mean and 99th percentile.
    #[serde(skip)]
    pub(crate) margins: [f64; MEASURES],
    /// Plans; `null` if no run requested them. The caller adds them.
    pub plans: Option<StatementPlans>,
}

/// Comparison of the values of one key.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ContextsComparison {
    /// The key.
    pub key: ContextKey,
    /// Values by the time that the change adds, in descending order; those of only one side come last.
    pub values: Vec<ContextComparison>,
}

/// Comparison of the executions with one value.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ContextComparison {
    /// The value, such as `/polls/<int>`.
    pub value: String,
    /// Service time (sent → done) of the executions that succeeded.
    pub service: TimesComparison,
    /// Its change, by cause: that of the statement that changes its time most, if that changed in the same direction.
    pub change: StatementChange,
    /// Number of executions sent before.
    pub calls_before: u64,
    /// Number of executions sent after.
    pub calls_after: u64,
    /// Number of failures before.
    pub errors_before: u64,
    /// Number of failures after.
    pub errors_after: u64,
    /// Slowest executions before, in descending order.
    pub slowest_before: Vec<SlowExecution>,
    /// Slowest executions after, in descending order.
    pub slowest_after: Vec<SlowExecution>,
    /// Statements that add most time, or save most if the value got faster; at most three.
    pub statements: Vec<ContextStatement>,
}

/// Statement of a context.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ContextStatement {
    /// Fingerprint of the statement.
    pub fingerprint: Fingerprint,
    /// Normalised SQL, if the runs have it.
    pub sql: Option<String>,
    /// Service time of a run after minus that of a run before, in nanoseconds.
    pub added_ns: f64,
    /// Its change, by cause, in all contexts.
    pub change: StatementChange,
}

impl TimesComparison {
    /// Returns the measure that the finding rests on; the median if there is none.
    pub fn measure(&self) -> Measure {
        self.finding.measure().unwrap_or(Measure::Median)
    }

    /// Returns the ratio of a measure.
    pub fn ratio(&self, measure: Measure) -> Option<Ratio> {
        match measure {
            Measure::Median => self.median_ratio,
            Measure::Mean => self.mean_ratio,
            Measure::P99 => self.p99_ratio,
        }
    }
}

impl Comparison {
    /// Whether something got worse.
    pub fn has_regression(&self) -> bool {
        matches!(self.verdict, Verdict::Regression { .. })
    }

    /// Counts the statements that look slower, which is not proven. They do not affect the exit code.
    pub fn suspected(&self) -> usize {
        let suspected = self
            .statements
            .iter()
            .filter(|one| one.change.is_suspected());
        suspected.count()
    }

    /// Returns the statements that changed independently in a direction.
    pub fn causes(&self, direction: Direction) -> impl Iterator<Item = &StatementComparison> {
        let statements = self.statements.iter();
        statements.filter(move |one| one.change.is_cause(direction))
    }

    /// Returns the statements that moved along with others in a direction.
    pub fn along(&self, direction: Direction) -> impl Iterator<Item = &StatementComparison> {
        let statements = self.statements.iter();
        statements.filter(move |one| one.change.is_along(direction))
    }

    /// Adds the plans of statements, and judges with them.
    pub fn set_plans(
        &mut self,
        mut plans: impl FnMut(&StatementComparison) -> Option<StatementPlans>,
    ) {
        for statement in &mut self.statements {
            statement.plans = plans(statement);
        }
        self.judge();
    }

    /// Adds the comparison of the targets, and the warnings that it gives, before all others.
    pub fn set_targets(&mut self, targets: TargetsComparison) {
        self.warnings.splice(0..0, target_warnings(&targets));
        self.targets = Some(targets);
    }

    /// Finds known reasons for rows that differ. `facts` are those of the targets before and after, if known.
    pub fn explain_rows(&mut self, facts: Option<[&Facts; 2]>) {
        let statements = self.statements.iter();
        let written = statements
            .filter_map(|one| one.sql.as_deref())
            .flat_map(written_tables)
            .collect();
        let has_repeats = self.before.runs.len().max(self.after.runs.len()) > 1;
        for change in &mut self.rows.changes {
            let Some(sql) = &change.sql else {
                continue;
            };
            let inputs = ReasonInputs {
                facts,
                targets: self.targets.as_ref(),
                written: &written,
                is_steady: has_repeats && !change.unsteady,
            };
            change.reasons = rows_reasons(sql, &inputs);
        }
    }

    /// Counts the statements that returned other rows than before, and did not do so between runs
    /// of one side. They do not affect the verdict.
    pub fn other_rows(&self) -> usize {
        let changes = self.rows.changes.iter();
        changes.filter(|change| !change.unsteady).count()
    }

    /// Whether the noise between runs of the same server is known, from several runs of a side or
    /// from runs given for it. Otherwise the share of chance findings has no guarantee.
    pub fn is_noise_known(&self) -> bool {
        let given = |noise: &Noise| noise.source == NoiseSource::Given;
        self.before.runs.len().max(self.after.runs.len()) > 1
            || self.noise.as_ref().is_some_and(given)
    }
}

/// Differences between runs of the same server, as shares: 0.05 is 5 %.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Noise {
    /// Origin of the noise estimate.
    pub source: NoiseSource,
    /// Names of the runs given for it.
    pub runs: Vec<String>,
    /// Difference of medians.
    pub median: f64,
    /// Difference of means.
    pub mean: f64,
    /// Difference of 99th percentiles, if there are enough calls.
    pub p99: Option<f64>,
}

/// Runs from which noise was estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoiseSource {
    /// Runs given for it: 95 % of their statements certainly differ by no more. It raises the
    /// margin.
    Given,
    /// Repeated runs of a side: the standard deviation of the shift that all statements of a run
    /// share. It is included in the intervals.
    Repeats,
}
