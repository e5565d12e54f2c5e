//! Finds the postmaster of a server on this host.

use std::path::PathBuf;

/// Way in which the user names a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerSelection {
    /// Port on which the server listens.
    Port(u16),
    /// Data directory of the server.
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
    /// Major version, from the data directory's `PG_VERSION`.
    pub major: u32,
}
