//! What became of one event of the workload.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use sql::Fingerprint;
use workload::Sqlstate;

/// What became of one event of the workload. Times are nanoseconds from the replay's start, on
/// the replaying machine's monotonic clock.
///
/// - service time = `done_ns − sent_ns`
/// - response time = `done_ns − due_ns`: a stall counts for all who waited in it
/// - lag = `sent_ns − due_ns` = session lag + tool lag
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// The session's number in the workload; for a copy of it (`--scale`, `--repeat`) its number,
    /// from 0, times 10¹² more.
    pub session: u64,
    /// The event's sequence within the session.
    pub sequence: u64,
    /// The statement's fingerprint; `None` for connects, cancels and disconnects.
    pub fingerprint: Option<Fingerprint>,
    /// What it was.
    pub kind: StatementKind,
    /// How it ended.
    pub outcome: Outcome,
    /// When it was due: its captured offset divided by the speed; in a closed loop, when its session
    /// had thought. With `--speed max`, when its
    /// session was free for it.
    pub due_ns: i64,
    /// When its first byte was handed to the operating system; `None` if it never was.
    pub sent_ns: Option<i64>,
    /// When the first byte of the answer was there.
    pub first_byte_ns: Option<i64>,
    /// When the answer was complete and the session free again.
    pub done_ns: Option<i64>,
    /// The part of `sent_ns − due_ns` in which the session's previous event was not yet done
    /// (the server's doing). The rest is tool lag, which is ours.
    pub session_lag_ns: u64,
    /// Rows returned or affected, as the server's command tags count them.
    pub rows: u64,
    /// Bytes of the answer, all messages with their headers.
    pub bytes: u64,
    /// A checksum of the rows ([`workload::RowDigest`], summed over them), where the replay was asked
    /// for it and rows came.
    pub digest: Option<u64>,
    /// The server's message, for errors; why, in words, for what was lost or skipped.
    pub message: Option<String>,
    /// What the capture knew of the same statement.
    pub captured: Captured,
}

impl Execution {
    /// Sent → done, in nanoseconds.
    pub fn service_ns(&self) -> Option<i64> {
        Some(self.done_ns? - self.sent_ns?)
    }

    /// Due → done, in nanoseconds.
    pub fn response_ns(&self) -> Option<i64> {
        Some(self.done_ns? - self.due_ns)
    }

    /// The part of the lag that is the tool's own fault, in nanoseconds.
    pub fn tool_lag_ns(&self) -> Option<i64> {
        Some((self.sent_ns? - self.due_ns - self.session_lag_ns as i64).max(0))
    }

    /// Whether it failed, here or in the capture, or had another number of rows here: what one wants
    /// to find again in the source. Few do, so that a run stays as small as it was for keeping the
    /// place of these.
    pub fn went_otherwise(&self) -> bool {
        let other_rows = |rows| self.outcome == Outcome::Done && rows != self.rows;
        matches!(self.outcome, Outcome::Failed(_))
            || self.captured.sqlstate.is_some()
            || self.captured.rows.is_some_and(other_rows)
            || self.has_other_values()
    }

    /// Whether as many rows came as in the capture, and others.
    pub fn has_other_values(&self) -> bool {
        let digests = self.digest.zip(self.captured.digest);
        self.outcome == Outcome::Done && digests.is_some_and(|(here, there)| here != there)
    }

    /// Whether it is a statement, which a run must account for, or a session's coming and going.
    pub fn is_statement(&self) -> bool {
        !matches!(
            self.kind,
            StatementKind::Connect | StatementKind::Cancel | StatementKind::Disconnect
        )
    }
}

/// The kind of event that was replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum StatementKind {
    Connect,
    Simple,
    Prepare,
    Execute,
    Fetch,
    Cancel,
    Disconnect,
}

impl StatementKind {
    /// All kinds.
    pub const ALL: [StatementKind; 7] = [
        StatementKind::Connect,
        StatementKind::Simple,
        StatementKind::Prepare,
        StatementKind::Execute,
        StatementKind::Fetch,
        StatementKind::Cancel,
        StatementKind::Disconnect,
    ];

    /// The name under which the kind is stored.
    pub fn name(self) -> &'static str {
        match self {
            StatementKind::Connect => "connect",
            StatementKind::Simple => "simple",
            StatementKind::Prepare => "prepare",
            StatementKind::Execute => "execute",
            StatementKind::Fetch => "fetch",
            StatementKind::Cancel => "cancel",
            StatementKind::Disconnect => "disconnect",
        }
    }

    /// The kind stored under `name`.
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
            workload::EventKind::Cancel => StatementKind::Cancel,
            workload::EventKind::Disconnect => StatementKind::Disconnect,
        }
    }
}

/// How an event ended in the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The server did it.
    Done,
    /// The server answered with an error, or the connection was lost under it (class 08).
    Failed(Sqlstate),
    /// It was never sent.
    Skipped(SkipReason),
}

/// Why an event was never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SkipReason {
    /// The workload holds a statement that cannot be replayed as it was.
    Unreplayable(workload::Unreplayable),
    /// Its session has no connection: it could not be opened, or it was lost.
    NoConnection,
    /// The replay was stopped before its turn.
    Stopped,
    /// A cancel, in runs of versions that did not replay them.
    CancelNotReplayed,
    /// A cancel, and its session ran nothing.
    NothingToCancel,
    /// A connect or disconnect of a session that used the connections of others
    /// (`--max-connections`).
    ConnectionShared,
    /// It belongs to a transaction that was lost with its connection.
    TransactionLost,
    /// The server passed over it, because something before it in its pipeline had failed.
    PipelineAborted,
    /// The replay must not write, and the server could not have held this back.
    ReadOnly,
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
    /// The name under which the reason is stored.
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
        }
    }

    /// The reason in words.
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
        }
    }

    /// The reason stored under `name`.
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
            _ => workload::Unreplayable::from_name(name).map(SkipReason::Unreplayable),
        }
    }
}

/// What the capture knew of a statement: another machine, another day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Captured {
    /// The captured server's own time for it, in microseconds (not service time: the network is
    /// not in it).
    pub duration_us: Option<u64>,
    /// Rows returned or affected.
    pub rows: Option<u64>,
    /// The error that it ended in.
    pub sqlstate: Option<Sqlstate>,
    /// The checksum of its rows, where the capture was asked for it.
    pub digest: Option<u64>,
    /// Where it was read. A run keeps it of what [went otherwise](Execution::went_otherwise) only.
    pub place: Option<Place>,
}

/// Where the capture read a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Place {
    /// Which of [`crate::WorkloadRef::sources`], from 0.
    pub source: u32,
    /// The line in it, from 1.
    pub line: u64,
}

impl Place {
    /// The place of an event that was read there; line 0 is none.
    pub fn of(source: u32, line: u64) -> Option<Place> {
        (line > 0).then_some(Place { source, line })
    }
}
