//! Catalogue queries for evidence. Results are rows as JSON, so that additional columns of a version need no
//! code (PostgreSQL documentation, chapters 27, 51 and 52, of the versions 10 to 18).

use std::time::Duration;

use run::{Artefact, Moment};

use super::{ArtefactList, reason};
use crate::probe_connection::{ProbeConnection, ProbeError};

/// A query: name, first version (`server_version_num`), times, and the text after `SELECT`.
struct Question(&'static str, u32, QueryTimes, &'static str);

/// Times at which a query is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QueryTimes {
    /// Before the replay only, for values that do not change.
    Before,
    /// Before and after the replay, for counters.
    BeforeAndAfter,
}

use QueryTimes::{Before, BeforeAndAfter};

const ANY: u32 = 0;

/// Sum of the counters that [`wait_for_counters`] reads.
const COUNTERS_SQL: &str = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_user_tables";
/// Maximum number of readings. On a server with other writers no two may be equal.
const COUNTER_READINGS: usize = 6;

const SERVER: &[Question] = &[
    Question(
        "server/version",
        ANY,
        Before,
        "version(), current_setting('server_version_num') AS number",
    ),
    Question("server/build", ANY, Before, "name, setting FROM pg_config"),
    Question(
        "server/control-system",
        ANY,
        Before,
        "* FROM pg_control_system()",
    ),
    Question(
        "server/control-init",
        ANY,
        Before,
        "* FROM pg_control_init()",
    ),
    Question(
        "server/control-checkpoint",
        ANY,
        BeforeAndAfter,
        "* FROM pg_control_checkpoint()",
    ),
    Question(
        "server/control-recovery",
        ANY,
        BeforeAndAfter,
        "* FROM pg_control_recovery()",
    ),
    Question(
        "server/times",
        ANY,
        BeforeAndAfter,
        "now(), pg_postmaster_start_time() AS started, pg_conf_load_time() AS configuration_read, \
         pg_is_in_recovery() AS in_recovery, current_setting('TimeZone') AS time_zone",
    ),
    Question(
        "server/me",
        ANY,
        Before,
        "current_setting('is_superuser') AS superuser, rolcreaterole, rolcreatedb, rolreplication, \
         pg_has_role(current_user, 'pg_monitor', 'USAGE') AS monitor, \
         pg_has_role(current_user, 'pg_read_all_settings', 'USAGE') AS reads_all_settings, \
         pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS reads_all_stats \
         FROM pg_roles WHERE rolname = current_user",
    ),
    // The values are in the settings of the run, without those that may be secrets.
    Question(
        "server/settings-files",
        ANY,
        Before,
        "sourcefile, sourceline, seqno, name, applied, error FROM pg_file_settings ORDER BY seqno",
    ),
    Question(
        "server/settings-of-roles",
        ANY,
        Before,
        "d.datname AS database, s.setrole <> 0 AS of_a_role, split_part(one, '=', 1) AS name \
         FROM pg_db_role_setting s LEFT JOIN pg_database d ON d.oid = s.setdatabase, unnest(setconfig) one ORDER BY 1, 3",
    ),
    Question(
        "server/client-authentication",
        ANY,
        Before,
        "line_number, type, database, address, netmask, auth_method, error FROM pg_hba_file_rules ORDER BY line_number",
    ),
    Question(
        "server/extensions-available",
        ANY,
        Before,
        "name, default_version, installed_version FROM pg_available_extensions ORDER BY name",
    ),
    Question(
        "server/roles",
        ANY,
        Before,
        "count(*) AS roles, count(*) FILTER (WHERE rolcanlogin) AS may_log_in, \
         count(*) FILTER (WHERE rolsuper) AS superusers, count(*) FILTER (WHERE rolconnlimit >= 0) AS with_limits FROM pg_roles",
    ),
    Question(
        "server/databases",
        ANY,
        BeforeAndAfter,
        "datname, pg_encoding_to_char(encoding) AS encoding, datcollate, datctype, datconnlimit, datistemplate, \
         datallowconn, age(datfrozenxid) AS frozen_age, mxid_age(datminmxid) AS multixact_age, \
         CASE WHEN has_database_privilege(oid, 'CONNECT') THEN pg_database_size(oid) END AS bytes FROM pg_database ORDER BY datname",
    ),
    Question(
        "server/tablespaces",
        ANY,
        Before,
        "spcname, spcoptions FROM pg_tablespace ORDER BY spcname",
    ),
    Question(
        "server/stat-database",
        ANY,
        BeforeAndAfter,
        "* FROM pg_stat_database ORDER BY datname",
    ),
    Question(
        "server/stat-database-conflicts",
        ANY,
        BeforeAndAfter,
        "* FROM pg_stat_database_conflicts ORDER BY datname",
    ),
    Question(
        "server/stat-bgwriter",
        ANY,
        BeforeAndAfter,
        "* FROM pg_stat_bgwriter",
    ),
    Question(
        "server/stat-checkpointer",
        170_000,
        BeforeAndAfter,
        "* FROM pg_stat_checkpointer",
    ),
    Question(
        "server/stat-wal",
        140_000,
        BeforeAndAfter,
        "* FROM pg_stat_wal",
    ),
    Question(
        "server/stat-io",
        160_000,
        BeforeAndAfter,
        "* FROM pg_stat_io",
    ),
    Question(
        "server/stat-slru",
        130_000,
        BeforeAndAfter,
        "* FROM pg_stat_slru",
    ),
    Question(
        "server/stat-archiver",
        ANY,
        BeforeAndAfter,
        "* FROM pg_stat_archiver",
    ),
    Question(
        "server/stat-replication",
        ANY,
        BeforeAndAfter,
        "state, sync_state, sent_lsn, write_lsn, flush_lsn, replay_lsn, write_lag, flush_lag, replay_lag FROM pg_stat_replication",
    ),
    Question(
        "server/replication-slots",
        ANY,
        BeforeAndAfter,
        "slot_type, plugin, database, active, age(xmin) AS xmin_age, age(catalog_xmin) AS catalog_xmin_age, restart_lsn FROM pg_replication_slots",
    ),
    Question(
        "server/progress-vacuum",
        ANY,
        BeforeAndAfter,
        "* FROM pg_stat_progress_vacuum",
    ),
    Question(
        "server/progress-create-index",
        120_000,
        BeforeAndAfter,
        "* FROM pg_stat_progress_create_index",
    ),
    Question(
        "server/progress-cluster",
        120_000,
        BeforeAndAfter,
        "* FROM pg_stat_progress_cluster",
    ),
    Question(
        "server/progress-analyze",
        130_000,
        BeforeAndAfter,
        "* FROM pg_stat_progress_analyze",
    ),
    Question(
        "server/progress-basebackup",
        130_000,
        BeforeAndAfter,
        "* FROM pg_stat_progress_basebackup",
    ),
    Question(
        "server/progress-copy",
        140_000,
        BeforeAndAfter,
        "* FROM pg_stat_progress_copy",
    ),
    Question(
        "server/activity",
        ANY,
        BeforeAndAfter,
        "backend_type, state, wait_event_type, wait_event, count(*), max(age(backend_xmin)) AS xmin_age, \
         max(now() - xact_start) AS longest_transaction FROM pg_stat_activity GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC",
    ),
    Question(
        "server/locks",
        ANY,
        BeforeAndAfter,
        "locktype, mode, granted, fastpath, count(*) FROM pg_locks GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC",
    ),
    Question(
        "server/prepared-transactions",
        ANY,
        BeforeAndAfter,
        "count(*), max(now() - prepared) AS oldest FROM pg_prepared_xacts",
    ),
    Question(
        "server/shared-memory",
        130_000,
        Before,
        "* FROM pg_shmem_allocations ORDER BY size DESC",
    ),
    Question(
        "server/wal-position",
        ANY,
        BeforeAndAfter,
        "CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() END AS lsn",
    ),
    Question(
        "server/wal-files",
        ANY,
        BeforeAndAfter,
        "count(*) AS files, sum(size) AS bytes FROM pg_ls_waldir()",
    ),
    Question(
        "server/log-files",
        ANY,
        BeforeAndAfter,
        "count(*) AS files, sum(size) AS bytes, pg_current_logfile() AS current FROM pg_ls_logdir()",
    ),
    Question(
        "server/temporary-files",
        120_000,
        BeforeAndAfter,
        "count(*) AS files, sum(size) AS bytes FROM pg_ls_tmpdir()",
    ),
    Question(
        "server/time-zones",
        ANY,
        Before,
        "count(*), md5(string_agg(name || utc_offset, ',' ORDER BY name)) AS md5 FROM pg_timezone_names",
    ),
];

const DATABASE: &[Question] = &[
    Question(
        "stat-tables",
        ANY,
        BeforeAndAfter,
        "s.*, pg_relation_filenode(relid) AS filenode FROM pg_stat_user_tables s ORDER BY schemaname, relname",
    ),
    Question(
        "stat-indexes",
        ANY,
        BeforeAndAfter,
        "* FROM pg_stat_user_indexes ORDER BY schemaname, relname, indexrelname",
    ),
    Question(
        "io-tables",
        ANY,
        BeforeAndAfter,
        "* FROM pg_statio_user_tables ORDER BY schemaname, relname",
    ),
    Question(
        "io-indexes",
        ANY,
        BeforeAndAfter,
        "* FROM pg_statio_user_indexes ORDER BY schemaname, relname, indexrelname",
    ),
    Question(
        "io-sequences",
        ANY,
        BeforeAndAfter,
        "* FROM pg_statio_user_sequences ORDER BY schemaname, relname",
    ),
    Question(
        "stat-functions",
        ANY,
        BeforeAndAfter,
        "schemaname, funcname, calls, total_time, self_time FROM pg_stat_user_functions",
    ),
    Question(
        "pages",
        ANY,
        BeforeAndAfter,
        "n.nspname AS schema, c.relname AS name, c.relkind AS kind, c.relpages, c.reltuples, c.relallvisible, \
         CASE WHEN c.relkind IN ('r', 'm', 't') THEN age(c.relfrozenxid) END AS frozen_age, c.reloptions, c.relpersistence \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'm', 't', 'i', 'p', 'I') ORDER BY c.relpages DESC LIMIT 5000",
    ),
    // Without values: common values and bounds of histograms are data of the tables.
    Question(
        "column-statistics",
        ANY,
        Before,
        "schemaname, tablename, attname, inherited, null_frac, avg_width, n_distinct, correlation, \
         array_length(most_common_freqs, 1) AS common_values, most_common_freqs[1] AS most_common_share \
         FROM pg_stats WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2, 3 LIMIT 10000",
    ),
    Question(
        "extended-statistics",
        ANY,
        Before,
        "n.nspname AS schema, stxname AS name, stxrelid::regclass::text AS of_table, stxkeys::text AS columns, stxkind \
         FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = stxnamespace ORDER BY 1, 2",
    ),
    Question(
        "constraints",
        ANY,
        Before,
        "conrelid::regclass::text AS of_table, conname, contype, convalidated, condeferrable, pg_get_constraintdef(oid) AS definition \
         FROM pg_constraint WHERE conrelid <> 0 AND connamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) ORDER BY 1, 2 LIMIT 10000",
    ),
    Question(
        "triggers",
        ANY,
        Before,
        "tgrelid::regclass::text AS of_table, tgname, tgenabled, tgfoid::regproc::text AS function, tgtype FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2",
    ),
    Question(
        "policies",
        ANY,
        Before,
        "polrelid::regclass::text AS of_table, polname, polcmd, polpermissive FROM pg_policy ORDER BY 1, 2",
    ),
    Question(
        "functions",
        ANY,
        Before,
        "p.oid::regprocedure::text AS name, l.lanname AS language, provolatile, proparallel, proisstrict, md5(prosrc) AS md5 \
         FROM pg_proc p JOIN pg_language l ON l.oid = prolang WHERE p.oid >= 16384 \
         AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e') ORDER BY 1 LIMIT 10000",
    ),
    Question(
        "types",
        ANY,
        Before,
        "t.oid::regtype::text AS name, typtype, typlen, typstorage FROM pg_type t WHERE t.oid >= 16384 AND typtype IN ('d', 'e', 'r') ORDER BY 1",
    ),
    Question(
        "sequences",
        ANY,
        Before,
        "schemaname, sequencename, data_type, increment_by, cache_size, cycle FROM pg_sequences ORDER BY 1, 2",
    ),
    Question(
        "views",
        ANY,
        Before,
        "schemaname, viewname, md5(definition) AS md5 FROM pg_views WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2",
    ),
    Question(
        "foreign-servers",
        ANY,
        Before,
        "srvtype, srvversion, fdwname FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = srvfdw",
    ),
    Question(
        "publications",
        ANY,
        Before,
        "pubname, puballtables, pubinsert, pubupdate, pubdelete FROM pg_publication ORDER BY 1",
    ),
    Question(
        "event-triggers",
        ANY,
        Before,
        "evtname, evtevent, evtenabled FROM pg_event_trigger ORDER BY 1",
    ),
    Question(
        "largest-statistics-targets",
        ANY,
        Before,
        "attrelid::regclass::text AS of_table, attname, attstattarget FROM pg_attribute WHERE attstattarget > 0 ORDER BY 3 DESC LIMIT 1000",
    ),
];

pub(super) fn gather_server(
    artefacts: &mut ArtefactList,
    connection: &mut ProbeConnection<'_>,
    moment: Moment,
    begun: &[Artefact],
) {
    for question in SERVER {
        ask(artefacts, connection, question, question.0, moment);
    }
    super::server_log::gather(artefacts, connection, moment, begun);
}

pub(super) fn gather_database(
    artefacts: &mut ArtefactList,
    connection: &mut ProbeConnection<'_>,
    database: &str,
    moment: Moment,
) {
    wait_for_counters(connection);
    for question in DATABASE {
        let name = format!("database/{database}/{}", question.0);
        ask(artefacts, connection, question, &name, moment);
    }
}

/// Waits until two readings of the counters of rows are equal. Sessions report when they end, and before version 15
/// another process writes the counters twice a second at most (documentation, 28.2).
fn wait_for_counters(connection: &mut ProbeConnection<'_>) {
    let pause = match connection.server().version {
        150_000.. => Duration::from_millis(100),
        _ => Duration::from_millis(600),
    };
    let mut earlier = None;
    for _ in 0..COUNTER_READINGS {
        let counters = connection.query(COUNTERS_SQL).ok();
        if counters.is_none() || counters == earlier {
            return;
        }
        earlier = counters;
        std::thread::sleep(pause);
    }
}

fn ask(
    artefacts: &mut ArtefactList,
    connection: &mut ProbeConnection<'_>,
    question: &Question,
    name: &str,
    moment: Moment,
) {
    let Question(_, since, when, what) = question;
    if *when == Before && moment == Moment::After {
        return;
    }
    let how = format!("SELECT {what}");
    if connection.server().version < *since {
        let why = format!(
            "the server is of version {}, and this is from {} on",
            version(connection.server().version),
            version(*since)
        );
        artefacts.add_missing(name, &how, why);
        return;
    }
    let asked = format!("SELECT coalesce(json_agg(one), '[]')::text FROM ({how}) one");
    match connection.query(&asked) {
        Ok(rows) => {
            let answer = rows
                .into_iter()
                .next()
                .and_then(|row| row.into_iter().next());
            artefacts.add(name, &how, answer.flatten().unwrap_or_default());
        }
        Err(unable) => {
            let lost = matches!(unable, ProbeError::ConnectionLost(_));
            artefacts.add_missing(name, &how, reason(unable));
            // A query that timed out does not end the collection.
            if lost {
                let _ = connection.open();
            }
        }
    }
}

/// Formats a version number.
fn version(number: u32) -> String {
    match number {
        100_000.. => (number / 10_000).to_string(),
        _ => format!("{}.{}", number / 10_000, number / 100 % 100),
    }
}
