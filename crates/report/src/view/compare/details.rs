//! What is drawn: both sides over time, and each statement's times.

use analyse::{ComparedOverTime, Details, SideStretch, SlowExecution, StretchTimes};
use schemars::JsonSchema;
use serde::Serialize;

/// Both sides from stretch to stretch. Stretches are of the time when statements were due, and as
/// wide on both sides.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct CompareOverTimeView {
    /// The width of a stretch, in microseconds.
    pub width_us: f64,
    /// Before, from the start of the replay.
    pub before: Vec<StretchView>,
    /// After; as long as `before`.
    pub after: Vec<StretchView>,
}

/// One stretch of time on one side, all runs of it together.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct StretchView {
    /// Statements that were due in it and sent, done or failed.
    pub sent: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Sent → done, of what was done; `null` where nothing was.
    pub service: Option<StretchTimesView>,
    /// Due → done, of what was done.
    pub response: Option<StretchTimesView>,
    /// The tool's own delay, of what was sent.
    pub tool_lag: Option<StretchTimesView>,
}

/// Times of one stretch.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct StretchTimesView {
    /// The median, within 3 %, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile, within 3 %, in microseconds.
    pub p99_us: f64,
}

/// What a reader who opens a statement wants to see.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct DetailsView {
    /// The first bin of both distributions: bin `n` holds service times from `10^(n/10)` to
    /// `10^((n+1)/10)` nanoseconds.
    pub first_bin: u32,
    /// Calls in each bin before.
    pub bins_before: Vec<u64>,
    /// Calls in each bin after; as many bins as before.
    pub bins_after: Vec<u64>,
    /// The median service time in each stretch before, in microseconds; `null` without calls.
    pub medians_before_us: Vec<Option<f64>>,
    /// The median service time in each stretch after; as many as before.
    pub medians_after_us: Vec<Option<f64>>,
    /// The slowest executions before, the slowest first.
    pub slowest_before: Vec<SlowExecutionView>,
    /// The slowest executions after.
    pub slowest_after: Vec<SlowExecutionView>,
}

/// One execution that took long.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct SlowExecutionView {
    /// The session's number in the run.
    pub session: u64,
    /// The event's sequence in the session.
    pub sequence: u64,
    /// When it was due, in microseconds from the replay's start.
    pub due_us: f64,
    /// Sent → done.
    pub service_us: f64,
    /// Due → done.
    pub response_us: f64,
    /// Rows returned or affected.
    pub rows: u64,
}

/// Nanoseconds as microseconds, without digits that say nothing.
fn us(ns: f64) -> f64 {
    (ns / 10.0).round() / 100.0
}

impl From<&ComparedOverTime> for CompareOverTimeView {
    fn from(over_time: &ComparedOverTime) -> Self {
        let side = |stretches: &[SideStretch]| stretches.iter().map(StretchView::from).collect();
        Self {
            width_us: over_time.width_ns as f64 / 1e3,
            before: side(&over_time.before),
            after: side(&over_time.after),
        }
    }
}

impl From<&SideStretch> for StretchView {
    fn from(stretch: &SideStretch) -> Self {
        let times = |times: Option<StretchTimes>| {
            times.map(|times| StretchTimesView {
                p50_us: us(times.p50_ns as f64),
                p99_us: us(times.p99_ns as f64),
            })
        };
        Self {
            sent: stretch.sent,
            failed: stretch.failed,
            service: times(stretch.service),
            response: times(stretch.response),
            tool_lag: times(stretch.tool_lag),
        }
    }
}

impl From<&Details> for DetailsView {
    fn from(details: &Details) -> Self {
        let medians = |medians: &[Option<u64>]| {
            let each = medians.iter();
            each.map(|median| median.map(|ns| us(ns as f64))).collect()
        };
        let slowest =
            |slowest: &[SlowExecution]| slowest.iter().map(SlowExecutionView::from).collect();
        Self {
            first_bin: details.first_bin,
            bins_before: details.bins_before.clone(),
            bins_after: details.bins_after.clone(),
            medians_before_us: medians(&details.medians_before),
            medians_after_us: medians(&details.medians_after),
            slowest_before: slowest(&details.slowest_before),
            slowest_after: slowest(&details.slowest_after),
        }
    }
}

impl From<&SlowExecution> for SlowExecutionView {
    fn from(slow: &SlowExecution) -> Self {
        Self {
            session: slow.session,
            sequence: slow.sequence,
            due_us: us(slow.due_ns as f64),
            service_us: us(slow.service_ns as f64),
            response_us: us(slow.response_ns as f64),
            rows: slow.rows,
        }
    }
}
