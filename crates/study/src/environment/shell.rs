//! Commands that the user gave, run by the shell.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use connect::TrustedRoots;
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
        .chain(security_variables(target))
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

/// Returns libpq's variables for TLS, the password file and the options of the server. Source: PostgreSQL's manual,
/// "Environment Variables" of libpq.
fn security_variables(target: &Target) -> Vec<(&'static str, Option<OsString>)> {
    let security = &target.security;
    let path = |path: Option<&Path>| path.map(OsString::from);
    let certificate = security.certificate.as_ref();
    let roots = match &security.roots {
        TrustedRoots::System => Some("system".into()),
        TrustedRoots::File(file) => Some(file.into()),
        TrustedRoots::Unknown => None,
    };
    vec![
        ("PGSSLMODE", Some(security.mode.name().into())),
        ("PGSSLROOTCERT", roots),
        (
            "PGSSLCERT",
            path(certificate.map(|(file, _)| file.as_path())),
        ),
        ("PGSSLKEY", path(certificate.map(|(_, key)| key.as_path()))),
        ("PGSSLCRL", path(security.revoked.as_deref())),
        // libpq before 17 refuses the variable's other value.
        ("PGSSLNEGOTIATION", security.direct.then(|| "direct".into())),
        ("PGPASSFILE", path(target.password_file.path())),
        ("PGOPTIONS", target.options.as_ref().map(OsString::from)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_given_the_tls_options_and_the_password_file_of_the_url() {
        let url = "postgres://u:p@h:1/d?sslmode=verify-full&sslrootcert=/r.crt&sslcert=/c.crt&sslkey=/c.key&passfile=/pass&options=-c%20jit%3Doff";
        let target = Target::parse(url, |_| None).unwrap();
        let command = "test \"$PGHOST:$PGPORT/$PGDATABASE $PGUSER $PGPASSWORD $PGSSLMODE $PGSSLROOTCERT $PGSSLCERT $PGSSLKEY $PGPASSFILE $PGOPTIONS\" = \
            'h:1/d u p verify-full /r.crt /c.crt /c.key /pass -c jit=off'";
        run_shell_command(command, &target, "--restore").unwrap();
    }
}
