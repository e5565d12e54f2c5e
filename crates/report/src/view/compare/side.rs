//! One side of a comparison: its runs, and the reasons to read it with care.

use analyse::{Caution, RunFacts, SideFacts, WhichRun};
use schemars::JsonSchema;
use serde::Serialize;

use crate::view::latency::LatencyView;
use crate::view::run_summary::status_name;

/// All runs of one side. Counts are sums over them.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct SideView {
    /// Each run by itself.
    pub runs: Vec<RunSideView>,
    /// Statements that the server did.
    pub done: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Statements that were never sent.
    pub skipped: u64,
    /// Statements answered per second of replay.
    pub throughput_per_s: Option<f64>,
    /// Due → done, of what was done.
    pub response: Option<LatencyView>,
    /// The tool's own delay.
    pub tool_lag: Option<LatencyView>,
    /// Waiting for the session's previous statement.
    pub session_lag: Option<LatencyView>,
}

/// One run, in all.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
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
    /// When the replay began, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
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

/// A reason to read the comparison with care.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
#[serde(tag = "caution", rename_all = "snake_case")]
#[allow(missing_docs)] // the names say it; the units are in them
pub enum CautionView {
    DifferentWorkloads {
        before: String,
        after: String,
    },
    Partial {
        /// `before`, or `before 2` where there are several.
        run: String,
        status: &'static str,
    },
    SpeedsDiffer {
        before: String,
        after: String,
    },
    ToolLagHigh {
        run: String,
        p99_us: f64,
    },
    FellBehind {
        run: String,
        by_us: f64,
    },
    SkippedDiffer {
        before: u64,
        after: u64,
    },
    NoConnection {
        run: String,
        statements: u64,
    },
    NotInTurns {
        /// The side whose runs came first: `before` or `after`.
        first: &'static str,
    },
    FewStatements {
        statements: u64,
    },
}

impl SideView {
    pub(super) fn new(names: &[String], facts: &SideFacts) -> Self {
        let name = |at: usize| names.get(at).map_or("", String::as_str);
        let runs = facts.runs.iter().enumerate();
        Self {
            runs: runs.map(|(at, facts)| run(name(at), facts)).collect(),
            done: facts.done,
            failed: facts.failed,
            skipped: facts.skipped,
            throughput_per_s: facts.throughput_per_s,
            response: facts.response.map(LatencyView::from),
            tool_lag: facts.tool_lag.map(LatencyView::from),
            session_lag: facts.session_lag.map(LatencyView::from),
        }
    }
}

impl From<&Caution> for CautionView {
    fn from(caution: &Caution) -> Self {
        match caution.clone() {
            Caution::DifferentWorkloads { before, after } => {
                CautionView::DifferentWorkloads { before, after }
            }
            Caution::Partial { run, status } => CautionView::Partial {
                run: run_name(run),
                status: status_name(status),
            },
            Caution::SpeedsDiffer { before, after } => CautionView::SpeedsDiffer { before, after },
            Caution::ToolLagHigh { run, p99_ns } => CautionView::ToolLagHigh {
                run: run_name(run),
                p99_us: p99_ns as f64 / 1e3,
            },
            Caution::FellBehind { run, by_ns } => CautionView::FellBehind {
                run: run_name(run),
                by_us: by_ns as f64 / 1e3,
            },
            Caution::SkippedDiffer { before, after } => {
                CautionView::SkippedDiffer { before, after }
            }
            Caution::NoConnection { run, statements } => CautionView::NoConnection {
                run: run_name(run),
                statements,
            },
            Caution::NotInTurns { first } => CautionView::NotInTurns {
                first: first.name(),
            },
            Caution::FewStatements { statements } => CautionView::FewStatements { statements },
        }
    }
}

fn run_name(run: WhichRun) -> String {
    match run.number {
        Some(number) => format!("{} {number}", run.side.name()),
        None => run.side.name().to_owned(),
    }
}

fn run(name: &str, facts: &RunFacts) -> RunSideView {
    RunSideView {
        run: name.to_owned(),
        workload: facts.workload.clone(),
        status: status_name(facts.status),
        target: facts.target.clone(),
        server_version: facts.server_version.clone(),
        speed: facts.speed.clone(),
        started_wall_us: facts.started_wall_us,
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
