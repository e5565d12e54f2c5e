//! Options of `rehearse capture attach`.

use std::path::PathBuf;
use std::time::Duration;

use capture_attach::prober::ProberOptions;
use capture_attach::server_process::ServerSelection;
use clap::Args;

use super::live_capture::LiveCaptureArgs;

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
    /// Output and control.
    #[command(flatten)]
    pub live: LiveCaptureArgs,
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
