//! Options of `rehearse completions` and `rehearse man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Options of `rehearse completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell that reads the script.
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

/// Options of `rehearse man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Write the pages to this directory, which is created.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}
