//! Statements that are compiled just in time for longer than compilation saves.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{COMPILATION_RISK, Change, Fact, Finding, Severity, Subject};
use crate::threshold::{Threshold, Thresholds};
use crate::usual_work::{Work, usual_call_ns};
use cpu_profile::phases::Phase;
use statistics::Unit;

const SHARE: Threshold = Threshold {
    name: "jit-share",
    value: 0.2,
    unit: "share of a statement's stacks",
    decides: "compilation that takes so much is too much",
    source: "ours",
};

const CALL_MS: Threshold = Threshold {
    name: "jit-call-ms",
    value: 500.0,
    unit: "ms a call",
    decides: "without stacks, a compiled statement that takes less is suspicious",
    source: "ours: compilation takes some tens or hundreds of milliseconds",
};

pub(super) const RULE: Rule = Rule {
    name: "jit",
    looks_at: "just-in-time compilation compared with the time of a call",
    thresholds: &[SHARE, CALL_MS],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    if let (Err(missing), Err(_)) = (&evidence.plans, &evidence.stacks) {
        return Err(missing.clone());
    }
    let all = evidence.statements.iter();
    Ok(all
        .filter_map(|one| finding(evidence, thresholds, one))
        .collect())
}

/// Returns the time beyond what a statement's rows need, which compilation takes at most; `None` if there is none.
pub(super) fn excess_ns(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
) -> Option<f64> {
    let each_ns = Work::of(one).excess_ns(usual_call_ns(evidence, thresholds, one));
    (each_ns > 0.0).then_some(each_ns * one.calls as f64)
}

fn finding(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
) -> Option<Finding> {
    let measured = one.stack_share(&[Phase::Jit]);
    let is_compiled = one.plan.as_ref().is_some_and(|plan| plan.jit);
    let call_ms = one.ns_per_call() / 1e6;
    let mut facts = vec![Fact::new(
        "time a call",
        one.ns_per_call(),
        Unit::Nanoseconds,
        "the statement's own times",
    )];
    let (title, won_ns, severity) = match measured {
        Some((share, samples)) if share >= thresholds.of(&SHARE) => {
            let what = format!("of {samples} stacks, just-in-time compilation");
            let check = format!("rehearse cpu RUN --statement {}", one.fingerprint);
            facts.insert(
                0,
                Fact::new(what, share, Unit::Share, "stacks (perf)").check(check),
            );
            let won_ns = one.ns * share;
            (
                format!(
                    "just-in-time compilation takes {:.0} % of this statement",
                    share * 100.0
                ),
                Some(won_ns),
                thresholds.severity(evidence.share(won_ns)),
            )
        }
        None if is_compiled && one.calls > 0 && call_ms < thresholds.of(&CALL_MS) => (
            format!(
                "it is compiled just in time at every call, and a call takes {call_ms:.0} ms; how much of that is \
                 compilation was not measured"
            ),
            excess_ns(evidence, thresholds, one),
            match excess_ns(evidence, thresholds, one) {
                Some(ns) => thresholds.severity(evidence.share(ns)),
                None => thresholds
                    .severity(evidence.share(one.ns))
                    .max(Severity::Warning),
            },
        ),
        _ => return None,
    };
    let cost = one.plan.as_ref().map_or(0.0, |plan| plan.root.cost);
    facts.push(
        Fact::new("cost of the plan", cost, Unit::Count, "plan (EXPLAIN)")
            .check("EXPLAIN (ANALYZE) of the statement: Timing of JIT, Total"),
    );
    let mut changes = vec![Change::without_compilation()];
    if cost > 0.0 {
        changes.push(Change::setting(
            "compile only what costs ten times more",
            "jit_above_cost",
            format!("{:.0}", (cost * 10.0).max(100_000.0)),
        ));
    }
    Some(Finding {
        rule: "",
        status: Default::default(),
        severity,
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title,
        evidence: facts,
        cost: won_ns.map(|ns| evidence.cost(one, ns)),
        max_gain: won_ns.map(|ns| evidence.share(ns)),
        changes,
        risk: COMPILATION_RISK.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement};

    fn with(phases: &[(Phase, u64)], jit: bool) -> EvidenceBuilder {
        let jit = if jit {
            r#", "JIT": {"Functions": 5}"#
        } else {
            ""
        };
        let plan = format!(
            r#"[{{"Plan": {{"Node Type": "Aggregate", "Strategy": "Hashed", "Plan Rows": 6, "Total Cost": 900,
            "Plans": [{{"Node Type": "Seq Scan", "Relation Name": "sales", "Plan Rows": 20000}}]}}{jit}}}]"#
        );
        EvidenceBuilder::new().statement(
            statement(1, "select kind, sum(amount) from sales group by kind")
                .took(100, 12.0)
                .with_rows(600)
                .with_phases(phases)
                .with_plan(&plan),
        )
    }

    #[test]
    fn compilation_that_dominates_is_found_with_its_share() {
        let found = with(&[(Phase::Jit, 73), (Phase::Scan, 27)], true).findings(&RULE);
        assert_eq!(found[0].severity, Severity::Problem);
        assert_eq!(found[0].max_gain, Some(0.73));
        assert_eq!(found[0].changes[0].option().unwrap(), "--set 'jit=off'");
        let unmeasured = with(&[], true).findings(&RULE);
        assert_eq!(unmeasured[0].severity, Severity::Warning);
        assert_eq!(unmeasured[0].max_gain, None);
    }

    #[test]
    fn little_or_no_compilation_is_no_finding() {
        assert_eq!(
            with(&[(Phase::Jit, 5), (Phase::Scan, 95)], true).findings(&RULE),
            []
        );
        assert_eq!(with(&[], false).findings(&RULE), []);
    }
}
