//! Plans whose row estimates are far from the actual rows, so that the planner chose by a wrong
//! number.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::statement_text::tables;
use crate::threshold::{Threshold, Thresholds};
use plans::PlanNode;
use sql::StatementClass;
use statistics::Unit;

const FACTOR: Threshold = Threshold {
    name: "misestimate-factor",
    value: 10.0,
    unit: "times",
    decides: "estimates that are off by less are usual",
    source: "ours: what is commonly looked for in EXPLAIN ANALYZE",
};

const ROWS: Threshold = Threshold {
    name: "misestimate-rows",
    value: 100.0,
    unit: "rows",
    decides: "where both numbers are smaller, no plan would be another one",
    source: "ours",
};

const CALL_MS: Threshold = Threshold {
    name: "misestimate-call-ms",
    value: 1.0,
    unit: "ms a call",
    decides: "a statement that is faster is planned well enough",
    source: "ours",
};

/// Share of a statement's time in which its plan is executed.
const EXECUTED: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    name: "misestimates",
    looks_at: "the planner's row estimates compared with the actual rows",
    thresholds: &[FACTOR, ROWS, CALL_MS],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.plans.clone()?;
    let all = evidence.statements.iter();
    Ok(all
        .filter_map(|one| {
            stale(evidence, thresholds, one).or_else(|| finding(evidence, thresholds, one))
        })
        .collect())
}

/// Returns the statements that bring up to date what is stale by the server's counters.
fn analyze(evidence: &Evidence, one: &StatementEvidence) -> Vec<String> {
    let tables = tables(&one.sql);
    let known = tables.iter().filter_map(|table| evidence.table(table));
    known
        .filter(|table| evidence.has_stale_statistics(table))
        .map(|table| format!("ANALYZE {}.{};", table.schema, table.name))
        .collect()
}

/// Finds a statement that reads many more blocks than its plan expects, and whose tables have stale statistics.
fn stale(evidence: &Evidence, thresholds: &Thresholds, one: &StatementEvidence) -> Option<Finding> {
    let (counted, plan) = (one.counted?, one.plan.as_ref()?);
    let analyze = analyze(evidence, one);
    // Its own writes would make the statistics stale, and read blocks that are in no plan.
    if analyze.is_empty() || one.class.may_write() || !one.exceeds_its_plan() {
        return None;
    }
    let blocks = (counted.shared_hit + counted.shared_read) as f64 / counted.calls.max(1) as f64;
    let won_ns = one.ns * evidence.execution_share(one);
    let share = evidence.share(won_ns);
    Some(Finding {
        rule: "",
        status: Default::default(),
        severity: thresholds.severity(share),
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title: format!(
            "it reads {blocks:.0} blocks by a plan of cost {:.0}, and the planner's statistics are stale",
            plan.root.cost
        ),
        evidence: vec![
            Fact::new("blocks read a call", blocks, Unit::Count, "pg_stat_statements"),
            Fact::new("cost of the plan", plan.root.cost, Unit::Count, "plan (EXPLAIN)"),
            Fact::new(
                "tables changed by a tenth or more since their last ANALYZE",
                analyze.len() as f64,
                Unit::Count,
                "pg_stat_user_tables",
            )
            .check("SELECT relname, n_live_tup, n_mod_since_analyze, last_analyze, last_autoanalyze FROM pg_stat_user_tables"),
            Fact::new("time a call", one.ns_per_call(), Unit::Nanoseconds, "the statement's own times"),
        ],
        cost: Some(evidence.cost(one, won_ns)),
        max_gain: Some(share),
        changes: vec![Change::sql("new statistics: they are stale", analyze.join("\n"))],
        risk: "plans of other statements may change, too".to_owned(),
    })
}

/// Returns the node whose rows are the statement's result: below nodes that modify tables.
fn answering(node: &PlanNode) -> Option<&PlanNode> {
    match node.kind.as_str() {
        "ModifyTable" => answering(node.children.first()?),
        // The row count after a limit is not an estimate.
        "Limit" => None,
        _ => Some(node),
    }
}

/// Whether an estimate is the least that the planner can make: a row for each member of an append.
fn is_least(node: &PlanNode, estimated: f64) -> bool {
    let mut members = 0;
    node.each(&mut |node, _| {
        if node.is_append() {
            members = members.max(node.children.len());
        }
    });
    estimated <= members as f64
}

/// Returns the node that produces the groups, if the result rows are groups. Their number is
/// estimated from the distinct values of the grouping columns, not from the selectivity of a
/// condition.
fn grouping(node: &PlanNode) -> Option<&PlanNode> {
    match node.kind.as_str() {
        "Aggregate" | "Group" | "Unique" | "SetOp" => Some(node),
        "Sort" | "Incremental Sort" | "Gather" | "Gather Merge" | "Result" | "Subquery Scan" => {
            grouping(node.children.first()?)
        }
        _ => None,
    }
}

fn has_limit(plan: &PlanNode) -> bool {
    let mut found = false;
    plan.each(&mut |node, _| found |= node.kind == "Limit");
    found
}

fn finding(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
) -> Option<Finding> {
    let plan = one.plan.as_ref()?;
    // With a limit inside, the plan's other numbers describe a full scan that did not happen.
    let is_told = matches!(
        one.class,
        StatementClass::Select | StatementClass::Update | StatementClass::Delete
    );
    if !is_told || has_limit(&plan.root) {
        return None;
    }
    let node = answering(&plan.root)?;
    let (estimated, came) = (node.rows.max(1.0), one.rows_per_call()?);
    let actual = came.max(1.0);
    let factor = (estimated / actual).max(actual / estimated);
    if factor < thresholds.of(&FACTOR)
        || estimated.max(actual) < thresholds.of(&ROWS)
        || one.ns_per_call() < thresholds.of(&CALL_MS) * 1e6
    {
        return None;
    }
    // Time in planning, compilation and locks is no matter of estimates.
    let share = evidence.share(one.ns * evidence.execution_share(one));
    let is_executed = evidence.execution_share(one) >= EXECUTED;
    if !is_executed || actual < estimated && is_least(node, estimated) {
        return None;
    }
    let analyze = analyze(evidence, one);
    let groups = grouping(node);
    let mut changes = vec![Change::manual(match groups {
        None => {
            "CREATE STATISTICS over columns that hang together, or a greater statistics target for the column that is skewed"
        }
        Some(_) => {
            "CREATE STATISTICS (ndistinct) over the columns that are grouped by, or over the expression (from 14), then ANALYZE; of one column, ALTER TABLE … ALTER COLUMN … SET (n_distinct = …). ANALYZE alone knows nothing of expressions"
        }
    })];
    if !analyze.is_empty() && groups.is_none() {
        changes.insert(
            0,
            Change::sql(
                "new statistics, first of all: they are stale",
                analyze.join("\n"),
            ),
        );
    }
    Some(Finding {
        rule: "",
        // It is known that the estimate is wrong, but not that another plan would be faster.
        status: Default::default(),
        severity: thresholds.severity(share).max(Severity::Warning),
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title: format!(
            "the planner expects {estimated:.0} {} and {came:.1} come: off by {factor:.0} times",
            if groups.is_some() { "groups" } else { "rows" }
        ),
        evidence: vec![
            Fact::new("rows expected", node.rows, Unit::Count, "plan (EXPLAIN)")
                .check("EXPLAIN (ANALYZE) of the statement: rows of each step, expected and actual"),
            Fact::new("rows that came, a call", came, Unit::Mean, "the statement's own counts"),
            Fact::new("off by", factor, Unit::Times, "both"),
            Fact::new("time a call", one.ns_per_call(), Unit::Nanoseconds, "the statement's own times"),
        ],
        // A wrong number takes no time; the plan that was chosen by it may.
        cost: None,
        max_gain: None,
        changes,
        risk: "a plan for better numbers may be another one for others too; the plan is of one example, or a generic one, \
               and rows are the mean of all calls"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement, table};
    use cpu_profile::phases::Phase;

    fn with(expected: u64, rows: u64, limit: bool) -> EvidenceBuilder {
        let scan = format!(
            r#"{{"Node Type": "Seq Scan", "Relation Name": "orders", "Plan Rows": {expected}}}"#
        );
        let plan = match limit {
            true => format!(
                r#"[{{"Plan": {{"Node Type": "Sort", "Plan Rows": {expected}, "Plans": [{{"Node Type": "Limit", "Plan Rows": {expected}, "Plans": [{scan}]}}]}}}}]"#
            ),
            false => format!(r#"[{{"Plan": {scan}}}]"#),
        };
        EvidenceBuilder::new()
            .statement(
                statement(1, "select * from orders where a = $1 and b = $2")
                    .took(10, 5.0)
                    .with_rows(rows)
                    .with_plan(&plan),
            )
            .table(table("orders", 100_000, &["a int", "b int"]))
    }

    #[test]
    fn wrong_estimates_are_found() {
        let found = with(2, 50_000, false).findings(&RULE);
        assert_eq!(found[0].severity, Severity::Warning);
        assert_eq!(found[0].max_gain, None);
        // New statistics are suggested if they are stale only.
        assert_eq!(found[0].changes[0].option(), None);
        let mut stale = with(2, 50_000, false);
        let rows = [("public.orders".to_owned(), 40_000.0)];
        stale.observed().stale_rows.extend(rows);
        let found = stale.findings(&RULE);
        assert_eq!(found[0].changes[0].option().unwrap(), "--change fix.sql");
        let mut never = with(2, 50_000, false);
        never.facts().relations[0].rows = None;
        assert!(never.findings(&RULE)[0].changes[0].option().is_some());
        assert_eq!(with(50_000, 10, false).findings(&RULE).len(), 1);
    }

    #[test]
    fn wrong_group_estimates_do_not_suggest_analyze() {
        let plan = r#"[{"Plan": {"Node Type": "Sort", "Plan Rows": 50000, "Plans": [{"Node Type": "Aggregate",
            "Strategy": "Hashed", "Plan Rows": 50000, "Group Key": ["(id % 64)"], "Plans": [
            {"Node Type": "Seq Scan", "Relation Name": "orders", "Plan Rows": 50000}]}]}}]"#;
        let all = EvidenceBuilder::new()
            .statement(
                statement(1, "select id % 64, count(*) from orders group by 1")
                    .took(10, 5.0)
                    .with_rows(640)
                    .with_plan(plan),
            )
            .table(table("orders", 100_000, &["id int"]));
        let found = all.findings(&RULE);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].title.contains("50000 groups and 64.0 come"),
            "{found:#?}"
        );
        assert_eq!(found[0].changes.len(), 1, "{found:#?}");
        assert_eq!(found[0].changes[0].option(), None);
    }

    #[test]
    fn a_row_for_each_partition_and_time_in_the_planner_are_no_finding() {
        let member = r#"{"Node Type": "Index Scan", "Relation Name": "meter_1", "Plan Rows": 1}"#;
        let members = vec![member; 300].join(",");
        let plan = format!(
            r#"[{{"Plan": {{"Node Type": "Append", "Plan Rows": 300, "Plans": [{members}]}}}}]"#
        );
        let found = |planning: u64| {
            let one = statement(1, "select * from orders where a = $1")
                .took(100, 5.0)
                .with_rows(if planning > 0 { 50_000 } else { 100 })
                .with_phases(&[(Phase::Plan, planning), (Phase::Scan, 100 - planning)])
                .with_plan(&plan);
            EvidenceBuilder::new().statement(one).findings(&RULE)
        };
        assert_eq!(found(0), []);
        assert_eq!(found(80), []);
        assert_eq!(with(2, 50_000, false).findings(&RULE).len(), 1);
    }

    #[test]
    fn close_estimates_small_results_and_limits_are_no_finding() {
        assert_eq!(with(1_000, 50_000, false).findings(&RULE), []);
        assert_eq!(with(1, 500, false).findings(&RULE), []);
        assert_eq!(with(2, 50_000, true).findings(&RULE), []);
    }

    #[test]
    fn query_that_exceeds_its_plan_needs_statistics_if_they_are_stale() {
        let with = |modified: f64, sql: &str| {
            let plan = r#"[{"Plan": {"Node Type": "Aggregate", "Plan Rows": 1, "Total Cost": 13, "Plans": [
                {"Node Type": "Index Scan", "Relation Name": "orders", "Plan Rows": 1}]}}]"#;
            let mut made = EvidenceBuilder::new()
                .statement(
                    statement(1, sql)
                        .took(10, 5.0)
                        .with_rows(10)
                        .with_counted(|counted| counted.shared_hit = 900_000)
                        .with_plan(plan),
                )
                .table(table("orders", 40_000, &["a int"]));
            made.observed()
                .stale_rows
                .insert("public.orders".to_owned(), modified);
            made.findings(&RULE)
        };
        let query = "select count(*) from orders where a = $1";
        let found = with(30_000.0, query);
        assert_eq!(found[0].severity, Severity::Problem);
        assert_eq!(
            found[0].changes[0].form.text().unwrap(),
            "ANALYZE public.orders;"
        );
        assert_eq!(with(100.0, query), []);
        // The update itself made them stale.
        assert_eq!(with(30_000.0, "update orders set a = $1"), []);
    }
}
