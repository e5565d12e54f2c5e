//! Statements that wait for locks, the holders of these locks, and deadlocks.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::threshold::{Threshold, Thresholds};
use statistics::Unit;
use workload::Sqlstate;

const SHARE: Threshold = Threshold {
    name: "lock-wait-share",
    value: 0.01,
    unit: "share of time",
    decides: "waits that are less of the time are not told",
    source: "ours",
};

const DEADLOCK: Sqlstate = Sqlstate(*b"40P01");
/// Minimum number of samples.
const SAMPLES_MIN: u64 = 5;

pub(super) const RULE: Rule = Rule {
    name: "lock-waits",
    looks_at: "waits for locks, who held them, and deadlocks",
    thresholds: &[SHARE],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    if let (Err(missing), Err(_)) = (&evidence.sample_ns, &evidence.log) {
        let failed = evidence.statements.iter().any(|one| !one.failed.is_empty());
        if !failed {
            return Err(missing.clone());
        }
    }
    let mut findings = Vec::new();
    for one in &evidence.statements {
        findings.extend(waits(evidence, thresholds, one));
    }
    findings.extend(deadlocks(evidence));
    Ok(findings)
}

fn waits(evidence: &Evidence, thresholds: &Thresholds, one: &StatementEvidence) -> Option<Finding> {
    let samples = one.samples_waiting("Lock");
    let sampled = evidence
        .sample_ns
        .as_ref()
        .ok()
        .filter(|_| samples >= SAMPLES_MIN);
    let (ns, waits, from) = match (sampled, &evidence.log) {
        (Some(each_ns), _) => (
            each_ns * samples as f64,
            samples,
            "samples of pg_stat_activity",
        ),
        (None, Ok(log)) => {
            let (count, ns) = log.lock_waits.get(&Some(one.fingerprint)).copied()?;
            (ns, count, "the server's log (log_lock_waits)")
        }
        _ => return None,
    };
    let share = evidence.share(ns);
    if share < thresholds.of(&SHARE) {
        return None;
    }
    let observed = evidence.observed.as_ref().ok();
    let blocker = observed.and_then(|observed| {
        let mut all = observed.blocking.iter();
        all.find(|blocked| blocked.blocked.as_deref() == Some(&one.sql))
    });
    let mut facts = vec![
        Fact::new("time that it waited for locks", ns, Unit::Nanoseconds, from)
            .check("SELECT pid, pg_blocking_pids(pid), wait_event, query FROM pg_stat_activity WHERE wait_event_type = 'Lock'"),
        Fact::new("of its own time", ns / one.ns.max(1.0), Unit::Share, from),
        Fact::new("waits, or samples of them", waits as f64, Unit::Count, from),
    ];
    let idle =
        blocker.is_some_and(|blocker| blocker.blocker_state.starts_with("idle in transaction"));
    let mut held = String::new();
    if let Some(blocker) = blocker {
        facts.push(Fact::new(
            format!(
                "samples in which it waited for a session that was {}",
                blocker.blocker_state
            ),
            blocker.samples as f64,
            Unit::Count,
            "pg_blocking_pids",
        ));
        let of_itself = blocker.blocker.as_deref() == Some(&one.sql);
        held = match (&blocker.blocker, of_itself) {
            (_, true) => ", held by others of its kind".to_owned(),
            (Some(sql), _) => {
                let short: String = sql.chars().take(60).collect();
                format!(", held after: {short}")
            }
            _ => String::new(),
        };
    }
    let change = match idle {
        true => {
            "end transactions before the application does something else: the lock is held by one that is idle"
        }
        false => {
            "change rows that all want last in a transaction, or spread them over several rows; keep transactions short"
        }
    };
    Some(Finding {
        rule: "",
        severity: thresholds.severity(share),
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title: format!(
            "it waits for locks {:.0} % of its time{held}",
            (ns / one.ns.max(1.0)).min(1.0) * 100.0
        ),
        evidence: facts,
        cost: Some(evidence.cost(one, ns)),
        max_gain: Some(share),
        changes: vec![Change::manual(change)],
        risk: "what is done in another order, or in another transaction, may fail in between"
            .to_owned(),
    })
}

fn deadlocks(evidence: &Evidence) -> Option<Finding> {
    let failed = |one: &StatementEvidence| one.failed.get(&DEADLOCK).copied().unwrap_or(0);
    let of_statements: u64 = evidence.statements.iter().map(failed).sum();
    let logged: u64 = evidence
        .log
        .as_ref()
        .map_or(0, |log| log.deadlocks.values().sum());
    let counted: f64 = evidence.observed.as_ref().map_or(0.0, |observed| {
        let all = observed.counters.iter();
        all.filter(|one| one.source == "pg_stat_database" && one.name == "deadlocks")
            .map(|one| one.delta)
            .sum()
    });
    let count = (of_statements.max(logged) as f64).max(counted);
    if count < 1.0 {
        return None;
    }
    let worst = evidence.statements.iter().max_by_key(|one| failed(one));
    let worst = worst.filter(|one| failed(one) > 0);
    // Two statements that transactions send in both orders.
    let crossed = evidence.orders.as_ref().ok().and_then(|orders| {
        let mut pairs: Vec<_> = orders
            .iter()
            .filter_map(|((a, b), one)| Some((a, b, *one, *orders.get(&(*b, *a))?)))
            .filter(|(a, b, ..)| a < b)
            .collect();
        pairs.sort_by_key(|&(a, b, one, other)| (std::cmp::Reverse(one.min(other)), a, b));
        let (a, b, one, other) = pairs.first()?;
        Some((
            evidence.statement(**a)?,
            evidence.statement(**b)?,
            *one,
            *other,
        ))
    });
    let mut facts = vec![
        Fact::new(
            "deadlocks",
            count,
            Unit::Count,
            "errors 40P01, the log, or pg_stat_database",
        )
        .check("SELECT datname, deadlocks FROM pg_stat_database WHERE deadlocks > 0"),
    ];
    let mut words = "change rows in the same order everywhere, such as by their key (SELECT … ORDER BY id FOR UPDATE first)".to_owned();
    if let Some((a, b, one, other)) = crossed {
        facts.push(Fact::new(
            format!(
                "transactions that send {} before {}",
                a.fingerprint, b.fingerprint
            ),
            one as f64,
            Unit::Count,
            "the order of statements in sessions",
        ));
        facts.push(Fact::new(
            "transactions that send them the other way round",
            other as f64,
            Unit::Count,
            "the order of statements in sessions",
        ));
        words = format!(
            "send {} and {} in one order in all transactions",
            a.fingerprint, b.fingerprint
        );
    }
    Some(Finding {
        rule: "",
        severity: Severity::Problem,
        subject: match worst {
            Some(one) => Subject::statement(one.fingerprint, one.sql.clone()),
            None => Subject::server(),
        },
        title: format!(
            "{count:.0} deadlocks: transactions take the same locks in different orders"
        ),
        evidence: facts,
        cost: None,
        max_gain: None,
        changes: vec![Change::manual(words)],
        risk: "what failed with 40P01 has to be sent again by the application in any case"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::ServerLog;
    use crate::synthetic::{EvidenceBuilder, statement};
    use sql::Fingerprint;
    use std::collections::HashMap;

    fn with(samples: u64) -> EvidenceBuilder {
        EvidenceBuilder::new()
            .statement(
                statement(1, "update branches set b = b + $1")
                    .took(100, 10.0)
                    .waiting("Lock", "transactionid", samples),
            )
            .statement(statement(2, "select $1").took(100, 10.0))
            .blocking(
                "update branches set b = b + $1",
                "update branches set b = b + $1",
                8,
            )
    }

    #[test]
    fn waits_and_deadlocks_are_found() {
        let found = with(160).findings(&RULE);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].max_gain, Some(0.4));
        assert!(
            found[0]
                .title
                .contains("80 % of its time, held by others of its kind")
        );
        let mut dead = with(0);
        dead.evidence.statements[0].failed.insert(DEADLOCK, 3);
        let (a, b) = (Fingerprint(1), Fingerprint(2));
        dead.evidence.orders = Ok(HashMap::from([((a, b), 5), ((b, a), 7)]));
        let found = dead.findings(&RULE);
        assert_eq!(found[0].severity, Severity::Problem);
        assert_eq!(found[0].evidence.len(), 3);
        let log = ServerLog {
            lock_waits: HashMap::from([(Some(Fingerprint(1)), (4, 5e9))]),
            ..ServerLog::default()
        };
        let mut logged = with(0).log(log);
        logged.evidence.sample_ns = Err(Unavailable::because("nobody looked"));
        assert_eq!(logged.findings(&RULE)[0].max_gain, Some(0.25));
    }

    #[test]
    fn short_wait_is_no_finding() {
        assert_eq!(with(4).findings(&RULE), []);
    }
}
