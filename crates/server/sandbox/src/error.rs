//! Errors of sandboxes, as sentences: the failed operation, the allowed values, and the remedy.

use std::path::{Path, PathBuf};

/// Result of functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a sandbox operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A named directory has no server.
    #[error(
        "{} holds no PostgreSQL server: give the directory that holds `postgres` and `initdb`, or the one whose `bin` does (--postgres DIR); a version is given with --postgres-version",
        dir.display()
    )]
    NotAnInstallation {
        /// Directory as given.
        dir: PathBuf,
    },
    /// The server in a named directory has another major version than requested.
    #[error(
        "{} holds PostgreSQL {found}, but {wanted} was asked for: give a directory of that version, or ask for {found}",
        dir.display()
    )]
    OtherVersion {
        /// Directory.
        dir: PathBuf,
        /// Version of the server.
        found: String,
        /// Requested major version.
        wanted: u16,
    },
    /// The requested version is too old.
    #[error("PostgreSQL {wanted} is not supported: ask for 10 or newer")]
    TooOld {
        /// Version as requested or found.
        wanted: String,
    },
    /// A program did not print its version.
    #[error("{} does not say which PostgreSQL it is: {said}", program.display())]
    VersionUnreadable {
        /// Program.
        program: PathBuf,
        /// Its output, or the reason why it could not be run.
        said: String,
    },
    /// There is no installation, and fetching is disabled.
    #[error(
        "{wanted} is not installed here and fetching is switched off: install it, or put the directory with its programs on the PATH"
    )]
    NotInstalled {
        /// Requested version, with the product's name.
        wanted: String,
    },
    /// There is no installation, and fetching one failed.
    #[error(
        "{wanted} is not installed here and could not be fetched from {from}: {why}. Install it, put the directory with its programs on the PATH, or set {} to a mirror that this machine reaches",
        crate::fetch::MIRROR
    )]
    Fetch {
        /// Requested version, with the product's name.
        wanted: String,
        /// Mirror, or "the public repository".
        from: String,
        /// Reason.
        why: String,
    },
    /// The library that shifts the clock of a server is not installed.
    #[error(
        "libfaketime, which shifts the clock of a server, is not installed: install the package `faketime` (Debian, Ubuntu) or `libfaketime` (Fedora, Alpine), or set {} to its libfaketime.so.1",
        crate::server_clock::LIBRARY_VARIABLE
    )]
    NoFaketime,
    /// The environment variable for this library names a file that does not exist.
    #[error(
        "{} names {}, and there is no such file: set it to a libfaketime.so.1, or unset it to use the installed one",
        crate::server_clock::LIBRARY_VARIABLE,
        path.display()
    )]
    NoSuchFaketime {
        /// The named file.
        path: PathBuf,
    },
    /// The environment specifies no directory for the cache or the state.
    #[error("no folder for {what}: HOME is not set; set it, or {variable}")]
    NoFolder {
        /// Purpose of the directory.
        what: &'static str,
        /// Environment variable that specifies it directly.
        variable: &'static str,
    },
    /// Root started it, and the system user to run the server as neither exists nor can be created.
    #[error(
        "PostgreSQL refuses to run as root, and the system user `{user}`, which it would run as instead, cannot be used ({why}): create it, name another that owns nothing else in {}, or run as another user",
        crate::privileges::USER_VARIABLE
    )]
    NoUser {
        /// User.
        user: String,
        /// Reason.
        why: String,
    },
    /// The user that the server runs as cannot access a directory.
    #[error(
        "PostgreSQL refuses to run as root, and the user `{user}`, which it runs as instead, cannot enter {}, on the way to {}: choose a place that everybody may enter, or run as another user",
        closed.display(), wanted.display()
    )]
    Unreachable {
        /// Path that is required.
        wanted: PathBuf,
        /// Directory that is not accessible.
        closed: PathBuf,
        /// User.
        user: String,
    },
    /// An invalid setting.
    #[error("the setting `{name}` cannot be given: {why}")]
    Setting {
        /// Name as given.
        name: String,
        /// Reason and remedy.
        why: &'static str,
    },
    /// An invalid name of a sandbox or a snapshot.
    #[error(
        "`{name}` cannot be a name: 1 to 40 of a-z, A-Z, 0-9, `.`, `_` and `-` are allowed, the first of them a letter or a digit"
    )]
    Name {
        /// Name as given.
        name: String,
    },
    /// A sandbox of that name exists.
    #[error(
        "there is a sandbox `{name}` already ({state}): take it down first, or choose another name"
    )]
    NameTaken {
        /// Name.
        name: String,
        /// Its port, or that it is stopped.
        state: String,
    },
    /// No sandbox of that name exists.
    #[error("there is no sandbox `{name}`: {known}")]
    NoSuchSandbox {
        /// Name as given.
        name: String,
        /// Existing names.
        known: String,
    },
    /// Another process uses the sandbox.
    #[error("the sandbox in {} is in use by another process: wait for it to end", root.display())]
    Busy {
        /// Its directory.
        root: PathBuf,
    },
    /// `initdb` failed.
    #[error("initdb of PostgreSQL {version} failed in {}: {said}", data.display())]
    Initdb {
        /// Version of the server.
        version: String,
        /// Data directory.
        data: PathBuf,
        /// Its standard error.
        said: String,
    },
    /// An installation lacks programs that pg_upgrade needs.
    #[error(
        "pg_upgrade needs programs of PostgreSQL {old} and {new} that are missing: {missing}. Install the complete servers of both versions (such as the packages postgresql-{old} and postgresql-{new} of Debian), or rehearse with --method dump"
    )]
    UpgradePrograms {
        /// Paths of the programs.
        missing: String,
        /// Old major version.
        old: u16,
        /// New major version.
        new: u16,
    },
    /// pg_upgrade failed.
    #[error("pg_upgrade from PostgreSQL {old} to {new} failed: {said}")]
    Upgrade {
        /// Old version.
        old: String,
        /// New version.
        new: String,
        /// Its messages.
        said: String,
    },
    /// The server ended instead of starting, because of a setting.
    #[error(
        "PostgreSQL {version} refuses a setting: {said}; correct its name or value (SELECT name, unit, min_val, max_val, enumvals FROM pg_settings)"
    )]
    RefusedSetting {
        /// Version of the server.
        version: String,
        /// The server's message.
        said: String,
    },
    /// The server ended instead of starting.
    #[error("PostgreSQL {version} did not start ({ended}); the end of its log, {}:\n{said}", log.display())]
    Start {
        /// Version of the server.
        version: String,
        /// Exit status of the process.
        ended: String,
        /// Log.
        log: PathBuf,
        /// Last lines of the log.
        said: String,
    },
    /// The server was not ready in time.
    #[error(
        "PostgreSQL {version} was not ready after {seconds} s and was stopped; allow it more time, or see the end of its log, {}:\n{said}",
        log.display()
    )]
    NotReady {
        /// Version of the server.
        version: String,
        /// Time limit.
        seconds: u64,
        /// Log.
        log: PathBuf,
        /// Last lines of the log.
        said: String,
    },
    /// All ports that the caller allowed are in use.
    #[error("port {ports} of 127.0.0.1 is taken: choose another, or let a free one be found")]
    PortTaken {
        /// Ports tried.
        ports: String,
    },
    /// The server did not stop in time.
    #[error(
        "PostgreSQL (process {pid}) did not stop within {seconds} s: stop it in the immediate mode"
    )]
    Stop {
        /// Postmaster.
        pid: i32,
        /// Time limit.
        seconds: u64,
    },
    /// A snapshot of that name exists.
    #[error("there is a snapshot `{name}` already: remove it first, or choose another name")]
    SnapshotTaken {
        /// Name.
        name: String,
    },
    /// No snapshot of that name exists.
    #[error("there is no snapshot `{name}`: {known}")]
    NoSuchSnapshot {
        /// Name as given.
        name: String,
        /// Existing names.
        known: String,
    },
    /// The data directory refers to a path outside of it, which a snapshot would miss.
    #[error(
        "a snapshot would miss {}, to which {} leads: keep tablespaces and the WAL of a sandbox inside its data directory",
        target.display(), link.display()
    )]
    Outside {
        /// Symbolic link.
        link: PathBuf,
        /// Its target.
        target: PathBuf,
    },
    /// An operation of the operating system failed.
    #[error("could not {what} {}: {source}", path.display())]
    Io {
        /// Operation.
        what: &'static str,
        /// Path.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

/// Adds the operation and the path to an error of the operating system.
pub(crate) trait ErrorContext<T> {
    fn context(self, what: &'static str, path: &Path) -> Result<T>;
}

impl<T> ErrorContext<T> for std::io::Result<T> {
    fn context(self, what: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io {
            what,
            path: path.to_owned(),
            source,
        })
    }
}
