//! Queries for the objects of a schema, with statements that create them.
//!
//! Each query returns the name and the statement; NULL in place of a statement marks an object that cannot be exported.
//! Names are complete, since `search_path` is empty. The server writes definitions itself (`pg_get_*def`), so that no
//! program of its version is needed.

/// Objects of one kind.
pub(crate) struct ObjectQuery {
    /// Kind, as the user reads it.
    pub(crate) kind: &'static str,
    /// Query for name and statement.
    pub(crate) sql: String,
}

/// Kind of the statement that gives a view to its owner. A view reads tables with the policies of its owner.
pub(crate) const VIEW_OWNER: &str = "owner of a view";

/// Schemas of users.
const USER_SCHEMAS: &str = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'";

/// Returns the condition that an object is of a user's schema and of no extension.
fn is_users(catalogue: &str, alias: &str) -> String {
    format!(
        "{USER_SCHEMAS} AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = '{catalogue}'::regclass \
         AND e.objid = {alias}.oid AND e.deptype = 'e')"
    )
}

/// Returns the queries for a server of this version, in an order in which most objects can be created.
pub(crate) fn object_queries(version: u32) -> Vec<ObjectQuery> {
    let mut queries = type_queries();
    queries.extend(function_queries(version));
    queries.extend(table_queries(version));
    queries.extend(constraint_queries());
    queries.extend(dependent_queries());
    queries
}

fn query(kind: &'static str, sql: String) -> ObjectQuery {
    ObjectQuery { kind, sql }
}

/// Schemas, extensions, collations and types.
fn type_queries() -> Vec<ObjectQuery> {
    let (types, collations) = (is_users("pg_type", "t"), is_users("pg_collation", "c"));
    vec![
        query(
            "schema",
            format!(
                "SELECT quote_ident(n.nspname), format('CREATE SCHEMA IF NOT EXISTS %I', n.nspname) \
                 FROM pg_namespace n WHERE {USER_SCHEMAS} AND n.nspname <> 'public' ORDER BY 1"
            ),
        ),
        query(
            "extension",
            "SELECT quote_ident(e.extname), format('CREATE EXTENSION IF NOT EXISTS %I SCHEMA %I CASCADE', e.extname, n.nspname) \
             FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname <> 'plpgsql' ORDER BY 1"
                .to_owned(),
        ),
        query(
            "collation",
            format!(
                "SELECT format('%I.%I', n.nspname, c.collname), \
                 CASE c.collprovider WHEN 'c' THEN format('CREATE COLLATION %I.%I (LC_COLLATE = %L, LC_CTYPE = %L)', \
                  n.nspname, c.collname, c.collcollate, c.collctype) \
                 WHEN 'i' THEN format('CREATE COLLATION %I.%I (PROVIDER = icu, LOCALE = %L%s)', n.nspname, c.collname, \
                  coalesce(to_jsonb(c) ->> 'colllocale', to_jsonb(c) ->> 'colliculocale', c.collcollate), \
                  CASE WHEN to_jsonb(c) ->> 'collisdeterministic' = 'false' THEN ', DETERMINISTIC = false' ELSE '' END) \
                 WHEN 'b' THEN format('CREATE COLLATION %I.%I (PROVIDER = builtin, LOCALE = %L)', n.nspname, c.collname, \
                  to_jsonb(c) ->> 'colllocale') END \
                 FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace WHERE {collations} ORDER BY 1"
            ),
        ),
        query(
            "type",
            format!(
                "SELECT format('%I.%I', n.nspname, t.typname), CASE t.typtype \
                 WHEN 'e' THEN format('CREATE TYPE %I.%I AS ENUM (%s)', n.nspname, t.typname, \
                  (SELECT string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid)) \
                 WHEN 'c' THEN format('CREATE TYPE %I.%I AS (%s)', n.nspname, t.typname, \
                  (SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) \
                   FROM pg_attribute WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped)) \
                 WHEN 'r' THEN (SELECT format('CREATE TYPE %I.%I AS RANGE (SUBTYPE = %s%s)', n.nspname, t.typname, \
                   format_type(r.rngsubtype, NULL), CASE WHEN r.rngcollation <> 0 AND r.rngcollation <> s.typcollation \
                    THEN ', COLLATION = ' || r.rngcollation::text ELSE '' END) \
                   FROM pg_range r JOIN pg_type s ON s.oid = r.rngsubtype WHERE r.rngtypid = t.oid) \
                 WHEN 'd' THEN format('CREATE DOMAIN %I.%I AS %s', n.nspname, t.typname, format_type(t.typbasetype, t.typtypmod)) \
                  || CASE WHEN t.typdefault IS NOT NULL THEN ' DEFAULT ' || pg_get_expr(t.typdefaultbin, 0) ELSE '' END \
                  || coalesce((SELECT string_agg(format(' CONSTRAINT %I %s', conname, pg_get_constraintdef(oid)), '' ORDER BY conname) \
                   FROM pg_constraint WHERE contypid = t.oid), '') END \
                 FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace \
                 LEFT JOIN pg_class c ON c.oid = t.typrelid \
                 WHERE {types} AND (t.typtype IN ('e', 'd', 'r') OR t.typtype = 'c' AND c.relkind = 'c' \
                  OR t.typtype = 'b' AND t.typelem = 0 AND t.typisdefined) \
                 ORDER BY position(t.typtype in 'ebrcd'), t.oid"
            ),
        ),
    ]
}

/// Functions, sequences, and objects without a statement that creates them.
fn function_queries(version: u32) -> Vec<ObjectQuery> {
    let is_function = match version >= 110_000 {
        true => "p.prokind <> 'a'",
        false => "NOT p.proisagg",
    };
    let is_aggregate = match version >= 110_000 {
        true => "p.prokind = 'a'",
        false => "p.proisagg",
    };
    let procs = is_users("pg_proc", "p");
    let classes = is_users("pg_class", "c");
    vec![
        query(
            "function",
            format!(
                "SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid) \
                 FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE {is_function} AND {procs} \
                 AND p.prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype) ORDER BY p.oid"
            ),
        ),
        query(
            "aggregate",
            format!(
                "SELECT p.oid::regprocedure::text, NULL FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
                 WHERE {is_aggregate} AND {procs} ORDER BY 1"
            ),
        ),
        query(
            "operator",
            format!(
                "SELECT o.oid::regoperator::text, NULL FROM pg_operator o JOIN pg_namespace n ON n.oid = o.oprnamespace \
                 WHERE {} ORDER BY 1",
                is_users("pg_operator", "o")
            ),
        ),
        query(
            "operator class",
            format!(
                "SELECT format('%I.%I', n.nspname, o.opcname), NULL FROM pg_opclass o \
                 JOIN pg_namespace n ON n.oid = o.opcnamespace WHERE {} ORDER BY 1",
                is_users("pg_opclass", "o")
            ),
        ),
        query(
            "text search configuration",
            format!(
                "SELECT format('%I.%I', n.nspname, o.cfgname), NULL FROM pg_ts_config o \
                 JOIN pg_namespace n ON n.oid = o.cfgnamespace WHERE {} ORDER BY 1",
                is_users("pg_ts_config", "o")
            ),
        ),
        query(
            "sequence",
            format!(
                "SELECT format('%I.%I', n.nspname, c.relname), format('CREATE SEQUENCE %I.%I', n.nspname, c.relname) \
                 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'S' AND {classes} \
                 AND NOT EXISTS (SELECT FROM pg_depend i WHERE i.classid = 'pg_class'::regclass AND i.objid = c.oid \
                  AND i.deptype = 'i') ORDER BY 1"
            ),
        ),
    ]
}

/// Tables with columns at their numbers. A dropped column is created and dropped, since statistics refer to numbers.
fn table_queries(version: u32) -> Vec<ObjectQuery> {
    let generated = match version >= 120_000 {
        true => "a.attgenerated::text",
        false => "''",
    };
    let access_method = match version >= 120_000 {
        true => "(SELECT am.amname FROM pg_am am WHERE am.oid = c.relam)",
        false => "'heap'",
    };
    let classes = is_users("pg_class", "c");
    let from =
        format!("FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {classes}");
    vec![
        query(
            "table",
            format!(
                "SELECT format('%I.%I', n.nspname, c.relname), format('CREATE %sTABLE %I.%I (%s)%s%s', \
                  CASE WHEN c.relpersistence = 'u' AND c.relkind = 'r' THEN 'UNLOGGED ' ELSE '' END, n.nspname, c.relname, \
                  (SELECT string_agg(CASE WHEN a.attisdropped THEN format('%I int', a.attname) ELSE \
                    format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)) \
                    || CASE WHEN a.attcollation <> 0 AND a.attcollation <> t.typcollation \
                       THEN (SELECT format(' COLLATE %I.%I', cn.nspname, co.collname) FROM pg_collation co \
                         JOIN pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = a.attcollation) ELSE '' END \
                    || CASE WHEN {generated} = 's' THEN format(' GENERATED ALWAYS AS (%s) STORED', pg_get_expr(d.adbin, d.adrelid)) \
                       WHEN {generated} = 'v' THEN format(' GENERATED ALWAYS AS (%s) VIRTUAL', pg_get_expr(d.adbin, d.adrelid)) \
                       WHEN a.attidentity <> '' AND NOT c.relispartition THEN format(' GENERATED %s AS IDENTITY', \
                         CASE a.attidentity WHEN 'a' THEN 'ALWAYS' ELSE 'BY DEFAULT' END) \
                       WHEN d.adbin IS NOT NULL THEN ' DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) ELSE '' END \
                    || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END END, ', ' ORDER BY a.attnum) \
                   FROM pg_attribute a LEFT JOIN pg_type t ON t.oid = a.atttypid \
                   LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
                   WHERE a.attrelid = c.oid AND a.attnum > 0), \
                  CASE WHEN c.relkind = 'p' THEN ' PARTITION BY ' || pg_get_partkeydef(c.oid) ELSE '' END, \
                  CASE WHEN c.reloptions IS NOT NULL THEN ' WITH (' || array_to_string(c.reloptions, ', ') || ')' ELSE '' END) \
                 {from} AND c.relkind IN ('r', 'p') AND ({access_method} = 'heap' OR c.relkind = 'p') ORDER BY c.oid"
            ),
        ),
        query(
            "table of another access method than heap",
            format!(
                "SELECT format('%I.%I', n.nspname, c.relname), NULL {from} AND c.relkind = 'r' \
                 AND {access_method} <> 'heap' ORDER BY 1"
            ),
        ),
        query(
            "foreign table",
            format!(
                "SELECT format('%I.%I', n.nspname, c.relname), NULL {from} AND c.relkind = 'f' ORDER BY 1"
            ),
        ),
        query(
            "dropped column",
            format!(
                "SELECT format('%I.%I.%I', n.nspname, c.relname, a.attname), \
                 format('ALTER TABLE ONLY %I.%I DROP COLUMN %I', n.nspname, c.relname, a.attname) \
                 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                 JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attisdropped \
                 WHERE {classes} AND c.relkind IN ('r', 'p') ORDER BY 1"
            ),
        ),
    ]
}

/// Constraints, indexes and partitions. Indexes come before the partitions, so that these bring theirs when they are attached.
/// Attaching a foreign table fails, which names the table that lacks it. Foreign keys come last.
///
/// Invalid indexes are left out with their constraints: the private server would make valid ones, and that of a partitioned
/// table would be created on all partitions that lack it.
fn constraint_queries() -> Vec<ObjectQuery> {
    let classes = is_users("pg_class", "c");
    let constraints = |types: &str| {
        format!(
            "SELECT format('%I on %I.%I', o.conname, n.nspname, c.relname), \
             CASE WHEN coalesce(i.indisvalid, true) \
              THEN format('ALTER TABLE ONLY %I.%I ADD CONSTRAINT %I %s', n.nspname, c.relname, o.conname, pg_get_constraintdef(o.oid)) END \
             FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
             LEFT JOIN pg_index i ON i.indexrelid = o.conindid \
             WHERE o.contype IN ({types}) AND c.relkind IN ('r', 'p') AND {classes} ORDER BY o.oid"
        )
    };
    vec![
        query("check constraint", constraints("'c'")),
        query("constraint", constraints("'p', 'u', 'x'")),
        query(
            "index",
            format!(
                "SELECT format('%I.%I', n.nspname, c.relname), CASE WHEN i.indisvalid THEN pg_get_indexdef(i.indexrelid) END \
                 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid \
                 JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE t.relkind IN ('r', 'p') AND {classes} AND NOT EXISTS (SELECT FROM pg_constraint o \
                  WHERE o.conindid = i.indexrelid AND o.contype IN ('p', 'u', 'x')) ORDER BY i.indexrelid"
            ),
        ),
        query(
            "partition",
            format!(
                "SELECT format('%I.%I', n.nspname, c.relname), CASE WHEN c.relispartition \
                 THEN format('ALTER TABLE ONLY %I.%I ATTACH PARTITION %I.%I %s', pn.nspname, p.relname, n.nspname, c.relname, \
                  pg_get_expr(c.relpartbound, c.oid)) \
                 ELSE format('ALTER TABLE ONLY %I.%I INHERIT %I.%I', n.nspname, c.relname, pn.nspname, p.relname) END \
                 FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
                 JOIN pg_class p ON p.oid = h.inhparent JOIN pg_namespace pn ON pn.oid = p.relnamespace \
                 WHERE c.relkind IN ('r', 'p', 'f') AND {classes} ORDER BY c.oid, h.inhseqno"
            ),
        ),
        query(
            "foreign key",
            format!(
                "SELECT format('%I on %I.%I', o.conname, n.nspname, c.relname), \
                 format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', n.nspname, c.relname, o.conname, pg_get_constraintdef(o.oid)) \
                 FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE o.contype = 'f' AND coalesce(to_jsonb(o) ->> 'conparentid', '0') = '0' AND c.relkind IN ('r', 'p') \
                 AND {classes} ORDER BY o.oid"
            ),
        ),
    ]
}

/// Objects over tables.
fn dependent_queries() -> Vec<ObjectQuery> {
    let classes = is_users("pg_class", "c");
    let from =
        format!("FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {classes}");
    vec![
        query(
            "extended statistics",
            format!(
                "SELECT format('%I.%I', n.nspname, s.stxname), pg_get_statisticsobjdef(s.oid) \
                 FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace WHERE {} ORDER BY s.oid",
                is_users("pg_statistic_ext", "s")
            ),
        ),
        query(
            "view",
            format!(
                "SELECT format('%I.%I', n.nspname, c.relname), format('CREATE %s %I.%I%s AS %s%s', \
                 CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'MATERIALIZED VIEW' END, n.nspname, c.relname, \
                 CASE WHEN c.reloptions IS NOT NULL THEN ' WITH (' || array_to_string(c.reloptions, ', ') || ')' ELSE '' END, \
                 rtrim(pg_get_viewdef(c.oid), ';'), CASE c.relkind WHEN 'm' THEN ' WITH NO DATA' ELSE '' END) \
                 {from} AND c.relkind IN ('v', 'm') ORDER BY c.oid"
            ),
        ),
        query(
            "index of a materialized view",
            format!(
                "SELECT format('%I.%I', n.nspname, c.relname), CASE WHEN i.indisvalid THEN pg_get_indexdef(i.indexrelid) END \
                 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid \
                 JOIN pg_namespace n ON n.oid = c.relnamespace WHERE t.relkind = 'm' AND {classes} ORDER BY i.indexrelid"
            ),
        ),
        query(
            "function of a trigger",
            format!(
                "SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid) \
                 FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE p.prorettype = 'trigger'::regtype \
                 AND {} ORDER BY p.oid",
                is_users("pg_proc", "p")
            ),
        ),
        query(
            "trigger",
            format!(
                "SELECT format('%I on %I.%I', t.tgname, n.nspname, c.relname), pg_get_triggerdef(t.oid) \
                 FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE NOT t.tgisinternal AND coalesce(to_jsonb(t) ->> 'tgparentid', '0') = '0' AND {classes} ORDER BY t.oid"
            ),
        ),
        query(
            "rule",
            format!(
                "SELECT format('%I on %I.%I', r.rulename, n.nspname, c.relname), pg_get_ruledef(r.oid) \
                 FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE r.rulename <> '_RETURN' AND {classes} ORDER BY r.oid"
            ),
        ),
        query(
            VIEW_OWNER,
            format!(
                "SELECT format('%I.%I', n.nspname, c.relname), \
                 format('ALTER VIEW %I.%I OWNER TO %I', n.nspname, c.relname, pg_get_userbyid(c.relowner)) \
                 {from} AND c.relkind = 'v' AND EXISTS (SELECT FROM pg_class p WHERE p.relrowsecurity) ORDER BY 1"
            ),
        ),
        query(
            "owner of a table with policies",
            format!(
                "SELECT format('%I.%I', n.nspname, c.relname), \
                 format('ALTER TABLE %I.%I OWNER TO %I', n.nspname, c.relname, pg_get_userbyid(c.relowner)) \
                 {from} AND c.relrowsecurity ORDER BY 1"
            ),
        ),
        query(
            "row security",
            format!(
                "SELECT format('%I.%I', n.nspname, c.relname), \
                 format('ALTER TABLE %I.%I ENABLE ROW LEVEL SECURITY%s', n.nspname, c.relname, \
                  CASE WHEN c.relforcerowsecurity THEN ', FORCE ROW LEVEL SECURITY' ELSE '' END) \
                 {from} AND c.relrowsecurity ORDER BY 1"
            ),
        ),
        query(
            "policy",
            format!(
                "SELECT format('%I on %I.%I', p.polname, n.nspname, c.relname), \
                 format('CREATE POLICY %I ON %I.%I AS %s FOR %s TO %s%s%s', p.polname, n.nspname, c.relname, \
                  CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END, \
                  CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' ELSE 'ALL' END, \
                  CASE WHEN p.polroles = '{{0}}' THEN 'PUBLIC' ELSE (SELECT string_agg(quote_ident(pg_get_userbyid(one)), ', ') \
                   FROM unnest(p.polroles) one) END, \
                  coalesce(' USING (' || pg_get_expr(p.polqual, p.polrelid) || ')', ''), \
                  coalesce(' WITH CHECK (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')', '')) \
                 FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE {classes} ORDER BY p.oid"
            ),
        ),
    ]
}
