//! Widths of the keys of B-trees, from the statistics of their columns.

use std::collections::HashMap;

use serde::Deserialize;

use crate::document::{ColumnStatistics, RelationSize};

/// Width of a column without statistics, in bytes (`get_typavgwidth` in `lsyscache.c`).
const UNKNOWN_WIDTH: f64 = 32.0;

/// Size of a relation with the keys of a B-tree.
#[derive(Debug, Deserialize)]
pub(crate) struct SizeRow {
    #[serde(flatten)]
    size: RelationSize,
    /// Table of a B-tree.
    table: Option<String>,
    /// Columns of a B-tree.
    keys: Option<Vec<IndexKey>>,
}

/// Column of an index.
#[derive(Debug, Deserialize)]
struct IndexKey {
    /// Length of the type in bytes; negative if it varies.
    length: i16,
    /// Column of the table; `None` for an expression.
    column: Option<String>,
}

/// Returns the sizes, with the widths of the keys.
pub(crate) fn with_key_widths(
    rows: Vec<SizeRow>,
    statistics: &[ColumnStatistics],
) -> Vec<RelationSize> {
    let mut widths: HashMap<(&str, &str, &str), i32> = HashMap::new();
    for one in statistics {
        if let Some(column) = &one.column {
            let width = widths
                .entry((&one.schema, &one.relation, column))
                .or_default();
            *width = one.width.max(*width);
        }
    }
    let sized = rows.into_iter().map(|row| {
        let mut size = row.size;
        let table = row.table.unwrap_or_default();
        let width = |key: &IndexKey| match (key.length, &key.column) {
            (length @ 1.., _) => f64::from(length),
            (_, Some(column)) => widths
                .get(&(&*size.schema, &*table, &**column))
                .map_or(UNKNOWN_WIDTH, |width| f64::from(*width)),
            (_, None) => UNKNOWN_WIDTH,
        };
        size.key_width = row.keys.map(|keys| keys.iter().map(width).sum());
        size
    });
    sized.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_of_keys_is_that_of_types_and_of_statistics() {
        let row = |keys: &str| {
            let text = format!(
                r#"{{"schema": "s", "name": "t_a", "kind": "i", "pages": 9, "relpages": 9, "reltuples": 5, "relallvisible": 0,
                "method": "btree", "metapage": null, "table": "t", "keys": {keys}}}"#
            );
            serde_json::from_str::<SizeRow>(&text).unwrap()
        };
        let column = |name: &str, inherited, width| ColumnStatistics {
            schema: "s".to_owned(),
            relation: "t".to_owned(),
            column: Some(name.to_owned()),
            number: 1,
            inherited,
            null_fraction: 0.0,
            width,
            distinct: 1.0,
            slots: Vec::new(),
            range: None,
        };
        let statistics = [column("a", false, 11), column("a", true, 13)];
        let rows = vec![
            row(r#"[{"length": 8, "column": "id"}, {"length": -1, "column": "a"}]"#),
            row(r#"[{"length": -1, "column": "b"}, {"length": -1, "column": null}]"#),
            row("null"),
        ];
        let widths: Vec<_> = with_key_widths(rows, &statistics)
            .into_iter()
            .map(|one| one.key_width)
            .collect();
        assert_eq!(widths, [Some(21.0), Some(64.0), None]);
    }
}
