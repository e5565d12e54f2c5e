//! Recognises events with identifiers that only the captured server knew: a process id of the capture may be that of
//! an innocent session now, and its snapshots do not exist.

use run::SkipReason;
use sql::{imports_snapshot, signals_process};
use workload::EventKind;

/// OIDs of `pg_terminate_backend` and `pg_cancel_backend` (`pg_proc.dat`).
const SIGNAL_OIDS: [&str; 2] = ["2096", "2171"];

/// Returns why an event that uses such an identifier is not sent.
pub(crate) fn unknown_identifier(kind: &EventKind) -> Option<SkipReason> {
    match kind {
        EventKind::Simple { sql } | EventKind::Execute { sql, .. } if signals_process(sql) => {
            Some(SkipReason::ProcessUnknown)
        }
        EventKind::Simple { sql } | EventKind::Execute { sql, .. } if imports_snapshot(sql) => {
            Some(SkipReason::SnapshotUnknown)
        }
        EventKind::FunctionCall { function, .. } if SIGNAL_OIDS.contains(&&**function) => {
            Some(SkipReason::ProcessUnknown)
        }
        // Others run nothing: the statement or portal that they name was not sent.
        EventKind::Simple { .. }
        | EventKind::Execute { .. }
        | EventKind::FunctionCall { .. }
        | EventKind::Connect { .. }
        | EventKind::Prepare { .. }
        | EventKind::Fetch { .. }
        | EventKind::Cancel
        | EventKind::Disconnect => None,
    }
}
