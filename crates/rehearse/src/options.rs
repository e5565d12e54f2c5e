//! What can be typed. Commands turn it into what the engines take, which never see clap.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clock::Speed;

pub mod asking;
pub mod diagnosing;
pub mod encrypting;
pub mod export_evidence;
pub mod indexes;
pub mod lab;
pub mod masking;
pub mod observing;
pub mod pace;
pub mod pcap;
pub mod profiling;
pub mod prove;
pub mod proxy;
pub mod rewrite;
pub mod sending;
pub mod session;
pub mod slice;
pub mod sweep;
pub mod watching;

use asking::{AskingArgs, ExplainArgs};
use diagnosing::Diagnose;
use encrypting::{EncryptArgs, KeyArgs, KeyCommand};
use export_evidence::ExportEvidence;
use indexes::Indexes;
use lab::Lab;
use masking::{MaskArgs, MaskCommand};
use observing::{LogArgs, MetricsArgs, PageArgs};
pub use pace::ReplayOrder;
use pace::{PaceArgs, PartArgs, SafetyArgs};
use pcap::CapturePcap;
use profiling::{Cpu, Flame, Profile, ProfilingArgs};
pub use prove::Prove;
use proxy::CaptureProxy;
use rewrite::Rewrite;
use sending::SendingArgs;
use slice::{SliceArgs, SliceWorkload};
pub use sweep::Sweep;
use watching::{Observe, WatchArgs};

/// Replays a PostgreSQL database's real traffic against a change before it ships, and says what
/// got slower.
#[derive(Debug, Parser)]
#[command(name = "rehearse", version, arg_required_else_help = true)]
#[command(
    after_help = "Start with `rehearse demo`. Exit codes: 0 done, 1 something found, 2 usage, 3 could not do it."
)]
pub struct Program {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Its log.
    #[command(flatten)]
    pub log: LogArgs,
    /// The key of what it reads.
    #[command(flatten)]
    pub keys: KeyArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a workload of what clients did.
    Capture(Capture),
    /// Say what is in a workload.
    Inspect(Inspect),
    /// Make a workload of a part of another: a stretch of time, some sessions, some statements.
    Slice(Box<SliceWorkload>),
    /// Make a workload of what clients would have done otherwise: batches, statements left out, a cache.
    Rewrite(Box<Rewrite>),
    /// Make a key file for encrypted workloads.
    Key(KeyCommand),
    /// Mask the values of workloads and dumps.
    Mask(Box<MaskCommand>),
    /// Replay a workload against a server, session by session.
    Replay(Box<Replay>),
    /// Watch a server without a replay: statements, waits, locks, counters, machine.
    Observe(Observe),
    /// Say what happened in a run.
    Show(Show),
    /// Compare two runs, statement by statement.
    Compare(Box<Compare>),
    /// Say what is wrong with a run, a server or a workload: findings with their evidence, what each can win
    /// at most, and what to try.
    Diagnose(Box<Diagnose>),
    /// Record what a server's processors do, with perf.
    Profile(Profile),
    /// Say what the processor time of a profile was for: parsing, planning, opening indexes, scanning …
    Cpu(Cpu),
    /// Draw a profile, or the difference of two, as a flame graph.
    Flame(Flame),
    /// Pack all that a sceptic needs to do a run again into one file.
    ExportEvidence(ExportEvidence),
    /// Try the same load at many levels of clients, pace, protocol and settings, and find the knee.
    Sweep(Box<Sweep>),
    /// Set a change beside what is unchanged, on the same traffic, until it is won, lost or the same.
    Prove(Box<Prove>),
    /// Think of indexes for a workload, ask the planner of them, and measure the few best on the same traffic.
    Indexes(Box<Indexes>),
    /// Print the JSON schema of what a command prints with --json.
    Schema(Schema),
    /// Keep what is complete of a capture or replay that was killed.
    Recover(Recover),
    /// A private PostgreSQL of your own.
    Sandbox(Sandbox),
    /// See it all in a minute, on private servers.
    Demo(Demo),
    /// Published cases of slow databases, alive, on private servers.
    Lab(Lab),
}

/// `rehearse capture`
#[derive(Debug, Args)]
pub struct Capture {
    /// From what.
    #[command(subcommand)]
    pub source: Source,
}

/// From what a workload is made.
#[derive(Debug, Subcommand)]
pub enum Source {
    /// A server's log: stderr with any log_line_prefix, csvlog or jsonlog, also in a syslog, a
    /// cloud's export or CloudNativePG's JSON; plain, .gz, .zst, .bz2 or .xz.
    Log(Box<CaptureLog>),
    /// What passes through a proxy between clients and their server.
    Proxy(Box<CaptureProxy>),
    /// Packets in pcap or pcapng, as tcpdump and Wireshark write them: files (plain, .gz, .zst, .bz2 or .xz), or
    /// a stream on standard input.
    Pcap(Box<CapturePcap>),
    /// Print the settings with which a server writes the best log for a replay.
    Settings(CaptureSettings),
}

/// `rehearse capture log`
#[derive(Debug, Args)]
pub struct CaptureLog {
    /// Log files in any order, directories, quoted patterns such as 'log/*.gz'; `-` is standard
    /// input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The workload to make, NAME.workload.
    #[arg(
        short,
        long,
        value_name = "NAME.workload",
        required_unless_present = "dry_run"
    )]
    pub output: Option<PathBuf>,
    /// The server's log_line_prefix; recognised from the file where it is not given.
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    pub prefix: Option<String>,
    /// What the files are; told by looking where it is not given.
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Read a log that is still being written, from its end on and through rotation, until Ctrl-C
    /// or as long as --duration says. Of a directory or a pattern, the file written last.
    #[arg(long)]
    pub follow: bool,
    /// How long to follow: 30s, 10m, 1h30m.
    #[arg(long, value_name = "DURATION", requires = "follow", value_parser = clock::duration_of)]
    pub duration: Option<Duration>,
    /// Follow from the beginning of the file, not from its end.
    #[arg(long, requires = "follow")]
    pub from_start: bool,
    /// Read and account for every line, and write nothing.
    #[arg(long, conflicts_with = "output")]
    pub dry_run: bool,
    /// Print the account as JSON.
    #[arg(long)]
    pub json: bool,
    /// Which part of it to keep.
    #[command(flatten)]
    pub slice: SliceArgs,
    /// How its values are masked.
    #[command(flatten)]
    pub masking: MaskArgs,
    /// To whom it is encrypted.
    #[command(flatten)]
    pub encryption: EncryptArgs,
}

/// `rehearse capture settings`
#[derive(Debug, Args)]
pub struct CaptureSettings {
    /// Where the server runs.
    #[arg(long, value_enum, default_value = "self", value_name = "PROVIDER")]
    pub provider: Provider,
    /// The server's major version; where it is not given, settings for 13 and newer.
    #[arg(long, value_name = "MAJOR")]
    pub version: Option<u16>,
    /// How to print them [default: sql for a server of one's own, command for a provider].
    #[arg(long, value_enum)]
    pub format: Option<SettingsFormat>,
    /// Print what takes them back.
    #[arg(long)]
    pub undo: bool,
}

/// Where a server runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Provider {
    /// A server of one's own.
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

/// How settings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SettingsFormat {
    /// ALTER SYSTEM, for psql.
    Sql,
    /// name = 'value', as in postgresql.conf.
    Conf,
    /// The provider's command-line tool.
    Command,
    /// For programs.
    Json,
}

/// What a log file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines with a log_line_prefix (log_destination = stderr).
    Stderr,
    /// log_destination = csvlog.
    Csv,
    /// log_destination = jsonlog.
    Json,
    /// A syslog, or what journalctl prints.
    Syslog,
    /// Amazon CloudWatch Logs: an S3 export, `aws logs tail`, or filter-log-events' JSON.
    Cloudwatch,
    /// Google Cloud Logging's JSON of Cloud SQL or AlloyDB.
    Cloudsql,
    /// Azure's diagnostic settings' JSON.
    Azure,
    /// CloudNativePG's JSON lines.
    Cnpg,
}

/// `rehearse inspect`
#[derive(Debug, Args)]
pub struct Inspect {
    /// The workload.
    #[arg(value_name = "NAME.workload")]
    pub workload: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write a page, one file that opens in any browser.
    #[arg(long, value_name = "FILE.html", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    /// How many statements to show in each list.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: Option<u32>,
    /// In which order to show statements; without it, the text has a list in each.
    #[arg(long, value_enum)]
    pub sort: Option<Sort>,
    /// Show the slowest calls as they were sent, with the values of the user's data.
    #[arg(long)]
    pub show_literals: bool,
    /// Compare every file with its checksum first.
    #[arg(long)]
    pub verify: bool,
}

/// An order of statements, the most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Their time in all.
    Total,
    /// How often they were sent.
    Calls,
    /// Their arithmetic mean.
    Mean,
    /// Their slowest call.
    Max,
}

/// `rehearse replay`
#[derive(Debug, Args)]
pub struct Replay {
    /// The workload.
    #[arg(value_name = "NAME.workload")]
    pub workload: PathBuf,
    /// The server: postgres://HOST:PORT or 'host=… port=…' with libpq's parameters (sslmode,
    /// service, several hosts …). There is no default: a replay writes what the workload writes. A
    /// password may stand in it, in PGPASSWORD or in the password file.
    #[arg(long, value_name = "URL")]
    pub target: String,
    /// The run to make, NAME.run.
    #[arg(
        short,
        long,
        value_name = "NAME.run",
        required_unless_present = "dry_run"
    )]
    pub output: Option<PathBuf>,
    /// How fast: 2 is twice as fast as captured, 0.5 half; `max` waits only for the session's
    /// previous statement.
    #[arg(long, default_value = "1")]
    pub speed: Speed,
    /// Connect every session as this role.
    #[arg(long)]
    pub as_user: Option<String>,
    /// Connect every session to this database.
    #[arg(long)]
    pub as_database: Option<String>,
    /// Connect the sessions of role FROM as TO; can be given again.
    #[arg(long, value_name = "FROM=TO")]
    pub map_user: Vec<String>,
    /// Connect the sessions of database FROM to TO; can be given again.
    #[arg(long, value_name = "FROM=TO")]
    pub map_database: Vec<String>,
    /// Log in every session as --as-user, or else as the target's own user, and become its role by
    /// SET ROLE.
    #[arg(long)]
    pub set_role: bool,
    /// At most this many connections at once, which sessions share between transactions. Without it
    /// each session has its own, as in the capture.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_connections: Option<u32>,
    /// Threads that send and receive [default: a quarter of the cores].
    #[arg(long)]
    pub workers: Option<usize>,
    /// How many microseconds before a statement is due to watch the clock instead of sleeping.
    #[arg(long, default_value_t = 0)]
    pub spin_us: u32,
    /// At full speed, read and write connections without TLS by epoll as well, and not by io_uring where the
    /// system has it.
    #[arg(long)]
    pub without_io_uring: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
    /// Show the values in messages of the server, and messages of the application's own.
    #[arg(long)]
    pub show_literals: bool,
    /// Its pace.
    #[command(flatten)]
    pub pace: PaceArgs,
    /// Its safety.
    #[command(flatten)]
    pub safety: SafetyArgs,
    /// Its metrics.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Its live page.
    #[command(flatten)]
    pub page: PageArgs,
    /// What is sent where the capture does not say.
    #[command(flatten)]
    pub sending: SendingArgs,
    /// What its target is asked.
    #[command(flatten)]
    pub asking: AskingArgs,
    /// Its CPU profile.
    #[command(flatten)]
    pub profiling: ProfilingArgs,
    /// How its target is watched.
    #[command(flatten)]
    pub watching: WatchArgs,
    /// Which part of the workload.
    #[command(flatten)]
    pub part: PartArgs,
}

/// `rehearse show`
#[derive(Debug, Args)]
pub struct Show {
    /// The run.
    #[arg(value_name = "NAME.run")]
    pub run: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Show the values in messages of the server, and messages of the application's own.
    #[arg(long)]
    pub show_literals: bool,
}

/// `rehearse compare`
#[derive(Debug, Args)]
pub struct Compare {
    /// The run before the change, and the run after it.
    #[arg(value_names = ["BEFORE.run", "AFTER.run"], num_args = 2, required_unless_present_any = ["before", "dry_run"], conflicts_with_all = ["before", "after"])]
    pub runs: Vec<PathBuf>,
    /// Several runs before the change: the run, not the statement, is then what is counted.
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "after")]
    pub before: Vec<PathBuf>,
    /// Several runs after the change.
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "before")]
    pub after: Vec<PathBuf>,
    /// Two or more runs of one unchanged server: what they differ by is noise, and raises the margin.
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub noise: Vec<PathBuf>,
    /// Differences up to this many percent count as none.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    pub margin: f64,
    /// Of the statements called slower or faster, at most this many percent may be chance.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub false_discovery_rate: f64,
    /// What makes the exit code 1: regression, 'p99 > 1.2x and calls > 100', 'new_errors > 0' and the
    /// like (docs/fail-on.md). Can be given again: any that holds does.
    #[arg(long, value_name = "CONDITION")]
    pub fail_on: Vec<String>,
    /// Say whether options and conditions are understood, and read nothing: for pipelines, before
    /// the replays.
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON, as `rehearse schema compare` describes it.
    #[arg(long)]
    pub json: bool,
    /// Show the values in messages of the server and in conditions of plans, and messages of the
    /// application's own.
    #[arg(long)]
    pub show_literals: bool,
    /// Files to write beside.
    #[command(flatten)]
    pub outputs: OutputArgs,
    /// Plans that it asks for.
    #[command(flatten)]
    pub explain: ExplainArgs,
}

/// Files that a comparison is written to.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Files, beside what is printed")]
pub struct OutputArgs {
    /// A page for a browser: one file that needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// JUnit XML, for GitLab, Jenkins and the like.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// GitHub-flavoured Markdown for a comment on a pull request; `-` prints it instead of the text.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// `rehearse schema`
#[derive(Debug, Args)]
pub struct Schema {
    /// Which command's JSON.
    #[arg(value_enum, value_name = "OF")]
    pub of: SchemaOf,
}

/// What has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// `capture log --json`.
    CaptureLog,
    /// `capture pcap --json`.
    CapturePcap,
    /// `capture proxy --json`.
    CaptureProxy,
    /// `inspect --json`.
    Inspect,
    /// `summary --json` and `replay --json`.
    Summary,
    /// `replay --dry-run --json`.
    DryRun,
    /// `compare --json`.
    Compare,
    /// `phases --json`.
    Phases,
    /// `sweep --json`.
    Sweep,
    /// `observe --json`, and `observed` of `summary --json`.
    Observe,
    /// `bundle --json`, and `evidence.json` in a bundle.
    Evidence,
    /// `lab NAME --json`.
    Lab,
    /// `diagnose --json`.
    Diagnose,
    /// `prove --json`.
    Proof,
}

impl SchemaOf {
    /// As the renderers know it.
    pub fn described(self) -> report::schema::Described {
        use report::schema::Described;
        match self {
            SchemaOf::CaptureLog => Described::CaptureLog,
            SchemaOf::CapturePcap => Described::CapturePcap,
            SchemaOf::CaptureProxy => Described::CaptureProxy,
            SchemaOf::Inspect => Described::Inspect,
            SchemaOf::Summary => Described::Summary,
            SchemaOf::DryRun => Described::DryRun,
            SchemaOf::Compare => Described::Compare,
            SchemaOf::Phases => Described::Phases,
            SchemaOf::Sweep => Described::Sweep,
            SchemaOf::Observe => Described::Observe,
            SchemaOf::Evidence => Described::Evidence,
            SchemaOf::Lab => Described::Lab,
            SchemaOf::Diagnose => Described::Diagnose,
            SchemaOf::Proof => Described::Proof,
        }
    }
}

/// `rehearse recover`
#[derive(Debug, Args)]
pub struct Recover {
    /// NAME.workload.partial or NAME.run.partial.
    #[arg(value_name = "NAME.partial")]
    pub partial: PathBuf,
}

/// `rehearse sandbox`
#[derive(Debug, Args)]
pub struct Sandbox {
    /// What to do.
    #[command(subcommand)]
    pub action: SandboxAction,
}

/// What to do with sandboxes.
#[derive(Debug, Subcommand)]
pub enum SandboxAction {
    /// Make a private server and leave it running.
    Up(SandboxUp),
    /// Stop a private server and delete its data.
    Down {
        /// Its name.
        name: String,
    },
    /// List the private servers.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// `rehearse sandbox up`
#[derive(Debug, Args)]
pub struct SandboxUp {
    /// Its name.
    #[arg(default_value = "rehearse")]
    pub name: String,
    /// Which PostgreSQL.
    #[command(flatten)]
    pub server: Server,
    /// The TCP port on loopback; a free one where it is not given.
    #[arg(long)]
    pub port: Option<u16>,
    /// A setting, as in postgresql.conf; can be given again.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
}

/// Which PostgreSQL a private server is made of.
#[derive(Debug, Clone, Args)]
pub struct Server {
    /// The major version; any where it is not given. Fetched once where it is not installed.
    #[arg(long = "postgres-version", value_name = "MAJOR")]
    pub version: Option<u16>,
    /// The folder of a PostgreSQL installation (or its bin folder).
    #[arg(long = "postgres", value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// `rehearse demo`
#[derive(Debug, Args)]
pub struct Demo {
    /// Where to leave what it makes.
    #[arg(long, value_name = "DIR", default_value = "rehearse-demo")]
    pub dir: PathBuf,
    /// Which PostgreSQL.
    #[command(flatten)]
    pub server: Server,
    /// How long to drive the shop, in seconds.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(3..=600))]
    pub seconds: u64,
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
