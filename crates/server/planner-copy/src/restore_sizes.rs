//! Sizes of the relations of a private server: those of the export, and estimates for indexes that a change creates.

use std::collections::HashMap;

use connect::login::{LoginError, QueryConnection, Row};

use crate::btree_pages;
use crate::definition_text::without_casts;
use crate::document::{PlannerExport, RelationSize};
use crate::metapages;
use crate::not_restored::NotRestored;
use crate::relation_files::FirstBlocks;
use crate::restore_ranges::{Leaves, from_hex};

/// Fill factor of a new B-tree's leaves (`BTREE_DEFAULT_FILLFACTOR`).
const LEAF_FILL: f64 = 0.9;
/// Size of the header of a table's block, in bytes (`SizeOfPageHeaderData`).
const PAGE_HEADER: f64 = 24.0;
/// Size of a row's header and line pointer, in bytes (`HEAP_OVERHEAD_BYTES_PER_TUPLE` in `heapam_handler.c`).
const ROW_OVERHEAD: f64 = 28.0;

/// Relations of a private server: OID, schema, name, file, definition of an index.
const RELATIONS_SQL: &str = "SELECT c.oid, n.nspname, c.relname, pg_catalog.pg_relation_filepath(c.oid), \
     CASE WHEN c.relkind IN ('i', 'I') THEN pg_catalog.pg_get_indexdef(c.oid) END FROM pg_catalog.pg_class c \
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'm', 'i', 'p', 'I') \
     AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'";

/// Rows of [`CurrentRelation`]: OID, schema, name, kind, file, access method, whether an index is partial, its table, the
/// width of its keys, and if the server can deduplicate them, the `stadistinct` of each key; definition of an index, width
/// of a table's rows. Deduplication needs support function 4 of the operator class (`btequalimage`, from 13 on), and no
/// `INCLUDE` columns. A column without statistics counts as 32 bytes wide (`get_typavgwidth` in `lsyscache.c`).
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
       FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0) END, \
     CASE WHEN c.relkind IN ('i', 'I') THEN pg_catalog.pg_get_indexdef(c.oid) END, \
     CASE WHEN c.relkind IN ('r', 'm') THEN (SELECT sum(coalesce((SELECT max(s.stawidth) FROM pg_catalog.pg_statistic s \
       WHERE s.starelid = c.oid AND s.staattnum = a.attnum), CASE WHEN t.typlen > 0 THEN t.typlen ELSE 32 END)) \
      FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
      WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) END \
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
    /// Schema and name.
    name: (String, String),
    /// Statement that creates an index; empty for others.
    definition: String,
}

/// Relation after a change.
struct CurrentRelation {
    oid: u32,
    /// Schema and name.
    name: (String, String),
    /// `relkind`
    kind: String,
    /// Path of its file; `None` if it has none.
    file: Option<String>,
    /// Access method of an index; empty for others.
    method: String,
    is_partial: bool,
    /// OID of an index's table.
    table: Option<u32>,
    /// Width of an index's keys in bytes.
    key_width: f64,
    /// `stadistinct` of each key of an index, separated by blanks; empty if the server does not deduplicate them.
    distinct: String,
    /// Statement that creates an index; empty for others.
    definition: String,
    /// Width of a table's row in bytes, without its header.
    row_width: f64,
}

/// Number of rows of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RowCount {
    /// That of the last VACUUM or ANALYZE, in proportion to the present size.
    Counted(f64),
    /// An estimate from the size and the widths of the columns, since nothing counted the rows.
    FromWidth(f64),
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
        let name = (row.next()?, row.next()?);
        let relation = KnownRelation {
            record: by_name.get(&name).copied(),
            file: row.next()?,
            name,
            definition: row.next()?,
        };
        Some((oid, relation))
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
    let before_change = known.values();
    let definitions: HashMap<&(String, String), &str> = before_change
        .map(|one| (&one.name, one.definition.as_str()))
        .collect();
    let mut rows: HashMap<u32, RowCount> = HashMap::new();
    let mut sized = Vec::new();
    let current = connection.query(FILES_SQL)?.into_iter();
    for relation in current.filter_map(CurrentRelation::read) {
        let before = known.get(&relation.oid);
        let record = before.and_then(|one| one.record).or_else(|| {
            let definition = definitions.get(&relation.name).copied();
            let of_name = by_name.get(&relation.name).copied();
            of_name.filter(|place| relation.is_recreated(&export.relations[*place], definition))
        });
        if before.is_none() && matches!(relation.kind.as_str(), "r" | "p" | "m") {
            created.push(CreatedTable {
                schema: relation.name.0.clone(),
                name: relation.name.1.clone(),
                is_replacement: record.is_some(),
            });
        }
        match record.map(|place| &export.relations[place]) {
            Some(record) => {
                let count = row_count(record, relation.row_width, export.block_size);
                rows.insert(relation.oid, count);
                let is_rewritten =
                    before.is_some_and(|one| relation.file.as_ref() != Some(&one.file));
                let leaf = leaves.remove(&relation.oid);
                let mut size = of_record(relation, (record, leaf), export.block_size);
                if is_rewritten {
                    // Until the next VACUUM.
                    size.relallvisible = 0;
                }
                sized.push(size);
            }
            None if relation.kind == "i" => {
                let count = relation.table.and_then(|table| rows.get(&table).copied());
                if let Some(count) = count.filter(|count| count.rows() >= 1.0) {
                    left_out.extend(uncertainties_of_new_index(&relation, count));
                    sized.push(of_new_index(relation, count.rows(), export.block_size));
                }
            }
            None => {}
        }
    }
    Ok(sized)
}

impl CurrentRelation {
    /// Reads a row of [`FILES_SQL`].
    fn read(row: Row) -> Option<Self> {
        let mut row = row.into_iter();
        let mut next = || row.next().flatten();
        Some(CurrentRelation {
            oid: next()?.parse().ok()?,
            name: (next()?, next()?),
            kind: next()?,
            file: next(),
            method: next().unwrap_or_default(),
            is_partial: next().as_deref() == Some("t"),
            table: next().and_then(|text| text.parse().ok()),
            key_width: next().and_then(|text| text.parse().ok()).unwrap_or(8.0),
            distinct: next().unwrap_or_default(),
            definition: next().unwrap_or_default(),
            row_width: next().and_then(|text| text.parse().ok()).unwrap_or(0.0),
        })
    }

    /// Returns whether the record of its name counts for it, although it is another relation: for a table that replaces the
    /// former one, and for an index that is rebuilt with the same definition. `definition` is that of the index of this name
    /// before the change. Casts in it change if a column gets another type.
    fn is_recreated(&self, record: &RelationSize, definition: Option<&str>) -> bool {
        match [&self.kind, &record.kind].map(|kind| matches!(kind.as_str(), "i" | "I")) {
            [true, true] => definition
                .is_some_and(|former| without_casts(former) == without_casts(&self.definition)),
            [is_index, was_index] => is_index == was_index,
        }
    }
}

impl RowCount {
    fn rows(self) -> f64 {
        match self {
            RowCount::Counted(rows) | RowCount::FromWidth(rows) => rows,
        }
    }
}

/// Returns the number of rows of a table as the planner estimates it (`table_block_relation_estimate_size` in `tableam.c`).
fn row_count(record: &RelationSize, row_width: f64, block_size: u32) -> RowCount {
    let pages = f64::from(record.pages);
    // A table that was found empty has no rows, however large it is.
    if record.relpages > 0 && record.reltuples >= 0.0 {
        return RowCount::Counted(record.reltuples / f64::from(record.relpages) * pages);
    }
    let of_block = (f64::from(block_size) - PAGE_HEADER) / (row_width + ROW_OVERHEAD);
    RowCount::FromWidth(of_block.floor().max(1.0) * pages)
}

fn of_record(
    relation: CurrentRelation,
    (record, leaf): (&RelationSize, Option<Vec<u8>>),
    block_size: u32,
) -> SizedRelation {
    let metapage = record.metapage.as_deref().and_then(from_hex);
    // The first block of one method makes an index of another one unreadable.
    let method = record.method.as_deref();
    let first = match (method.filter(|one| *one == relation.method), metapage) {
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
        oid: relation.oid,
        file: relation.file,
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
fn of_new_index(relation: CurrentRelation, rows: f64, block_size: u32) -> SizedRelation {
    let keys = NewKeys {
        rows,
        width: relation.key_width,
        distinct: distinct_keys(&relation.distinct, rows),
    };
    let block = f64::from(block_size);
    let leaves = (keys.bytes(block) / ((block - 40.0) * LEAF_FILL)).ceil();
    let pages = 1.0 + leaves + (leaves * keys.tuple() / (block * 0.7)).ceil();
    let pages = match relation.method.as_str() {
        // It has one range of blocks per 128 of the table; the server's own blocks do.
        "brin" => 3,
        _ => pages.min(f64::from(u32::MAX - 1)) as u32,
    };
    SizedRelation {
        oid: relation.oid,
        file: relation.file,
        has_rows: false,
        pages,
        first: match relation.method.as_str() {
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

/// Returns the reasons why the size of a new index is uncertain.
fn uncertainties_of_new_index(relation: &CurrentRelation, count: RowCount) -> Vec<NotRestored> {
    let of_index = match (relation.method.as_str(), relation.is_partial) {
        ("btree", false) => None,
        ("btree", true) => {
            Some("the change creates it with a condition; its size is that of an index on all rows")
        }
        _ => Some(
            "the change creates it, and no size of this kind of index can be computed; it counts as a B-tree",
        ),
    };
    let of_rows = match count {
        RowCount::Counted(_) => None,
        RowCount::FromWidth(_) => Some(
            "the change creates it, and no VACUUM or ANALYZE counted the rows of its table; they are estimated from its size and \
             the widths of its columns",
        ),
    };
    let reasons = of_index.into_iter().chain(of_rows);
    reasons
        .map(|reason| NotRestored {
            subject: format!("size of the index {}.{}", relation.name.0, relation.name.1),
            reason: reason.to_owned(),
        })
        .collect()
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
mod tests;
