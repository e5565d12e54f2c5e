//! Candidates for a statement: differences between the servers that may be the cause, the most plausible first.

use std::collections::BTreeSet;

use plans::Plan;

use super::plan_advice::advice_of;
use super::planning_state::{IndexState, PlanningState, StatisticsState, Storage, TableState};
use super::result::{RegressionRemedy, RemedyKind};
use super::setting_candidates::{compilation, new_methods, settings};
use crate::cause_experiments::PlanTables;
use crate::environment::quote_literal;

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
    /// Schemas and names of the tables in both plans.
    pub(super) tables: &'a PlanTables,
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
    let tables = &paired_tables(old, new, statement.tables);
    let mut all = compilation(old, new, statement);
    all.extend(table_statistics(tables));
    all.extend(extended_statistics(old, new, tables));
    all.extend(indexes(old, new, tables));
    all.extend(settings(old, new));
    all.extend(new_methods(old, new));
    all.extend(unknown_age(tables));
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

pub(super) fn remedy(kind: RemedyKind, cause: String, statements: Vec<String>) -> RegressionRemedy {
    RegressionRemedy {
        kind,
        cause,
        statements,
        setting: None,
        role: None,
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

/// State of a table on the old and on the new server.
type PairedTable<'a> = (&'a TableState, &'a TableState);

/// Pairs the tables of a statement on both servers, with the partitioned tables that they are partitions of.
fn paired_tables<'a>(
    old: &'a PlanningState,
    new: &'a PlanningState,
    tables: &PlanTables,
) -> Vec<PairedTable<'a>> {
    let is_read = |one: &&TableState| tables.contains(&(one.schema.clone(), one.plain.clone()));
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for one in new.tables.iter().filter(is_read) {
        names.insert(&one.name);
        names.extend(one.parents.iter().map(String::as_str));
    }
    let known = new.tables.iter().filter(|one| names.contains(&*one.name));
    let paired = known.filter_map(|after| Some((old.table(&after.name)?, after)));
    paired.collect()
}

/// Returns ANALYZE of tables, with their causes. ANALYZE of a partitioned table includes its partitions.
fn analyze_all(found: Vec<(&TableState, String)>) -> Option<Candidate> {
    let names: Vec<&String> = found.iter().map(|(table, _)| &table.name).collect();
    let is_included = |table: &TableState| table.parents.iter().any(|one| names.contains(&one));
    let all = found.iter().filter(|(table, _)| !is_included(table));
    joined(
        all.map(|(table, cause)| analyze(table, cause.clone()))
            .collect(),
    )
}

/// Returns what the new server lacks, with its statements in the order of their execution: statistics of tables, extended
/// statistics, and valid indexes. `only` limits it to the tables of a statement.
pub(super) fn lacking(
    (old, new): (&PlanningState, &PlanningState),
    only: Option<&PlanTables>,
) -> Vec<RegressionRemedy> {
    let tables: Vec<PairedTable<'_>> = match only {
        Some(tables) => paired_tables(old, new, tables),
        None => {
            let pairs = new.tables.iter();
            let pairs = pairs.filter_map(|after| Some((old.table(&after.name)?, after)));
            pairs.collect()
        }
    };
    let mut all = extended_statistics(old, new, &tables);
    // An index of another collation is valid. Whether it matters is searched for each statement.
    let is_valid = |name: &str| new.indexes.iter().any(|one| one.valid && one.name == name);
    let mut indexes = indexes(old, new, &tables);
    indexes.retain(|one| {
        let name = one.remedy.statements[0].strip_prefix("REINDEX INDEX ");
        name.is_none_or(|name| !is_valid(name))
    });
    all.extend(indexes);
    all.extend(lacking_statistics(&tables));
    all.into_iter().map(|one| one.remedy).collect()
}

/// Joins what the new server lacks for one statement; `None` if it lacks nothing.
pub(super) fn joined_remedy(all: Vec<RegressionRemedy>) -> Option<RegressionRemedy> {
    let mut rest = all.into_iter();
    let mut first = rest.next()?;
    for one in rest {
        for (text, more) in [(&mut first.cause, one.cause), (&mut first.risk, one.risk)] {
            if !text.contains(&more) {
                let gap = if text.is_empty() { "" } else { " " };
                *text = format!("{text}{gap}{more}");
            }
        }
        first.statements.extend(one.statements);
    }
    first.statements = in_order(first.statements);
    Some(first)
}

/// Sorts statements into an order in which they can be executed, without repetitions: objects first, then indexes that are
/// built again, then ANALYZE, which fills extended statistics, and settings.
pub(super) fn in_order(statements: impl IntoIterator<Item = String>) -> Vec<String> {
    const STEPS: [&str; 3] = ["CREATE ", "REINDEX ", "ANALYZE "];
    let mut known: Vec<String> = Vec::new();
    for statement in statements {
        if !known.contains(&statement) {
            known.push(statement);
        }
    }
    known.sort_by_key(|one| {
        let before = STEPS.iter().take_while(|step| !one.starts_with(**step));
        before.count()
    });
    known
}

/// Returns ANALYZE of the tables without statistics.
fn lacking_statistics(tables: &[PairedTable<'_>]) -> Option<Candidate> {
    let found = tables
        .iter()
        .filter_map(|(before, after)| Some((*after, lost_statistics(before, after)?)));
    analyze_all(found.collect())
}

/// Describes that a table has statistics on the old server only; `None` if it does not.
fn lost_statistics(before: &TableState, after: &TableState) -> Option<String> {
    let are_lost = after.has_data && before.has_statistics && !after.has_statistics;
    are_lost.then(|| {
        format!(
            "The table {} has no statistics on the new server.",
            after.name
        )
    })
}

/// Returns ANALYZE of the tables whose statistics are missing or of another size.
fn table_statistics(tables: &[PairedTable<'_>]) -> Option<Candidate> {
    let found = tables.iter().filter_map(|(before, after)| {
        if let Some(cause) = lost_statistics(before, after) {
            return Some((*after, cause));
        }
        let (low, high) = (before.rows.min(after.rows), before.rows.max(after.rows));
        // Versions before 14 do not count the rows of partitioned tables.
        let is_outdated = after.storage == Storage::Plain && low >= 0.0 && high > OTHER_ROWS * low.max(1.0);
        (after.has_data && is_outdated).then(|| {
            let cause = format!(
                "The statistics of the table {} are outdated on the new server: {} rows, and {} on the old one.",
                after.name, after.rows, before.rows
            );
            (*after, cause)
        })
    });
    analyze_all(found.collect())
}

/// Returns ANALYZE of the tables that the new server has not analysed since the upgrade.
fn unknown_age(tables: &[PairedTable<'_>]) -> Option<Candidate> {
    let found = tables.iter().map(|(_, after)| *after);
    let found = found
        .filter(|after| after.has_data && !after.is_analyzed)
        .map(|after| {
            let cause = format!(
                "The new server has not analysed the table {} itself.",
                after.name
            );
            (after, cause)
        });
    analyze_all(found.collect())
}

/// Returns the extended statistics that are missing or empty.
fn extended_statistics(
    old: &PlanningState,
    new: &PlanningState,
    tables: &[PairedTable<'_>],
) -> Vec<Candidate> {
    let of_statement =
        |one: &&StatisticsState| tables.iter().any(|(_, table)| table.name == one.table);
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
fn indexes(old: &PlanningState, new: &PlanningState, tables: &[PairedTable<'_>]) -> Vec<Candidate> {
    let of_statement = |one: &&IndexState| tables.iter().any(|(_, table)| table.name == one.table);
    let mut all = Vec::new();
    // An index of a partitioned table creates those of its partitions.
    let mut indexes: Vec<&IndexState> = old.indexes.iter().filter(of_statement).collect();
    indexes.sort_by_key(|one| one.storage == Storage::Plain);
    for before in indexes {
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
            // REINDEX of an index of a partitioned table cannot be rolled back; its partitions have indexes of their own.
            Some(after) if after.storage == Storage::Partitioned => continue,
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
mod tests;
