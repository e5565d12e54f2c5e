//! Options for capturing packets, from files or from standard input.

use std::path::PathBuf;

use clap::Args;

use crate::options::sending::Digest;

use super::encrypting::EncryptArgs;
use super::masking::MaskArgs;
use super::slice::SliceArgs;

/// `rehearse capture pcap`
#[derive(Debug, Args)]
pub struct CapturePcap {
    /// Read these packet files, in any order, as `tcpdump -w` writes them. `-` is standard input, such as a running
    /// `tcpdump -U -w -`: the capture ends with the stream or with Ctrl-C.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The server's TCP port; can be given again.
    #[arg(long, value_name = "PORT", default_value = "5432", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Vec<u16>,
    /// The workload to make, NAME.workload.
    #[arg(
        short,
        long,
        value_name = "NAME.workload",
        required_unless_present = "dry_run"
    )]
    pub output: Option<PathBuf>,
    /// Read and account for every packet, and write nothing.
    #[arg(long, conflicts_with = "output")]
    pub dry_run: bool,
    /// Take down a checksum of every result, so that a replay can tell whether it is equal.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub checksum_results: Option<Digest>,
    /// Print the account as JSON.
    #[arg(long)]
    pub json: bool,
    /// Which part of it to keep.
    #[command(flatten)]
    pub slice: SliceArgs,
    /// How its values are masked.
    #[command(flatten)]
    pub masking: MaskArgs,
    /// To whom it is encrypted.
    #[command(flatten)]
    pub encryption: EncryptArgs,
}
