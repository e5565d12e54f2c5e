//! Executions: results of events of the workload.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use sql::Fingerprint;
use workload::{ContextId, Sqlstate, TraceParent};

/// Result of one event of the workload. Times are nanoseconds from the replay's start, on the replaying
/// machine's monotonic clock.
///
/// - service time = `done_ns − sent_ns − stalled_ns`
/// - response time = `done_ns − due_ns`: a stall counts for all who waited in it
/// - tool lag = `sent_ns − due_ns − session_lag_ns + stalled_ns`
///
/// So response time = session lag + tool lag + service time.
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// Number of the session in the workload. For copies of it (`--copies`, `--loops`) the number is
    /// increased by 10¹² times the copy's number, from 0.
    pub session: u64,
    /// Sequence of the event within the session.
    pub sequence: u64,
    /// Fingerprint of the statement; `None` for connects, cancels and disconnects.
    pub fingerprint: Option<Fingerprint>,
    /// Kind of event.
    pub kind: StatementKind,
    /// Outcome in the replay.
    pub outcome: Outcome,
    /// Time at which it was due: its captured offset divided by the speed. In a closed loop, the end of its
    /// session's think time. With `--speed max`, the time at which its session was free for it.
    pub due_ns: i64,
    /// Time at which its first byte was passed to the operating system; `None` if it was never sent.
    pub sent_ns: Option<i64>,
    /// Time of the first byte of the response.
    pub first_byte_ns: Option<i64>,
    /// Time at which the response was complete and the session free again.
    pub done_ns: Option<i64>,
    /// Part of `sent_ns − due_ns` in which the session's previous event was not yet done, caused by the
    /// server. The rest is tool lag, also if the previous event was late because of a stall of the tool.
    pub session_lag_ns: u64,
    /// Part of `done_ns − sent_ns` in which the answer may have waited for the tool, which was stopped or starved.
    pub stalled_ns: u64,
    /// Rows returned or affected, by the server's command tags.
    pub rows: u64,
    /// Bytes of the response, including message headers.
    pub bytes: u64,
    /// Checksum of the rows ([`workload::RowDigest`], summed over them), if it was requested and rows were
    /// returned.
    pub digest: Option<u64>,
    /// Message of the server for errors; reason in words for lost or skipped events.
    pub message: Option<String>,
    /// Result of the same statement in the capture.
    pub captured: Captured,
}

impl Execution {
    /// Returns the time from sent to done without the tool's stall, in nanoseconds.
    pub fn service_ns(&self) -> Option<i64> {
        let taken_ns = self.done_ns?.saturating_sub(self.sent_ns?);
        Some(taken_ns.saturating_sub_unsigned(self.stalled_ns))
    }

    /// Returns the time at which it ended, in nanoseconds from the replay's start: that of sending if it has no end, and that at
    /// which it was due if it was not sent.
    pub fn ended_ns(&self) -> i64 {
        self.done_ns.or(self.sent_ns).unwrap_or(self.due_ns)
    }

    /// Returns the time from due to done, in nanoseconds.
    pub fn response_ns(&self) -> Option<i64> {
        Some(self.done_ns? - self.due_ns)
    }

    /// Returns the time by which the tool delayed it or its answer, in nanoseconds.
    pub fn tool_lag_ns(&self) -> Option<i64> {
        let late_ns = self.sent_ns?.saturating_sub(self.due_ns);
        let late_ns = late_ns.saturating_sub_unsigned(self.session_lag_ns).max(0);
        Some(late_ns.saturating_add_unsigned(self.stalled_ns))
    }

    /// Whether it failed, here or in the capture, or returned another number of rows than captured. Only
    /// these have their location in the source stored, which keeps a run small.
    pub fn differs_from_capture(&self) -> bool {
        let other_rows = |rows| self.outcome == Outcome::Done && rows != self.rows;
        matches!(self.outcome, Outcome::Failed(_))
            || self.captured.sqlstate.is_some()
            || self.captured.rows.is_some_and(other_rows)
            || self.differs_in_values()
    }

    /// Whether the number of rows is that of the capture, but the values differ.
    pub fn differs_in_values(&self) -> bool {
        let digests = self.digest.zip(self.captured.digest);
        self.outcome == Outcome::Done && digests.is_some_and(|(here, there)| here != there)
    }

    /// Whether it is a statement, which a run must account for, rather than a connect or disconnect.
    pub fn is_statement(&self) -> bool {
        !matches!(
            self.kind,
            StatementKind::Connect | StatementKind::Cancel | StatementKind::Disconnect
        )
    }
}

/// Kind of the replayed event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum StatementKind {
    Connect,
    Simple,
    Prepare,
    Execute,
    Fetch,
    FunctionCall,
    Cancel,
    Disconnect,
}

impl StatementKind {
    /// All kinds.
    pub const ALL: [StatementKind; 8] = [
        StatementKind::Connect,
        StatementKind::Simple,
        StatementKind::Prepare,
        StatementKind::Execute,
        StatementKind::Fetch,
        StatementKind::FunctionCall,
        StatementKind::Cancel,
        StatementKind::Disconnect,
    ];

    /// Returns the name under which the kind is stored.
    pub fn name(self) -> &'static str {
        match self {
            StatementKind::Connect => "connect",
            StatementKind::Simple => "simple",
            StatementKind::Prepare => "prepare",
            StatementKind::Execute => "execute",
            StatementKind::Fetch => "fetch",
            StatementKind::FunctionCall => "function_call",
            StatementKind::Cancel => "cancel",
            StatementKind::Disconnect => "disconnect",
        }
    }

    /// Returns the kind stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl From<&workload::EventKind> for StatementKind {
    fn from(kind: &workload::EventKind) -> Self {
        match kind {
            workload::EventKind::Connect { .. } => StatementKind::Connect,
            workload::EventKind::Simple { .. } => StatementKind::Simple,
            workload::EventKind::Prepare { .. } => StatementKind::Prepare,
            workload::EventKind::Execute { .. } => StatementKind::Execute,
            workload::EventKind::Fetch { .. } => StatementKind::Fetch,
            workload::EventKind::FunctionCall { .. } => StatementKind::FunctionCall,
            workload::EventKind::Cancel => StatementKind::Cancel,
            workload::EventKind::Disconnect => StatementKind::Disconnect,
        }
    }
}

/// Outcome of an event in the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The server executed it.
    Done,
    /// The server returned an error, or the connection was lost (class 08).
    Failed(Sqlstate),
    /// It was never sent.
    Skipped(SkipReason),
}

/// Reason why an event was never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SkipReason {
    /// The workload's statement cannot be replayed unchanged.
    Unreplayable(workload::Unreplayable),
    /// Its session has no connection: it could not be opened, or was lost.
    NoConnection,
    /// The replay was stopped before.
    Stopped,
    /// A cancel, in runs of versions that did not replay them.
    CancelNotReplayed,
    /// A cancel while its session ran nothing.
    NothingToCancel,
    /// A connect or disconnect of a session that used connections of others (`--max-connections`).
    ConnectionShared,
    /// It belongs to a transaction that was lost with its connection.
    TransactionLost,
    /// The server skipped it after an error earlier in its pipeline.
    PipelineAborted,
    /// The replay must not write, and the server could not have prevented it.
    ReadOnly,
    /// Its transaction had failed in the capture, and none is open here.
    TransactionFailed,
    /// It terminates or cancels a process of the capture, which has no session in the replay now. The process id
    /// could be that of another session.
    ProcessUnknown,
    /// It imports a snapshot of the captured server.
    SnapshotUnknown,
    /// Its session lagged more than a limit, and skipped what was overdue.
    LagLimit,
}

impl Serialize for SkipReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for SkipReason {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

impl SkipReason {
    /// Returns the name under which the reason is stored.
    pub fn name(self) -> &'static str {
        match self {
            SkipReason::Unreplayable(reason) => reason.name(),
            SkipReason::NoConnection => "no_connection",
            SkipReason::Stopped => "stopped",
            SkipReason::CancelNotReplayed => "cancel_not_replayed",
            SkipReason::NothingToCancel => "nothing_to_cancel",
            SkipReason::ConnectionShared => "connection_shared",
            SkipReason::TransactionLost => "transaction_lost",
            SkipReason::PipelineAborted => "pipeline_aborted",
            SkipReason::ReadOnly => "read_only",
            SkipReason::TransactionFailed => "transaction_failed",
            SkipReason::ProcessUnknown => "process_unknown",
            SkipReason::SnapshotUnknown => "snapshot_unknown",
            SkipReason::LagLimit => "lag_limit",
        }
    }

    /// Returns the reason in words.
    pub fn explanation(self) -> &'static str {
        match self {
            SkipReason::Unreplayable(reason) => reason.explanation(),
            SkipReason::NoConnection => "its session had no connection",
            SkipReason::Stopped => "the replay was stopped before its turn",
            SkipReason::CancelNotReplayed => "cancel requests were not replayed",
            SkipReason::NothingToCancel => "its session ran nothing that could be cancelled",
            SkipReason::ConnectionShared => "its session used the connections of others",
            SkipReason::TransactionLost => {
                "its transaction was lost with the connection; what follows alone would do something else"
            }
            SkipReason::PipelineAborted => {
                "something before it in its pipeline failed, and the server passed over the rest"
            }
            SkipReason::ReadOnly => "--read-only: the server could not have kept it from writing",
            SkipReason::TransactionFailed => {
                "the captured server refused it in a failed transaction; none is open here, and it would be executed"
            }
            SkipReason::ProcessUnknown => {
                "it terminates or cancels a process of the capture that is no session of the replay; sent as it is, it could end an innocent one"
            }
            SkipReason::SnapshotUnknown => {
                "it imports a snapshot of the captured server; the transaction has its own here"
            }
            SkipReason::LagLimit => {
                "its session lagged more than --max-lag, and skipped what was overdue"
            }
        }
    }

    /// Returns the reason stored under `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "no_connection" => Some(SkipReason::NoConnection),
            "stopped" => Some(SkipReason::Stopped),
            "cancel_not_replayed" => Some(SkipReason::CancelNotReplayed),
            "nothing_to_cancel" => Some(SkipReason::NothingToCancel),
            "connection_shared" => Some(SkipReason::ConnectionShared),
            "transaction_lost" => Some(SkipReason::TransactionLost),
            "pipeline_aborted" => Some(SkipReason::PipelineAborted),
            "read_only" => Some(SkipReason::ReadOnly),
            "transaction_failed" => Some(SkipReason::TransactionFailed),
            "process_unknown" => Some(SkipReason::ProcessUnknown),
            "snapshot_unknown" => Some(SkipReason::SnapshotUnknown),
            "lag_limit" => Some(SkipReason::LagLimit),
            _ => workload::Unreplayable::from_name(name).map(SkipReason::Unreplayable),
        }
    }
}

/// Result of a statement in the capture, on another machine at another time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Captured {
    /// Duration measured by the captured server, in microseconds. Unlike service time it excludes the
    /// network.
    pub duration_us: Option<u64>,
    /// Rows returned or affected.
    pub rows: Option<u64>,
    /// Error code.
    pub sqlstate: Option<Sqlstate>,
    /// Checksum of its rows, if the capture recorded it.
    pub digest: Option<u64>,
    /// Context of the statement, if a comment names one.
    pub context: Option<ContextId>,
    /// Trace of the statement, if a comment names one.
    pub trace: Option<TraceParent>,
    /// Location in the source. A run stores it only for events that [differ from the
    /// capture](Execution::differs_from_capture).
    pub location: Option<SourceLocation>,
}

/// Location of a statement in the source of the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceLocation {
    /// Index of the source in [`crate::WorkloadRef::sources`].
    pub source: u32,
    /// Line number, from 1.
    pub line: u64,
}

impl SourceLocation {
    /// Creates the location of an event; `None` for line 0.
    pub fn of(source: u32, line: u64) -> Option<SourceLocation> {
        (line > 0).then_some(SourceLocation { source, line })
    }
}
