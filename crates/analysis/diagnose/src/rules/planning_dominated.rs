//! Statements whose planning takes longer than their execution. Prepared, they are planned only a
//! few times for each session instead of at each call.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::threshold::{Threshold, Thresholds};
use crate::time_shares::PLANNING_PHASES;
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

/// Calls in each session from which preparing pays: the first one is planned anyway.
const REUSES: f64 = 2.0;

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
    let all = &evidence.statements;
    let is_sampled = all
        .iter()
        .any(|one| evidence.share_before_execution(one).is_some());
    if !tracked && evidence.stacks.is_err() && !is_sampled {
        return Err(Unavailable::because(
            "planning is not counted (pg_stat_statements.track_planning is off), no stacks were taken, and samples of \
             running backends are too few",
        ));
    }
    let mut findings = Vec::new();
    for one in evidence.statements.iter().filter(|one| one.is_work()) {
        if (one.calls as f64) < thresholds.of(&CALLS) || is_of_short_sessions(evidence, one) {
            continue;
        }
        let Some((share, facts)) = planning(evidence, one) else {
            continue;
        };
        if share < thresholds.of(&SHARE) {
            continue;
        }
        let won_ns = one.ns * share;
        let share_of_all = evidence.share(won_ns);
        findings.push(Finding {
            rule: "",
            status: Default::default(),
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

/// Whether sessions end before a prepared statement is used again: each opens a connection, whose caches are empty.
fn is_of_short_sessions(evidence: &Evidence, one: &StatementEvidence) -> bool {
    let sessions = evidence.sessions.as_ref();
    sessions.is_ok_and(|sessions| (one.calls as f64) < sessions.connected as f64 * REUSES)
}

/// Returns planning's share and the facts that it is based on: counted, from stacks, or from samples
/// of running backends compared with the counted execution.
fn planning(evidence: &Evidence, one: &StatementEvidence) -> Option<(f64, Vec<Fact>)> {
    if let (Some(share), Some(counted)) = (one.counted_planning_share(), one.counted) {
        let plans = counted.plans.unwrap_or(0);
        // It is rarely planned, so it is already prepared.
        if plans * 2 < counted.calls {
            return None;
        }
        let check = "SELECT plans, calls, total_plan_time, total_exec_time, query FROM pg_stat_statements ORDER BY total_plan_time DESC";
        let from = "pg_stat_statements";
        let what = "planning of planning and execution";
        return Some((
            share,
            vec![
                Fact::new("plans", plans as f64, Unit::Count, from).check(check),
                Fact::new("calls", counted.calls as f64, Unit::Count, from),
                Fact::new(what, share, Unit::Share, from),
            ],
        ));
    }
    if let Some((share, samples)) = one.stack_share(&PLANNING_PHASES) {
        let what = format!("of {samples} stacks, parsing, analysing and planning");
        let check = format!("rehearse cpu RUN --statement {}", one.fingerprint);
        let fact = Fact::new(what, share, Unit::Share, "stacks (perf)").check(check);
        return Some((share, vec![fact]));
    }
    let (share, samples) = evidence.share_before_execution(one)?;
    let counted = one.counted?;
    let execution_ns = counted.exec_ns as f64 / counted.calls.max(1) as f64;
    let what = format!("of {samples} samples on a processor, not in its counted execution");
    let from = "pg_stat_activity and pg_stat_statements";
    Some((
        share,
        vec![
            Fact::new(what, share, Unit::Share, from)
                .check("SET pg_stat_statements.track_planning = on, then total_plan_time of pg_stat_statements"),
            Fact::new("execution a call", execution_ns, Unit::Nanoseconds, "pg_stat_statements"),
        ],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Form, Severity};
    use crate::synthetic::{EvidenceBuilder, statement};
    use cpu_profile::phases::Phase;

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
    fn processor_time_outside_of_the_counted_execution_is_planning() {
        let sampled = |exec_ns: u64| {
            EvidenceBuilder::new().statement(
                statement(1, "select * from meter where serial = $1")
                    .took(1_000, 25.0)
                    .with_counted(|counted| counted.exec_ns = exec_ns)
                    .waiting("", "", 480),
            )
        };
        let found = sampled(5_400_000_000).findings(&RULE);
        assert!(
            (found[0].max_gain.unwrap() - 0.775).abs() < 0.001,
            "{found:#?}"
        );
        assert_eq!(sampled(22_000_000_000).findings(&RULE), []);
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

    #[test]
    fn statement_of_sessions_that_end_after_it_is_not_worth_preparing() {
        let with = |connected| {
            let mut made = with(1_000, 700_000_000);
            made.evidence.sessions = Ok(crate::history::SessionAccount {
                connected,
                ..Default::default()
            });
            made.findings(&RULE).len()
        };
        assert_eq!([with(10), with(1_000)], [1, 0]);
    }
}
