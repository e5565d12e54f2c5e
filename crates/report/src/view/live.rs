//! A replay while it runs: what it does now, and how that came about.

use serde::Serialize;

use crate::sqlstate::condition_name;

/// All that a viewer of a running replay is given first; later it gets [`LiveStepView`]s. For the page
/// that this program serves, and so without a published schema.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveView {
    /// `rehearse/live/1`.
    pub schema: &'static str,
    /// What does not change.
    pub replay: LiveReplayView,
    /// What one point of time covers, in seconds.
    pub step_s: f64,
    /// What was so far, in the order of time. Where it grew long, neighbours were made one.
    pub points: Vec<LivePointView>,
    /// What is now.
    pub now: LiveNowView,
}

/// What is new since the last.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveStepView {
    /// The first of these points takes this place among those that the viewer has.
    pub from: usize,
    /// Points behind those that the viewer has.
    pub points: Vec<LivePointView>,
    /// What is now.
    pub now: LiveNowView,
}

/// What is replayed, and how.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveReplayView {
    /// The workload's name, as the user gave it.
    pub workload: String,
    /// The run's name, as the user gave it.
    pub run: String,
    /// The server's address.
    pub target: String,
    /// The server's version; empty if unknown.
    pub server_version: String,
    /// Everything that was asked for, by option.
    pub options: Vec<(String, String)>,
    /// When the replay was started, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
    /// What it takes where it keeps its time, in microseconds; `null` where that is not known before.
    pub span_us: Option<f64>,
    /// Whether time says when a statement is due: not at full speed, nor in a closed loop.
    pub is_timed: bool,
    /// Statements, copies among them.
    pub statements: u64,
}

/// What a replay is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveState {
    /// Nothing was sent yet.
    #[default]
    Beginning,
    /// It sends and receives.
    Running,
    /// Something is asked of the target, and nothing has come from it for a while.
    Waiting,
    /// It was asked to stop, and what is in flight may end.
    Stopping,
    /// The last statement is over; what else is asked and written is.
    Ending,
    /// It reached its end.
    Done,
    /// It was stopped before its end.
    Stopped,
    /// The target was given up, or the run cannot be written.
    Failed,
}

impl LiveState {
    /// As it is said.
    pub fn words(self) -> &'static str {
        match self {
            LiveState::Beginning => "beginning",
            LiveState::Running => "running",
            LiveState::Waiting => "waiting for the target",
            LiveState::Stopping => "stopping in order",
            LiveState::Ending => "ending",
            LiveState::Done => "done",
            LiveState::Stopped => "stopped before its end",
            LiveState::Failed => "could not go on",
        }
    }

    /// Whether nothing follows.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Stopped | Self::Failed)
    }
}

/// Where a replay is, and how it does.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LiveNowView {
    /// What it is doing.
    pub state: LiveState,
    /// The same in words.
    pub state_words: &'static str,
    /// What there is to say of it, in a sentence.
    pub note: Option<String>,
    /// Time since the start, in microseconds.
    pub elapsed_us: f64,
    /// What is left of its time, in microseconds: by the plan, or else by the statements that are
    /// over; `null` where nothing tells.
    pub left_us: Option<f64>,
    /// How long it is past its planned end, in microseconds.
    pub overdue_us: Option<f64>,
    /// How much of it is over, 0 to 1: of its time where that is planned, else of its statements.
    pub position: f64,
    /// Statements whose time has come; `null` where no time decides.
    pub due: Option<u64>,
    /// Statements that were sent.
    pub sent: u64,
    /// Statements that the server did.
    pub done: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Statements that were never sent.
    pub skipped: u64,
    /// The last seconds.
    pub lately: LiveRates,
    /// From the start until now.
    pub whole: LiveTimesView,
    /// Connections that are open.
    pub sessions_open: u64,
    /// Connections that are being opened.
    pub sessions_connecting: u64,
    /// Statements in flight, whose sessions wait for the server.
    pub in_flight: u64,
    /// Statements that were read ahead or wait for their session.
    pub queued: u64,
    /// Of these, those on disk.
    pub queued_on_disk: u64,
    /// What was done and is not yet written to the run.
    pub recorder_backlog: u64,
    /// Failures by SQLSTATE, the most first.
    pub errors: Vec<LiveErrorView>,
    /// What was never sent, by reason, the most first.
    pub skips: Vec<LiveReasonView>,
    /// Sessions whose connection could not be opened, by SQLSTATE.
    pub connections_failed: Vec<LiveErrorView>,
    /// Connections that were lost, by SQLSTATE.
    pub connections_lost: Vec<LiveErrorView>,
    /// The statements that took the most time, the most first.
    pub top: Vec<LiveStatementView>,
    /// All other statements together.
    pub others: Option<LiveOthersView>,
    /// What the target's backends wait for; why that is not known, where it is not.
    pub waits: ObservedView,
    /// What the target's processors do; why that is not known, where it is not.
    pub phases: ObservedView,
}

/// Rates and times in a stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LiveRates {
    /// Statements that came due, a second; `null` where no time decides.
    pub due_per_s: Option<f64>,
    /// Statements that were sent, a second.
    pub sent_per_s: f64,
    /// Statements that were answered, a second, failures among them.
    pub answered_per_s: f64,
    /// Failures, a second.
    pub failed_per_s: f64,
    /// Times of the statements that ended then.
    pub times: LiveTimesView,
}

/// Quantiles in microseconds, within 7 %; `null` where there was no statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LiveTimesView {
    /// Due → done.
    pub response: Option<LiveQuantilesView>,
    /// Lag that is the tool's own doing.
    pub tool_lag: Option<LiveQuantilesView>,
    /// Lag because a session's previous statement was not done.
    pub session_lag: Option<LiveQuantilesView>,
}

/// In microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LiveQuantilesView {
    /// Half took no longer.
    pub p50_us: f64,
    /// 95 % took no longer.
    pub p95_us: f64,
    /// 99 % took no longer.
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
    /// Backends in each wait on average, by name.
    pub waits: Vec<(String, f64)>,
    /// Processors busy with each phase on average, by name.
    pub phases: Vec<(String, f64)>,
}

/// An error code.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveErrorView {
    /// The SQLSTATE; `other` for all past a number of different ones.
    pub sqlstate: String,
    /// The condition's name; empty where it is not known here.
    pub name: &'static str,
    /// How often.
    pub count: u64,
    /// How often in the last seconds.
    pub lately: u64,
}

impl LiveErrorView {
    /// Of a count by SQLSTATE.
    pub fn new(sqlstate: &str, count: u64, lately: u64) -> Self {
        Self {
            sqlstate: sqlstate.to_owned(),
            name: condition_name(sqlstate),
            count,
            lately,
        }
    }
}

/// Why something was not sent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveReasonView {
    /// Its name.
    pub reason: String,
    /// In words.
    pub explanation: String,
    /// How often.
    pub count: u64,
}

/// A statement's totals so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveStatementView {
    /// 16 hexadecimal digits.
    pub fingerprint: String,
    /// The normalised SQL on one line, shortened; no literal is in it. `null` while it is looked up.
    pub sql: Option<String>,
    /// How often it was answered, failures among it.
    pub calls: u64,
    /// How often it failed.
    pub failed: u64,
    /// The sum of its service times (sent → done).
    pub total_us: f64,
    /// Their mean.
    pub mean_us: f64,
    /// The longest.
    pub longest_us: f64,
    /// Its part of the service time of all statements, 0 to 1.
    pub share: f64,
    /// Its part of the service time of the last seconds, 0 to 1; `null` where it was not shown before
    /// them.
    pub share_lately: Option<f64>,
    /// The mean in the capture: the captured server's own time, without the network.
    pub captured_mean_us: Option<f64>,
}

/// The statements that are not shown singly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LiveOthersView {
    /// How many different ones, as far as they are told apart.
    pub different: u64,
    /// How often they were answered.
    pub calls: u64,
    /// Their part of the service time of all statements, 0 to 1.
    pub share: f64,
}

/// Whether something of the target is observed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ObservedView {
    /// Why not, as what follows "not observed: "; `null` where it is.
    pub why_not: Option<String>,
    /// Where it comes from, and how exact it is.
    pub source: Option<String>,
    /// The values of the last seconds by name, the most first.
    pub lately: Vec<(String, f64)>,
}

impl ObservedView {
    /// It is not observed, for this reason.
    pub fn not(why: &str) -> Self {
        Self {
            why_not: Some(why.to_owned()),
            ..Self::default()
        }
    }
}
