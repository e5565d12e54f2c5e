//! `rehearse prove`: what is changed, what is to get better, where, and for how long.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clock::Speed;
use compare::proof::Goal;
use transform::Rewriting;

use super::session::SessionArgs;
use study::proof::sides::Changes;

/// `rehearse prove`
#[derive(Debug, Clone, Args)]
pub struct Prove {
    /// The workload. A proof that was made is shown again.
    #[arg(value_name = "NAME.workload|NAME.proof")]
    pub workload: PathBuf,
    /// The directory to make, NAME.proof: the plan, every run with its numbers, and pages.
    #[arg(short, long, value_name = "NAME.proof")]
    pub output: Option<PathBuf>,
    /// Go on with a proof that was stopped or killed. Give the same options.
    #[arg(long)]
    pub resume: bool,
    /// Print the result as JSON, as `rehearse schema proof` describes it.
    #[arg(long)]
    pub json: bool,
    /// Show the values in messages of the server, and messages of the application's own.
    #[arg(long)]
    pub show_literals: bool,
    /// What is changed.
    #[command(flatten)]
    pub changes: ChangeArgs,
    /// What is to get better, and how long it may take.
    #[command(flatten)]
    pub goal: GoalArgs,
    /// Where.
    #[command(flatten)]
    pub place: ProofPlaceArgs,
}

/// What is changed: of several, each by itself and then all together.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "What is changed")]
pub struct ChangeArgs {
    /// A file of SQL, carried out on the restored data: an index, a migration. Can be given again.
    #[arg(long, value_name = "FILE.sql")]
    pub change: Vec<PathBuf>,
    /// A setting, or several as one change: 'work_mem=64MB; jit=off'. Can be given again.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// The workload, rewritten (`rehearse rewrite`): batch-inserts=50, drop='update x set', cache=100ms. Can be given again.
    #[arg(long, value_name = "WHAT")]
    pub rewrite: Vec<Rewriting>,
    /// Another major version, made for the proof and filled by --load.
    #[arg(long, value_name = "MAJOR", requires = "load")]
    pub postgres_version: Option<u16>,
    /// The folder of the PostgreSQL that --postgres-version is made of (or its bin folder).
    #[arg(long, value_name = "DIR", requires = "postgres_version")]
    pub postgres: Option<PathBuf>,
    /// What fills the server that --postgres-version makes: a command for the shell, with PGHOST, PGPORT, PGUSER
    /// and PGDATABASE set.
    #[arg(long, value_name = "COMMAND", requires = "postgres_version")]
    pub load: Option<String>,
}

/// What is to get better, and how long it may take.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "The goal")]
pub struct GoalArgs {
    /// What is to get better: total (response time), p50, p99, cpu (of the server), wal (bytes) or
    /// throughput.
    #[arg(long, value_name = "GOAL", default_value = "total")]
    pub goal: Goal,
    /// Differences up to this many percent count as none.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub margin: f64,
    /// How long all may take.
    #[arg(long, value_name = "DURATION", default_value = "20m", value_parser = clock::duration_of)]
    pub time_budget: Duration,
    /// No more blocks than this, whatever the time; a block has two runs of each side.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    pub blocks: u32,
    /// Runs of the unchanged before the first block, which tell how much runs differ.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub noise_runs: u32,
    /// What the order is made of [default: by chance, and kept].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// How fast captured time passes: 1, 2, 0.5 or max.
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub speed: Speed,
}

/// Where it happens.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Where")]
pub struct ProofPlaceArgs {
    /// A private server of yours (`rehearse sandbox`), left as it was found.
    #[arg(long, value_name = "NAME", conflicts_with = "target")]
    pub sandbox: Option<String>,
    /// Any other server, as for a replay.
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// What brings the data of a --target to the same state before each run: a command for the shell,
    /// with PGHOST and so on set.
    #[arg(long, value_name = "COMMAND", requires = "target")]
    pub restore: Option<String>,
    /// Make the database that --target names anew of this one before each run (CREATE DATABASE …
    /// TEMPLATE). It must not be there yet, and is dropped at the end.
    #[arg(
        long,
        value_name = "DATABASE",
        requires = "target",
        conflicts_with = "restore"
    )]
    pub template: Option<String>,
    /// Leave data as the run before left them, although the workload writes.
    #[arg(long, requires = "target", conflicts_with_all = ["restore", "template"])]
    pub no_restore: bool,
    /// How sessions connect.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Where changes of a sandbox are carried out, if not in --as-database; known where they are not typed.
    #[arg(skip)]
    pub changed_database: Option<String>,
    /// Let up to this many sessions at once share connections.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: Option<u32>,
}

/// A private server, and how a workload's sessions go there.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Where it is measured")]
pub struct SandboxPlaceArgs {
    /// A private server of yours (`rehearse sandbox`) with the data, left as it was found.
    #[arg(long, value_name = "NAME")]
    pub sandbox: Option<String>,
    /// How sessions connect.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Let up to this many sessions at once share connections.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: Option<u32>,
}

impl Prove {
    /// A proof in a sandbox, of changes that are not typed; the result goes to `output`.
    pub fn in_sandbox(
        workload: PathBuf,
        output: PathBuf,
        goal: GoalArgs,
        place: &SandboxPlaceArgs,
    ) -> Self {
        Prove {
            workload,
            output: Some(output),
            resume: false,
            json: false,
            show_literals: false,
            changes: ChangeArgs::default(),
            goal,
            place: ProofPlaceArgs {
                sandbox: place.sandbox.clone(),
                target: None,
                restore: None,
                template: None,
                no_restore: false,
                session: place.session.clone(),
                changed_database: None,
                max_connections: place.max_connections,
            },
        }
    }
}

impl From<&ChangeArgs> for Changes {
    fn from(args: &ChangeArgs) -> Self {
        Changes {
            scripts: args.change.clone(),
            settings: args.set.clone(),
            rewritings: args.rewrite.clone(),
            server: args.postgres_version,
        }
    }
}
