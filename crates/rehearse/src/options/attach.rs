//! Options of `rehearse capture attach`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use capture_attach::prober::ProberOptions;
use capture_attach::server_process::ServerSelection;
use clap::Args;

use super::encrypting::EncryptArgs;
use super::masking::MaskArgs;
use super::observing::{AllowHostArgs, OtlpArgs};
use super::proxy::loopback;
use super::roll::RollArgs;
use super::starting_point::{ExportSnapshotArgs, StartingPointArgs};
use crate::options::sending::Digest;

/// Port of a server that is not named.
const PORT: u16 = 5432;

/// Server on this host.
#[derive(Debug, Clone, Args)]
pub struct AttachServerArgs {
    /// Attach to the server that listens on this port [default: 5432].
    #[arg(long, value_name = "PORT", group = "attached_server")]
    pub port: Option<u16>,
    /// Attach to the server of this data directory.
    #[arg(long, value_name = "DIR", group = "attached_server")]
    pub data_dir: Option<PathBuf>,
    /// Attach to the server that this process belongs to: its postmaster, or a session.
    #[arg(long, value_name = "PID", group = "attached_server")]
    pub pid: Option<u32>,
    /// Buffer at most this many MiB of traffic in the kernel, a power of two. Traffic beyond that is not recorded.
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = ring)]
    pub ring: u32,
}

impl AttachServerArgs {
    /// Returns the options of the prober.
    pub fn prober_options(&self) -> ProberOptions {
        let server = match (&self.data_dir, self.pid) {
            (Some(directory), _) => ServerSelection::DataDirectory(directory.clone()),
            (None, Some(pid)) => ServerSelection::Pid(pid),
            (None, None) => ServerSelection::Port(self.port.unwrap_or(PORT)),
        };
        ProberOptions {
            server,
            ring_bytes: self.ring << 20,
        }
    }

    /// Returns the arguments that select the same server.
    pub fn to_arguments(&self) -> Vec<std::ffi::OsString> {
        let mut arguments = vec!["--ring".into(), self.ring.to_string().into()];
        let server = match (&self.data_dir, self.pid) {
            (Some(directory), _) => ["--data-dir".into(), directory.into()],
            (None, Some(pid)) => ["--pid".into(), pid.to_string().into()],
            (None, None) => [
                "--port".into(),
                self.port.unwrap_or(PORT).to_string().into(),
            ],
        };
        arguments.extend(server);
        arguments
    }

    /// Returns the server in words.
    pub fn name(&self) -> String {
        match (&self.data_dir, self.pid) {
            (Some(directory), _) => format!("server of {}", directory.display()),
            (None, Some(pid)) => format!("server of process {pid}"),
            (None, None) => format!("server at port {}", self.port.unwrap_or(PORT)),
        }
    }
}

/// Options of `rehearse capture attach`.
#[derive(Debug, Args)]
pub struct CaptureAttach {
    /// Server.
    #[command(flatten)]
    pub attached: AttachServerArgs,
    /// Write the workload to this directory, NAME.workload; with --roll, a series to NAME.series. If recording is stopped and started
    /// again, the next one is NAME-2.workload, and so on.
    #[arg(short, long, value_name = "NAME.workload")]
    pub output: PathBuf,
    /// End the capture after this time [default: at Ctrl-C].
    #[arg(long, value_name = "DURATION", value_parser = clock::parse_duration)]
    pub duration: Option<Duration>,
    /// Ask this server for the database, user and application of sessions that exist already: postgres://USER@HOST:PORT/DATABASE
    /// [default: database and user are read from the titles of the processes].
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Capture only sessions that begin after the attach. Of earlier ones, settings and prepared statements are unknown.
    #[arg(long, conflicts_with = "server")]
    pub wait_for_new_sessions: bool,
    /// Decode and write as this user, if root starts the command [default: the user of sudo, or the owner of the output's directory].
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
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
    /// Buffer at most this many MiB of traffic for recording, in addition to --ring.
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

/// Options of the process that holds the privileges of `rehearse capture attach`, which starts it.
#[derive(Debug, Args)]
pub struct AttachProber {
    /// Server.
    #[command(flatten)]
    pub attached: AttachServerArgs,
}

fn ring(text: &str) -> Result<u32, String> {
    let size = text.parse::<u32>().ok();
    let fitting = size.filter(|size| size.is_power_of_two() && *size <= 1024);
    fitting.ok_or_else(|| "a size in MiB must be a power of two, 1 to 1024, such as 64".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_is_a_power_of_two() {
        assert_eq!(ring("64"), Ok(64));
        for refused in ["0", "3", "2048", "x"] {
            assert!(ring(refused).is_err(), "{refused}");
        }
    }
}
