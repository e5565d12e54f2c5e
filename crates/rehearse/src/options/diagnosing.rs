//! Options of a diagnosis.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::watching::LookArgs;

/// `rehearse diagnose`
#[derive(Debug, Args)]
pub struct Diagnose {
    /// A run, an observation, or a workload. A run that was watched (--observe), with plans (--explain) and a
    /// profile (--profile) tells the most.
    #[arg(
        value_name = "NAME.run|NAME.workload",
        required_unless_present_any = ["target", "thresholds"],
        conflicts_with = "target"
    )]
    pub of: Option<PathBuf>,
    /// A server that is watched for a while, and asked for its schema, its settings and the plans of its most
    /// costly statements (EXPLAIN, which carries nothing out). Nothing is written there.
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// For how long it is watched: 30s, 5m.
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = clock::duration_of, requires = "target")]
    pub how_long: Duration,
    /// What a statement can account for at all: a pattern that its normal form is like, with % for any text,
    /// 'update image_links set download_after%'; can be given again.
    #[arg(long, value_name = "PATTERN")]
    pub suspect: Vec<String>,
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
}
