//! Options of `rehearse indexes`.

use std::path::PathBuf;

use clap::Args;

use super::prove::{GoalArgs, SandboxPlaceArgs};

/// Options of `rehearse indexes`.
#[derive(Debug, Args)]
pub struct Indexes {
    /// Suggest indexes for this workload, which is first replayed once, or for a run of it with
    /// plans (--explain). Given a finished NAME.proof, show it again.
    #[arg(value_name = "NAME.workload|NAME.run|NAME.proof")]
    pub of: PathBuf,
    /// Replay this workload for the measurement, if a run is given.
    #[arg(long, value_name = "NAME.workload")]
    pub workload: Option<PathBuf>,
    /// Write to this directory, NAME.proof: the candidates, the plan, every run with its
    /// numbers, and pages.
    #[arg(short, long, value_name = "NAME.proof")]
    pub output: Option<PathBuf>,
    /// Resume measurements that were stopped or killed. Give the same options.
    #[arg(long)]
    pub resume: bool,
    /// Measure at most this many candidates.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub max_candidates: u32,
    /// Build each candidate briefly to obtain its plans, even if the server has HypoPG.
    #[arg(long)]
    pub no_hypopg: bool,
    /// Set a threshold of `rehearse diagnose`: NAME=VALUE. warning-share and missing-index-rows
    /// select statements and tables. Repeatable.
    #[arg(long, value_name = "NAME=VALUE")]
    pub threshold: Vec<String>,
    /// Print the result as JSON, as `rehearse schema prove` describes it.
    #[arg(long)]
    pub json: bool,
    /// Show values in server messages, and the application's own messages.
    #[arg(long)]
    pub show_literals: bool,
    /// Goal and time budget.
    #[command(flatten)]
    pub goal: GoalArgs,
    /// Server to measure on.
    #[command(flatten)]
    pub place: SandboxPlaceArgs,
}
