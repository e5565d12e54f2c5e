//! Asks a server for the sessions that exist before a capture attaches to it.

use capture_attach::{SessionIdentities, SessionIdentity, SessionKind};
use connect::login::Dialer;
use replay::{LoginMap, Target};
use study::Failure;

use crate::terminal;

/// Queries the sessions of clients and of replication. A role without `pg_read_all_stats` does not see the kinds of others.
const SESSIONS_SQL: &str = "SELECT pid, datname, usename, application_name, backend_type \
     FROM pg_catalog.pg_stat_activity \
     WHERE coalesce(backend_type, 'client backend') IN ('client backend', 'walsender')";

/// Returns the sessions of a server, or `None` without a server. If it does not answer, the titles of its processes are used.
/// This program's session has the name `application`.
///
/// # Errors
/// If the URL is invalid.
pub(super) fn read(
    server: Option<&str>,
    application: &str,
) -> Result<Option<SessionIdentities>, Failure> {
    let Some(server) = server else {
        return Ok(None);
    };
    let target = Target::parse(server, |name| std::env::var(name).ok())?;
    let sessions = query(&target, application).map_err(|error| {
        terminal::note(&format!(
            "the sessions that exist already are not asked for, and the capture continues: {error}"
        ));
    });
    Ok(sessions.ok())
}

fn query(target: &Target, application: &str) -> Result<SessionIdentities, String> {
    let login = LoginMap::default().login(target, "", "", application);
    let dialer = Dialer::new(target).map_err(|error| error.to_string())?;
    let rows = dialer
        .open_query_connection(&login)
        .and_then(|mut connection| connection.query(SESSIONS_SQL))
        .map_err(|error| error.to_string())?;
    let identities = rows.into_iter().filter_map(|mut row| {
        let mut take = |column: usize| row.get_mut(column).and_then(Option::take);
        let pid = take(0)?.parse().ok()?;
        let identity = SessionIdentity {
            database: take(1).unwrap_or_default(),
            user: take(2).unwrap_or_default(),
            application: take(3).unwrap_or_default(),
            kind: match take(4).as_deref() {
                Some("walsender") => SessionKind::Replication,
                _ => SessionKind::Client,
            },
        };
        Some((pid, identity))
    });
    Ok(identities.collect())
}
