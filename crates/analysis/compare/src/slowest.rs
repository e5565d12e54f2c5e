//! Slowest executions of a statement, so that a user can find them in the run and in the workload's
//! source.

use run::Execution;
use schemars::JsonSchema;
use serde::Serialize;
use sql::TraceParent;

/// Maximum number of executions kept for each statement and run.
pub const SLOWEST_MAX: usize = 3;

/// Slow execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SlowExecution {
    /// Number of the session in the run.
    pub session: u64,
    /// Sequence of the event in the session.
    pub sequence: u64,
    /// Due time, in nanoseconds from the replay's start.
    pub due_ns: i64,
    /// Service time (sent → done), in nanoseconds.
    pub service_ns: i64,
    /// Response time (due → done), in nanoseconds.
    pub response_ns: i64,
    /// Rows returned or affected.
    pub rows: u64,
    /// Its trace, if a comment names one.
    #[schemars(with = "Option<String>")]
    pub traceparent: Option<TraceParent>,
}

/// Slowest executions so far, unordered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slowest {
    executions: Vec<SlowExecution>,
}

impl Slowest {
    /// Keeps the execution if it is among the slowest.
    pub(crate) fn offer(&mut self, execution: &Execution, service_ns: i64) {
        let place = if self.executions.len() < SLOWEST_MAX {
            None
        } else {
            let fastest =
                (0..self.executions.len()).min_by_key(|at| self.executions[*at].service_ns);
            match fastest {
                Some(at) if self.executions[at].service_ns < service_ns => Some(at),
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
            traceparent: execution.captured.trace,
        };
        match place {
            Some(at) => self.executions[at] = slow,
            None => self.executions.push(slow),
        }
    }

    pub(crate) fn executions(&self) -> &[SlowExecution] {
        &self.executions
    }
}

/// Returns the slowest executions of several runs, in descending order.
pub(crate) fn slowest<'a>(runs: impl Iterator<Item = &'a Slowest>) -> Vec<SlowExecution> {
    let mut all: Vec<SlowExecution> = runs.flat_map(|one| one.executions()).copied().collect();
    all.sort_by_key(|one| (std::cmp::Reverse(one.service_ns), one.session, one.sequence));
    all.truncate(SLOWEST_MAX);
    all
}
