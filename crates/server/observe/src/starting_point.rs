//! Notes the state of a server at the start of a capture: position in the WAL, restore point, sequences, transactions in
//! progress. A part that the role may not read is missing, with the reason; it fails nothing.

mod databases;
mod snapshot_hold;

use std::time::Duration;

use connect::Target;
use connect::login::{Dialer, Login, LoginError, QueryConnection, Row};
use workload::{Archiving, ExportedSnapshot, Hosting, OpenTransaction, StartingPoint};

use databases::DatabaseReader;
pub use databases::database_state;
pub use snapshot_hold::SnapshotHold;

/// Time limit of all queries of one connection.
const QUERIES_TIME: Duration = Duration::from_secs(20);
/// Settings of our sessions. Names are qualified, and nobody waits for us for long.
const SESSION_SQL: &str = "SET search_path = pg_catalog; SET statement_timeout = '5s'; \
     SET lock_timeout = '200ms'; SET default_transaction_read_only = on";

/// Version, limits, archiving, and what tells the hosting: roles and functions that providers create.
const SERVER_SQL: &str = "SELECT current_setting('server_version'), pg_is_in_recovery(), \
     current_setting('max_connections'), \
     (SELECT setting FROM pg_settings WHERE name = 'archive_mode'), \
     coalesce((SELECT string_agg(setting, ' ') FROM pg_settings \
      WHERE name IN ('archive_command', 'archive_library')), ''), \
     EXISTS (SELECT FROM pg_proc WHERE proname = 'aurora_version'), \
     (SELECT string_agg(rolname, ' ') FROM pg_roles WHERE rolname IN \
      ('rds_superuser', 'cloudsqlsuperuser', 'alloydbsuperuser', 'azure_pg_admin', 'neon_superuser'))";

const IDENTIFIER_SQL: &str = "SELECT system_identifier FROM pg_control_system()";

/// The name is unique, since recovery ends at the first restore point with it. OFFSET keeps it from being computed twice.
const RESTORE_POINT_SQL: &str = "SELECT name, pg_create_restore_point(name) FROM (SELECT to_char(\
     clock_timestamp() AT TIME ZONE 'UTC', '\"rehearse_\"YYYYMMDD_HH24MISS_US') AS name OFFSET 0) AS named";

const POSITION_SQL: &str = "SELECT CASE WHEN pg_is_in_recovery() \
     THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END";

/// The first eight digits of a WAL file's name are the timeline. A standby does not tell the name.
const TIMELINE_SQL: &str = "SELECT CASE WHEN pg_is_in_recovery() \
     THEN (SELECT timeline_id FROM pg_control_checkpoint()) \
     ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END";

/// A transaction that has written holds a lock on its own number, which every role sees.
const MOMENT_SQL: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
     (SELECT count(DISTINCT virtualtransaction) FROM pg_locks \
      WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock')";

const TRANSACTIONS_SQL: &str = "SELECT pid, coalesce(datname, ''), coalesce(usename, ''), \
     coalesce(application_name, ''), \
     (extract(epoch FROM clock_timestamp() - xact_start) * 1000000)::bigint, backend_xid IS NOT NULL \
     FROM pg_stat_activity WHERE xact_start IS NOT NULL AND backend_type = 'client backend' \
     AND application_name <> 'rehearse' \
     UNION ALL SELECT 0, database, owner, gid, \
     (extract(epoch FROM clock_timestamp() - prepared) * 1000000)::bigint, true FROM pg_prepared_xacts \
     ORDER BY 5 DESC LIMIT 50";

/// Notes the state of a server. With `export`, a snapshot is exported and held for this time, or until the hold is dropped.
///
/// # Errors
/// If the server cannot be reached, or refuses the login.
pub fn starting_point(
    target: &Target,
    login: &Login,
    export: Option<Duration>,
) -> Result<(StartingPoint, Option<SnapshotHold>), String> {
    let dialer = Dialer::new(target).map_err(|error| error.to_string())?;
    let mut questions = open(&dialer, login).map_err(|error| error.to_string())?;
    let mut point = StartingPoint::default();
    read_server(&mut questions, &mut point);
    let mut databases = DatabaseReader::open_all(&dialer, login, &mut questions, &mut point);
    let hold = export.and_then(|time| export_snapshot(target, login, time, &mut point));
    read_moment(&mut questions, &mut point);
    // A sequence is read after the position: what is handed out in between is missing in the copy, and not twice.
    for database in &mut databases {
        database.read_sequences(&mut point.missing);
    }
    point.databases = databases.into_iter().map(DatabaseReader::finish).collect();
    Ok((point, hold))
}

fn open<'d>(dialer: &'d Dialer, login: &Login) -> Result<QueryConnection<'d>, LoginError> {
    let mut questions = dialer.open_query_connection(login)?;
    questions.limit(QUERIES_TIME);
    questions.query(SESSION_SQL)?;
    Ok(questions)
}

/// Returns the first row of a query; otherwise notes what is missing.
fn first_row(
    questions: &mut QueryConnection<'_>,
    sql: &str,
    what: &str,
    missing: &mut Vec<String>,
) -> Option<Row> {
    match questions.query(sql) {
        Ok(rows) => rows.into_iter().next(),
        Err(error) => {
            missing.push(format!("{what}: {error}"));
            None
        }
    }
}

fn text(row: &Row, column: usize) -> &str {
    row.get(column)
        .and_then(Option::as_deref)
        .unwrap_or_default()
}

fn read_server(questions: &mut QueryConnection<'_>, point: &mut StartingPoint) {
    let missing = &mut point.missing;
    if let Some(row) = first_row(questions, SERVER_SQL, "settings", missing) {
        point.server_version = text(&row, 0).to_owned();
        point.in_recovery = text(&row, 1) == "t";
        point.max_connections = text(&row, 2).parse().ok();
        point.archiving = archiving(text(&row, 3), text(&row, 4));
        point.hosting = hosting(text(&row, 5) == "t", text(&row, 6), text(&row, 4));
    }
    let row = first_row(questions, IDENTIFIER_SQL, "system identifier", missing);
    let signed = row.and_then(|row| text(&row, 0).parse::<i64>().ok());
    point.system_identifier = signed.map(i64::cast_unsigned);
}

fn archiving(mode: &str, command: &str) -> Archiving {
    match mode {
        "" => Archiving::Unknown,
        "off" => Archiving::Off,
        _ if command.contains("pgbackrest") => Archiving::PgBackRest,
        _ => Archiving::Other,
    }
}

fn hosting(has_aurora: bool, roles: &str, archive_command: &str) -> Hosting {
    let is = |role| roles.split(' ').any(|one| one == role);
    match () {
        () if has_aurora => Hosting::Aurora,
        () if is("rds_superuser") => Hosting::Rds,
        () if is("alloydbsuperuser") => Hosting::AlloyDb,
        () if is("cloudsqlsuperuser") => Hosting::CloudSql,
        () if is("azure_pg_admin") => Hosting::Azure,
        () if is("neon_superuser") => Hosting::Neon,
        // The operator's instance manager archives (`/controller/manager wal-archive`).
        () if archive_command.contains("/controller/manager") => Hosting::CloudNativePg,
        () => Hosting::SelfManaged,
    }
}

fn export_snapshot(
    target: &Target,
    login: &Login,
    time: Duration,
    point: &mut StartingPoint,
) -> Option<SnapshotHold> {
    match SnapshotHold::begin(target.clone(), login.clone(), time) {
        Ok((hold, id)) => {
            point.exported_snapshot = Some(ExportedSnapshot {
                id,
                database: login.database.to_string(),
                held_s: time.as_secs(),
            });
            Some(hold)
        }
        Err(error) => {
            point.missing.push(format!("exported snapshot: {error}"));
            None
        }
    }
}

/// Creates the restore point, and reads the position in the WAL and the transactions in progress.
fn read_moment(questions: &mut QueryConnection<'_>, point: &mut StartingPoint) {
    let missing = &mut point.missing;
    let row = first_row(questions, TIMELINE_SQL, "timeline", missing);
    point.timeline = row.and_then(|row| text(&row, 0).parse().ok());
    if !point.in_recovery
        && let Some(row) = first_row(questions, RESTORE_POINT_SQL, "restore point", missing)
    {
        point.restore_point = Some(text(&row, 0).to_owned());
        point.lsn = Some(text(&row, 1).to_owned());
    }
    if point.lsn.is_none()
        && let Some(row) = first_row(questions, POSITION_SQL, "WAL position", missing)
    {
        point.lsn = Some(text(&row, 0).to_owned()).filter(|lsn| !lsn.is_empty());
    }
    if let Some(row) = first_row(questions, MOMENT_SQL, "time and transactions", missing) {
        point.server_time_us = text(&row, 0).parse().unwrap_or(0);
        point.writing_transactions = text(&row, 1).parse().ok();
    }
    let open = questions.query(TRANSACTIONS_SQL).unwrap_or_default();
    point.transactions = open.iter().filter_map(open_transaction).collect();
}

fn open_transaction(row: &Row) -> Option<OpenTransaction> {
    Some(OpenTransaction {
        process_id: text(row, 0).parse().ok()?,
        database: text(row, 1).to_owned(),
        user: text(row, 2).to_owned(),
        application: text(row, 3).to_owned(),
        age_us: text(row, 4).parse().ok()?,
        has_written: text(row, 5) == "t",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosting_is_inferred_from_roles_functions_and_the_archive_command() {
        assert_eq!(hosting(false, "", "cp %p /wal/%f"), Hosting::SelfManaged);
        assert_eq!(hosting(true, "rds_superuser", ""), Hosting::Aurora);
        assert_eq!(hosting(false, "rds_superuser", ""), Hosting::Rds);
        let both = "alloydbsuperuser cloudsqlsuperuser";
        assert_eq!(hosting(false, both, ""), Hosting::AlloyDb);
        let manager = "/controller/manager wal-archive --log-destination x %p";
        assert_eq!(hosting(false, "", manager), Hosting::CloudNativePg);
    }

    #[test]
    fn archiving_is_inferred_from_mode_and_command() {
        let command = "pgbackrest --stanza=main archive-push %p";
        assert_eq!(archiving("on", command), Archiving::PgBackRest);
        assert_eq!(archiving("off", command), Archiving::Off);
        assert_eq!(archiving("on", "cp %p /wal/%f"), Archiving::Other);
        assert_eq!(archiving("", ""), Archiving::Unknown);
    }
}
