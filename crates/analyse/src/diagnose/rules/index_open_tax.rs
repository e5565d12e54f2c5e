//! Inserts of one row into a table of many indexes: each statement opens every index, reads the predicates
//! of partial ones, and closes them again, whatever it inserts.

use super::Rule;
use crate::diagnose::evidence::{Evidence, Missing};
use crate::diagnose::finding::{Change, Fact, Finding, Subject, Unit};
use crate::diagnose::threshold::{Threshold, Thresholds};
use crate::phases::Phase;
use workload::StatementClass;

const INDEXES: Threshold = Threshold {
    name: "index-open-indexes",
    value: 16.0,
    unit: "indexes of a table",
    decides: "so many indexes are many for inserts of single rows",
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

/// The rows that a batch is suggested to have.
const BATCH: u32 = 50;

/// What opening an index is spent in: done once a statement.
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
    look,
};

fn look(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Missing> {
    evidence.facts.as_ref().map_err(Clone::clone)?;
    let mut findings = Vec::new();
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
        let partial = indexes
            .iter()
            .filter(|index| index.definition.contains(" WHERE "))
            .count();
        let stacks = one.phase_share(&OPENING);
        if stacks.is_some_and(|(share, _)| share < thresholds.of(&SHARE)) {
            continue;
        }
        // What is done once a statement is done once for a batch.
        let saved = 1.0 - rows / f64::from(BATCH);
        let won_ns = one.ns * stacks.map_or(1.0, |(share, _)| share) * saved;
        let name = format!("{}.{}", table.schema, table.name);
        let mut facts = vec![
            Fact::new(
                "rows a statement",
                rows,
                Unit::Mean,
                "the statement's own counts",
            ),
            Fact::new(
                "indexes of the table",
                indexes.len() as f64,
                Unit::Count,
                "pg_index",
            )
            .check(format!(
                "SELECT count(*) FROM pg_index WHERE indrelid = '{name}'::regclass"
            )),
            Fact::new("of these partial", partial as f64, Unit::Count, "pg_index"),
            Fact::new(
                "time a call",
                one.ns_per_call(),
                Unit::Nanoseconds,
                "the statement's own times",
            ),
        ];
        if let Some((share, samples)) = stacks {
            facts.push(
                Fact::new(
                    format!(
                        "of {samples} stacks, opening indexes and what is done once a statement"
                    ),
                    share,
                    Unit::Share,
                    "stacks (perf)",
                )
                .check(format!(
                    "rehearse phases RUN --statement {}",
                    one.fingerprint
                )),
            );
        }
        let share = evidence.share(won_ns);
        findings.push(Finding {
            rule: "",
            severity: thresholds.severity(share),
            subject: Subject::Statement(one.fingerprint, one.sql.clone()),
            title: format!(
                "inserts of single rows into {name} open {} indexes each time",
                indexes.len()
            ),
            evidence: facts,
            cost: Some(evidence.cost(one, one.ns)),
            most_to_win: Some(share),
            changes: vec![
                Change::rewrite(
                    format!("insert about {BATCH} rows a statement"),
                    format!("batch-inserts={BATCH}"),
                ),
                Change::by_hand(
                    "send the rows of one table to one connection, whose caches then know its indexes",
                ),
            ],
            risk: match stacks {
                Some(_) => "a batch fails as a whole, and a row waits until its batch is full".to_owned(),
                None => "a batch fails as a whole, and a row waits until its batch is full; without \
                         stacks (--profile) the most to win is all of the statement's time, and how much \
                         of that is opening indexes is not known"
                    .to_owned(),
            },
        });
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnose::finding::{Form, Severity};
    use crate::diagnose::made_up::{MadeUp, statement, table};

    fn with(indexes: usize, calls: u64, rows: u64, opening: u64) -> MadeUp {
        let mut made_up = MadeUp::new()
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
    fn single_rows_into_many_indexes_are_found() {
        let found = with(50, 1_000, 1_000, 60).find(&RULE);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].severity, Severity::Problem);
        // 30 of 40 s, 60 % of it opening, 49 of 50 times.
        assert!((found[0].most_to_win.unwrap() - 0.75 * 0.6 * 0.98).abs() < 1e-9);
        assert_eq!(
            found[0].changes[0].form,
            Form::Rewrite("batch-inserts=50".to_owned())
        );
    }

    #[test]
    fn batches_few_indexes_and_costly_predicates_are_none() {
        assert_eq!(with(50, 1_000, 50_000, 60).find(&RULE), []);
        assert_eq!(with(10, 1_000, 1_000, 60).find(&RULE), []);
        assert_eq!(with(50, 1_000, 1_000, 5).find(&RULE), []);
    }
}
