//! Updates that cannot be HOT because an index has a column that they change: each then writes a new entry into
//! every index of the table, and leaves a dead one behind.

use super::Rule;
use crate::evidence::{Evidence, Missing, StatementEvidence};
use crate::finding::{Change, Fact, Finding, Severity, Subject};
use crate::index_shape::IndexShape;
use crate::statement_text::{set_columns, written};
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
    look,
};

fn look(evidence: &Evidence, thresholds: &Thresholds) -> Result<Vec<Finding>, Missing> {
    let observed = evidence.observed.as_ref().map_err(Clone::clone)?;
    evidence.facts.as_ref().map_err(Clone::clone)?;
    let mut findings = Vec::new();
    let tables = observed
        .counters
        .iter()
        .filter(|one| one.source == "pg_stat_user_tables" && one.name == "n_tup_upd");
    for updates in tables {
        let name = updates.object.as_str();
        let hot = evidence.gained("pg_stat_user_tables", name, "n_tup_hot_upd");
        let share_hot = hot / updates.delta.max(1.0);
        if updates.delta < thresholds.of(&UPDATES) || share_hot >= thresholds.of(&SHARE) {
            continue;
        }
        let Some((schema, table)) = name.split_once('.') else {
            continue;
        };
        let known = (Some(schema.to_owned()), table.to_owned());
        let Some(relation) = evidence.table(&known) else {
            continue;
        };
        let mut changed: Vec<String> = Vec::new();
        let mut updating: Vec<&StatementEvidence> = Vec::new();
        for one in evidence
            .statements
            .iter()
            .filter(|one| one.class == StatementClass::Update)
        {
            let is_of = written(&one.sql).is_some_and(|(in_schema, of)| {
                of == table && in_schema.is_none_or(|one| one == schema)
            });
            if is_of {
                changed.extend(set_columns(&one.sql));
                updating.push(one);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        // A summary of blocks is no entry of a row (from 16 on its columns do not speak against HOT).
        let shapes = evidence
            .indexes(relation)
            .into_iter()
            .map(|index| (index, IndexShape::of(index)));
        let guilty: Vec<_> = shapes
            .filter(|(_, shape)| shape.method != "brin")
            .filter_map(|(index, shape)| {
                let column = changed.iter().find(|column| shape.has_column(column))?;
                Some((index, column))
            })
            .collect();
        // Only what changes an indexed column pays for it; where none is, all do.
        let pays = |one: &&&StatementEvidence| {
            let set = set_columns(&one.sql);
            guilty.is_empty() || guilty.iter().any(|(_, column)| set.contains(column))
        };
        let paying: Vec<&&StatementEvidence> = updating.iter().filter(pays).collect();
        // Stacks tell what writing indexes takes; without them all of it is the bound.
        let stacked: Option<f64> = paying
            .iter()
            .map(|one| Some(one.ns * one.phase_share(&[Phase::IndexInsertion])?.0))
            .sum();
        let ns = stacked.unwrap_or_else(|| paying.iter().map(|one| one.ns).sum());
        let share = evidence.share(ns);
        let scans = |index: &IndexFact| {
            let object = format!("{}.{} on {}", index.schema, index.name, index.table);
            evidence.gained("pg_stat_user_indexes", &object, "idx_scan")
        };
        let check = format!(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = '{name}'::regclass"
        );
        let mut facts = vec![
            Fact::new("updates", updates.delta, Unit::Count, "pg_stat_user_tables").check(check),
            Fact::new(
                "of these HOT",
                share_hot,
                Unit::Share,
                "pg_stat_user_tables",
            ),
            Fact::new(
                "indexes of the table",
                evidence.indexes(relation).len() as f64,
                Unit::Count,
                "pg_index",
            ),
        ];
        if let Some((index, _)) = guilty.first() {
            facts.push(Fact::new(
                format!("scans of {} meanwhile", index.name),
                scans(index),
                Unit::Count,
                "pg_stat_user_indexes",
            ));
        }
        let (title, changes, risk) = match guilty.first() {
            Some((index, column)) => (
                format!("updates of {name} are not HOT: {} has {column}, which they change", index.name),
                match index.unique {
                    true => vec![Change::by_hand(format!(
                        "keep {column} in a table of its own, since {} has to be there",
                        index.name
                    ))],
                    false if scans(index) > 0.0 => vec![Change::by_hand(format!(
                        "{} is used: weigh what it serves against these updates, or keep {column} in a table of its own",
                        index.name
                    ))],
                    false => vec![Change::sql(
                        format!("do without {}, or keep {column} in a table of its own", index.name),
                        format!("DROP INDEX {}.{};", index.schema, index.name),
                    )],
                },
                format!("queries that use {} become slower: prove it on their traffic", index.name),
            ),
            None if changed.is_empty() => continue,
            None => (
                format!("updates of {name} are not HOT, although no index has what they change: pages are full"),
                vec![Change::sql(
                    "leave room in each page, and write the table anew",
                    format!("ALTER TABLE {name} SET (fillfactor = 80);\nVACUUM FULL {name};"),
                )],
                "the table becomes larger by what is left free, and VACUUM FULL locks it meanwhile; \
                 transactions that stay open for long have the same effect"
                    .to_owned(),
            ),
        };
        findings.push(Finding {
            rule: "",
            severity: match stacked {
                Some(_) => thresholds.severity(share),
                // That they are not HOT is known, and not how much of their time that is.
                None => thresholds.severity(share).max(Severity::Warning),
            },
            subject: Subject::table(name.to_owned()),
            title,
            evidence: facts,
            cost: Some(evidence.cost_of(ns)),
            max_gain: Some(share),
            changes,
            risk,
        });
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Form;
    use crate::made_up::{MadeUp, statement, table};

    fn with(hot: f64, index: &str) -> MadeUp {
        MadeUp::new()
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
    fn the_index_that_takes_hot_away_is_named() {
        let found = with(
            10.0,
            "CREATE INDEX by_state ON public.jobs USING btree (state)",
        )
        .find(&RULE);
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
        assert_eq!(used.find(&RULE)[0].changes[0].form, Form::ByHand);
        let full = with(
            10.0,
            "CREATE INDEX other ON public.jobs USING btree (id, created)",
        )
        .find(&RULE);
        assert!(full[0].title.contains("pages are full"));
    }

    #[test]
    fn updates_that_are_hot_are_well() {
        assert_eq!(
            with(
                4_000.0,
                "CREATE INDEX by_state ON public.jobs USING btree (state)"
            )
            .find(&RULE),
            []
        );
    }
}
