//! Distance of the most frequent statement from the call rate at which the spin lock of its entry
//! in `pg_stat_statements` becomes a bottleneck.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::threshold::{Threshold, Thresholds};
use statistics::Unit;

pub(super) const LIMIT: Threshold = Threshold {
    name: "cliff-calls-per-second",
    value: 200_000.0,
    unit: "calls a second of one statement",
    decides: "where the cliff is expected with track_planning on; twice as far without",
    source: "Postgres.FM on track_planning: pgbench -S on some 192 processors; measure yours with `rehearse sweep`",
};

const NEAR: Threshold = Threshold {
    name: "cliff-near",
    value: 2.0,
    unit: "times the calls a second",
    decides: "a cliff that is not so far off is near",
    source: "ours",
};

const SPIN: Threshold = Threshold {
    name: "cliff-spin-share",
    value: 0.05,
    unit: "share of processor time",
    decides: "so much waiting for the spin lock of statistics is the cliff itself",
    source: "ours",
};

/// Functions that take the spin lock.
const LOCK_FUNCTIONS: [&str; 2] = ["pgss_store", "pgss_post_parse_analyze"];

pub(super) const RULE: Rule = Rule {
    name: "statistics-cliff",
    looks_at: "the rate of the most frequent statement, and spin locks under the statistics of statements",
    thresholds: &[LIMIT, NEAR, SPIN],
    evaluate,
};

/// Returns the highest call rate of a statement, with the statement.
pub(super) fn most_frequent(evidence: &Evidence) -> Option<(f64, &StatementEvidence)> {
    let calls = |one: &StatementEvidence| one.counted.map_or(one.calls, |counted| counted.calls);
    let most = evidence.statements.iter().max_by_key(|one| calls(one))?;
    (evidence.elapsed_s > 0.0 && calls(most) > 0)
        .then(|| (calls(most) as f64 / evidence.elapsed_s, most))
}

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.counted.clone()?;
    let Some((rate, statement)) = most_frequent(evidence) else {
        return Ok(Vec::new());
    };
    let planned = statement
        .counted
        .is_some_and(|counted| counted.plan_ns.is_some());
    let limit = thresholds.of(&LIMIT) * if planned { 1.0 } else { 2.0 };
    let distance = limit / rate;
    let spin = evidence.stacks.as_ref().ok().map(|stacks| {
        let spins = stacks
            .spin_locks
            .iter()
            .filter(|(by, _)| LOCK_FUNCTIONS.contains(&by.as_str()));
        let spins: u64 = spins.map(|(_, samples)| samples).sum();
        spins as f64 / stacks.samples().max(1) as f64
    });
    let spins = spin.is_some_and(|share| share >= thresholds.of(&SPIN));
    if distance >= thresholds.of(&NEAR) && !spins {
        return Ok(Vec::new());
    }
    let mut facts = vec![
        Fact::new(
            "calls a second of it",
            rate,
            Unit::PerSecond,
            "pg_stat_statements",
        )
        .check("SELECT calls, query FROM pg_stat_statements ORDER BY calls DESC LIMIT 1"),
        Fact::new(
            "the cliff is expected at",
            limit,
            Unit::PerSecond,
            "the threshold cliff-calls-per-second",
        ),
    ];
    if let Some(share) = spin {
        facts.push(
            Fact::new(
                "waiting for its spin lock, of all stacks",
                share,
                Unit::Share,
                "stacks (perf)",
            )
            .check("rehearse cpu RUN"),
        );
    }
    let change = match planned {
        true => Change::setting(
            "stop counting planning: it takes the lock a second time",
            "pg_stat_statements.track_planning",
            "off",
        ),
        false => Change::setting(
            "stop counting statements while this rate lasts",
            "pg_stat_statements.track",
            "none",
        ),
    };
    let cost = spin.map(|share| share * evidence.whole_ns);
    Ok(vec![Finding {
        rule: "",
        status: Default::default(),
        severity: match spins {
            true => thresholds.severity(spin.unwrap_or(0.0)),
            false => Severity::Warning,
        },
        subject: Subject::statement(statement.fingerprint, statement.sql.clone()),
        title: match spins {
            true => "sessions wait for the spin lock of this statement's statistics".to_owned(),
            false => format!(
                "this statement is within {distance:.1} times of the cliff of its statistics"
            ),
        },
        evidence: facts,
        cost: cost.map(|ns| evidence.cost_of(ns)),
        max_gain: spin,
        changes: vec![change],
        risk: "what is not counted is not seen".to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::StackEvidence;
    use crate::synthetic::{EvidenceBuilder, statement};
    use cpu_profile::phases::Phase;

    fn with(calls: u64, plan_ns: Option<u64>) -> EvidenceBuilder {
        EvidenceBuilder::new().statement(
            statement(1, "select $1")
                .took(calls, 1.0)
                .with_counted(|counted| counted.plan_ns = plan_ns),
        )
    }

    #[test]
    fn near_limit_and_spinning_are_found() {
        assert_eq!(with(60 * 150_000, Some(1)).findings(&RULE).len(), 1);
        let spinning = with(60_000, Some(1)).stacks(StackEvidence {
            hz: 99,
            all: vec![(Phase::SpinLock, 30), (Phase::Scan, 70)],
            spin_locks: vec![("pgss_store".to_owned(), 30)],
            ..StackEvidence::default()
        });
        let found = spinning.findings(&RULE);
        assert_eq!(found[0].severity, Severity::Problem);
        assert_eq!(found[0].max_gain, Some(0.3));
    }

    #[test]
    fn call_rate_far_from_the_limit_is_no_finding() {
        assert_eq!(with(60 * 90_000, Some(1)).findings(&RULE), []);
        assert_eq!(with(60 * 150_000, None).findings(&RULE), []);
        let other = with(60_000, Some(1)).stacks(StackEvidence {
            hz: 99,
            all: vec![(Phase::SpinLock, 30), (Phase::Scan, 70)],
            spin_locks: vec![("LWLockAcquire".to_owned(), 30)],
            ..StackEvidence::default()
        });
        assert_eq!(other.findings(&RULE), []);
    }
}
