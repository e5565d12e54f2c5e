//! Options of `rehearse capture pcap`.

use std::path::PathBuf;

use clap::Args;

use crate::options::sending::Digest;

use super::encrypting::EncryptArgs;
use super::masking::MaskArgs;
use super::roll::RollArgs;
use super::slice::SliceArgs;
use super::starting_point::StartingPointArgs;

/// Options of `rehearse capture pcap`.
#[derive(Debug, Args)]
pub struct CapturePcap {
    /// Read these packet files, in any order, as `tcpdump -w` writes them. `-` is standard
    /// input, such as a running `tcpdump -U -w -`: the capture ends with the stream or with
    /// Ctrl-C.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Capture the server on this TCP port. Repeatable.
    #[arg(long, value_name = "PORT", default_value = "5432", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Vec<u16>,
    /// Write the workload to this directory, NAME.workload; with --roll, a series to NAME.series.
    #[arg(
        short,
        long,
        value_name = "NAME.workload",
        required_unless_present = "dry_run"
    )]
    pub output: Option<PathBuf>,
    /// Read and count every packet, but write nothing.
    #[arg(long, conflicts_with = "output")]
    pub dry_run: bool,
    /// Store a checksum of every result, to compare with in a replay.
    #[arg(long, value_enum, value_name = "PART")]
    pub checksum_results: Option<Digest>,
    /// Print the capture report as JSON.
    #[arg(long)]
    pub json: bool,
    /// Starting point.
    #[command(flatten)]
    pub starting_point: StartingPointArgs,
    /// Part of the traffic to keep.
    #[command(flatten)]
    pub slice: SliceArgs,
    /// Recording of a series.
    #[command(flatten)]
    pub roll: RollArgs,
    /// Masking of the values.
    #[command(flatten)]
    pub masking: MaskArgs,
    /// Encryption of the workload.
    #[command(flatten)]
    pub encryption: EncryptArgs,
}
