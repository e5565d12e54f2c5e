//! What a bundle of evidence is made of.

use std::path::PathBuf;

use clap::Args;

/// `rehearse export-evidence`
#[derive(Debug, Args)]
pub struct ExportEvidence {
    /// The run.
    #[arg(value_name = "NAME.run")]
    pub run: PathBuf,
    /// Where to [default: NAME.evidence.tar.zst beside it].
    #[arg(short, long, value_name = "FILE.tar.zst")]
    pub output: Option<PathBuf>,
    /// Write nothing; list every artefact with how it was got, or why not.
    #[arg(long, conflicts_with = "output")]
    pub dry_run: bool,
    /// Also pack the run itself. Its messages and plans may have values of the application's in them.
    #[arg(long)]
    pub with_run: bool,
    /// Also pack the workload, with the statements as they were sent.
    #[arg(long, value_name = "NAME.workload")]
    pub with_workload: Option<PathBuf>,
    /// Do not hide values in messages and plans.
    #[arg(long)]
    pub show_literals: bool,
    /// Print the list as JSON, as it is in the bundle.
    #[arg(long)]
    pub json: bool,
}
