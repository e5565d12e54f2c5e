//! How much of each statement's time the findings explain, and the statements that none explains.
//!
//! A finding explains the time that its fix may win, if it is a problem or a warning. A statement
//! whose time fits the rows that it returns or writes needs no explanation.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use statistics::Unit;

use super::evidence::{Evidence, StatementEvidence};
use super::finding::{
    COMMIT_FLUSH, Change, Fact, Finding, LOCK_WAITS, Severity, Subject, SubjectKind,
};
use super::measured_account::TimeAccount;
use super::rules::{explained_waits, flush_ns};
use super::statement_text::{parse_name, shorten, tables};
use super::threshold::{Thresholds, UNEXPLAINED_SHARE};
use super::usual_work::{Work, is_fast_alone, usual_call_ns};

/// Name that stands in place of a rule in the findings on unexplained statements.
const UNEXPLAINED: &str = "unexplained";

/// Share of the whole for which statements are accounted.
const ACCOUNTED: f64 = 0.95;
/// Share of a statement's time that findings must explain.
const EXPLAINED: f64 = 0.5;
/// Share of the observed time that a statement takes at least; an idle server needs no diagnosis.
const BUSY: f64 = 0.01;

/// Time of a statement, and the findings that explain it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StatementAccount {
    /// Fingerprint.
    pub fingerprint: Fingerprint,
    /// Normalised SQL.
    pub sql: String,
    /// Its part of the whole, in nanoseconds.
    pub ns: f64,
    /// Its share of the whole, from 0 to 1.
    pub share: f64,
    /// Share of its time that findings explain, from 0 to 1.
    pub explained_share: f64,
    /// Rules of these findings.
    pub explained_by: Vec<&'static str>,
    /// Whether its time or its blocks are more than its rows need.
    pub needs_explanation: bool,
    /// Parts of its time, measured on a private copy; `null` if no experiments were asked for.
    pub measured: Option<TimeAccount>,
}

impl Finding {
    /// Whether it says that no other finding explains a statement.
    pub fn is_unexplained(&self) -> bool {
        self.rule == UNEXPLAINED
    }
}

/// Accounts for the statements that make up 95 % of the time, by descending time.
pub(super) fn account_statements(
    evidence: &Evidence,
    thresholds: &Thresholds,
    findings: &[Finding],
) -> Vec<StatementAccount> {
    let lock_waits = explained_waits(evidence, thresholds);
    let mut accounts = Vec::new();
    let mut accounted = 0.0;
    for one in &evidence.statements {
        if accounted >= ACCOUNTED * evidence.whole_ns || one.ns <= 0.0 {
            break;
        }
        accounted += one.ns;
        let mut explained_ns = 0.0;
        let mut explained_by: Vec<&'static str> = Vec::new();
        for finding in findings {
            let ns = explained_time(evidence, finding, one);
            if ns > 0.0 {
                explained_ns += ns;
                explained_by.push(finding.rule);
            }
        }
        // Waits of several statements for one lock are one finding, so they are credited once, to those that waited.
        if let Some(ns) = lock_waits.get(&one.fingerprint) {
            explained_ns += ns;
            explained_by.push(LOCK_WAITS);
        }
        explained_by.dedup();
        accounts.push(StatementAccount {
            fingerprint: one.fingerprint,
            sql: one.sql.clone(),
            ns: one.ns,
            share: evidence.share(one.ns),
            explained_share: (explained_ns / one.ns).min(1.0),
            explained_by,
            needs_explanation: Work::of(one)
                .is_excessive(thresholds, usual_call_ns(evidence, thresholds, one)),
            measured: None,
        });
    }
    accounts
}

/// Returns the part of a statement's time that a finding explains, in nanoseconds; 0 for waits for locks, which are
/// credited separately.
fn explained_time(evidence: &Evidence, finding: &Finding, one: &StatementEvidence) -> f64 {
    let Some(cost) = finding.cost.filter(|_| finding.severity != Severity::Note) else {
        return 0.0;
    };
    match finding.rule {
        LOCK_WAITS => return 0.0,
        COMMIT_FLUSH => return flush_ns(evidence, one).min(one.ns),
        _ => {}
    }
    let won_ns = cost
        .ns
        .min(finding.max_gain.unwrap_or(0.0) * evidence.whole_ns);
    let is_affected = |one: &StatementEvidence| match finding.subject.kind {
        SubjectKind::Statement | SubjectKind::Queue => false,
        SubjectKind::Table => mentions(one, &finding.subject.name),
        SubjectKind::Index => {
            index_table(evidence, &finding.subject.name).is_some_and(|table| mentions(one, &table))
        }
        SubjectKind::Setting | SubjectKind::Server => true,
    };
    if let Some(fingerprint) = finding.subject.fingerprint {
        return match fingerprint == one.fingerprint {
            true => won_ns.min(one.ns),
            false => 0.0,
        };
    }
    if !is_affected(one) {
        return 0.0;
    }
    let affected = evidence.statements.iter().filter(|one| is_affected(one));
    let all_ns: f64 = affected.map(|one| one.ns).sum();
    (won_ns * one.ns / all_ns).min(one.ns)
}

fn mentions(one: &StatementEvidence, table: &str) -> bool {
    let (schema, name) = parse_name(table);
    tables(&one.sql).iter().any(|(own_schema, own)| {
        *own == name && (own_schema.is_none() || schema.is_none() || *own_schema == schema)
    })
}

fn index_table(evidence: &Evidence, index: &str) -> Option<String> {
    let (schema, name) = parse_name(index);
    let mut all = evidence.facts.as_ref().ok()?.indexes.iter();
    let found = all.find(|one| {
        one.name == name && schema.as_ref().is_none_or(|schema| *schema == one.schema)
    })?;
    Some(format!("{}.{}", found.schema, found.table))
}

/// Returns a finding for each statement that matters and that no finding explains.
pub(super) fn unexplained_statements(
    evidence: &Evidence,
    thresholds: &Thresholds,
    accounts: &[StatementAccount],
) -> Vec<Finding> {
    let mut seen = HashSet::new();
    accounts
        .iter()
        .filter(|account| account.needs_explanation && account.explained_share < EXPLAINED)
        .filter(|account| account.ns >= BUSY * evidence.elapsed_s * 1e9)
        .filter(|account| seen.insert(account.fingerprint))
        .filter_map(|account| {
            let one = evidence.statement(account.fingerprint)?;
            let unexplained = account.share * (1.0 - account.explained_share);
            (one.is_work() && unexplained >= thresholds.of(&UNEXPLAINED_SHARE))
                .then(|| finding(evidence, account, one, unexplained))
                .map(|found| match alone_ms(thresholds, account, one) {
                    None => found,
                    Some(ms) => Finding {
                        severity: Severity::Note,
                        title: format!(
                            "{} (alone on a copy {ms:.2} ms, as its rows need)",
                            found.title
                        ),
                        ..found
                    },
                })
        })
        .collect()
}

/// Returns the longest time of a statement on a copy, in milliseconds, if it is fast there.
fn alone_ms(
    thresholds: &Thresholds,
    account: &StatementAccount,
    one: &StatementEvidence,
) -> Option<f64> {
    let Some(TimeAccount::Measured(measured)) = &account.measured else {
        return None;
    };
    let most = measured.executions.iter().map(|execution| execution.ms);
    is_fast_alone(thresholds, one, &measured.executions, &measured.parts)
        .then(|| most.fold(0.0, f64::max))
}

fn finding(
    evidence: &Evidence,
    account: &StatementAccount,
    one: &StatementEvidence,
    unexplained: f64,
) -> Finding {
    let work = Work::of(one);
    let name = shorten(&one.sql);
    let has_calls = one.calls > 0 || one.counted.is_some_and(|counted| counted.calls > 0);
    let per_call = match (work.blocks, work.rows) {
        _ if !has_calls => "an unknown number of calls".to_owned(),
        (Some((blocks, _)), Some(rows)) => {
            format!("{} blocks per call for {}", grouped(blocks), rows_of(rows))
        }
        (None, Some(rows)) => {
            format!("{:.1} ms per call for {}", work.ns / 1e6, rows_of(rows))
        }
        _ => format!("{:.1} ms per call", work.ns / 1e6),
    };
    let subject = match account.explained_by.is_empty() {
        true => "no finding explains".to_owned(),
        false => format!(
            "findings explain only {:.0} % of",
            account.explained_share * 100.0
        ),
    };
    let own = "the statement's own times";
    let mut evidence_of = Vec::new();
    if has_calls {
        let counts = "the statement's own counts";
        evidence_of.push(Fact::new("time a call", work.ns, Unit::Nanoseconds, own));
        evidence_of.push(Fact::new("calls", one.calls as f64, Unit::Count, counts));
    }
    if let Some((blocks, read)) = work.blocks {
        let from = "pg_stat_statements";
        let check = "SELECT calls, rows, shared_blks_hit, shared_blks_read, query FROM pg_stat_statements ORDER BY total_exec_time DESC";
        evidence_of.push(Fact::new("blocks a call", blocks, Unit::Count, from).check(check));
        evidence_of.push(Fact::new("blocks read a call", read, Unit::Count, from));
    }
    let dominant = one.plan.as_ref().map(|plan| plan.dominant_node());
    if let (Some((node, share)), Some(plan)) = (dominant, &one.plan) {
        let what = format!("of the plan's cost: {}", node.label());
        let plan_is = "plan (EXPLAIN, the planner's costs)";
        evidence_of.insert(0, Fact::new(what, share, Unit::Share, plan_is));
        evidence_of.push(Fact::new(
            "cost of the plan",
            plan.root.cost,
            Unit::Count,
            plan_is,
        ));
    }
    Finding {
        rule: UNEXPLAINED,
        status: Default::default(),
        severity: Severity::Problem,
        subject: Subject::statement(one.fingerprint, one.sql.clone()),
        title: format!(
            "{subject}: {name}, {:.0} % of the time, {per_call}",
            account.share * 100.0
        ),
        evidence: evidence_of,
        cost: Some(evidence.cost(one, one.ns * (1.0 - account.explained_share))),
        max_gain: Some(unexplained),
        changes: vec![Change::manual(next_step(one))],
        risk: "the experiment executes the statement, triggers and all: on a copy, in a transaction that is rolled back"
            .to_owned(),
    }
}

/// Describes the experiment that tells where the time goes.
fn next_step(one: &StatementEvidence) -> &'static str {
    match one.plan {
        Some(_) if one.exceeds_its_plan() => {
            "the plan cannot read these blocks: triggers, foreign keys and functions are not in it, and another plan may \
             have run; EXPLAIN (ANALYZE, BUFFERS) of the statement on a copy names triggers and constraints"
        }
        Some(_) => {
            "EXPLAIN (ANALYZE, BUFFERS) of the statement on a copy, to see which step of its plan takes the time"
        }
        None => {
            "its plan is not known: replay it with --observe --explain, or EXPLAIN (ANALYZE, BUFFERS) it on a copy"
        }
    }
}

fn rows_of(rows: f64) -> String {
    match rows {
        rows if (rows - 1.0).abs() < 0.05 => "1 row".to_owned(),
        rows if rows < 10.0 && rows.fract() > 0.05 => format!("{rows:.1} rows"),
        rows => format!("{} rows", grouped(rows)),
    }
}

/// Formats a number without a fraction, in groups of three digits.
fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{EvidenceBuilder, statement};
    use crate::{Diagnosis, diagnose};

    const DELETE: &str = "delete from basket where id = $1";
    const PLAN: &str = r#"[{"Plan": {"Node Type": "ModifyTable", "Operation": "Delete", "Relation Name": "basket",
        "Total Cost": 8.44, "Plan Rows": 0, "Plans": [{"Node Type": "Index Scan", "Relation Name": "basket",
        "Index Name": "basket_pkey", "Total Cost": 8.44, "Plan Rows": 1}]}}]"#;

    fn with(calls: u64, seconds: f64, blocks: u64) -> Diagnosis {
        let evidence = EvidenceBuilder::new()
            .statement(
                statement(1, DELETE)
                    .took(calls, seconds)
                    .with_rows(calls)
                    .with_counted(|counted| counted.shared_hit = calls * blocks)
                    .with_plan(PLAN),
            )
            .statement(
                statement(2, "select $1")
                    .took(100_000, 5.0)
                    .with_rows(100_000),
            )
            .evidence();
        diagnose(&evidence, &Thresholds::default())
    }

    #[test]
    fn statement_with_unknown_calls_has_no_time_for_each() {
        let evidence = EvidenceBuilder::new()
            .statement(statement(1, DELETE).took(0, 11.0))
            .evidence();
        let diagnosis = diagnose(&evidence, &Thresholds::default());
        let found = diagnosis
            .findings
            .iter()
            .find(|one| one.rule == UNEXPLAINED);
        let found = found.expect("a finding");
        assert!(
            found.title.ends_with("an unknown number of calls"),
            "{}",
            found.title
        );
        assert!(found.evidence.iter().all(|fact| fact.what != "time a call"));
    }

    #[test]
    fn statement_without_a_finding_heads_the_report() {
        let diagnosis = with(80, 11.0, 4_000);
        let first = &diagnosis.findings[0];
        assert_eq!(first.rule, UNEXPLAINED, "{first:#?}");
        assert_eq!(
            first.title,
            "no finding explains: delete from basket where id = $1, 69 % of the time, 4,000 blocks per call for 1 row"
        );
        assert!(
            first.evidence[0]
                .what
                .contains("Index Scan using basket_pkey")
        );
        assert!(first.changes[0].words.contains("foreign keys"));
        assert!(diagnosis.is_finding());
        assert_eq!(diagnosis.accounts[0].explained_share, 0.0);
    }

    #[test]
    fn statement_with_the_work_of_its_rows_needs_no_explanation() {
        let diagnosis = with(100_000, 11.0, 6);
        assert!(!diagnosis.is_finding(), "{diagnosis:#?}");
        assert!(!diagnosis.accounts[0].needs_explanation);
        // One with little of the time needs none either.
        let rare = with(2, 0.2, 4_000);
        assert!(!rare.findings.iter().any(|one| one.rule == UNEXPLAINED));
    }

    /// Two statements that wait for locks of different sessions, and one that holds a lock and works.
    fn with_locks() -> Diagnosis {
        const HOLDER: &str = "update stock set n = n - $1";
        let evidence = EvidenceBuilder::new()
            .statement(
                statement(1, DELETE)
                    .took(80, 20.0)
                    .waiting("Lock", "transactionid", 160),
            )
            .statement(statement(2, "update a set b = $1").took(80, 20.0).waiting(
                "Lock",
                "transactionid",
                120,
            ))
            .statement(statement(3, HOLDER).took(80, 20.0))
            .blocking(DELETE, HOLDER, 100)
            .blocking("update a set b = $1", "update a set c = $1", 100)
            .evidence();
        diagnose(&evidence, &Thresholds::default())
    }

    #[test]
    fn lock_time_is_credited_once_and_to_those_that_waited() {
        let diagnosis = with_locks();
        let of_locks = diagnosis.findings.iter();
        let of_locks = of_locks.filter(|one| one.rule == LOCK_WAITS);
        assert_eq!(of_locks.count(), 2);
        let explained = |id| {
            let mut all = diagnosis.accounts.iter();
            let account = all.find(|one| one.fingerprint == Fingerprint(id)).unwrap();
            (account.explained_share * 100.0).round()
        };
        assert_eq!(
            [explained(1), explained(2), explained(3)],
            [40.0, 30.0, 0.0]
        );
    }

    #[test]
    fn flush_explains_the_statements_that_waited_for_it() {
        let evidence = EvidenceBuilder::new()
            .statement(
                statement(1, "commit")
                    .took(1_000, 30.0)
                    .waiting("IO", "WalSync", 480),
            )
            .statement(statement(2, DELETE).took(80, 30.0))
            .evidence();
        let accounts = diagnose(&evidence, &Thresholds::default()).accounts;
        let shares: Vec<f64> = accounts.iter().map(|one| one.explained_share).collect();
        assert_eq!(accounts[0].explained_by, [COMMIT_FLUSH]);
        assert!((shares[0] - 0.8).abs() < 1e-9, "{shares:?}");
        assert_eq!(shares[1], 0.0, "{accounts:#?}");
    }

    #[test]
    fn rest_of_a_partly_explained_statement_follows_its_finding() {
        let mut diagnosis = with(80, 11.0, 4_000);
        assert_eq!(diagnosis.findings[0].rule, UNEXPLAINED);
        diagnosis.findings.push(Finding {
            rule: "missing-index",
            max_gain: Some(0.1),
            ..diagnosis.findings[0].clone()
        });
        diagnosis.sort();
        assert_eq!(diagnosis.findings[0].rule, "missing-index");
        // A note explains nothing.
        diagnosis.findings[0].severity = Severity::Note;
        diagnosis.sort();
        assert_eq!(diagnosis.findings[0].rule, UNEXPLAINED);
    }

    #[test]
    fn explained_part_is_not_reported_again() {
        let planned = EvidenceBuilder::new().statement(
            statement(1, "select * from a where b = $1")
                .took(1_000, 20.0)
                .with_rows(1_000)
                .with_counted(|counted| {
                    counted.plans = Some(1_000);
                    counted.plan_ns = Some(16_000_000_000);
                    counted.exec_ns = 4_000_000_000;
                }),
        );
        let diagnosis = diagnose(&planned.evidence(), &Thresholds::default());
        let account = &diagnosis.accounts[0];
        assert!((account.explained_share - 0.8).abs() < 1e-9, "{account:?}");
        assert_eq!(account.explained_by, ["planning-dominated"]);
        assert_eq!(diagnosis.findings[0].rule, "planning-dominated");
    }
}
