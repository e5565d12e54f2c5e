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
    /// Finds the installation.
    pub find: FindInstallation,
}
