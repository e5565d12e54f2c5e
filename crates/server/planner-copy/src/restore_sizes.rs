//! Sizes of the relations of a private server: those of the export, and estimates for indexes that a change creates.

use std::collections::HashMap;

use connect::login::{LoginError, QueryConnection};

use crate::btree_pages;
use crate::document::{PlannerExport, RelationSize};
use crate::metapages;
use crate::not_restored::NotRestored;
use crate::relation_files::FirstBlocks;
use crate::restore_ranges::{Leaves, from_hex};

/// Fill factor of a new B-tree's leaves (`BTREE_DEFAULT_FILLFACTOR`).
const LEAF_FILL: f64 = 0.9;

/// Relations of a private server: OID, schema, name, file.
const RELATIONS_SQL: &str = "SELECT c.oid, n.nspname, c.relname, pg_catalog.pg_relation_filepath(c.oid) FROM pg_catalog.pg_class c \
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'm', 'i', 'p', 'I') \
     AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'";

/// The same with file, access method, whether an index is partial, and for an index its table's tuples, the width
/// of its keys, and if the server can deduplicate them, the `stadistinct` of each key. Deduplication needs support
/// function 4 of the operator class (`btequalimage`, from 13 on), and no `INCLUDE` columns.
const FILES_SQL: &str = "SELECT c.oid, n.nspname, c.relname, c.relkind, pg_catalog.pg_relation_filepath(c.oid), \
     am.amname, i.indpred IS NOT NULL, i.indrelid, \
     (SELECT sum(CASE WHEN t.typlen > 0 THEN t.typlen ELSE coalesce((SELECT max(s.stawidth) FROM pg_catalog.pg_statistic s \
       WHERE s.starelid = i.indrelid AND s.staattnum = i.indkey[a.attnum - 1]), 32) END) \
      FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
      WHERE a.attrelid = c.oid AND a.attnum > 0), \
     CASE WHEN NOT i.indisunique AND i.indnatts = pg_catalog.array_length(i.indclass, 1) AND NOT EXISTS \
       (SELECT FROM pg_catalog.pg_opclass o WHERE o.oid = ANY (i.indclass) AND NOT EXISTS (SELECT FROM pg_catalog.pg_amproc p \
        WHERE p.amprocfamily = o.opcfamily AND p.amproclefttype = o.opcintype AND p.amprocnum = 4)) THEN \
      (SELECT pg_catalog.string_agg(coalesce((SELECT max(s.stadistinct) FROM pg_catalog.pg_statistic s \
         WHERE s.starelid = i.indrelid AND s.staattnum = i.indkey[a.attnum - 1]), 0)::text, ' ') \
       FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0) END \
     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
     LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid \
     LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam AND c.relkind IN ('i', 'I') \
     WHERE c.relkind IN ('r', 'm', 'i', 'p', 'I') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' \
     ORDER BY c.relkind = 'i', c.oid";

/// Relations by OID before a change.
pub(crate) type KnownRelations = HashMap<u32, KnownRelation>;

/// Relation before a change.
pub(crate) struct KnownRelation {
    /// Number of its record in the export; `None` if it has none.
    record: Option<usize>,
    /// Path of its file; empty if it has none.
    file: String,
}

/// Table or materialized view that a change creates. Its rows are not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTable {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// Whether the export has a table of the same name, whose size it gets.
    pub is_replacement: bool,
}

/// Relation with the size to give it.
#[derive(Debug)]
pub(crate) struct SizedRelation {
    oid: u32,
    /// Path of its file in the data directory; `None` if it has none.
    pub(crate) file: Option<String>,
    /// Whether it is a table or a materialized view, whose visibility map the planner may read.
    pub(crate) has_rows: bool,
    /// Number of blocks.
    pub(crate) pages: u32,
    /// First blocks of an index.
    pub(crate) first: FirstBlocks,
    relpages: i32,
    reltuples: f64,
    relallvisible: i32,
}

/// Finds the relations before a change, which may rename them.
pub(crate) fn known_relations(
    connection: &mut QueryConnection<'_>,
    export: &PlannerExport,
) -> Result<KnownRelations, LoginError> {
    let by_name = by_name(export);
    let rows = connection.query(RELATIONS_SQL)?;
    let known = rows.into_iter().filter_map(|row| {
        let mut row = row.into_iter().map(Option::unwrap_or_default);
        let oid = row.next()?.parse().ok()?;
        let key = (row.next()?, row.next()?);
        let (record, file) = (by_name.get(&key).copied(), row.next()?);
        Some((oid, KnownRelation { record, file }))
    });
    Ok(known.collect())
}

fn by_name(export: &PlannerExport) -> HashMap<(String, String), usize> {
    let all = export.relations.iter().enumerate();
    all.map(|(place, one)| ((one.schema.clone(), one.name.clone()), place))
        .collect()
}

/// Returns the sizes of all relations after a change.
pub(crate) fn sized_relations(
    connection: &mut QueryConnection<'_>,
    export: &PlannerExport,
    known: &KnownRelations,
    mut leaves: Leaves,
    (left_out, created): (&mut Vec<NotRestored>, &mut Vec<CreatedTable>),
) -> Result<Vec<SizedRelation>, LoginError> {
    let by_name = by_name(export);
    let mut tuples: HashMap<u32, f64> = HashMap::new();
    let mut sized = Vec::new();
    for row in connection.query(FILES_SQL)? {
        let text = |place: usize| row.get(place).cloned().flatten().unwrap_or_default();
        let Ok(oid) = text(0).parse::<u32>() else {
            continue;
        };
        // An index that a change rebuilds has its name and another number.
        let key = (text(1), text(2));
        let before = known.get(&oid);
        let record = before.and_then(|one| one.record);
        let record = record.or_else(|| by_name.get(&key).copied());
        let file = row.get(4).cloned().flatten();
        if before.is_none() && matches!(text(3).as_str(), "r" | "p" | "m") {
            created.push(CreatedTable {
                schema: key.0.clone(),
                name: key.1.clone(),
                is_replacement: record.is_some(),
            });
        }
        let relation = match record.map(|place| &export.relations[place]) {
            Some(record) => {
                tuples.insert(oid, record.reltuples);
                let is_rewritten = before.is_some_and(|one| file.as_ref() != Some(&one.file));
                let mut relation =
                    of_record(oid, file, (record, leaves.remove(&oid)), export.block_size);
                if is_rewritten {
                    // Until the next VACUUM.
                    relation.relallvisible = 0;
                }
                relation
            }
            None if text(3) == "i" => {
                let rows = text(7)
                    .parse()
                    .ok()
                    .and_then(|table: u32| tuples.get(&table));
                let Some(rows) = rows.filter(|rows| **rows >= 1.0) else {
                    continue;
                };
                let name = format!("{}.{}", key.0, key.1);
                let method = text(5);
                left_out.extend(uncertainty_of_new_index(&name, &method, text(6) == "t"));
                let width = text(8).parse().unwrap_or(8.0);
                let keys = NewKeys {
                    rows: *rows,
                    width,
                    distinct: distinct_keys(&text(9), *rows),
                };
                of_new_index(oid, file, (&method, keys), export.block_size)
            }
            None => continue,
        };
        sized.push(relation);
    }
    Ok(sized)
}

fn of_record(
    oid: u32,
    file: Option<String>,
    (record, leaf): (&RelationSize, Option<Vec<u8>>),
    block_size: u32,
) -> SizedRelation {
    let metapage = record.metapage.as_deref().and_then(from_hex);
    let first = match (record.method.as_deref(), metapage) {
        (Some("btree"), metapage) if record.pages > 1 => {
            let height = metapage.and_then(|page| btree_pages::height(&page));
            let width = record.key_width.unwrap_or(8.0);
            FirstBlocks::Btree {
                height: height.unwrap_or_else(|| {
                    btree_pages::estimate_height(record.pages, width, block_size)
                }),
                leaf,
            }
        }
        (Some(method @ ("gin" | "brin")), Some(page)) if metapages::is_written(method, &page) => {
            FirstBlocks::Copied(page)
        }
        _ => FirstBlocks::Unchanged,
    };
    SizedRelation {
        oid,
        file,
        has_rows: matches!(record.kind.as_str(), "r" | "m"),
        pages: record.pages,
        first,
        relpages: record.relpages,
        reltuples: record.reltuples,
        relallvisible: record.relallvisible,
    }
}

/// Keys of an index that a change creates.
struct NewKeys {
    rows: f64,
    /// Width of a key in bytes.
    width: f64,
    /// Number of different keys; that of the rows if equal ones are not stored together.
    distinct: f64,
}

/// Returns the number of different keys, from the `stadistinct` of each column: negative ones count per row, and 0 is
/// unknown. Columns count as independent, so it is rather too large.
fn distinct_keys(columns: &str, rows: f64) -> f64 {
    let columns = columns
        .split_whitespace()
        .map(|text| match text.parse::<f64>() {
            Ok(number) if number > 0.0 => number,
            Ok(number) if number < 0.0 => -number * rows,
            _ => rows,
        });
    let product = columns.reduce(|all: f64, one| all * one);
    product.unwrap_or(rows).clamp(1.0, rows)
}

impl NewKeys {
    /// Returns the size of an index tuple with one key and one row: header and line pointer, keys aligned to 8 bytes.
    fn tuple(&self) -> f64 {
        8.0 + (self.width / 8.0).ceil() * 8.0 + 4.0
    }

    /// Returns the size of all leaf tuples. Equal keys share tuples of at most a tenth of a block, with 6 bytes for each
    /// row (`_bt_load` in PostgreSQL's `nbtsort.c`).
    fn bytes(&self, block: f64) -> f64 {
        let rows_of_key = self.rows / self.distinct;
        let rows_of_tuple = ((block / 10.0 - self.tuple()) / 6.0).max(1.0);
        let shared = (rows_of_key / rows_of_tuple).ceil() * self.tuple() + rows_of_key * 6.0;
        self.distinct * shared.min(rows_of_key * self.tuple())
    }
}

/// Estimates the size of an index that a change creates. Other methods than B-tree count as one.
fn of_new_index(
    oid: u32,
    file: Option<String>,
    (method, keys): (&str, NewKeys),
    block_size: u32,
) -> SizedRelation {
    let block = f64::from(block_size);
    let leaves = (keys.bytes(block) / ((block - 40.0) * LEAF_FILL)).ceil();
    let pages = 1.0 + leaves + (leaves * keys.tuple() / (block * 0.7)).ceil();
    let pages = match method {
        // It has one range of blocks per 128 of the table; the server's own blocks do.
        "brin" => 3,
        _ => pages.min(f64::from(u32::MAX - 1)) as u32,
    };
    SizedRelation {
        oid,
        file,
        has_rows: false,
        pages,
        first: match method {
            "btree" => FirstBlocks::Btree {
                height: btree_pages::estimate_height(pages, keys.width, block_size),
                leaf: None,
            },
            _ => FirstBlocks::Unchanged,
        },
        relpages: i32::try_from(pages).unwrap_or(i32::MAX),
        reltuples: keys.rows,
        relallvisible: 0,
    }
}

fn uncertainty_of_new_index(name: &str, method: &str, is_partial: bool) -> Option<NotRestored> {
    let reason = match (method, is_partial) {
        ("btree", false) => return None,
        ("btree", true) => {
            "the change creates it with a condition; its size is that of an index on all rows"
        }
        _ => {
            "the change creates it, and no size of this kind of index can be computed; it counts as a B-tree"
        }
    };
    Some(NotRestored {
        subject: format!("size of the index {name}"),
        reason: reason.to_owned(),
    })
}

/// Returns the statements that set the sizes in `pg_class`, which a change may have reset.
pub(crate) fn write_sizes(
    connection: &mut QueryConnection<'_>,
    sized: &[SizedRelation],
) -> Result<(), LoginError> {
    for batch in sized.chunks(200) {
        let values: Vec<String> = batch
            .iter()
            .map(|one| {
                format!(
                    "({}, {}, {}, {})",
                    one.oid, one.relpages, one.reltuples, one.relallvisible
                )
            })
            .collect();
        connection.query(&format!(
            "UPDATE pg_catalog.pg_class c SET relpages = v.pages, reltuples = v.tuples, relallvisible = v.visible \
             FROM (VALUES {}) AS v (oid, pages, tuples, visible) WHERE c.oid = v.oid::pg_catalog.oid",
            values.join(", ")
        ))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(rows: f64, width: f64, distinct: &str) -> u32 {
        let distinct = distinct_keys(distinct, rows);
        let keys = NewKeys {
            rows,
            width,
            distinct,
        };
        of_new_index(1, None, ("btree", keys), 8192).pages
    }

    /// Sizes of indexes that PostgreSQL 13 to 18 created.
    #[test]
    fn new_index_with_equal_keys_has_about_the_size_that_servers_give_it() {
        for (rows, width, distinct, expected) in [
            // char(3) with four values.
            (100_000.0, 4.0, "4", 87),
            // The same without deduplication.
            (100_000.0, 4.0, "", 278),
            // Text with three values.
            (600_000.0, 5.0, "3", 511),
            // Unknown, and unique.
            (100_000.0, 4.0, "0", 278),
            (100_000.0, 4.0, "-1", 278),
        ] {
            let found = pages(rows, width, distinct);
            let ratio = f64::from(found) / f64::from(expected);
            assert!((0.95..1.05).contains(&ratio), "{found} for {expected}");
        }
    }

    #[test]
    fn number_of_keys_of_several_columns_is_at_most_that_of_the_rows() {
        assert_eq!(distinct_keys("3 -0.5", 10.0), 10.0);
        assert_eq!(distinct_keys("3 2", 10.0), 6.0);
        assert_eq!(distinct_keys("3 0", 10.0), 10.0);
    }
}
