//! Parallel workers that are started for statements which read little.

use super::Rule;
use super::jit::excess_ns;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::threshold::{Threshold, Thresholds};
use statistics::Unit;

const BLOCKS: Threshold = Threshold {
    name: "parallel-start-blocks",
    value: 1_000.0,
    unit: "blocks a call",
    decides: "workers that read more are worth their start",
    source: "min_parallel_table_scan_size: the server's default is 8 MB, 1,024 blocks",
};

/// Cost of starting workers that the server has without configuration.
const SETUP_COST: &str = "1000";

pub(super) const RULE: Rule = Rule {
    name: "parallel-start",
    looks_at: "parallel plans of statements that read few blocks",
    thresholds: &[BLOCKS],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.plans.clone()?;
    let all = evidence.statements.iter();
    Ok(all
        .filter_map(|one| finding(evidence, thresholds, one))
        .collect())
}

fn finding(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
) -> Option<Finding> {
    let workers = one.plan.as_ref()?.workers();
    let counted = one.counted.filter(|counted| counted.calls > 0)?;
    let blocks = (counted.shared_hit + counted.shared_read) as f64 / counted.calls as f64;
    if workers == 0 || blocks >= thresholds.of(&BLOCKS) {
        return None;
    }
    let won_ns = excess_ns(evidence, thresholds, one)?;
    let share = evidence.share(won_ns);
    let setup = evidence.setting("parallel_setup_cost");
    let setup = setup.and_then(|cost| cost.parse::<f64>().ok());
    let change = match setup {
        Some(cost) if cost < 1_000.0 => Change::setting(
            "parallel plans are thought to begin for less than in a server without configuration",
            "parallel_setup_cost",
            SETUP_COST,
        ),
        _ => Change::setting(
            "no parallel workers; better for the role or the transaction that needs none than for all",
            "max_parallel_workers_per_gather",
            "0",
        ),
    };
    Some(Finding {
        rule: "",
        status: Default::default(),
        severity: thresholds.severity(share),
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title: format!(
            "{workers} parallel workers are started for a statement that reads {blocks:.0} blocks; how long that takes was not \
             measured"
        ),
        evidence: vec![
            Fact::new("parallel workers planned", workers as f64, Unit::Count, "plan (EXPLAIN)")
                .check("EXPLAIN (ANALYZE) of the statement: Workers Launched, and its time with max_parallel_workers_per_gather = 0"),
            Fact::new("blocks a call", blocks, Unit::Count, "pg_stat_statements"),
            Fact::new("time a call", one.ns_per_call(), Unit::Nanoseconds, "the statement's own times"),
        ],
        cost: Some(evidence.cost(one, won_ns)),
        max_gain: Some(share),
        changes: vec![change],
        risk: "statements that read much take longer without parallel workers".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement};

    fn with(blocks: u64, seconds: f64) -> Vec<Finding> {
        let plan = r#"[{"Plan": {"Node Type": "Gather", "Workers Planned": 2, "Plan Rows": 100, "Plans": [
            {"Node Type": "Index Only Scan", "Relation Name": "flat", "Index Name": "i", "Plan Rows": 50}]}}]"#;
        EvidenceBuilder::new()
            .statement(
                statement(1, "select amount from flat where issuer = $1")
                    .took(100, seconds)
                    .with_rows(10_000)
                    .with_counted(|counted| counted.shared_hit = 100 * blocks)
                    .with_plan(plan),
            )
            .setting("parallel_setup_cost", "0")
            .findings(&RULE)
    }

    #[test]
    fn workers_for_a_statement_that_reads_little_are_found() {
        let found = with(9, 2.0);
        let change = found[0].changes[0].option();
        assert_eq!(change.unwrap(), "--set 'parallel_setup_cost=1000'");
        assert_eq!(with(5_000, 2.0), []);
        // It takes what its rows need.
        assert_eq!(with(9, 0.1), []);
    }
}
