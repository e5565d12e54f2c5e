//! Numbers of rows that differ between two runs, in fixed memory for each statement.
//!
//! Two runs are done in different orders, so that their executions cannot be set side by side one by
//! one without holding them all. Instead each statement has a few buckets; an execution's session and
//! sequence say which it falls into. A bucket sums up hashes of which executions were done, and of
//! their numbers of rows: where both runs did the same ones, unequal sums are unequal rows. One that
//! was done in one run only (it failed in the other) keeps its bucket from being compared, and no
//! other.

use workload::Fingerprint;

use crate::profile::RunProfile;
use crate::random::SplitMix64;

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
}

/// A statement whose executions had other numbers of rows in one run than in the other.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// Numbers of rows in two runs of one workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowsComparison {
    /// Executions that were compared: done in both runs. 0 for runs of different workloads.
    pub compared: u64,
    /// Statements whose rows differ, those with the greatest difference of the sums first.
    pub changes: Vec<RowsChange>,
}

impl RowsSeen {
    pub(crate) fn add(&mut self, session: u64, sequence: u64, rows: u64) {
        let which = mixed(mixed(session).wrapping_add(sequence));
        let bucket = &mut self.buckets[which as usize % BUCKETS];
        bucket.done += 1;
        bucket.rows = bucket.rows.saturating_add(rows);
        bucket.which = bucket.which.wrapping_add(mixed(which));
        bucket.with_rows = bucket.with_rows.wrapping_add(mixed(which ^ mixed(rows)));
    }

    /// Executions compared, their rows in both, and whether these differ.
    fn beside(&self, after: &RowsSeen) -> (u64, u64, u64, bool) {
        let mut sums = (0u64, 0u64, 0u64, false);
        for (one, other) in self.buckets.iter().zip(&after.buckets) {
            if (one.done, one.which) == (other.done, other.which) {
                sums.0 += one.done;
                sums.1 = sums.1.saturating_add(one.rows);
                sums.2 = sums.2.saturating_add(other.rows);
                sums.3 |= one.with_rows != other.with_rows;
            }
        }
        sums
    }
}

fn mixed(number: u64) -> u64 {
    SplitMix64::new(number).next_u64()
}

/// Compares the rows of all statements, where both runs are of one workload.
pub(crate) fn rows(before: &RunProfile, after: &RunProfile) -> RowsComparison {
    let mut found = RowsComparison::default();
    if before.info.workload.id != after.info.workload.id {
        return found;
    }
    for (fingerprint, one) in &before.statements {
        let Some(other) = after.statements.get(fingerprint) else {
            continue;
        };
        let (compared, rows_before, rows_after, differ) = one.rows.beside(&other.rows);
        found.compared += compared;
        if differ {
            let text = after
                .text(*fingerprint)
                .or_else(|| before.text(*fingerprint));
            found.changes.push(RowsChange {
                fingerprint: *fingerprint,
                sql: text.map(|text| text.sql.clone()),
                compared,
                before: rows_before,
                after: rows_after,
            });
        }
    }
    found.changes.sort_by_key(|one| {
        (
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
            seen.add(1, sequence, rows);
        }
        seen
    }

    #[test]
    fn the_order_does_not_matter_and_every_row_does() {
        let before = seen((0..100).map(|sequence| (sequence, sequence % 7)));
        let again = seen((0..100).rev().map(|sequence| (sequence, sequence % 7)));
        let sum = (0..100).map(|sequence| sequence % 7).sum();
        assert_eq!(before.beside(&again), (100, sum, sum, false));
        // Two that change places have the same sum, and are told.
        let other = |sequence| match sequence {
            1 => 2,
            2 => 1,
            other => other % 7,
        };
        let changed = seen((0..100).map(|sequence| (sequence, other(sequence))));
        assert_eq!(before.beside(&changed), (100, sum, sum, true));
    }

    #[test]
    fn what_one_run_did_not_do_keeps_few_others_from_being_compared() {
        let before = seen((0..160).map(|sequence| (sequence, 1)));
        let after = seen((1..160).map(|sequence| (sequence, 1)));
        let (compared, _, _, differ) = before.beside(&after);
        assert!(!differ);
        assert!((100..160).contains(&compared), "{compared}");
    }
}
