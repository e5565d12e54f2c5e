//! Transactions that mostly wait for their client: they hold their locks and their snapshot while
//! nothing runs.

use super::Rule;
use crate::evidence::{Evidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::threshold::{Threshold, Thresholds};
use statistics::Unit;

const IDLE: Threshold = Threshold {
    name: "transaction-idle-share",
    value: 0.5,
    unit: "share of transactions' time",
    decides: "transactions that are idle so long are chatty",
    source: "ours",
};

const EACH: Threshold = Threshold {
    name: "transaction-idle-ms",
    value: 20.0,
    unit: "ms a transaction",
    decides: "less idle time a transaction is a note at most",
    source: "ours",
};

const LONGEST: Threshold = Threshold {
    name: "transaction-idle-longest-s",
    value: 5.0,
    unit: "s",
    decides: "a transaction that is idle so long at once is a warning",
    source: "ours",
};

const SAMPLED: Threshold = Threshold {
    name: "transaction-idle-sessions",
    value: 1.0,
    unit: "sessions on average",
    decides: "this number of sessions idle in a transaction is a warning, if only samples are available",
    source: "ours",
};

/// Minimum number of transactions for judging an application.
const TRANSACTIONS_MIN: u64 = 10;

pub(super) const RULE: Rule = Rule {
    name: "transactions",
    looks_at: "how long transactions are open while nothing is done in them",
    thresholds: &[IDLE, EACH, LONGEST, SAMPLED],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    match (&evidence.transactions, &evidence.observed) {
        (Ok(_), _) => Ok(of_sessions(evidence, thresholds)),
        (Err(_), Ok(_)) => of_samples(evidence, thresholds),
        (Err(missing), Err(_)) => Err(missing.clone()),
    }
}

fn change() -> Change {
    Change::manual(
        "fetch what is needed before BEGIN, send nothing over other networks inside of the transaction, and COMMIT at once",
    )
}

const RISK: &str = "what moves out of the transaction is no longer done or undone together with it";

fn of_sessions(evidence: &Evidence, thresholds: &Thresholds) -> Vec<Finding> {
    let Ok(account) = evidence.transactions else {
        return Vec::new();
    };
    if account.count < TRANSACTIONS_MIN || account.ns <= 0.0 {
        return Vec::new();
    }
    let idle = account.idle_ns / account.ns;
    let each_ns = account.idle_ns / account.count as f64;
    let longest = account.idle_longest_ns >= thresholds.of(&LONGEST) * 1e9;
    if idle < thresholds.of(&IDLE) && !longest {
        return Vec::new();
    }
    // The cost is the time for which they block others.
    let waited: f64 = evidence.sample_ns.as_ref().map_or(0.0, |sample_ns| {
        let all = evidence
            .observed
            .as_ref()
            .map_or(&[][..], |observed| &observed.blocking);
        let idle = all
            .iter()
            .filter(|one| one.blocker_state.starts_with("idle in transaction"));
        let samples: u64 = idle.map(|one| one.samples).sum();
        // Blocking is sampled once a second, or at the sample rate if that is lower.
        samples as f64 * sample_ns.max(1e9)
    });
    let share = evidence.share(waited);
    let warns = longest || each_ns >= thresholds.of(&EACH) * 1e6;
    let idle_statement = account.idle_after.and_then(|one| evidence.statement(one));
    vec![Finding {
        rule: "",
        status: Default::default(),
        severity: match (warns, thresholds.severity(share)) {
            (false, _) => Severity::Note,
            (true, severity) => severity.min(Severity::Warning),
        },
        subject: match idle_statement {
            Some(one) => Subject::statement(one.fingerprint, one.sql.clone()),
            None => Subject::server(),
        },
        title: format!(
            "transactions are idle {:.0} % of the time that they are open, {:.0} ms each",
            idle.min(1.0) * 100.0,
            each_ns / 1e6
        ),
        evidence: vec![
            Fact::new("transactions", account.count as f64, Unit::Count, "the order of statements in sessions"),
            Fact::new("statements in each", account.statements as f64 / account.count as f64, Unit::Mean, "the order of statements in sessions"),
            Fact::new("idle in each", each_ns, Unit::Nanoseconds, "clients' clocks"),
            Fact::new("the longest at once, after this statement", account.idle_longest_ns, Unit::Nanoseconds, "clients' clocks")
                .check("SELECT pid, now() - state_change, query FROM pg_stat_activity WHERE state = 'idle in transaction' ORDER BY 2 DESC"),
            Fact::new("that others waited for locks which they held", waited, Unit::Nanoseconds, "pg_blocking_pids, once a second"),
        ],
        cost: Some(evidence.cost_of(waited)),
        max_gain: evidence.sample_ns.is_ok().then_some(share),
        changes: vec![change()],
        risk: RISK.to_owned(),
    }]
}

fn of_samples(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    let observed = evidence.observed.as_ref().map_err(Clone::clone)?;
    evidence.sample_ns.as_ref().map_err(Clone::clone)?;
    let sessions = observed.idle_in_transaction as f64 / observed.samples.max(1) as f64;
    if sessions < thresholds.of(&SAMPLED) {
        return Ok(Vec::new());
    }
    Ok(vec![Finding {
        rule: "",
        status: Default::default(),
        severity: Severity::Warning,
        subject: Subject::server(),
        title: format!("{sessions:.1} sessions at a time hold a transaction open and do nothing"),
        evidence: vec![
            Fact::new("sessions idle in a transaction, on average", sessions, Unit::Mean, "samples of pg_stat_activity")
                .check("SELECT pid, now() - state_change, query FROM pg_stat_activity WHERE state = 'idle in transaction' ORDER BY 2 DESC"),
        ],
        cost: None,
        max_gain: None,
        changes: vec![change()],
        risk: RISK.to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::TransactionAccount;
    use crate::synthetic::EvidenceBuilder;

    fn with(idle_ms: f64) -> EvidenceBuilder {
        let mut made_up = EvidenceBuilder::new();
        made_up.evidence.transactions = Ok(TransactionAccount {
            count: 100,
            statements: 700,
            ns: 100.0 * 100e6,
            idle_ns: 100.0 * idle_ms * 1e6,
            idle_longest_ns: idle_ms * 2e6,
            idle_after: None,
        });
        made_up
    }

    #[test]
    fn transactions_that_wait_for_their_client_are_found() {
        assert_eq!(with(80.0).findings(&RULE)[0].severity, Severity::Warning);
        let mut watched = EvidenceBuilder::new();
        watched.evidence.transactions = Err(Unavailable::because("nobody knows"));
        watched.observed().idle_in_transaction = 3_000;
        assert!(watched.findings(&RULE)[0].title.starts_with("2.5 sessions"));
    }

    #[test]
    fn busy_transactions_are_no_finding() {
        assert_eq!(with(30.0).findings(&RULE), []);
        let mut watched = EvidenceBuilder::new();
        watched.evidence.transactions = Err(Unavailable::because("nobody knows"));
        watched.observed().idle_in_transaction = 300;
        assert_eq!(watched.findings(&RULE), []);
    }
}
