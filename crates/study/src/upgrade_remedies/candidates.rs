//! Candidates for a statement: differences between the servers that may be the cause, the most plausible first.

use std::collections::BTreeSet;

use plans::Plan;

use super::plan_advice::advice_of;
use super::planning_state::{IndexState, PlanningState, SettingState, StatisticsState, TableState};
use super::result::{RegressionRemedy, RemedyKind};
use crate::environment::{quote_identifier, quote_literal};

/// Factor between the estimated rows of both servers from which statistics are outdated.
const OTHER_ROWS: f64 = 1.5;
/// Lock of a statement that writes indexes.
const INDEX_LOCK: &str = "It blocks writes to the table while the index is built; CREATE INDEX CONCURRENTLY and REINDEX CONCURRENTLY do not.";

/// Candidate for the remedy of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) remedy: RegressionRemedy,
    /// Statements with the same effect in a transaction.
    pub(super) trial: Vec<String>,
    /// Whether it may help although the plan stays the same.
    pub(super) acts_on_execution: bool,
}

/// Statement whose candidates are wanted.
pub(super) struct SlowStatement<'a> {
    /// Plan on the old server.
    pub(super) old: &'a Plan,
    /// Plan on the new server.
    pub(super) new: &'a Plan,
    /// Whether only the new server compiled it.
    pub(super) newly_compiled: bool,
    /// Statements of remedies that were chosen for others.
    pub(super) chosen: &'a [RegressionRemedy],
}

/// Returns the candidates, the most plausible first. Remedies that were chosen for other statements precede all others.
pub(super) fn candidates(
    (old, new): (&PlanningState, &PlanningState),
    statement: &SlowStatement<'_>,
) -> Vec<Candidate> {
    let relations = relations(statement);
    let mut all = compilation(old, new, statement);
    all.extend(table_statistics(old, new, &relations));
    all.extend(extended_statistics(old, new, &relations));
    all.extend(indexes(old, new, &relations));
    all.extend(settings(old, new));
    all.extend(new_methods(old, new));
    all.extend(unknown_age(old, new, &relations));
    all.extend(plan_advice(new, statement));
    let mut known: Vec<Vec<String>> = Vec::new();
    all.retain(|one| {
        let is_new = !known.contains(&one.remedy.statements);
        known.push(one.remedy.statements.clone());
        is_new
    });
    all.sort_by_key(|one| !statement.chosen.contains(&one.remedy));
    all
}

/// Returns the names of the tables and indexes in both plans.
fn relations(statement: &SlowStatement<'_>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for plan in [statement.old, statement.new] {
        plan.root.each(&mut |node, _| {
            names.extend(node.relation.clone());
            names.extend(node.index.clone());
        });
    }
    names
}

fn remedy(kind: RemedyKind, cause: String, statements: Vec<String>) -> RegressionRemedy {
    RegressionRemedy {
        kind,
        cause,
        statements,
        setting: None,
        risk: String::new(),
    }
}

/// Returns a candidate that is the same in a transaction.
fn on_plan(remedy: RegressionRemedy) -> Candidate {
    Candidate {
        trial: remedy.statements.clone(),
        remedy,
        acts_on_execution: false,
    }
}

fn setting(
    database: &str,
    kind: RemedyKind,
    (name, value): (&str, &str),
    cause: String,
) -> Candidate {
    let quoted = quote_literal(value);
    let database = quote_identifier(database);
    let statement = format!("ALTER DATABASE {database} SET {name} = {quoted}");
    Candidate {
        remedy: RegressionRemedy {
            setting: Some((name.to_owned(), value.to_owned())),
            ..remedy(kind, cause, vec![statement])
        },
        trial: vec![format!("SET LOCAL {name} = {quoted}")],
        acts_on_execution: true,
    }
}

/// Returns the settings of just-in-time compilation, if only the new server compiles.
fn compilation(
    old: &PlanningState,
    new: &PlanningState,
    statement: &SlowStatement<'_>,
) -> Vec<Candidate> {
    if !statement.newly_compiled {
        return Vec::new();
    }
    let mut all: Vec<Candidate> = differing(old, new)
        .filter(|(before, _)| before.name.starts_with("jit"))
        .map(|(before, after)| old_value(new, before, after))
        .collect();
    all.push(setting(
        &new.database,
        RemedyKind::Setting,
        ("jit", "off"),
        "Only the new server compiles the statement just in time.".to_owned(),
    ));
    all
}

fn analyze(table: &TableState, cause: String) -> Candidate {
    on_plan(remedy(
        RemedyKind::Analyze,
        cause,
        vec![format!("ANALYZE {}", table.name)],
    ))
}

/// Returns all tables of one kind as one candidate, and none for none.
fn joined(candidates: Vec<Candidate>) -> Option<Candidate> {
    let mut all = candidates.into_iter();
    let mut first = all.next()?;
    for one in all {
        first.remedy.cause = format!("{} {}", first.remedy.cause, one.remedy.cause);
        first.remedy.statements.extend(one.remedy.statements);
        first.trial.extend(one.trial);
    }
    Some(first)
}

/// Pairs the tables of a statement on both servers.
fn tables<'a>(
    old: &'a PlanningState,
    new: &'a PlanningState,
    relations: &'a BTreeSet<String>,
) -> impl Iterator<Item = (&'a TableState, &'a TableState)> {
    let all = relations.iter().flat_map(|name| new.tables_named(name));
    all.filter_map(|table| Some((old.table(&table.name)?, table)))
}

/// Returns ANALYZE of the tables whose statistics are missing or of another size.
fn table_statistics(
    old: &PlanningState,
    new: &PlanningState,
    relations: &BTreeSet<String>,
) -> Option<Candidate> {
    let found = tables(old, new, relations).filter_map(|(before, after)| {
        if after.has_data && before.has_statistics && !after.has_statistics {
            let cause = format!(
                "The table {} has no statistics on the new server.",
                after.name
            );
            return Some(analyze(after, cause));
        }
        let (low, high) = (before.rows.min(after.rows), before.rows.max(after.rows));
        (after.has_data && low >= 0.0 && high > OTHER_ROWS * low.max(1.0)).then(|| {
            let cause = format!(
                "The statistics of the table {} are outdated on the new server: {} rows, and {} on the old one.",
                after.name, after.rows, before.rows
            );
            analyze(after, cause)
        })
    });
    joined(found.collect())
}

/// Returns ANALYZE of the tables that the new server has not analysed since the upgrade.
fn unknown_age(
    old: &PlanningState,
    new: &PlanningState,
    relations: &BTreeSet<String>,
) -> Option<Candidate> {
    let found = tables(old, new, relations)
        .filter(|(_, after)| after.has_data && !after.is_analyzed)
        .map(|(_, after)| {
            let cause = format!(
                "The new server has not analysed the table {} itself.",
                after.name
            );
            analyze(after, cause)
        });
    joined(found.collect())
}

/// Returns the extended statistics that are missing or empty.
fn extended_statistics(
    old: &PlanningState,
    new: &PlanningState,
    relations: &BTreeSet<String>,
) -> Vec<Candidate> {
    let of_statement = |one: &&StatisticsState| {
        tables(old, new, relations).any(|(_, table)| table.name == one.table)
    };
    let mut all = Vec::new();
    for before in old.statistics.iter().filter(of_statement) {
        let after = new.statistics.iter().find(|one| one.name == before.name);
        let analyze = format!("ANALYZE {}", before.table);
        let (kind, cause, statements) = match after {
            None => (
                RemedyKind::ExtendedStatistics,
                format!(
                    "The new server lacks the extended statistics {} of {}.",
                    before.name, before.table
                ),
                vec![before.definition.clone(), analyze],
            ),
            Some(after) if before.has_data && !after.has_data => (
                RemedyKind::Analyze,
                format!(
                    "The extended statistics {} of {} have no data on the new server.",
                    before.name, before.table
                ),
                vec![analyze],
            ),
            Some(_) => continue,
        };
        all.push(on_plan(remedy(kind, cause, statements)));
    }
    all
}

/// Returns the indexes that are missing, invalid, or ordered by another collation.
fn indexes(
    old: &PlanningState,
    new: &PlanningState,
    relations: &BTreeSet<String>,
) -> Vec<Candidate> {
    let of_statement = |one: &&IndexState| {
        tables(old, new, relations).any(|(_, table)| table.name == one.table)
            || relations.contains(&one.plain)
    };
    let mut all = Vec::new();
    for before in old.indexes.iter().filter(of_statement) {
        let after = new.indexes.iter().find(|one| one.name == before.name);
        let (kind, cause, statement) = match after {
            None if before.has_constraint || !before.valid => continue,
            None => (
                RemedyKind::Index,
                format!(
                    "The new server lacks the index {} of {}.",
                    before.name, before.table
                ),
                before.definition.clone(),
            ),
            Some(after) if before.valid && !after.valid => (
                RemedyKind::Reindex,
                format!("The index {} is invalid on the new server.", after.name),
                format!("REINDEX INDEX {}", after.name),
            ),
            Some(after) if after.is_collated && new.collation.differs(&old.collation) => (
                RemedyKind::Reindex,
                format!(
                    "The index {} was built for another collation: {} on the old server, {} on the new one.",
                    after.name,
                    old.collation.description(),
                    new.collation.description()
                ),
                format!("REINDEX INDEX {}", after.name),
            ),
            Some(_) => continue,
        };
        let mut found = on_plan(remedy(kind, cause, vec![statement]));
        INDEX_LOCK.clone_into(&mut found.remedy.risk);
        // The plan has the same form with an index that is built again.
        found.acts_on_execution = kind == RemedyKind::Reindex;
        all.push(found);
    }
    all
}

/// Returns the settings whose value differs.
fn differing<'a>(
    old: &'a PlanningState,
    new: &'a PlanningState,
) -> impl Iterator<Item = (&'a SettingState, &'a SettingState)> {
    old.settings.values().filter_map(|before| {
        let after = new.settings.get(&before.name)?;
        (before.text != after.text && before.setting != after.setting).then_some((before, after))
    })
}

fn old_value(new: &PlanningState, before: &SettingState, after: &SettingState) -> Candidate {
    let origin = match (before.source.as_str(), after.source.as_str()) {
        ("default", "default") => "its default changed",
        (_, "default") => "the new server has the default",
        _ => "the configurations differ",
    };
    setting(
        &new.database,
        RemedyKind::Setting,
        (&before.name, &before.text),
        format!(
            "The setting {} is '{}' on the new server and '{}' on the old one ({origin}).",
            before.name, after.text, before.text
        ),
    )
}

/// Returns the old values of differing settings, those of the planner first.
fn settings(old: &PlanningState, new: &PlanningState) -> Vec<Candidate> {
    let mut pairs: Vec<_> = differing(old, new).collect();
    let is_planner = |name: &str| {
        name.starts_with("enable_")
            || name.ends_with("_cost")
            || name.ends_with("_collapse_limit")
            || name.starts_with("geqo")
            || matches!(
                name,
                "effective_cache_size" | "plan_cache_mode" | "constraint_exclusion"
            )
            || name.starts_with("cpu_")
            || name == "default_statistics_target"
    };
    // Statistics are collected with another target only by the next ANALYZE.
    pairs.retain(|(before, _)| before.name != "default_statistics_target");
    pairs.sort_by_key(|(before, _)| !is_planner(&before.name));
    pairs
        .into_iter()
        .map(|(before, after)| old_value(new, before, after))
        .collect()
}

/// Returns the planner methods that only the new version has.
fn new_methods(old: &PlanningState, new: &PlanningState) -> Vec<Candidate> {
    let added = new.settings.values().filter(|one| {
        one.name.starts_with("enable_")
            && one.vartype == "bool"
            && one.setting == "on"
            && !old.settings.contains_key(&one.name)
    });
    added
        .map(|one| {
            setting(
                &new.database,
                RemedyKind::PlannerMethod,
                (&one.name, "off"),
                format!(
                    "The new version plans with {}, which the old version does not have.",
                    one.name
                ),
            )
        })
        .collect()
}

/// Returns the plan of the old server as advice.
fn plan_advice(new: &PlanningState, statement: &SlowStatement<'_>) -> Option<Candidate> {
    if !new.has_plan_advice || statement.old.shape() == statement.new.shape() {
        return None;
    }
    let advice = quote_literal(&advice_of(statement.old)?);
    let set = format!("pg_plan_advice.advice = {advice}");
    let cause =
        "The new version chooses another plan, and no difference between the servers explains it.";
    let load = "LOAD 'pg_plan_advice'".to_owned();
    Some(Candidate {
        trial: vec![load.clone(), format!("SET LOCAL {set}")],
        remedy: RegressionRemedy {
            risk: "It holds for all statements of a session that name the same tables; set it for this statement only, or \
                   store it with pg_stash_advice."
                .to_owned(),
            ..remedy(
                RemedyKind::PlanAdvice,
                cause.to_owned(),
                vec![load, format!("SET {set}")],
            )
        },
        acts_on_execution: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plans::PlanNode;

    fn plan(kind: &str) -> Plan {
        Plan {
            root: PlanNode {
                kind: kind.to_owned(),
                relation: Some("orders".to_owned()),
                alias: Some("o".to_owned()),
                ..PlanNode::default()
            },
            ..Plan::default()
        }
    }

    /// Returns a server whose state needs no remedy.
    fn state() -> PlanningState {
        let setting = |name: &str, text: &str| {
            let setting = SettingState {
                name: name.to_owned(),
                setting: text.to_owned(),
                text: text.to_owned(),
                vartype: "bool".to_owned(),
                source: "default".to_owned(),
            };
            (name.to_owned(), setting)
        };
        PlanningState {
            database: "shop".to_owned(),
            settings: [
                setting("jit", "on"),
                setting("random_page_cost", "4"),
                setting("work_mem", "4MB"),
            ]
            .into(),
            tables: vec![TableState {
                name: "public.orders".to_owned(),
                plain: "orders".to_owned(),
                rows: 1_000.0,
                has_data: true,
                has_statistics: true,
                is_analyzed: true,
            }],
            statistics: vec![StatisticsState {
                name: "public.s".to_owned(),
                table: "public.orders".to_owned(),
                definition: "CREATE STATISTICS public.s ON a, b FROM public.orders".to_owned(),
                has_data: true,
            }],
            indexes: vec![IndexState {
                name: "public.i".to_owned(),
                plain: "i".to_owned(),
                table: "public.orders".to_owned(),
                definition: "CREATE INDEX i ON public.orders USING btree (a)".to_owned(),
                valid: true,
                is_collated: true,
                has_constraint: false,
            }],
            ..PlanningState::default()
        }
    }

    /// Returns the statements of the candidates, for a change of the new server.
    fn proposed(change: impl Fn(&mut PlanningState)) -> Vec<String> {
        let mut new = state();
        change(&mut new);
        let (before, after) = (plan("Seq Scan"), plan("Sample Scan"));
        let statement = SlowStatement {
            old: &before,
            new: &after,
            newly_compiled: false,
            chosen: &[],
        };
        let all = candidates((&state(), &new), &statement);
        let statements = all.into_iter().map(|one| one.remedy.statements.join("; "));
        statements.collect()
    }

    #[test]
    fn equal_servers_have_no_candidates() {
        assert_eq!(proposed(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn each_difference_has_its_own_remedy() {
        let analyze = ["ANALYZE public.orders"];
        assert_eq!(
            proposed(|new| new.tables[0].has_statistics = false),
            analyze
        );
        assert_eq!(proposed(|new| new.tables[0].rows = 10.0), analyze);
        assert_eq!(proposed(|new| new.tables[0].is_analyzed = false), analyze);
        assert_eq!(proposed(|new| new.statistics[0].has_data = false), analyze);
        assert_eq!(
            proposed(|new| new.statistics.clear()),
            ["CREATE STATISTICS public.s ON a, b FROM public.orders; ANALYZE public.orders"]
        );
        assert_eq!(
            proposed(|new| new.indexes.clear()),
            ["CREATE INDEX i ON public.orders USING btree (a)"]
        );
        let reindex = ["REINDEX INDEX public.i"];
        assert_eq!(proposed(|new| new.indexes[0].valid = false), reindex);
        assert_eq!(
            proposed(|new| new.collation.locale = Some("de_DE".to_owned())),
            reindex
        );
    }

    #[test]
    fn settings_come_after_statistics_and_those_of_the_planner_first() {
        let change = |new: &mut PlanningState| {
            for (name, text) in [("work_mem", "1MB"), ("random_page_cost", "1.1")] {
                let known = new.settings.get_mut(name).unwrap();
                (known.setting, known.text) = (text.to_owned(), text.to_owned());
            }
            new.tables[0].has_statistics = false;
        };
        assert_eq!(
            proposed(change),
            [
                "ANALYZE public.orders",
                "ALTER DATABASE \"shop\" SET random_page_cost = '4'",
                "ALTER DATABASE \"shop\" SET work_mem = '4MB'",
            ]
        );
    }

    #[test]
    fn planner_method_of_the_new_version_only_is_switched_off() {
        let change = |new: &mut PlanningState| {
            let mut added = new.settings["jit"].clone();
            added.name = "enable_novelty".to_owned();
            new.settings.insert(added.name.clone(), added);
        };
        assert_eq!(
            proposed(change),
            ["ALTER DATABASE \"shop\" SET enable_novelty = 'off'"]
        );
    }

    #[test]
    fn compilation_of_the_new_server_only_precedes_all_and_a_chosen_remedy_precedes_it() {
        let (mut new, before, after) = (state(), plan("Seq Scan"), plan("Seq Scan"));
        new.tables[0].has_statistics = false;
        let old = state();
        let mut statement = SlowStatement {
            old: &before,
            new: &after,
            newly_compiled: true,
            chosen: &[],
        };
        let first =
            |statement: &SlowStatement<'_>| candidates((&old, &new), statement)[0].remedy.clone();
        assert_eq!(
            first(&statement).statements,
            ["ALTER DATABASE \"shop\" SET jit = 'off'"]
        );
        let chosen = candidates((&old, &new), &statement)[1].remedy.clone();
        assert_eq!(chosen.kind, RemedyKind::Analyze);
        let chosen = [chosen];
        statement.chosen = &chosen;
        assert_eq!(first(&statement), chosen[0]);
    }

    #[test]
    fn plan_of_the_old_server_is_the_last_candidate_if_the_version_takes_advice() {
        assert_eq!(
            proposed(|new| new.has_plan_advice = true),
            ["LOAD 'pg_plan_advice'; SET pg_plan_advice.advice = 'SEQ_SCAN(o)'"]
        );
    }
}
