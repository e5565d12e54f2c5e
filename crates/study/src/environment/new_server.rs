//! Request of a server that is created for an experiment.

use ::sandbox::{Dirs, Installation, ServerRequirements};

use crate::failure::Failure;

/// Function that finds an installation of PostgreSQL, or downloads one.
pub type FindInstallation = fn(&ServerRequirements, &Dirs) -> Result<Installation, Failure>;

/// Server to create, and the source of its data.
#[derive(Debug, Clone)]
pub struct NewServerRequest {
    /// Version and installation.
    pub requirements: ServerRequirements,
    /// Shell command that fills it.
    pub load: Option<String>,
    /// Whether its first data are those of the other private server, by pg_upgrade. Then the command fills nothing, and
    /// completes the upgrade.
    pub is_upgraded: bool,
    /// Finds the installation.
    pub find: FindInstallation,
}
