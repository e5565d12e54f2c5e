//! Options of replays on two servers in pairs.

use clap::Args;

/// Pairs of replays.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Two servers in pairs")]
pub struct PairArgs {
    /// Replay on two servers in pairs, before and after a change, and compare the runs. Give
    /// --target for the one before and --against for the one after, or --against twice. A server
    /// is a URL, or sandbox:NAME for a private one, which is restored before each replay that
    /// writes.
    #[arg(long, value_name = "URL|sandbox:NAME", conflicts_with_all = ["resume", "dry_run", "calibrate", "metrics", "ui"])]
    pub against: Vec<String>,
    /// Replay this many times on each of two servers [default: 3].
    #[arg(long, value_name = "N", requires = "against", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: Option<u32>,
    /// Seed the random order within the pairs [default: random, and stored].
    #[arg(long, value_name = "N", requires = "against")]
    pub seed: Option<u64>,
    /// Restore the data of a server with this shell command before each replay. It is given
    /// PGHOST, PGPORT and so on.
    #[arg(long, visible_alias = "restore-command", value_name = "COMMAND", help_heading = "Safety", conflicts_with_all = ["resume", "dry_run", "calibrate"])]
    pub restore: Option<String>,
    /// Continue pairs that were interrupted: keep the complete ones in -o, and make those that are missing. Give the
    /// same options.
    #[arg(long = "continue", requires = "against")]
    pub continues: bool,
    /// Exit with 1 if this condition holds for the comparison of the pairs: regression, 'p99 > 1.2x and calls > 100' …
    /// (docs/reference/fail-on.md). Repeatable: one that holds is enough.
    #[arg(long, value_name = "CONDITION", requires = "against")]
    pub fail_on: Vec<String>,
    /// Do not restore the data between replays, although the workload writes.
    #[arg(long, requires = "against", conflicts_with = "restore")]
    pub no_restore: bool,
}

impl PairArgs {
    /// Number of replays on each server, by default. Fewer cannot show that a run as a whole got slower.
    pub const RUNS: u32 = 3;
}
