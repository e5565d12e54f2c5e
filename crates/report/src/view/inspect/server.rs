//! What the server did, as it is shown.

use std::collections::BTreeMap;

use analyse::{Inspection, ServerActivity};
use schemars::JsonSchema;
use serde::Serialize;
use workload::ServerEventKind as Kind;

use super::statement::source;

/// What the server did beside its clients' statements, as far as the log says.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct ServerView {
    /// Everything that is known.
    pub count: u64,
    /// By kind; they add up to the count.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Temporary files (`log_temp_files`).
    pub temporary_files: u64,
    /// Their bytes.
    pub temporary_bytes: u64,
    /// The largest.
    pub temporary_bytes_max: u64,
    /// Waits for locks longer than `deadlock_timeout` (`log_lock_waits`).
    pub lock_waits: u64,
    /// The time of those that ended.
    pub lock_waited_us: u64,
    /// The longest.
    pub lock_longest: Option<LockWaitView>,
    /// Deadlocks.
    pub deadlocks: u64,
    /// Checkpoints and restartpoints (`log_checkpoints`).
    pub checkpoints: CheckpointsView,
    /// What autovacuum did (`log_autovacuum_min_duration`), by table, the most time first.
    pub autovacuum: Vec<TableUpkeepView>,
    /// Crashes, restarts and other rare things one by one, the first 100.
    pub notable: Vec<NotableView>,
}

/// One wait for a lock.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct LockWaitView {
    /// How long.
    pub waited_us: u64,
    /// The lock, and what it is on.
    pub lock: String,
    /// When it was logged, from the workload's start.
    pub at_us: i64,
    /// The file.
    pub source: String,
    /// The line.
    pub line: u64,
}

/// Checkpoints and restartpoints.
#[derive(Debug, Clone, Default, PartialEq, JsonSchema, Serialize)]
pub struct CheckpointsView {
    /// Those that were completed.
    pub completed: u64,
    /// How many were begun for what.
    pub causes: BTreeMap<String, u64>,
    /// How often the server said that they come too fast.
    pub too_frequent: u64,
    /// Their time in all.
    pub total_us: u64,
    /// The part in which buffers were written.
    pub write_us: u64,
    /// The part in which files were synced.
    pub sync_us: u64,
    /// The longest.
    pub longest_us: u64,
    /// Buffers written.
    pub buffers: u64,
    /// WAL between them.
    pub wal_bytes: u64,
}

/// What autovacuum did to one table.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct TableUpkeepView {
    /// Database, schema and table.
    pub table: String,
    /// Times vacuumed.
    pub vacuums: u64,
    /// Times analyzed.
    pub analyzes: u64,
    /// Times cancelled or left out, for a lock.
    pub hindered: u64,
    /// The time of both.
    pub total_us: u64,
    /// Dead row versions removed.
    pub tuples_removed: u64,
    /// Dead row versions that could not be removed, the last time.
    pub tuples_dead: u64,
    /// Scans of its indexes.
    pub index_scans: u64,
}

/// One rare thing.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct NotableView {
    /// When, from the workload's start.
    pub at_us: i64,
    /// What.
    pub kind: &'static str,
    /// The server's words, or what it is about; may be empty.
    pub subject: String,
    /// The session, where there is one.
    pub session: Option<u64>,
    /// The file.
    pub source: String,
    /// The line.
    pub line: u64,
}

impl ServerView {
    pub(super) fn new(inspection: &Inspection) -> Self {
        let server = &inspection.server;
        let sources = &inspection.sources;
        let mut autovacuum: Vec<TableUpkeepView> = server
            .tables
            .iter()
            .map(|(name, table)| TableUpkeepView {
                table: name.to_string(),
                vacuums: table.vacuums,
                analyzes: table.analyzes,
                hindered: table.hindered,
                total_us: table.time_us,
                tuples_removed: table.tuples_removed,
                tuples_dead: table.tuples_dead,
                index_scans: table.index_scans,
            })
            .collect();
        autovacuum.sort_by_key(|table| std::cmp::Reverse(table.total_us));
        Self {
            count: server.count,
            kinds: server
                .kinds
                .iter()
                .map(|(kind, count)| (kind.name(), *count))
                .collect(),
            temporary_files: server.of(Kind::TemporaryFile),
            temporary_bytes: server.temporary_bytes,
            temporary_bytes_max: server.temporary_bytes_max,
            lock_waits: server.of(Kind::LockWait),
            lock_waited_us: server.lock_waited_us,
            lock_longest: server.lock_longest.as_ref().map(|longest| LockWaitView {
                waited_us: longest.waited_us,
                lock: longest.subject.clone(),
                at_us: longest.at_us,
                source: source(sources, longest.place.0),
                line: longest.place.1,
            }),
            deadlocks: server.of(Kind::Deadlock),
            checkpoints: checkpoints(server),
            autovacuum,
            notable: server
                .notable
                .iter()
                .map(|one| NotableView {
                    at_us: one.at_us,
                    kind: one.kind.name(),
                    subject: one.subject.clone(),
                    session: one.session,
                    source: source(sources, one.place.0),
                    line: one.place.1,
                })
                .collect(),
        }
    }
}

fn checkpoints(server: &ServerActivity) -> CheckpointsView {
    let checkpoints = &server.checkpoints;
    CheckpointsView {
        completed: server.of(Kind::Checkpoint),
        causes: checkpoints
            .causes
            .iter()
            .map(|(cause, count)| (cause.to_string(), *count))
            .collect(),
        too_frequent: server.of(Kind::CheckpointsTooFrequent),
        total_us: checkpoints.total_us,
        write_us: checkpoints.write_us,
        sync_us: checkpoints.sync_us,
        longest_us: checkpoints.longest_us,
        buffers: checkpoints.buffers,
        wal_bytes: checkpoints.wal_bytes,
    }
}
