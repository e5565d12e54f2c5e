//! Comparison of the rows that both servers of the user begin with.
//!
//! A restore that failed half-way, or a copy of another day, looks like a faster server. So the rows of each table are
//! counted, the smallest table first, until the time is over. The sizes of the other tables are compared.

use std::collections::HashMap;
use std::time::Duration;

use clock::{Clock, SystemClock};
use connect::Target;
use connect::login::{Dialer, Login, QueryConnection};
use replay::LoginMap;
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Time to count the rows of all tables.
const TIME: Duration = Duration::from_secs(120);
/// Relative difference of rows from which on both sides are not comparable.
const ROWS_DIFFERENCE: f64 = 0.01;
/// Relative difference of sizes, if rows were not counted.
const SIZE_DIFFERENCE: f64 = 0.05;
/// Smallest difference of sizes that counts, in bytes.
const SIZE_BYTES: u64 = 1 << 20;
/// Settings of each session: it does not write, wait for locks, or run long queries.
const SESSION: [(&str, &str); 4] = [
    ("default_transaction_read_only", "on"),
    ("statement_timeout", "60s"),
    ("lock_timeout", "2s"),
    ("search_path", "pg_catalog"),
];

const TABLES: &str = "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), pg_table_size(c.oid) \
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE c.relkind IN ('r', 'm') AND c.relpersistence <> 't' \
     AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND n.nspname !~ '^pg_(toast_)?temp_' \
     ORDER BY 2, 1";

/// Table whose rows or size differ between the servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DifferingTable {
    /// Name with its schema, quoted as in SQL.
    pub name: String,
    /// Rows on the old server and on the new one; `null` if they were not counted.
    pub rows: Option<[u64; 2]>,
    /// Bytes of the table and its TOAST table, on the old server and on the new one.
    pub bytes: [u64; 2],
}

impl DifferingTable {
    /// Whether the difference is too large to compare the servers: 1 % of the rows; or, if they were not counted, 5 % of
    /// the size and 1 MB.
    pub fn is_large(&self) -> bool {
        let (pair, share, least) = match self.rows {
            Some(rows) => (rows, ROWS_DIFFERENCE, 1),
            None => (self.bytes, SIZE_DIFFERENCE, SIZE_BYTES),
        };
        let [old, new] = pair;
        let by = old.abs_diff(new);
        by >= least && by as f64 > share * old.max(new) as f64
    }
}

/// Result of the comparison of tables that exist on both servers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DataComparison {
    /// Number of tables whose rows were counted on both servers.
    pub counted: u64,
    /// Tables whose rows were not counted.
    pub uncounted: Vec<String>,
    /// Tables whose rows differ, or whose sizes differ if rows were not counted.
    pub differing: Vec<DifferingTable>,
}

/// Compares the tables of the databases of both targets.
///
/// # Errors
/// If a server cannot be reached or does not list its tables.
pub(super) fn compare_data(
    old: &Target,
    new: &Target,
    interrupt: &Interrupt,
) -> Result<DataComparison, Failure> {
    let clock = SystemClock::start();
    let dialers = [Dialer::new(old)?, Dialer::new(new)?];
    let mut old = open(&dialers[0], old)?;
    let mut new = open(&dialers[1], new)?;
    let old_tables = tables(&mut old)?;
    let new_tables: HashMap<String, u64> = tables(&mut new)?.into_iter().collect();
    let limit_ns = i64::try_from(TIME.as_nanos()).unwrap_or(i64::MAX);
    let mut found = DataComparison::default();
    for (name, old_bytes) in old_tables {
        // The inspection reports tables that are missing.
        let Some(&new_bytes) = new_tables.get(&name) else {
            continue;
        };
        let is_over = clock.now_ns() >= limit_ns || interrupt.is_requested();
        let rows = match is_over {
            true => None,
            false => count(&mut old, &name).zip(count(&mut new, &name)),
        };
        found.add(DifferingTable {
            name,
            rows: rows.map(|(old, new)| [old, new]),
            bytes: [old_bytes, new_bytes],
        });
    }
    Ok(found)
}

impl DataComparison {
    fn add(&mut self, table: DifferingTable) {
        let differs = match table.rows {
            Some([old, new]) => {
                self.counted += 1;
                old != new
            }
            None => {
                self.uncounted.push(table.name.clone());
                table.is_large()
            }
        };
        if differs {
            self.differing.push(table);
        }
    }
}

fn open<'a>(dialer: &'a Dialer, target: &Target) -> Result<QueryConnection<'a>, Failure> {
    let login = LoginMap::default().login(target, "", "", "rehearse upgrade");
    let own = SESSION.map(|(name, value)| (name.into(), value.into()));
    let login = Login {
        settings: [&own[..], &login.settings].concat().into(),
        ..login
    };
    let mut connection = dialer.open_query_connection(&login).map_err(|error| {
        Failure::could_not(format!("cannot connect to {}: {error}", target.address()))
    })?;
    // The last query may begin at the end of the time.
    connection.limit(2 * TIME);
    Ok(connection)
}

/// Returns names and sizes of tables, the smallest first.
fn tables(connection: &mut QueryConnection<'_>) -> Result<Vec<(String, u64)>, Failure> {
    let rows = connection.query(TABLES).map_err(|error| {
        Failure::could_not(format!("cannot list the tables of a server: {error}"))
    })?;
    let tables = rows.into_iter().filter_map(|row| {
        let mut values = row.into_iter().flatten();
        Some((values.next()?, values.next()?.parse().ok()?))
    });
    Ok(tables.collect())
}

/// Counts the rows of a table; `None` if the role may not read it, or it takes too long.
fn count(connection: &mut QueryConnection<'_>, name: &str) -> Option<u64> {
    let rows = connection.query(&format!("SELECT count(*) FROM ONLY {name}"));
    rows.ok()?
        .into_iter()
        .flatten()
        .flatten()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: Option<[u64; 2]>, bytes: [u64; 2]) -> DifferingTable {
        DifferingTable {
            name: "public.t".to_owned(),
            rows,
            bytes,
        }
    }

    #[test]
    fn table_with_fewer_rows_differs_and_one_of_another_size_only_if_rows_are_unknown() {
        let mut found = DataComparison::default();
        found.add(table(Some([100, 100]), [9 << 20, 1 << 20]));
        found.add(table(Some([100_000, 99_999]), [0, 0]));
        found.add(table(Some([100_000, 60_000]), [0, 0]));
        found.add(table(None, [9 << 20, 1 << 20]));
        found.add(table(None, [9 << 20, 9 << 20]));
        assert_eq!((found.counted, found.uncounted.len()), (3, 2));
        let large: Vec<bool> = found
            .differing
            .iter()
            .map(DifferingTable::is_large)
            .collect();
        assert_eq!(large, [false, true, true]);
    }
}
