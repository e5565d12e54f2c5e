//! Finds statements whose rows differ between two sides.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

use crate::row_checksums::{RowChecksums, RowsOverlap};
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
    /// Whether the row counts are equal and only values differ.
    pub only_values: bool,
    /// Whether rows also differ between runs of one side, so that the change may not be the cause.
    pub unsteady: bool,
}

/// Comparison of rows in runs of one workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RowsComparison {
    /// Executions that were compared: those in both runs. 0 for runs of different workloads.
    pub compared: u64,
    /// Executions for which both runs have a checksum of the rows.
    pub digests: u64,
    /// Statements whose rows differ, by descending difference of the sums; unsteady ones come last.
    pub changes: Vec<RowsChange>,
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
        if !sums.rows_differ && !sums.values_differ {
            continue;
        }
        let unsteady = [before, after].iter().any(|side| {
            side.windows(2).any(|pair| {
                let pair = rows_of(&pair[0]).zip(rows_of(&pair[1]));
                let within = pair
                    .map(|(one, other)| one.compare(&other))
                    .unwrap_or_default();
                within.rows_differ || within.values_differ
            })
        });
        let text = after
            .iter()
            .chain(before)
            .find_map(|run| run.text(fingerprint));
        found.changes.push(RowsChange {
            fingerprint,
            sql: text.map(|text| text.sql.clone()),
            compared: sums.compared,
            before: sums.before,
            after: sums.after,
            only_values: !sums.rows_differ,
            unsteady,
        });
    }
    found.changes.sort_by_key(|one| {
        (
            one.unsteady,
            std::cmp::Reverse(one.before.abs_diff(one.after)),
            one.fingerprint,
        )
    });
    found
}
