//! Roles that restore an export, and their connections.

use connect::login::QueryConnection;

use crate::document::PlannerExport;
use crate::error::PlannerCopyError;

/// Superuser of the private server. No code of an export runs with its rights.
pub(crate) const SUPERUSER: &str = "rehearse_superuser";
/// Owner of the copied database and of its objects, a role without the rights of a superuser. Policies of rows do not apply to it.
pub const OWNER: &str = "rehearse_owner";

/// Refuses an export with a role of the private server itself: a membership in it would give its rights to code of the export.
///
/// # Errors
/// If a role of the export has such a name.
pub(crate) fn check_role_names(export: &PlannerExport) -> Result<(), PlannerCopyError> {
    let roles = export.roles.iter().map(|role| &role.name);
    let settings = export.role_settings.iter();
    let mut names = roles.chain(settings.filter_map(|setting| setting.role.as_ref()));
    match names.find(|name| [SUPERUSER, OWNER].contains(&name.as_str())) {
        Some(name) => Err(PlannerCopyError::Usage(format!(
            "cannot plan with the export: it has a role named {name}, as private servers have; rename the role on the exported \
             server, and export again"
        ))),
        None => Ok(()),
    }
}

/// Connections to a server that gets an export.
pub(crate) struct RestoreConnections<'d> {
    /// Superuser. It must use no type, function or table of the export.
    pub(crate) superuser: QueryConnection<'d>,
    /// Owner of the objects.
    pub(crate) owner: QueryConnection<'d>,
}
