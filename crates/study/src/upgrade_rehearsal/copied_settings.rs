//! Settings of the old server that private servers get.
//!
//! Only settings that can change plans, answers or the work of statements are copied. The old server writes them as
//! statements, and each private server executes these, so it refuses what it does not know. Settings of roles are in the dump
//! of roles.
//!
//! Lists of names are written as they are, and psql would execute a command in them. A list with any other character than
//! those of names is left out.

/// File of the settings that were left out, as `NAME = VALUE`.
pub(super) const LEFT_OUT_FILE: &str = "settings-left-out.txt";

/// Shell commands that write both files from the server that libpq's variables name. `pg_dump` does not write the settings of
/// a database without `--create`, which would also create it under its old name.
pub(super) const DUMP: &str = r#"psql -X -q -A -t -v ON_ERROR_STOP=1 -o settings.sql <<'END'
WITH listed AS (
  SELECT 'ALTER SYSTEM SET ' AS command, name, current_setting(name) AS value FROM pg_settings
  WHERE source IN ('configuration file', 'command line', 'environment variable', 'global')
    AND (context NOT IN ('internal', 'postmaster')
      OR name IN ('max_locks_per_transaction', 'max_prepared_transactions', 'max_worker_processes'))
    AND category ~ '^(Query Tuning|Resource Usage|Lock Management|Version and Platform Compatibility)|Statement Behavior|Locale and Formatting'
    AND name NOT IN ('default_tablespace', 'temp_tablespaces', 'shared_memory_type', 'dynamic_shared_memory_type')
  UNION ALL
  SELECT CASE WHEN s.setrole = 0 THEN 'ALTER DATABASE :"DBNAME" SET '
      ELSE 'ALTER ROLE ' || quote_ident(r.rolname) || ' IN DATABASE :"DBNAME" SET ' END,
    split_part(one, '=', 1), substring(one FROM position('=' IN one) + 1)
  FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase AND d.datname = current_database()
  LEFT JOIN pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) one
  WHERE s.setrole = 0 OR r.rolname IS NOT NULL)
SELECT command || quote_ident(name) || ' = ' || CASE
    WHEN value <> '' AND name IN ('search_path', 'local_preload_libraries', 'session_preload_libraries', 'temp_tablespaces')
    THEN value ELSE quote_literal(value) END || ';' FROM listed
WHERE name NOT IN ('search_path', 'local_preload_libraries', 'session_preload_libraries', 'temp_tablespaces')
  OR value ~ '^[[:alnum:]_$", -]*$' ORDER BY command, name;
END
psql -X -q -A -t -v ON_ERROR_STOP=1 -o settings-left-out.txt <<'END'
SELECT name || ' = ' || current_setting(name) FROM pg_settings
WHERE source IN ('configuration file', 'command line', 'environment variable', 'global')
  AND name IN ('shared_buffers', 'huge_pages', 'max_connections') AND setting <> boot_val
UNION ALL
SELECT name || ' = ' || regexp_replace(value, '[^[:alnum:]_$", -]', '?', 'g')
FROM (SELECT name, current_setting(name) AS value FROM pg_settings
    WHERE source IN ('configuration file', 'command line', 'environment variable', 'global')
  UNION ALL
  SELECT split_part(one, '=', 1), substring(one FROM position('=' IN one) + 1)
  FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase AND d.datname = current_database(), unnest(s.setconfig) one) a
WHERE name IN ('search_path', 'local_preload_libraries', 'session_preload_libraries', 'temp_tablespaces')
  AND value !~ '^[[:alnum:]_$", -]*$' ORDER BY 1;
END
"#;

/// Returns the shell commands that execute the statements on the server that libpq's variables name. Its refusals stay in a
/// file. `fail` is a function of the shell.
pub(super) fn load(side: &str) -> String {
    format!(
        "psql -X -q -f settings.sql >/dev/null 2>settings-{side}.log || fail 'psql could not set the copied settings' settings-{side}.log; \
         psql -X -q -d postgres -c 'SELECT pg_reload_conf(), pg_sleep(0.5)' >/dev/null"
    )
}
