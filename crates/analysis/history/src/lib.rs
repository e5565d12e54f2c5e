//! History of runs of one workload: the numbers of each run that decide verdicts, statement by statement.
//!
//! [`Store`] keeps them in a directory, one small Parquet table a run. [`History::new`] arranges them as
//! trends, and [`to_csv`] writes them for programs that look for change points.

mod csv;
mod numbers;
mod store;
mod trend;

use schemars::JsonSchema;
use serde::Serialize;

pub use csv::to_csv;
pub use numbers::{RunNumbers, StatementNumbers};
pub use store::{Added, HistoryError, Store};
pub use trend::{Measure, Trend};

/// Runs of a workload, and the trends of its statements.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct History {
    /// Name of the workload; empty without runs.
    pub workload: String,
    /// Speed of the replays, as given.
    pub speed: String,
    /// Runs, the earliest first.
    pub runs: Vec<HistoryRun>,
    /// Trends: of all statements, then of those that took the most time in the last run.
    pub trends: Vec<Trend>,
}

/// A run in a history.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HistoryRun {
    /// Id of the run.
    pub run: String,
    /// Wall-clock time of its start, in microseconds since 1970.
    pub started_us: i64,
    /// Label from the user; may be empty.
    pub label: String,
    /// Version of the server.
    pub server_version: String,
    /// Number of executions that succeeded.
    pub done: u64,
    /// Number of executions that failed.
    pub failed: u64,
}

impl History {
    /// Arranges runs, which are in the order of their start, with the trends of this number of statements.
    pub fn new(runs: &[RunNumbers], statements_max: usize) -> Self {
        let last = runs.last();
        let of_run = |run: &RunNumbers| {
            let all = run.statements.first();
            HistoryRun {
                run: run.run.clone(),
                started_us: run.started_us,
                label: run.label.clone(),
                server_version: run.server_version.clone(),
                done: all.map_or(0, |all| all.done),
                failed: all.map_or(0, |all| all.failed),
            }
        };
        History {
            workload: last.map_or(String::new(), |run| run.workload.clone()),
            speed: last.map_or(String::new(), |run| run.speed.clone()),
            runs: runs.iter().map(of_run).collect(),
            trends: trend::find_trends(runs, statements_max),
        }
    }
}
