//! `rehearse sweep`: what is varied, on what, and for how long.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clock::Speed;
use study::sweep::{Mode, Script};

use super::session::SessionArgs;

/// `rehearse sweep`
#[derive(Debug, Clone, Args)]
pub struct Sweep {
    /// The workload; without one, --script. A sweep that was made is shown again.
    #[arg(value_name = "NAME.workload|NAME.sweep")]
    pub workload: Option<PathBuf>,
    /// One of pgbench's built-in scripts, on its tables: select-only, simple-update, tpcb-like.
    #[arg(long, value_name = "NAME", conflicts_with = "workload")]
    pub script: Option<Script>,
    /// How large the script's tables are made, in a server that --postgres-version makes: 100,000 accounts for
    /// one of this.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub pgbench_scale: u32,
    /// The directory to make, NAME.sweep: the plan, each trial's numbers, and a page.
    #[arg(short, long, value_name = "NAME.sweep")]
    pub output: Option<PathBuf>,
    /// Go on with a sweep that was stopped or killed: what was done is not done again. Give the same
    /// options.
    #[arg(long)]
    pub resume: bool,
    /// Keep the run of every trial.
    #[arg(long)]
    pub keep_runs: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Where.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// What is varied.
    #[command(flatten)]
    pub factors: FactorArgs,
    /// How long.
    #[command(flatten)]
    pub length: LengthArgs,
}

/// Where trials happen.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Where")]
pub struct PlaceArgs {
    /// A private server of this major version, made for the sweep and deleted behind it.
    #[arg(long, value_name = "MAJOR", conflicts_with_all = ["sandbox", "target"])]
    pub postgres_version: Option<u16>,
    /// The folder of the PostgreSQL that --postgres-version is made of (or its bin folder).
    #[arg(long, value_name = "DIR", requires = "postgres_version")]
    pub postgres: Option<PathBuf>,
    /// What fills the server that --postgres-version makes: a command for the shell, with PGHOST, PGPORT, PGUSER
    /// and PGDATABASE set.
    #[arg(long, value_name = "COMMAND", requires = "postgres_version")]
    pub load: Option<String>,
    /// A private server of yours (`rehearse sandbox`), left as it was found.
    #[arg(long, value_name = "NAME", conflicts_with = "target")]
    pub sandbox: Option<String>,
    /// Any other server, as for a replay.
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// What brings the data of a --target to the same state before each trial: a command for the
    /// shell, with PGHOST and so on set.
    #[arg(long, value_name = "COMMAND", requires = "target")]
    pub restore: Option<String>,
    /// Leave data as the trial before left them, although the workload writes.
    #[arg(long, conflicts_with = "restore")]
    pub no_restore: bool,
    /// How sessions connect.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// What is varied: every combination of the levels is tried.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What is varied")]
pub struct FactorArgs {
    /// Numbers of clients: 1,2,4,8. In a closed loop each sends when its previous one is done.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub clients: Vec<u32>,
    /// Speeds of a workload: 1,2,4. An open loop at its captured times; --clients are then connections.
    #[arg(long, value_name = "FACTOR,…", value_delimiter = ',', conflicts_with_all = ["script", "rate"])]
    pub speed: Vec<Speed>,
    /// Transactions a second of a script, in an open loop: 500,1000.
    #[arg(long, value_name = "PER_S,…", value_delimiter = ',', value_parser = rate)]
    pub rate: Vec<f64>,
    /// Forms in which statements are sent: simple,extended,prepared; captured, of a workload
    /// [default: prepared for a script, captured for a workload].
    #[arg(long, value_name = "MODE,…", value_delimiter = ',')]
    pub mode: Vec<Mode>,
    /// A setting and its values: work_mem=4MB,64MB; in quotes those that have a comma. Can be given
    /// again: every combination is tried.
    #[arg(long = "set", value_name = "NAME=VALUE,…")]
    pub set: Vec<String>,
    /// Several settings as one level: 'with pgss: shared_preload_libraries=pg_stat_statements;
    /// pg_stat_statements.track=all', or 'without:'. Can be given again, one for each level.
    #[arg(long, value_name = "NAME: A=B; C=D")]
    pub variant: Vec<String>,
    /// How many trials each combination has.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub trials: u32,
    /// What the order of trials and the values of scripts are made of [default: by chance, and kept].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// How long.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "How long")]
pub struct LengthArgs {
    /// How long each trial is measured, behind its warm-up [default: 10s; a workload at --speed
    /// from its beginning to its end].
    #[arg(long, value_name = "DURATION", value_parser = clock::duration_of, conflicts_with = "statements")]
    pub time: Option<Duration>,
    /// So many statements each trial, of all clients together and the warm-up among them, instead of a
    /// time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub statements: Option<u64>,
    /// What is left out at the beginning of each trial.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = clock::duration_of)]
    pub warm_up: Duration,
    /// How long all may take; what is not done then is said.
    #[arg(long, value_name = "DURATION", value_parser = clock::duration_of)]
    pub time_budget: Option<Duration>,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text
        .parse()
        .ok()
        .filter(|rate| (0.001..=1e9).contains(rate));
    rate.ok_or_else(|| format!("'{text}' is no rate; give transactions a second, such as 500"))
}
