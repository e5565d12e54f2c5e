//! Command line of the program.
//!
//! The types here are what clap parses. Commands turn them into the options of the libraries,
//! which do not depend on clap.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ::sandbox::{Origin, ServerRequirements};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clock::Speed;
use sql::ContextKey;

pub mod attach;
mod capture;
pub mod comparing;
pub mod context;
pub mod demo;
pub mod diagnosing;
#[cfg(test)]
mod documented;
pub mod encrypting;
pub mod export_evidence;
pub mod facts;
pub mod following;
pub mod history;
pub mod indexes;
pub mod lab;
pub mod live_capture;
pub mod masking;
pub mod mcp;
pub mod notifying;
mod object_urls;
pub mod observing;
pub mod pace;
pub mod packaging;
pub mod pairing;
pub mod pcap;
pub mod plans;
pub mod profiling;
pub mod prove;
pub mod proxy;
pub mod rewrite;
pub mod roll;
pub mod schema;
pub mod sending;
pub mod session;
pub mod sharding;
pub mod slice;
pub mod starting_point;
pub mod sweep;
pub mod upgrade;
pub mod watching;
mod without_effect;

pub use capture::{Capture, Source};
use comparing::Compare;
use context::context_key;
pub use demo::Demo;
use diagnosing::Diagnose;
use encrypting::{EncryptArgs, KeyArgs, KeyCommand};
use export_evidence::ExportEvidence;
use facts::FactsArgs;
use following::FollowSeriesArgs;
use indexes::Indexes;
use lab::Lab;
use masking::{MaskArgs, MaskCommand};
use notifying::NotifyArgs;
pub use object_urls::find_refused_url;
use observing::{AllowHostArgs, LogArgs, MetricsArgs, OtlpArgs, PageArgs, SpanArgs};
pub use pace::ReplayOrder;
use pace::{PaceArgs, PartArgs, SafetyArgs};
use pairing::PairArgs;
use profiling::{Cpu, Flame, Profile, ProfilingArgs};
pub use prove::Prove;
use rewrite::RewriteWorkload;
use roll::RollArgs;
use schema::Schema;
use sending::SendingArgs;
use sharding::ShardArgs;
use slice::{SliceArgs, SliceWorkload};
use starting_point::StartingPointArgs;
pub use sweep::Sweep;
use watching::{Observe, WatchArgs};
pub use without_effect::find_without_effect;

/// Version with the commit that the program was built from, and the system that it was built for.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit ",
    env!("REHEARSE_COMMIT"),
    "\nbuilt for ",
    env!("REHEARSE_TARGET"),
);

/// Replay a PostgreSQL database's real traffic against a change, and report what got slower.
#[derive(Debug, Parser)]
#[command(name = "rehearse", version, long_version = LONG_VERSION, arg_required_else_help = true)]
#[command(
    after_help = "Start with `rehearse demo`. Exit codes: 0 success, 1 success with findings, 2 usage error, 3 failure, 4 not proven."
)]
pub struct Program {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
    /// Options of the log.
    #[command(flatten)]
    pub log: LogArgs,
    /// Options of the decryption key.
    #[command(flatten)]
    pub keys: KeyArgs,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a workload from a log, a proxy, a running server or packets.
    Capture(Capture),
    /// Describe the contents of a workload.
    Inspect(Inspect),
    /// Create a workload from a part of another: a time range, some sessions, some statements.
    Slice(Box<SliceWorkload>),
    /// Create a modified workload: batched inserts, removed statements, cached reads, pooled
    /// sessions.
    Rewrite(Box<RewriteWorkload>),
    /// Create a key file for encrypted workloads.
    Key(KeyCommand),
    /// Mask the values in workloads and dumps.
    Mask(Box<MaskCommand>),
    /// Replay a workload against a server.
    Replay(Box<Replay>),
    /// Observe a server without a replay: statements, waits, locks, counters, machine.
    Observe(Observe),
    /// Show the results of a run.
    Show(Show),
    /// Compare two runs, statement by statement.
    Compare(Box<Compare>),
    /// Diagnose a run, a server or a workload: findings with evidence, an upper bound of each
    /// gain, and remedies.
    Diagnose(Box<Diagnose>),
    /// Record a CPU profile of a server with perf.
    Profile(Profile),
    /// Break down the CPU time of a profile: parsing, planning, opening indexes, scanning …
    Cpu(Cpu),
    /// Draw a flame graph of a profile, or of the difference between two.
    Flame(Flame),
    /// Pack everything that is needed to reproduce a run into one archive.
    ExportEvidence(ExportEvidence),
    /// Measure load at several client counts, speeds, protocols and settings, and find the knee.
    Sweep(Box<Sweep>),
    /// Measure a change against the unchanged database on the same traffic, until it is better,
    /// worse or equivalent.
    Prove(Box<Prove>),
    /// Suggest indexes, screen them with the planner, and benchmark the best on the same
    /// traffic.
    Indexes(Box<Indexes>),
    /// Check the plans of a workload's statements without the data.
    Plans(plans::Plans),
    /// Rehearse a major upgrade with a workload, or check what it refuses or forgets.
    Upgrade(Box<upgrade::Upgrade>),
    /// Keep the numbers of runs of one workload, and show how they developed.
    History(history::History),
    /// Print the JSON schema of a command's --json output.
    Schema(Schema),
    /// Recover the complete part of a capture or replay that was killed.
    Recover(Recover),
    /// Manage private PostgreSQL servers.
    Sandbox(Sandbox),
    /// Show the main commands in about a minute, on private servers.
    Demo(Demo),
    /// Reproduce published cases of slow databases on private servers.
    Lab(Lab),
    /// Answer the calls of an assistant about artefacts, as a server of the Model Context Protocol on
    /// standard input and output.
    Mcp(mcp::Mcp),
    /// Check what works on this machine: PostgreSQL, perf, limits, disk.
    Doctor,
    /// Print the completion script of a shell.
    Completions(packaging::Completions),
    /// Write a manual page for each command.
    Man(packaging::Man),
}

/// Options of `rehearse capture log`.
#[derive(Debug, Args)]
pub struct CaptureLog {
    /// Read these log files, directories, or quoted patterns such as 'log/*.gz', in any order.
    /// `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the workload to this directory, NAME.workload; with --roll, a series to NAME.series.
    #[arg(
        short,
        long,
        value_name = "NAME.workload",
        required_unless_present = "dry_run"
    )]
    pub output: Option<PathBuf>,
    /// Parse lines with this log_line_prefix [default: detected].
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    pub prefix: Option<String>,
    /// Read files in this format [default: detected].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Read times whose zone the log does not tell, such as CST or syslog's, in this log_timezone: a
    /// name such as Asia/Kolkata, or an offset such as +08 [default: as the log shows, else as
    /// PostgreSQL reads the abbreviation].
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true)]
    pub log_timezone: Option<String>,
    /// Follow a log that is still being written, from its end and through rotation, until Ctrl-C
    /// or for --duration. Of a directory or a pattern, follow the file written last.
    #[arg(long)]
    pub follow: bool,
    /// Follow for this long: 30s, 10m, 1h30m.
    #[arg(long, value_name = "DURATION", requires = "follow", value_parser = clock::parse_duration)]
    pub duration: Option<Duration>,
    /// Follow from the beginning of the file instead of its end.
    #[arg(long, requires = "follow")]
    pub from_start: bool,
    /// Read and count every line, but write nothing.
    #[arg(long, conflicts_with = "output")]
    pub dry_run: bool,
    /// Print the capture report as JSON.
    #[arg(long)]
    pub json: bool,
    /// Export of metrics.
    #[command(flatten)]
    pub otlp: OtlpArgs,
    /// Starting point.
    #[command(flatten)]
    pub starting_point: StartingPointArgs,
    /// Recording of a series.
    #[command(flatten)]
    pub roll: RollArgs,
    /// Part of the traffic to keep.
    #[command(flatten)]
    pub slice: SliceArgs,
    /// Masking of the values.
    #[command(flatten)]
    pub masking: MaskArgs,
    /// Encryption of the workload.
    #[command(flatten)]
    pub encryption: EncryptArgs,
}

/// Options of `rehearse capture settings`.
#[derive(Debug, Args)]
pub struct CaptureSettings {
    /// Print settings for this provider.
    #[arg(long, value_enum, default_value = "self", value_name = "PROVIDER")]
    pub provider: Provider,
    /// Print settings for this major version [default: settings for 13 and newer].
    #[arg(long, value_name = "MAJOR")]
    pub version: Option<u16>,
    /// Print settings in this format [default: sql for a self-managed server, command for a
    /// provider].
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<SettingsFormat>,
    /// Print the commands that restore the previous settings.
    #[arg(long)]
    pub undo: bool,
}

/// Hosting providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Provider {
    /// Self-managed server.
    #[value(name = "self")]
    Own,
    /// Amazon RDS.
    Rds,
    /// Amazon Aurora.
    Aurora,
    /// Google Cloud SQL.
    #[value(name = "cloudsql")]
    CloudSql,
    /// Google AlloyDB.
    #[value(name = "alloydb")]
    AlloyDb,
    /// Azure Database for PostgreSQL, flexible server.
    Azure,
}

/// Output formats of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SettingsFormat {
    /// ALTER SYSTEM statements, for psql.
    Sql,
    /// Lines for postgresql.conf: name = 'value'.
    Conf,
    /// Commands of the provider's command-line tool.
    Command,
    /// JSON.
    Json,
}

/// Formats of log files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines with a log_line_prefix (log_destination = stderr).
    Stderr,
    /// CSV (log_destination = csvlog).
    Csv,
    /// JSON (log_destination = jsonlog).
    Json,
    /// Syslog, or the output of journalctl.
    Syslog,
    /// Amazon CloudWatch Logs: an S3 export, or the output of `aws logs tail` or
    /// filter-log-events.
    Cloudwatch,
    /// JSON of Google Cloud Logging, from Cloud SQL or AlloyDB.
    Cloudsql,
    /// JSON of Azure's diagnostic settings.
    Azure,
    /// JSON lines of CloudNativePG.
    Cnpg,
    /// Lines with a name before each: Kubernetes' CRI format, or the output of `docker compose logs`,
    /// `kubectl logs --prefix`, `stern` or `grep -H`.
    Container,
    /// JSON records with one line of the server each: Docker's json-file, filebeat, Fluent Bit, Loki,
    /// Log Analytics, or `journalctl -o json`.
    Shipper,
    /// Heroku's log drain.
    Heroku,
}

impl From<Format> for capture_log::LogFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Stderr => Self::Stderr,
            Format::Csv => Self::Csv,
            Format::Json => Self::Json,
            Format::Syslog => Self::Syslog,
            Format::Cloudwatch => Self::CloudWatch,
            Format::Cloudsql => Self::CloudSql,
            Format::Azure => Self::Azure,
            Format::Cnpg => Self::Cnpg,
            Format::Container => Self::Container,
            Format::Shipper => Self::Shipper,
            Format::Heroku => Self::Heroku,
        }
    }
}

/// Options of `rehearse inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// Inspect this workload, or this log or directory of logs (as `capture log` reads it, without options).
    #[arg(value_name = "NAME.workload|LOG")]
    pub workload: PathBuf,
    /// Inspect all logs of a directory or pattern as one, and keep what was read of each in this directory. The next
    /// report reads new and changed logs only.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["verify", "copy_commands", "sequences"])]
    pub cache: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write a page: one file that any browser opens.
    #[arg(long, value_name = "FILE.html", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    /// Write comma-separated values: a row for each statement, and with --by for each value of the context
    /// (docs/reference/csv.md).
    #[arg(long, value_name = "FILE.csv", conflicts_with = "json")]
    pub csv: Option<PathBuf>,
    /// Show this many statements in each list.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: Option<u32>,
    /// List the time by this part of the context that comments of statements name, instead of by statement.
    #[arg(long, value_name = "KEY", value_parser = context_key(), conflicts_with_all = ["html", "copy_commands", "sequences"])]
    pub by: Option<ContextKey>,
    /// Sort statements by this number [default: one list for each].
    #[arg(long, value_enum, value_name = "ORDER")]
    pub sort: Option<Sort>,
    /// Show the slowest calls as they were sent, with their values.
    #[arg(long)]
    pub show_literals: bool,
    /// Verify the checksum of every file first.
    #[arg(long)]
    pub verify: bool,
    /// Print only the starting point of the capture, and all commands that bring a copy to it.
    #[arg(long, conflicts_with_all = ["json", "html", "csv", "top", "sort", "show_literals", "sequences"])]
    pub copy_commands: bool,
    /// Print only SQL for psql that sets the sequences of a copy to their values at the starting point; if none was noted,
    /// to the largest values of their columns in the database that psql connects to.
    #[arg(long, conflicts_with_all = ["json", "html", "csv", "top", "sort", "show_literals"])]
    pub sequences: bool,
}

/// Sort keys of statements, in descending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Total time.
    Total,
    /// Number of calls.
    Calls,
    /// Mean time.
    Mean,
    /// Time of the slowest call.
    Max,
}

/// Options of `rehearse replay`.
#[derive(Debug, Args)]
pub struct Replay {
    /// Replay this workload.
    #[arg(value_name = "NAME.workload")]
    pub workload: PathBuf,
    /// Connect to this server: postgres://HOST:PORT or 'host=… port=…' with libpq's parameters
    /// (sslmode, service, several hosts …). There is no default, because a replay writes what
    /// the workload writes. Give a password here, in PGPASSWORD or in the password file.
    #[arg(long, value_name = "URL", required_unless_present = "against")]
    pub target: Option<String>,
    /// Write the run to this directory, NAME.run.
    #[arg(
        short,
        long,
        value_name = "NAME.run",
        required_unless_present_any = ["dry_run", "calibrate"]
    )]
    pub output: Option<PathBuf>,
    /// Replay at this speed: 2 is twice as fast as captured, 0.5 half as fast; with `max` a
    /// statement waits only for the previous one of its session.
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub speed: Speed,
    /// Connect every session as this role.
    #[arg(long, value_name = "ROLE")]
    pub as_user: Option<String>,
    /// Connect every session to this database.
    #[arg(long, value_name = "DATABASE")]
    pub as_database: Option<String>,
    /// Connect the sessions of role FROM as TO. Repeatable.
    #[arg(long, value_name = "FROM=TO")]
    pub map_user: Vec<String>,
    /// Connect the sessions of database FROM to TO. Repeatable.
    #[arg(long, value_name = "FROM=TO")]
    pub map_database: Vec<String>,
    /// Log in as --as-user, or else as the user of --target, and change to each session's role with SET ROLE.
    #[arg(long)]
    pub set_role: bool,
    /// Start sessions with these options, such as '-c search_path=app', or only those of
    /// USER@DATABASE/APPLICATION=OPTIONS. Repeatable.
    #[arg(long, value_name = "[SESSIONS=]OPTIONS", allow_hyphen_values = true)]
    pub startup_options: Vec<String>,
    /// Open at most this many connections, which sessions share between transactions [default:
    /// one connection for each session].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: Option<u32>,
    /// Send and receive with this many threads [default: a quarter of the cores].
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Busy-wait this many microseconds before each statement is due.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    pub spin_us: u32,
    /// Use epoll instead of io_uring for connections without TLS at full speed.
    #[arg(long)]
    pub without_io_uring: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
    /// Show values in server messages, and the application's own messages.
    #[arg(long)]
    pub show_literals: bool,
    /// Pace and copies.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// Safety of the target.
    #[command(flatten)]
    pub safety: SafetyArgs,
    /// Metrics.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Live page.
    #[command(flatten)]
    pub page: PageArgs,
    /// Host names of both.
    #[command(flatten)]
    pub hosts: AllowHostArgs,
    /// Export of metrics.
    #[command(flatten)]
    pub otlp: OtlpArgs,
    /// Export of spans.
    #[command(flatten)]
    pub spans: SpanArgs,
    /// Fetch sizes, generated values and checksums.
    #[command(flatten)]
    pub sending: SendingArgs,
    /// Facts and plans of the target.
    #[command(flatten)]
    pub facts: FactsArgs,
    /// CPU profile.
    #[command(flatten)]
    pub profiling: ProfilingArgs,
    /// Observation of the target.
    #[command(flatten)]
    pub watching: WatchArgs,
    /// Part of the workload to replay.
    #[command(flatten)]
    pub part: PartArgs,
    /// Several workers.
    #[command(flatten)]
    pub sharding: ShardArgs,
    /// Series that is being captured.
    #[command(flatten)]
    pub following: FollowSeriesArgs,
    /// Two servers in pairs.
    #[command(flatten)]
    pub pairs: PairArgs,
    /// Message on the comparison of the pairs to a chat.
    #[command(flatten)]
    pub notifying: NotifyArgs,
}

/// Options of `rehearse show`.
#[derive(Debug, Args)]
pub struct Show {
    /// Show this run.
    #[arg(value_name = "NAME.run")]
    pub run: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Show values in server messages, and the application's own messages.
    #[arg(long)]
    pub show_literals: bool,
}

/// Options of `rehearse recover`.
#[derive(Debug, Args)]
pub struct Recover {
    /// Recover this directory, NAME.workload.partial or NAME.run.partial.
    #[arg(value_name = "NAME.partial")]
    pub partial: PathBuf,
}

/// Options of `rehearse sandbox`.
#[derive(Debug, Args)]
pub struct Sandbox {
    /// Action.
    #[command(subcommand)]
    pub action: SandboxAction,
}

/// Actions of `rehearse sandbox`.
#[derive(Debug, Subcommand)]
pub enum SandboxAction {
    /// Create a private server and leave it running.
    Up(SandboxUp),
    /// Start a private server that is stopped. If a restore of its data was interrupted, complete it
    /// first.
    Start {
        /// Name of the server.
        #[arg(default_value = "rehearse", value_name = "NAME")]
        name: String,
    },
    /// Restore the data and settings that a private server had before a sweep, proof or diagnosis
    /// that was interrupted. What was changed since is lost.
    Restore {
        /// Name of the server.
        #[arg(default_value = "rehearse", value_name = "NAME")]
        name: String,
    },
    /// Stop a private server and delete its data.
    Down {
        /// Name of the server.
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Print the URL of a private server, for psql and other clients.
    Url {
        /// Name of the server.
        #[arg(default_value = "rehearse", value_name = "NAME")]
        name: String,
        /// Database of the URL.
        #[arg(long, value_name = "NAME", default_value = "postgres")]
        database: String,
    },
    /// Stop a private server and start it again, so that settings which need a restart take effect.
    Restart {
        /// Name of the server.
        #[arg(default_value = "rehearse", value_name = "NAME")]
        name: String,
    },
    /// Open psql on a private server.
    Psql {
        /// Name of the server.
        #[arg(default_value = "rehearse", value_name = "NAME")]
        name: String,
        /// Database to connect to.
        #[arg(long, value_name = "NAME", default_value = "postgres")]
        database: String,
        /// Arguments of psql, such as -- -c 'SELECT 1'.
        #[arg(last = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// Print the log of a private server.
    Logs {
        /// Name of the server.
        #[arg(default_value = "rehearse", value_name = "NAME")]
        name: String,
    },
    /// List the private servers.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Options of `rehearse sandbox up`.
#[derive(Debug, Args)]
pub struct SandboxUp {
    /// Name of the server.
    #[arg(default_value = "rehearse", value_name = "NAME")]
    pub name: String,
    /// PostgreSQL installation.
    #[command(flatten)]
    pub server: Server,
    /// Listen on the loopback address as well, with a random password [default: only on a socket].
    #[arg(long)]
    pub tcp: bool,
    /// Listen on this TCP port of the loopback address, as --tcp does [default: a free port].
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Set this server setting, as in postgresql.conf. Repeatable.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
}

/// PostgreSQL installation that a private server uses.
#[derive(Debug, Clone, Args)]
pub struct Server {
    /// Use this major version, and download it if it is not installed [default: any installed
    /// version].
    #[arg(long = "postgres-version", value_name = "MAJOR")]
    pub version: Option<u16>,
    /// Use the PostgreSQL installation in this directory (or its bin directory).
    #[arg(long = "postgres", value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Use a downloaded server even if one is installed, so that servers of several versions are of
    /// one kind of build.
    #[arg(long, conflicts_with = "directory")]
    pub fetched: bool,
}

impl Server {
    /// Returns the requirements for an installation.
    pub fn requirements(&self) -> ServerRequirements {
        ServerRequirements {
            major: self.version,
            dir: self.directory.clone(),
            origin: match self.fetched {
                true => Origin::Fetched,
                false => Origin::Any,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn options_name_only_options_that_exist() {
        Program::command().debug_assert();
    }
}
