//! Options of `rehearse sweep`: the factors, the server and the duration.

use std::path::PathBuf;
use std::time::Duration;

use ::sandbox::ServerRequirements;
use clap::Args;
use clock::Speed;
use study::sweep::{Mode, Script, SweepFactors, SweepLength, SweepPlace, SweepRequest};
use study::{Failure, NewServerRequest};

use super::session::SessionArgs;
use crate::commands::sandbox;

/// Options of `rehearse sweep`.
#[derive(Debug, Clone, Args)]
pub struct Sweep {
    /// Replay this workload, unless --script is given. Given a finished NAME.sweep, show it
    /// again.
    #[arg(value_name = "NAME.workload|NAME.sweep")]
    pub workload: Option<PathBuf>,
    /// Run one of pgbench's built-in scripts on its tables: select-only, simple-update,
    /// tpcb-like.
    #[arg(long, value_name = "NAME", conflicts_with = "workload")]
    pub script: Option<Script>,
    /// Create the script's tables with this scale factor on the server of --postgres-version:
    /// 100,000 accounts per unit.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub pgbench_scale: u32,
    /// Write to this directory, NAME.sweep: the plan, each trial's numbers, and a page.
    #[arg(short, long, value_name = "NAME.sweep")]
    pub output: Option<PathBuf>,
    /// Resume a sweep that was stopped or killed, without repeating finished trials. Give the
    /// same options.
    #[arg(long)]
    pub resume: bool,
    /// Keep the run of every trial.
    #[arg(long)]
    pub keep_runs: bool,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
    /// Server to measure on.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Factors and their levels.
    #[command(flatten)]
    pub factors: FactorArgs,
    /// Duration of trials.
    #[command(flatten)]
    pub length: LengthArgs,
}

/// Server of the trials, and state of its data.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub struct PlaceArgs {
    /// Create a private server of this major version, and delete it after the sweep.
    #[arg(long, value_name = "MAJOR", conflicts_with_all = ["sandbox", "target"])]
    pub postgres_version: Option<u16>,
    /// Use the PostgreSQL installation in this directory (or its bin directory) for
    /// --postgres-version.
    #[arg(long, value_name = "DIR", requires = "postgres_version")]
    pub postgres: Option<PathBuf>,
    /// Fill the new server with this shell command, which is given PGHOST, PGPORT, PGUSER and
    /// PGDATABASE.
    #[arg(long, value_name = "COMMAND", requires = "postgres_version")]
    pub load: Option<String>,
    /// Use this private server (see `rehearse sandbox`), and restore its data afterwards.
    #[arg(long, value_name = "NAME", conflicts_with = "target")]
    pub sandbox: Option<String>,
    /// Use this server, as --target of a replay.
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// Allow --target to be the server that the workload was captured on; repeat its address here.
    #[arg(long, value_name = "HOST:PORT", requires = "target")]
    pub allow_captured_server: Option<String>,
    /// Restore the data of --target with this shell command before each trial. It is given
    /// PGHOST, PGPORT and so on.
    #[arg(long, value_name = "COMMAND", requires = "target")]
    pub restore: Option<String>,
    /// Do not restore the data between trials, although the workload writes.
    #[arg(long, conflicts_with = "restore")]
    pub no_restore: bool,
    /// Connections of the sessions.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Factors of the sweep. Every combination of their levels is measured.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Factors")]
pub struct FactorArgs {
    /// Measure with these numbers of clients: 1,2,4,8. In a closed loop, each sends when its
    /// previous statement is done.
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub clients: Vec<u32>,
    /// Replay at these speeds, in an open loop at captured times: 1,2,4. --clients are then
    /// connections.
    #[arg(long, value_name = "FACTOR,…", value_delimiter = ',', conflicts_with_all = ["script", "rate"])]
    pub speed: Vec<Speed>,
    /// Run a script at these transactions per second, in an open loop: 500,1000.
    #[arg(long, value_name = "PER_S,…", value_delimiter = ',', value_parser = rate)]
    pub rate: Vec<f64>,
    /// Send statements in these protocol modes: simple,extended,prepared; for a workload also
    /// captured [default: prepared for a script, captured for a workload].
    #[arg(long, value_name = "MODE,…", value_delimiter = ',')]
    pub mode: Vec<Mode>,
    /// Measure with these values of a setting: work_mem=4MB,64MB. Quote values with a comma.
    /// Repeatable: every combination is measured.
    #[arg(long = "set", value_name = "NAME=VALUE,…")]
    pub set: Vec<String>,
    /// Measure with several settings as one level: 'with pgss:
    /// shared_preload_libraries=pg_stat_statements; pg_stat_statements.track=all', or
    /// 'without:'. Repeatable, one for each level.
    #[arg(long, value_name = "NAME: A=B; C=D")]
    pub variant: Vec<String>,
    /// Run this many trials of each combination.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub trials: u32,
    /// Seed the order of trials and the values of scripts [default: random, and stored].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Duration of trials.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Duration")]
pub struct LengthArgs {
    /// Measure each trial for this long after its warm-up [default: 10s; a workload with --speed
    /// is replayed completely].
    #[arg(long, value_name = "DURATION", value_parser = clock::parse_duration, conflicts_with = "statements")]
    pub time: Option<Duration>,
    /// Run this many statements in each trial instead of a time, over all clients and including
    /// the warm-up.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub statements: Option<u64>,
    /// Discard this much time at the beginning of each trial.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = clock::parse_duration)]
    pub warm_up: Duration,
    /// Measure for at most this long in total. The report lists combinations that were not
    /// measured.
    #[arg(long, value_name = "DURATION", value_parser = clock::parse_duration)]
    pub time_budget: Option<Duration>,
}

impl Sweep {
    /// Returns the request of the sweep.
    ///
    /// # Errors
    /// If the output or the load is missing.
    pub fn request(&self) -> Result<SweepRequest, Failure> {
        let Some(output) = &self.output else {
            return Err(Failure::usage(
                "nothing says where the result goes; give -o NAME.sweep",
            ));
        };
        if self.workload.is_none() && self.script.is_none() {
            return Err(Failure::usage(
                "nothing says what clients do; give a NAME.workload, or --script select-only, simple-update or tpcb-like",
            ));
        }
        let (place, factors, length) = (&self.place, &self.factors, &self.length);
        let new_server = place.postgres_version.map(|version| NewServerRequest {
            is_upgraded: false,
            requirements: ServerRequirements {
                dir: place.postgres.clone(),
                ..ServerRequirements::major(version)
            },
            load: place.load.clone(),
            find: sandbox::find,
        });
        Ok(SweepRequest {
            workload: self.workload.clone(),
            script: self.script,
            pgbench_scale: self.pgbench_scale,
            output: output.clone(),
            resume: self.resume,
            keep_runs: self.keep_runs,
            place: SweepPlace {
                new_server,
                sandbox: place.sandbox.clone(),
                target: place.target.clone(),
                allow_captured_server: place.allow_captured_server.clone(),
                restore: place.restore.clone(),
                no_restore: place.no_restore,
            },
            factors: SweepFactors {
                clients: factors.clients.clone(),
                speeds: factors.speed.clone(),
                rates: factors.rate.clone(),
                modes: factors.mode.clone(),
                settings: factors.set.clone(),
                variants: factors.variant.clone(),
                trials: factors.trials,
                seed: factors.seed,
            },
            length: SweepLength {
                time: length.time,
                statements: length.statements,
                warm_up: length.warm_up,
                time_budget: length.time_budget,
            },
            replay: place.session.replay_options(),
            session_options: place.session.described().collect(),
        })
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text
        .parse()
        .ok()
        .filter(|rate| (0.001..=1e9).contains(rate));
    rate.ok_or_else(|| format!("'{text}' is no rate; give transactions a second, such as 500"))
}
