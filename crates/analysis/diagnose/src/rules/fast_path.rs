//! Statements that lock more relations than a session has fast-path slots. The remaining locks go
//! to the shared lock table, for which sessions on many processors contend.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::threshold::{Threshold, Thresholds};
use statistics::Unit;

const PLACES: Threshold = Threshold {
    name: "fast-path-locks",
    value: 16.0,
    unit: "locks of a session",
    decides: "what it locks beyond goes to the shared lock table",
    source: "FP_LOCK_SLOTS_PER_BACKEND of PostgreSQL 9.2 to 17; from 18 on as many as max_locks_per_transaction",
};

const WAITS: Threshold = Threshold {
    name: "fast-path-wait-share",
    value: 0.02,
    unit: "share of time",
    decides: "waits for the lock manager that are less are no more than a note",
    source: "ours",
};

pub(super) const RULE: Rule = Rule {
    name: "fast-path-locks",
    looks_at: "locks past the fast path, waits for the lock manager, plans over many partitions",
    thresholds: &[PLACES, WAITS],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    let observed = evidence.observed.as_ref().map_err(Clone::clone)?;
    let Some(locks) = &observed.locks else {
        return Err(Unavailable::because("locks were not looked at"));
    };
    let waits: u64 = observed
        .waits
        .iter()
        .filter(|wait| {
            wait.kind.as_deref() == Some("LWLock")
                && wait
                    .wait
                    .as_deref()
                    .is_some_and(|name| matches!(name, "LockManager" | "lock_manager"))
        })
        .map(|wait| wait.samples)
        .sum();
    let all = (locks.fast_path + locks.past_fast_path).max(1);
    let past_share = locks.past_fast_path as f64 / all as f64;
    if locks.past_fast_path_max == 0 {
        return Ok(Vec::new());
    }
    let waited = waits as f64 / observed.active_samples.max(1) as f64;
    let many = widest(evidence, thresholds.of(&PLACES));
    let mut facts = vec![
        Fact::new("most locks of a session past the fast path", locks.past_fast_path_max as f64, Unit::Count, "pg_locks, once a second")
            .check("SELECT pid, count(*) FROM pg_locks WHERE NOT fastpath AND mode IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock') AND locktype = 'relation' AND database <> 0 GROUP BY 1 ORDER BY 2 DESC"),
        Fact::new("of all locks that might go by it", past_share, Unit::Share, "pg_locks, once a second"),
        Fact::new("samples that waited for the lock manager", waited, Unit::Share, "samples of pg_stat_activity"),
    ];
    let subject = match &many {
        Some((one, relations)) => {
            facts.push(Fact::new(
                "tables and indexes in this statement's plan",
                *relations as f64,
                Unit::Count,
                "plan (EXPLAIN)",
            ));
            Subject::statement(one.fingerprint, one.sql.clone())
        }
        None => Subject::server(),
    };
    let mut changes = vec![Change::manual(
        "let the condition name the partition key, so that planning leaves out what is not needed; fewer indexes, fewer partitions",
    )];
    if evidence.server_major.is_some_and(|major| major >= 18) {
        changes.insert(
            0,
            Change::setting(
                "from 18 on the fast path has as many places as this (a restart)",
                "max_locks_per_transaction",
                "256",
            ),
        );
    }
    Ok(vec![Finding {
        rule: "",
        status: Default::default(),
        severity: match waited >= thresholds.of(&WAITS) {
            true => thresholds.severity(waited),
            false => Severity::Note,
        },
        subject,
        title: format!(
            "sessions lock up to {} tables and indexes past the fast path",
            locks.past_fast_path_max
        ),
        evidence: facts,
        cost: None,
        max_gain: Some(waited),
        changes,
        risk: "more places take some shared memory for each session".to_owned(),
    }])
}

/// Returns the statement with the most time whose plan opens more than `places` relations.
fn widest(evidence: &Evidence, places: f64) -> Option<(&StatementEvidence, usize)> {
    evidence.statements.iter().find_map(|one| {
        let plan = one.plan.as_ref()?;
        let mut relations = 0;
        plan.root.each(&mut |node, _| {
            relations += usize::from(node.is_scan() && node.relation.is_some());
            relations += usize::from(node.index.is_some());
        });
        (relations as f64 > places).then_some((one, relations))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement};
    use time_breakdown::observed::Locks;

    fn with(past: u64, waits: u64) -> EvidenceBuilder {
        EvidenceBuilder::new()
            .statement(
                statement(1, "select * from events where user_id = $1")
                    .took(1_000, 10.0)
                    .waiting("LWLock", "LockManager", waits)
                    .waiting("", "", 1_000 - waits),
            )
            .locks(Locks {
                samples: 60,
                max: 500,
                max_waiting: 0,
                fast_path_max: 16,
                past_fast_path_max: past,
                fast_path: 160,
                past_fast_path: past,
            })
    }

    #[test]
    fn locks_beyond_the_fast_path_are_noted_and_waits_found() {
        assert_eq!(with(80, 0).findings(&RULE)[0].severity, Severity::Note);
        let found = with(80, 300).findings(&RULE);
        assert_eq!(found[0].severity, Severity::Problem);
        assert_eq!(found[0].max_gain, Some(0.3));
    }

    #[test]
    fn locks_within_the_fast_path_are_no_finding() {
        assert_eq!(with(0, 0).findings(&RULE), []);
    }
}
