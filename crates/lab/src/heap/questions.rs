//! Customers' queries: counts, unique users and funnels. Each query is over definitions, and should use their
//! indexes.

use postgres::Client;

use super::definition::{Definition, table};
use super::store::Store;
use crate::LabError;

/// A query over one customer's events, with its answer and plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryResult {
    /// Kind of the query: `count`, `unique users` or `funnel`.
    pub what: &'static str,
    /// Text of the query.
    pub sql: String,
    /// Result, as numbers.
    pub answer: Vec<i64>,
    /// Names of the indexes of the definitions in the query.
    pub wanted: Vec<String>,
    /// Names of those that its plan uses.
    pub used: Vec<String>,
}

impl QueryResult {
    /// Reports whether every definition's index is used.
    pub fn uses_all(&self) -> bool {
        self.used == self.wanted
    }
}

fn count_query(one: &Definition) -> String {
    format!(
        "SELECT count(*) FROM {} WHERE {}",
        table(one.customer),
        one.predicate()
    )
}

fn users_query(one: &Definition) -> String {
    format!(
        "SELECT count(DISTINCT user_id) FROM {} WHERE {}",
        table(one.customer),
        one.predicate()
    )
}

/// Builds the query of a funnel: the number of users with the first event, and of those with the second after it.
fn funnel_query(first: &Definition, second: &Definition) -> String {
    let table = table(first.customer);
    format!(
        "SELECT count(DISTINCT a.user_id), count(DISTINCT b.user_id) FROM (SELECT user_id, min(time) AS time FROM {table} WHERE {} GROUP BY user_id) a LEFT JOIN (SELECT user_id, time FROM {table} WHERE {}) b ON b.user_id = a.user_id AND b.time > a.time",
        first.predicate(),
        second.predicate()
    )
}

/// Executes each kind of query for the first `customers`, and reads its plan.
///
/// # Errors
/// If the server refuses.
pub fn run_queries(
    client: &mut Client,
    store: &Store,
    customers: u32,
) -> Result<Vec<QueryResult>, LabError> {
    let failed = LabError::server("a question cannot be asked");
    let mut all = Vec::new();
    for customer in 0..customers.min(store.size.customers) {
        let own: Vec<&Definition> = store
            .definitions
            .iter()
            .filter(|one| one.customer == customer)
            .collect();
        let [first, second, third, ..] = own[..] else {
            continue;
        };
        let questions = [
            ("count", count_query(first), vec![first]),
            ("unique users", users_query(second), vec![second]),
            ("funnel", funnel_query(second, third), vec![second, third]),
        ];
        for (what, sql, over) in questions {
            let row = client.query_one(&sql, &[]).map_err(&failed)?;
            let answer = (0..row.len()).map(|column| row.get(column)).collect();
            let plan = client
                .query(&format!("EXPLAIN (COSTS OFF) {sql}"), &[])
                .map_err(&failed)?;
            let plan: Vec<String> = plan.iter().map(|line| line.get(0)).collect();
            let wanted: Vec<String> = over.iter().map(|one| one.index()).collect();
            let used = wanted
                .iter()
                .filter(|index| plan.iter().any(|line| is_scan_of(line, index)))
                .cloned()
                .collect();
            all.push(QueryResult {
                what,
                sql,
                answer,
                wanted,
                used,
            });
        }
    }
    Ok(all)
}

/// Reports whether a line of a plan is a scan of this index.
fn is_scan_of(line: &str, index: &str) -> bool {
    line.split_whitespace()
        .skip_while(|word| *word != "Scan")
        .any(|word| word == index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_scan_of_recognises_index_scans() {
        let line = "  ->  Bitmap Index Scan on events_1_defined_1";
        assert!(is_scan_of(line, "events_1_defined_1"));
        assert!(!is_scan_of(line, "events_1_defined_10"));
        assert!(is_scan_of(
            "Index Scan using events_1_defined_1 on events_1",
            "events_1_defined_1"
        ));
        assert!(!is_scan_of(
            "  Filter: (events_1_defined_1 = 1)",
            "events_1_defined_1"
        ));
    }

    #[test]
    fn funnel_query_orders_the_two_events() {
        let own = Definition::of_customer(4, 3);
        let sql = funnel_query(&own[1], &own[2]);
        let at = |text: &str| sql.find(text).unwrap();
        assert!(at(&own[1].predicate()) < at(&own[2].predicate()), "{sql}");
    }
}
