//! Options that captures of live traffic share: those of a proxy, and those of an attached server.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::encrypting::EncryptArgs;
use super::masking::MaskArgs;
use super::observing::{AllowHostArgs, OtlpArgs, address};
use super::roll::RollArgs;
use super::starting_point::{ExportSnapshotArgs, StartingPointArgs};
use crate::options::sending::Digest;

/// Output and control of a capture of live traffic.
#[derive(Debug, Args)]
pub struct LiveCaptureArgs {
    /// Write the workload to this directory, NAME.workload; with --roll, a series to NAME.series. If recording is stopped and started
    /// again, the next one is NAME-2.workload, and so on.
    #[arg(short, long, value_name = "NAME.workload")]
    pub output: PathBuf,
    /// Start recording only on SIGUSR1, or on POST /start at --admin-listen.
    #[arg(long)]
    pub paused: bool,
    /// Serve the status (GET /), and accept POST /start and POST /stop with a token, at this
    /// loopback address: a PORT, or 127.0.0.1:PORT. Port 0 selects a free port and prints it.
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    pub admin_listen: Option<SocketAddr>,
    /// Read the token for POST /start and POST /stop from this file [default: a new token in
    /// NAME.workload.control-token, or NAME.workload.control-token-2 if another capture uses that].
    #[arg(
        long,
        value_name = "FILE",
        env = "REHEARSE_ADMIN_TOKEN_FILE",
        hide_env_values = true
    )]
    pub admin_token_file: Option<PathBuf>,
    /// Host names of the control endpoint.
    #[command(flatten)]
    pub hosts: AllowHostArgs,
    /// Store a checksum of every result, to compare with in a replay.
    #[arg(long, value_enum, value_name = "PART")]
    pub checksum_results: Option<Digest>,
    /// Buffer at most this many MiB of traffic for recording. Traffic beyond that passes without being recorded.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub buffer: u32,
    /// Print the capture report as JSON.
    #[arg(long)]
    pub json: bool,
    /// Export of metrics.
    #[command(flatten)]
    pub otlp: OtlpArgs,
    /// Starting point.
    #[command(flatten)]
    pub starting_point: StartingPointArgs,
    /// Export of a snapshot.
    #[command(flatten)]
    pub export: ExportSnapshotArgs,
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

impl LiveCaptureArgs {
    /// Returns the size of `--buffer` in bytes.
    pub fn buffer_bytes(&self) -> usize {
        (self.buffer as usize) << 20
    }
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address = address(text)?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(
            "anyone who reaches it could stop the recording, so it must be a loopback address; give a port, or 127.0.0.1 with one"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_is_of_this_machine_only() {
        assert_eq!(loopback("7000").unwrap().to_string(), "127.0.0.1:7000");
        assert!(loopback("[::1]:7000").is_ok());
        assert!(loopback("0.0.0.0:7000").unwrap_err().contains("127.0.0.1"));
    }
}
