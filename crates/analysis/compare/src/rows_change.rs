//! Finds statements whose rows differ between two sides.

use std::collections::{BTreeSet, HashSet};

use schemars::JsonSchema;
use serde::Serialize;
use sql::{Fingerprint, Pattern};

use crate::differing_columns::{ColumnChange, ColumnPairs, PairedColumns};
use crate::differing_executions::{CountBound, DifferingExecutions, ExecutionPairs, PairedRows};
use crate::example_row::RowExample;
use crate::row_checksums::{RowChecksums, RowsOverlap};
use crate::rows_reason::RowsReason;
use crate::run_stats::RunStats;

/// Statement whose executions had different rows on the two sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RowsChange {
    /// Fingerprint of the statement.
    pub fingerprint: Fingerprint,
    /// Normalised SQL, if the runs have it.
    pub sql: Option<String>,
    /// Executions that were compared: those in both runs.
    pub compared: u64,
    /// Rows before.
    pub before: u64,
    /// Rows after.
    pub after: u64,
    /// Executions whose rows differ.
    pub differing: DifferingExecutions,
    /// Differing columns, those of most executions first. Only executions for which both runs have checksums of columns
    /// count.
    pub columns: Vec<ColumnChange>,
    /// Executions with other values for which a run has no checksums of columns.
    pub without_columns: u64,
    /// One row that differs; `null` if the runs kept none.
    pub example: Option<RowExample>,
    /// Known reasons why they may differ; empty if nothing known explains it.
    pub reasons: Vec<RowsReason>,
    /// Whether the row counts are equal and only values differ.
    pub only_values: bool,
    /// Whether rows also differ between runs of one side, so that the change may not be the cause.
    pub unsteady: bool,
}

/// Column that is not compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IgnoredColumn {
    /// Name in lower case.
    pub column: String,
    /// Whether its values differ in some execution.
    pub differs: bool,
}

/// Comparison of rows in runs of one workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RowsComparison {
    /// Executions that were compared: those in both runs. 0 for runs of different workloads.
    pub compared: u64,
    /// Executions for which both runs have a checksum of the rows.
    pub digests: u64,
    /// Patterns of statements whose rows are not compared, as given.
    pub ignored: Vec<String>,
    /// Ignored columns.
    pub ignored_columns: Vec<IgnoredColumn>,
    /// Executions whose values differ in ignored columns only.
    pub ignored_executions: u64,
    /// Statements without a known difference of which some executions could not be compared.
    pub incomplete: usize,
    /// Statements whose rows differ, by descending difference of the sums; unsteady ones come last.
    pub changes: Vec<RowsChange>,
    /// Statements whose rows may differ in executions that the checksums could not compare.
    #[serde(skip)]
    uncertain: Vec<RowsChange>,
}

impl RowsComparison {
    /// Leaves out the statements that match one of these patterns.
    pub fn ignore(&mut self, patterns: &[Pattern]) {
        let is_kept = |change: &RowsChange| {
            let sql = change.sql.as_deref().unwrap_or_default();
            !patterns.iter().any(|one| one.matches_statement(sql))
        };
        self.changes.retain(is_kept);
        self.uncertain.retain(is_kept);
        self.incomplete = self.uncertain.len();
        let given = patterns.iter().map(|one| one.given().to_owned());
        self.ignored.extend(given);
    }

    /// Leaves out the values of these columns.
    pub fn ignore_columns(&mut self, columns: &[String]) {
        let ignored = columns.iter().map(|column| IgnoredColumn {
            column: column.to_lowercase(),
            differs: false,
        });
        self.ignored_columns = ignored.collect();
    }

    /// Returns the statements whose executions must be compared one by one.
    pub fn statements_to_count(&self) -> HashSet<Fingerprint> {
        let changes = self.changes.iter().chain(&self.uncertain);
        changes.map(|change| change.fingerprint).collect()
    }

    /// Counts the differing executions, and names their columns. `pairs` and `columns` have the executions of each run
    /// before and the corresponding run after.
    pub fn count(&mut self, pairs: &[ExecutionPairs], columns: &[ColumnPairs]) {
        for ignored in &mut self.ignored_columns {
            ignored.differs = columns
                .iter()
                .any(|one| one.found.contains(&ignored.column));
        }
        let bounds = || pairs.iter().map(ExecutionPairs::bound);
        let is_exact = bounds().all(|bound| bound == CountBound::Exact);
        let mut changes = std::mem::take(&mut self.changes);
        changes.append(&mut self.uncertain);
        for change in &mut changes {
            let mut rows = PairedRows::default();
            for paired in pairs {
                if let Some(paired) = paired.rows.get(&change.fingerprint) {
                    rows.merge(paired);
                }
            }
            match is_exact {
                true => change.set_exact(&rows),
                false => change.raise_bounds(&rows),
            }
            let columns = merged(columns, change.fingerprint);
            change.set_columns(&columns, is_exact);
            self.ignored_executions += columns.ignored;
        }
        let all = changes.len();
        changes.retain(|change| change.differing.has_any());
        self.incomplete = match is_exact {
            true => 0,
            false => all - changes.len(),
        };
        self.changes = changes;
        self.sort();
    }

    /// Judges again whether statements also differ between runs of one side, without the ignored columns. `within` has
    /// the executions of consecutive runs of a side.
    pub fn recheck_unsteady(&mut self, within: &[(ExecutionPairs, ColumnPairs)]) {
        for change in self.changes.iter_mut().filter(|change| change.unsteady) {
            change.unsteady = within.iter().any(|(pairs, columns)| {
                let differing = pairs
                    .rows
                    .get(&change.fingerprint)
                    .map(|rows| rows.differing);
                let all = differing.map_or(0, |one| one.other_counts + one.other_values);
                let columns = columns.columns.get(&change.fingerprint);
                all > columns.map_or(0, |columns| columns.ignored)
            });
        }
    }

    fn sort(&mut self) {
        self.changes.sort_by_key(|one| {
            (
                one.unsteady,
                std::cmp::Reverse(one.before.abs_diff(one.after)),
                one.fingerprint,
            )
        });
    }
}

impl RowsChange {
    fn set_exact(&mut self, rows: &PairedRows) {
        self.compared = rows.compared;
        self.before = rows.before;
        self.after = rows.after;
        self.differing = DifferingExecutions {
            bound: CountBound::Exact,
            ..rows.differing
        };
        self.only_values = self.differing.other_counts == 0;
    }

    /// Sets the columns, and takes back the executions that differ in ignored ones only.
    fn set_columns(&mut self, columns: &PairedColumns, is_exact: bool) {
        let differing = &mut self.differing;
        self.without_columns = differing.other_values.saturating_sub(columns.differing);
        self.columns = columns.changes();
        self.example.clone_from(&columns.example);
        if columns.ignored == 0 {
            return;
        }
        let all = match is_exact {
            true => differing.other_values,
            // The known bound may count other executions than those that were compared by columns.
            false => columns.differing,
        };
        differing.other_values = all.saturating_sub(columns.ignored);
        if differing.first == columns.first_ignored {
            let is_next_known = self.without_columns == 0 && differing.other_counts == 0;
            differing.first = columns.first.filter(|_| is_next_known);
        }
    }

    /// Keeps the greater lower bounds: those of the checksums, or those of the executions that were compared.
    fn raise_bounds(&mut self, rows: &PairedRows) {
        let (known, found) = (&mut self.differing, &rows.differing);
        known.other_counts = known.other_counts.max(found.other_counts);
        known.other_values = known.other_values.max(found.other_values);
        known.first = found.first;
        self.only_values = known.other_counts == 0;
    }
}

fn merged(columns: &[ColumnPairs], fingerprint: Fingerprint) -> PairedColumns {
    let mut merged = PairedColumns::default();
    let all = columns
        .iter()
        .filter_map(|one| one.columns.get(&fingerprint));
    all.for_each(|one| merged.merge(one));
    merged
}

/// Compares the rows of all statements if all runs are of one workload: the first run before with
/// the first after, the second with the second, and so on. A statement whose rows also differ
/// between runs of one side is marked as unsteady.
pub(crate) fn compare_rows(before: &[RunStats], after: &[RunStats]) -> RowsComparison {
    let mut found = RowsComparison::default();
    let workload = &before[0].info.workload.id;
    if before
        .iter()
        .chain(after)
        .any(|run| run.info.workload.id != *workload)
    {
        return found;
    }
    let fingerprints: BTreeSet<Fingerprint> = before
        .iter()
        .flat_map(|run| run.statements.keys().copied())
        .collect();
    for fingerprint in fingerprints {
        let rows_of = |run: &'_ RunStats| -> Option<RowChecksums> {
            Some(run.statements.get(&fingerprint)?.rows.clone())
        };
        let mut sums = RowsOverlap::default();
        for (one, other) in before.iter().zip(after) {
            if let (Some(one), Some(other)) = (rows_of(one), rows_of(other)) {
                sums.add(one.compare(&other));
            }
        }
        found.compared += sums.compared;
        found.digests += sums.digests;
        if !sums.differs() && sums.unknown == 0 {
            continue;
        }
        let unsteady = [before, after].iter().any(|side| {
            side.windows(2).any(|pair| {
                let pair = rows_of(&pair[0]).zip(rows_of(&pair[1]));
                let within = pair
                    .map(|(one, other)| one.compare(&other))
                    .unwrap_or_default();
                within.differs()
            })
        });
        let text = after
            .iter()
            .chain(before)
            .find_map(|run| run.text(fingerprint));
        let list = match sums.differs() {
            true => &mut found.changes,
            false => &mut found.uncertain,
        };
        list.push(RowsChange {
            fingerprint,
            sql: text.map(|text| text.sql.clone()),
            compared: sums.compared,
            before: sums.before,
            after: sums.after,
            differing: DifferingExecutions {
                other_counts: sums.other_counts,
                other_values: sums.other_values,
                bound: CountBound::AtLeast,
                first: None,
            },
            columns: Vec::new(),
            without_columns: 0,
            example: None,
            reasons: Vec::new(),
            only_values: sums.other_counts == 0,
            unsteady,
        });
    }
    found.incomplete = found.uncertain.len();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uncertain_statements_of_an_incomplete_count_are_counted() {
        let fingerprint = Fingerprint(1);
        let uncertain = RowsChange {
            fingerprint,
            sql: None,
            compared: 0,
            before: 0,
            after: 0,
            differing: DifferingExecutions::default(),
            columns: Vec::new(),
            without_columns: 0,
            example: None,
            reasons: Vec::new(),
            only_values: true,
            unsteady: false,
        };
        for (waiting_max, incomplete) in [(0, 1), (1, 0)] {
            let mut rows = RowsComparison {
                uncertain: vec![uncertain.clone()],
                ..RowsComparison::default()
            };
            rows.count(
                &[ExecutionPairs::of_equal_execution(fingerprint, waiting_max)],
                &[],
            );
            assert_eq!((rows.changes.len(), rows.incomplete), (0, incomplete));
        }
    }
}
