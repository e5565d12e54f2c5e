//! Rights of a role that must not be able to write, as the target's catalogue has them.
//!
//! A setting can be changed by a session, and SET ROLE can be undone. A login cannot: PostgreSQL checks each
//! statement against the session's role and the roles that it may set. So the rights of all of these are asked for.
//! Rights of PUBLIC are rights of each role.
//!
//! No finding is a right that every role has: temporary objects, large objects of its own, its own password, settings
//! and default privileges, notifications and advisory locks.

use crate::connect::{ConnectError, QueryConnection};
use crate::read_only_catalogue::HARMLESS;
use workload::Sqlstate;

/// Most rights that a message lists.
const LISTED_MAX: usize = 8;

/// `insufficient_privilege`, here of a role that has too many.
const TOO_MANY_RIGHTS: Sqlstate = Sqlstate(*b"42501");

/// First versions with parameters that can be granted, and with the privilege MAINTAIN.
const GRANTED_PARAMETERS: u32 = 15_00_00;
const MAINTAIN: u32 = 17_00_00;

/// Roles whose members may read more, and nothing else.
const READING_ROLES: &str = "'pg_monitor', 'pg_read_all_data', 'pg_read_all_settings', \
     'pg_read_all_stats', 'pg_stat_scan_tables'";

/// Rights to write, one a row. The role itself and all roles of which it is a member, also without inheriting, are
/// `reach`. A superuser has every right: the first rows suffice, and the rest is not computed.
///
/// - A SECURITY DEFINER function has the rights of its owner. An aggregate calls one with its own owner's EXECUTE.
/// - A function in C or an untrusted language is bound by no right. PostgreSQL's own functions check rights, unless
///   EXECUTE was granted for that purpose.
const RIGHTS_SQL: &str = "WITH RECURSIVE reach AS ( \
     SELECT oid FROM pg_roles WHERE rolname = session_user \
     UNION SELECT m.roleid FROM pg_auth_members m JOIN reach ON m.member = reach.oid), \
     calls AS (SELECT p.oid, p.prosecdef, p.provolatile, p.proacl, l.lanname, l.lanpltrusted, \
         n.nspname = 'pg_catalog' AS is_own, \
         CASE WHEN l.lanname = 'internal' THEN p.prosrc ELSE p.proname END ~ '{harmless}' \
             AND (l.lanname = 'internal' OR EXISTS (SELECT FROM pg_depend d \
                 WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')) AS is_harmless \
         FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang JOIN pg_namespace n ON n.oid = p.pronamespace \
         JOIN pg_type t ON t.oid = p.prorettype \
         WHERE (t.typtype <> 'p' OR t.typname IN ('record', 'void', 'cstring') OR t.typname LIKE 'any%') \
         AND 'internal'::regtype <> ALL (p.proargtypes::oid[]) \
         AND NOT EXISTS (SELECT FROM pg_language v WHERE v.lanvalidator = p.oid) \
         AND NOT EXISTS (SELECT FROM pg_foreign_data_wrapper v WHERE v.fdwvalidator = p.oid)) \
     SELECT format('%I is %s', r.rolname, attribute) FROM reach JOIN pg_roles r ON r.oid = reach.oid, \
         LATERAL (VALUES ('SUPERUSER', r.rolsuper), ('CREATEDB', r.rolcreatedb), ('CREATEROLE', r.rolcreaterole), \
             ('REPLICATION', r.rolreplication), ('BYPASSRLS', r.rolbypassrls)) v(attribute, has) WHERE has \
     UNION ALL SELECT format('membership in %I', r.rolname) FROM reach JOIN pg_roles r ON r.oid = reach.oid \
         WHERE r.rolname ~ '^pg_' AND r.rolname NOT IN ({reading}) \
     UNION ALL SELECT format('ownership of %s', CASE \
             WHEN d.dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())) \
             THEN pg_describe_object(d.classid, d.objid, 0) \
             ELSE 'an object of database ' || (SELECT datname FROM pg_database WHERE oid = d.dbid) END) \
         FROM pg_shdepend d JOIN reach ON d.refobjid = reach.oid \
         WHERE d.refclassid = 'pg_authid'::regclass AND d.deptype = 'o' AND NOT EXISTS (SELECT FROM pg_class c \
             WHERE d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relpersistence = 't') \
     UNION ALL SELECT format('%s on %s', granted.list, c.oid::regclass) FROM pg_class c, \
         LATERAL (SELECT string_agg(DISTINCT p, ', ') FROM reach, \
             unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER'{maintain}]) p \
             WHERE CASE WHEN p IN ('INSERT', 'UPDATE', 'REFERENCES') \
                 THEN has_any_column_privilege(reach.oid, c.oid, p) \
                 ELSE has_table_privilege(reach.oid, c.oid, p) END) granted(list) \
         WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relpersistence <> 't' \
         AND c.oid <> 'pg_settings'::regclass AND granted.list <> '' \
     UNION ALL SELECT format('USAGE or UPDATE on sequence %s', c.oid::regclass) FROM pg_class c \
         WHERE c.relkind = 'S' AND c.relpersistence <> 't' AND EXISTS (SELECT FROM reach \
             WHERE has_sequence_privilege(reach.oid, c.oid, 'USAGE, UPDATE')) \
     UNION ALL SELECT format('CREATE on schema %I', n.nspname) FROM pg_namespace n \
         WHERE n.nspname !~ '^pg_(toast_)?temp_' AND EXISTS (SELECT FROM reach \
             WHERE has_schema_privilege(reach.oid, n.oid, 'CREATE')) \
     UNION ALL SELECT format('CREATE on database %I', current_database()) \
         WHERE EXISTS (SELECT FROM reach WHERE has_database_privilege(reach.oid, current_database(), 'CREATE')) \
     UNION ALL SELECT format('CREATE on tablespace %I', t.spcname) FROM pg_tablespace t \
         WHERE EXISTS (SELECT FROM reach WHERE has_tablespace_privilege(reach.oid, t.oid, 'CREATE')) \
     UNION ALL SELECT format('USAGE on foreign-data wrapper %I', f.fdwname) FROM pg_foreign_data_wrapper f \
         WHERE EXISTS (SELECT FROM reach WHERE has_foreign_data_wrapper_privilege(reach.oid, f.oid, 'USAGE')) \
     UNION ALL SELECT format('USAGE on foreign server %I', s.srvname) FROM pg_foreign_server s \
         WHERE EXISTS (SELECT FROM reach WHERE has_server_privilege(reach.oid, s.oid, 'USAGE')) \
     UNION ALL SELECT format('UPDATE on large object %s', o.oid) FROM pg_largeobject_metadata o \
         WHERE current_setting('lo_compat_privileges') = 'on' OR EXISTS (SELECT FROM aclexplode(o.lomacl) a \
             WHERE a.privilege_type = 'UPDATE' AND (a.grantee = 0 OR a.grantee IN (SELECT oid FROM reach))) \
     {parameters} \
     UNION ALL SELECT format('EXECUTE on function %s (SECURITY DEFINER)', p.oid::regprocedure) FROM calls p \
         WHERE p.prosecdef AND EXISTS (SELECT FROM reach WHERE has_function_privilege(reach.oid, p.oid, 'EXECUTE')) \
     UNION ALL SELECT format('EXECUTE on aggregate %s (SECURITY DEFINER)', a.aggfnoid::regprocedure) \
         FROM pg_aggregate a WHERE EXISTS (SELECT FROM pg_proc p WHERE p.prosecdef AND p.oid IN (a.aggtransfn, \
             a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn, a.aggmtransfn, a.aggminvtransfn, \
             a.aggmfinalfn)) \
         AND EXISTS (SELECT FROM reach WHERE has_function_privilege(reach.oid, a.aggfnoid::oid, 'EXECUTE')) \
     UNION ALL SELECT format('event trigger %I (SECURITY DEFINER)', e.evtname) \
         FROM pg_event_trigger e JOIN pg_proc p ON p.oid = e.evtfoid WHERE e.evtenabled <> 'D' AND p.prosecdef \
     UNION ALL SELECT format('EXECUTE on function %s', p.oid::regprocedure) FROM calls p \
         WHERE NOT p.prosecdef AND CASE \
             WHEN p.lanname = 'internal' AND p.is_own THEN p.provolatile = 'v' AND p.proacl IS NOT NULL \
                 AND NOT p.is_harmless \
             WHEN p.lanname IN ('internal', 'c') THEN p.provolatile = 'v' AND NOT p.is_harmless \
             ELSE NOT p.lanpltrusted AND p.lanname <> 'sql' END \
         AND EXISTS (SELECT FROM reach WHERE has_function_privilege(reach.oid, p.oid, 'EXECUTE')) \
     LIMIT {most}";

/// Parameters that the role may set although they are reserved for superusers, or in the server's files.
const PARAMETERS_SQL: &str = "UNION ALL SELECT format('%s on parameter %s', a.privilege_type, p.parname) \
     FROM pg_parameter_acl p, aclexplode(p.paracl) a \
     WHERE a.grantee = 0 OR a.grantee IN (SELECT oid FROM reach)";

/// Asks for the rights of the connection's role in its database.
///
/// # Errors
/// If the role can write, or the server refuses a question.
pub(crate) fn check_rights(
    connection: &mut QueryConnection<'_>,
    user: &str,
) -> Result<(), ConnectError> {
    let mut column = |sql: &str| -> Result<Vec<String>, ConnectError> {
        let rows = connection.query(sql)?.into_iter();
        Ok(rows.flatten().flatten().collect())
    };
    let facts =
        column("SELECT session_user UNION ALL SELECT current_setting('server_version_num')")?;
    let [session_user, version] = &facts[..] else {
        return Err(refusal(
            "the server does not name the role of its session".to_owned(),
        ));
    };
    if session_user != user {
        return Err(refusal(format!(
            "the session has the role \"{session_user}\"; is there a pooler in between that chooses the role?"
        )));
    }
    let mut rights = column(&rights_sql(version.parse().unwrap_or(0)))?;
    if rights.is_empty() {
        return Ok(());
    }
    let more = match rights.len() > LISTED_MAX {
        true => "; and more",
        false => "",
    };
    rights.truncate(LISTED_MAX);
    Err(refusal(format!(
        "--read-only-role takes a role that cannot write, and this one has rights of its own, of PUBLIC or of a role that it is a member of: {}{more}; revoke them, or leave --read-only-role out",
        rights.join("; ")
    )))
}

fn refusal(message: String) -> ConnectError {
    ConnectError {
        sqlstate: TOO_MANY_RIGHTS,
        message,
    }
}

fn rights_sql(version: u32) -> String {
    let maintain = match version >= MAINTAIN {
        true => ", 'MAINTAIN'",
        false => "",
    };
    let parameters = match version >= GRANTED_PARAMETERS {
        true => PARAMETERS_SQL,
        false => "",
    };
    let names: Vec<String> = HARMLESS
        .iter()
        .map(|name| name.replace('*', ".*"))
        .collect();
    RIGHTS_SQL
        .replace("{harmless}", &format!("^({})$", names.join("|")))
        .replace("{reading}", READING_ROLES)
        .replace("{maintain}", maintain)
        .replace("{parameters}", parameters)
        .replace("{most}", &(LISTED_MAX + 1).to_string())
}
