//! Queries for sizes and statistics. Each row is one JSON text that the document's type reads.

use crate::document::ColumnStatistics;

/// Relations of users.
const USER_RELATIONS: &str = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'";

/// Sizes of relations with files, and of partitioned ones.
pub(crate) fn sizes() -> String {
    format!(
        "SELECT row_to_json(x) FROM (SELECT n.nspname AS schema, c.relname AS name, c.relkind::text AS kind, \
         CASE WHEN c.relkind IN ('r', 'm', 'i') \
          THEN coalesce(pg_relation_size(c.oid, 'main'), 0) / current_setting('block_size')::int ELSE 0 END AS pages, \
         c.relpages, c.reltuples::float8 AS reltuples, c.relallvisible, am.amname AS method, \
         NULL::text AS metapage, \
         CASE WHEN am.amname = 'btree' THEN (SELECT sum(CASE WHEN t.typlen > 0 THEN t.typlen ELSE coalesce( \
           (SELECT max(s.stawidth) FROM pg_statistic s WHERE s.starelid = i.indrelid AND s.staattnum = i.indkey[a.attnum - 1]), 32) END) \
          FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
          WHERE a.attrelid = c.oid AND a.attnum > 0) END AS key_width \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_index i ON i.indexrelid = c.oid \
         LEFT JOIN pg_am am ON am.oid = c.relam AND c.relkind IN ('i', 'I') \
         WHERE c.relkind IN ('r', 'm', 'i', 'p', 'I') AND c.relpersistence <> 't' AND {USER_RELATIONS} ORDER BY c.oid) x"
    )
}

/// Beginnings of the first blocks of indexes: schema, name, hexadecimal text. For superusers and members of
/// `pg_read_server_files`.
pub(crate) fn metapages() -> String {
    format!(
        "SELECT n.nspname, c.relname, encode(pg_read_binary_file(pg_relation_filepath(c.oid), 0, 128, true), 'hex') \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_am am ON am.oid = c.relam \
         WHERE c.relkind = 'i' AND c.relpersistence <> 't' AND am.amname IN ('btree', 'gin', 'brin') AND {USER_RELATIONS}"
    )
}

/// Rows of `pg_statistic`, for superusers.
pub(crate) fn columns() -> String {
    let slots: Vec<String> = (1..=5)
        .map(|slot| {
            format!(
                "json_build_object('kind', s.stakind{slot}, \
                 'operator', CASE WHEN s.staop{slot} <> 0 THEN s.staop{slot}::regoperator::text END, \
                 'numbers', s.stanumbers{slot}::text, 'values', s.stavalues{slot}::text, \
                 'value_type', CASE WHEN s.stavalues{slot} IS NOT NULL THEN format_type(('x' || \
                  encode(substring(array_send(s.stavalues{slot}) FROM 9 FOR 4), 'hex'))::bit(32)::int::oid, NULL) END)"
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

/// Columns that lead a complete B-tree index, in ascending order of the type: schema, table, column.
pub(crate) fn leading_columns() -> String {
    format!(
        "SELECT DISTINCT n.nspname, c.relname, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid \
         JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_am am ON am.oid = x.relam AND am.amname = 'btree' \
         JOIN pg_namespace n ON n.oid = c.relnamespace \
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] \
         JOIN pg_opclass o ON o.oid = i.indclass[0] AND o.opcdefault \
         WHERE i.indisvalid AND i.indpred IS NULL AND i.indkey[0] > 0 AND c.relkind IN ('r', 'm') \
         AND c.relpersistence <> 't' AND {USER_RELATIONS} ORDER BY 1, 2, 3"
    )
}

/// Data of extended statistics, for superusers.
pub(crate) fn extended(version: u32) -> String {
    let (inherited, mcv, data) = match version {
        150_000.. => ("d.stxdinherit", "encode(d.stxdmcv::bytea, 'hex')", "d.stxd"),
        120_000.. => ("false", "encode(d.stxdmcv::bytea, 'hex')", "d.stxd"),
        _ => ("false", "NULL::text", "s.stx"),
    };
    let join = match version >= 120_000 {
        true => "JOIN pg_statistic_ext_data d ON d.stxoid = s.oid",
        false => "",
    };
    format!(
        "SELECT row_to_json(x) FROM (SELECT n.nspname AS schema, s.stxname AS name, {inherited} AS inherited, \
         encode({data}ndistinct::bytea, 'hex') AS ndistinct, encode({data}dependencies::bytea, 'hex') AS dependencies, \
         {mcv} AS mcv FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = s.stxnamespace {join} \
         WHERE {USER_RELATIONS} ORDER BY s.oid) x"
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
