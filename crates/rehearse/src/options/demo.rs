//! Options of `rehearse demo`.

use std::path::PathBuf;

use clap::Args;

use super::Server;

/// Options of `rehearse demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Write the results to this directory.
    #[arg(short, long, value_name = "DIR", default_value = "rehearse-demo")]
    pub output: PathBuf,
    /// PostgreSQL installation.
    #[command(flatten)]
    pub server: Server,
    /// Run the shop for this many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 12, value_parser = clap::value_parser!(u64).range(3..=600))]
    pub seconds: u64,
}
