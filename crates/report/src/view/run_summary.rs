//! How one run went.

use std::collections::BTreeMap;

use analyse::observed::Observation;
use analyse::time_model::TimeModel;
use analyse::{Divergence, ErrorExample, LatencySummary, Literals, Summary, redact_message};
use run::{RunInfo, RunStatus, SkipReason};
use schemars::JsonSchema;
use serde::Serialize;
use workload::Sqlstate;

/// How one run went. `done` + those failed + those skipped = `statements`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct RunSummaryView {
    /// `rehearse/run/1`.
    pub schema: &'static str,
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
    /// Everything that was asked for, by option.
    pub options: BTreeMap<String, String>,
    /// From the replay's start to the last event done, in microseconds.
    pub elapsed_us: f64,
    /// From the replay's start to the last event due, in microseconds.
    pub span_due_us: f64,
    /// Statements.
    pub statements: u64,
    /// Statements that the server did.
    pub done: u64,
    /// Statements that failed, by SQLSTATE.
    pub failed: BTreeMap<String, u64>,
    /// Statements that were never sent, by reason.
    pub skipped: Vec<ReasonCountView>,
    /// Statements of the workload that the run does not speak of: it was killed, and they are lost.
    pub missing: u64,
    /// Connections opened.
    pub connects: u64,
    /// Connections that could not be opened, by SQLSTATE.
    pub connects_failed: BTreeMap<String, u64>,
    /// Statements answered a second; `null` of a run without time.
    pub throughput_per_s: Option<f64>,
    /// Rows returned or affected.
    pub rows: u64,
    /// Bytes of the answers.
    pub bytes: u64,
    /// Sent → done, of what was done.
    pub service: Option<LatencySummary>,
    /// Due → done, of what was done.
    pub response: Option<LatencySummary>,
    /// Opening a connection.
    pub connecting: Option<LatencySummary>,
    /// The part of due → sent that is the tool's fault, of what was sent.
    pub tool_lag: Option<LatencySummary>,
    /// The part of due → sent in which the session's previous statement was not done.
    pub session_lag: Option<LatencySummary>,
    /// Sessions that were once later than `session_lag_notable_us` for that reason.
    pub sessions_held_up: u64,
    /// In microseconds.
    pub session_lag_notable_us: f64,
    /// The errors beside the captured ones; `null` where nothing was captured of any.
    pub versus_capture: Option<ErrorsVersusCaptureView>,
    /// Where it did not do what the capture did.
    pub divergence: Divergence,
    /// The first of each error.
    pub examples: Vec<ErrorExampleView>,
    /// What was seen of the server meanwhile; `null` where it was not watched.
    pub observed: Option<Observation>,
    /// Where the time went; `null` where nobody watched the target.
    pub time: Option<TimeModel>,
}

/// A reason and how many statements it holds for.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ReasonCountView {
    /// The reason's name.
    pub reason: &'static str,
    /// The reason in words.
    pub explanation: &'static str,
    /// How many.
    pub count: u64,
}

/// Errors of statements that were sent, beside those captured.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ErrorsVersusCaptureView {
    /// Failed both times with the same error.
    pub same: u64,
    /// Failed both times with different errors: by the one here.
    pub different: BTreeMap<String, u64>,
    /// Failed here only.
    pub new: BTreeMap<String, u64>,
    /// Failed where it was captured only.
    pub gone: BTreeMap<String, u64>,
}

/// The first execution that ended in an error.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ErrorExampleView {
    /// The error.
    pub sqlstate: String,
    /// The session's number in the run: that in the workload, and for a copy its number times
    /// 10¹² more.
    pub session: u64,
    /// The event's sequence in the session, from 0.
    pub sequence: u64,
    /// What was done.
    pub kind: &'static str,
    /// The statement, as 16 hexadecimal digits; `null` for connecting.
    pub fingerprint: Option<String>,
    /// The server's message; empty where there is none.
    pub message: String,
}

impl RunSummaryView {
    /// The view of a run. `run` is the name to show.
    pub fn new(
        run: &str,
        info: &RunInfo,
        summary: &Summary,
        divergence: Divergence,
        literals: Literals,
    ) -> Self {
        let skipped = skipped(info, summary);
        let unreached = info.statements.saturating_sub(summary.statements);
        let statements = match info.status {
            RunStatus::Stopped => summary.statements + unreached,
            RunStatus::Complete | RunStatus::Recovered => summary.statements,
        };
        let missing = match info.status {
            RunStatus::Recovered => info.workload.statements.saturating_sub(statements),
            RunStatus::Complete | RunStatus::Stopped => 0,
        };
        Self {
            schema: "rehearse/run/1",
            run: run.to_owned(),
            workload: info.workload.name.clone(),
            status: status_name(info.status),
            target: info.target.address.clone(),
            server_version: info.target.server_version.clone(),
            speed: info
                .options
                .get("speed")
                .map_or("1", String::as_str)
                .to_owned(),
            options: info.options.clone(),
            elapsed_us: summary.elapsed_ns as f64 / 1e3,
            span_due_us: info.span_due_ns as f64 / 1e3,
            statements,
            done: summary.done,
            failed: by_code(&summary.failed),
            skipped,
            missing,
            connects: summary.connects,
            connects_failed: by_code(&summary.connects_failed),
            throughput_per_s: summary.throughput_per_s(),
            rows: summary.rows,
            bytes: summary.bytes,
            service: summary.service,
            response: summary.response,
            connecting: summary.connecting,
            tool_lag: summary.tool_lag,
            session_lag: summary.session_lag,
            sessions_held_up: summary.sessions_held_up,
            session_lag_notable_us: analyse::SESSION_LAG_NOTABLE_NS as f64 / 1e3,
            versus_capture: summary
                .versus_capture
                .as_ref()
                .map(|versus| ErrorsVersusCaptureView {
                    same: versus.same,
                    different: by_code(&versus.different),
                    new: by_code(&versus.new),
                    gone: by_code(&versus.gone),
                }),
            divergence,
            examples: summary
                .examples
                .iter()
                .map(|one| example(one, literals))
                .collect(),
            observed: None,
            time: None,
        }
    }

    /// With what was seen of the server meanwhile.
    pub fn with_observed(self, observed: Option<Observation>) -> Self {
        Self { observed, ..self }
    }
}

/// What was skipped, with the statements that a stopped replay had not come to: those have no rows
/// in the run, only its count.
fn skipped(info: &RunInfo, summary: &Summary) -> Vec<ReasonCountView> {
    let unreached = match info.status {
        RunStatus::Stopped => info.statements.saturating_sub(summary.statements),
        RunStatus::Complete | RunStatus::Recovered => 0,
    };
    let mut counts: BTreeMap<SkipReason, u64> = summary
        .skipped
        .iter()
        .map(|(reason, count)| (*reason, *count))
        .collect();
    if unreached > 0 {
        *counts.entry(SkipReason::Stopped).or_default() += unreached;
    }
    counts
        .into_iter()
        .map(|(reason, count)| ReasonCountView {
            reason: reason.name(),
            explanation: reason.explanation(),
            count,
        })
        .collect()
}

pub(crate) fn status_name(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Complete => "complete",
        RunStatus::Stopped => "stopped",
        RunStatus::Recovered => "recovered",
    }
}

fn by_code(counts: &BTreeMap<Sqlstate, u64>) -> BTreeMap<String, u64> {
    let named = counts
        .iter()
        .map(|(code, count)| (code.to_string(), *count));
    named.collect()
}

fn example(example: &ErrorExample, literals: Literals) -> ErrorExampleView {
    let message = example.message.as_deref().unwrap_or_default();
    ErrorExampleView {
        message: redact_message(example.sqlstate, message, literals),
        sqlstate: example.sqlstate.to_string(),
        session: example.session,
        sequence: example.sequence,
        kind: example.kind.name(),
        fingerprint: example
            .fingerprint
            .map(|fingerprint| fingerprint.to_string()),
    }
}
