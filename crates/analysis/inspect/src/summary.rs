//! How one run went.

use std::collections::{BTreeMap, HashSet};

use run::{Execution, Outcome, SkipReason, StatementKind};
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::Sqlstate;

use statistics::Histogram;
use statistics::LatencySummary;
use workload::{Literals, redact_message};

/// A session that was once this late because its previous statement was not done counts as held
/// up, in nanoseconds: ten times what is due to network and scheduling.
pub const SESSION_LAG_NOTABLE_NS: u64 = 10_000_000;

/// How one run went. Counts of statements add up: `done` + `failed` + `skipped` = `statements`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// Statements in the run.
    pub statements: u64,
    /// Statements that the server did.
    pub done: u64,
    /// Statements that failed, by error.
    pub failed: BTreeMap<Sqlstate, u64>,
    /// Statements that were never sent, by reason.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// Connections that were opened.
    pub connects: u64,
    /// Connections that could not be opened, by error.
    pub connects_failed: BTreeMap<Sqlstate, u64>,
    /// Sent → done, of what was done.
    pub service: Option<LatencySummary>,
    /// Due → done, of what was done.
    pub response: Option<LatencySummary>,
    /// Sent → ready, of opened connections.
    pub connecting: Option<LatencySummary>,
    /// The part of due → sent that is the tool's fault, of all statements sent.
    pub tool_lag: Option<LatencySummary>,
    /// The part of due → sent in which the session's previous statement was not done, of all
    /// statements sent.
    pub session_lag: Option<LatencySummary>,
    /// Sessions that were once more than 10 ms late for that reason.
    pub sessions_held_up: u64,
    /// Rows returned or affected.
    pub rows: u64,
    /// Bytes of the answers.
    pub bytes: u64,
    /// When the last event was done, in nanoseconds from the replay's start.
    pub elapsed_ns: i64,
    /// How the errors compare with the captured ones; `None` where nothing was captured of any.
    pub versus_capture: Option<ErrorsVersusCapture>,
    /// The first of each error, in the order of the run.
    pub examples: Vec<ErrorExample>,
}

/// Errors of statements that were sent, beside those captured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorsVersusCapture {
    /// Failed both times, with the same error as far as is known.
    pub same: u64,
    /// Failed both times, with different errors: by the one here.
    pub different: BTreeMap<Sqlstate, u64>,
    /// Failed here only, by error.
    pub new: BTreeMap<Sqlstate, u64>,
    /// Failed where it was captured only, by the captured error.
    pub gone: BTreeMap<Sqlstate, u64>,
}

/// The first execution that ended in an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorExample {
    /// The error.
    pub sqlstate: Sqlstate,
    /// The session's number in the run: that in the workload, and for a copy its number times 10¹² more.
    pub session: u64,
    /// The event's sequence in the session.
    pub sequence: u64,
    /// What was done.
    pub kind: StatementKind,
    /// The statement; `None` for connecting.
    pub fingerprint: Option<Fingerprint>,
    /// The server's message, redacted.
    pub message: Option<String>,
}

impl Summary {
    /// Reads a run's executions, in the order in which they were done. The iterator's first error
    /// is handed back.
    pub fn collect<E>(
        executions: impl IntoIterator<Item = Result<Execution, E>>,
        literals: Literals,
    ) -> Result<Self, E> {
        let mut counting = Counting {
            literals,
            ..Counting::default()
        };
        for execution in executions {
            counting.add(&execution?);
        }
        Ok(counting.finish())
    }

    /// Counts statements that a stopped replay did not reach. They have no executions in the run, whose
    /// manifest has their number.
    pub fn add_unreached(&mut self, statements: u64) {
        if statements > 0 {
            self.statements += statements;
            *self.skipped.entry(SkipReason::Stopped).or_default() += statements;
        }
    }

    /// Statements that failed.
    pub fn failed_total(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Statements that were never sent.
    pub fn skipped_total(&self) -> u64 {
        self.skipped.values().sum()
    }

    /// Statements that were answered, per second; `None` of a run without time.
    pub fn throughput_per_s(&self) -> Option<f64> {
        let answered = (self.done + self.failed_total()) as f64;
        (self.elapsed_ns > 0).then(|| answered * 1e9 / self.elapsed_ns as f64)
    }
}

#[derive(Default)]
struct Counting {
    literals: Literals,
    summary: Summary,
    service: Histogram,
    response: Histogram,
    connecting: Histogram,
    tool_lag: Histogram,
    session_lag: Histogram,
    /// Sessions held up that have not ended: memory is that of the live ones.
    held_up: HashSet<u64>,
    capture_known: bool,
    versus: ErrorsVersusCapture,
}

impl Counting {
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
            | StatementKind::Fetch => self.statement(execution),
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
        self.beside_capture(execution);
    }

    fn beside_capture(&mut self, execution: &Execution) {
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
        // A few dozen codes at most: looking through them is for failures only.
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
