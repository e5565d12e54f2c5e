//! Commands that the user gave, run by the shell.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use replay::{Host, Target};

use crate::error::ExperimentError;

/// Runs a command by the shell, with libpq's variables set to the target. `option` is the one it was given with.
///
/// # Errors
/// If it fails, with the last line that it printed.
pub fn run_shell_command(
    command: &str,
    target: &Target,
    option: &str,
) -> Result<(), ExperimentError> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null());
    let server = target.servers.first();
    let host = server.and_then(|server| match server.host.as_ref()? {
        Host::Tcp(name) => Some(OsString::from(name)),
        Host::Unix(directory) => Some(OsString::from(directory)),
        Host::Abstract(name) => Some(OsString::from(format!("@{name}"))),
    });
    let text = |text: &Option<String>| text.as_ref().map(OsString::from);
    let variables = [
        ("PGHOST", host),
        (
            "PGPORT",
            server.map(|server| server.port.to_string().into()),
        ),
        ("PGUSER", text(&target.user)),
        ("PGDATABASE", text(&target.database)),
        ("PGPASSWORD", text(&target.password)),
    ];
    let known = variables
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    shell.envs(known);
    let output = shell
        .output()
        .map_err(ExperimentError::file("run a shell for", Path::new(command)))?;
    if output.status.success() {
        return Ok(());
    }
    let printed = String::from_utf8_lossy(&output.stderr);
    Err(ExperimentError::Failed(format!(
        "the command of {option} failed ({}): {}",
        output.status,
        printed.trim().lines().last().unwrap_or("it said nothing")
    )))
}
