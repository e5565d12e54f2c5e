//! Failures that `replay --read-only` causes. They are no difference between servers, and are not compared.

use std::collections::{BTreeMap, HashSet};

use run::{Execution, Outcome, StatementKind};
use workload::Sqlstate;

/// SQLSTATE of a write in a read-only transaction (`read_only_sql_transaction`).
const REFUSED_WRITE: Sqlstate = Sqlstate(*b"25006");
/// SQLSTATE of a statement in a failed transaction (`in_failed_sql_transaction`).
const IN_FAILED_TRANSACTION: Sqlstate = Sqlstate(*b"25P02");
/// Option of the manifest of a run that was replayed with `--read-only` or `--read-only-role`.
const OPTION: &str = "read_only";

/// Finds the writes that a read-only replay made the server refuse, and the statements of their transactions that failed
/// after them. Executions of a session must come in order.
#[derive(Debug, Default)]
pub(crate) struct ReadOnlyRefusals {
    is_read_only: bool,
    /// Sessions whose last failure, since their last success, is a refused write.
    sessions: HashSet<u64>,
}

impl ReadOnlyRefusals {
    /// Creates a finder for a run that was replayed with these options. It finds nothing if the run is not read-only.
    pub(crate) fn of(options: &BTreeMap<String, String>) -> Self {
        Self {
            is_read_only: options.contains_key(OPTION),
            sessions: HashSet::new(),
        }
    }

    /// Adds an execution, and returns whether it failed only because the replay was read-only.
    pub(crate) fn add(&mut self, execution: &Execution) -> bool {
        if !self.is_read_only {
            return false;
        }
        let session = execution.session;
        let ends_session = matches!(
            execution.kind,
            StatementKind::Connect | StatementKind::Disconnect
        );
        match execution.outcome {
            _ if ends_session => {}
            Outcome::Skipped(_) => return false,
            Outcome::Failed(REFUSED_WRITE) if fails_otherwise(execution) => {
                self.sessions.insert(session);
                return true;
            }
            Outcome::Failed(IN_FAILED_TRANSACTION) => {
                return fails_otherwise(execution) && self.sessions.contains(&session);
            }
            Outcome::Done | Outcome::Failed(_) => {}
        }
        self.sessions.remove(&session);
        false
    }

    /// Whether an execution failed because an earlier failure, with the code `root`, was a refused write. A table is
    /// missing, for example, whose creation was refused.
    pub(crate) fn explains(&self, root: Option<Sqlstate>, execution: &Execution) -> bool {
        self.is_read_only && root == Some(REFUSED_WRITE) && fails_otherwise(execution)
    }
}

/// Whether an execution failed, and not with this code in the capture.
fn fails_otherwise(execution: &Execution) -> bool {
    match execution.outcome {
        Outcome::Failed(code) => execution.captured.sqlstate != Some(code),
        Outcome::Done | Outcome::Skipped(_) => false,
    }
}
