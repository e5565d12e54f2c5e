//! Finds the postmaster of a server on this host, also in a container.
//!
//! A postmaster's working directory is its data directory, whose `postmaster.pid` begins with its number
//! (`CreateLockFile` in `src/backend/utils/init/miscinit.c`; `src/include/utils/pidfile.h` lists the lines). Its
//! children have the same directory and another number. The links of `/proc/PID` lead into containers.

#[cfg(target_os = "linux")]
pub(crate) mod functions;

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes that are read of a file in another user's directory. `postmaster.pid` has eight short lines.
const FOREIGN_FILE_MAX: u64 = 64 << 10;

/// Way in which the user names a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerSelection {
    /// Port on which the server listens.
    Port(u16),
    /// Data directory of the server, on this host or as the server sees it.
    DataDirectory(PathBuf),
    /// Process number of the postmaster, or of one of its children.
    Pid(u32),
}

/// Postmaster that runs on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerProcess {
    /// Process number of the postmaster.
    pub pid: u32,
    /// Data directory, as the server sees it: in a container, a path of the container.
    pub data_directory: PathBuf,
    /// Port of the server, if its `postmaster.pid` has it.
    pub port: Option<u16>,
    /// Directory of its Unix socket, as the server sees it, if it has one.
    pub socket_directory: Option<PathBuf>,
    /// Major version, from the data directory's `PG_VERSION`.
    pub major: u32,
    /// Effective user of the process.
    pub user: u32,
}

/// Reason for which a server is not found.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FindError {
    /// No process is the postmaster that was asked for.
    #[error(
        "found no PostgreSQL server {wanted} on this host: {}; start the server, or name it with --port, --data-dir \
         or --pid{}",
        described(.others),
        if *.may_be_hidden { " (without root or CAP_SYS_PTRACE, servers of other users are invisible)" } else { "" }
    )]
    NotFound {
        /// Description of the selection.
        wanted: String,
        /// Servers that were found.
        others: Vec<ServerProcess>,
        /// Whether processes of other users could not be examined.
        may_be_hidden: bool,
    },
    /// Servers in several containers have the same port or directory.
    #[error("{} PostgreSQL servers {wanted} run on this host: {}; choose one with --pid", .found.len(), described(.found))]
    Several {
        /// Description of the selection.
        wanted: String,
        /// Servers that fit.
        found: Vec<ServerProcess>,
    },
}

fn described(servers: &[ServerProcess]) -> String {
    let one = |server: &ServerProcess| {
        let port = server.port.map(|port| format!(", port {port}"));
        format!(
            "version {} in {} (process {}{})",
            server.major,
            server.data_directory.display(),
            server.pid,
            port.unwrap_or_default()
        )
    };
    match servers {
        [] => "none runs".to_owned(),
        servers => format!(
            "running: {}",
            servers.iter().map(one).collect::<Vec<_>>().join("; ")
        ),
    }
}

impl ServerSelection {
    fn describe(&self) -> String {
        match self {
            ServerSelection::Port(port) => format!("on port {port}"),
            ServerSelection::DataDirectory(path) => format!("in {}", path.display()),
            ServerSelection::Pid(pid) => format!("with the process {pid}"),
        }
    }

    fn fits(&self, server: &ServerProcess) -> bool {
        match self {
            ServerSelection::Port(port) => server.port == Some(*port),
            ServerSelection::DataDirectory(path) => {
                *path == server.data_directory || is_same_file(path, &working_directory(server.pid))
            }
            ServerSelection::Pid(pid) => *pid == server.pid || parent(*pid) == Some(server.pid),
        }
    }
}

/// Finds the server that the user named.
///
/// # Errors
/// If no server fits, or several do.
pub fn find(selection: &ServerSelection) -> Result<ServerProcess, FindError> {
    let (servers, may_be_hidden) = list();
    let fits = |server: &ServerProcess| selection.fits(server);
    let (mut found, others): (Vec<_>, Vec<_>) = servers.into_iter().partition(fits);
    let wanted = selection.describe();
    match found.len() {
        0 => Err(FindError::NotFound {
            wanted,
            others,
            may_be_hidden,
        }),
        1 => Ok(found.remove(0)),
        _ => Err(FindError::Several { wanted, found }),
    }
}

/// Returns whether a process is still the postmaster that was found: another one can have got its number.
#[cfg(target_os = "linux")]
pub(crate) fn is_unchanged(server: &ServerProcess) -> bool {
    let text = read_foreign(&lock_file(server.pid)).ok();
    let now = text.and_then(|text| server_of(server.pid, &text));
    now.is_some_and(|now| now.user == server.user && now.data_directory == server.data_directory)
}

/// Returns the system identifier of a server's cluster, the first number of its `pg_control`
/// (`src/include/catalog/pg_control.h`). `None` if the file cannot be read.
#[cfg(target_os = "linux")]
pub(crate) fn system_identifier(pid: u32) -> Option<u64> {
    let file = open_foreign(&working_directory(pid).join("global/pg_control"));
    let mut number = [0; 8];
    file.ok()?.read_exact(&mut number).ok()?;
    Some(u64::from_ne_bytes(number))
}

/// Lists the servers of this host, and whether some processes could not be examined.
fn list() -> (Vec<ServerProcess>, bool) {
    let mut servers = Vec::new();
    let mut is_incomplete = false;
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        match read_foreign(&lock_file(pid)) {
            Ok(text) => servers.extend(server_of(pid, &text)),
            Err(_) => is_incomplete |= is_hidden(pid),
        }
    }
    servers.sort_by_key(|server| server.pid);
    (servers, is_incomplete)
}

/// Reads a file of another user's directory. More than [`FOREIGN_FILE_MAX`] is not read.
///
/// # Errors
/// As [`open_foreign`], and if it is not UTF-8.
pub(crate) fn read_foreign(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_foreign(path)?
        .take(FOREIGN_FILE_MAX)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// Opens a file of another user's directory. Links and special files are refused, since a pipe would block this
/// process and a device has no end.
///
/// # Errors
/// `InvalidInput` if it is not a regular file; others of the system, `ELOOP` for a link among them.
fn open_foreign(path: &Path) -> io::Result<fs::File> {
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(file)
}

/// Whether the links of a process cannot be read, since it is another user's.
fn is_hidden(pid: u32) -> bool {
    fs::read_link(working_directory(pid))
        .is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
}

/// Returns the server if the process is the one that the text of its `postmaster.pid` names.
fn server_of(pid: u32, text: &str) -> Option<ServerProcess> {
    let lines: Vec<&str> = text.lines().collect();
    if lines.first()?.trim().parse() != Ok(own_number(pid)?) {
        return None;
    }
    let directory = working_directory(pid);
    let version = read_foreign(&directory.join("PG_VERSION")).ok()?;
    Some(ServerProcess {
        pid,
        data_directory: fs::read_link(&directory).ok()?,
        port: lines.get(3).and_then(|line| line.trim().parse().ok()),
        socket_directory: lines
            .get(4)
            .filter(|line| !line.is_empty())
            .map(PathBuf::from),
        major: version.trim().split('.').next()?.parse().ok()?,
        user: status_field(pid, "Uid:")?
            .split_whitespace()
            .nth(1)?
            .parse()
            .ok()?,
    })
}

/// Returns the data directory of a postmaster, as a path that leads into its container.
pub(crate) fn working_directory(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/cwd"))
}

/// Returns the path of the executable file of a process, which is valid also if the file was replaced.
#[cfg(target_os = "linux")]
pub(crate) fn executable(pid: u32) -> String {
    format!("/proc/{pid}/exe")
}

fn lock_file(pid: u32) -> PathBuf {
    working_directory(pid).join("postmaster.pid")
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    identity(one).is_some_and(|one| Some(one) == identity(other))
}

/// Returns the device and the number of a file.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns the number that a process has in its own namespace: the last of the line `NSpid`.
fn own_number(pid: u32) -> Option<u32> {
    status_field(pid, "NSpid:")?
        .split_whitespace()
        .last()?
        .parse()
        .ok()
}

pub(crate) fn parent(pid: u32) -> Option<u32> {
    status_field(pid, "PPid:")?.trim().parse().ok()
}

pub(crate) fn status_field(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_pipe_link_and_device_are_refused_and_long_file_is_cut() {
        let room = tempfile::tempdir().unwrap();
        let at = |name: &str| room.path().join(name);
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status();
        assert!(made.unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", at("link")).unwrap();
        fs::write(at("long"), vec![b'a'; 2 * FOREIGN_FILE_MAX as usize]).unwrap();

        let kind = |path: &Path| read_foreign(path).unwrap_err().kind();
        assert_eq!(kind(&at("pipe")), io::ErrorKind::InvalidInput);
        assert_eq!(kind(Path::new("/dev/zero")), io::ErrorKind::InvalidInput);
        assert!(read_foreign(&at("link")).is_err());
        assert_eq!(
            read_foreign(&at("long")).unwrap().len() as u64,
            FOREIGN_FILE_MAX
        );
    }
}
