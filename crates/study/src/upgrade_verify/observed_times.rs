//! Observed times of statements in one database.

use std::collections::HashMap;

use run::StatementStatistics;
use sql::Fingerprint;
use time_breakdown::observed::StatementTotals;

/// Sums the statistics of the statements that clients sent in a database. Those of other databases have other data, and those within
/// functions are not in the workload.
///
/// # Errors
/// The first error of the rows.
pub(super) fn observed_totals<E>(
    rows: impl IntoIterator<Item = Result<StatementStatistics, E>>,
    database: &str,
) -> Result<HashMap<Fingerprint, StatementTotals>, E> {
    let mut totals: HashMap<Fingerprint, StatementTotals> = HashMap::new();
    for row in rows {
        let row = row?;
        let is_of_client = row.top_level != Some(false);
        if let Some(fingerprint) = row.fingerprint
            && is_of_client
            && row.database.as_deref() == Some(database)
        {
            totals.entry(fingerprint).or_default().add(&row);
        }
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn totals_are_those_of_one_database_without_statements_of_functions() {
        let row = |database: &str, top_level: Option<bool>, calls: u64, mean_ms: u64| {
            Ok::<_, Infallible>(StatementStatistics {
                fingerprint: Some(Fingerprint(1)),
                database: Some(database.to_owned()),
                top_level,
                calls,
                exec_ns: calls * mean_ms * 1_000_000,
                ..StatementStatistics::default()
            })
        };
        let rows = [
            row("shop_a", Some(true), 100, 2),
            // Before version 14 it is not known whether a function sent a statement.
            row("shop_a", None, 50, 2),
            row("shop_b", Some(true), 10_000, 40),
            row("shop_a", Some(false), 10_000, 40),
        ];
        let totals = observed_totals(rows, "shop_a").unwrap();
        let found = totals[&Fingerprint(1)];
        assert_eq!((found.calls, found.exec_ns), (150, 300_000_000));
        assert_eq!(totals.len(), 1);
    }
}
