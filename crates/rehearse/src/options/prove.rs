//! Options of `rehearse prove`: the changes, the goal and the server.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clock::Speed;
use compare::proof::Goal;
use transform::Rewrite;

use ::sandbox::ServerRequirements;
use replay::Options;
use study::proof::sides::Changes;
use study::proof::{ProofGoal, ProofPlace, ProofRequest};
use study::{Failure, NewServerRequest};

use super::notifying::NotifyArgs;
use super::session::SessionArgs;
use crate::commands::prove::required;
use crate::commands::sandbox;

/// Options of `rehearse prove`.
#[derive(Debug, Clone, Args)]
pub struct Prove {
    /// Replay this workload. Given a finished NAME.proof, show it again.
    #[arg(value_name = "NAME.workload|NAME.proof")]
    pub workload: PathBuf,
    /// Write to this directory, NAME.proof: the plan, every run with its numbers, and pages.
    #[arg(short, long, value_name = "NAME.proof")]
    pub output: Option<PathBuf>,
    /// Resume a proof that was stopped or killed. Give the same options.
    #[arg(long)]
    pub resume: bool,
    /// Print the result as JSON, as `rehearse schema prove` describes it.
    #[arg(long)]
    pub json: bool,
    /// Show values in server messages, and the application's own messages.
    #[arg(long)]
    pub show_literals: bool,
    /// Write the findings as SARIF, placed in the SQL files of --change, for code scanning.
    #[arg(long, value_name = "FILE.sarif", requires = "change")]
    pub sarif: Option<PathBuf>,
    /// Changes.
    #[command(flatten)]
    pub changes: ChangeArgs,
    /// Goal and time budget.
    #[command(flatten)]
    pub goal: GoalArgs,
    /// Server to measure on.
    #[command(flatten)]
    pub place: ProofPlaceArgs,
    /// Message to a chat.
    #[command(flatten)]
    pub notifying: NotifyArgs,
}

/// Changes to test. Several are tested separately, then all combined.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Changes")]
pub struct ChangeArgs {
    /// Execute this SQL file on the restored data: an index, a migration. Repeatable.
    #[arg(long, value_name = "FILE.sql")]
    pub change: Vec<PathBuf>,
    /// Run this shell command on the restored data: a migration of Flyway, Alembic or Rails. It runs
    /// with PGHOST, PGPORT, PGUSER, PGDATABASE and, if there is one, PGPASSWORD. Repeatable.
    #[arg(long, value_name = "COMMAND")]
    pub change_command: Vec<String>,
    /// Change a setting, or several as one change: 'work_mem=64MB; jit=off'. Repeatable.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Rewrite the workload (see `rehearse rewrite`): batch-inserts=50, drop='update x set',
    /// cache=100ms. Repeatable.
    #[arg(long, value_name = "REWRITE")]
    pub rewrite: Vec<Rewrite>,
    /// Test another major version, on a server that --load fills.
    #[arg(long, value_name = "MAJOR", requires = "load")]
    pub postgres_version: Option<u16>,
    /// Use the PostgreSQL installation in this directory (or its bin directory) for
    /// --postgres-version.
    #[arg(long, value_name = "DIR", requires = "postgres_version")]
    pub postgres: Option<PathBuf>,
    /// Fill the new server with this shell command, which is given PGHOST, PGPORT, PGUSER and
    /// PGDATABASE.
    #[arg(long, value_name = "COMMAND", requires = "postgres_version")]
    pub load: Option<String>,
}

/// Goal, margin and time budget.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Goal")]
pub struct GoalArgs {
    /// Improve this: total (response time), p50, p99, cpu (of the server), wal (bytes), blocks
    /// (read) or throughput.
    #[arg(long, value_name = "GOAL", default_value = "total")]
    pub goal: Goal,
    /// Treat differences up to this percentage as no difference.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub margin: f64,
    /// Measure for at most this long in total.
    #[arg(long, value_name = "DURATION", default_value = "20m", value_parser = clock::parse_duration)]
    pub time_budget: Duration,
    /// Measure at most this many blocks. A block has two runs of each side.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    pub blocks: u32,
    /// Run the unchanged side this many times first, to estimate noise.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub noise_runs: u32,
    /// Seed the random order of the runs [default: random, and stored].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Replay at this speed: 1, 2, 0.5 or max.
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub speed: Speed,
}

/// Server to measure on, and state of its data.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub struct ProofPlaceArgs {
    /// Use this private server (see `rehearse sandbox`), and restore its data afterwards.
    #[arg(long, value_name = "NAME", conflicts_with = "target")]
    pub sandbox: Option<String>,
    /// Use this server, as --target of a replay.
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// Allow --target to be the server that the workload was captured on; repeat its address here.
    #[arg(long, value_name = "HOST:PORT", requires = "target")]
    pub allow_captured_server: Option<String>,
    /// Restore the data of --target with this shell command before each run. It is given PGHOST,
    /// PGPORT and so on.
    #[arg(long, value_name = "COMMAND", requires = "target")]
    pub restore: Option<String>,
    /// Create the database of --target from this one before each run (CREATE DATABASE …
    /// TEMPLATE). It must not exist yet, and is dropped at the end.
    #[arg(
        long,
        value_name = "DATABASE",
        requires = "target",
        conflicts_with = "restore"
    )]
    pub template: Option<String>,
    /// Do not restore the data between runs, although the workload writes.
    #[arg(long, requires = "target", conflicts_with_all = ["restore", "template"])]
    pub no_restore: bool,
    /// Connections of the sessions.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Open at most this many connections, which sessions share between transactions.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: Option<u32>,
}

/// Private server to measure on, and connections of the sessions.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub struct SandboxPlaceArgs {
    /// Use this private server with the data (see `rehearse sandbox`), and restore its data
    /// afterwards.
    #[arg(long, value_name = "NAME")]
    pub sandbox: Option<String>,
    /// Connections of the sessions.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Open at most this many connections, which sessions share between transactions.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: Option<u32>,
}

impl Prove {
    /// Returns the request of the proof.
    ///
    /// # Errors
    /// If the output is missing, or a value makes no sense.
    pub fn request(&self) -> Result<ProofRequest, Failure> {
        let place = &self.place;
        let changes = &self.changes;
        let new_server = changes.postgres_version.map(|version| NewServerRequest {
            is_upgraded: false,
            requirements: ServerRequirements {
                dir: changes.postgres.clone(),
                ..ServerRequirements::major(version)
            },
            load: changes.load.clone(),
            find: sandbox::find,
        });
        Ok(ProofRequest {
            output: required(self.output.as_deref())?,
            resume: self.resume,
            goal: self.goal.proof_goal()?,
            place: ProofPlace {
                sandbox: place.sandbox.clone(),
                copies_sandbox: false,
                refuses_privileged_roles: false,
                target: place.target.clone(),
                allow_captured_server: place.allow_captured_server.clone(),
                restore: place.restore.clone(),
                template: place.template.clone(),
                no_restore: place.no_restore,
                database: place.session.as_database.clone(),
                other_target: None,
                new_server,
                name: None,
            },
            replay: self
                .goal
                .replay_options(&place.session, place.max_connections),
            session_options: place.session.described().collect(),
        })
    }
}

impl SandboxPlaceArgs {
    /// Returns the request of a proof in this sandbox.
    ///
    /// # Errors
    /// If a value of the goal makes no sense.
    pub fn proof(&self, output: PathBuf, goal: &GoalArgs) -> Result<ProofRequest, Failure> {
        Ok(ProofRequest {
            output,
            resume: false,
            goal: goal.proof_goal()?,
            place: ProofPlace {
                sandbox: self.sandbox.clone(),
                database: self.session.as_database.clone(),
                ..ProofPlace::default()
            },
            replay: goal.replay_options(&self.session, self.max_connections),
            session_options: self.session.described().collect(),
        })
    }
}

impl GoalArgs {
    fn proof_goal(&self) -> Result<ProofGoal, Failure> {
        if !(0.0..1_000.0).contains(&self.margin) {
            return Err(Failure::usage(format!(
                "a margin of {} % makes no sense; give a percentage from 0 to 1000, such as --margin 5",
                self.margin
            )));
        }
        Ok(ProofGoal {
            goal: self.goal,
            margin: self.margin / 100.0,
            time_budget: self.time_budget,
            can_change_time: false,
            ends_if_too_short: false,
            uses_all_time: false,
            blocks: self.blocks,
            noise_runs: self.noise_runs,
            seed: self.seed,
        })
    }

    fn replay_options(&self, session: &SessionArgs, connections_max: Option<u32>) -> Options {
        Options {
            speed: self.speed,
            connections_max,
            ..session.replay_options()
        }
    }
}

impl From<&ChangeArgs> for Changes {
    fn from(args: &ChangeArgs) -> Self {
        Changes {
            scripts: args.change.clone(),
            commands: args.change_command.clone(),
            settings: args.set.clone(),
            rewritings: args.rewrite.clone(),
            server: args.postgres_version,
        }
    }
}
