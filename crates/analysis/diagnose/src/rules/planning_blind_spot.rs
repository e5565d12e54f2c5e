//! Planning is not tracked although it would be cheap here, and a statement takes much time that is
//! not counted as execution: `track_planning` is off, and the call rate is far below the contention
//! limit.

use super::Rule;
use super::statistics_cliff::{LIMIT, most_frequent};
use crate::evidence::{Evidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::threshold::{PROBLEM, Threshold, Thresholds};
use statistics::Unit;

const DISTANCE: Threshold = Threshold {
    name: "planning-cliff-distance",
    value: 5.0,
    unit: "times the calls a second",
    decides: "a cliff that is so far off is far",
    source: "ours",
};

const UNSEEN_MS: Threshold = Threshold {
    name: "planning-unseen-ms",
    value: 1.0,
    unit: "ms a call",
    decides: "less time outside of the counted execution is the way to the client; with 0 it does not matter",
    source: "ours",
};

/// Share of a statement's time outside of its counted execution.
const UNSEEN_SHARE: f64 = 0.5;

pub(super) const RULE: Rule = Rule {
    name: "planning-blind-spot",
    looks_at: "whether planning is counted, and what speaks against it",
    thresholds: &[DISTANCE, UNSEEN_MS],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.counted.clone()?;
    let counted = evidence.statements.iter().filter_map(|one| one.counted);
    let (mut any, mut planned) = (false, false);
    for one in counted {
        any = true;
        planned |= one.plan_ns.is_some();
    }
    if !any || planned {
        return Ok(Vec::new());
    }
    if evidence.server_major.is_some_and(|major| major < 13) {
        return Err(Unavailable::because(
            "servers before 13 do not count planning",
        ));
    }
    let unseen = evidence.statements.iter().find(|one| {
        let is_unseen = evidence.ns_outside_execution(one).is_some_and(|ns| {
            ns >= thresholds.of(&UNSEEN_MS) * 1e6 && ns >= UNSEEN_SHARE * one.ns_per_call()
        });
        one.is_work() && is_unseen && evidence.share(one.ns) >= thresholds.of(&PROBLEM)
    });
    if unseen.is_none() && thresholds.of(&UNSEEN_MS) > 0.0 {
        return Ok(Vec::new());
    }
    let Some((rate, _)) = most_frequent(evidence) else {
        return Err(Unavailable::because(
            "no statement was counted while it was looked",
        ));
    };
    let distance = thresholds.of(&LIMIT) / rate.max(f64::MIN_POSITIVE);
    if distance < thresholds.of(&DISTANCE) {
        return Ok(Vec::new());
    }
    Ok(vec![Finding {
        rule: "",
        status: Default::default(),
        severity: Severity::Note,
        subject: Subject::setting("pg_stat_statements.track_planning".to_owned()),
        title: match unseen {
            Some(one) => format!(
                "planning is not counted, and {} takes more than half of its time outside of its execution; the cliff that \
                 speaks against counting it is far",
                one.fingerprint
            ),
            None => "planning is not counted, and may take any time unseen; the cliff that speaks against it is far"
                .to_owned(),
        },
        evidence: vec![
            Fact::new(
                "time a call outside of the counted execution",
                unseen
                    .and_then(|one| evidence.ns_outside_execution(one))
                    .unwrap_or(0.0),
                Unit::Nanoseconds,
                "the statement's own times and pg_stat_statements",
            ),
            Fact::new(
                "calls a second of the most frequent statement",
                rate,
                Unit::PerSecond,
                "pg_stat_statements",
            )
            .check("SELECT calls, query FROM pg_stat_statements ORDER BY calls DESC LIMIT 1"),
            Fact::new("the cliff is further by", distance, Unit::Times, "the threshold cliff-calls-per-second"),
        ],
        cost: None,
        max_gain: None,
        changes: vec![Change::setting(
            "count planning as well; a reload is enough",
            "pg_stat_statements.track_planning",
            "on",
        )],
        risk: "each call takes the statement's spin lock once more: on machines with very many processors, \
               one statement sent hundreds of thousands of times a second is slowed down"
            .to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement};

    fn with(calls: u64, plans: Option<u64>) -> EvidenceBuilder {
        let seconds = calls as f64 * 0.01;
        EvidenceBuilder::new().statement(
            statement(1, "select $1")
                .took(calls, seconds)
                .with_counted(|counted| {
                    counted.plans = plans;
                    counted.plan_ns = plans;
                    counted.exec_ns = calls * 1_000_000;
                }),
        )
    }

    #[test]
    fn untracked_planning_far_from_the_limit_is_noted() {
        let found = with(60_000, None).findings(&RULE);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].severity, Severity::Note);
        assert_eq!(
            found[0].changes[0].option().unwrap(),
            "--set 'pg_stat_statements.track_planning=on'"
        );
    }

    #[test]
    fn near_the_limit_or_with_tracked_planning_is_no_finding() {
        assert_eq!(with(60 * 100_000, None).findings(&RULE), []);
        assert_eq!(with(60_000, Some(60_000)).findings(&RULE), []);
    }

    #[test]
    fn execution_that_takes_most_of_the_time_is_no_finding() {
        let executed = EvidenceBuilder::new().statement(
            statement(1, "select $1")
                .took(100, 1.0)
                .with_counted(|counted| counted.exec_ns = 900_000_000),
        );
        assert_eq!(executed.findings(&RULE), []);
        // The rate alone decides if that is asked for.
        let mut thresholds = Thresholds::default();
        thresholds.set("planning-unseen-ms=0").unwrap();
        let mut observed = executed.evidence();
        observed.basis = crate::Basis::Observation;
        assert_eq!((RULE.evaluate)(&observed, &thresholds).unwrap().len(), 1);
    }
}
