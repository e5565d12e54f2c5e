//! Options of `rehearse capture`: its sources.

use clap::{Args, Subcommand};

use super::attach::{AttachProber, CaptureAttach};
use super::pcap::CapturePcap;
use super::proxy::CaptureProxy;
use super::starting_point::CaptureStartingPoint;
use super::{CaptureLog, CaptureSettings};

/// Options of `rehearse capture`.
#[derive(Debug, Args)]
pub struct Capture {
    /// Source of the traffic.
    #[command(subcommand)]
    pub source: Source,
}

/// Sources of a workload.
#[derive(Debug, Subcommand)]
pub enum Source {
    /// Read server logs: stderr with any log_line_prefix, csvlog or jsonlog, also in syslog,
    /// cloud exports or CloudNativePG's JSON; plain, .gz, .zst, .bz2 or .xz.
    Log(Box<CaptureLog>),
    /// Record the traffic through a proxy between clients and their server.
    Proxy(Box<CaptureProxy>),
    /// Record the traffic of a server on this host, without a proxy, a setting or a restart (Linux, as root).
    Attach(Box<CaptureAttach>),
    /// Copy the traffic of a server to standard output, for `capture attach`, which starts it.
    #[command(hide = true)]
    AttachProber(AttachProber),
    /// Read packets in pcap or pcapng format, as tcpdump and Wireshark write them: files (plain,
    /// .gz, .zst, .bz2 or .xz), or a stream on standard input.
    Pcap(Box<CapturePcap>),
    /// Print the logging settings that a replay needs.
    Settings(CaptureSettings),
    /// Note the state of a server, for a copy that is to be at the start of a capture, and print the commands that make
    /// the copy.
    StartingPoint(CaptureStartingPoint),
}
