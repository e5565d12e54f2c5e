//! Options of `rehearse compare`.

use std::path::PathBuf;

use clap::Args;
use sql::ContextKey;

use super::context::context_key;
use super::facts::ExplainArgs;
use super::following::FollowArgs;
use super::notifying::NotifyArgs;
use super::observing::{AllowHostArgs, MetricsArgs};

/// Options of `rehearse compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// Compare these runs: one before the change and one after it. With --follow, a workload or series and its run.
    #[arg(value_names = ["BEFORE.run", "AFTER.run"], num_args = 2, required_unless_present_any = ["before", "dry_run"], conflicts_with_all = ["before", "after"])]
    pub runs: Vec<PathBuf>,
    /// Compare several runs before the change; the run, not the statement, is then the unit of
    /// analysis.
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "after")]
    pub before: Vec<PathBuf>,
    /// Compare with several runs after the change.
    #[arg(long, value_name = "RUN", num_args = 1.., requires = "before")]
    pub after: Vec<PathBuf>,
    /// Estimate noise from two or more runs of one unchanged server. Noise raises the margin.
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub noise: Vec<PathBuf>,
    /// Treat differences up to this percentage as no difference.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    pub margin: f64,
    /// Limit the expected share of false positives among the reported statements to this
    /// percentage.
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub false_discovery_rate: f64,
    /// Do not compare the rows of statements whose normalised text contains this text in any case; `*` matches any
    /// text. A column's name ignores the statements that name it. Repeatable.
    #[arg(long, value_name = "PATTERN")]
    pub ignore_rows: Vec<String>,
    /// Do not compare the values of result columns with these names, in any case. Both replays need
    /// --checksum-results columns.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub ignore_columns: Vec<String>,
    /// Compare also by this part of the context that comments of statements name.
    #[arg(long, value_name = "KEY", value_parser = context_key())]
    pub by: Option<ContextKey>,
    /// Exit with 1 if this condition holds: regression, 'p99 > 1.2x and calls > 100',
    /// 'new_errors > 0' … (docs/reference/fail-on.md). Repeatable: one that holds is enough.
    #[arg(long, value_name = "CONDITION")]
    pub fail_on: Vec<String>,
    /// Check options and conditions, and read nothing. Use it in a pipeline before the replays.
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON, as `rehearse schema compare` describes it.
    #[arg(long)]
    pub json: bool,
    /// Show values in server messages and conditions of plans, and the application's own
    /// messages.
    #[arg(long)]
    pub show_literals: bool,
    /// Files to write.
    #[command(flatten)]
    pub outputs: OutputArgs,
    /// Message to a chat.
    #[command(flatten)]
    pub notifying: NotifyArgs,
    /// Plans to collect.
    #[command(flatten)]
    pub explain: ExplainArgs,
    /// Run that is being written.
    #[command(flatten)]
    pub follow: FollowArgs,
    /// Metrics of that comparison.
    #[command(flatten)]
    pub metrics: MetricsArgs,
    /// Host names of the metrics.
    #[command(flatten)]
    pub hosts: AllowHostArgs,
}

/// Files that a comparison writes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Output files")]
pub struct OutputArgs {
    /// Write a page: one file that any browser opens.
    #[arg(long, value_name = "FILE.html")]
    pub html: Option<PathBuf>,
    /// Write JUnit XML, for GitLab, Jenkins and other CI systems.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write comma-separated values: a row for each statement, and with --by for each value of the context
    /// (docs/reference/csv.md).
    #[arg(long, value_name = "FILE.csv")]
    pub csv: Option<PathBuf>,
    /// Write the findings as SARIF, placed in the SQL file of --migration, for code scanning.
    #[arg(long, value_name = "FILE.sarif", requires = "migration")]
    pub sarif: Option<PathBuf>,
    /// Place the findings of --sarif in this SQL file, which the runs after the change had.
    #[arg(long, value_name = "FILE.sql", requires = "sarif")]
    pub migration: Option<PathBuf>,
    /// Write GitHub-flavoured Markdown for a pull request comment; `-` prints it instead of the
    /// text.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}
