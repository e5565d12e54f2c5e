//! Summarises a run.

use std::collections::{BTreeMap, HashSet};

use run::{Execution, Outcome, SkipReason, StatementKind};
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::Sqlstate;

use statistics::Histogram;
use statistics::LatencySummary;
use workload::{Literals, redact_message};

/// Threshold of session lag in nanoseconds above which a session counts as held up. It is ten times
/// the lag caused by network and scheduling.
pub const SESSION_LAG_NOTABLE_NS: u64 = 10_000_000;

/// Summary of a run. Counts of statements add up: `done` + `failed` + `skipped` = `statements`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// Statements in the run.
    pub statements: u64,
    /// Statements that succeeded.
    pub done: u64,
    /// Statements that failed, by error.
    pub failed: BTreeMap<Sqlstate, u64>,
    /// Statements that were never sent, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Connections that were opened.
    pub connects: u64,
    /// Connections that could not be opened, by error.
    pub connects_failed: BTreeMap<Sqlstate, u64>,
    /// Service time (sent → done) of the statements that succeeded.
    pub service: Option<LatencySummary>,
    /// Response time (due → done) of the statements that succeeded.
    pub response: Option<LatencySummary>,
    /// Connection time (sent → ready) of the connections that were opened.
    pub connecting: Option<LatencySummary>,
    /// Tool lag: the part of due → sent that the tool caused, over all statements sent.
    pub tool_lag: Option<LatencySummary>,
    /// Session lag: the part of due → sent in which the session's previous statement was still
    /// running, over all statements sent.
    pub session_lag: Option<LatencySummary>,
    /// Sessions whose session lag exceeded 10 ms at least once.
    pub sessions_held_up: u64,
    /// Rows returned or affected.
    pub rows: u64,
    /// Bytes received in results.
    pub bytes: u64,
    /// Completion time of the last event, in nanoseconds from the replay's start.
    pub elapsed_ns: i64,
    /// Comparison of errors with the captured ones; `None` if no outcome was captured.
    pub versus_capture: Option<ErrorsVersusCapture>,
    /// First occurrence of each error, in the order of the run.
    pub examples: Vec<ErrorExample>,
}

/// Errors of the statements that were sent, compared with the captured errors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorsVersusCapture {
    /// Statements that failed both times with the same error, as far as is known.
    pub same: u64,
    /// Statements that failed both times with different errors, by the replay's error.
    pub different: BTreeMap<Sqlstate, u64>,
    /// Statements that failed in the replay only, by error.
    pub new: BTreeMap<Sqlstate, u64>,
    /// Statements that failed in the capture only, by the captured error.
    pub gone: BTreeMap<Sqlstate, u64>,
}

/// First execution with an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorExample {
    /// The error.
    pub sqlstate: Sqlstate,
    /// Number of the session in the run. The sessions of a copy have the workload's number plus a
    /// multiple of 10¹².
    pub session: u64,
    /// Sequence of the event in its session.
    pub sequence: u64,
    /// Kind of statement.
    pub kind: StatementKind,
    /// The statement; `None` for a connection attempt.
    pub fingerprint: Option<Fingerprint>,
    /// The server's message, redacted.
    pub message: Option<String>,
}

impl Summary {
    /// Summarises a run from its executions, in order of completion.
    ///
    /// # Errors
    /// If the iterator fails; the first error is returned.
    pub fn collect<E>(
        executions: impl IntoIterator<Item = Result<Execution, E>>,
        literals: Literals,
    ) -> Result<Self, E> {
        let mut counting = SummaryCounter {
            literals,
            ..SummaryCounter::default()
        };
        for execution in executions {
            counting.add(&execution?);
        }
        Ok(counting.finish())
    }

    /// Adds statements that a stopped replay did not reach. They have no executions in the run; the
    /// manifest has their number.
    pub fn add_unreached(&mut self, statements: u64) {
        if statements > 0 {
            self.statements += statements;
            *self.skipped.entry(SkipReason::Stopped).or_default() += statements;
        }
    }

    /// Returns the number of statements that failed.
    pub fn failed_total(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Returns the number of statements that were never sent.
    pub fn skipped_total(&self) -> u64 {
        self.skipped.values().sum()
    }

    /// Returns the statements answered per second; `None` if the run took no time.
    pub fn throughput_per_s(&self) -> Option<f64> {
        let answered = (self.done + self.failed_total()) as f64;
        (self.elapsed_ns > 0).then(|| answered * 1e9 / self.elapsed_ns as f64)
    }
}

#[derive(Default)]
struct SummaryCounter {
    literals: Literals,
    summary: Summary,
    service: Histogram,
    response: Histogram,
    connecting: Histogram,
    tool_lag: Histogram,
    session_lag: Histogram,
    /// Live sessions that were held up.
    held_up: HashSet<u64>,
    capture_known: bool,
    versus: ErrorsVersusCapture,
}

impl SummaryCounter {
    fn add(&mut self, execution: &Execution) {
        let summary = &mut self.summary;
        summary.elapsed_ns = summary.elapsed_ns.max(execution.done_ns.unwrap_or(0));
        summary.bytes += execution.bytes;
        match execution.kind {
            StatementKind::Connect => self.connect(execution),
            StatementKind::Disconnect => {
                self.held_up.remove(&execution.session);
            }
            StatementKind::Cancel => {}
            StatementKind::Simple
            | StatementKind::Prepare
            | StatementKind::Execute
            | StatementKind::Fetch
            | StatementKind::FunctionCall => self.statement(execution),
        }
    }

    fn connect(&mut self, execution: &Execution) {
        match execution.outcome {
            Outcome::Done => {
                self.summary.connects += 1;
                if let Some(service_ns) = execution.service_ns() {
                    self.connecting.record(service_ns.max(0) as u64);
                }
            }
            Outcome::Failed(sqlstate) => {
                *self.summary.connects_failed.entry(sqlstate).or_default() += 1;
                self.example(execution, sqlstate);
            }
            Outcome::Skipped(_) => {}
        }
    }

    fn statement(&mut self, execution: &Execution) {
        let summary = &mut self.summary;
        summary.statements += 1;
        summary.rows += execution.rows;
        if let Some(tool_lag_ns) = execution.tool_lag_ns() {
            self.tool_lag.record(tool_lag_ns as u64);
            self.session_lag.record(execution.session_lag_ns);
            if execution.session_lag_ns > SESSION_LAG_NOTABLE_NS
                && self.held_up.insert(execution.session)
            {
                summary.sessions_held_up += 1;
            }
        }
        match execution.outcome {
            Outcome::Done => {
                summary.done += 1;
                if let Some(service_ns) = execution.service_ns() {
                    self.service.record(service_ns.max(0) as u64);
                }
                if let Some(response_ns) = execution.response_ns() {
                    self.response.record(response_ns.max(0) as u64);
                }
            }
            Outcome::Failed(sqlstate) => {
                *summary.failed.entry(sqlstate).or_default() += 1;
                self.example(execution, sqlstate);
            }
            Outcome::Skipped(reason) => *summary.skipped.entry(reason).or_default() += 1,
        }
        self.compare_with_capture(execution);
    }

    fn compare_with_capture(&mut self, execution: &Execution) {
        let captured = &execution.captured;
        self.capture_known |= captured.duration_us.is_some()
            || captured.rows.is_some()
            || captured.sqlstate.is_some();
        match (execution.outcome, captured.sqlstate) {
            (Outcome::Failed(here), Some(there)) => {
                if here == there || there == Sqlstate::UNKNOWN {
                    self.versus.same += 1;
                } else {
                    *self.versus.different.entry(here).or_default() += 1;
                }
            }
            (Outcome::Failed(here), None) => *self.versus.new.entry(here).or_default() += 1,
            (Outcome::Done, Some(there)) => *self.versus.gone.entry(there).or_default() += 1,
            (Outcome::Done, None) | (Outcome::Skipped(_), _) => {}
        }
    }

    fn example(&mut self, execution: &Execution, sqlstate: Sqlstate) {
        // There are at most a few dozen codes, and only failures search this list.
        let examples = &mut self.summary.examples;
        if examples.iter().all(|example| example.sqlstate != sqlstate) {
            examples.push(ErrorExample {
                sqlstate,
                session: execution.session,
                sequence: execution.sequence,
                kind: execution.kind,
                fingerprint: execution.fingerprint,
                message: execution
                    .message
                    .as_ref()
                    .map(|message| redact_message(sqlstate, message, self.literals)),
            });
        }
    }

    fn finish(self) -> Summary {
        Summary {
            service: self.service.latency_summary(),
            response: self.response.latency_summary(),
            connecting: self.connecting.latency_summary(),
            tool_lag: self.tool_lag.latency_summary(),
            session_lag: self.session_lag.latency_summary(),
            versus_capture: self.capture_known.then_some(self.versus),
            ..self.summary
        }
    }
}
