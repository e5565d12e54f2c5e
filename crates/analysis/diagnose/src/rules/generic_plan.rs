//! Prepared statements that are forced to a generic plan, which reads much more than the plan for
//! their values.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::threshold::Thresholds;
use statistics::Unit;

const SETTING: &str = "plan_cache_mode";

pub(super) const RULE: Rule = Rule {
    name: "generic-plan",
    looks_at: "blocks read compared with the plan for the statement's values, under a forced generic plan",
    thresholds: &[],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.facts.as_ref().map_err(Clone::clone)?;
    evidence.plans.clone()?;
    if evidence.setting(SETTING) != Some("force_generic_plan") {
        return Ok(Vec::new());
    }
    let all = evidence.statements.iter();
    Ok(all
        .filter(|one| one.exceeds_its_plan())
        .filter_map(|one| finding(evidence, thresholds, one))
        .collect())
}

fn finding(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
) -> Option<Finding> {
    let (counted, plan) = (one.counted?, one.plan.as_ref()?);
    let blocks = (counted.shared_hit + counted.shared_read) as f64 / counted.calls.max(1) as f64;
    let won_ns = one.ns * evidence.execution_share(one);
    let share = evidence.share(won_ns);
    Some(Finding {
        rule: "",
        status: Default::default(),
        severity: thresholds.severity(share),
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title: "it ran by another plan than the one for its values: plan_cache_mode = force_generic_plan is set"
            .to_owned(),
        evidence: vec![
            Fact::new("blocks read a call", blocks, Unit::Count, "pg_stat_statements")
                .check("SELECT name, generic_plans, custom_plans FROM pg_prepared_statements (in the session, from 14)"),
            Fact::new(
                "cost of the plan for its values",
                plan.root.cost,
                Unit::Count,
                "plan (EXPLAIN)",
            ),
            Fact::new(
                "time a call",
                one.ns_per_call(),
                Unit::Nanoseconds,
                "the statement's own times",
            ),
        ],
        cost: Some(evidence.cost(one, won_ns)),
        max_gain: Some(share),
        changes: vec![Change::setting(
            "let the server choose between generic and custom plans",
            SETTING,
            "auto",
        )],
        risk: "statements whose generic plan is as good are planned at each call until the server has compared both"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::synthetic::{EvidenceBuilder, statement};

    fn with(mode: &str, blocks: u64) -> EvidenceBuilder {
        let plan = r#"[{"Plan": {"Node Type": "Index Scan", "Relation Name": "part_no", "Index Name": "i",
            "Total Cost": 8.4, "Plan Rows": 1}}]"#;
        EvidenceBuilder::new()
            .statement(
                statement(1, "select * from part_no where code like $1")
                    .took(100, 8.0)
                    .with_rows(100)
                    .with_counted(|counted| counted.shared_hit = 100 * blocks)
                    .with_plan(plan),
            )
            .setting("plan_cache_mode", mode)
    }

    #[test]
    fn forced_generic_plan_that_reads_more_is_found() {
        let found = with("force_generic_plan", 4_919).findings(&RULE);
        assert_eq!(found[0].severity, Severity::Problem);
        assert_eq!(
            found[0].changes[0].option().unwrap(),
            "--set 'plan_cache_mode=auto'"
        );
    }

    #[test]
    fn generic_plan_that_is_as_good_or_not_forced_is_no_finding() {
        assert_eq!(with("force_generic_plan", 4).findings(&RULE), []);
        assert_eq!(with("auto", 4_919).findings(&RULE), []);
    }
}
