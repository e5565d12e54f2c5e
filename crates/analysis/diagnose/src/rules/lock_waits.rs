//! Statements that wait for locks, the holders of these locks, and deadlocks.

use std::collections::HashMap;

use super::Rule;
use super::lock_chains::{Chain, LockKind, Root, lock_chain};
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, LOCK_WAITS, Severity, Subject};
use crate::statement_text::shorten;
use crate::threshold::{Threshold, Thresholds};
use sql::{Fingerprint, StatementClass, classify};
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
    name: LOCK_WAITS,
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
    let groups = wait_groups(evidence);
    let all = groups.iter();
    let mut findings: Vec<Finding> = all
        .filter_map(|group| group.finding(evidence, thresholds))
        .collect();
    findings.extend(deadlocks(evidence));
    Ok(findings)
}

/// Returns the time that each statement waited for locks, in nanoseconds, if a finding that is more than a note has it.
pub(crate) fn explained_waits(
    evidence: &Evidence,
    thresholds: &Thresholds,
) -> HashMap<Fingerprint, f64> {
    let groups = wait_groups(evidence);
    let explaining = groups.iter().filter(|group| {
        let finding = group.finding(evidence, thresholds);
        finding.is_some_and(|finding| finding.severity != Severity::Note)
    });
    explaining
        .flat_map(|group| &group.0)
        .map(|wait| (wait.statement.fingerprint, wait.ns))
        .collect()
}

/// Groups the statements that wait by the session that they wait for. Each statement is in one group at most.
fn wait_groups(evidence: &Evidence) -> Vec<WaitGroup<'_>> {
    let mut groups: Vec<WaitGroup<'_>> = Vec::new();
    for wait in evidence
        .statements
        .iter()
        .filter_map(|one| lock_wait(evidence, one))
    {
        let root = wait.chain.as_ref().map(|chain| &chain.root);
        let same = groups
            .iter_mut()
            .find(|group| root.is_some() && group.root() == root);
        match same {
            Some(group) => group.0.push(wait),
            None => groups.push(WaitGroup(vec![wait])),
        }
    }
    groups
}

/// Waits of a statement for locks.
struct LockWait<'e> {
    statement: &'e StatementEvidence,
    ns: f64,
    /// Number of waits, or of samples of them.
    count: u64,
    /// Source of these numbers.
    from: &'static str,
    chain: Option<Chain>,
}

fn lock_wait<'e>(evidence: &Evidence, one: &'e StatementEvidence) -> Option<LockWait<'e>> {
    let samples = one.samples_waiting("Lock");
    let (ns, count, from) = match (&evidence.sample_ns, &evidence.log) {
        (Ok(each_ns), _) if samples >= SAMPLES_MIN => (
            each_ns * samples as f64,
            samples,
            "samples of pg_stat_activity",
        ),
        (_, Ok(log)) => {
            let (count, ns) = log.lock_waits.get(&Some(one.fingerprint)).copied()?;
            (ns, count, "the server's log (log_lock_waits)")
        }
        _ => return None,
    };
    let observed = evidence.observed.as_ref().ok();
    Some(LockWait {
        statement: one,
        ns,
        count,
        from,
        chain: observed.and_then(|observed| lock_chain(observed, &one.sql)),
    })
}

/// Statements that wait for the same session, by descending time.
struct WaitGroup<'e>(Vec<LockWait<'e>>);

impl WaitGroup<'_> {
    fn root(&self) -> Option<&Root> {
        self.0[0].chain.as_ref().map(|chain| &chain.root)
    }

    /// Returns the statements between those that wait and the root.
    fn through(&self) -> Vec<&str> {
        let chains = self.0.iter().filter_map(|one| one.chain.as_ref());
        let mut all: Vec<&str> = chains
            .flat_map(|chain| chain.through.iter().map(String::as_str))
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn finding(&self, evidence: &Evidence, thresholds: &Thresholds) -> Option<Finding> {
        let ns: f64 = self.0.iter().map(|one| one.ns).sum();
        let share = evidence.share(ns);
        if share < thresholds.of(&SHARE) {
            return None;
        }
        let first = &self.0[0];
        let through = self.through();
        let is_chain = self.0.len() > 1 || !through.is_empty();
        let root_statement = self.root().and_then(|root| root.statement.as_ref());
        let root_evidence = evidence
            .statements
            .iter()
            .find(|one| Some(&one.sql) == root_statement);
        let subject = match (is_chain, root_evidence) {
            (false, _) => first.statement,
            (true, Some(root)) => root,
            (true, None) => first.statement,
        };
        Some(Finding {
            rule: "",
            status: Default::default(),
            severity: thresholds.severity(share),
            subject: Subject::statement(subject.fingerprint, subject.sql.clone()),
            title: match is_chain {
                true => self.chain_title(&through),
                false => self.title(),
            },
            evidence: self.facts(ns),
            cost: Some(match is_chain {
                true => evidence.cost_of(ns),
                false => evidence.cost(first.statement, ns),
            }),
            max_gain: Some(share),
            changes: changes(self.root(), &through),
            risk: "what is done in another order, or in another transaction, may fail in between"
                .to_owned(),
        })
    }

    /// Returns the title of a statement that waits for a session directly.
    fn title(&self) -> String {
        let first = &self.0[0];
        let sql = &first.statement.sql;
        let held = match self.root().and_then(|root| root.statement.as_ref()) {
            Some(root) if root == sql => ", held by others of its kind".to_owned(),
            Some(root) => format!(", held after: {}", shorten(root)),
            None => String::new(),
        };
        let share = (first.ns / first.statement.ns.max(1.0)).min(1.0);
        format!(
            "it waits for locks {:.0} % of its time{held}",
            share * 100.0
        )
    }

    /// Returns the title of several statements, or of one that waits for another that waits itself.
    fn chain_title(&self, through: &[&str]) -> String {
        let Some(root) = self.root() else {
            return self.title();
        };
        let waiting = match self.0.len() {
            1 => "a statement waits".to_owned(),
            count => format!("{count} statements wait"),
        };
        let holder = match (&root.statement, root.is_idle()) {
            (Some(sql), true) => {
                format!("a transaction that is idle after: {}", shorten(sql))
            }
            (Some(sql), false) => {
                format!("a transaction that is {}: {}", root.state, shorten(sql))
            }
            (None, _) => format!("a session that is {}", root.state),
        };
        let queue = match through {
            [] => String::new(),
            [one, ..] => format!("; they queue after one that waits itself: {}", shorten(one)),
        };
        format!("{waiting} for {} held by {holder}{queue}", root.kind.noun())
    }

    fn facts(&self, ns: f64) -> Vec<Fact> {
        let first = &self.0[0];
        let of_them: f64 = self.0.iter().map(|one| one.statement.ns).sum();
        let count = self.0.iter().map(|one| one.count).sum::<u64>();
        let mut facts = vec![
            Fact::new("time that it waited for locks", ns, Unit::Nanoseconds, first.from)
                .check("SELECT pid, pg_blocking_pids(pid), wait_event, query FROM pg_stat_activity WHERE wait_event_type = 'Lock'"),
            Fact::new("of its own time", ns / of_them.max(1.0), Unit::Share, first.from),
            Fact::new("waits, or samples of them", count as f64, Unit::Count, first.from),
        ];
        if let Some(chain) = &first.chain {
            facts.push(Fact::new(
                format!(
                    "samples in which it waited for a session, at the end of the queue one that was {}",
                    chain.root.state
                ),
                chain.samples as f64,
                Unit::Count,
                "pg_blocking_pids",
            ));
        }
        if self.0.len() > 1 {
            facts.extend(self.0.iter().map(|one| {
                let what = format!("waited: {}", shorten(&one.statement.sql));
                Fact::new(what, one.ns, Unit::Nanoseconds, one.from)
            }));
        }
        facts
    }
}

/// Returns what to do about the root of a queue, by its lock and its state.
fn changes(root: Option<&Root>, through: &[&str]) -> Vec<Change> {
    let is_ddl = |sql: &&str| classify(sql) == StatementClass::Ddl;
    let kind = root.map_or(LockKind::Row, |root| root.kind);
    let mut all = Vec::new();
    if kind == LockKind::Relation && through.iter().any(is_ddl) {
        all.push(Change::manual(
            "send DDL with SET lock_timeout = '2s', and again if it fails: while it waits, all others queue after it",
        ));
    }
    if root.is_some_and(Root::is_idle) {
        all.push(Change::manual(
            "end transactions before the application does something else: the lock is held by one that is idle \
             (idle_in_transaction_session_timeout ends it)",
        ));
    }
    if !all.is_empty() {
        return all;
    }
    vec![Change::manual(match kind {
        LockKind::Relation => {
            "send DDL when it is short, with CONCURRENTLY if there is such a form, and with SET lock_timeout"
        }
        LockKind::Advisory => {
            "hold advisory locks shorter, or take one for each object instead of one for all"
        }
        LockKind::Row | LockKind::Other => {
            "change rows that all want last in a transaction, or spread them over several rows; keep transactions short"
        }
    })]
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
        status: Default::default(),
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
    fn statements_in_one_queue_are_one_finding_about_its_root() {
        const READ: &str = "select count(*) from account";
        const ALTER: &str = "alter table account add column note text";
        let mut queue = EvidenceBuilder::new()
            .statement(
                statement(1, "select bal from account where id = $1")
                    .took(100, 50.0)
                    .waiting("Lock", "relation", 900),
            )
            .statement(
                statement(2, "update account set bal = $1 where id = $2")
                    .took(100, 30.0)
                    .waiting("Lock", "relation", 500),
            )
            .statement(
                statement(3, ALTER)
                    .took(3, 14.0)
                    .waiting("Lock", "relation", 270),
            )
            .statement(statement(4, READ).took(3, 6.0))
            .blocking("select bal from account where id = $1", ALTER, 40)
            .blocking("update account set bal = $1 where id = $2", ALTER, 30)
            .blocking(ALTER, READ, 14);
        for pair in &mut queue.observed().blocking {
            pair.wait = "relation".to_owned();
            if pair.blocker.as_deref() == Some(READ) {
                pair.blocker_state = "idle in transaction".to_owned();
            }
        }
        let found = queue.findings(&RULE);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!((found[0].max_gain.unwrap() - 0.835).abs() < 1e-9);
        assert_eq!(found[0].subject.fingerprint, Some(Fingerprint(4)));
        assert_eq!(
            found[0].title,
            "3 statements wait for a lock of a table held by a transaction that is idle after: \
             select count(*) from account; they queue after one that waits itself: \
             alter table account add column note text"
        );
        assert!(found[0].changes[0].words.contains("lock_timeout"));
        assert!(found[0].changes[1].words.contains("idle"));
    }

    #[test]
    fn short_wait_is_no_finding() {
        assert_eq!(with(4).findings(&RULE), []);
    }
}
