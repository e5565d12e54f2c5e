//! Statements that count all rows of a table.

use super::{INDEX_ROWS, Rule};
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::statement_text::{quote_identifier, tables, words};
use crate::threshold::Thresholds;
use statistics::Unit;

pub(super) const RULE: Rule = Rule {
    name: "whole-counts",
    looks_at: "statements that count all rows of a table",
    thresholds: &[],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.facts.as_ref().map_err(Clone::clone)?;
    let all = evidence.statements.iter();
    Ok(all
        .filter_map(|one| finding(evidence, thresholds, one))
        .collect())
}

/// Whether a statement is `select count(…) from table` and nothing else.
fn counts_all(sql: &str) -> bool {
    let words = words(sql);
    let Some(from) = words.iter().position(|word| *word == "from") else {
        return false;
    };
    let (list, rest) = words.split_at(from);
    let is_count = list.starts_with(&["select", "count", "("]) && !list.contains(&",");
    // A table with an alias at most.
    is_count && list.iter().filter(|word| **word == "(").count() == 1 && rest.len() <= 4 && {
        let after = &rest[1..];
        !after
            .iter()
            .any(|word| matches!(*word, "where" | "," | "(" | "join"))
    }
}

fn finding(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
) -> Option<Finding> {
    if !counts_all(&one.sql) {
        return None;
    }
    let table = evidence.table(tables(&one.sql).first()?)?;
    let rows = table.rows? as f64;
    if rows < thresholds.of(&INDEX_ROWS) {
        return None;
    }
    let won_ns = one.ns * evidence.execution_share(one);
    let share = evidence.share(won_ns);
    let name = format!(
        "{}.{}",
        quote_identifier(&table.schema),
        quote_identifier(&table.name)
    );
    Some(Finding {
        rule: "",
        status: Default::default(),
        severity: thresholds.severity(share),
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title: format!("all rows of {name} are counted, each time"),
        evidence: vec![
            Fact::new("rows of the table", rows, Unit::Count, "pg_class")
                .check(format!("SELECT reltuples FROM pg_class WHERE oid = '{name}'::regclass")),
            Fact::new("calls", one.calls as f64, Unit::Count, "the statement's own counts"),
            Fact::new("time a call", one.ns_per_call(), Unit::Nanoseconds, "the statement's own times"),
        ],
        cost: Some(evidence.cost(one, won_ns)),
        max_gain: Some(share),
        changes: vec![Change::manual(format!(
            "show an estimate: SELECT reltuples FROM pg_class WHERE oid = '{name}'::regclass; or keep a counter; or ask only \
             whether there is a next page (LIMIT one more)"
        ))],
        risk: "the estimate is as old as the last VACUUM or ANALYZE; a counter in one row makes writers wait for one another"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement, table};

    fn found(sql: &str, rows: u64) -> usize {
        let made = EvidenceBuilder::new()
            .statement(statement(1, sql).took(100, 9.0).with_rows(100))
            .table(table("invoice", rows, &["id int"]));
        made.findings(&RULE).len()
    }

    #[test]
    fn count_of_a_whole_large_table_is_found() {
        assert_eq!(found("select count(*) from invoice", 100_000), 1);
        assert_eq!(found("select count(*) from invoice i", 100_000), 1);
        assert_eq!(found("select count(*) from invoice", 1_000), 0);
        for other in [
            "select count(*) from invoice where id > $1",
            "select count(*), max(id) from invoice",
            "select count(*) from invoice group by id",
            "select count(*) from invoice, lines",
        ] {
            assert_eq!(found(other, 100_000), 0, "{other}");
        }
    }
}
