//! Options of `rehearse upgrade`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use study::upgrade_inspect::{UpgradeMethod, UpgradeSeverity};

/// Options of `rehearse upgrade`.
#[derive(Debug, Args)]
pub struct Upgrade {
    /// Action.
    #[command(subcommand)]
    pub action: UpgradeAction,
}

/// Actions of `rehearse upgrade`.
#[derive(Debug, Subcommand)]
pub enum UpgradeAction {
    /// Check what a major upgrade refuses or forgets, from the catalogues of the old server and of the new version. Both
    /// servers are only read.
    Inspect(Box<UpgradeInspect>),
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
    /// Exit with 1 if there is a finding of this severity or a graver one.
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
