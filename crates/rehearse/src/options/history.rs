//! Options of `rehearse history`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Options of `rehearse history`.
#[derive(Debug, Args)]
pub struct History {
    /// Action.
    #[command(subcommand)]
    pub action: HistoryAction,
}

/// Actions of `rehearse history`.
#[derive(Debug, Subcommand)]
pub enum HistoryAction {
    /// Add the numbers of runs.
    Add(HistoryAdd),
    /// Show the runs, and how the times and the work of statements developed.
    Show(HistoryShow),
    /// Write the numbers as comma-separated values, a row a run, for programs that look for change
    /// points.
    Export(HistoryExport),
}

/// Options of `rehearse history add`.
#[derive(Debug, Args)]
pub struct HistoryAdd {
    /// Directory of the history, which is created if it does not exist.
    #[arg(value_name = "DIRECTORY")]
    pub history: PathBuf,
    /// Runs of one workload at one speed. A run that the history has is not added again.
    #[arg(value_name = "NAME.run", required = true)]
    pub runs: Vec<PathBuf>,
    /// Label of these runs, such as a commit or a version.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub label: String,
}

/// Options of `rehearse history show`.
#[derive(Debug, Args)]
pub struct HistoryShow {
    /// Directory of the history.
    #[arg(value_name = "DIRECTORY")]
    pub history: PathBuf,
    /// Show this number of statements: those that took the most time in the last run.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub statements: usize,
    /// Print the result as JSON, as `rehearse schema history` describes it.
    #[arg(long)]
    pub json: bool,
}

/// Options of `rehearse history export`.
#[derive(Debug, Args)]
pub struct HistoryExport {
    /// Directory of the history.
    #[arg(value_name = "DIRECTORY")]
    pub history: PathBuf,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE.csv")]
    pub output: Option<PathBuf>,
    /// Write columns for this number of statements: those that took the most time in any run.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub statements: usize,
}
