//! What a replay sends where the capture does not say.

use clap::{Args, ValueEnum};

/// What the capture may not know.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What is sent")]
pub struct SendingArgs {
    /// Fetch this many rows at a time from named portals, where the capture does not know how many
    /// were asked for, as a log does not. Without it all rows are fetched at the first, and further
    /// fetches are skipped.
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..=2_147_483_647))]
    pub fetch_size: Option<u32>,
    /// Where the capture has results: follow numbers of sequences and uuids that the server makes up
    /// anew, and send later parameters of the session that repeat a captured one with the new one.
    #[arg(long)]
    pub remap_generated: bool,
    /// Sum up the rows of each result in a checksum, in whatever order they come, so that wrong
    /// answers are found: beside the capture's where it was asked for it, and beside another run's.
    #[arg(long, value_enum, value_name = "OF")]
    pub checksum_results: Option<Digest>,
}

/// What of a result is summed up in a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Digest {
    /// The rows, as the server sent them.
    Rows,
}
