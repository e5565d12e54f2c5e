//! The lab.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Server;

/// `rehearse lab`
#[derive(Debug, Args)]
pub struct Lab {
    /// Which case.
    #[command(subcommand)]
    pub case: LabCase,
}

/// Cases.
#[derive(Debug, Subcommand)]
pub enum LabCase {
    /// Many partial indexes, and one row at a time.
    Heap(CaseArgs),
    /// The half that nobody measures: planning, and the cliff that speaks against counting it.
    Planning(CaseArgs),
    /// A work queue without the index of its claim: workers starve, and the suspect is innocent.
    Queue(CaseArgs),
    /// A replay that waits: one slow statement, and everybody in one queue.
    Stall(CaseArgs),
    /// An instance of the queue's downloader: the case starts it, and tells it on its standard input what to do.
    #[command(hide = true)]
    Instance,
}

/// How a case is run.
#[derive(Debug, Args)]
pub struct CaseArgs {
    /// How large: small takes a minute or two on two processors.
    #[arg(long, value_enum, default_value_t = LabScale::Small)]
    pub size: LabScale,
    /// Where to leave what it makes [default: rehearse-lab/NAME].
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Which PostgreSQL.
    #[command(flatten)]
    pub server: Server,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// How large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabScale {
    /// A minute or two.
    Small,
    /// For a real machine, and as long as was published.
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
