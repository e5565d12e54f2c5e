//! Queries for sizes and statistics. Each row is one JSON text that the document's type reads.

use crate::document::ColumnStatistics;
use crate::quoting::quote_literal;

/// First version with the view of extended statistics, and with combinations of values.
pub(crate) const EXTENDED_VIEW_VERSION: u32 = 120_000;
/// Relations of users.
const USER_RELATIONS: &str = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'";

/// Sizes of relations with files, and of partitioned ones, with the keys of B-trees.
pub(crate) fn sizes() -> String {
    format!(
        "SELECT row_to_json(x) FROM (SELECT n.nspname AS schema, c.relname AS name, c.relkind::text AS kind, \
         CASE WHEN c.relkind IN ('r', 'm', 'i') \
          THEN coalesce(pg_relation_size(c.oid, 'main'), 0) / current_setting('block_size')::int ELSE 0 END AS pages, \
         c.relpages, c.reltuples::float8 AS reltuples, c.relallvisible, am.amname AS method, \
         NULL::text AS metapage, \
         CASE WHEN am.amname = 'btree' THEN (SELECT r.relname FROM pg_class r WHERE r.oid = i.indrelid) END AS table, \
         CASE WHEN am.amname = 'btree' THEN (SELECT json_agg(json_build_object('length', t.typlen, 'column', k.attname)) \
          FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
          LEFT JOIN pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = i.indkey[a.attnum - 1] \
          WHERE a.attrelid = c.oid AND a.attnum > 0) END AS keys \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_index i ON i.indexrelid = c.oid \
         LEFT JOIN pg_am am ON am.oid = c.relam AND c.relkind IN ('i', 'I') \
         WHERE c.relkind IN ('r', 'm', 'i', 'p', 'I') AND c.relpersistence <> 't' AND {USER_RELATIONS} ORDER BY c.oid) x"
    )
}

/// Beginnings of the first blocks of indexes: schema, name, hexadecimal text. For superusers, and from version 11 on for roles
/// with EXECUTE on `pg_read_binary_file`. Members of `pg_read_server_files` do not have that right.
pub(crate) fn metapages() -> String {
    format!(
        "SELECT n.nspname, c.relname, encode(pg_read_binary_file(pg_relation_filepath(c.oid), 0, 128, true), 'hex') \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_am am ON am.oid = c.relam \
         WHERE c.relkind = 'i' AND c.relpersistence <> 't' AND am.amname IN ('btree', 'gin', 'brin') AND {USER_RELATIONS}"
    )
}

/// Tablespaces with costs of their own: name, options, number of relations of users.
pub(crate) fn tablespaces() -> String {
    format!(
        "SELECT quote_ident(s.spcname), array_to_string(s.spcoptions, ', '), count(*) FROM pg_tablespace s \
         JOIN pg_database d ON d.datname = current_database() \
         JOIN pg_class c ON c.reltablespace = s.oid OR c.reltablespace = 0 AND d.dattablespace = s.oid \
         JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE s.spcoptions IS NOT NULL AND c.relkind IN ('r', 'm', 'i') AND {USER_RELATIONS} \
         GROUP BY s.spcname, s.spcoptions ORDER BY s.spcname"
    )
}

/// Rows of `pg_statistic`, for superusers. With the modifier -1, `format_type` returns `bpchar` and `"bit"`: values cast to
/// `character` or `bit` would be cut to one character.
pub(crate) fn columns() -> String {
    let slots: Vec<String> = (1..=5)
        .map(|slot| {
            format!(
                "json_build_object('kind', s.stakind{slot}, \
                 'operator', CASE WHEN s.staop{slot} <> 0 THEN s.staop{slot}::regoperator::text END, \
                 'numbers', s.stanumbers{slot}::text, 'values', s.stavalues{slot}::text, \
                 'value_type', CASE WHEN s.stavalues{slot} IS NOT NULL THEN format_type(('x' || \
                  encode(substring(array_send(s.stavalues{slot}) FROM 9 FOR 4), 'hex'))::bit(32)::int::oid, -1) END)"
            )
        })
        .collect();
    format!(
        "SELECT row_to_json(x) FROM (SELECT n.nspname AS schema, c.relname AS relation, \
         CASE WHEN c.relkind NOT IN ('i', 'I') THEN a.attname END AS column, a.attnum AS number, s.stainherit AS inherited, \
         s.stanullfrac AS null_fraction, s.stawidth AS width, s.stadistinct AS distinct, \
         json_build_array({}) AS slots \
         FROM pg_statistic s JOIN pg_class c ON c.oid = s.starelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         JOIN pg_attribute a ON a.attrelid = s.starelid AND a.attnum = s.staattnum AND NOT a.attisdropped \
         WHERE c.relpersistence <> 't' AND {USER_RELATIONS} ORDER BY s.starelid, s.staattnum) x",
        slots.join(", ")
    )
}

/// Columns that lead a complete B-tree index, in the order of the type: schema, table, column, whether no such index has NULLs
/// as the largest values. With another collation than that of the column, the index does not have its smallest value.
pub(crate) fn leading_columns() -> String {
    format!(
        "SELECT n.nspname, c.relname, a.attname, bool_and((i.indoption[0] & 1 = 1) <> (i.indoption[0] & 2 = 2)) \
         FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid \
         JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am am ON am.oid = x.relam AND am.amname = 'btree' \
         JOIN pg_namespace n ON n.oid = c.relnamespace \
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] \
         JOIN pg_opclass o ON o.oid = i.indclass[0] AND o.opcdefault \
         WHERE i.indcollation[0] = a.attcollation AND i.indisvalid AND i.indpred IS NULL AND i.indkey[0] > 0 AND c.relkind IN ('r', 'm') \
         AND c.relpersistence <> 't' AND {USER_RELATIONS} GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
    )
}

/// Tables whose planning may execute a function of another role that is no superuser: schema, name.
///
/// The planner evaluates functions with constant arguments in expressions and conditions of indexes, and in expressions of
/// extended statistics (`RelationGetIndexExpressions` in `relcache.c`, `get_relation_statistics` in `plancat.c`). Members
/// of extensions are no exception, since the owner of an extension may add functions.
pub(crate) fn foreign_code() -> String {
    format!(
        "SELECT DISTINCT n.nspname, c.relname FROM pg_depend d \
         LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid \
         JOIN pg_proc p ON p.oid = CASE WHEN d.refclassid = 'pg_proc'::regclass THEN d.refobjid ELSE o.oprcode::oid END \
         JOIN pg_roles r ON r.oid = p.proowner AND NOT r.rolsuper AND r.rolname <> current_user \
         LEFT JOIN pg_index i ON d.classid = 'pg_class'::regclass AND i.indexrelid = d.objid \
         LEFT JOIN pg_statistic_ext s ON d.classid = 'pg_statistic_ext'::regclass AND s.oid = d.objid \
         JOIN pg_class c ON c.oid = coalesce(i.indrelid, s.stxrelid) \
         JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {USER_RELATIONS}"
    )
}

/// Data of extended statistics. From version 12 on, the view shows those whose columns the role may read.
pub(crate) fn extended(version: u32) -> String {
    if version < EXTENDED_VIEW_VERSION {
        return format!(
            "SELECT row_to_json(x) FROM (SELECT n.nspname AS schema, s.stxname AS name, false AS inherited, \
             encode(s.stxndistinct::bytea, 'hex') AS ndistinct, encode(s.stxdependencies::bytea, 'hex') AS dependencies, \
             NULL AS combinations FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace \
             WHERE {USER_RELATIONS} ORDER BY s.oid) x"
        );
    }
    format!(
        "SELECT row_to_json(x) FROM (SELECT n.nspname AS schema, s.statistics_name AS name, \
         coalesce((to_jsonb(s) ->> 'inherited')::boolean, false) AS inherited, \
         encode(s.n_distinct::bytea, 'hex') AS ndistinct, encode(s.dependencies::bytea, 'hex') AS dependencies, \
         (SELECT json_agg(json_build_object('values', to_json(s.most_common_vals) -> (i - 1)::int, \
          'frequency', s.most_common_freqs[i], 'base_frequency', s.most_common_base_freqs[i]) ORDER BY i) \
          FROM generate_series(1, array_length(s.most_common_freqs, 1)) i) AS combinations \
         FROM pg_stats_ext s JOIN pg_namespace n ON n.nspname = s.statistics_schemaname \
         WHERE {USER_RELATIONS} ORDER BY 1, 2, 3) x"
    )
}

/// Columns that are not ordered as their type is: schema, relation, number, `COLLATE` clause, whether it is a tsvector.
pub(crate) fn column_orders() -> String {
    format!(
        "SELECT n.nspname, c.relname, a.attnum, CASE WHEN a.attcollation NOT IN (0, 100) \
         THEN (SELECT format('COLLATE %I.%I', cn.nspname, co.collname) FROM pg_collation co \
          JOIN pg_namespace cn ON cn.oid = co.collnamespace WHERE co.oid = a.attcollation) END, \
         a.atttypid = 'tsvector'::regtype \
         FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'm', 'i', 'p') AND a.attnum > 0 AND NOT a.attisdropped \
         AND (a.attcollation NOT IN (0, 100) OR a.atttypid = 'tsvector'::regtype) AND {USER_RELATIONS}"
    )
}

/// Types of values: name, whether its values are labels of the schema, type to cast texts to, type of a range's bounds.
///
/// A cast to a domain executes its checks, and the owner of a type may define a cast from texts. Both would run with the rights of the
/// exporting role. So the type to cast to is one of the server or of an extension; NULL if there is none.
pub(crate) fn value_types(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| quote_literal(name)).collect();
    format!(
        "SELECT x, coalesce(e.typtype, b.typtype) = 'e', \
         CASE WHEN EXISTS (SELECT FROM pg_type i WHERE i.oid = coalesce(e.oid, b.oid) AND (i.typnamespace = 'pg_catalog'::regnamespace \
          OR EXISTS (SELECT FROM pg_depend p WHERE p.classid = 'pg_type'::regclass AND p.objid = i.oid AND p.deptype = 'e'))) \
          THEN format_type(b.oid, -1) END, format_type(r.rngsubtype, -1) \
         FROM unnest(ARRAY[{}]::text[]) x CROSS JOIN LATERAL (WITH RECURSIVE base (oid) AS (SELECT x::regtype::oid UNION ALL \
           SELECT t.typbasetype FROM base JOIN pg_type t ON t.oid = base.oid AND t.typtype = 'd') \
          SELECT t.oid, t.typtype, t.typcategory, t.typelem FROM base JOIN pg_type t ON t.oid = base.oid AND t.typtype <> 'd') b \
         LEFT JOIN pg_type e ON b.typcategory = 'A' AND e.oid = b.typelem LEFT JOIN pg_range r ON r.rngtypid = b.oid",
        names.join(", ")
    )
}

/// Extended statistics: schema, name, and for each column as JSON whether its values are labels of the schema.
pub(crate) fn extended_labels() -> String {
    format!(
        "SELECT n.nspname, s.stxname, (SELECT json_agg(b.typtype = 'e' ORDER BY k.place) \
         FROM unnest(s.stxkeys::int2[]) WITH ORDINALITY AS k (number, place) \
         JOIN pg_attribute a ON a.attrelid = s.stxrelid AND a.attnum = k.number JOIN pg_type t ON t.oid = a.atttypid \
         JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END) \
         FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace WHERE {USER_RELATIONS}"
    )
}

/// Extended statistics on expressions, whose data are not exported: name.
pub(crate) const EXTENDED_EXPRESSIONS: &str = "SELECT format('%I.%I', n.nspname, s.stxname) \
     FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace \
     WHERE to_jsonb(s) ->> 'stxexprs' IS NOT NULL ORDER BY 1";

/// Returns whether the planner would look up the ends of a histogram in an index (`ineq_histogram_selectivity`).
pub(crate) fn has_histogram(column: &ColumnStatistics) -> bool {
    let histogram =
        |slot: &crate::document::StatisticsSlot| slot.kind == 2 && slot.values.is_some();
    !column.inherited && column.slots.iter().any(histogram)
}
