//! Recognises events with identifiers that only the captured server knew: a process id of the capture may be that of
//! an innocent session now, and its snapshots do not exist.

use std::sync::Arc;

use run::SkipReason;
use sql::CapturedIdentifier;
use workload::EventKind;

/// OIDs of `pg_terminate_backend` and `pg_cancel_backend` (`pg_proc.dat`).
const SIGNAL_OIDS: [&str; 2] = ["2096", "2171"];

/// Returns why an event that uses such an identifier is not sent. `find` finds the one of a text.
pub(crate) fn unknown_identifier(
    kind: &EventKind,
    find: impl FnOnce(&EventKind, &Arc<str>) -> Option<CapturedIdentifier>,
) -> Option<SkipReason> {
    let found = match kind {
        EventKind::Simple { sql } | EventKind::Execute { sql, .. } => find(kind, sql),
        EventKind::FunctionCall { function, .. } if SIGNAL_OIDS.contains(&&**function) => {
            Some(CapturedIdentifier::Process)
        }
        // Others run nothing: the statement or portal that they name was not sent.
        EventKind::FunctionCall { .. }
        | EventKind::Connect { .. }
        | EventKind::Prepare { .. }
        | EventKind::Fetch { .. }
        | EventKind::Cancel
        | EventKind::Disconnect => None,
    };
    found.map(|identifier| match identifier {
        CapturedIdentifier::Process => SkipReason::ProcessUnknown,
        CapturedIdentifier::Snapshot => SkipReason::SnapshotUnknown,
    })
}
