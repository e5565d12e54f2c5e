//! Runs the server's programs: `initdb` once, `postgres` at each start.

use crate::error::{Error, ErrorContext, Result};
use crate::installation::Installation;
use crate::postmaster::{POLL, PidFile};
use crate::privileges::RunAs;
use crate::server_clock::ServerClock;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Superuser of every sandbox.
pub(crate) const SUPERUSER: &str = "postgres";

/// Maximum lines and bytes of the log's end that an error quotes.
const QUOTED_LINES: usize = 15;
const QUOTED_BYTES: u64 = 8 * 1024;

/// Parameters of a cluster.
pub(crate) struct Cluster<'a> {
    pub(crate) installation: &'a Installation,
    pub(crate) run_as: &'a RunAs,
    pub(crate) root: &'a Path,
    pub(crate) data: &'a Path,
}

impl Cluster<'_> {
    /// Returns a command that runs a program of the installation as the server's user.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.installation.program(program));
        command.current_dir(self.root).stdin(Stdio::null());
        // PGDATA, PGPORT, PGOPTIONS and the like are for other servers. Messages are parsed here, so they
        // must be in English.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        command.env("LC_ALL", "C");
        self.run_as.apply(&mut command);
        command
    }

    /// Runs `initdb`. The socket needs no password, since only the server's user and root can enter its
    /// directory. TCP connections need one, which the server stores as a SCRAM verifier.
    pub(crate) fn init(
        &self,
        password: Option<&str>,
        locale: &str,
        further: &[String],
    ) -> Result<()> {
        let mut command = self.command("initdb");
        command
            .arg("-D")
            .arg(self.data)
            .args([
                "-U",
                SUPERUSER,
                "-E",
                "UTF8",
                "--no-sync",
                "--lc-messages=C",
                "--auth-local=trust",
                "--auth-host=scram-sha-256",
            ])
            .arg(format!("--locale={locale}"));
        let password_file = self.root.join(".password");
        if let Some(password) = password {
            write_private(&password_file, password)?;
            self.run_as.change_owner(&password_file)?;
            command.arg("--pwfile").arg(&password_file);
        }
        command.args(further);
        let output = command.output();
        crate::marker::delete_any(&password_file)?;
        let output = output.context("run", &self.installation.program("initdb"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::Initdb {
            version: self.installation.version.clone(),
            data: self.data.to_owned(),
            said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    /// Creates an extension in a database of the cluster, whose server is not running. Returns whether the
    /// installation has it.
    pub(crate) fn create_extension(&self, extension: &str, database: &str) -> bool {
        let mut command = self.command("postgres");
        command
            .args(["--single", "-F", "-c", "exit_on_error=on", "-D"])
            .arg(self.data)
            .arg(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else {
            return false;
        };
        let sent = match child.stdin.take() {
            Some(mut input) => writeln!(input, "CREATE EXTENSION {extension}"),
            None => Ok(()),
        };
        let is_done = child.wait().is_ok_and(|status| status.success());
        sent.is_ok() && is_done
    }

    /// Starts the postmaster, which appends its log to the file.
    pub(crate) fn launch(
        &self,
        tcp: bool,
        port: u16,
        sockets: &Path,
        log: &Path,
        clock_library: Option<&Path>,
    ) -> Result<Start> {
        let open = || {
            File::options()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(log)
                .context("open", log)
        };
        let file = open()?;
        let log_start = file.metadata().context("look at", log)?.len();
        let mut setting = std::ffi::OsString::from("unix_socket_directories=");
        setting.push(sockets);
        let mut command = self.command("postgres");
        command
            .arg("-D")
            .arg(self.data)
            .args([
                "-c",
                if tcp {
                    "listen_addresses=127.0.0.1"
                } else {
                    "listen_addresses="
                },
            ])
            .args(["-c", &format!("port={port}")])
            .args(["-c", "unix_socket_permissions=0700"])
            .arg("-c")
            .arg(setting)
            .stdout(open()?)
            .stderr(file);
        if let Some(library) = clock_library {
            ServerClock::new(self.root, self.run_as).apply(library, &mut command);
        }
        let child = command
            .spawn()
            .context("run", &self.installation.program("postgres"))?;
        Ok(Start {
            child,
            log: log.to_owned(),
            log_start,
        })
    }
}

pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    File::options()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| writeln!(file, "{text}"))
        .context("write", path)
}

/// A server that was started and may not be ready yet.
pub(crate) struct Start {
    child: Child,
    log: PathBuf,
    log_start: u64,
}

/// Reason why a server did not start.
pub(crate) enum Failure {
    /// The port is in use.
    Port,
    Other(Error),
}

impl Start {
    /// Waits until the server accepts connections, by the same status that `pg_ctl` waits for. A test
    /// connection would leave a session in the log that no client made, and could reach another server on the
    /// port.
    pub(crate) fn wait(
        mut self,
        data: &Path,
        version: &str,
        patience: Duration,
    ) -> Result<Child, Failure> {
        let deadline = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => return Err(self.ended(status, version)),
                Err(source) => {
                    return Err(Failure::Other(Error::Io {
                        what: "wait for the server in",
                        path: data.to_owned(),
                        source,
                    }));
                }
            }
            let pid = self.child.id() as i32;
            if PidFile::read(data).is_some_and(|file| file.ready && file.pid == pid) {
                return Ok(self.child);
            }
            if Instant::now() > deadline {
                quit(&mut self.child);
                return Err(Failure::Other(Error::NotReady {
                    version: version.to_owned(),
                    seconds: patience.as_secs(),
                    said: self.last_lines(),
                    log: self.log,
                }));
            }
            sleep(POLL);
        }
    }

    fn ended(self, status: ExitStatus, version: &str) -> Failure {
        let said = self.last_lines();
        if said.contains("could not create any TCP/IP sockets")
            || said.contains("Address already in use")
        {
            return Failure::Port;
        }
        if let Some(said) = refused_setting(&said) {
            return Failure::Other(Error::RefusedSetting {
                version: version.to_owned(),
                said: said.to_owned(),
            });
        }
        Failure::Other(Error::Start {
            version: version.to_owned(),
            ended: status.to_string(),
            log: self.log,
            said,
        })
    }

    /// Returns the last lines that this start has written to the log.
    fn last_lines(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(&self.log)?;
            let end = file.metadata()?.len();
            let from = self.log_start.max(end.saturating_sub(QUOTED_BYTES));
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let text = read().unwrap_or_else(|error| format!("(the log cannot be read: {error})"));
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
    }
}

/// Phrases of the server's messages about settings (`src/backend/utils/misc/guc.c`).
const REFUSALS: [&str; 4] = [
    "unrecognized configuration parameter",
    "invalid value for parameter",
    "is outside the valid range for parameter",
    "\" requires a ",
];

/// Returns the server's message about a setting that it refuses, without the file that sets it.
fn refused_setting(log: &str) -> Option<&str> {
    let is_refusal = |line: &&str| REFUSALS.iter().any(|phrase| line.contains(phrase));
    let line = log.lines().find(is_refusal)?;
    let (_, message) = line.split_once(":  ")?;
    message.split(" in file ").next()
}

/// Ends a server by SIGQUIT, which also ends its children.
pub(crate) fn quit(child: &mut Child) {
    // SAFETY: the child has not been waited for, so the number is still its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGQUIT) };
    let deadline = Instant::now() + Duration::from_secs(20);
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return;
        }
        sleep(POLL);
    }
}

/// Makes the server's configuration include another file.
pub(crate) fn include(data: &Path, file: &Path) -> Result<()> {
    let conf = data.join("postgresql.conf");
    File::options()
        .append(true)
        .open(&conf)
        .and_then(|mut conf| writeln!(conf, "\n{}", include_line(file)))
        .context("write", &conf)
}

/// Removes what [`include()`] wrote for this file.
pub(crate) fn remove_include(data: &Path, file: &Path) -> Result<()> {
    let conf = data.join("postgresql.conf");
    let removed = include_line(file);
    let text = fs::read_to_string(&conf).context("read", &conf)?;
    let kept: Vec<&str> = text.lines().filter(|line| *line != removed).collect();
    // Written in place, so that the file keeps its owner.
    fs::write(&conf, kept.join("\n") + "\n").context("write", &conf)
}

fn include_line(file: &Path) -> String {
    format!(
        "include '{}'",
        file.display().to_string().replace('\'', "''")
    )
}

/// Writes a file that only the server can read.
pub(crate) fn write_for(run_as: &RunAs, path: &Path, text: &str) -> Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    crate::marker::delete_any(&fresh)?;
    write_private(&fresh, text)?;
    run_as.change_owner(&fresh)?;
    fs::rename(&fresh, path).context("rename to", path)
}
