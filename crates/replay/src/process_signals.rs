//! Keeps a replay from terminating or cancelling an innocent session: a process id of the capture may be that of
//! another session now.

use sql::signals_process;
use workload::EventKind;

/// OIDs of `pg_terminate_backend` and `pg_cancel_backend` (`pg_proc.dat`).
const FUNCTION_OIDS: [&str; 2] = ["2096", "2171"];

/// Returns whether an event runs a statement that terminates or cancels another session.
pub(crate) fn is_process_signal(kind: &EventKind) -> bool {
    match kind {
        EventKind::Simple { sql } | EventKind::Execute { sql, .. } => signals_process(sql),
        EventKind::FunctionCall { function, .. } => FUNCTION_OIDS.contains(&&**function),
        // They run nothing: the statement or portal that they name was not sent.
        EventKind::Connect { .. }
        | EventKind::Prepare { .. }
        | EventKind::Fetch { .. }
        | EventKind::Cancel
        | EventKind::Disconnect => false,
    }
}
