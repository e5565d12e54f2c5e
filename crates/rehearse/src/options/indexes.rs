//! Options of index advice.

use std::path::PathBuf;

use clap::Args;

use super::prove::{GoalArgs, SandboxPlaceArgs};

/// `rehearse indexes`
#[derive(Debug, Args)]
pub struct Indexes {
    /// A workload, which is first replayed once to be looked at; or a run of it with plans (--explain), which then is
    /// what candidates are made of. An advice that was made is shown again.
    #[arg(value_name = "NAME.workload|NAME.run|NAME.proof")]
    pub of: PathBuf,
    /// The workload that a run is of: it is replayed to measure.
    #[arg(long, value_name = "NAME.workload")]
    pub workload: Option<PathBuf>,
    /// The directory to make, NAME.proof: the candidates, the plan, every run with its numbers, and pages.
    #[arg(short, long, value_name = "NAME.proof")]
    pub output: Option<PathBuf>,
    /// Go on with an advice that was stopped or killed while it measured. Give the same options.
    #[arg(long)]
    pub resume: bool,
    /// So many candidates are measured, at most.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub max_candidates: u32,
    /// Build each candidate for a moment to ask the planner of it, although the server has HypoPG.
    #[arg(long)]
    pub no_hypopg: bool,
    /// Set a threshold of `rehearse diagnose`: warning-share and missing-index-rows bear on which statements and tables
    /// are looked at; can be given again.
    #[arg(long, value_name = "NAME=VALUE")]
    pub threshold: Vec<String>,
    /// Print the result as JSON, as `rehearse schema proof` describes it.
    #[arg(long)]
    pub json: bool,
    /// Show the values in messages of the server, and messages of the application's own.
    #[arg(long)]
    pub show_literals: bool,
    /// What is to get better, and how long measuring may take.
    #[command(flatten)]
    pub goal: GoalArgs,
    /// Where.
    #[command(flatten)]
    pub place: SandboxPlaceArgs,
}
