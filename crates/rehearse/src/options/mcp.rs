//! Options of the MCP server.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// Options of `rehearse mcp`.
#[derive(Debug, Args)]
pub struct Mcp {
    /// Give access to the artefacts and logs in this directory, and to nothing else. Repeatable
    /// [default: the current directory].
    #[arg(long, value_name = "DIR")]
    pub root: Vec<PathBuf>,
    /// Show at most this many rows of each list of an answer.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_rows: u32,
    /// Limit each answer to this many bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(4_096..=67_108_864))]
    pub max_bytes: u32,
    /// Stop a call after this time: 30s, 10m.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = clock::parse_duration)]
    pub time_limit: Duration,
    /// Allow proofs. Each is on a copy of a private server (see `rehearse sandbox`), which the call starts and deletes.
    #[arg(long)]
    pub allow_proofs: bool,
    /// Perform one call of a server, which is its parent process.
    #[arg(long, hide = true)]
    pub worker: bool,
}
