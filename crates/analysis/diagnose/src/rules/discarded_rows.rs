//! Rows that a statement makes and then drops: a join whose copies `DISTINCT` removes, and a common table expression
//! that is computed as a whole although few of its rows are used.

use super::Rule;
use super::wasteful_steps::{KEPT, ROWS};
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::statement_text::words;
use crate::threshold::{Threshold, Thresholds};
use plans::{Plan, PlanNode};
use statistics::Unit;

const COPIES: Threshold = Threshold {
    name: "discarded-copies",
    value: 5.0,
    unit: "rows for each row given",
    decides: "DISTINCT that removes more copies hides a join that multiplies rows",
    source: "ours",
};

pub(super) const RULE: Rule = Rule {
    name: "discarded-rows",
    looks_at: "rows that DISTINCT removes after a join, and rows of WITH queries that are not used",
    thresholds: &[COPIES],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.plans.clone()?;
    let mut findings = Vec::new();
    for one in &evidence.statements {
        let Some(plan) = &one.plan else { continue };
        findings.extend(copies(evidence, thresholds, one, plan));
        findings.extend(unused(evidence, thresholds, one, plan));
    }
    Ok(findings)
}

/// Returns the alias that all columns of a `SELECT DISTINCT` list have; `None` if they have several or none.
fn distinct_alias(sql: &str) -> Option<&str> {
    let words = words(sql);
    let from = words.iter().position(|word| *word == "from")?;
    let list = words[..from].strip_prefix(&["select", "distinct"])?;
    let mut aliases = list.split(|word| *word == ",").map(|item| match item {
        [column] => column.split_once('.').map(|(alias, _)| alias),
        _ => None,
    });
    let first = aliases.next()??;
    aliases.all(|one| one == Some(first)).then_some(first)
}

/// Finds a `DISTINCT` over the columns of one table that is joined with others.
fn copies(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
    plan: &Plan,
) -> Option<Finding> {
    let alias = distinct_alias(&one.sql)?;
    let mut below = None;
    let mut others: Vec<&str> = Vec::new();
    plan.root.each(&mut |node, _| {
        if below.is_none() && matches!(node.kind.as_str(), "Unique" | "Aggregate") {
            below = node.children.first();
        }
        let of_other = node.alias.as_deref().is_some_and(|own| own != alias);
        if let Some(name) = node
            .relation
            .as_deref()
            .filter(|_| of_other && node.is_scan())
        {
            others.push(name);
        }
    });
    let (made, given) = (below?.rows, one.rows_per_call()?.max(1.0));
    let factor = made / given;
    if factor < thresholds.of(&COPIES) || made < thresholds.of(&ROWS) || others.is_empty() {
        return None;
    }
    others.dedup();
    let others = others.join(", ");
    Some(finding(
        evidence,
        thresholds,
        one,
        (
            format!(
                "a join with {others} makes {factor:.0} copies of each row, which DISTINCT removes"
            ),
            vec![
                Fact::new(
                    "rows before DISTINCT (estimated)",
                    made,
                    Unit::Count,
                    "plan (EXPLAIN)",
                ),
                Fact::new(
                    "rows given a call",
                    given,
                    Unit::Mean,
                    "the statement's own counts",
                ),
            ],
            Change::manual(format!(
                "no column of {others} is asked for: write WHERE EXISTS (SELECT FROM {others} WHERE …) in place of the join, and \
                 leave out DISTINCT"
            )),
            "without DISTINCT, rows that are equal in the table itself are all given".to_owned(),
        ),
    ))
}

/// Returns the scan of a WITH query that keeps few of its rows, with the number of rows that are computed.
pub(super) fn wasteful_cte(thresholds: &Thresholds, plan: &Plan) -> Option<(String, f64, f64)> {
    let mut computed: f64 = 0.0;
    let mut is_recursive = false;
    let mut scan: Option<&PlanNode> = None;
    plan.root.each(&mut |node, _| {
        if node.relationship == "InitPlan" {
            computed = computed.max(node.rows);
        }
        is_recursive |= node.kind == "Recursive Union";
        let is_filtered = node.conditions.iter().any(|one| one.label == "Filter");
        if node.kind == "CTE Scan" && is_filtered && scan.is_none() {
            scan = Some(node);
        }
    });
    let scan = scan.filter(|_| !is_recursive)?;
    let is_wasteful =
        computed >= thresholds.of(&ROWS) && scan.rows <= computed * thresholds.of(&KEPT);
    let name = scan.relation.clone().or(scan.alias.clone())?;
    is_wasteful.then_some((name, computed, scan.rows))
}

/// Finds a WITH query that is computed as a whole.
fn unused(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
    plan: &Plan,
) -> Option<Finding> {
    let (name, computed, kept) = wasteful_cte(thresholds, plan)?;
    let words = words(&one.sql);
    let is_written = words.windows(2).any(|two| two == ["as", "materialized"]);
    let change = match is_written {
        true => format!(
            "leave out MATERIALIZED, or write NOT MATERIALIZED, so that the condition on {name} reaches its tables"
        ),
        false => format!(
            "write {name} as a subquery, or from PostgreSQL 12 on as NOT MATERIALIZED, so that the condition on it reaches its tables"
        ),
    };
    Some(finding(
        evidence,
        thresholds,
        one,
        (
            format!("all rows of the WITH query {name} are computed and kept apart (materialized), and few are used"),
            vec![
                Fact::new("rows computed (estimated)", computed, Unit::Count, "plan (EXPLAIN)"),
                Fact::new("rows used (estimated)", kept, Unit::Count, "plan (EXPLAIN)"),
            ],
            Change::manual(change),
            "a query that is used several times is then computed several times; functions with effects may run otherwise"
                .to_owned(),
        ),
    ))
}

fn finding(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
    (title, mut facts, change, risk): (String, Vec<Fact>, Change, String),
) -> Finding {
    let won_ns = one.ns * evidence.execution_share(one);
    let share = evidence.share(won_ns);
    facts.push(Fact::new(
        "time a call",
        one.ns_per_call(),
        Unit::Nanoseconds,
        "the statement's own times",
    ));
    Finding {
        rule: "",
        status: Default::default(),
        severity: thresholds.severity(share),
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title,
        evidence: facts,
        cost: Some(evidence.cost(one, won_ns)),
        max_gain: Some(share),
        changes: vec![change],
        risk,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement};

    fn found(sql: &str, plan: &str, rows: u64) -> Vec<Finding> {
        EvidenceBuilder::new()
            .statement(
                statement(1, sql)
                    .took(10, 9.0)
                    .with_rows(rows)
                    .with_plan(plan),
            )
            .findings(&RULE)
    }

    #[test]
    fn distinct_after_a_join_that_multiplies_rows_is_found() {
        let plan = r#"[{"Plan": {"Node Type": "Unique", "Plan Rows": 12000, "Plans": [{"Node Type": "Sort", "Plan Rows": 12000,
            "Plans": [{"Node Type": "Hash Join", "Join Type": "Inner", "Plan Rows": 12000, "Plans": [
            {"Node Type": "Seq Scan", "Relation Name": "line", "Alias": "c", "Plan Rows": 120000},
            {"Node Type": "Seq Scan", "Relation Name": "bill", "Alias": "p", "Plan Rows": 250}]}]}]}}]"#;
        let join = "from bill p join line c on c.bill_id = p.id where p.grp = $1";
        let sql = format!("select distinct p.id, p.name {join}");
        let one = found(&sql, plan, 2_500);
        assert!(one[0].title.contains("join with line"), "{}", one[0].title);
        assert!(one[0].changes[0].words.contains("EXISTS"));
        // Columns of both, and copies that are few.
        assert_eq!(
            found(&format!("select distinct p.id, c.name {join}"), plan, 2_500),
            []
        );
        assert_eq!(found(&sql, plan, 60_000), []);
    }

    #[test]
    fn with_query_of_which_little_is_used_is_found() {
        let plan = |rows: u64| {
            format!(
                r#"[{{"Plan": {{"Node Type": "CTE Scan", "CTE Name": "recent", "Alias": "recent", "Plan Rows": {rows},
                "Filter": "(id = 5)", "Plans": [{{"Node Type": "Seq Scan", "Parent Relationship": "InitPlan",
                "Relation Name": "bill", "Plan Rows": 100000}}]}}}}]"#
            )
        };
        let sql =
            "with recent as materialized (select id from bill) select * from recent where id = $1";
        let one = found(sql, &plan(500), 10);
        assert!(one[0].changes[0].words.contains("leave out MATERIALIZED"));
        assert_eq!(found(sql, &plan(90_000), 10), []);
    }
}
