//! Single-row inserts into a table with many indexes. Each statement opens every index, reads the
//! predicates of partial ones and closes them again, regardless of the number of rows.

use std::collections::BTreeSet;

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Subject};
use crate::threshold::{Threshold, Thresholds};
use cpu_profile::phases::Phase;
use sql::StatementClass;
use statistics::Unit;

const INDEXES: Threshold = Threshold {
    name: "index-open-indexes",
    value: 16.0,
    unit: "indexes of a table",
    decides: "this number of indexes is high for single-row inserts",
    source: "ours: the locks that a backend has a fast path for before version 18",
};

const ROWS: Threshold = Threshold {
    name: "index-open-rows",
    value: 2.0,
    unit: "rows a statement",
    decides: "inserts of fewer rows count as single ones",
    source: "ours",
};

const SHARE: Threshold = Threshold {
    name: "index-open-share",
    value: 0.15,
    unit: "share of the statement's processor time",
    decides: "less of it opening indexes is no tax, where stacks tell",
    source: "ours",
};

/// Suggested number of rows in a batch.
const BATCH: u32 = 50;

/// Phases of opening an index, which occur once for each statement.
const OPENING: [Phase; 4] = [
    Phase::OpenIndexes,
    Phase::Caches,
    Phase::ExecutorStart,
    Phase::LockManager,
];

pub(super) const RULE: Rule = Rule {
    name: "index-open-tax",
    looks_at: "inserts of single rows into tables with many indexes",
    thresholds: &[INDEXES, ROWS, SHARE],
    evaluate,
};

/// Minimum number of stacks for judging one statement; with fewer, all statements of its kind are
/// taken together.
const STACKS_MIN: u64 = 50;

/// Single-row inserts into one table with many indexes.
struct SingleRowInserts<'e> {
    one: &'e StatementEvidence,
    table: String,
    indexes: usize,
    partial: usize,
    rows: f64,
    /// Share of its processor time spent opening indexes, and the number of stacks; its own or
    /// those of all.
    stacks: Option<(f64, u64)>,
    won_ns: f64,
}

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    evidence.facts.as_ref().map_err(Clone::clone)?;
    let mut all = Vec::new();
    for one in &evidence.statements {
        if one.class != StatementClass::Insert || one.calls < 2 {
            continue;
        }
        let Some(rows) = one.rows_per_call().filter(|rows| *rows > 0.0) else {
            continue;
        };
        let Some(table) = evidence.written_by(one) else {
            continue;
        };
        let indexes = evidence.indexes(table);
        if rows >= thresholds.of(&ROWS) || (indexes.len() as f64) < thresholds.of(&INDEXES) {
            continue;
        }
        all.push(SingleRowInserts {
            one,
            table: format!("{}.{}", table.schema, table.name),
            indexes: indexes.len(),
            partial: indexes
                .iter()
                .filter(|index| index.definition.contains(" WHERE "))
                .count(),
            rows,
            stacks: one.phase_share(&OPENING),
            won_ns: 0.0,
        });
    }
    let pooled = joint_opening_share(&all);
    for single in &mut all {
        let own = single.stacks.filter(|(_, samples)| *samples >= STACKS_MIN);
        single.stacks = own.or(pooled);
        // Work done once for each statement is done once for each batch.
        let saved = 1.0 - single.rows / f64::from(BATCH);
        single.won_ns = single.one.ns * single.stacks.map_or(1.0, |(share, _)| share) * saved;
    }
    all.retain(|single| {
        single
            .stacks
            .is_none_or(|(share, _)| share >= thresholds.of(&SHARE))
    });
    all.sort_by(|a, b| b.won_ns.total_cmp(&a.won_ns));
    Ok(match all.is_empty() {
        true => Vec::new(),
        false => vec![finding(evidence, thresholds, &all)],
    })
}

/// Returns the share of opening indexes in the stacks of all statements.
fn joint_opening_share(all: &[SingleRowInserts<'_>]) -> Option<(f64, u64)> {
    let stacks = || all.iter().filter_map(|single| single.stacks);
    let samples: u64 = stacks().map(|(_, samples)| samples).sum();
    let opening: f64 = stacks()
        .map(|(share, samples)| share * samples as f64)
        .sum();
    (samples > 0).then(|| (opening / samples as f64, samples))
}

/// Creates one finding for all tables: sharded tables are similar, and each alone is a small part.
fn finding(evidence: &Evidence, thresholds: &Thresholds, all: &[SingleRowInserts<'_>]) -> Finding {
    let first = &all[0];
    let ns: f64 = all.iter().map(|single| single.one.ns).sum();
    let name = &first.table;
    let tables: BTreeSet<&str> = all.iter().map(|single| &*single.table).collect();
    let stacks = match all.len() {
        1 => first.stacks,
        _ => joint_opening_share(all),
    };
    let share = evidence.share(all.iter().map(|single| single.won_ns).sum());
    let title = match tables.len() {
        1 => format!(
            "inserts of single rows into {name} open {} indexes each time",
            first.indexes
        ),
        tables => format!(
            "inserts of single rows into {tables} tables, such as {name}, open {} indexes each time",
            first.indexes
        ),
    };
    Finding {
        rule: "",
        status: Default::default(),
        severity: thresholds.severity(share),
        subject: Subject::statement(first.one.fingerprint, first.one.sql.clone()),
        title,
        evidence: facts(all, tables.len(), stacks),
        cost: Some(match all.len() {
            1 => evidence.cost(first.one, first.one.ns),
            _ => evidence.cost_of(ns),
        }),
        max_gain: Some(share),
        changes: vec![
            Change::rewrite(
                format!("insert about {BATCH} rows a statement"),
                format!("batch-inserts={BATCH}"),
            ),
            Change::manual(
                "send the rows of one table to one connection, whose caches then know its indexes",
            ),
        ],
        risk: match stacks {
            Some(_) => {
                "a batch fails as a whole, and a row waits until its batch is full".to_owned()
            }
            None => "a batch fails as a whole, and a row waits until its batch is full; without \
                     stacks (--profile) the most to win is all of the statement's time, and how much \
                     of that is opening indexes is not known"
                .to_owned(),
        },
    }
}

/// Returns the facts of the finding on statements for this number of tables.
fn facts(all: &[SingleRowInserts<'_>], tables: usize, stacks: Option<(f64, u64)>) -> Vec<Fact> {
    let first = &all[0];
    let ns: f64 = all.iter().map(|single| single.one.ns).sum();
    let calls: u64 = all.iter().map(|single| single.one.calls).sum();
    let rows: f64 = all.iter().map(|one| one.rows * one.one.calls as f64).sum();
    let name = &first.table;
    let mut facts = vec![
        Fact::new(
            "rows a statement",
            rows / calls.max(1) as f64,
            Unit::Mean,
            "the statement's own counts",
        ),
        Fact::new(
            "indexes of the table",
            first.indexes as f64,
            Unit::Count,
            "pg_index",
        )
        .check(format!(
            "SELECT count(*) FROM pg_index WHERE indrelid = '{name}'::regclass"
        )),
        Fact::new(
            "of these partial",
            first.partial as f64,
            Unit::Count,
            "pg_index",
        ),
        Fact::new(
            "time a call",
            ns / calls.max(1) as f64,
            Unit::Nanoseconds,
            "the statement's own times",
        ),
    ];
    if tables > 1 {
        let count = tables as f64;
        let fact = Fact::new("tables of this kind", count, Unit::Count, "pg_index");
        facts.insert(1, fact);
    }
    if let Some((share, samples)) = stacks {
        let what = match all.len() {
            1 => format!("of {samples} stacks, opening indexes and what is done once a statement"),
            _ => "of these statements' stacks, opening indexes and what is done once a statement"
                .to_owned(),
        };
        facts.push(
            Fact::new(what, share, Unit::Share, "stacks (perf)").check(format!(
                "rehearse cpu RUN --statement {}",
                first.one.fingerprint
            )),
        );
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Form, Severity};
    use crate::synthetic::{EvidenceBuilder, statement, table};

    fn with(indexes: usize, calls: u64, rows: u64, opening: u64) -> EvidenceBuilder {
        let mut made_up = EvidenceBuilder::new()
            .statement(
                statement(1, "insert into public.events (a, b) values ($1, ...)")
                    .took(calls, 30.0)
                    .with_rows(rows)
                    .with_phases(&[
                        (Phase::OpenIndexes, opening),
                        (Phase::Expression, 100 - opening),
                    ]),
            )
            .statement(statement(2, "select $1").took(100, 10.0))
            .table(table("events", 1_000, &["a int", "b text"]));
        for number in 0..indexes {
            made_up = made_up.index(&format!(
                "CREATE INDEX i{number} ON public.events USING btree (a) WHERE (b = '{number}'::text)"
            ));
        }
        made_up
    }

    #[test]
    fn single_row_inserts_into_many_indexes_are_found() {
        let found = with(50, 1_000, 1_000, 60).findings(&RULE);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].severity, Severity::Problem);
        // 30 of 40 s, 60 % of it opening, 49 of 50 times.
        assert!((found[0].max_gain.unwrap() - 0.75 * 0.6 * 0.98).abs() < 1e-9);
        assert_eq!(
            found[0].changes[0].form,
            Form::Rewrite("batch-inserts=50".to_owned())
        );
    }

    #[test]
    fn similar_tables_are_one_finding() {
        let mut made_up =
            EvidenceBuilder::new().statement(statement(9, "select $1").took(100, 10.0));
        for number in 0..20 {
            let name = format!("events_{number}");
            made_up = made_up
                .statement(
                    statement(
                        20 + number,
                        &format!("insert into public.{name} (a, b) values ($1, ...)"),
                    )
                    .took(100, 1.0)
                    .with_rows(100)
                    // Too few to judge one table by them.
                    .with_phases(&[(Phase::OpenIndexes, 3), (Phase::Expression, 1)]),
                )
                .table(table(&name, 1_000, &["a int", "b text"]));
            for index in 0..16 {
                made_up = made_up.index(&format!(
                    "CREATE INDEX i{number}_{index} ON public.{name} USING btree (a) WHERE (b = '{index}'::text)"
                ));
            }
        }
        let found = made_up.findings(&RULE);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].title.contains("20 tables"), "{}", found[0].title);
        // 20 of 30 s, 75 % of it opening, 49 of 50 times.
        let won = found[0].max_gain.unwrap();
        assert!((won - 20.0 / 30.0 * 0.75 * 0.98).abs() < 1e-9, "{won}");
    }

    #[test]
    fn batches_few_indexes_and_costly_predicates_are_no_finding() {
        assert_eq!(with(50, 1_000, 50_000, 60).findings(&RULE), []);
        assert_eq!(with(10, 1_000, 1_000, 60).findings(&RULE), []);
        assert_eq!(with(50, 1_000, 1_000, 5).findings(&RULE), []);
    }
}
