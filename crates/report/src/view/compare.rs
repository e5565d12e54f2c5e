//! Two runs side by side.

use analyse::{
    Caution, Comparison, ErrorChange, Finding, Ratio, RowsChange, RunFacts, StatementComparison,
    TimesComparison, Verdict,
};
use serde::Serialize;

use crate::view::latency::LatencyView;
use crate::view::message::{Literals, shown};
use crate::view::run_summary::status_name;

/// Two runs side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompareView {
    /// `rehearse/compare/1`.
    pub schema: &'static str,
    /// In a word, with what it rests on.
    pub verdict: VerdictView,
    /// Reasons to read this with care.
    pub cautions: Vec<CautionView>,
    /// Differences up to this share count as none: 0.1 is from 1/1.1 to 1.1.
    pub margin: f64,
    /// How sure the intervals are, in percent.
    pub interval_level_percent: u32,
    /// The same stretches of the workload were set against each other.
    pub paired: bool,
    /// The run before.
    pub before: RunSideView,
    /// The run after.
    pub after: RunSideView,
    /// Service time of all statements.
    pub all: TimesView,
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
}

/// A statement with other numbers of rows in one run than in the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
}

/// The comparison in a word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VerdictView {
    /// `regression`, `no_regression` or `not_enough_data`.
    pub word: &'static str,
    /// Statements that got slower, noticeably.
    pub slower: usize,
    /// Errors, by statement and code, that are new or more.
    pub errors: usize,
    /// All statements together got slower.
    pub overall: bool,
    /// Statements that got faster.
    pub faster: usize,
}

/// A reason to read the comparison with care.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "caution", rename_all = "snake_case")]
#[allow(missing_docs)] // the names say it; the units are in them
pub enum CautionView {
    DifferentWorkloads {
        before: String,
        after: String,
    },
    Partial {
        run: &'static str,
        status: &'static str,
    },
    SpeedsDiffer {
        before: String,
        after: String,
    },
    ToolLagHigh {
        run: &'static str,
        p99_us: f64,
    },
    FellBehind {
        run: &'static str,
        by_us: f64,
    },
    SkippedDiffer {
        before: u64,
        after: u64,
    },
    NoConnection {
        run: &'static str,
        statements: u64,
    },
    FewStatements {
        statements: u64,
    },
}

/// One run, in all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSideView {
    /// The run's name, as the user gave it.
    pub run: String,
    /// The workload's name.
    pub workload: String,
    /// `complete`, `stopped` or `recovered`.
    pub status: &'static str,
    /// The server's address.
    pub target: String,
    /// The server's version; empty if unknown.
    pub server_version: String,
    /// The replay's speed.
    pub speed: String,
    /// When the last event was done, in microseconds from the start.
    pub elapsed_us: f64,
    /// Statements that the server did.
    pub done: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Statements that were never sent.
    pub skipped: u64,
    /// Connections opened.
    pub connects: u64,
    /// Connections that could not be opened.
    pub connects_failed: u64,
    /// Due → done, of what was done.
    pub response: Option<LatencyView>,
    /// The tool's own delay.
    pub tool_lag: Option<LatencyView>,
    /// Waiting for the session's previous statement.
    pub session_lag: Option<LatencyView>,
}

/// Service time (sent → done), of what was done, in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimesView {
    /// Service time before.
    pub before: Option<LatencyView>,
    /// Service time after.
    pub after: Option<LatencyView>,
    /// After / before, of the medians.
    pub median_ratio: Option<RatioView>,
    /// After / before, of the means: of the totals at equal calls.
    pub mean_ratio: Option<RatioView>,
    /// After / before, of the 99th percentiles.
    pub p99_ratio: Option<RatioView>,
    /// The difference of the means times the calls before, in microseconds.
    pub added_us: Option<f64>,
    /// `slower`, `faster`, `same` or `not enough data`.
    pub finding: &'static str,
    /// What a difference rests on: `median`, `mean` or `p99`.
    pub measure: Option<&'static str>,
    /// Why there is not enough: `one_sided`, `few_calls`, `few_stretches` or `unclear`.
    pub lack: Option<&'static str>,
}

/// After divided by before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RatioView {
    /// The ratio of what was measured.
    pub ratio: f64,
    /// The interval's lower end.
    pub low: Option<f64>,
    /// The interval's upper end.
    pub high: Option<f64>,
}

/// One statement in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatementCompareView {
    /// 16 hexadecimal digits.
    pub fingerprint: String,
    /// Normalised SQL; empty where unknown.
    pub sql: String,
    /// Its class; empty where unknown.
    pub class: &'static str,
    /// It is slower, and noticeably so.
    pub regression: bool,
    /// Service time.
    pub service: TimesView,
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
}

/// An error whose count changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ErrorChangeView {
    /// 16 hexadecimal digits; `null` for connecting.
    pub fingerprint: Option<String>,
    /// Normalised SQL; empty for connecting and where unknown.
    pub sql: String,
    /// The error.
    pub sqlstate: String,
    /// `new`, `more`, `fewer` or `gone`.
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
    /// The view of a comparison. `before` and `after` are the names of the runs to show.
    pub fn new(before: &str, after: &str, comparison: &Comparison, literals: Literals) -> Self {
        Self {
            schema: "rehearse/compare/1",
            verdict: verdict(comparison.verdict),
            cautions: comparison.cautions.iter().map(caution).collect(),
            margin: comparison.margin,
            interval_level_percent: analyse::INTERVAL_LEVEL_PERCENT,
            paired: comparison.paired,
            before: side(before, &comparison.before),
            after: side(after, &comparison.after),
            all: times(&comparison.all),
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
        }
    }
}

fn verdict(verdict: Verdict) -> VerdictView {
    let (word, slower, errors, overall, faster) = match verdict {
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
    }
}

fn caution(caution: &Caution) -> CautionView {
    match caution.clone() {
        Caution::DifferentWorkloads { before, after } => {
            CautionView::DifferentWorkloads { before, after }
        }
        Caution::Partial { side, status } => CautionView::Partial {
            run: side.name(),
            status: status_name(status),
        },
        Caution::SpeedsDiffer { before, after } => CautionView::SpeedsDiffer { before, after },
        Caution::ToolLagHigh { side, p99_ns } => CautionView::ToolLagHigh {
            run: side.name(),
            p99_us: p99_ns as f64 / 1e3,
        },
        Caution::FellBehind { side, by_ns } => CautionView::FellBehind {
            run: side.name(),
            by_us: by_ns as f64 / 1e3,
        },
        Caution::SkippedDiffer { before, after } => CautionView::SkippedDiffer { before, after },
        Caution::NoConnection { side, statements } => CautionView::NoConnection {
            run: side.name(),
            statements,
        },
        Caution::FewStatements { statements } => CautionView::FewStatements { statements },
    }
}

fn side(name: &str, facts: &RunFacts) -> RunSideView {
    RunSideView {
        run: name.to_owned(),
        workload: facts.workload.clone(),
        status: status_name(facts.status),
        target: facts.target.clone(),
        server_version: facts.server_version.clone(),
        speed: facts.speed.clone(),
        elapsed_us: facts.elapsed_ns as f64 / 1e3,
        done: facts.done,
        failed: facts.failed,
        skipped: facts.skipped,
        connects: facts.connects,
        connects_failed: facts.connects_failed,
        response: facts.response.map(LatencyView::from),
        tool_lag: facts.tool_lag.map(LatencyView::from),
        session_lag: facts.session_lag.map(LatencyView::from),
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
        service: times(&statement.times),
        calls_before: statement.calls_before,
        calls_after: statement.calls_after,
        errors_before: statement.errors_before,
        errors_after: statement.errors_after,
        errors_captured: statement.errors_captured,
        skipped_before: statement.skipped_before,
        skipped_after: statement.skipped_after,
        captured: statement.captured.map(LatencyView::from),
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
    }
}

fn error(change: &ErrorChange, literals: Literals) -> ErrorChangeView {
    let sqlstate = change.sqlstate.to_string();
    let message = change.message.as_deref().unwrap_or_default();
    ErrorChangeView {
        fingerprint: change
            .fingerprint
            .map(|fingerprint| fingerprint.to_string()),
        sql: change.sql.clone().unwrap_or_default(),
        message: shown(&sqlstate, message, literals),
        sqlstate,
        direction: change.direction.name(),
        before: change.before,
        after: change.after,
        captured: change.captured,
        regression: change.regression,
    }
}
