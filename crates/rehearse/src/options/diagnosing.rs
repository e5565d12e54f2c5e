//! Options of a diagnosis.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::prove::{GoalArgs, SandboxPlaceArgs};
use super::watching::LookArgs;

/// Options of `rehearse diagnose`.
#[derive(Debug, Args)]
pub struct Diagnose {
    /// Diagnose this run, observation or workload. A run with --observe, --explain and --profile
    /// gives the most evidence.
    #[arg(value_name = "NAME.run|NAME.workload", conflicts_with = "target")]
    pub of: Option<PathBuf>,
    /// Observe this server, and read its schema, its settings and the plans of its most
    /// expensive statements. EXPLAIN does not execute them, and nothing is written.
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// Observe the server for this long: 30s, 5m.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = clock::parse_duration, requires = "target")]
    pub duration: Duration,
    /// Report the largest possible impact of statements whose normalised text matches this
    /// pattern, with % for any text: 'update image_links set download_after%'. With --prove also
    /// index:NAME and setting:NAME=VALUE: the statements are executed without the index, or with
    /// that value. Repeatable.
    #[arg(long, value_name = "PATTERN")]
    pub impact_of: Vec<String>,
    /// Set a threshold: NAME=VALUE. Repeatable.
    #[arg(long, value_name = "NAME=VALUE")]
    pub threshold: Vec<String>,
    /// Print all thresholds with their sources, and diagnose nothing.
    #[arg(long)]
    pub thresholds: bool,
    /// Print all findings with all evidence, and the checks that passed or could not be made.
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Observation of a server.
    #[command(flatten)]
    pub looks: LookArgs,
    /// Proof of the findings.
    #[command(flatten)]
    pub proving: ProvingArgs,
    /// Goal and time budget of all proofs together.
    #[command(flatten)]
    pub goal: GoalArgs,
    /// Server to measure on.
    #[command(flatten)]
    pub place: SandboxPlaceArgs,
}

/// Proof of the findings.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Proof of the findings")]
pub struct ProvingArgs {
    /// Prove the changes of the most promising findings in --sandbox, one finding after another,
    /// within --time-budget. A workload is first replayed there once, for the diagnosis. Before the
    /// proofs, single statements are executed with and without possible changes, for at most five
    /// minutes and half of the time budget.
    #[arg(long, requires_all = ["sandbox", "output"])]
    pub prove: bool,
    /// Replay this workload to prove the findings of a run or of a server.
    #[arg(long, value_name = "NAME.workload", requires = "prove")]
    pub workload: Option<PathBuf>,
    /// Write to this directory: the diagnosed replay, a proof for each finding, and the result.
    #[arg(short, long, value_name = "DIR", requires = "prove")]
    pub output: Option<PathBuf>,
    /// Prove at most this many findings; 0 only tries changes with single statements.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=20), requires = "prove")]
    pub max_findings: u32,
}
