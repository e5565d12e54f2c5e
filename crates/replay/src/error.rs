//! Errors of a replay.

use std::io;
use std::path::PathBuf;

use run::ArchiveError;

use crate::connect::ConnectError;
use connect::TargetError;

/// Reason why there is no run.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The target refuses a login that the workload needs.
    #[error(
        "cannot replay against {address} as user \"{user}\" on database \"{database}\": {source}"
    )]
    Refused {
        /// Host and port.
        address: String,
        /// The role.
        user: String,
        /// The database.
        database: String,
        /// The target's message.
        source: ConnectError,
    },
    /// A file that the target names cannot be used.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A run cannot be resumed.
    #[error("cannot go on with the run {}: {reason}", run.display())]
    Resume {
        /// The run.
        run: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The clock of the target cannot be set to the captured time.
    #[error("cannot set the clock of the target to the captured time: {0}")]
    TargetClock(String),
    /// The sessions cannot be divided among several workers.
    #[error("cannot divide the sessions: {0}")]
    Shards(String),
    /// The workers of a replay did not start together.
    #[error("the replay was not started, and this worker sent nothing: {0}")]
    NotStarted(String),
    /// The system allows fewer connections than the replay needs.
    #[error(
        "{connections} sessions at once need as many connections, and this process may have {room}; allow it {files} open files (ulimit -n {files}), or pass --max-connections"
    )]
    TooManySessions {
        /// Number of connections needed at once.
        connections: u64,
        /// Number of open files needed.
        files: u64,
        /// Number of connections that the system allows.
        room: u64,
    },
    /// The address space is limited to less than the replay needs.
    #[error(
        "a replay needs {needed_mib} MiB of address space for its threads, and this process may have {mib} MiB; raise the limit (ulimit -v unlimited)"
    )]
    AddressSpace {
        /// Limit, in MiB.
        mib: u64,
        /// Minimum, in MiB.
        needed_mib: u64,
    },
    /// A workload or run cannot be read or written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The system refuses a resource that a replay needs.
    #[error("the system refuses what a replay needs: {0}")]
    System(#[from] io::Error),
}
