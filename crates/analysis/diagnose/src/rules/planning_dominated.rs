//! Statements whose planning takes longer than their execution. Prepared, they are planned only a
//! few times for each session instead of at each call.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::threshold::{Threshold, Thresholds};
use cpu_profile::phases::Phase;
use statistics::Unit;

const SHARE: Threshold = Threshold {
    name: "planning-share",
    value: 0.5,
    unit: "share of planning and execution",
    decides: "planning that takes so much dominates a statement",
    source: "ours: more than the work itself",
};

const CALLS: Threshold = Threshold {
    name: "planning-calls",
    value: 100.0,
    unit: "calls",
    decides: "statements sent less often are not worth preparing",
    source: "ours",
};

/// Phases that a prepared statement with a generic plan skips.
const PLANNING_PHASES: [Phase; 4] = [Phase::Parse, Phase::Analyse, Phase::Rewrite, Phase::Plan];

pub(super) const RULE: Rule = Rule {
    name: "planning-dominated",
    looks_at: "planning time compared with execution time of each statement",
    thresholds: &[SHARE, CALLS],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    let tracked = evidence
        .statements
        .iter()
        .any(|one| one.counted.is_some_and(|counted| counted.plan_ns.is_some()));
    if !tracked && evidence.stacks.is_err() {
        return Err(Unavailable::because(
            "planning is not counted (pg_stat_statements.track_planning is off) and no stacks were taken",
        ));
    }
    let mut findings = Vec::new();
    for one in evidence.statements.iter().filter(|one| one.is_work()) {
        if (one.calls as f64) < thresholds.of(&CALLS) {
            continue;
        }
        let Some((share, facts)) = planning(one) else {
            continue;
        };
        if share < thresholds.of(&SHARE) {
            continue;
        }
        let won_ns = one.ns * share;
        let share_of_all = evidence.share(won_ns);
        findings.push(Finding {
            rule: "",
            severity: thresholds.severity(share_of_all),
            subject: Subject::statement(one.fingerprint, one.sql.clone()),
            title: format!("planning takes {:.0} % of this statement", share * 100.0),
            evidence: facts,
            cost: Some(evidence.cost(one, won_ns)),
            max_gain: Some(share_of_all),
            changes: vec![
                Change::rewrite("prepare it once a session and execute it", "prepare"),
                Change::manual(
                    "where a pooler is in between, one that keeps prepared statements (PgBouncer 1.21 and newer)",
                ),
            ],
            risk: "after five executions the server may take a generic plan, which is worse where values \
                   differ much in how many rows they have; plan_cache_mode = force_custom_plan takes that back"
                .to_owned(),
        });
    }
    Ok(findings)
}

/// Returns planning's share and the facts that it is based on.
fn planning(one: &StatementEvidence) -> Option<(f64, Vec<Fact>)> {
    let counted = one.counted.and_then(|counted| {
        let plan_ns = counted.plan_ns? as f64;
        let all_ns = plan_ns + counted.exec_ns as f64;
        (all_ns > 0.0 && counted.calls > 0).then_some((counted, plan_ns / all_ns))
    });
    if let Some((counted, share)) = counted {
        let plans = counted.plans.unwrap_or(0);
        // It is rarely planned, so it is already prepared.
        if plans * 2 < counted.calls {
            return None;
        }
        let check = "SELECT plans, calls, total_plan_time, total_exec_time, query FROM pg_stat_statements ORDER BY total_plan_time DESC";
        return Some((
            share,
            vec![
                Fact::new("plans", plans as f64, Unit::Count, "pg_stat_statements").check(check),
                Fact::new(
                    "calls",
                    counted.calls as f64,
                    Unit::Count,
                    "pg_stat_statements",
                ),
                Fact::new(
                    "planning of planning and execution",
                    share,
                    Unit::Share,
                    "pg_stat_statements",
                ),
            ],
        ));
    }
    let (share, samples) = one.phase_share(&PLANNING_PHASES)?;
    (samples >= 50).then(|| {
        let what = format!("of {samples} stacks, parsing, analysing and planning");
        let check = format!("rehearse cpu RUN --statement {}", one.fingerprint);
        (
            share,
            vec![Fact::new(what, share, Unit::Share, "stacks (perf)").check(check)],
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Form, Severity};
    use crate::synthetic::{EvidenceBuilder, statement};

    fn with(plans: u64, plan_ns: u64) -> EvidenceBuilder {
        EvidenceBuilder::new().statement(
            statement(1, "select * from a join b using (x) where a.y = $1")
                .took(1_000, 1.0)
                .with_counted(|counted| {
                    counted.plans = Some(plans);
                    counted.plan_ns = Some(plan_ns);
                    counted.exec_ns = 300_000_000;
                }),
        )
    }

    #[test]
    fn dominating_planning_is_found() {
        let found = with(1_000, 700_000_000).findings(&RULE);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].severity, Severity::Problem);
        assert!((found[0].max_gain.unwrap() - 0.7).abs() < 1e-9);
        assert_eq!(
            found[0].changes[0].form,
            Form::Rewrite("prepare".to_owned())
        );
        let stacks = EvidenceBuilder::new().statement(
            statement(1, "select $1")
                .took(1_000, 1.0)
                .with_phases(&[(Phase::Plan, 60), (Phase::Scan, 40)]),
        );
        assert_eq!(stacks.stacks(Default::default()).findings(&RULE).len(), 1);
    }

    #[test]
    fn prepared_or_quickly_planned_statements_are_no_finding_and_untracked_planning_is_reported() {
        assert_eq!(with(24, 700_000_000).findings(&RULE), []);
        assert_eq!(with(1_000, 200_000_000).findings(&RULE), []);
        let blind = EvidenceBuilder::new().statement(
            statement(1, "select $1")
                .took(1_000, 1.0)
                .with_counted(|_| ()),
        );
        let missing = (RULE.evaluate)(&blind.evidence, &Thresholds::default()).unwrap_err();
        assert!(missing.to_string().contains("track_planning"));
    }
}
