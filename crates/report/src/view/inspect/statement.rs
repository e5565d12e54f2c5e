//! One statement of a workload, as it is shown.

use analyse::{CallExample, STATEMENT_STRETCHES, StatementStats};
use schemars::JsonSchema;
use serde::Serialize;

use crate::view::latency::LatencyView;

/// In which order statements are shown: the most first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StatementOrder {
    /// By their time in all.
    #[default]
    Total,
    /// By how often they were sent.
    Calls,
    /// By their arithmetic mean.
    Mean,
    /// By their slowest call.
    Max,
}

impl StatementOrder {
    /// All of them.
    pub const ALL: [StatementOrder; 4] = [
        StatementOrder::Total,
        StatementOrder::Calls,
        StatementOrder::Mean,
        StatementOrder::Max,
    ];

    /// Its name, as options and JSON have it.
    pub fn name(self) -> &'static str {
        match self {
            StatementOrder::Total => "total",
            StatementOrder::Calls => "calls",
            StatementOrder::Mean => "mean",
            StatementOrder::Max => "max",
        }
    }

    /// Puts statements in this order; ties stay as they are.
    pub(crate) fn sort(self, statements: &mut [&InspectStatementView]) {
        let key = |one: &InspectStatementView| match (self, one.captured) {
            (StatementOrder::Calls, _) => one.calls as f64,
            (_, None) => -1.0,
            (StatementOrder::Total, Some(captured)) => captured.total_us,
            (StatementOrder::Mean, Some(captured)) => captured.mean_us,
            (StatementOrder::Max, Some(captured)) => captured.max_us,
        };
        statements.sort_by(|a, b| key(b).total_cmp(&key(a)));
    }
}

/// One statement of a workload.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct InspectStatementView {
    /// 16 hexadecimal digits.
    pub fingerprint: String,
    /// Normalised SQL; empty where unknown.
    pub sql: String,
    /// Its class; empty where unknown.
    pub class: &'static str,
    /// How often it was sent; 0 where only the server's own lines name it.
    pub calls: u64,
    /// How often it failed.
    pub errors: u64,
    /// With which codes, the most frequent first.
    pub error_codes: Vec<CodeCountView>,
    /// Rows returned or affected, where the source says.
    pub rows: Option<u64>,
    /// Its part of the time of all statements, from 0 to 1; null where no duration is known.
    pub share: Option<f64>,
    /// The captured server's own time.
    pub captured: Option<LatencyView>,
    /// The slowest call; where no duration is known, the first.
    pub example: Option<CallExampleView>,
    /// When it was called, in 48 equal stretches of the workload: `[stretch, calls, total_us]` for
    /// each in which it was.
    pub over_time: Vec<(u8, u64, u64)>,
    /// Temporary files that it wrote.
    pub temporary_files: u64,
    /// Their bytes.
    pub temporary_bytes: u64,
    /// Its waits for locks longer than `deadlock_timeout`.
    pub lock_waits: u64,
    /// The time of those that ended.
    pub lock_waited_us: u64,
}

/// An error code and how often it was met.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct CodeCountView {
    /// The SQLSTATE; `?????` where the source did not show it.
    pub sqlstate: String,
    /// How often.
    pub count: u64,
}

/// One call of a statement.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct CallExampleView {
    /// The server's own time, where known.
    pub duration_us: Option<u64>,
    /// Its session.
    pub session: u64,
    /// When it was sent, from the workload's start.
    pub at_us: i64,
    /// The file that it was read from.
    pub source: String,
    /// The line in it.
    pub line: u64,
    /// As it was sent, with its values; null unless literals were asked for.
    pub literal: Option<LiteralView>,
}

/// A statement as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct LiteralView {
    /// The text.
    pub sql: String,
    /// The parameters.
    pub parameters: Vec<Option<String>>,
    /// It was too long, and is cut.
    pub cut: bool,
}

/// Into how many stretches [`InspectStatementView::over_time`] is cut.
pub const STRETCHES: usize = STATEMENT_STRETCHES;

impl InspectStatementView {
    pub(super) fn new(stats: &StatementStats, all_ns: f64, sources: &[String]) -> Self {
        let share = |total_ns: f64| if all_ns > 0.0 { total_ns / all_ns } else { 0.0 };
        Self {
            fingerprint: stats.fingerprint.to_string(),
            sql: stats.sql.clone().unwrap_or_default(),
            class: stats.class.map_or("", |class| class.name()),
            calls: stats.calls,
            errors: stats.errors,
            error_codes: stats
                .error_codes
                .iter()
                .map(|(code, count)| CodeCountView {
                    sqlstate: code.to_string(),
                    count: *count,
                })
                .collect(),
            rows: stats.rows,
            share: stats.captured.map(|captured| share(captured.total_ns)),
            captured: stats.captured.map(LatencyView::from),
            example: stats.example.as_ref().map(|one| example(one, sources)),
            over_time: stats
                .over_time
                .iter()
                .map(|one| (one.place, one.calls, one.time_us))
                .collect(),
            temporary_files: stats.temporary_files,
            temporary_bytes: stats.temporary_bytes,
            lock_waits: stats.lock_waits,
            lock_waited_us: stats.lock_waited_us,
        }
    }

    /// What to call it: its SQL, or its fingerprint where that is unknown.
    pub(crate) fn name(&self) -> &str {
        match self.sql.as_str() {
            "" => &self.fingerprint,
            sql => sql,
        }
    }
}

fn example(example: &CallExample, sources: &[String]) -> CallExampleView {
    CallExampleView {
        duration_us: example.duration_us,
        session: example.session,
        at_us: example.due_us,
        source: source(sources, example.source),
        line: example.line,
        literal: example.literal.as_ref().map(|literal| LiteralView {
            sql: literal.sql.clone(),
            parameters: literal.parameters.clone(),
            cut: literal.cut,
        }),
    }
}

pub(super) fn source(sources: &[String], index: u32) -> String {
    sources.get(index as usize).cloned().unwrap_or_default()
}
