//! Options of `rehearse plans`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use study::plan_check::PlanCondition;

/// Options of `rehearse plans`.
#[derive(Debug, Args)]
pub struct Plans {
    /// Action.
    #[command(subcommand)]
    pub action: PlansAction,
}

/// Actions of `rehearse plans`.
#[derive(Debug, Subcommand)]
pub enum PlansAction {
    /// Export what the planner of a server reads: schema, sizes, statistics, settings. The file has values of columns,
    /// and no rows.
    Export(PlansExport),
    /// Compare the plans of a workload's statements on two private servers that plan with an export.
    Check(Box<PlansCheck>),
}

/// Options of `rehearse plans export`.
#[derive(Debug, Args)]
pub struct PlansExport {
    /// Export the database of this server, which is only read: a URL, or key=value pairs as for libpq. A role
    /// that is no superuser exports the statistics of the columns that it may read.
    #[arg(long, value_name = "URL")]
    pub target: String,
    /// Write to this file, NAME.planner, which only you can read.
    #[arg(short, long, value_name = "NAME.planner")]
    pub output: PathBuf,
    /// Replace the values in statistics as the workload's masking with the key in this file does (see
    /// `rehearse mask key`). Constants of the schema stay.
    #[arg(long, value_name = "KEYFILE")]
    pub mask: Option<PathBuf>,
    /// Keep values that equal this text, as given for the workload; `*` matches any text. Repeatable.
    #[arg(long, value_name = "VALUE", requires = "mask")]
    pub mask_keep: Vec<String>,
}

/// Options of `rehearse plans check`.
#[derive(Debug, Args)]
pub struct PlansCheck {
    /// Check the statements of this workload.
    #[arg(value_name = "NAME.workload")]
    pub workload: PathBuf,
    /// Plan with this export of `rehearse plans export`.
    #[arg(long, value_name = "NAME.planner")]
    pub planner: PathBuf,
    /// Plan with this major version. Given twice: before and after. [default: that of the export]
    #[arg(long = "version", value_name = "MAJOR", value_parser = clap::value_parser!(u16).range(10..))]
    pub versions: Vec<u16>,
    /// Apply this SQL file on the side after, to empty tables.
    #[arg(long, value_name = "FILE.sql")]
    pub change: Option<PathBuf>,
    /// Set this on the side after. Repeatable.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Plan again with this many perturbed copies of the statistics, which tell whether a change is stable; 0 for none.
    #[arg(long, value_name = "COPIES", default_value_t = 4, value_parser = clap::value_parser!(u32).range(..=100))]
    pub perturb: u32,
    /// Exit with 1 if this holds for any statement: changed, stable-change, error, sequential-scan, lost-index,
    /// lost-pruning, nested-loop, jit, unchecked, 'unchecked > 20%', 'cost > 2x'. Exit with 4 if this cannot be decided. Repeatable.
    #[arg(long, value_name = "CONDITION")]
    pub fail_on: Vec<PlanCondition>,
    /// Print JSON, as `rehearse schema plans-check` describes it.
    #[arg(long)]
    pub json: bool,
    /// Write a page with both plans of each changed statement.
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// Write GitHub-flavoured Markdown for a pull request comment; `-` prints it instead of the
    /// text.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Show the values in plans and server messages.
    #[arg(long)]
    pub show_literals: bool,
}
