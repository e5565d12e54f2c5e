//! Session of a trial: database, role and settings of the one that sent the statement.
//!
//! The sandbox's owner connects, since a trial makes changes that the statement's role may not make. The role is set around each
//! execution (`SET LOCAL ROLE`), so that its rights and its policies of row security hold. Its own settings (`ALTER ROLE … SET`) hold for
//! the connection.

use connect::login::{Login, QueryConnection};
use observe::Example;
use replay::{LoginMap, Target};

use crate::environment::quote_literal;

/// Name in `application_name`.
const APPLICATION: &str = "rehearse";

/// Session of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrialSession {
    /// Login of the sandbox's owner, with the database and the settings of the session.
    pub(crate) owner: Login,
    /// Role that executes statements; `None` for the owner, or if it is unknown.
    pub(crate) role: Option<String>,
}

impl TrialSession {
    /// Creates the session of the sandbox's owner.
    pub(crate) fn of_owner(target: &Target, database: &str) -> Self {
        TrialSession {
            owner: LoginMap::default().login(target, "", database, APPLICATION),
            role: None,
        }
    }

    /// Creates the session in which a replay with these logins would execute an example.
    pub(crate) fn of_example(logins: &LoginMap, target: &Target, example: &Example) -> Self {
        let login = logins.login(target, &example.user, &example.database, APPLICATION);
        let mut session = Self::of_owner(target, &login.database);
        let role = login.role.unwrap_or(login.user);
        session.role = (*role != *session.owner.user).then(|| role.to_string());
        // The first of several `options` overrides those of the client.
        let settings = login.settings.iter().chain(example.settings.iter());
        session.owner.settings = settings.cloned().collect();
        session
    }
}

/// Applies the settings of a role, as a login of it would. Those that the client sent override them.
///
/// # Errors
/// If the role does not exist, or a setting is refused.
pub(crate) fn apply_role_settings(
    connection: &mut QueryConnection<'_>,
    role: &str,
) -> Result<(), String> {
    let name = quote_literal(role);
    let known = format!("SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = {name}");
    if connection
        .query(&known)
        .map_err(|error| error.message)?
        .is_empty()
    {
        return Err(format!("the server has no role {role}"));
    }
    let settings = format!(
        "SELECT pg_catalog.set_config(own.name, own.value, false) FROM (\
           SELECT DISTINCT ON (1) pg_catalog.split_part(setting, '=', 1) AS name, \
             pg_catalog.substr(setting, pg_catalog.strpos(setting, '=') + 1) AS value \
           FROM pg_catalog.pg_db_role_setting s JOIN pg_catalog.pg_roles r ON r.oid = s.setrole \
           CROSS JOIN pg_catalog.unnest(s.setconfig) setting \
           WHERE r.rolname = {name} AND s.setdatabase IN (0, (SELECT d.oid FROM pg_catalog.pg_database d \
             WHERE d.datname = pg_catalog.current_database())) \
           ORDER BY 1, s.setdatabase DESC) own \
         LEFT JOIN pg_catalog.pg_settings g ON pg_catalog.lower(g.name) = pg_catalog.lower(own.name) \
         WHERE g.name IS NULL OR g.context IN ('user', 'superuser') AND g.source <> 'client'"
    );
    let applied = connection.query(&settings).map(drop);
    applied.map_err(|error| {
        format!(
            "the settings of the role {role} are refused: {}",
            error.message
        )
    })
}
