//! What can go wrong, each as a sentence or two: what was given or tried, what is allowed, what
//! to do next.

use std::path::{Path, PathBuf};

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a private server could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A directory was named that holds no server.
    #[error(
        "{} holds no PostgreSQL server: give the directory that holds `postgres` and `initdb`, or the one whose `bin` does (--postgres DIR)",
        dir.display()
    )]
    NotAnInstallation {
        /// The directory as it was given.
        dir: PathBuf,
    },
    /// A directory was named whose server has another major version than the one asked for.
    #[error(
        "{} holds PostgreSQL {found}, but {wanted} was asked for: give a directory of that version, or ask for {found}",
        dir.display()
    )]
    OtherVersion {
        /// The directory.
        dir: PathBuf,
        /// The version found there.
        found: String,
        /// The major version asked for.
        wanted: u16,
    },
    /// The version asked for is too old.
    #[error("PostgreSQL {wanted} is not supported: ask for 10 or newer")]
    TooOld {
        /// The version as it was asked for or found.
        wanted: String,
    },
    /// A program that should have told its version did not.
    #[error("{} does not say which PostgreSQL it is: {said}", program.display())]
    VersionUnreadable {
        /// The program.
        program: PathBuf,
        /// What it said instead, or why it could not be run.
        said: String,
    },
    /// No installation, and fetching was not allowed.
    #[error(
        "{wanted} is not installed here and fetching is switched off: install it, or pass --postgres DIR"
    )]
    NotInstalled {
        /// What was wanted, with its product's name.
        wanted: String,
    },
    /// No installation, and fetching one failed.
    #[error(
        "{wanted} is not installed here and could not be fetched from {from}: {why}. Install it, pass --postgres DIR, or set {} to a mirror that this machine reaches",
        crate::fetch::MIRROR
    )]
    Fetch {
        /// What was wanted, with its product's name.
        wanted: String,
        /// The mirror, or "the public repository".
        from: String,
        /// What stood in the way.
        why: String,
    },
    /// No folder for the cache or the state can be told from the environment.
    #[error("no folder for {what}: HOME is not set; set it, or {variable}")]
    NoFolder {
        /// What the folder is for.
        what: &'static str,
        /// The variable that names it directly.
        variable: &'static str,
    },
    /// Started by root on a machine without a user to run the server as.
    #[error(
        "PostgreSQL refuses to run as root, and this machine has neither a user `postgres` nor `nobody`: add one, or run as another user"
    )]
    NoUser,
    /// The user that the server runs as cannot reach a directory.
    #[error(
        "PostgreSQL refuses to run as root, and the user `{user}`, which it runs as instead, cannot enter {}, on the way to {}: choose a place that everybody may enter, or run as another user",
        closed.display(), wanted.display()
    )]
    Unreachable {
        /// Where it should have got to.
        wanted: PathBuf,
        /// The directory that is closed to it.
        closed: PathBuf,
        /// The user.
        user: String,
    },
    /// A setting that cannot be given.
    #[error("the setting `{name}` cannot be given: {why}")]
    Setting {
        /// The name as it was given.
        name: String,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// A name that cannot be a sandbox's or a snapshot's.
    #[error(
        "`{name}` cannot be a name: 1 to 40 of a-z, A-Z, 0-9, `.`, `_` and `-` are allowed, the first of them a letter or a digit"
    )]
    Name {
        /// The name as it was given.
        name: String,
    },
    /// A sandbox of that name exists.
    #[error(
        "there is a sandbox `{name}` already ({state}): take it down first, or choose another name"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// Its port, or that it is stopped.
        state: String,
    },
    /// No sandbox of that name exists.
    #[error("there is no sandbox `{name}`: {known}")]
    NoSuchSandbox {
        /// The name as it was given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// Another process works on the sandbox.
    #[error("the sandbox in {} is in use by another process: wait for it to end", root.display())]
    Busy {
        /// Its directory.
        root: PathBuf,
    },
    /// `initdb` failed.
    #[error("initdb of PostgreSQL {version} failed in {}: {said}", data.display())]
    Initdb {
        /// The server's version.
        version: String,
        /// The data directory.
        data: PathBuf,
        /// What it wrote to its standard error.
        said: String,
    },
    /// The server ended instead of starting.
    #[error("PostgreSQL {version} did not start ({ended}); the end of its log, {}:\n{said}", log.display())]
    Start {
        /// The server's version.
        version: String,
        /// How the process ended.
        ended: String,
        /// The log.
        log: PathBuf,
        /// The log's last lines.
        said: String,
    },
    /// The server did not become ready in time.
    #[error(
        "PostgreSQL {version} was not ready after {seconds} s and was stopped; allow it more time, or see the end of its log, {}:\n{said}",
        log.display()
    )]
    NotReady {
        /// The server's version.
        version: String,
        /// How long it was given.
        seconds: u64,
        /// The log.
        log: PathBuf,
        /// The log's last lines.
        said: String,
    },
    /// All ports that the caller allowed are taken.
    #[error("port {ports} of 127.0.0.1 is taken: choose another, or let a free one be found")]
    PortTaken {
        /// The ports tried.
        ports: String,
    },
    /// The server did not stop in time.
    #[error(
        "PostgreSQL (process {pid}) did not stop within {seconds} s: stop it in the immediate mode"
    )]
    Stop {
        /// The postmaster.
        pid: i32,
        /// How long it was given.
        seconds: u64,
    },
    /// A snapshot of that name exists.
    #[error("there is a snapshot `{name}` already: remove it first, or choose another name")]
    SnapshotTaken {
        /// The name.
        name: String,
    },
    /// No snapshot of that name exists.
    #[error("there is no snapshot `{name}`: {known}")]
    NoSuchSnapshot {
        /// The name as it was given.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The data directory leans on something outside of it, which a snapshot would miss.
    #[error(
        "a snapshot would miss {}, to which {} leads: keep tablespaces and the WAL of a sandbox inside its data directory",
        target.display(), link.display()
    )]
    Outside {
        /// The symbolic link.
        link: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// The operating system refused.
    #[error("could not {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// Says what was tried, and on which path, when the operating system refuses.
pub(crate) trait Doing<T> {
    fn doing(self, what: &'static str, path: &Path) -> Result<T>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, what: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io {
            what,
            path: path.to_owned(),
            source,
        })
    }
}
