//! Catalogue queries. Each row is one JSON text. Columns that only some versions have are read through `to_jsonb`, so
//! that a version without them is no error.
//!
//! Sources: PostgreSQL documentation, chapters 51 and 52 and `pg_upgrade`, of the versions 10 to 19; the checks of
//! `pg_upgrade/check.c`.

/// Condition that excludes the catalogue's relations and temporary ones.
const OWN_SCHEMAS: &str = "n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') \
     AND n.nspname !~ '^pg_(toast_)?temp_'";

/// Qualified name of the relation `c` in the schema `n`.
const NAME: &str = "quote_ident(n.nspname) || '.' || quote_ident(c.relname)";

/// Condition that excludes members of extensions; the row is `x` of the catalogue in brackets.
fn no_member(catalogue: &str, oid: &str) -> String {
    format!(
        "NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = '{catalogue}'::regclass AND e.objid = {oid} \
         AND e.deptype = 'e')"
    )
}

pub(super) const IDENTITY: &str = "SELECT row_to_json(x) FROM (SELECT current_setting('server_version') AS version, \
     current_setting('server_version_num')::int AS number, current_database() AS database) x";

pub(super) const SETTINGS: &str = "SELECT row_to_json(x) FROM (SELECT name, setting, unit, source, boot_val, category, \
     context, vartype, min_val, max_val, enumvals FROM pg_settings) x";

pub(super) const ROLE_SETTINGS: &str = "SELECT row_to_json(x) FROM (SELECT r.rolname AS role, d.datname AS database, \
     split_part(one, '=', 1) AS name, substring(one FROM position('=' IN one) + 1) AS value \
     FROM pg_db_role_setting s LEFT JOIN pg_roles r ON r.oid = s.setrole LEFT JOIN pg_database d ON d.oid = s.setdatabase, \
     unnest(s.setconfig) one ORDER BY 1, 2, 3) x";

/// Databases, and whether a rehearsal made them and, if it was killed, left them.
pub(super) const DATABASES: &str = "SELECT row_to_json(x) FROM (SELECT datname AS name, \
     datallowconn AS allows_connections, pg_encoding_to_char(encoding) AS encoding, \
     j ->> 'datcollate' AS collate, j ->> 'datctype' AS ctype, coalesce(j ->> 'datlocprovider', 'c') AS provider, \
     coalesce(j ->> 'datlocale', j ->> 'daticulocale') AS locale, j ->> 'datcollversion' AS recorded, \
     datname ~ '^rehearse_[0-9a-f]{16}$' \
       OR coalesce(shobj_description(d.oid, 'pg_database'), '') LIKE 'made by rehearse prove%' AS is_of_rehearsal \
     FROM pg_database d, to_jsonb(d) j ORDER BY 1) x";

pub(super) const PREPARED: &str = "SELECT row_to_json(x) FROM (SELECT gid, database, prepared::text AS prepared \
     FROM pg_prepared_xacts ORDER BY 2, 1) x";

/// Temporary slots end with their session.
pub(super) const SLOTS: &str = "SELECT row_to_json(x) FROM (SELECT slot_name AS name, slot_type AS kind, database, \
     coalesce(j ->> 'invalidation_reason', CASE WHEN j ->> 'wal_status' = 'lost' THEN 'its WAL is lost' \
       WHEN j ->> 'conflicting' = 'true' THEN 'it conflicted with the recovery' END) AS lost \
     FROM pg_replication_slots s, to_jsonb(s) j WHERE NOT temporary ORDER BY 1) x";

pub(super) const SUBSCRIPTIONS: &str = "SELECT row_to_json(x) FROM (SELECT s.subname AS name, d.datname AS database, \
     s.subenabled AS enabled, EXISTS (SELECT FROM pg_replication_origin o WHERE o.roname = 'pg_' || s.oid) AS has_origin \
     FROM pg_subscription s LEFT JOIN pg_database d ON d.oid = s.subdbid ORDER BY 2, 1) x";

pub(super) const MD5_ROLES: &str =
    "SELECT to_json(rolname) FROM pg_authid WHERE rolpassword LIKE 'md5%' ORDER BY rolname";

pub(super) const TYPES: &str = "SELECT to_json(typname) FROM pg_type t \
     JOIN pg_namespace n ON n.oid = t.typnamespace WHERE n.nspname = 'pg_catalog'";

pub(super) const SYSTEM_COLUMNS: &str = "SELECT to_json(c.relname) FROM pg_class c WHERE relnamespace = \
     'pg_catalog'::regnamespace UNION ALL SELECT to_json(c.relname || '.' || a.attname) FROM pg_class c \
     JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'pg_catalog'::regnamespace \
     AND NOT a.attisdropped";

pub(super) const OFFERED: &str = "SELECT row_to_json(x) FROM (SELECT name::text AS name, default_version AS version, \
     false AS has_library FROM pg_available_extensions) x";

/// Version of the default collation that the host offers. Before 15, the collation of the same locale has it. Systems spell
/// the encoding in a locale's name differently: `en_US.UTF-8` is listed as `en_US.utf8`.
pub(super) fn actual_collation(number: u32) -> &'static str {
    match number {
        150_000.. => {
            "SELECT to_json(pg_database_collation_actual_version(oid)) FROM pg_database \
             WHERE datname = current_database()"
        }
        _ => {
            "SELECT to_json(pg_collation_actual_version(o.oid)) FROM pg_collation o, pg_database d \
             WHERE d.datname = current_database() AND o.collprovider = 'c' \
             AND lower(replace(o.collcollate, '-', '')) = lower(replace(d.datcollate, '-', '')) \
             AND o.collnamespace = 'pg_catalog'::regnamespace ORDER BY o.oid LIMIT 1"
        }
    }
}

/// Whether a relation has rows: the size of its file, unless it is locked exclusively. `pg_upgrade` carries no number of
/// pages to the new server before 18. Pages without rows were found empty by VACUUM or ANALYZE.
const HAS_ROWS: &str = "CASE WHEN c.relkind NOT IN ('r', 'm') OR c.relpages > 0 AND c.reltuples = 0 THEN false WHEN c.oid IN (SELECT l.relation FROM pg_locks l \
     WHERE l.relation IS NOT NULL AND l.mode = 'AccessExclusiveLock') THEN c.relpages > 0 \
     ELSE coalesce(pg_relation_size(c.oid) > 0, false) END";

pub(super) fn relations(number: u32) -> String {
    // `relhasoids` is gone from version 12 on.
    let has_oids = match number {
        120_000.. => "false",
        _ => "c.relhasoids",
    };
    let is_own = no_member("pg_class", "c.oid");
    format!(
        "SELECT row_to_json(x) FROM (SELECT {NAME} AS name, c.relkind AS kind, c.relpersistence AS persistence, \
         {HAS_ROWS} AS has_rows, {has_oids} AS has_oids, {is_own} AS is_own, \
         CASE WHEN EXISTS (SELECT FROM pg_stats s WHERE s.schemaname = n.nspname AND s.tablename = c.relname) THEN true \
           WHEN has_table_privilege(c.oid, 'SELECT') AND NOT row_security_active(c.oid) THEN false END AS has_statistics \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'p', 'm', 'f', 'v', 'S') AND {OWN_SCHEMAS} \
         AND (c.relkind NOT IN ('r', 'm') OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 \
           AND NOT a.attisdropped)) ORDER BY 1) x"
    )
}

pub(super) fn indexes() -> String {
    format!(
        "SELECT row_to_json(x) FROM (SELECT {NAME} AS name, quote_ident(tn.nspname) || '.' || quote_ident(t.relname) AS table, \
         i.indisvalid AS valid, c.relkind = 'I' AS partitioned, i.indisexclusion AS exclusion, \
         ARRAY(SELECT DISTINCT o.opcname::text FROM unnest(i.indclass) k JOIN pg_opclass o ON o.oid = k) AS classes, \
         ARRAY(SELECT DISTINCT k::bigint FROM unnest(i.indcollation) k WHERE k <> 0) AS collations, \
         CASE c.relkind WHEN 'i' THEN coalesce((SELECT 'ALTER TABLE ' || quote_ident(tn.nspname) || '.' || quote_ident(t.relname) \
           || ' ADD CONSTRAINT ' || quote_ident(k.conname) || ' ' || pg_get_constraintdef(k.oid) FROM pg_constraint k \
           WHERE k.conindid = c.oid AND k.conrelid = t.oid AND k.contype IN ('p', 'u', 'x')), pg_get_indexdef(c.oid)) END \
           AS definition \
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         JOIN pg_class t ON t.oid = i.indrelid JOIN pg_namespace tn ON tn.oid = t.relnamespace \
         WHERE {OWN_SCHEMAS} ORDER BY 1) x"
    )
}

/// Collations of user-defined indexes, except the default and those that compare bytes or code points, for which
/// `pg_collation_actual_version` returns no version.
pub(super) fn collations() -> String {
    format!(
        "SELECT row_to_json(x) FROM (SELECT o.oid::bigint AS oid, quote_ident(cn.nspname) || '.' || quote_ident(o.collname) AS name, \
         o.collversion AS recorded, pg_collation_actual_version(o.oid) AS actual \
         FROM pg_collation o JOIN pg_namespace cn ON cn.oid = o.collnamespace \
         WHERE o.collprovider IN ('c', 'i') AND o.oid <> 100 AND NOT (o.collprovider = 'c' AND (o.collcollate IN ('C', 'POSIX') \
           OR o.collcollate ILIKE 'c.%')) \
         AND (EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
             JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {OWN_SCHEMAS} AND o.oid = ANY (i.indcollation)) \
           OR EXISTS (SELECT FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid \
             JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {OWN_SCHEMAS} AND a.attcollation = o.oid)) ORDER BY 2) x"
    )
}

pub(super) fn constraints() -> String {
    format!(
        "SELECT row_to_json(x) FROM (SELECT quote_ident(k.conname) AS name, {NAME} AS table \
         FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE NOT k.convalidated AND coalesce(to_jsonb(k) ->> 'conenforced', 'true') = 'true' AND {OWN_SCHEMAS} \
         ORDER BY 2, 1) x"
    )
}

/// Extended statistics. Only the owner of a table sees them since 14.12, 15.7 and 16.3; before, a role that may read the table
/// (CVE-2024-4317).
pub(super) fn statistics_objects(number: u32) -> String {
    let visible = |has_values: &str| {
        format!(
            "CASE WHEN EXISTS (SELECT FROM pg_stats_ext v WHERE v.statistics_schemaname = sn.nspname \
               AND v.statistics_name = s.stxname AND ({has_values})) THEN true \
             WHEN pg_has_role(c.relowner, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AND NOT row_security_active(c.oid) \
             THEN false END"
        )
    };
    let has_data = match number {
        // From version 15 on, ANALYZE creates the row.
        150_000.. => visible("true"),
        // CREATE STATISTICS creates a row without values. Dependencies of independent columns never have a value.
        140_000.. => visible(
            "v.n_distinct IS NOT NULL OR v.dependencies IS NOT NULL OR v.most_common_vals IS NOT NULL \
             OR EXISTS (SELECT FROM pg_stats_ext_exprs e WHERE e.statistics_schemaname = sn.nspname \
               AND e.statistics_name = s.stxname AND e.null_frac IS NOT NULL)",
        ),
        120_000.. => visible(
            "v.n_distinct IS NOT NULL OR v.dependencies IS NOT NULL OR v.most_common_vals IS NOT NULL",
        ),
        _ => "s.stxndistinct IS NOT NULL OR s.stxdependencies IS NOT NULL".to_owned(),
    };
    format!(
        "SELECT row_to_json(x) FROM (SELECT quote_ident(sn.nspname) || '.' || quote_ident(s.stxname) AS name, \
         {NAME} AS table, {has_data} AS has_data, {HAS_ROWS} AS table_has_rows, pg_get_statisticsobjdef(s.oid) AS definition \
         FROM pg_statistic_ext s JOIN pg_namespace sn ON sn.oid = s.stxnamespace \
         JOIN pg_class c ON c.oid = s.stxrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE coalesce(to_jsonb(s) ->> 'stxstattarget', '-1') <> '0' ORDER BY 1) x"
    )
}

pub(super) const EXTENSIONS: &str = "SELECT row_to_json(x) FROM (SELECT extname AS name, extversion AS version, \
     EXISTS (SELECT FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid \
       WHERE d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e' AND p.probin IS NOT NULL) \
       AS has_library FROM pg_extension e ORDER BY 1) x";

pub(super) fn libraries() -> String {
    format!(
        "SELECT DISTINCT to_json(p.probin)::text FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang \
         WHERE l.lanname = 'c' AND p.oid >= 16384 AND p.probin IS NOT NULL AND {} ORDER BY 1",
        no_member("pg_proc", "p.oid")
    )
}

/// Columns of relations in `pg_catalog` that views of users refer to. Only objects created after the catalogues
/// themselves, such as the statistics views, have such dependencies.
pub(super) fn view_columns() -> String {
    format!(
        "SELECT DISTINCT to_jsonb(x)::text FROM (SELECT {NAME} AS view, s.relname AS relation, a.attname AS column, \
         CASE c.relkind WHEN 'v' THEN 'DROP VIEW ' || {NAME} WHEN 'm' THEN 'DROP MATERIALIZED VIEW ' || {NAME} \
           ELSE 'DROP RULE ' || quote_ident(r.rulename) || ' ON ' || {NAME} END AS statement \
         FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid \
         JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace \
         JOIN pg_class s ON d.refclassid = 'pg_class'::regclass AND s.oid = d.refobjid \
         LEFT JOIN pg_attribute a ON a.attrelid = s.oid AND a.attnum = d.refobjsubid AND d.refobjsubid <> 0 \
         WHERE s.relnamespace = 'pg_catalog'::regnamespace AND {OWN_SCHEMAS} AND {}) x",
        no_member("pg_class", "c.oid")
    )
}

/// Columns whose type contains one of the named types or the row type of a system relation: directly, or through domains,
/// arrays, composite types and ranges, as `pg_upgrade` searches them.
pub(super) fn typed_columns(types: &[&str]) -> String {
    let names: Vec<String> = types.iter().map(|name| format!("'{name}'")).collect();
    format!(
        "WITH RECURSIVE uses(base, oid) AS (SELECT t.typname, t.oid FROM pg_type t \
           WHERE t.typnamespace IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) \
             AND (t.typname IN ({}) OR t.typtype = 'c') \
         UNION SELECT u.base, k.oid FROM uses u, LATERAL (\
           SELECT t.oid FROM pg_type t WHERE t.typbasetype = u.oid AND t.typtype = 'd' \
           UNION ALL SELECT t.oid FROM pg_type t WHERE t.typelem = u.oid AND t.typtype = 'b' \
           UNION ALL SELECT t.oid FROM pg_type t JOIN pg_class c ON c.reltype = t.oid \
             JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped \
             WHERE t.typtype = 'c' AND a.atttypid = u.oid AND c.relnamespace <> 'pg_catalog'::regnamespace \
             AND c.relnamespace <> 'information_schema'::regnamespace \
           UNION ALL SELECT r.rngtypid FROM pg_range r WHERE r.rngsubtype = u.oid) k) \
         SELECT row_to_json(x) FROM (SELECT DISTINCT u.base AS type_name, {NAME} AS table, quote_ident(a.attname) AS column, \
           c.relkind AS kind FROM uses u JOIN pg_attribute a ON a.atttypid = u.oid AND a.attnum > 0 AND NOT a.attisdropped \
         JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'p', 'f', 'm', 'i', 'v', 'c') AND {OWN_SCHEMAS} ORDER BY 2, 3) x",
        names.join(", ")
    )
}

/// Objects that version 14 refuses: postfix operators, conversions, and aggregates and operators over functions of
/// `anyarray` that became functions of `anycompatiblearray`.
pub(super) fn refused_by_14() -> String {
    const CHANGED: &str = "ARRAY['array_append(anyarray,anyelement)', 'array_cat(anyarray,anyarray)', \
         'array_prepend(anyelement,anyarray)', 'array_remove(anyarray,anyelement)', \
         'array_replace(anyarray,anyelement,anyelement)', 'array_position(anyarray,anyelement)', \
         'array_position(anyarray,anyelement,integer)', 'array_positions(anyarray,anyelement)', \
         'width_bucket(anyelement,anyarray)']::regprocedure[]";
    format!(
        "SELECT row_to_json(x) FROM (\
         SELECT o.oid::regoperator::text AS name, 'postfix operator' AS kind, 'DROP OPERATOR ' || o.oid::regoperator AS statement \
           FROM pg_operator o WHERE o.oprright = 0 AND o.oid >= 16384 \
         UNION ALL SELECT quote_ident(n.nspname) || '.' || quote_ident(v.conname), 'conversion', \
           'DROP CONVERSION ' || quote_ident(n.nspname) || '.' || quote_ident(v.conname) \
           FROM pg_conversion v JOIN pg_namespace n ON n.oid = v.connamespace WHERE v.oid >= 16384 \
         UNION ALL SELECT p.oid::regprocedure::text, 'aggregate', 'DROP AGGREGATE ' || p.oid::regprocedure \
           FROM pg_proc p JOIN pg_aggregate g ON g.aggfnoid = p.oid WHERE p.oid >= 16384 \
           AND (g.aggtransfn::oid = ANY ({CHANGED}::oid[]) OR g.aggfinalfn::oid = ANY ({CHANGED}::oid[])) \
         UNION ALL SELECT o.oid::regoperator::text, 'operator', 'DROP OPERATOR ' || o.oid::regoperator \
           FROM pg_operator o WHERE o.oid >= 16384 AND o.oprcode::oid = ANY ({CHANGED}::oid[])) x"
    )
}

/// Columns that are nullable in a child although the parent's column is not, which version 18 refuses.
pub(super) fn refused_by_18() -> String {
    format!(
        "SELECT row_to_json(x) FROM (SELECT {NAME} || '.' || quote_ident(a.attname) AS name, \
         'column without the parent''s NOT NULL' AS kind, \
         'ALTER TABLE ' || {NAME} || ' ALTER COLUMN ' || quote_ident(a.attname) || ' SET NOT NULL' AS statement \
         FROM pg_inherits h JOIN pg_attribute a ON a.attrelid = h.inhrelid JOIN pg_attribute p ON p.attrelid = h.inhparent \
         AND p.attname = a.attname JOIN pg_class c ON c.oid = h.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE p.attnum > 0 AND p.attnotnull AND NOT a.attnotnull AND NOT a.attisdropped ORDER BY 1) x"
    )
}

/// Indexes with a class of `btree_gist` that `pg_upgrade` to 19 refuses: its `inet` and `cidr` classes could leave out rows.
/// Source: `check_for_gist_inet_ops` in `pg_upgrade/check.c`.
pub(super) fn refused_by_19() -> String {
    format!(
        "SELECT row_to_json(x) FROM (SELECT DISTINCT {NAME} AS name, 'index of btree_gist over inet or cidr' AS kind, \
         coalesce('ALTER TABLE ' || t.conrelid::regclass || ' DROP CONSTRAINT ' || quote_ident(t.conname) \
           || ' /* was ' || replace(pg_get_constraintdef(t.oid), '*/', '* /') || ' */', \
         'DROP INDEX ' || {NAME} || ' /* was ' || replace(pg_get_indexdef(c.oid), '*/', '* /') || ' */') AS statement \
         FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
         LEFT JOIN pg_constraint t ON t.conindid = c.oid AND t.contype = 'x' \
         JOIN pg_namespace n ON n.oid = c.relnamespace, unnest(i.indclass) k \
         JOIN pg_opclass o ON o.oid = k JOIN pg_am m ON m.oid = o.opcmethod \
         WHERE m.amname = 'gist' AND o.opcname IN ('gist_inet_ops', 'gist_cidr_ops') ORDER BY 1) x"
    )
}

/// Names of databases, roles and tablespaces, and encodings, that version 19 refuses by any method. Names are written with
/// Unicode escapes, so that a statement is one line. Source: the release notes.
pub(super) const REFUSED_NAMES_OF_19: &str = "SELECT row_to_json(x) FROM (\
     SELECT escaped AS name, lower(kind) || ' whose name has a line break' AS kind, \
       'ALTER ' || kind || ' ' || escaped || ' RENAME TO ' || quote_ident(translate(name, chr(10) || chr(13), '__')) AS statement \
       FROM (SELECT datname::text, 'DATABASE' FROM pg_database UNION ALL SELECT rolname::text, 'ROLE' FROM pg_roles \
         UNION ALL SELECT spcname::text, 'TABLESPACE' FROM pg_tablespace) o(name, kind), \
         LATERAL (SELECT 'U&\"' || replace(replace(replace(replace(name, chr(92), chr(92) || chr(92)), '\"', '\"\"'), \
           chr(10), chr(92) || '000a'), chr(13), chr(92) || '000d') || '\"') e(escaped) \
       WHERE name <> translate(name, chr(10) || chr(13), '') \
     UNION ALL SELECT quote_ident(datname), 'database with the encoding MULE_INTERNAL; dump it, and restore it with UTF8', NULL \
       FROM pg_database WHERE pg_encoding_to_char(encoding) = 'MULE_INTERNAL') x";

/// Lines of `pg_hba.conf` with the method that version 19 removed. Only a superuser may read them.
pub(super) const RADIUS_LINES: &str = "SELECT row_to_json(x) FROM (SELECT 'pg_hba.conf, line ' || line_number AS name, \
     'authentication by RADIUS' AS kind, NULL AS statement FROM pg_hba_file_rules \
     WHERE auth_method = 'radius' ORDER BY line_number) x";

/// Published tables whose UPDATE and DELETE cannot be replicated.
pub(super) fn no_identity() -> String {
    format!(
        "SELECT row_to_json(x) FROM (SELECT {NAME} AS name, string_agg(DISTINCT quote_ident(b.pubname), ', ') AS publications \
         FROM pg_publication b JOIN pg_publication_tables t ON t.pubname = b.pubname \
         JOIN pg_namespace n ON n.nspname = t.schemaname JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename \
         WHERE (b.pubupdate OR b.pubdelete) AND (c.relreplident = 'n' \
           OR c.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) \
           OR c.relreplident = 'i' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident)) \
         GROUP BY 1 ORDER BY 1) x"
    )
}

/// Names of the subscriptions of the database that have tables.
pub(super) const SUBSCRIPTION_TABLES: &str = "SELECT DISTINCT to_json(s.subname)::text FROM pg_subscription_rel r \
     JOIN pg_subscription s ON s.oid = r.srsubid";

/// Tables of subscriptions that are neither initialised nor ready.
pub(super) const UNSYNCHRONISED: &str = "SELECT to_json(srrelid::regclass::text) FROM pg_subscription_rel \
     WHERE srsubstate NOT IN ('i', 'r') ORDER BY srrelid";

/// Whether the server accepts a setting of this name, a current one or an earlier one that it still knows. It refuses the
/// query if the role may not read the setting.
pub(super) fn accepts_setting(name: &str) -> String {
    format!("SELECT to_json(current_setting('{name}', true) IS NOT NULL)")
}

/// Whether the role sees all settings.
pub(super) const SEES_SETTINGS: &str =
    "SELECT to_json(pg_has_role('pg_read_all_settings', 'USAGE'))";

pub(super) const LARGE_OBJECTS: &str = "SELECT to_json(count(*)) FROM pg_largeobject_metadata";
