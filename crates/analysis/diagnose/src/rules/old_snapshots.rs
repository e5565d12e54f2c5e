//! Transactions that stay open for so long that vacuum cannot remove rows that they might still
//! see.

use super::Rule;
use crate::evidence::{Evidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::threshold::{Threshold, Thresholds};
use statistics::Unit;

const AGE: Threshold = Threshold {
    name: "old-snapshot-s",
    value: 60.0,
    unit: "s",
    decides: "a transaction that is open for so long is old",
    source: "ours: autovacuum_naptime's default, so that vacuum came by and had to leave what it saw",
};

const TRANSACTIONS: Threshold = Threshold {
    name: "old-snapshot-transactions",
    value: 10_000.0,
    unit: "transactions",
    decides: "a snapshot that this number of later transactions have passed holds vacuum back seriously",
    source: "ours",
};

pub(super) const RULE: Rule = Rule {
    name: "old-snapshots",
    looks_at: "the oldest transaction and the oldest snapshot",
    thresholds: &[AGE, TRANSACTIONS],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    let observed = evidence.observed.as_ref().map_err(Clone::clone)?;
    let off = observed
        .probes
        .iter()
        .find(|one| one.probe == "connections");
    if let Some(why) = off.and_then(|probe| probe.disabled_reason.as_ref()) {
        return Err(Unavailable::because(format!(
            "sessions were not looked at: {why}"
        )));
    }
    let source = "transactions";
    let most = |name: &str| {
        evidence
            .counter_change(source, "", name)
            .map_or(0.0, |one| one.max)
    };
    let (age_s, passed) = (most("oldest_seconds"), most("oldest_snapshot_transactions"));
    let is_old = age_s >= thresholds.of(&AGE);
    let is_passed = passed >= thresholds.of(&TRANSACTIONS);
    if !is_old && !is_passed {
        return Ok(Vec::new());
    }
    // Tables in which dead rows accumulate meanwhile.
    let dead = observed
        .counters
        .iter()
        .filter(|one| one.source == "pg_stat_user_tables" && one.name == "n_dead_tup")
        .max_by(|a, b| a.max.total_cmp(&b.max));
    let mut facts = vec![
        Fact::new("the oldest transaction", age_s * 1e9, Unit::Nanoseconds, "xact_start of pg_stat_activity")
            .check("SELECT pid, state, now() - xact_start, age(backend_xmin), query FROM pg_stat_activity ORDER BY xact_start"),
        Fact::new("transactions since the oldest snapshot", passed, Unit::Count, "backend_xmin of pg_stat_activity"),
    ];
    if let Some(dead) = dead {
        facts.push(Fact::new(
            format!("dead rows of {}", dead.object),
            dead.max,
            Unit::Count,
            "pg_stat_user_tables",
        ));
    }
    Ok(vec![Finding {
        rule: "",
        status: Default::default(),
        severity: match is_passed {
            true => Severity::Warning,
            false => Severity::Note,
        },
        subject: Subject::server(),
        title: format!(
            "a transaction was open for {age_s:.0} s, and vacuum leaves all that it could see"
        ),
        evidence: facts,
        cost: None,
        max_gain: None,
        changes: vec![
            Change::setting(
                "end what waits for its client for so long",
                "idle_in_transaction_session_timeout",
                "60s",
            ),
            Change::manual("reports and dumps on a replica; long work in several transactions"),
        ],
        risk: "a client whose transaction was ended has to begin it again".to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::EvidenceBuilder;

    fn with(seconds: f64, passed: f64) -> EvidenceBuilder {
        EvidenceBuilder::new()
            .counter("transactions", "", "oldest_seconds", 0.0, seconds)
            .counter(
                "transactions",
                "",
                "oldest_snapshot_transactions",
                0.0,
                passed,
            )
    }

    #[test]
    fn old_snapshot_passed_by_many_is_a_warning() {
        assert_eq!(
            with(300.0, 50_000.0).findings(&RULE)[0].severity,
            Severity::Warning
        );
        assert_eq!(with(300.0, 5.0).findings(&RULE)[0].severity, Severity::Note);
    }

    #[test]
    fn short_transactions_are_no_finding() {
        assert_eq!(with(20.0, 4_000.0).findings(&RULE), []);
    }
}
