//! A proof as the user requests it.

use std::path::PathBuf;
use std::time::Duration;

use compare::proof::Goal;
use replay::{Options, Target};

use crate::environment::NewServerRequest;

/// Request of a proof. The changes are separate.
#[derive(Debug, Clone)]
pub struct ProofRequest {
    /// Directory to write.
    pub output: PathBuf,
    /// Whether to resume a proof that was stopped or killed.
    pub resume: bool,
    /// Goal and time budget.
    pub goal: ProofGoal,
    /// Server to measure on.
    pub place: ProofPlace,
    /// Options of every replay.
    pub replay: Options,
    /// Options of the sessions by name, for the manifest.
    pub session_options: Vec<(&'static str, Option<String>)>,
}

/// Goal and time budget of a proof.
#[derive(Debug, Clone)]
pub struct ProofGoal {
    /// Number that is to improve.
    pub goal: Goal,
    /// Share up to which differences are ignored: 0.05 is 5 %.
    pub margin: f64,
    /// Time for all runs.
    pub time_budget: Duration,
    /// Whether a resumed proof may have another time.
    pub can_change_time: bool,
    /// Whether a time that is too short for a verdict ends the proof after the first run, and is no failure.
    pub ends_if_too_short: bool,
    /// Whether replays continue with all blocks that there is time for, although the verdict is clear: more runs judge more
    /// statements. A harmful change ends them.
    pub uses_all_time: bool,
    /// Largest number of blocks.
    pub blocks: u32,
    /// Number of runs without changes before the first block.
    pub noise_runs: u32,
    /// Seed of the order of runs; random if it is `None`.
    pub seed: Option<u64>,
}

/// Server of a proof, and how its data are restored.
#[derive(Debug, Clone, Default)]
pub struct ProofPlace {
    /// Name of a private server.
    pub sandbox: Option<String>,
    /// Whether the runs are on a copy of the private server, which is deleted at the end.
    pub copies_sandbox: bool,
    /// Whether roles that can execute programs or access files of the private server are refused.
    pub refuses_privileged_roles: bool,
    /// URL of any other server.
    pub target: Option<String>,
    /// Address of the target, if the user confirmed that it may be the captured server.
    pub allow_captured_server: Option<String>,
    /// Shell command that restores the data of the target.
    pub restore: Option<String>,
    /// Database from which that of the target is created before each run.
    pub template: Option<String>,
    /// Whether each run finds the data that the previous one left.
    pub no_restore: bool,
    /// Database in which a sandbox is changed.
    pub database: Option<String>,
    /// Name of the servers; without one, their addresses. A resumed proof must have the same.
    pub name: Option<String>,
    /// Other server of the user, for [`crate::proof::Change::Target`]. Its data are restored as those of `target`.
    pub other_target: Option<Target>,
    /// Server of another version, for changes of the version.
    pub new_server: Option<NewServerRequest>,
}
