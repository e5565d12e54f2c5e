//! Roles that restore an export, and their connections.

use connect::login::QueryConnection;

/// Superuser of the private server. No code of an export runs with its rights.
pub(crate) const SUPERUSER: &str = "rehearse_superuser";
/// Owner of the copied database and of its objects, a role without the rights of a superuser. Policies of rows do not apply to it.
pub const OWNER: &str = "rehearse_owner";

/// Connections to a server that gets an export.
pub(crate) struct RestoreConnections<'d> {
    /// Superuser. It must use no type, function or table of the export.
    pub(crate) superuser: QueryConnection<'d>,
    /// Owner of the objects.
    pub(crate) owner: QueryConnection<'d>,
}
