//! Runs before and after a change, side by side.

mod details;
mod side;

use analyse::condition::{Condition, ConditionOutcome};
use analyse::{
    Comparison, ErrorChange, Finding, Noise, Ratio, Remark, RowsChange, StatementComparison,
    TimesComparison, Verdict,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::view::latency::LatencyView;
use crate::view::observed_change::ObservedChangeView;
use crate::view::plan::PlanChangeView;
use crate::view::targets::TargetsView;
use crate::view::time_change::TimeChangeView;
use analyse::{Literals, redact_message};
pub use details::{
    CompareOverTimeView, DetailsView, SlowExecutionView, StretchTimesView, StretchView,
};
pub use side::{CautionView, RunSideView, SideView};

/// The names of the runs, as the user gave them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunNames {
    /// Before the change.
    pub before: Vec<String>,
    /// After the change.
    pub after: Vec<String>,
    /// Of one unchanged server.
    pub noise: Vec<String>,
}

/// Runs before and after a change, side by side.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct CompareView {
    /// `rehearse/compare/2`.
    #[schemars(extend("const" = "rehearse/compare/2"))]
    pub schema: &'static str,
    /// In a word, with what it rests on.
    pub verdict: VerdictView,
    /// Values of the user's data may be in messages: they were asked for.
    pub literals_shown: bool,
    /// Reasons to read this with care.
    pub cautions: Vec<CautionView>,
    /// Differences of medians up to this share count as none: 0.1 is from 1/1.1 to 1.1. What was asked
    /// for, or the noise that was given where that is more.
    pub margin: f64,
    /// How sure the intervals are, in percent.
    pub interval_level_percent: u32,
    /// Of statements called slower or faster, at most this share is expected to be neither.
    pub false_discovery_rate: f64,
    /// The same stretches of the workload were set against each other.
    pub paired: bool,
    /// What runs of the same server were seen to differ by; `null` where each side has one run and
    /// none were given for it.
    pub noise: Option<NoiseView>,
    /// The runs before.
    pub before: SideView,
    /// The runs after.
    pub after: SideView,
    /// Service time (sent → done) of all statements.
    pub all: TimesView,
    /// Response time (due → done) of all statements: what a stall adds to those who wait in it.
    pub response: TimesView,
    /// Both sides from stretch to stretch.
    pub over_time: CompareOverTimeView,
    /// Captured durations of all statements (another machine, another day; server time only).
    pub captured: Option<LatencyView>,
    /// Time to open connections.
    pub connects: TimesView,
    /// Each statement, by the time that it adds, the most first; those in one run only last.
    pub statements: Vec<StatementCompareView>,
    /// Errors that changed; regressions first.
    pub errors: Vec<ErrorChangeView>,
    /// Executions, done in both runs, whose numbers of rows were compared; 0 for different workloads.
    pub rows_compared: u64,
    /// Those of them of which both runs have a checksum of the rows (`--digest rows`).
    pub digests_compared: u64,
    /// Statements whose rows differ, the greatest difference of their numbers first.
    pub rows: Vec<RowsChangeView>,
    /// What came of the conditions of `--fail-on`, in their order.
    pub conditions: Vec<ConditionOutcome>,
    /// The targets side by side; `null` where a run does not know its own.
    pub targets: Option<TargetsView>,
    /// What response times were made of; `null` where not all runs were watched.
    pub time: Option<TimeChangeView>,
    /// What was observed of the targets; `null` where not all runs were watched.
    pub observed: Option<ObservedChangeView>,
}

/// A statement with other numbers of rows in one run than in the other.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RowsChangeView {
    /// 16 hexadecimal digits.
    pub fingerprint: String,
    /// Normalised SQL; empty where unknown.
    pub sql: String,
    /// Its executions that were compared.
    pub compared: u64,
    /// Their rows before.
    pub before: u64,
    /// Their rows after.
    pub after: u64,
    /// All had as many rows as before, and some had other values.
    pub only_values: bool,
    /// They differ between runs of one side as well: the change may have no part in it.
    pub unsteady: bool,
}

/// The comparison in a word.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct VerdictView {
    /// `regression`, `no_regression` or `not_enough_data`.
    #[schemars(extend("enum" = ["regression", "no_regression", "not_enough_data"]))]
    pub word: &'static str,
    /// Statements that got slower, noticeably.
    pub slower: usize,
    /// Errors, by statement and code, that are new or more.
    pub errors: usize,
    /// All statements together got slower.
    pub overall: bool,
    /// Statements that got faster.
    pub faster: usize,
    /// Statements that look noticeably slower, where chance could not be ruled out. No part of the
    /// verdict.
    pub suspected: usize,
    /// Statements that returned other rows, or other values, than before, and do not so by themselves.
    /// No part of the verdict.
    pub other_rows: usize,
}

/// What runs of the same server were seen to differ by, as shares: 0.05 is 5 %.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct NoiseView {
    /// `given`: in runs that were given for it, of which 95 % of the statements surely differ by no
    /// more; it raises the margin. `repeats`: between the runs of a side, as one standard deviation;
    /// it is in the intervals.
    pub source: &'static str,
    /// The runs that were given for it.
    pub runs: Vec<String>,
    /// In medians.
    pub median: f64,
    /// In means.
    pub mean: f64,
    /// In 99th percentiles.
    pub p99: Option<f64>,
}

/// One kind of time, of what was done, on both sides.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct TimesView {
    /// Before.
    pub before: Option<LatencyView>,
    /// After.
    pub after: Option<LatencyView>,
    /// After / before, of the medians.
    pub median_ratio: Option<RatioView>,
    /// After / before, of the means: of the totals at equal calls.
    pub mean_ratio: Option<RatioView>,
    /// After / before, of the 99th percentiles.
    pub p99_ratio: Option<RatioView>,
    /// The difference of the means times the calls of a run before, in microseconds.
    pub added_us: Option<f64>,
    /// The chance of such a difference without a cause, as it counts for the false discovery rate;
    /// `null` where no interval was clear of the margin.
    pub p_value: Option<f64>,
    /// `slower`, `faster`, `same` or `not enough data`.
    #[schemars(extend("enum" = ["slower", "faster", "same", "not enough data"]))]
    pub finding: &'static str,
    /// What a difference rests on: `median`, `mean` or `p99`.
    pub measure: Option<&'static str>,
    /// Why there is not enough: `one_sided`, `few_calls`, `few_stretches`, `unclear` or
    /// `may_be_chance`.
    pub lack: Option<&'static str>,
}

/// After divided by before.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct RatioView {
    /// The ratio of what was measured.
    pub ratio: f64,
    /// The interval's lower end.
    pub low: Option<f64>,
    /// The interval's upper end.
    pub high: Option<f64>,
}

/// One statement in both runs.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct StatementCompareView {
    /// 16 hexadecimal digits.
    pub fingerprint: String,
    /// Normalised SQL; empty where unknown.
    pub sql: String,
    /// Its class; empty where unknown.
    pub class: &'static str,
    /// It is slower, and noticeably so.
    pub regression: bool,
    /// It looks slower, and noticeably so; but chance could not be ruled out.
    pub suspected: bool,
    /// Service time (sent → done).
    pub service: TimesView,
    /// Response time (due → done) before.
    pub response_before: Option<LatencyView>,
    /// Response time after.
    pub response_after: Option<LatencyView>,
    /// Waiting for the session's previous statement, before.
    pub session_lag_before: Option<LatencyView>,
    /// Waiting for the session's previous statement, after.
    pub session_lag_after: Option<LatencyView>,
    /// What is odd about how its times came.
    pub remarks: Vec<RemarkView>,
    /// How often it was sent before.
    pub calls_before: u64,
    /// How often it was sent after.
    pub calls_after: u64,
    /// How often it failed before.
    pub errors_before: u64,
    /// How often it failed after.
    pub errors_after: u64,
    /// How often it failed where it was captured.
    pub errors_captured: u64,
    /// How often it was not sent before.
    pub skipped_before: u64,
    /// How often it was not sent after.
    pub skipped_after: u64,
    /// Captured durations (another machine, another day; server time only).
    pub captured: Option<LatencyView>,
    /// For a reader who opens it; of the 5,000 statements with the most time.
    pub details: Option<DetailsView>,
    /// Its plans; `null` where no run asked for them.
    pub plan: Option<PlanChangeView>,
}

/// What is odd about how a statement's times came.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
#[serde(tag = "remark", rename_all = "snake_case")]
#[allow(missing_docs)] // as in `analyse::Remark`
pub enum RemarkView {
    /// The slowest hundredth of calls takes this share of the time.
    HeavyTail { side: &'static str, share: f64 },
    /// Half of the calls lie in this share of the run.
    Burst { side: &'static str, share: f64 },
    /// The median in the first eighth of the run is this many times that of the rest.
    WarmUp { side: &'static str, factor: f64 },
    /// The median at the end is this many times that at the start.
    Drift { side: &'static str, factor: f64 },
    /// The ratio itself changes in the course of the runs.
    DifferenceDrifts { from: f64, to: f64 },
}

/// An error whose count changed.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ErrorChangeView {
    /// 16 hexadecimal digits; `null` for connecting.
    pub fingerprint: Option<String>,
    /// Normalised SQL; empty for connecting and where unknown.
    pub sql: String,
    /// The error.
    pub sqlstate: String,
    /// `new`, `more`, `fewer` or `gone`.
    #[schemars(extend("enum" = ["new", "more", "fewer", "gone"]))]
    pub direction: &'static str,
    /// How often before.
    pub before: u64,
    /// How often after.
    pub after: u64,
    /// How often where it was captured.
    pub captured: u64,
    /// The server's first message; empty where there is none.
    pub message: String,
    /// It counts as a regression.
    pub regression: bool,
}

impl CompareView {
    /// The view of a comparison of the runs with these names.
    pub fn new(names: &RunNames, comparison: &Comparison, literals: Literals) -> Self {
        Self {
            schema: "rehearse/compare/2",
            verdict: verdict(comparison),
            literals_shown: literals == Literals::Shown,
            cautions: comparison.cautions.iter().map(CautionView::from).collect(),
            margin: comparison.margin,
            interval_level_percent: analyse::INTERVAL_LEVEL_PERCENT,
            false_discovery_rate: comparison.false_discovery_rate,
            paired: comparison.paired,
            noise: comparison.noise.map(|found| noise(found, &names.noise)),
            before: SideView::new(&names.before, &comparison.before),
            after: SideView::new(&names.after, &comparison.after),
            all: times(&comparison.all),
            response: times(&comparison.response),
            over_time: CompareOverTimeView::from(&comparison.over_time),
            captured: comparison.captured.map(LatencyView::from),
            connects: times(&comparison.connects),
            statements: comparison.statements.iter().map(statement).collect(),
            errors: comparison
                .errors
                .iter()
                .map(|one| error(one, literals))
                .collect(),
            rows_compared: comparison.rows.compared,
            digests_compared: comparison.rows.digests,
            rows: comparison.rows.changes.iter().map(rows).collect(),
            conditions: Vec::new(),
            targets: None,
            time: None,
            observed: None,
        }
    }

    /// How much two runs of the same server differ is known: from several runs of a side, or from
    /// runs that were given for it. Without it, no share of chance findings can be promised.
    pub fn is_noise_known(&self) -> bool {
        let noise = self.noise.as_ref();
        self.before.runs.len().max(self.after.runs.len()) > 1
            || noise.is_some_and(|noise| noise.source == "given")
    }

    /// The conditions that were asked for, with what came of them.
    pub fn ask(&mut self, conditions: &[Condition], comparison: &Comparison) {
        let check = |condition: &Condition| condition.check(comparison);
        self.conditions = conditions.iter().map(check).collect();
    }
}

fn verdict(comparison: &Comparison) -> VerdictView {
    let (word, slower, errors, overall, faster) = match comparison.verdict {
        Verdict::Regression {
            slower,
            errors,
            overall,
        } => ("regression", slower, errors, overall, 0),
        Verdict::NoRegression { faster } => ("no_regression", 0, 0, false, faster),
        Verdict::NotEnoughData => ("not_enough_data", 0, 0, false, 0),
    };
    VerdictView {
        word,
        slower,
        errors,
        overall,
        faster,
        suspected: comparison
            .statements
            .iter()
            .filter(|one| one.suspected)
            .count(),
        other_rows: comparison
            .rows
            .changes
            .iter()
            .filter(|one| !one.unsteady)
            .count(),
    }
}

fn noise(noise: Noise, runs: &[String]) -> NoiseView {
    NoiseView {
        source: noise.source.name(),
        runs: runs.to_vec(),
        median: noise.median,
        mean: noise.mean,
        p99: noise.p99,
    }
}

fn remark(remark: &Remark) -> RemarkView {
    match *remark {
        Remark::HeavyTail { side, share } => RemarkView::HeavyTail {
            side: side.name(),
            share,
        },
        Remark::Burst { side, share } => RemarkView::Burst {
            side: side.name(),
            share,
        },
        Remark::WarmUp { side, factor } => RemarkView::WarmUp {
            side: side.name(),
            factor,
        },
        Remark::Drift { side, factor } => RemarkView::Drift {
            side: side.name(),
            factor,
        },
        Remark::DifferenceDrifts { from, to } => RemarkView::DifferenceDrifts { from, to },
    }
}

fn times(times: &TimesComparison) -> TimesView {
    TimesView {
        before: times.before.map(LatencyView::from),
        after: times.after.map(LatencyView::from),
        median_ratio: times.median.map(ratio),
        mean_ratio: times.mean.map(ratio),
        p99_ratio: times.p99.map(ratio),
        added_us: times.added_ns.map(|added_ns| added_ns / 1e3),
        p_value: times.p_value,
        finding: times.finding.name(),
        measure: times.finding.measure().map(|measure| measure.name()),
        lack: match times.finding {
            Finding::NotEnoughData(lack) => Some(lack.name()),
            _ => None,
        },
    }
}

fn ratio(ratio: Ratio) -> RatioView {
    RatioView {
        ratio: ratio.value,
        low: ratio.interval.map(|interval| interval.low),
        high: ratio.interval.map(|interval| interval.high),
    }
}

fn statement(statement: &StatementComparison) -> StatementCompareView {
    StatementCompareView {
        fingerprint: statement.fingerprint.to_string(),
        sql: statement.sql.clone().unwrap_or_default(),
        class: statement.class.map_or("", |class| class.name()),
        regression: statement.regression,
        suspected: statement.suspected,
        service: times(&statement.times),
        response_before: statement.response_before.map(LatencyView::from),
        response_after: statement.response_after.map(LatencyView::from),
        session_lag_before: statement.session_lag_before.map(LatencyView::from),
        session_lag_after: statement.session_lag_after.map(LatencyView::from),
        remarks: statement.remarks.iter().map(remark).collect(),
        calls_before: statement.calls_before,
        calls_after: statement.calls_after,
        errors_before: statement.errors_before,
        errors_after: statement.errors_after,
        errors_captured: statement.errors_captured,
        skipped_before: statement.skipped_before,
        skipped_after: statement.skipped_after,
        captured: statement.captured.map(LatencyView::from),
        details: statement.details.as_ref().map(DetailsView::from),
        plan: None,
    }
}

fn rows(change: &RowsChange) -> RowsChangeView {
    RowsChangeView {
        fingerprint: change.fingerprint.to_string(),
        sql: change.sql.clone().unwrap_or_default(),
        compared: change.compared,
        before: change.before,
        after: change.after,
        only_values: change.only_values,
        unsteady: change.unsteady,
    }
}

fn error(change: &ErrorChange, literals: Literals) -> ErrorChangeView {
    let message = change.message.as_deref().unwrap_or_default();
    ErrorChangeView {
        fingerprint: change
            .fingerprint
            .map(|fingerprint| fingerprint.to_string()),
        sql: change.sql.clone().unwrap_or_default(),
        message: redact_message(change.sqlstate, message, literals),
        sqlstate: change.sqlstate.to_string(),
        direction: change.direction.name(),
        before: change.before,
        after: change.after,
        captured: change.captured,
        regression: change.regression,
    }
}
