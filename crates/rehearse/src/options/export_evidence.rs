//! Options of `rehearse export-evidence`.

use std::path::PathBuf;

use clap::Args;

/// Options of `rehearse export-evidence`.
#[derive(Debug, Args)]
pub struct ExportEvidence {
    /// Export the evidence of this run.
    #[arg(value_name = "NAME.run")]
    pub run: PathBuf,
    /// Write the archive to this file [default: NAME.evidence.tar.zst next to the run].
    #[arg(short, long, value_name = "FILE.tar.zst")]
    pub output: Option<PathBuf>,
    /// List every item with its source, or the reason why it is missing, and write nothing.
    #[arg(long, conflicts_with = "output")]
    pub dry_run: bool,
    /// Include the run itself. Its messages and plans can contain values of the application.
    #[arg(long)]
    pub with_run: bool,
    /// Include the workload, with the statements as they were sent.
    #[arg(long, value_name = "NAME.workload")]
    pub with_workload: Option<PathBuf>,
    /// Do not redact values in messages and plans.
    #[arg(long)]
    pub show_literals: bool,
    /// Print the list as JSON, as it is in the archive.
    #[arg(long)]
    pub json: bool,
}
