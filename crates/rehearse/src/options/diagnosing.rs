//! Options of a diagnosis.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::prove::{GoalArgs, SandboxPlaceArgs};
use super::watching::LookArgs;

/// `rehearse diagnose`
#[derive(Debug, Args)]
pub struct Diagnose {
    /// A run, an observation, or a workload. A run that was watched (--observe), with plans (--explain) and a
    /// profile (--profile) tells the most.
    #[arg(value_name = "NAME.run|NAME.workload", conflicts_with = "target")]
    pub of: Option<PathBuf>,
    /// A server that is watched for a while, and asked for its schema, its settings and the plans of its most
    /// costly statements (EXPLAIN, which carries nothing out). Nothing is written there.
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// For how long it is watched: 30s, 5m.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = clock::duration_of, requires = "target")]
    pub duration: Duration,
    /// What a statement can account for at all: a pattern that its normal form is like, with % for any text,
    /// 'update image_links set download_after%'; can be given again.
    #[arg(long, value_name = "PATTERN")]
    pub impact_of: Vec<String>,
    /// Set a threshold: NAME=VALUE; can be given again.
    #[arg(long, value_name = "NAME=VALUE")]
    pub threshold: Vec<String>,
    /// Print all thresholds, each with where it comes from, and look at nothing.
    #[arg(long)]
    pub thresholds: bool,
    /// All findings with all evidence, and what was looked at and well, or could not be looked at.
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// What to look at, of a server.
    #[command(flatten)]
    pub looks: LookArgs,
    /// Proving what was found.
    #[command(flatten)]
    pub proving: ProvingArgs,
    /// What is to get better, and how long all proofs together may take.
    #[command(flatten)]
    pub goal: GoalArgs,
    /// Where.
    #[command(flatten)]
    pub place: SandboxPlaceArgs,
}

/// Proving what was found.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Proving what was found")]
pub struct ProvingArgs {
    /// Prove the changes of the most promising findings, one finding after the other, in --sandbox and --time-budget the time.
    /// A workload is replayed there once before, to be diagnosed.
    #[arg(long, requires_all = ["sandbox", "output"])]
    pub prove: bool,
    /// The workload that a run is of, or that a server is to be proved with.
    #[arg(long, value_name = "NAME.workload", requires = "prove")]
    pub workload: Option<PathBuf>,
    /// The directory to make: the replay that was diagnosed, a proof for each finding, and the result.
    #[arg(short, long, value_name = "DIR", requires = "prove")]
    pub output: Option<PathBuf>,
    /// So many findings are proved, at most.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=20), requires = "prove")]
    pub max_findings: u32,
}
