//! Perturbed statistics: other values that the same rows could have given.
//!
//! A plan that changes with them depends on estimates that are uncertain. The factors are ours, from the sources of error:
//!
//! | quantity | factor | reason |
//! |---|---|---|
//! | number of distinct values | ½ to 2 | `ANALYZE` estimates it from a sample (Haas and Stokes 1998); keys are exact and stay |
//! | shares of common values | ⅘ to 5⁄4 | sampling |
//! | correlation | ± 0.1 | sampling |
//! | rows | ⅚ to 6⁄5 | `autovacuum_vacuum_scale_factor` is 0.2: older counts are replaced |
//!
//! Each quantity goes up or down in each copy, by a hash of its name and the number of the copy. So both sides of a check get
//! the same perturbation.

use connect::login::{LoginError, QueryConnection};

use crate::document::{ColumnStatistics, PlannerExport};
use crate::quoting::{quote_identifier, quote_literal};

const DISTINCT_FACTOR: f64 = 2.0;
const SHARE_FACTOR: f64 = 1.25;
const CORRELATION_STEP: f64 = 0.1;
const ROWS_FACTOR: f64 = 1.2;
/// Statements that one query sends.
const BATCH: usize = 100;

/// Changes the statistics of a server from those of a copy to those of another one. Copy 0 has those of the export.
pub(crate) fn perturb(
    connection: &mut QueryConnection<'_>,
    export: &PlannerExport,
    (from, to): (u32, u32),
) -> Result<(), LoginError> {
    let columns = export.statistics.iter().map(|one| update_column(one, to));
    let tables = export.relations.iter();
    let tables = tables.filter(|one| matches!(one.kind.as_str(), "r" | "m" | "p"));
    let rows = tables.map(|one| {
        let name = qualified(&one.schema, &one.name);
        let factor = |copy| power(ROWS_FACTOR, direction(copy, &[&name, "rows"]));
        // Its indexes have the same rows.
        format!(
            "UPDATE pg_catalog.pg_class c SET reltuples = c.reltuples * {} WHERE c.reltuples > 0 AND (c.oid = {oid} \
             OR c.oid IN (SELECT i.indexrelid FROM pg_catalog.pg_index i WHERE i.indrelid = {oid}))",
            factor(to) / factor(from),
            oid = format!("pg_catalog.to_regclass({})", quote_literal(&name))
        )
    });
    let updates: Vec<String> = columns.chain(rows).collect();
    for batch in updates.chunks(BATCH) {
        connection.query(&batch.join(";\n"))?;
    }
    Ok(())
}

fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_identifier(schema), quote_identifier(name))
}

/// Direction of a perturbation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    None,
    Up,
    Down,
}

/// Returns the direction of a quantity in a copy (FNV-1a).
fn direction(copy: u32, names: &[&str]) -> Direction {
    if copy == 0 {
        return Direction::None;
    }
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let number = copy.to_le_bytes();
    let bytes = names.iter().flat_map(|name| name.bytes().chain([0]));
    for byte in bytes.chain(number) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    match (hash >> 32).count_ones() % 2 {
        0 => Direction::Up,
        _ => Direction::Down,
    }
}

fn power(factor: f64, direction: Direction) -> f64 {
    match direction {
        Direction::None => 1.0,
        Direction::Up => factor,
        Direction::Down => 1.0 / factor,
    }
}

/// Returns the statement that perturbs a column, whose row a change may have removed.
fn update_column(column: &ColumnStatistics, copy: u32) -> String {
    let name = column.describe();
    let mut set = vec![format!("stadistinct = {}", distinct(column, copy))];
    for (number, slot) in (1..=5).zip(&column.slots) {
        let Some(numbers) = slot.numbers.as_deref().and_then(read_numbers) else {
            continue;
        };
        let numbers = match slot.kind {
            1 => shares(
                &numbers,
                column.null_fraction,
                direction(copy, &[&name, "shares"]),
            ),
            3 => {
                let step = match direction(copy, &[&name, "correlation"]) {
                    Direction::None => 0.0,
                    Direction::Up => CORRELATION_STEP,
                    Direction::Down => -CORRELATION_STEP,
                };
                numbers
                    .iter()
                    .map(|one| (one + step).clamp(-1.0, 1.0))
                    .collect()
            }
            _ => continue,
        };
        let texts: Vec<String> = numbers.iter().map(f64::to_string).collect();
        set.push(format!("stanumbers{number} = '{{{}}}'", texts.join(",")));
    }
    let condition = match &column.column {
        Some(name) => format!("a.attname = {}", quote_literal(name)),
        None => format!("a.attnum = {}", column.number),
    };
    format!(
        "UPDATE pg_catalog.pg_statistic s SET {} FROM pg_catalog.pg_attribute a WHERE a.attrelid = pg_catalog.to_regclass({}) \
         AND {condition} AND NOT a.attisdropped AND s.starelid = a.attrelid AND s.staattnum = a.attnum AND s.stainherit = {}",
        set.join(", "),
        quote_literal(&qualified(&column.schema, &column.relation)),
        column.inherited
    )
}

/// Returns the number of distinct values. A negative one is a share of the rows; -1 is a key.
fn distinct(column: &ColumnStatistics, copy: u32) -> f64 {
    let common = column.slots.iter().find(|slot| slot.kind == 1);
    // Without further values, the list of common ones is complete, and its number exact.
    let is_complete = common
        .and_then(|slot| slot.numbers.as_deref().and_then(read_numbers))
        .is_some_and(|numbers| numbers.len() as f64 == column.distinct);
    if is_complete || column.distinct <= -1.0 {
        return column.distinct;
    }
    let direction = direction(copy, &[&column.describe(), "distinct"]);
    let perturbed = column.distinct * power(DISTINCT_FACTOR, direction);
    match column.distinct < 0.0 {
        true => perturbed.max(-1.0),
        false => perturbed.max(1.0),
    }
}

/// Returns shares whose sum is at most that of all rows with values.
fn shares(numbers: &[f64], null_fraction: f64, direction: Direction) -> Vec<f64> {
    let sum: f64 = numbers.iter().sum();
    let most = ((1.0 - null_fraction) / sum).max(1.0);
    let factor = power(SHARE_FACTOR, direction).min(most);
    numbers.iter().map(|one| one * factor).collect()
}

fn read_numbers(text: &str) -> Option<Vec<f64>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    inner.split(',').map(|one| one.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::StatisticsSlot;

    fn column(distinct: f64, shares: &str) -> ColumnStatistics {
        ColumnStatistics {
            schema: "public".to_owned(),
            relation: "t".to_owned(),
            column: Some("c".to_owned()),
            number: 1,
            inherited: false,
            null_fraction: 0.0,
            width: 4,
            distinct,
            slots: vec![StatisticsSlot {
                kind: 1,
                operator: None,
                numbers: Some(shares.to_owned()),
                values: None,
                value_type: None,
            }],
            range: None,
        }
    }

    #[test]
    fn keys_and_complete_lists_keep_their_number_of_values_and_others_change() {
        for copy in 1..9 {
            assert_eq!(distinct(&column(-1.0, "{0.1}"), copy), -1.0);
            assert_eq!(distinct(&column(2.0, "{0.6,0.4}"), copy), 2.0);
            assert!([50.0, 200.0].contains(&distinct(&column(100.0, "{0.1}"), copy)));
            assert!([-0.25, -1.0].contains(&distinct(&column(-0.5, "{0.1}"), copy)));
        }
        let all: Vec<f64> = (1..9)
            .map(|copy| distinct(&column(100.0, "{0.1}"), copy))
            .collect();
        assert!(all.contains(&50.0) && all.contains(&200.0), "{all:?}");
        assert_eq!(distinct(&column(100.0, "{0.1}"), 0), 100.0);
    }

    #[test]
    fn shares_never_exceed_the_rows_with_values() {
        assert_eq!(shares(&[0.4, 0.2], 0.0, Direction::Up), [0.5, 0.25]);
        let sum: f64 = shares(&[0.5, 0.3], 0.1, Direction::Up).iter().sum();
        assert!((sum - 0.9).abs() < 1e-9, "{sum}");
        assert_eq!(shares(&[0.5], 0.0, Direction::Down), [0.4]);
        assert_eq!(shares(&[0.5], 0.0, Direction::None), [0.5]);
    }
}
