//! Numbers of rows, and values in them, that differ between two runs, in fixed memory for each
//! statement.
//!
//! Two runs are done in different orders, so that their executions cannot be set side by side one by
//! one without holding them all. Instead each statement has a few buckets; an execution's session and
//! sequence say which it falls into. A bucket sums up hashes of which executions were done, and of
//! their numbers of rows: where both runs did the same ones, unequal sums are unequal rows. One that
//! was done in one run only (it failed in the other) keeps its bucket from being compared, and no
//! other.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

use crate::profile::RunProfile;
use statistics::SplitMix64;

const BUCKETS: usize = 16;

/// What the executions of one statement returned.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowsSeen {
    buckets: [Bucket; BUCKETS],
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    done: u64,
    rows: u64,
    /// Sum of hashes of which were done.
    which: u64,
    /// Sum of hashes of these with their rows.
    with_rows: u64,
    /// Those that have a checksum of their rows, and the sum of hashes of these with it.
    digests: u64,
    with_digests: u64,
}

/// What two buckets have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Beside {
    /// Executions that were done in both.
    compared: u64,
    before: u64,
    after: u64,
    rows_differ: bool,
    values_differ: bool,
    /// Those of which both have a checksum.
    digests: u64,
}

/// A statement whose executions had other numbers of rows in one run than in the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RowsChange {
    /// Which.
    pub fingerprint: Fingerprint,
    /// Its normalised SQL, where the runs know it.
    pub sql: Option<String>,
    /// Executions that were compared: done in both runs.
    pub compared: u64,
    /// Their rows before.
    pub before: u64,
    /// Their rows after.
    pub after: u64,
    /// All had as many rows as before, and some had others.
    pub only_values: bool,
    /// They differ between runs of one side as well: the change may have no part in it.
    pub unsteady: bool,
}

/// Numbers of rows in two runs of one workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RowsComparison {
    /// Executions that were compared: done in both runs. 0 for runs of different workloads.
    pub compared: u64,
    /// Those of them of which both runs have a checksum of the rows.
    pub digests: u64,
    /// Statements whose rows differ, those with the greatest difference of the sums first; those that
    /// are unsteady by themselves last.
    pub changes: Vec<RowsChange>,
}

impl Beside {
    fn add(&mut self, other: Beside) {
        self.compared += other.compared;
        self.before = self.before.saturating_add(other.before);
        self.after = self.after.saturating_add(other.after);
        self.rows_differ |= other.rows_differ;
        self.values_differ |= other.values_differ;
        self.digests += other.digests;
    }
}

impl RowsSeen {
    pub(crate) fn add(&mut self, session: u64, sequence: u64, rows: u64, digest: Option<u64>) {
        let which = mixed(mixed(session).wrapping_add(sequence));
        let bucket = &mut self.buckets[which as usize % BUCKETS];
        bucket.done += 1;
        bucket.rows = bucket.rows.saturating_add(rows);
        bucket.which = bucket.which.wrapping_add(mixed(which));
        bucket.with_rows = bucket.with_rows.wrapping_add(mixed(which ^ mixed(rows)));
        if let Some(digest) = digest {
            bucket.digests += 1;
            let hash = mixed(which ^ mixed(digest));
            bucket.with_digests = bucket.with_digests.wrapping_add(hash);
        }
    }

    fn beside(&self, after: &RowsSeen) -> Beside {
        let mut sums = Beside::default();
        for (one, other) in self.buckets.iter().zip(&after.buckets) {
            if (one.done, one.which) == (other.done, other.which) {
                sums.compared += one.done;
                sums.before = sums.before.saturating_add(one.rows);
                sums.after = sums.after.saturating_add(other.rows);
                sums.rows_differ |= one.with_rows != other.with_rows;
                // One run without checksums says nothing of the other's.
                if one.digests == other.digests && one.with_rows == other.with_rows {
                    sums.digests += one.digests;
                    sums.values_differ |= one.with_digests != other.with_digests;
                }
            }
        }
        sums
    }
}

fn mixed(number: u64) -> u64 {
    SplitMix64::new(number).next_u64()
}

/// Compares the rows of all statements, where all runs are of one workload: the first run before
/// with the first after, the second with the second, and so on. A statement whose rows differ between
/// runs of one side as well is unsteady by itself.
pub(crate) fn rows(before: &[RunProfile], after: &[RunProfile]) -> RowsComparison {
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
        let rows_of = |run: &'_ RunProfile| -> Option<RowsSeen> {
            Some(run.statements.get(&fingerprint)?.rows.clone())
        };
        let mut sums = Beside::default();
        for (one, other) in before.iter().zip(after) {
            if let (Some(one), Some(other)) = (rows_of(one), rows_of(other)) {
                sums.add(one.beside(&other));
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
                    .map(|(one, other)| one.beside(&other))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rows: impl IntoIterator<Item = (u64, u64)>) -> RowsSeen {
        let mut seen = RowsSeen::default();
        for (sequence, rows) in rows {
            seen.add(1, sequence, rows, None);
        }
        seen
    }

    fn digested(digests: impl IntoIterator<Item = (u64, Option<u64>)>) -> RowsSeen {
        let mut seen = RowsSeen::default();
        for (sequence, digest) in digests {
            seen.add(1, sequence, 1, digest);
        }
        seen
    }

    #[test]
    fn the_order_does_not_matter_and_every_row_does() {
        let before = seen((0..100).map(|sequence| (sequence, sequence % 7)));
        let again = seen((0..100).rev().map(|sequence| (sequence, sequence % 7)));
        let sum = (0..100).map(|sequence| sequence % 7).sum();
        let same = Beside {
            compared: 100,
            before: sum,
            after: sum,
            ..Beside::default()
        };
        assert_eq!(before.beside(&again), same);
        // Two that change places have the same sum, and are told.
        let other = |sequence| match sequence {
            1 => 2,
            2 => 1,
            other => other % 7,
        };
        let changed = seen((0..100).map(|sequence| (sequence, other(sequence))));
        let differs = Beside {
            rows_differ: true,
            ..same
        };
        assert_eq!(before.beside(&changed), differs);
    }

    #[test]
    fn what_one_run_did_not_do_keeps_few_others_from_being_compared() {
        let before = seen((0..160).map(|sequence| (sequence, 1)));
        let after = seen((1..160).map(|sequence| (sequence, 1)));
        let sums = before.beside(&after);
        assert!(!sums.rows_differ && !sums.values_differ);
        assert!((100..160).contains(&sums.compared), "{sums:?}");
    }

    #[test]
    fn other_values_are_told_where_both_runs_have_checksums() {
        let before = digested((0..100).map(|sequence| (sequence, Some(sequence))));
        let again = digested((0..100).rev().map(|sequence| (sequence, Some(sequence))));
        let sums = before.beside(&again);
        assert!(!sums.values_differ);
        assert_eq!(sums.digests, 100);
        let changed = digested((0..100).map(|sequence| (sequence, Some(sequence ^ 1))));
        let sums = before.beside(&changed);
        assert!(sums.values_differ && !sums.rows_differ);
        let without = digested((0..100).map(|sequence| (sequence, None)));
        let sums = before.beside(&without);
        assert!(!sums.values_differ);
        assert_eq!(sums.digests, 0);
    }
}
