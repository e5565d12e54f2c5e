//! Leaves of B-trees with the smallest and the largest value of their leading column.
//!
//! For a constant beyond or near the ends of a histogram the planner asks the index for them
//! (`get_actual_variable_range` in `selfuncs.c`). The server itself writes each leaf, into an index on an auxiliary
//! table with two rows; its block is later put into the index of the copy. A visibility map spares the planner the rows.
//! Before version 12 the planner reads the row, so that there the ends replace those of the histogram.

use std::collections::HashMap;

use connect::login::LoginError;

use crate::document::PlannerExport;
use crate::quoting::quote_literal;
use crate::restore_connections::RestoreConnections;

/// First version in which the planner takes the value from the index.
pub(crate) const INDEX_VALUE_MAJOR: u16 = 12;

/// Block of a leaf, by the OID of the index.
pub(crate) type Leaves = HashMap<u32, Vec<u8>>;

/// Complete B-tree indexes on a plain column: OID, schema, table, leading column, columns with types, keys. Without a
/// length, and with the modifier -1, `format_type` returns `bpchar` and `"bit"` for types that `character` and `bit` would cut to one character.
const INDEXES_SQL: &str = "SELECT i.indexrelid, n.nspname, c.relname, a.attname, \
     (SELECT string_agg(format('c%s %s', x.attnum, format_type(x.atttypid, -1)) \
       || CASE WHEN x.attcollation <> 0 THEN (SELECT format(' COLLATE %I.%I', cn.nspname, co.collname) \
          FROM pg_catalog.pg_collation co JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace \
          WHERE co.oid = x.attcollation) ELSE '' END, ', ' ORDER BY x.attnum) \
      FROM pg_catalog.pg_attribute x WHERE x.attrelid = i.indexrelid AND x.attnum > 0), \
     format('c1 %s%s', CASE WHEN i.indoption[0] & 1 = 1 THEN 'DESC ' ELSE 'ASC ' END, \
      CASE WHEN i.indoption[0] & 2 = 2 THEN 'NULLS FIRST' ELSE 'NULLS LAST' END) \
      || coalesce((SELECT string_agg(format(', c%s', x.attnum), '' ORDER BY x.attnum) \
      FROM pg_catalog.pg_attribute x WHERE x.attrelid = i.indexrelid AND x.attnum > 1), ''), \
     format_type(a.atttypid, -1) \
     FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid \
     JOIN pg_catalog.pg_class t ON t.oid = i.indexrelid JOIN pg_catalog.pg_am am ON am.oid = t.relam AND am.amname = 'btree' \
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] \
     JOIN pg_catalog.pg_attribute k ON k.attrelid = t.oid AND k.attnum = 1 AND k.atttypid = a.atttypid \
     JOIN pg_catalog.pg_opclass o ON o.oid = i.indclass[0] AND o.opcdefault \
     WHERE i.indpred IS NULL AND t.relkind = 'i' AND c.relkind IN ('r', 'm')";

/// Makes the leaves. An index whose leaf cannot be made gets none.
pub(crate) fn make_leaves(
    connections: &mut RestoreConnections<'_>,
    export: &PlannerExport,
) -> Result<Leaves, LoginError> {
    let mut ranges: HashMap<(&str, &str, &str), &(String, String)> = HashMap::new();
    for column in &export.statistics {
        if let (Some(name), Some(range)) = (&column.column, &column.range) {
            ranges.insert((&column.schema, &column.relation, name), range);
        }
    }
    let mut leaves = Leaves::new();
    if ranges.is_empty() {
        return Ok(leaves);
    }
    // Input functions of the values may be code of the export.
    let RestoreConnections { superuser, owner } = connections;
    let rows = owner.query(INDEXES_SQL)?;
    owner.query("CREATE SCHEMA rehearse_ranges")?;
    for row in rows {
        let [
            Some(oid),
            Some(schema),
            Some(table),
            Some(name),
            Some(columns),
            Some(keys),
            Some(kind),
        ] = &row[..]
        else {
            continue;
        };
        let Some((low, high)) = ranges.get(&(schema.as_str(), table.as_str(), name.as_str()))
        else {
            continue;
        };
        let (low, high) = (quote_literal(low), quote_literal(high));
        let made = owner.query(&format!(
            "DROP TABLE IF EXISTS rehearse_ranges.t; CREATE TABLE rehearse_ranges.t ({columns}); \
             INSERT INTO rehearse_ranges.t (c1) VALUES ({low}::{kind}), ({high}::{kind}); \
             CREATE INDEX i ON rehearse_ranges.t ({keys})"
        ));
        if made.is_err() {
            continue;
        }
        let size = export.block_size;
        let page = superuser.query(&format!(
            "SELECT encode(pg_catalog.pg_read_binary_file(pg_catalog.pg_relation_filepath('rehearse_ranges.i'), \
             {size}, {size}, true), 'hex')"
        ));
        let page = page
            .unwrap_or_default()
            .into_iter()
            .flatten()
            .flatten()
            .next();
        if let (Ok(oid), Some(page)) = (oid.parse(), page.as_deref().and_then(from_hex))
            && page.len() == size as usize
        {
            leaves.insert(oid, page);
        }
    }
    owner.query("DROP SCHEMA rehearse_ranges CASCADE")?;
    Ok(leaves)
}

/// Decodes a hexadecimal text.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let bytes = (0..text.len() / 2).map(|at| {
        let two = text.get(at * 2..at * 2 + 2)?;
        u8::from_str_radix(two, 16).ok()
    });
    bytes.collect()
}
