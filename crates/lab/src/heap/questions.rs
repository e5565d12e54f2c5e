//! What customers ask: how often, by how many, and how many of those went on. Each question is over definitions, and
//! has to be answered by their indexes.

use postgres::Client;

use super::definition::{Definition, table};
use super::store::Store;
use crate::LabError;

/// What was asked of one customer's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// What (`count`, `unique users`, `funnel`).
    pub what: &'static str,
    /// The question.
    pub sql: String,
    /// Its answer, as numbers.
    pub answer: Vec<i64>,
    /// Indexes of definitions that the question is over.
    pub wanted: Vec<String>,
    /// Those of them that its plan uses.
    pub used: Vec<String>,
}

impl Asked {
    /// Whether every definition's index is used.
    pub fn uses_all(&self) -> bool {
        self.used == self.wanted
    }
}

fn count(one: &Definition) -> String {
    format!(
        "SELECT count(*) FROM {} WHERE {}",
        table(one.customer),
        one.predicate()
    )
}

fn users(one: &Definition) -> String {
    format!(
        "SELECT count(DISTINCT user_id) FROM {} WHERE {}",
        table(one.customer),
        one.predicate()
    )
}

/// How many did the first, and of those the second behind it.
fn funnel(first: &Definition, second: &Definition) -> String {
    let table = table(first.customer);
    format!(
        "SELECT count(DISTINCT a.user_id), count(DISTINCT b.user_id) FROM (SELECT user_id, min(time) AS time FROM {table} WHERE {} GROUP BY user_id) a LEFT JOIN (SELECT user_id, time FROM {table} WHERE {}) b ON b.user_id = a.user_id AND b.time > a.time",
        first.predicate(),
        second.predicate()
    )
}

/// Asks each kind of question of each of the first `customers`, and how the server answers it.
///
/// # Errors
/// Where the server refuses.
pub fn ask(client: &mut Client, store: &Store, customers: u32) -> Result<Vec<Asked>, LabError> {
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
            ("count", count(first), vec![first]),
            ("unique users", users(second), vec![second]),
            ("funnel", funnel(second, third), vec![second, third]),
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
                .filter(|index| plan.iter().any(|line| uses(line, index)))
                .cloned()
                .collect();
            all.push(Asked {
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

/// Whether a line of a plan is a scan of this index.
fn uses(line: &str, index: &str) -> bool {
    line.split_whitespace()
        .skip_while(|word| *word != "Scan")
        .any(|word| word == index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_used_where_it_is_scanned() {
        let line = "  ->  Bitmap Index Scan on events_1_defined_1";
        assert!(uses(line, "events_1_defined_1"));
        assert!(!uses(line, "events_1_defined_10"));
        assert!(uses(
            "Index Scan using events_1_defined_1 on events_1",
            "events_1_defined_1"
        ));
        assert!(!uses(
            "  Filter: (events_1_defined_1 = 1)",
            "events_1_defined_1"
        ));
    }

    #[test]
    fn a_funnel_goes_from_the_first_to_the_second() {
        let own = Definition::of_customer(4, 3);
        let sql = funnel(&own[1], &own[2]);
        let at = |text: &str| sql.find(text).unwrap();
        assert!(at(&own[1].predicate()) < at(&own[2].predicate()), "{sql}");
    }
}
