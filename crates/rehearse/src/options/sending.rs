//! Options for what the capture does not determine: fetch sizes, generated values and checksums.

use clap::{Args, ValueEnum};

/// Fetch sizes, generated values and checksums.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Statements")]
pub struct SendingArgs {
    /// Fetch this many rows at a time from named portals if the capture has no row limit, as in
    /// a log [default: fetch all rows at once, and skip further fetches].
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..=2_147_483_647))]
    pub fetch_size: Option<u32>,
    /// Follow sequence numbers and uuids that the server generates anew, and replace captured
    /// ones in later statements of all sessions. The capture must have results.
    #[arg(long)]
    pub remap_generated: bool,
    /// Compute an order-independent checksum of each result's rows, to compare with the
    /// capture's or with another run's. `columns` adds one of each column, and keeps some rows.
    #[arg(long, value_enum, value_name = "PART")]
    pub checksum_results: Option<ReplayDigest>,
}

/// Parts of a replayed result that have checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReplayDigest {
    /// Rows as the server sent them.
    Rows,
    /// Rows, and each column of all rows. The first rows of some results are kept.
    Columns,
}

/// Parts of a result that a checksum covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Digest {
    /// Rows as the server sent them.
    Rows,
}
