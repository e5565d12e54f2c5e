//! Smallest and largest values of columns that lead an index, which the planner reads (`get_actual_variable_range` in
//! `selfuncs.c`).
//!
//! Any role may have created the types and tables of the exported database. The export's role is often a superuser, so no
//! code of others may run here:
//!
//! - No function such as `min` gets the column: an implicit cast to its argument may be a function of the type's owner.
//!   `ORDER BY` takes the default B-tree operators of the type, which only a superuser defines. `format` takes the type's
//!   output function.
//! - The planner evaluates functions of indexes and extended statistics. A table on which these are functions of other
//!   roles is not read.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use crate::error::PlannerCopyError;
use crate::exporter::Exporter;
use crate::quoting::quote_identifier;
use crate::statistics_queries;

/// Time after which no further ends of indexes are read.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Checks are not evaluated if the planner does not compare them with the query.
const BEGIN: &str = "SET LOCAL statement_timeout = '2s'; SET LOCAL constraint_exclusion = off";
const END: &str = "SET LOCAL statement_timeout = '60s'";

/// Order of NULLs in an index. An index serves `ORDER BY` of its own order only, even if no value is NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NullsOrder {
    /// The default, as if they were larger than all values.
    Largest,
    /// That of `DESC NULLS LAST` and `ASC NULLS FIRST`, as if they were smaller than all values.
    Smallest,
}

impl Exporter<'_> {
    /// Reads the smallest and the largest value of columns that lead an index.
    pub(crate) fn read_index_ends(&mut self) -> Result<(), PlannerCopyError> {
        let wanted = self.query("leading columns", &statistics_queries::leading_columns())?;
        let foreign = self.tables_with_foreign_code()?;
        let places = self.columns_with_histograms();
        let begun_ns = clock::monotonic_ns();
        let mut unread = 0;
        let mut withheld = BTreeSet::new();
        self.query("ends of indexes", BEGIN)?;
        for row in wanted {
            let [
                Some(schema),
                Some(table),
                Some(column),
                Some(has_small_nulls),
            ] = &row[..]
            else {
                continue;
            };
            let key = (schema.clone(), table.clone(), column.clone());
            let Some(&place) = places.get(&key) else {
                continue;
            };
            if foreign.contains(&(key.0, key.1)) {
                withheld.insert(format!("{schema}.{table}"));
                continue;
            }
            if clock::monotonic_ns() - begun_ns > TIME_MAX.as_nanos() as i64 {
                unread += 1;
                continue;
            }
            let nulls = match has_small_nulls == "t" {
                true => NullsOrder::Smallest,
                false => NullsOrder::Largest,
            };
            let ends = self.attempt(&ends_query(schema, table, column, nulls))?;
            match ends.unwrap_or_default().into_iter().next().as_deref() {
                Some([Some(low), Some(high)]) => {
                    self.export.statistics[place].range = Some((low.clone(), high.clone()));
                }
                Some([None, None]) => {}
                _ => unread += 1,
            }
        }
        if unread > 0 {
            self.not_exported(
                format!("smallest and largest values of {unread} indexed columns"),
                "the server refused the query, or it took too long; the ends of the histograms are used",
            );
        }
        if !withheld.is_empty() {
            let names: Vec<String> = withheld.into_iter().collect();
            self.not_exported(
                format!("smallest and largest values of indexed columns of {}", names.join(", ")),
                "indexes or extended statistics of these tables use functions of other roles, which would run with the rights of \
                 the export's role; the ends of the histograms are used; export as the owner of the functions",
            );
        }
        self.query("ends of indexes", END)?;
        Ok(())
    }

    /// Returns the places of columns whose ends the planner looks up, by schema, table and column.
    fn columns_with_histograms(&self) -> HashMap<(String, String, String), usize> {
        let columns = self.export.statistics.iter().enumerate();
        columns
            .filter(|(_, column)| statistics_queries::has_histogram(column))
            .filter_map(|(place, column)| {
                let name = column.column.clone()?;
                Some((
                    (column.schema.clone(), column.relation.clone(), name),
                    place,
                ))
            })
            .collect()
    }

    /// Returns the tables whose planning may execute a function of another role: schema and name.
    fn tables_with_foreign_code(&mut self) -> Result<HashSet<(String, String)>, PlannerCopyError> {
        let rows = self.query("functions of indexes", &statistics_queries::foreign_code())?;
        let tables = rows.into_iter().filter_map(|row| {
            let mut row = row.into_iter().flatten();
            Some((row.next()?, row.next()?))
        });
        Ok(tables.collect())
    }
}

/// Returns the query for the ends of a column. In `ORDER BY`, a name without its table could be that of the result.
/// `IS DISTINCT FROM NULL` is right for composite types, too, and an index serves it (`make_nulltest_from_distinct`).
fn ends_query(schema: &str, table: &str, column: &str, nulls: NullsOrder) -> String {
    let [schema, table, column] = [schema, table, column].map(quote_identifier);
    let end = |direction: &str| {
        format!(
            "(SELECT format('%s', r.{column}) FROM ONLY {schema}.{table} AS r WHERE r.{column} IS DISTINCT FROM NULL \
             ORDER BY r.{column} {direction} LIMIT 1)"
        )
    };
    let [low, high] = match nulls {
        NullsOrder::Largest => ["ASC", "DESC"],
        NullsOrder::Smallest => ["ASC NULLS FIRST", "DESC NULLS LAST"],
    };
    format!("SELECT {}, {}", end(low), end(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_for_the_ends_calls_no_function_that_could_need_a_cast_of_the_column() {
        let sql = ends_query("s", "odd \"t", "format", NullsOrder::Largest);
        assert!(
            sql.starts_with(
                "SELECT (SELECT format('%s', r.\"format\") FROM ONLY \"s\".\"odd \"\"t\" AS r \
                 WHERE r.\"format\" IS DISTINCT FROM NULL ORDER BY r.\"format\" ASC LIMIT 1), (SELECT"
            ),
            "{sql}"
        );
        assert!(!sql.contains("min(") && !sql.contains("max("), "{sql}");
    }

    /// Indexes with each order of NULLs. The column `all_orders` has one of each kind.
    const FEEDS: &str = "
        CREATE TABLE feeds (usual int, descending int, first_nulls int, last_nulls int, all_orders int);
        INSERT INTO feeds SELECT i, i, i, i, i FROM generate_series(1, 20000) i;
        CREATE INDEX ON feeds (usual);
        CREATE INDEX ON feeds (descending DESC);
        CREATE INDEX ON feeds (first_nulls NULLS FIRST);
        CREATE INDEX ON feeds (last_nulls DESC NULLS LAST);
        CREATE INDEX ON feeds (all_orders DESC NULLS LAST);
        CREATE INDEX ON feeds (all_orders)";

    #[test]
    fn query_for_the_ends_reads_an_index_with_each_order_of_nulls() {
        let (_sandbox, endpoint) = test_support::server().start();
        let mut client = test_support::connect(&endpoint);
        client.batch_execute(FEEDS).unwrap();
        client.batch_execute("VACUUM ANALYZE feeds").unwrap();
        let rows = client
            .query(&statistics_queries::leading_columns(), &[])
            .unwrap();
        let mut found = Vec::new();
        for row in rows {
            let (column, has_small_nulls): (String, bool) = (row.get(2), row.get(3));
            let nulls = match has_small_nulls {
                true => NullsOrder::Smallest,
                false => NullsOrder::Largest,
            };
            let sql = ends_query("public", "feeds", &column, nulls);
            let lines = client.query(&format!("EXPLAIN {sql}"), &[]).unwrap();
            let lines: Vec<String> = lines.iter().map(|line| line.get(0)).collect();
            let plan = lines.join("\n");
            assert_eq!(
                plan.matches("Index Only Scan").count(),
                2,
                "{column}: {plan}"
            );
            found.push((column, nulls));
        }
        let expected = [
            ("all_orders", NullsOrder::Largest),
            ("descending", NullsOrder::Largest),
            ("first_nulls", NullsOrder::Smallest),
            ("last_nulls", NullsOrder::Smallest),
            ("usual", NullsOrder::Largest),
        ];
        let expected = expected.map(|(column, nulls)| (column.to_owned(), nulls));
        assert_eq!(found, expected);
    }
}
