//! Logins of the workload's sessions at the target.

use std::collections::BTreeMap;

use connect::login::{Dialer, Login, LoginError, QueryConnection};
use workload::ArchiveError;

use super::{Context, Preflight, Severity};

/// Most logins that are tried.
const LOGINS_MAX: usize = 200;

/// Reason why there is no connection.
pub(super) enum NoConnection {
    /// The target refused the login.
    Refused,
    /// The target did not answer, and would not answer others, either.
    Unreachable,
}

/// A login, and the part of the workload that needs it.
pub(super) struct LoginUse {
    pub(super) login: Login,
    /// Database in the capture.
    pub(super) captured_database: String,
    statements: u64,
    sessions: u64,
}

impl LoginUse {
    /// Returns the logins that the workload needs, those with the most statements first.
    pub(super) fn of_workload(context: &Context<'_>) -> Result<Vec<LoginUse>, ArchiveError> {
        let mut uses: BTreeMap<Login, LoginUse> = BTreeMap::new();
        for captured in context.reader.logins()? {
            let map = &context.options.logins;
            let login = map.login(context.target, &captured.user, &captured.database, "");
            let used = uses.entry(login.clone()).or_insert_with(|| LoginUse {
                login,
                captured_database: captured.database.clone(),
                statements: 0,
                sessions: 0,
            });
            used.statements += captured.statements;
            used.sessions += captured.sessions;
        }
        let mut uses: Vec<LoginUse> = uses.into_values().collect();
        uses.sort_by_key(|one| std::cmp::Reverse(one.statements));
        uses.truncate(LOGINS_MAX);
        Ok(uses)
    }

    /// Tries the login. Adds a finding if it is refused.
    pub(super) fn connect<'d>(
        &self,
        context: &Context<'_>,
        dialer: &'d Dialer,
        result: &mut Preflight,
    ) -> Result<QueryConnection<'d>, NoConnection> {
        result.logins += 1;
        let error = match dialer.open_query_connection(&self.login) {
            Ok(questions) => return Ok(questions),
            Err(error) => error,
        };
        // A server that does not answer is reported by the replay. With 08P01 a pooler refuses a parameter.
        if error.sqlstate.starts_with(b"08") && error.sqlstate != *b"08P01" {
            return Err(NoConnection::Unreachable);
        }
        let Login { user, database, .. } = &self.login;
        let message = format!(
            "the target refuses {user} at database {database} ({} sessions): {error}",
            self.sessions
        );
        let remedy = remedy(context, self, &error);
        result.add(Severity::Fails, self.statements, message, remedy);
        Err(NoConnection::Refused)
    }
}

fn remedy(context: &Context<'_>, used: &LoginUse, error: &LoginError) -> String {
    let Login { user, database, .. } = &used.login;
    if error.message.contains("unsupported startup parameter") {
        return "a pooler refuses it: set its ignore_startup_parameters, or give the server's own address in --target".to_owned();
    }
    match &error.sqlstate {
        b"42704" | b"22023" => {
            "correct the name or value of the setting in --startup-options, or in the options of --target (SELECT name, unit, min_val, max_val, enumvals FROM pg_settings)".to_owned()
        }
        b"3D000" => format!(
            "CREATE DATABASE \"{database}\" with its data, or --map-database {}=OTHER",
            used.captured_database
        ),
        b"28P01" => format!(
            "give the password of {user} in a password file, CREATE ROLE \"{user}\" LOGIN if it is missing (pg_dumpall --roles-only), or log in as one role with --set-role"
        ),
        b"28000" => format!(
            "CREATE ROLE \"{user}\" LOGIN (pg_dumpall --roles-only), admit it in pg_hba.conf, or --map-user {user}=OTHER, or --set-role"
        ),
        b"42501" => format!("GRANT CONNECT ON DATABASE \"{database}\" TO \"{user}\""),
        _ => format!("see that {} can be reached", context.target.address()),
    }
}
