//! Options of `rehearse upgrade`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use clock::Speed;
use replay::Options;
use study::Failure;
use study::proof::ProofPlace;
use study::upgrade_inspect::{UpgradeMethod, UpgradeSeverity};
use study::upgrade_rehearsal::{CloneRequest, OwnServers, RehearsalServers};

use super::session::SessionArgs;

/// Options of `rehearse upgrade`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Upgrade {
    /// Single step instead of the whole rehearsal.
    #[command(subcommand)]
    pub action: Option<UpgradeAction>,
    /// Replay this workload on both versions.
    #[arg(value_name = "NAME.workload", required = true)]
    pub workload: Option<PathBuf>,
    /// Dump this server, a copy of production that is only read: a URL, or key=value pairs as for libpq. With --target it
    /// is the old side, and the workload is replayed on it.
    #[arg(long, value_name = "URL", required = true)]
    pub from: Option<String>,
    /// Upgrade to this major version. With --target, refuse a target of another one.
    #[arg(long, value_name = "MAJOR", required_unless_present = "target", value_parser = clap::value_parser!(u16).range(10..))]
    pub to: Option<u16>,
    /// Write to this directory, NAME.upgrade: report.html, report.json, the dump and all runs.
    #[arg(short, long, value_name = "NAME.upgrade", required = true)]
    pub output: Option<PathBuf>,
    /// Measure for at most this long in total.
    #[arg(long, value_name = "DURATION", default_value = "20m", value_parser = clock::parse_duration)]
    pub within: Duration,
    /// Replay at this speed: 1, 2, 0.5 or max.
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    pub speed: Speed,
    /// Resume a rehearsal that was stopped or killed. Give the same options.
    #[arg(long)]
    pub resume: bool,
    /// Print JSON, as `rehearse schema upgrade` describes it.
    #[arg(long)]
    pub json: bool,
    /// Show the values in plans and server messages.
    #[arg(long)]
    pub show_literals: bool,
    /// Give private servers default settings. Without this option they get those settings of --from that can change plans,
    /// answers or work.
    #[arg(long, conflicts_with = "own_servers")]
    pub default_settings: bool,
    /// Upgraded server of the user.
    #[command(flatten)]
    pub own: OwnServersArgs,
    /// Commands that make the servers.
    #[command(flatten)]
    pub clones: CloneArgs,
    /// Connections of the sessions.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Commands that make and remove clones.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Clones by your own commands")]
pub struct CloneArgs {
    /// Replay on clones of --from, which this shell command makes, once for each side. It prints the URL of the clone in
    /// its last line, and is given PGHOST and so on of --from, REHEARSE_SIDE (old or new), REHEARSE_VERSION and
    /// REHEARSE_CLONE, a name for the clone.
    #[arg(long, value_name = "COMMAND", group = "own_servers", requires = "to")]
    pub clone_command: Option<String>,
    /// Upgrade the new clone with this shell command. It is given REHEARSE_URL, and may print another URL. Without it, the
    /// clone command makes an upgraded clone for the new side.
    #[arg(long, value_name = "COMMAND", requires = "clone_command")]
    pub upgrade_command: Option<String>,
    /// Remove a clone with this shell command, at the end, after an error and after an interrupt. It is given REHEARSE_URL,
    /// which is empty if the clone command failed.
    #[arg(long, value_name = "COMMAND", requires = "clone_command")]
    pub drop_command: Option<String>,
    /// End each of these commands after this time.
    #[arg(long, value_name = "DURATION", default_value = "2h", requires = "clone_command", value_parser = clock::parse_duration)]
    pub clone_time_limit: Duration,
}

/// Servers of the user.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Your own servers")]
pub struct OwnServersArgs {
    /// Replay on --from and on this upgraded copy instead of private servers. Both must be copies.
    #[arg(long, value_name = "URL", group = "own_servers")]
    pub target: Option<String>,
    /// Make the private server of the new version in this way [default: dump]. For a server of yours, state how it was
    /// upgraded, for the inspection; logical replication is like a dump [default: pg_upgrade].
    #[arg(long, value_enum, value_name = "METHOD")]
    pub method: Option<Method>,
    /// Restore the data of a server with this shell command before each of its runs. It is given PGHOST, PGPORT and so on,
    /// and REHEARSE_SIDE, which is old or new.
    #[arg(long, value_name = "COMMAND", requires = "own_servers")]
    pub restore: Option<String>,
    /// Create the database of both servers from this one before each run (CREATE DATABASE … TEMPLATE). It must not exist
    /// yet, and is dropped at the end.
    #[arg(
        long,
        value_name = "DATABASE",
        requires = "own_servers",
        conflicts_with = "restore"
    )]
    pub template: Option<String>,
    /// Do not restore the data between runs, although the workload writes.
    #[arg(long, requires = "own_servers", conflicts_with_all = ["restore", "template"])]
    pub no_restore: bool,
    /// Allow a server to be the one that the workload was captured on; repeat its address here.
    #[arg(long, value_name = "HOST:PORT", requires = "own_servers")]
    pub allow_captured_server: Option<String>,
    /// Allow databases with foreign servers, dblink and the like, or subscriptions. The replay may write to those systems.
    #[arg(long, requires = "own_servers")]
    pub allow_foreign_servers: bool,
    /// Allow a server to be written although others use it, or although the workload does not name the captured server;
    /// repeat its address here. Once for each server.
    #[arg(long, value_name = "HOST:PORT", requires = "own_servers")]
    pub overwrite: Vec<String>,
}

impl Upgrade {
    /// Returns the servers to replay on; `None` without a version and a target.
    ///
    /// # Errors
    /// If a URL is malformed.
    pub fn servers(&self) -> Result<Option<RehearsalServers>, Failure> {
        let own = &self.own;
        let Some(url) = &own.target else {
            return Ok(self.to.map(|to| RehearsalServers::Private {
                to,
                method: own.method.unwrap_or(Method::Dump).method(),
                has_default_settings: self.default_settings,
            }));
        };
        let target = replay::Target::parse(url, |name| std::env::var(name).ok())?;
        Ok(Some(RehearsalServers::Own(Box::new(OwnServers {
            place: ProofPlace {
                target: self.from.clone(),
                other_target: Some(target.clone()),
                allow_captured_server: own.allow_captured_server.clone(),
                restore: own.restore.clone(),
                template: own.template.clone(),
                no_restore: own.no_restore,
                ..ProofPlace::default()
            },
            target,
            to: self.to,
            method: own.method.unwrap_or(Method::PgUpgrade).method(),
            may_reach_others: own.allow_foreign_servers,
            confirmed: own.overwrite.clone(),
            cloned: None,
        }))))
    }

    /// Returns the commands that make clones; `None` without --clone-command.
    pub fn clone_request(&self) -> Option<CloneRequest> {
        let (own, clones) = (&self.own, &self.clones);
        Some(CloneRequest {
            clone: clones.clone_command.clone()?,
            upgrade: clones.upgrade_command.clone(),
            drop: clones.drop_command.clone(),
            time_limit: clones.clone_time_limit,
            to: self.to?,
            method: own.method.unwrap_or(Method::PgUpgrade).method(),
            place: ProofPlace {
                allow_captured_server: own.allow_captured_server.clone(),
                restore: own.restore.clone(),
                template: own.template.clone(),
                no_restore: own.no_restore,
                ..ProofPlace::default()
            },
            may_reach_others: own.allow_foreign_servers,
            confirmed: own.overwrite.clone(),
        })
    }

    /// Returns the options of every replay.
    pub fn replay_options(&self) -> Options {
        Options {
            speed: self.speed,
            ..self.session.replay_options()
        }
    }
}

/// Actions of `rehearse upgrade`.
#[derive(Debug, Subcommand)]
pub enum UpgradeAction {
    /// Check what a major upgrade refuses or forgets, from the catalogues of the old server and of the new version. Both
    /// servers are only read.
    Inspect(Box<UpgradeInspect>),
    /// Compare the upgraded production server with its rehearsal: remedies, plans, and times of statements. The server is
    /// only read, and statements are planned, not executed.
    Verify(UpgradeVerify),
}

/// Options of `rehearse upgrade verify`.
#[derive(Debug, Args)]
pub struct UpgradeVerify {
    /// Compare with this finished rehearsal.
    #[arg(value_name = "NAME.upgrade")]
    pub rehearsal: PathBuf,
    /// Verify this upgraded server, and its database: a URL, or key=value pairs as for libpq. Name a role that is no
    /// superuser, and a member of the captured roles, of pg_read_all_data and of pg_monitor.
    #[arg(long, value_name = "URL")]
    pub target: String,
    /// Observe the server for this long.
    #[arg(long = "for", visible_alias = "duration", value_name = "DURATION", default_value = "10m", value_parser = clock::parse_duration)]
    pub duration: Duration,
    /// Take the values for plans from this workload, if it is not where the rehearsal found it.
    #[arg(long, value_name = "NAME.workload")]
    pub workload: Option<PathBuf>,
    /// Print JSON, as `rehearse schema upgrade-verify` describes it.
    #[arg(long)]
    pub json: bool,
}

/// Options of `rehearse upgrade inspect`.
#[derive(Debug, Args)]
pub struct UpgradeInspect {
    /// Inspect this server, all databases: a URL, or key=value pairs as for libpq. A role that is no superuser sees
    /// less, which is reported.
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// Compare with this major version, of which a private server is started unless --target is given.
    #[arg(long, value_name = "MAJOR", required_unless_present = "target", value_parser = clap::value_parser!(u16).range(10..))]
    pub to: Option<u16>,
    /// Compare with this upgraded server, or upgraded copy.
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// Upgrade in this way; logical replication is like a dump.
    #[arg(long, value_enum, value_name = "METHOD", default_value_t = Method::PgUpgrade)]
    pub method: Method,
    /// Exit with 1 if there is a finding of this severity or a graver one, and with 4 if a part that can block the
    /// upgrade could not be checked.
    #[arg(long, value_enum, value_name = "SEVERITY")]
    pub fail_on: Option<Severity>,
    /// Print JSON, as `rehearse schema upgrade-inspect` describes it.
    #[arg(long)]
    pub json: bool,
    /// Write GitHub-flavoured Markdown; `-` prints it instead of the text.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// Way of the upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// `pg_upgrade`, which keeps the files of tables and indexes
    #[value(name = "pg_upgrade")]
    PgUpgrade,
    /// dump and restore
    Dump,
}

impl Method {
    /// Converts the option to the library's type.
    pub fn method(self) -> UpgradeMethod {
        match self {
            Method::PgUpgrade => UpgradeMethod::PgUpgrade,
            Method::Dump => UpgradeMethod::Dump,
        }
    }
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Severity {
    /// the upgrade or the start of the new server fails
    Blocks,
    /// the new server lacks something until a statement is executed
    MendAfter,
    /// a difference or a limit
    Note,
}

impl Severity {
    /// Converts the option to the library's type.
    pub fn severity(self) -> UpgradeSeverity {
        match self {
            Severity::Blocks => UpgradeSeverity::Blocks,
            Severity::MendAfter => UpgradeSeverity::MendAfter,
            Severity::Note => UpgradeSeverity::Note,
        }
    }
}
