//! Connections that are excluded from the server's log and statistics.

use connect::login::{Dialer, Login, LoginError, QueryConnection};

/// Opens a connection that is excluded from the server's log and statistics, as far as the role permits. So
/// the statistics measured at the same time are those of the load alone.
///
/// # Errors
/// If it cannot be opened.
pub fn quiet_connection<'d>(
    dialer: &'d Dialer,
    login: &Login,
) -> Result<QueryConnection<'d>, LoginError> {
    let mut questions = dialer.open_query_connection(login)?;
    let rows = questions.query("SELECT pg_catalog.current_setting('is_superuser')");
    let first = rows.ok().and_then(|rows| rows.into_iter().next());
    if first
        .and_then(|row| row.into_iter().next().flatten())
        .as_deref()
        == Some("on")
    {
        for setting in [
            "log_statement = none",
            "log_min_duration_statement = -1",
            "log_duration = off",
            "pg_stat_statements.track = none",
        ] {
            // A setting that does not exist is skipped.
            let _ = questions.query(&format!("SET {setting}"));
        }
    }
    Ok(questions)
}
