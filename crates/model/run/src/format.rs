//! What a run's manifest says, beside the list of its files.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The manifest's kind.
pub const KIND: &str = "run";

/// The version of the format that this build writes. A reader refuses a higher one.
/// 2: executions have the columns `captured_source` and `captured_line`, and the manifest names the
/// sources; without them, as in format 1, no place is known.
/// 3: executions have the columns `result_digest` and `captured_result_digest`.
/// 4: there may be tables of what is known of the target, and of plans; without them nothing is.
/// 5: there may be tables of what was observed meanwhile; a run without executions is of an observation
/// alone, and its workload has no id; and there may be tables of evidence.
pub const FORMAT: u32 = 5;

/// The manifest's own part of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Whether the replay reached its end.
    pub status: RunStatus,
    /// What was replayed.
    pub workload: WorkloadRef,
    /// Against what.
    pub target: TargetInfo,
    /// Options that shaped the replay, by name, as they were understood (`speed`: `1.5`).
    pub options: BTreeMap<String, String>,
    /// When it started, in microseconds since 1970-01-01 UTC.
    pub started_wall_us: i64,
    /// From the replay's start to the last event done, in nanoseconds.
    pub elapsed_ns: i64,
    /// From the replay's start to the last event *due*, in nanoseconds: the captured span
    /// divided by the speed.
    pub span_due_ns: i64,
    /// From the replay's start to the last event sent, in nanoseconds.
    pub span_sent_ns: i64,
    /// Statements in this run: done + failed + skipped.
    pub statements: u64,
    /// Statements that the server did.
    pub done: u64,
    /// Statements that failed, by SQLSTATE.
    pub failed: BTreeMap<String, u64>,
    /// Statements that were never sent, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Sessions whose connection could not be opened, by SQLSTATE.
    pub connections_failed: BTreeMap<String, u64>,
    /// Connections that went without the workload's wish, by SQLSTATE.
    #[serde(default)]
    pub connections_lost: BTreeMap<String, u64>,
    /// Of these, how many were opened again.
    #[serde(default)]
    pub connections_reopened: u64,
    /// Why the replay gave the target up, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<String>,
}

impl RunInfo {
    /// Of a server that is watched from `started_wall_us` (microseconds since 1970-01-01 UTC), while
    /// nothing is replayed: no workload, and nothing counted yet.
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
        }
    }

    /// Whether nothing was replayed: a server was watched, and that is all.
    pub fn is_observation(&self) -> bool {
        self.workload.id.is_empty()
    }
}

/// Whether a replay reached its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It did.
    Complete,
    /// It was stopped; what was not sent is in the run as skipped, with the reason `stopped`.
    Stopped,
    /// It was killed, and recovered from what was on disk; the rest is missing.
    Recovered,
}

impl RunStatus {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            RunStatus::Complete => "complete",
            RunStatus::Stopped => "stopped",
            RunStatus::Recovered => "recovered",
        }
    }
}

/// Which workload was replayed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadRef {
    /// The directory's name as the user gave it.
    pub name: String,
    /// The workload's id, from its manifest.
    pub id: String,
    /// Statements of it to be replayed: those in it, times its copies (`--scale`, `--repeat`).
    pub statements: u64,
    /// Its sources as the user named them; [`crate::Place::source`] points in here.
    #[serde(default)]
    pub sources: Vec<String>,
    /// It is of a source that names every failure, so that what has none succeeded: a log. Runs of
    /// format 1 are of logs.
    #[serde(default = "of_a_log")]
    pub failures_named: bool,
}

fn of_a_log() -> bool {
    true
}

/// Which server it was replayed against.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetInfo {
    /// Host and port, or the socket's directory and port. Never a password.
    pub address: String,
    /// `server_version` as the server reports it at connect; empty if nothing connected.
    pub server_version: String,
    /// The encodings of databases that sessions logged in to, by their names, where they are not UTF8.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub encodings: BTreeMap<String, String>,
}
