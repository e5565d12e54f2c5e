//! Options of `rehearse lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Server;

/// Options of `rehearse lab`.
#[derive(Debug, Args)]
pub struct Lab {
    /// Case to run.
    #[command(subcommand)]
    pub case: LabCase,
}

/// Cases.
#[derive(Debug, Subcommand)]
pub enum LabCase {
    /// Reproduce slow single-row updates on a table with many partial indexes.
    Heap(CaseArgs),
    /// Reproduce planning time that no statement statistics show, and the cost of counting it.
    Planning(CaseArgs),
    /// Reproduce a work queue without an index for its claim query, and show that the suspected
    /// statement is not the cause.
    Queue(CaseArgs),
    /// Reproduce head-of-line blocking: one slow statement delays all sessions of a replay in a global queue.
    Stall(CaseArgs),
    /// Run one downloader of the queue case, controlled over standard input.
    #[command(hide = true)]
    Instance,
}

/// Options of a case.
#[derive(Debug, Args)]
pub struct CaseArgs {
    /// Run at this size: small takes a minute or two on two processors.
    #[arg(long, value_enum, value_name = "SIZE", default_value_t = LabScale::Small)]
    pub size: LabScale,
    /// Write the results to this directory [default: rehearse-lab/NAME].
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// PostgreSQL installation.
    #[command(flatten)]
    pub server: Server,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Sizes of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabScale {
    /// Takes a minute or two.
    Small,
    /// Has the published size and duration.
    Full,
}

impl From<LabScale> for lab::Scale {
    fn from(scale: LabScale) -> Self {
        match scale {
            LabScale::Small => lab::Scale::Small,
            LabScale::Full => lab::Scale::Full,
        }
    }
}
