//! Statements that claim work from a queue table: the cost of a claim, claims that wait for each
//! other or take the same work twice, and claims that skip dead rows.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::statement_text::{tables, words, written_table};
use crate::threshold::{Threshold, Thresholds};
use run::RelationFact;
use sql::StatementClass;
use statistics::Unit;

const BLOCKS: Threshold = Threshold {
    name: "claim-blocks",
    value: 20.0,
    unit: "blocks a row claimed",
    decides: "a claim that reads more for each row is expensive",
    source: "ours",
};

const DEAD: Threshold = Threshold {
    name: "claim-dead-share",
    value: 0.5,
    unit: "dead rows for each live one",
    decides: "a queue with more dead rows makes claims step over them",
    source: "ours: autovacuum comes at 0.2 where it keeps up (autovacuum_vacuum_scale_factor)",
};

const CALLS: Threshold = Threshold {
    name: "claim-calls",
    value: 5.0,
    unit: "calls",
    decides: "claims sent less often are not looked at",
    source: "ours",
};

pub(super) const RULE: Rule = Rule {
    name: "claims",
    looks_at: "statements that claim rows with a limit: locks, cost, dead rows",
    thresholds: &[BLOCKS, DEAD, CALLS],
    evaluate,
};

/// Whether the statement changes or locks a limited number of rows.
pub(super) fn is_claim(sql: &str) -> bool {
    let words = words(sql);
    let locks = words.windows(2).any(|pair| pair == ["for", "update"]);
    let writes = matches!(words.first(), Some(&"update" | &"delete" | &"with"))
        && written_table(sql).is_some();
    words.contains(&"limit") && (locks || writes && words.contains(&"select"))
}

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    if evidence.statements.is_empty() {
        return Err(Unavailable::because("no statement was seen"));
    }
    let mut findings = Vec::new();
    for one in &evidence.statements {
        let is_one = is_claim(&one.sql)
            && one.calls as f64 >= thresholds.of(&CALLS)
            && one.is_work()
            && one.class != StatementClass::Insert;
        if !is_one {
            continue;
        }
        let words = words(&one.sql);
        let skips = words.windows(2).any(|pair| pair == ["skip", "locked"]);
        let locks = words.windows(2).any(|pair| pair == ["for", "update"])
            || words
                .windows(4)
                .any(|four| four == ["for", "no", "key", "update"]);
        if !locks && one.by_many_sessions != Some(false) {
            findings.push(unlocked(evidence, one));
        } else if locks && !skips {
            findings.extend(waiting(evidence, thresholds, one));
        }
        findings.extend(expensive(evidence, thresholds, one, skips));
    }
    Ok(findings)
}

fn subject(one: &StatementEvidence) -> Subject {
    Subject::statement(one.fingerprint, one.sql.clone())
}

fn unlocked(evidence: &Evidence, one: &StatementEvidence) -> Finding {
    Finding {
        rule: "",
        status: Default::default(),
        severity: Severity::Warning,
        subject: subject(one),
        title: "a claim that does not lock what it selects: two workers may take the same rows".to_owned(),
        evidence: vec![
            Fact::new("calls", one.calls as f64, Unit::Count, "the statement's own counts"),
            Fact::new("FOR UPDATE in its text", 0.0, Unit::Count, "the statement's text")
                .check("run it in two sessions, each with BEGIN before it: at READ COMMITTED both return the same rows"),
        ],
        cost: Some(evidence.cost(one, one.ns)),
        max_gain: None,
        changes: vec![Change::manual(
            "add FOR UPDATE SKIP LOCKED after the LIMIT of the inner SELECT",
        )],
        risk: "workers then take rows in an order that is only nearly that of ORDER BY".to_owned(),
    }
}

/// Claims that lock rows and wait for rows locked by others.
fn waiting(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
) -> Option<Finding> {
    let each_ns = evidence.sample_ns.as_ref().ok();
    let waits = one.samples_waiting("Lock");
    let waited_ns = each_ns.map_or(0.0, |each_ns| each_ns * waits as f64);
    let share = evidence.share(waited_ns);
    if one.by_many_sessions == Some(false) {
        return None;
    }
    Some(Finding {
        rule: "",
        status: Default::default(),
        severity: match waits {
            0 => Severity::Note,
            _ => thresholds.severity(share),
        },
        subject: subject(one),
        title: "claims wait for one another: FOR UPDATE without SKIP LOCKED".to_owned(),
        evidence: vec![
            Fact::new("calls", one.calls as f64, Unit::Count, "the statement's own counts"),
            Fact::new("time that it waited for locks", waited_ns, Unit::Nanoseconds, "samples of pg_stat_activity")
                .check("SELECT wait_event_type, wait_event, query FROM pg_stat_activity WHERE wait_event_type = 'Lock'"),
        ],
        cost: Some(evidence.cost(one, waited_ns)),
        max_gain: each_ns.map(|_| share),
        changes: vec![Change::manual("add SKIP LOCKED after FOR UPDATE")],
        risk: "workers then take rows in an order that is only nearly that of ORDER BY".to_owned(),
    })
}

/// Claims that read many blocks for each claimed row.
fn expensive(
    evidence: &Evidence,
    thresholds: &Thresholds,
    one: &StatementEvidence,
    skips: bool,
) -> Option<Finding> {
    let counted = one.counted.filter(|counted| counted.calls > 0)?;
    let blocks = (counted.shared_hit + counted.shared_read) as f64;
    let each = blocks / counted.rows.max(counted.calls) as f64;
    if each < thresholds.of(&BLOCKS) {
        return None;
    }
    let named = written_table(&one.sql).or_else(|| tables(&one.sql).into_iter().next())?;
    let table: Option<&RelationFact> = evidence.table(&named);
    let object = match (table, &named) {
        (Some(table), _) => format!("{}.{}", table.schema, table.name),
        (None, (Some(schema), table)) => format!("{schema}.{table}"),
        (None, (None, table)) => format!("public.{table}"),
    };
    let last = |counter: &str| {
        let moved = evidence.counter_change("pg_stat_user_tables", &object, counter);
        moved.map(|one| one.max)
    };
    let live = last("n_live_tup").or(table.and_then(|table| table.rows).map(|rows| rows as f64));
    let dead = last("n_dead_tup").unwrap_or(0.0);
    let steps_over_dead = live.is_some_and(|live| dead >= thresholds.of(&DEAD) * live.max(1_000.0));
    // While claims wait for one another, that is no matter of blocks. Those that skip locked rows wait for others only.
    let won_ns = match skips {
        true => one.ns,
        false => (one.ns - evidence.lock_ns(one)).max(0.0),
    };
    let share = evidence.share(won_ns);
    let passed = evidence.counter_change("transactions", "", "oldest_snapshot_transactions");
    let passed = passed.map_or(0.0, |one| one.max);
    // Vacuum leaves what a transaction that is as old as most claims could see.
    let is_held = steps_over_dead && passed >= one.calls as f64 / 2.0;
    let mut facts = vec![
        Fact::new("blocks read for each row claimed", each, Unit::Count, "pg_stat_statements")
            .check("SELECT (shared_blks_hit + shared_blks_read) / greatest(rows, calls), query FROM pg_stat_statements ORDER BY 1 DESC"),
        Fact::new("rows a call", counted.rows as f64 / counted.calls as f64, Unit::Mean, "pg_stat_statements"),
        Fact::new("time a call", one.ns_per_call(), Unit::Nanoseconds, "the statement's own times"),
    ];
    if steps_over_dead {
        let check = format!(
            "SELECT n_live_tup, n_dead_tup, last_autovacuum FROM pg_stat_user_tables WHERE relid = '{object}'::regclass"
        );
        facts.push(
            Fact::new(
                "dead rows at most",
                dead,
                Unit::Count,
                "pg_stat_user_tables",
            )
            .check(check),
        );
    }
    if is_held {
        facts.push(
            Fact::new(
                "transactions since the oldest snapshot",
                passed,
                Unit::Count,
                "backend_xmin of pg_stat_activity",
            )
            .check("SELECT pid, state, now() - xact_start, age(backend_xmin), query FROM pg_stat_activity ORDER BY xact_start"),
        );
    }
    Some(Finding {
        rule: "",
        status: Default::default(),
        severity: thresholds.severity(share),
        subject: subject(one),
        title: match steps_over_dead {
            true if is_held => format!(
                "the claim steps over {dead:.0} dead rows of {object}, which vacuum cannot remove while a transaction is open"
            ),
            true => format!("the claim steps over {dead:.0} dead rows of {object}"),
            false => format!("the claim reads {each:.0} blocks for each row that it takes"),
        },
        evidence: facts,
        cost: Some(evidence.cost(one, won_ns)),
        max_gain: Some(share),
        changes: remedies(&object, steps_over_dead, is_held),
        risk: match steps_over_dead {
            true => "vacuum reads and writes more often; a transaction that stays open keeps dead rows whatever is set".to_owned(),
            false => "an index has to be kept up to date by every claim".to_owned(),
        },
    })
}

/// Returns what to do about a claim that reads much: about dead rows that are held by a transaction, about other dead
/// rows, or about a missing index.
fn remedies(object: &str, steps_over_dead: bool, is_held: bool) -> Vec<Change> {
    match steps_over_dead {
        true if is_held => vec![
            Change::manual(
                "end the transaction that is open: read in shorter transactions, not at REPEATABLE READ for long",
            ),
            Change::setting(
                "end what waits for its client for so long",
                "idle_in_transaction_session_timeout",
                "1min",
            ),
        ],
        true => vec![Change::sql(
            "let autovacuum come to this table much earlier",
            format!(
                "ALTER TABLE {object} SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);\nVACUUM {object};"
            ),
        )],
        false => vec![Change::manual(
            "an index for its condition and order; `rehearse indexes` looks for one and measures it",
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, table};

    const SKIPS: &str = "update jobs set queued_at = now() where id in (select id from jobs where queued_at is null order by due limit $1 for update skip locked) returning id";

    fn claim(sql: &str, blocks: u64) -> StatementEvidence {
        let mut one = crate::synthetic::statement(1, sql)
            .took(100, 9.0)
            .with_rows(1_000)
            .with_counted(|counted| counted.shared_hit = blocks);
        one.by_many_sessions = Some(true);
        one
    }

    #[test]
    fn racing_waiting_and_expensive_claims_are_found() {
        let races = EvidenceBuilder::new()
            .statement(claim(&SKIPS.replace(" for update skip locked", ""), 100));
        assert!(races.findings(&RULE)[0].title.contains("same rows"));
        let waits = claim(&SKIPS.replace(" skip locked", ""), 100).waiting("Lock", "tuple", 100);
        let found = EvidenceBuilder::new().statement(waits).findings(&RULE);
        // 100 samples of 50 ms, of 9 s.
        assert_eq!(found.len(), 1);
        assert!((found[0].max_gain.unwrap() - 5.0 / 9.0).abs() < 1e-9);
        let dear = EvidenceBuilder::new()
            .statement(claim(SKIPS, 1_000_000))
            .findings(&RULE);
        assert!(dear[0].title.contains("1000 blocks"), "{}", dear[0].title);
        let dead = EvidenceBuilder::new()
            .statement(claim(SKIPS, 1_000_000))
            .table(table(
                "jobs",
                10_000,
                &["id int8", "due timestamptz", "queued_at timestamptz"],
            ))
            .counter(
                "pg_stat_user_tables",
                "public.jobs",
                "n_dead_tup",
                0.0,
                90_000.0,
            );
        assert!(
            dead.findings(&RULE)[0]
                .title
                .contains("90000 dead rows of public.jobs")
        );
        // A snapshot that is older than the claims.
        let held = dead.counter(
            "transactions",
            "",
            "oldest_snapshot_transactions",
            0.0,
            90.0,
        );
        let found = &held.findings(&RULE)[0];
        assert!(found.title.contains("vacuum cannot remove"));
        assert!(found.changes[0].words.contains("end the transaction"));
    }

    #[test]
    fn cheap_skipping_claims_and_single_workers_are_no_finding() {
        assert_eq!(
            EvidenceBuilder::new()
                .statement(claim(SKIPS, 5_000))
                .findings(&RULE),
            []
        );
        let mut alone = claim(&SKIPS.replace(" for update skip locked", ""), 100);
        alone.by_many_sessions = Some(false);
        assert_eq!(EvidenceBuilder::new().statement(alone).findings(&RULE), []);
        assert!(!is_claim("select * from jobs order by due limit $1"));
        assert!(!is_claim("update jobs set queued_at = now() where id = $1"));
    }
}
