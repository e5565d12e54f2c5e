//! Current state of a running replay, and its history.

use serde::Serialize;

use crate::sqlstate::condition_name;

/// First message to a viewer of a running replay; [`LiveStepView`]s follow. It is only read by the
/// page that this program serves, so it has no published schema.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveView {
    /// `rehearse/live/1`.
    pub schema: &'static str,
    /// Constant facts.
    pub replay: LiveReplayView,
    /// Time that one point covers, in seconds.
    pub step_s: f64,
    /// History in order of time. If it grows long, neighbouring points are merged.
    pub points: Vec<LivePointView>,
    /// Current state.
    pub now: LiveNowView,
}

/// Changes since the previous message.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveStepView {
    /// Index at which the first of these points replaces those of the viewer.
    pub from: usize,
    /// New points.
    pub points: Vec<LivePointView>,
    /// Current state.
    pub now: LiveNowView,
}

/// Constant facts about a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveReplayView {
    /// Name of the workload, as the user gave it.
    pub workload: String,
    /// Name of the run, as the user gave it.
    pub run: String,
    /// Address of the server.
    pub target: String,
    /// Version of the server; empty if unknown.
    pub server_version: String,
    /// All given options.
    pub options: Vec<(String, String)>,
    /// Start of the replay, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
    /// Planned duration in microseconds; `null` if it is unknown in advance.
    pub span_us: Option<f64>,
    /// Whether statements have due times: not at full speed, nor in a closed loop.
    pub is_timed: bool,
    /// Statements, including copies.
    pub statements: u64,
}

/// State of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveState {
    /// Nothing was sent yet.
    #[default]
    Beginning,
    /// Sending and receiving.
    Running,
    /// A request to the target has been unanswered for a while.
    Waiting,
    /// It was asked to stop; statements in flight may end.
    Stopping,
    /// The last statement ended; remaining observations are collected and written.
    Ending,
    /// It reached its end.
    Done,
    /// It was stopped before its end.
    Stopped,
    /// The target was given up, or the run cannot be written.
    Failed,
}

impl LiveState {
    /// Returns the state in words.
    pub fn words(self) -> &'static str {
        match self {
            LiveState::Beginning => "beginning",
            LiveState::Running => "running",
            LiveState::Waiting => "waiting for the target",
            LiveState::Stopping => "stopping in order",
            LiveState::Ending => "ending",
            LiveState::Done => "done",
            LiveState::Stopped => "stopped before its end",
            LiveState::Failed => "could not continue",
        }
    }

    /// Whether the state is final.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Stopped | Self::Failed)
    }
}

/// Progress and state of a replay.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LiveNowView {
    /// State.
    pub state: LiveState,
    /// State in words.
    pub state_words: &'static str,
    /// Explanation in a sentence.
    pub note: Option<String>,
    /// Time since the start, in microseconds.
    pub elapsed_us: f64,
    /// Estimated remaining time in microseconds, from the plan or else from the completed
    /// statements; `null` if unknown.
    pub left_us: Option<f64>,
    /// Time beyond the planned end, in microseconds.
    pub overdue_us: Option<f64>,
    /// Progress from 0 to 1: share of the planned time, or else of the statements.
    pub position: f64,
    /// Statements that are due by now; `null` if there are no due times.
    pub due: Option<u64>,
    /// Statements that were sent.
    pub sent: u64,
    /// Statements that succeeded.
    pub done: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Statements that were never sent.
    pub skipped: u64,
    /// Rates of the last seconds.
    pub lately: LiveRates,
    /// Times since the start.
    pub whole: LiveTimesView,
    /// Open connections.
    pub sessions_open: u64,
    /// Connections being opened.
    pub sessions_connecting: u64,
    /// Statements in flight, whose sessions wait for the server.
    pub in_flight: u64,
    /// Statements that were read ahead or wait for their session.
    pub queued: u64,
    /// Number of these on disk.
    pub queued_on_disk: u64,
    /// Completed executions that are not yet written to the run.
    pub recorder_backlog: u64,
    /// Failures by SQLSTATE, the most frequent first.
    pub errors: Vec<LiveErrorView>,
    /// Skipped statements by reason, the most frequent first.
    pub skips: Vec<LiveReasonView>,
    /// Sessions whose connection could not be opened, by SQLSTATE.
    pub connections_failed: Vec<LiveErrorView>,
    /// Connections that were lost, by SQLSTATE.
    pub connections_lost: Vec<LiveErrorView>,
    /// Statements by descending total time.
    pub top: Vec<LiveStatementView>,
    /// All other statements together.
    pub others: Option<LiveOthersView>,
    /// Wait events of the target's backends, or the reason why they are unknown.
    pub waits: ObservedView,
    /// Phases of the target's processors, or the reason why they are unknown.
    pub phases: ObservedView,
}

/// Rates and times in a stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LiveRates {
    /// Statements that became due, per second; `null` if there are no due times.
    pub due_per_s: Option<f64>,
    /// Statements that were sent, per second.
    pub sent_per_s: f64,
    /// Statements that were answered, including failures, per second.
    pub answered_per_s: f64,
    /// Failures, per second.
    pub failed_per_s: f64,
    /// Times of the statements that ended in it.
    pub times: LiveTimesView,
}

/// Quantiles in microseconds, within 7 %; `null` without statements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LiveTimesView {
    /// Response time (due → done).
    pub response: Option<LiveQuantilesView>,
    /// Lag caused by the tool.
    pub tool_lag: Option<LiveQuantilesView>,
    /// Lag caused by a session's previous statement.
    pub session_lag: Option<LiveQuantilesView>,
}

/// Quantiles in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LiveQuantilesView {
    /// Median.
    pub p50_us: f64,
    /// 95th percentile.
    pub p95_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
}

/// A stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LivePointView {
    /// Its end, in seconds from the start.
    pub at_s: f64,
    /// Rates and times.
    #[serde(flatten)]
    pub rates: LiveRates,
    /// Statements in flight at its end.
    pub in_flight: u64,
    /// Mean number of backends in each wait, by name.
    pub waits: Vec<(String, f64)>,
    /// Mean number of processors in each phase, by name.
    pub phases: Vec<(String, f64)>,
}

/// An error code.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveErrorView {
    /// SQLSTATE; `other` for those beyond the maximum number of distinct ones.
    pub sqlstate: String,
    /// Condition name; empty if it is not known.
    pub name: &'static str,
    /// Number of occurrences.
    pub count: u64,
    /// Number of occurrences in the last seconds.
    pub lately: u64,
}

impl LiveErrorView {
    /// Creates the view from a count by SQLSTATE.
    pub fn new(sqlstate: &str, count: u64, lately: u64) -> Self {
        Self {
            sqlstate: sqlstate.to_owned(),
            name: condition_name(sqlstate),
            count,
            lately,
        }
    }
}

/// Reason why statements were not sent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveReasonView {
    /// Name of the reason.
    pub reason: String,
    /// Explanation in words.
    pub explanation: String,
    /// Number of statements.
    pub count: u64,
}

/// Totals of a statement so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveStatementView {
    /// 16 hexadecimal digits.
    pub fingerprint: String,
    /// Normalised SQL on one line, shortened, without literals. `null` while it is looked up.
    pub sql: Option<String>,
    /// Number of answers, including failures.
    pub calls: u64,
    /// Number of failures.
    pub failed: u64,
    /// Sum of its service times (sent → done).
    pub total_us: f64,
    /// Mean service time.
    pub mean_us: f64,
    /// Longest service time.
    pub longest_us: f64,
    /// Share of the service time of all statements, from 0 to 1.
    pub share: f64,
    /// Share of the service time of the last seconds, from 0 to 1; `null` if it was not shown
    /// before.
    pub share_lately: Option<f64>,
    /// Mean in the capture: the captured server's own time, without the network.
    pub captured_mean_us: Option<f64>,
}

/// Statements that are not shown individually.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LiveOthersView {
    /// Number of distinct statements, as far as they are distinguished.
    pub different: u64,
    /// Number of answers.
    pub calls: u64,
    /// Share of the service time of all statements, from 0 to 1.
    pub share: f64,
}

/// Observed values of the target, or the reason why they are missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ObservedView {
    /// Reason, as it follows "not observed: "; `null` if it is observed.
    pub why_not: Option<String>,
    /// Source and accuracy.
    pub source: Option<String>,
    /// Values of the last seconds by name, in descending order.
    pub lately: Vec<(String, f64)>,
}

impl ObservedView {
    /// Creates a view of an unavailable observation.
    pub fn not(why: &str) -> Self {
        Self {
            why_not: Some(why.to_owned()),
            ..Self::default()
        }
    }
}
