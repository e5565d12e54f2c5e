//! Server events: actions of the server, and incidents, that a log reports.
//!
//! A log holds more than the statements of clients: temporary files, lock waits, checkpoints, vacuums,
//! crashes. A replay needs none of it; the search for the cause of a slow statement does. Server events have
//! their own table, `server-events`, so that readers of events do not have to skip them.

use std::sync::Arc;

use archive::{ArchiveError, Batch, Column, ColumnType, TableWriter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use sql::Fingerprint;

use crate::Sqlstate;

use ColumnType::{I64, Text, U32, U64};

/// One action of the server, or one incident. Values that a kind does not have are `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerEvent {
    /// Time of the log line, in microseconds from the workload's start. Negative before the first client
    /// event. An action with a duration ended at this time.
    pub at_us: i64,
    /// Kind of event.
    pub kind: ServerEventKind,
    /// Process that reported it.
    pub pid: Option<u32>,
    /// Session of that process, if it is a client's.
    pub session: Option<u64>,
    /// Subject: a table with database and schema, a lock with its object, the cause of a checkpoint, or the
    /// server's message. Of [`ServerEventKind::Message`]: the function that raised the message, with the line in
    /// it. [`ServerEventKind::may_hold_values`] tells whether it may hold a value of the user's data.
    pub subject: Option<Box<str>>,
    /// The statement that the session was running, as sent. Of a temporary file: the statement that made it;
    /// `None` if it is unknown.
    pub sql: Option<Arc<str>>,
    /// Duration in microseconds: a lock wait (so far or in total), a whole checkpoint, a vacuum or analyze, a
    /// session.
    pub duration_us: Option<u64>,
    /// Checkpoint: part of the duration in which buffers were written.
    pub write_us: Option<u64>,
    /// Checkpoint: part of the duration in which files were synced.
    pub sync_us: Option<u64>,
    /// Size of a temporary file. Checkpoint: WAL since the previous checkpoint (`distance`).
    pub bytes: Option<u64>,
    /// Checkpoint: number of buffers written.
    pub buffers: Option<u64>,
    /// Vacuum: number of index scans.
    pub index_scans: Option<u64>,
    /// Vacuum: number of dead row versions removed.
    pub tuples_removed: Option<u64>,
    /// Vacuum: number of row versions that remain.
    pub tuples_remain: Option<u64>,
    /// Vacuum: number of dead row versions that cannot be removed yet.
    pub tuples_dead: Option<u64>,
    /// Lock wait: processes that held the lock, separated by commas.
    pub holders: Option<Box<str>>,
    /// Message: its severity.
    pub severity: Option<MessageSeverity>,
    /// Message: its SQLSTATE, if the log shows it or the text implies it.
    pub sqlstate: Option<Sqlstate>,
    /// Message: its first line, as the server wrote it. It may hold values of the user's data.
    pub message: Option<Box<str>>,
    /// Index of the source in [`crate::Provenance::sources`].
    pub source: u32,
    /// Line number in that source, from 1.
    pub line: u64,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Kind of a server event.
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum ServerEventKind {
            $($(#[$doc])* $variant,)*
            /// A kind that a newer version of this program wrote.
            #[default]
            Unknown,
        }

        impl ServerEventKind {
            /// All kinds that this version writes.
            pub const ALL: &[ServerEventKind] = &[$(ServerEventKind::$variant,)*];

            /// Name under which the kind is stored.
            pub fn name(self) -> &'static str {
                match self {
                    $(ServerEventKind::$variant => $name,)*
                    ServerEventKind::Unknown => "unknown",
                }
            }
        }
    };
}

kinds! {
    /// A temporary file was removed. The size is the number of bytes written to it (`log_temp_files`).
    TemporaryFile = "temporary_file",
    /// A process has been waiting for a lock for longer than `deadlock_timeout` (`log_lock_waits`).
    LockWait = "lock_wait",
    /// A process acquired a lock after such a wait.
    LockAcquired = "lock_acquired",
    /// A process failed to acquire a lock after such a wait.
    LockFailed = "lock_failed",
    /// A statement was cancelled to resolve a deadlock.
    Deadlock = "deadlock",
    /// A checkpoint or restartpoint begins.
    CheckpointStarting = "checkpoint_starting",
    /// A checkpoint or restartpoint is complete.
    Checkpoint = "checkpoint",
    /// Checkpoints follow each other faster than `checkpoint_warning`.
    CheckpointsTooFrequent = "checkpoints_too_frequent",
    /// Autovacuum vacuumed a table.
    Autovacuum = "autovacuum",
    /// Autovacuum analyzed a table.
    Autoanalyze = "autoanalyze",
    /// Autovacuum was cancelled because another session waited for its lock.
    AutovacuumCancelled = "autovacuum_cancelled",
    /// Autovacuum skipped a table because its lock was not available.
    AutovacuumSkipped = "autovacuum_skipped",
    /// A standby's replay waited for a query, or cancelled it.
    RecoveryConflict = "recovery_conflict",
    /// Memory or shared memory was exhausted (SQLSTATE 53200).
    OutOfMemory = "out_of_memory",
    /// A connection was refused because there were too many (SQLSTATE 53300).
    TooManyConnections = "too_many_connections",
    /// The disk was full (SQLSTATE 53100).
    DiskFull = "disk_full",
    /// WAL could not be archived.
    ArchivingFailed = "archiving_failed",
    /// A process of the server crashed, or was killed.
    Crash = "crash",
    /// The server recovers from a crash.
    Recovery = "recovery",
    /// The server starts.
    Starting = "starting",
    /// The server accepts connections.
    Ready = "ready",
    /// The server received a request to stop.
    Stopping = "stopping",
    /// The server has stopped.
    Stopped = "stopped",
    /// The server reloaded its configuration.
    Reload = "reload",
    /// A message of severity WARNING, ERROR, FATAL or PANIC. An error that is also an event of another kind has
    /// an event of each.
    Message = "message",
    /// A session ended. The duration is the session's, as the server logged it (`log_disconnections`).
    SessionEnd = "session_end",
}

/// Severity of a message (PostgreSQL documentation, 20.8.2).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MessageSeverity {
    /// A possible problem; the statement continues.
    Warning,
    /// The statement failed.
    Error,
    /// The session ended.
    Fatal,
    /// All sessions ended.
    Panic,
}

impl MessageSeverity {
    const ALL: [MessageSeverity; 4] = [
        MessageSeverity::Warning,
        MessageSeverity::Error,
        MessageSeverity::Fatal,
        MessageSeverity::Panic,
    ];

    /// Word that the server writes.
    pub fn name(self) -> &'static str {
        match self {
            MessageSeverity::Warning => "WARNING",
            MessageSeverity::Error => "ERROR",
            MessageSeverity::Fatal => "FATAL",
            MessageSeverity::Panic => "PANIC",
        }
    }

    /// Returns the severity with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

impl ServerEventKind {
    /// Returns the kind stored under `name`, or [`Self::Unknown`].
    pub fn from_name(name: &str) -> Self {
        let mut all = Self::ALL.iter().copied();
        all.find(|kind| kind.name() == name).unwrap_or_default()
    }

    /// Returns whether it is the server's own activity, not a message about a statement or a session's end.
    pub fn is_activity(self) -> bool {
        !matches!(self, Self::Message | Self::SessionEnd)
    }

    /// Returns whether its subject is a message of the server, which a function can write with values in it.
    pub fn may_hold_values(self) -> bool {
        matches!(
            self,
            Self::OutOfMemory
                | Self::TooManyConnections
                | Self::DiskFull
                | Self::RecoveryConflict
                | Self::ArchivingFailed
        )
    }
}

impl ServerEvent {
    /// Estimates the memory of the event, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let text = |text: &Option<Box<str>>| text.as_ref().map_or(0, |text| text.len());
        size_of::<Self>()
            + text(&self.subject)
            + text(&self.holders)
            + text(&self.message)
            + self.sql.as_ref().map_or(0, |sql| sql.len())
    }
}

/// Columns of `server-events`.
pub(crate) const SERVER_EVENT: &[Column] = &[
    Column::required("at_us", I64),
    Column::required("kind", Text),
    Column::nullable("pid", U32),
    Column::nullable("session", U64),
    Column::nullable("subject", Text),
    Column::nullable("fingerprint", U64),
    Column::nullable("sql", Text),
    Column::nullable("duration_us", U64),
    Column::nullable("write_us", U64),
    Column::nullable("sync_us", U64),
    Column::nullable("bytes", U64),
    Column::nullable("buffers", U64),
    Column::nullable("index_scans", U64),
    Column::nullable("tuples_removed", U64),
    Column::nullable("tuples_remain", U64),
    Column::nullable("tuples_dead", U64),
    Column::nullable("holders", Text),
    Column::required("source", U32),
    Column::required("line", U64),
    // Null in workloads of earlier versions.
    Column::nullable("severity", Text),
    Column::nullable("sqlstate", Text),
    Column::nullable("message", Text),
];

pub(crate) fn write_server_event(
    table: &mut TableWriter,
    event: &ServerEvent,
    at_us: i64,
    fingerprint: Option<Fingerprint>,
) -> Result<(), ArchiveError> {
    table.i64(at_us);
    table.text(event.kind.name());
    table.u32(event.pid);
    table.u64(event.session);
    table.text(event.subject.as_deref());
    table.u64(fingerprint.map(|fingerprint| fingerprint.0));
    table.text(event.sql.as_deref());
    for number in [
        event.duration_us,
        event.write_us,
        event.sync_us,
        event.bytes,
        event.buffers,
        event.index_scans,
        event.tuples_removed,
        event.tuples_remain,
        event.tuples_dead,
    ] {
        table.u64(number);
    }
    table.text(event.holders.as_deref());
    table.u32(event.source);
    table.u64(event.line);
    table.text(event.severity.map(MessageSeverity::name));
    table.text(event.sqlstate.as_ref().map(Sqlstate::as_str));
    table.text(event.message.as_deref());
    table.end_row()
}

pub(crate) fn read_server_event(batch: &Batch, row: usize) -> (ServerEvent, Option<Fingerprint>) {
    let text = |column| batch.text(column, row);
    let number = |column| batch.u64(column, row);
    let event = ServerEvent {
        at_us: batch.i64(0, row).unwrap_or_default(),
        kind: ServerEventKind::from_name(text(1).unwrap_or_default()),
        pid: batch.u32(2, row),
        session: number(3),
        subject: text(4).map(Box::from),
        sql: text(6).map(Arc::from),
        duration_us: number(7),
        write_us: number(8),
        sync_us: number(9),
        bytes: number(10),
        buffers: number(11),
        index_scans: number(12),
        tuples_removed: number(13),
        tuples_remain: number(14),
        tuples_dead: number(15),
        holders: text(16).map(Box::from),
        source: batch.u32(17, row).unwrap_or_default(),
        line: number(18).unwrap_or_default(),
        severity: text(19).and_then(MessageSeverity::from_name),
        sqlstate: text(20).and_then(Sqlstate::parse),
        message: text(21).map(Box::from),
    };
    (event, number(5).map(Fingerprint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for kind in ServerEventKind::ALL {
            assert_eq!(ServerEventKind::from_name(kind.name()), *kind);
        }
        assert_eq!(
            ServerEventKind::from_name("of tomorrow"),
            ServerEventKind::Unknown
        );
        for severity in MessageSeverity::ALL {
            assert_eq!(MessageSeverity::from_name(severity.name()), Some(severity));
        }
    }
}
