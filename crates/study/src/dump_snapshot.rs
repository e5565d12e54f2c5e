//! Finds the moment of the snapshot of a `pg_dump` that a workload contains.
//!
//! `pg_dump` begins a transaction with `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY` (`setup_connection` in
//! pg_dump.c). Its next query takes the snapshot. A worker of `-j` imports the snapshot of the first connection
//! (`SET TRANSACTION SNAPSHOT`), and so does `--snapshot`.

use std::collections::{HashMap, HashSet};

use workload::{ArchiveError, EventKind, WorkloadReader};

/// Application name that pg_dump sends.
pub const PG_DUMP: &str = "pg_dump";

/// Snapshot of a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpSnapshot {
    /// Time at which the query that takes it was sent, in microseconds since 1970-01-01 UTC.
    pub wall_us: i64,
    /// Database.
    pub database: String,
}

/// Returns the snapshots of all dumps, in time order. If the capture does not know the applications of sessions, any
/// session that begins as pg_dump does is one.
///
/// # Errors
/// If the workload cannot be read.
pub fn find_dump_snapshots(reader: &WorkloadReader) -> Result<Vec<DumpSnapshot>, ArchiveError> {
    let start_us = reader.info().provenance.start_wall_us;
    let mut databases: HashMap<u64, String> = HashMap::new();
    // Sessions whose next query takes the snapshot.
    let mut waiting: HashSet<u64> = HashSet::new();
    let mut found = Vec::new();
    for event in reader.events()? {
        let (event, _) = event?;
        let session = event.session;
        match &event.kind {
            EventKind::Connect {
                database,
                application,
                ..
            } if application.is_empty() || &**application == PG_DUMP => {
                databases.insert(session, database.to_string());
            }
            EventKind::Disconnect => {
                databases.remove(&session);
                waiting.remove(&session);
            }
            EventKind::Simple { sql } if databases.contains_key(&session) => {
                let sql = sql.trim_start().to_uppercase();
                if sql.starts_with("SET TRANSACTION ISOLATION LEVEL") && sql.contains("READ ONLY") {
                    waiting.insert(session);
                } else if sql.starts_with("SET TRANSACTION SNAPSHOT") {
                    waiting.remove(&session);
                } else if !sql.starts_with("SET ") && waiting.remove(&session) {
                    found.push(DumpSnapshot {
                        wall_us: start_us + event.due_us,
                        database: databases.remove(&session).unwrap_or_default(),
                    });
                }
            }
            _ => {}
        }
    }
    Ok(found)
}
