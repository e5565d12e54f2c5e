//! Options of `rehearse capture proxy`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::live_capture::LiveCaptureArgs;

/// Options of `rehearse capture proxy`.
#[derive(Debug, Args)]
pub struct CaptureProxy {
    /// Accept clients at this address: ADDRESS:PORT, a PORT of 127.0.0.1, or the path of a unix
    /// socket. Port 0 selects a free port and prints it. Repeatable.
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub listen: Vec<String>,
    /// Forward to this server: postgres://HOST:PORT or 'host=… port=…' with libpq's parameters
    /// (sslmode, several hosts …). User, database and password come from the clients.
    #[arg(long, value_name = "URL")]
    pub upstream: String,
    /// Present this certificate to clients (PEM, with its chain). Without it, clients connect
    /// without TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Use this private key of the certificate (PEM, unencrypted, readable by its owner only).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Reject clients without TLS.
    #[arg(long, requires = "tls_cert")]
    pub tls_required: bool,
    /// Wait this long after Ctrl-C for open transactions to end.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = clock::parse_duration)]
    pub drain: Duration,
    /// Forward with this many threads.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: u16,
    /// Use epoll instead of io_uring for connections without TLS.
    #[arg(long)]
    pub without_io_uring: bool,
    /// Output and control.
    #[command(flatten)]
    pub live: LiveCaptureArgs,
}
