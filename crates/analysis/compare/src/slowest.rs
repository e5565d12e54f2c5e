//! The slowest executions of a statement, so that a person can find them again in the run, and in
//! the source of the workload.

use run::Execution;
use schemars::JsonSchema;
use serde::Serialize;

/// So many are kept of each statement in each run.
pub const SLOWEST_MAX: usize = 3;

/// One execution that took long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SlowExecution {
    /// The session's number in the run.
    pub session: u64,
    /// The event's sequence in the session.
    pub sequence: u64,
    /// When it was due, in nanoseconds from the replay's start.
    pub due_ns: i64,
    /// Sent → done, in nanoseconds.
    pub service_ns: i64,
    /// Due → done, in nanoseconds.
    pub response_ns: i64,
    /// Rows returned or affected.
    pub rows: u64,
}

/// The slowest so far, in no order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slowest {
    kept: Vec<SlowExecution>,
}

impl Slowest {
    /// Keeps the execution if it is among the slowest.
    pub(crate) fn offer(&mut self, execution: &Execution, service_ns: i64) {
        let place = if self.kept.len() < SLOWEST_MAX {
            None
        } else {
            let fastest = (0..self.kept.len()).min_by_key(|at| self.kept[*at].service_ns);
            match fastest {
                Some(at) if self.kept[at].service_ns < service_ns => Some(at),
                _ => return,
            }
        };
        let slow = SlowExecution {
            session: execution.session,
            sequence: execution.sequence,
            due_ns: execution.due_ns,
            service_ns,
            response_ns: execution.response_ns().unwrap_or(service_ns),
            rows: execution.rows,
        };
        match place {
            Some(at) => self.kept[at] = slow,
            None => self.kept.push(slow),
        }
    }

    pub(crate) fn kept(&self) -> &[SlowExecution] {
        &self.kept
    }
}

/// The slowest of several runs, the slowest first.
pub(crate) fn slowest<'a>(runs: impl Iterator<Item = &'a Slowest>) -> Vec<SlowExecution> {
    let mut all: Vec<SlowExecution> = runs.flat_map(|one| one.kept()).copied().collect();
    all.sort_by_key(|one| (std::cmp::Reverse(one.service_ns), one.session, one.sequence));
    all.truncate(SLOWEST_MAX);
    all
}
