//! Division of a replay among several workers: the description of the division, and the state of each part.
//!
//! The run of such a replay is a directory with `shards.json` and a part for each worker, `part-I`. A part is a run. One
//! that was resumed is `part-I-resumed-K`, and the last of these counts.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::WorkloadRef;

/// Name of the description in the directory of the run.
pub const SHARDS_FILE: &str = "shards.json";
/// Version of the description's format.
pub const SHARDS_FORMAT: u32 = 1;
/// Option of a part: its number and the number of shards, `3/8`.
pub const SHARD_OPTION: &str = "shard";
/// Option of a part: the name of the worker in [`Shard`]. It tells the part from one of another replay with the same name.
pub const WORKER_OPTION: &str = "shard_worker";
/// Option of a part, and of a run of parts: [`ShardDivision`] in words.
pub const DIVISION_OPTION: &str = "sharded_by";
/// Option of a run of parts that is not complete: the shards, and the number of their sessions that are incomplete.
pub const INCOMPLETE_SHARDS_OPTION: &str = "shards_incomplete";
/// Largest description that is read.
pub const SHARDS_BYTES_MAX: u64 = 16 << 20;
/// Most sessions of a shard whose numbers are in the description.
pub const NAMED_SESSIONS_MAX: usize = 100;

/// Rule by which sessions are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum ShardDivision {
    /// Hash of the session's number.
    Sessions,
    /// Groups of sessions that depend on each other.
    Dependencies {
        /// Number of groups.
        groups: u64,
        /// Statements of the largest group.
        largest_group_statements: u64,
    },
}

impl ShardDivision {
    /// Returns the name under which the option of a run has it.
    pub fn name(self) -> &'static str {
        match self {
            ShardDivision::Sessions => "sessions",
            ShardDivision::Dependencies { .. } => "dependencies",
        }
    }
}

/// Description of a run of parts. It is written once, when all workers are ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardPlan {
    /// [`SHARDS_FORMAT`].
    pub format: u32,
    /// Workload, with the number of statements of all shards.
    pub workload: WorkloadRef,
    /// Division of the sessions.
    pub division: ShardDivision,
    /// Start of the replay on the target's clock, in microseconds since 1970-01-01 UTC.
    pub start_us: i64,
    /// The shards, by number.
    pub shards: Vec<Shard>,
}

/// One shard of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shard {
    /// Random name of the worker's process.
    pub worker: String,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of statements.
    pub statements: u64,
    /// Numbers of its first sessions, at most [`NAMED_SESSIONS_MAX`].
    pub first_sessions: Vec<u64>,
    /// Uncertainty of the worker's measurement of the target's clock, in microseconds: half of the shortest round trip.
    pub clock_uncertainty_us: f64,
}

/// State of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    /// Its replay reached its end.
    Complete,
    /// Its replay was stopped.
    Stopped,
    /// Its replay was killed, and the part was recovered from the data on disk.
    Recovered,
    /// A process is writing it.
    BeingWritten,
    /// Its replay was killed, and the part was not recovered yet.
    Unfinished,
    /// It does not exist.
    Missing,
}

impl PartState {
    /// Describes the state, as a predicate of the shard.
    pub fn explanation(self) -> &'static str {
        match self {
            PartState::Complete => "is complete",
            PartState::Stopped => "was stopped",
            PartState::Recovered => "was killed, and is recovered in part",
            PartState::BeingWritten => "is being replayed",
            PartState::Unfinished => "was killed, and its part is not recovered",
            PartState::Missing => "has no part",
        }
    }
}

/// Shards of a run of parts, and what is there of each.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShardAccount {
    /// Division of the sessions.
    pub division: ShardDivision,
    /// Start of the replay on the target's clock, in microseconds since 1970-01-01 UTC.
    pub start_us: i64,
    /// Largest uncertainty of a worker's measurement of that clock, in microseconds.
    pub clock_uncertainty_max_us: f64,
    /// The shards, by number.
    pub shards: Vec<ShardState>,
}

/// A shard, and what is there of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShardState {
    /// Number of the shard, from 0.
    pub number: u64,
    /// State of its part.
    pub state: PartState,
    /// Number of its sessions.
    pub sessions: u64,
    /// Number of its statements.
    pub statements: u64,
    /// Statements that its part does not have, or that were not reached before a stop.
    pub missing_statements: u64,
    /// Sessions whose end its part does not have; 0 if it is complete.
    pub incomplete_sessions: u64,
    /// Numbers of the first of these.
    pub first_incomplete_sessions: Vec<u64>,
}

impl ShardAccount {
    /// Returns the shards whose parts are not complete.
    pub fn incomplete(&self) -> impl Iterator<Item = &ShardState> {
        let shards = self.shards.iter();
        shards.filter(|shard| shard.state != PartState::Complete)
    }

    /// Describes the shards that are not complete; `None` if all are.
    pub(crate) fn describe_incomplete(&self) -> Option<String> {
        let numbers: Vec<String> = (self.incomplete())
            .map(|shard| shard.number.to_string())
            .collect();
        let sessions: u64 = self
            .incomplete()
            .map(|shard| shard.incomplete_sessions)
            .sum();
        let (all, listed) = (self.shards.len(), numbers.join(" and "));
        (!numbers.is_empty()).then(|| format!("{listed} of {all} ({sessions} sessions)"))
    }
}

/// Returns the path of a shard's part.
pub fn part_path(run: &Path, number: u64) -> PathBuf {
    run.join(format!("part-{number}"))
}

/// Returns the path of a part that was resumed for the `attempt`th time, from 1.
pub fn resumed_part_path(run: &Path, number: u64, attempt: u32) -> PathBuf {
    run.join(format!("part-{number}-resumed-{attempt}"))
}
