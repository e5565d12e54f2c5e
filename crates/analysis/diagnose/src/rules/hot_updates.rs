//! Updates that cannot be HOT because they change an indexed column. Each then writes a new entry
//! into every index of the table and leaves a dead one.

use super::Rule;
use crate::evidence::{Evidence, StatementEvidence, Unavailable};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::index_shape::IndexShape;
use crate::statement_text::{set_columns, written_table};
use crate::threshold::{Threshold, Thresholds};
use cpu_profile::phases::Phase;
use run::IndexFact;
use sql::StatementClass;
use statistics::Unit;

const UPDATES: Threshold = Threshold {
    name: "hot-updates",
    value: 1_000.0,
    unit: "updates of a table",
    decides: "fewer are not looked at",
    source: "ours",
};

const SHARE: Threshold = Threshold {
    name: "hot-share",
    value: 0.5,
    unit: "share of updates",
    decides: "where more of them are HOT, all is well",
    source: "ours",
};

pub(super) const RULE: Rule = Rule {
    name: "hot-updates",
    looks_at: "updates of each table, and how many of them were HOT",
    thresholds: &[UPDATES, SHARE],
    evaluate,
};

fn evaluate(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Unavailable> {
    let observed = evidence.observed.as_ref().map_err(Clone::clone)?;
    evidence.facts.as_ref().map_err(Clone::clone)?;
    let tables = observed
        .counters
        .iter()
        .filter(|one| one.source == "pg_stat_user_tables" && one.name == "n_tup_upd");
    let found = tables.filter_map(|updates| {
        let name = updates.object.as_str();
        let hot = evidence.increase("pg_stat_user_tables", name, "n_tup_hot_upd");
        let share_hot = hot / updates.delta.max(1.0);
        if updates.delta < thresholds.of(&UPDATES) || share_hot >= thresholds.of(&SHARE) {
            return None;
        }
        let table = TableUpdates::collect(evidence, name, updates.delta, share_hot)?;
        table.finding(evidence, thresholds)
    });
    Ok(found.collect())
}

/// Updates of one table that are mostly not HOT.
struct TableUpdates<'e> {
    /// Name of the table, including the schema.
    name: &'e str,
    updates: f64,
    share_hot: f64,
    /// Number of indexes of the table.
    indexes: usize,
    /// Columns that the statements change, sorted.
    changed: Vec<String>,
    statements: Vec<&'e StatementEvidence>,
    /// Indexes that prevent HOT, each with a changed column that it has.
    preventing: Vec<(&'e IndexFact, String)>,
}

impl<'e> TableUpdates<'e> {
    /// Collects the statements that update a table, and the indexes that prevent HOT. `None` if there are
    /// no facts about the table.
    fn collect(
        evidence: &'e Evidence,
        name: &'e str,
        updates: f64,
        share_hot: f64,
    ) -> Option<Self> {
        let (schema, table) = name.split_once('.')?;
        let relation = evidence.table(&(Some(schema.to_owned()), table.to_owned()))?;
        let is_of_table = |one: &&StatementEvidence| {
            one.class == StatementClass::Update
                && written_table(&one.sql).is_some_and(|(in_schema, of)| {
                    of == table && in_schema.is_none_or(|one| one == schema)
                })
        };
        let statements: Vec<_> = evidence.statements.iter().filter(is_of_table).collect();
        let mut changed: Vec<String> = statements
            .iter()
            .flat_map(|one| set_columns(&one.sql))
            .collect();
        changed.sort_unstable();
        changed.dedup();
        let indexes = evidence.indexes(relation);
        let count = indexes.len();
        // Summarising indexes have no entry for each row (from version 16 their columns do not
        // prevent HOT).
        let shapes = indexes
            .into_iter()
            .map(|index| (index, IndexShape::parse(index)));
        let preventing = shapes
            .filter(|(_, shape)| shape.method != "brin")
            .filter_map(|(index, shape)| {
                let column = changed.iter().find(|column| shape.has_column(column))?;
                Some((index, column.clone()))
            })
            .collect();
        Some(Self {
            name,
            updates,
            share_hot,
            indexes: count,
            changed,
            statements,
            preventing,
        })
    }

    fn finding(&self, evidence: &Evidence, thresholds: &Thresholds) -> Option<Finding> {
        // Only updates of indexed columns pay; if there are none, all updates do.
        let pays = |one: &&&StatementEvidence| {
            let set = set_columns(&one.sql);
            self.preventing.is_empty()
                || self
                    .preventing
                    .iter()
                    .any(|(_, column)| set.contains(column))
        };
        let paying: Vec<_> = self.statements.iter().filter(pays).collect();
        // Stacks show the time of index writes; without them, the whole time is the bound.
        let stacked: Option<f64> = paying
            .iter()
            .map(|one| Some(one.ns * one.phase_share(&[Phase::IndexInsertion])?.0))
            .sum();
        let ns = stacked.unwrap_or_else(|| paying.iter().map(|one| one.ns).sum());
        let share = evidence.share(ns);
        let remedy = match self.preventing.first() {
            Some((index, column)) => self.index_remedy(evidence, index, column),
            None if self.changed.is_empty() => return None,
            None => self.full_pages_remedy(),
        };
        Some(Finding {
            rule: "",
            status: Default::default(),
            severity: match stacked {
                Some(_) => thresholds.severity(share),
                // It is known that updates are not HOT, but not how much time that takes.
                None => thresholds.severity(share).max(Severity::Warning),
            },
            subject: Subject::table(self.name.to_owned()),
            title: remedy.title,
            evidence: self.facts(evidence),
            cost: Some(evidence.cost_of(ns)),
            max_gain: Some(share),
            changes: remedy.changes,
            risk: remedy.risk,
        })
    }

    fn facts(&self, evidence: &Evidence) -> Vec<Fact> {
        let check = format!(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = '{}'::regclass",
            self.name
        );
        let source = "pg_stat_user_tables";
        let mut facts = vec![
            Fact::new("updates", self.updates, Unit::Count, source).check(check),
            Fact::new("of these HOT", self.share_hot, Unit::Share, source),
            Fact::new(
                "indexes of the table",
                self.indexes as f64,
                Unit::Count,
                "pg_index",
            ),
        ];
        if let Some((index, _)) = self.preventing.first() {
            facts.push(Fact::new(
                format!("scans of {} meanwhile", index.name),
                scans(evidence, index),
                Unit::Count,
                "pg_stat_user_indexes",
            ));
        }
        facts
    }

    /// Proposes to remove the index, or to move the column to another table.
    fn index_remedy(&self, evidence: &Evidence, index: &IndexFact, column: &str) -> Remedy {
        let change = match index.key.is_unique() {
            true => Change::manual(format!(
                "keep {column} in a table of its own, since {} has to be there",
                index.name
            )),
            false if scans(evidence, index) > 0.0 => Change::manual(format!(
                "{} is used: weigh what it serves against these updates, or keep {column} in a table of its own",
                index.name
            )),
            false => Change::sql(
                format!(
                    "do without {}, or keep {column} in a table of its own",
                    index.name
                ),
                format!("DROP INDEX {}.{};", index.schema, index.name),
            ),
        };
        Remedy {
            title: format!(
                "updates of {} are not HOT: {} has {column}, which they change",
                self.name, index.name
            ),
            changes: vec![change],
            risk: format!(
                "queries that use {} become slower: prove it on their traffic",
                index.name
            ),
        }
    }

    /// Proposes to leave free space in pages, because no index prevents HOT.
    fn full_pages_remedy(&self) -> Remedy {
        let name = self.name;
        Remedy {
            title: format!(
                "updates of {name} are not HOT, although no index has what they change: pages are full"
            ),
            changes: vec![Change::sql(
                "leave room in each page, and write the table anew",
                format!("ALTER TABLE {name} SET (fillfactor = 80);\nVACUUM FULL {name};"),
            )],
            risk: "the table becomes larger by what is left free, and VACUUM FULL locks it meanwhile; \
                   transactions that stay open for long have the same effect"
                .to_owned(),
        }
    }
}

/// Title, changes and risk of a finding.
struct Remedy {
    title: String,
    changes: Vec<Change>,
    risk: String,
}

/// Returns the number of scans of an index.
fn scans(evidence: &Evidence, index: &IndexFact) -> f64 {
    let object = format!("{}.{} on {}", index.schema, index.name, index.table);
    evidence.increase("pg_stat_user_indexes", &object, "idx_scan")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Form;
    use crate::synthetic::{EvidenceBuilder, statement, table};

    fn with(hot: f64, index: &str) -> EvidenceBuilder {
        EvidenceBuilder::new()
            .statement(
                statement(
                    1,
                    "update jobs set state = $1, tries = tries + $2 where id = $3",
                )
                .took(5_000, 5.0),
            )
            .statement(statement(2, "select $1").took(5_000, 5.0))
            .table(table(
                "jobs",
                10_000,
                &["id int8", "state text", "tries int"],
            ))
            .index("CREATE UNIQUE INDEX jobs_pkey ON public.jobs USING btree (id)")
            .index(index)
            .counter(
                "pg_stat_user_tables",
                "public.jobs",
                "n_tup_upd",
                100.0,
                5_100.0,
            )
            .counter(
                "pg_stat_user_tables",
                "public.jobs",
                "n_tup_hot_upd",
                0.0,
                hot,
            )
    }

    #[test]
    fn index_that_prevents_hot_is_named() {
        let found = with(
            10.0,
            "CREATE INDEX by_state ON public.jobs USING btree (state)",
        )
        .findings(&RULE);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].title.contains("by_state has state"),
            "{}",
            found[0].title
        );
        assert_eq!(found[0].max_gain, Some(0.5));
        assert_eq!(found[0].severity, Severity::Warning);
        assert!(matches!(found[0].changes[0].form, Form::Sql(_)));
        let used = with(
            10.0,
            "CREATE INDEX by_state ON public.jobs USING btree (state)",
        )
        .counter(
            "pg_stat_user_indexes",
            "public.by_state on jobs",
            "idx_scan",
            0.0,
            9.0,
        );
        assert_eq!(used.findings(&RULE)[0].changes[0].form, Form::ByHand);
        let full = with(
            10.0,
            "CREATE INDEX other ON public.jobs USING btree (id, created)",
        )
        .findings(&RULE);
        assert!(full[0].title.contains("pages are full"));
    }

    #[test]
    fn hot_updates_are_no_finding() {
        assert_eq!(
            with(
                4_000.0,
                "CREATE INDEX by_state ON public.jobs USING btree (state)"
            )
            .findings(&RULE),
            []
        );
    }
}
