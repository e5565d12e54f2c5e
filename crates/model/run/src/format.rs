//! A run's part of the manifest, apart from the list of files.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine_load::MachineLoad;
use crate::series_gap::SeriesGap;
use crate::tool_stall::ToolStall;

/// Value of `kind` in the manifest.
pub const KIND: &str = "run";

/// Version of the format that this build writes. A reader refuses a higher one.
/// - 2: executions have the columns `captured_source` and `captured_line`, and the manifest names the
///   sources. Runs of format 1 have no source locations.
/// - 3: executions have the columns `result_digest` and `captured_result_digest`.
/// - 4: there may be tables of facts about the target, and of plans.
/// - 5: there may be tables of observations and of evidence. A run without executions is an observation
///   alone, and its workload has no id.
/// - 6: executions have the column `stalled_ns`, and the manifest has the stalls of the tool.
/// - 7: executions have the columns `context` and `traceparent`, and there may be tables of contexts
///   and of generated values.
/// - 8: executions may be skipped for `lag_limit`, and there may be a table of lost connections.
pub const FORMAT: u32 = 8;

/// A run's part of the manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Whether the replay reached its end.
    pub status: RunStatus,
    /// Workload that was replayed.
    pub workload: WorkloadRef,
    /// Target of the replay.
    pub target: TargetInfo,
    /// Options of the replay, by name, as parsed (`speed`: `1.5`).
    pub options: BTreeMap<String, String>,
    /// Start time, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
    /// Time from the replay's start to the last event done, in nanoseconds.
    pub elapsed_ns: i64,
    /// Time from the replay's start to the last event *due*, in nanoseconds: the captured span divided by the
    /// speed.
    pub span_due_ns: i64,
    /// Time from the replay's start to the last event sent, in nanoseconds.
    pub span_sent_ns: i64,
    /// Number of statements in this run: done + failed + skipped.
    pub statements: u64,
    /// Number of statements that succeeded.
    pub done: u64,
    /// Numbers of statements that failed, by SQLSTATE.
    pub failed: BTreeMap<String, u64>,
    /// Numbers of statements that were never sent, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Numbers of sessions whose connection could not be opened, by SQLSTATE.
    pub connections_failed: BTreeMap<String, u64>,
    /// Numbers of connections that ended without a disconnect of the workload, by SQLSTATE.
    #[serde(default)]
    pub connections_lost: BTreeMap<String, u64>,
    /// Number of these that were reopened.
    #[serde(default)]
    pub connections_reopened: u64,
    /// Reason why the replay gave up, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<String>,
    /// Stalls of the tool, ordered and disjoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_stalls: Vec<ToolStall>,
    /// Gaps of the series that was followed, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series_gaps: Vec<SeriesGap>,
    /// Load of the replaying machine, if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineLoad>,
}

impl RunInfo {
    /// Creates the information of an observation without a replay that starts at `started_wall_us`
    /// (microseconds since 1970-01-01 UTC). It has no workload, and its counts are zero.
    pub fn observation(
        target: TargetInfo,
        options: BTreeMap<String, String>,
        started_wall_us: i64,
    ) -> Self {
        RunInfo {
            status: RunStatus::Complete,
            workload: WorkloadRef::default(),
            target,
            options,
            started_wall_us,
            elapsed_ns: 0,
            span_due_ns: 0,
            span_sent_ns: 0,
            statements: 0,
            done: 0,
            failed: BTreeMap::new(),
            skipped: BTreeMap::new(),
            connections_failed: BTreeMap::new(),
            connections_lost: BTreeMap::new(),
            connections_reopened: 0,
            given_up: None,
            tool_stalls: Vec::new(),
            series_gaps: Vec::new(),
            machine: None,
        }
    }

    /// Whether it is an observation without a replay.
    pub fn is_observation(&self) -> bool {
        self.workload.id.is_empty()
    }
}

/// Whether a replay was completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The replay reached its end.
    Complete,
    /// The replay was stopped. Statements that were not sent are skipped with the reason `stopped`.
    Stopped,
    /// The replay was killed, and the run was recovered from the data on disk. The rest is missing.
    Recovered,
    /// The replay was divided among several workers, and a part is missing or did not reach its end.
    Incomplete,
}

impl RunStatus {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            RunStatus::Complete => "complete",
            RunStatus::Stopped => "stopped",
            RunStatus::Recovered => "recovered",
            RunStatus::Incomplete => "incomplete",
        }
    }
}

/// Workload that was replayed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadRef {
    /// Name of the directory as the user passed it.
    pub name: String,
    /// Id of the workload, from its manifest.
    pub id: String,
    /// Number of statements to replay: those of the workload, times its copies (`--copies`, `--loops`).
    pub statements: u64,
    /// Sources as the user named them. [`crate::SourceLocation::source`] is an index into them.
    #[serde(default)]
    pub sources: Vec<String>,
    /// The source is a log, which names every failure, so a statement without an error succeeded. Runs of
    /// format 1 are of logs.
    #[serde(default = "of_a_log")]
    pub failures_named: bool,
}

fn of_a_log() -> bool {
    true
}

/// Option of a replay in pairs: the number of its pair, from 1.
pub const PAIR_OPTION: &str = "pair";
/// Option of a replay in pairs: its side, `before` or `after`.
pub const PAIR_SIDE_OPTION: &str = "side";
/// Option of a replay in pairs: the seed of the order.
pub const PAIR_SEED_OPTION: &str = "order_seed";

/// Server of the replay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetInfo {
    /// Host and port, or the socket's directory and port. Never a password.
    pub address: String,
    /// `server_version` as the server reports it at connect; empty if nothing connected.
    pub server_version: String,
    /// Encodings of databases that sessions logged in to, by database, if they are not UTF8.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub encodings: BTreeMap<String, String>,
}
