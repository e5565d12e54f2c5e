//! Checksums of the rows of a statement's executions, in fixed memory.
//!
//! Two runs complete executions in different orders, so comparing them one by one would need all of
//! them in memory. Instead each statement has a few buckets, and an execution's session and
//! sequence select one. A bucket sums hashes of its executions, and hashes of their row counts. If
//! both runs did the same executions of a bucket, different sums mean different rows. An execution
//! of only one run (it failed in the other) prevents its bucket from being compared, and no other.

use statistics::SplitMix64;

const BUCKETS: usize = 16;

/// Checksums of the rows of one statement's executions.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowChecksums {
    buckets: [Bucket; BUCKETS],
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    done: u64,
    rows: u64,
    /// Sum of hashes of the executions.
    which: u64,
    /// Sum of hashes of the executions with their row counts.
    with_rows: u64,
    /// Number of executions with a checksum of their rows, and the sum of hashes of these with it.
    digests: u64,
    with_digests: u64,
}

/// Comparison of buckets that two runs have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RowsOverlap {
    /// Executions in both runs.
    pub(crate) compared: u64,
    /// Rows before, saturating.
    pub(crate) before: u64,
    /// Rows after, saturating.
    pub(crate) after: u64,
    /// Buckets whose row counts differ.
    pub(crate) other_counts: u64,
    /// Buckets with equal row counts and other values.
    pub(crate) other_values: u64,
    /// Buckets that could not be compared, because one run has an execution or a checksum that the other lacks.
    pub(crate) unknown: u64,
    /// Executions for which both runs have a checksum.
    pub(crate) digests: u64,
}

impl RowsOverlap {
    pub(crate) fn add(&mut self, other: RowsOverlap) {
        self.compared += other.compared;
        self.before = self.before.saturating_add(other.before);
        self.after = self.after.saturating_add(other.after);
        self.other_counts += other.other_counts;
        self.other_values += other.other_values;
        self.unknown += other.unknown;
        self.digests += other.digests;
    }

    /// Whether rows certainly differ.
    pub(crate) fn differs(&self) -> bool {
        self.other_counts + self.other_values > 0
    }
}

impl RowChecksums {
    pub(crate) fn add(&mut self, session: u64, sequence: u64, rows: u64, digest: Option<u64>) {
        let which = hash(hash(session).wrapping_add(sequence));
        let bucket = &mut self.buckets[which as usize % BUCKETS];
        bucket.done += 1;
        bucket.rows = bucket.rows.saturating_add(rows);
        bucket.which = bucket.which.wrapping_add(hash(which));
        bucket.with_rows = bucket.with_rows.wrapping_add(hash(which ^ hash(rows)));
        if let Some(digest) = digest {
            bucket.digests += 1;
            let hash = hash(which ^ hash(digest));
            bucket.with_digests = bucket.with_digests.wrapping_add(hash);
        }
    }

    /// Compares with the executions of another run.
    pub(crate) fn compare(&self, after: &RowChecksums) -> RowsOverlap {
        let mut sums = RowsOverlap::default();
        for (one, other) in self.buckets.iter().zip(&after.buckets) {
            if (one.done, one.which) != (other.done, other.which) {
                sums.unknown += u64::from(one.done > 0 && other.done > 0);
                continue;
            }
            sums.compared += one.done;
            sums.before = sums.before.saturating_add(one.rows);
            sums.after = sums.after.saturating_add(other.rows);
            if one.with_rows != other.with_rows {
                sums.other_counts += 1;
            } else if one.digests == other.digests {
                sums.digests += one.digests;
                sums.other_values += u64::from(one.with_digests != other.with_digests);
            } else {
                // Without checksums on both sides, values cannot be compared.
                sums.unknown += u64::from(one.digests > 0 && other.digests > 0);
            }
        }
        sums
    }
}

fn hash(number: u64) -> u64 {
    SplitMix64::new(number).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(rows: impl IntoIterator<Item = (u64, u64)>) -> RowChecksums {
        let mut seen = RowChecksums::default();
        for (sequence, rows) in rows {
            seen.add(1, sequence, rows, None);
        }
        seen
    }

    fn digested(digests: impl IntoIterator<Item = (u64, Option<u64>)>) -> RowChecksums {
        let mut seen = RowChecksums::default();
        for (sequence, digest) in digests {
            seen.add(1, sequence, 1, digest);
        }
        seen
    }

    #[test]
    fn checksums_ignore_order_and_detect_every_row() {
        let before = seen((0..100).map(|sequence| (sequence, sequence % 7)));
        let again = seen((0..100).rev().map(|sequence| (sequence, sequence % 7)));
        let sum = (0..100).map(|sequence| sequence % 7).sum();
        let same = RowsOverlap {
            compared: 100,
            before: sum,
            after: sum,
            ..RowsOverlap::default()
        };
        assert_eq!(before.compare(&again), same);
        // Swapping two row counts keeps their sum but is detected.
        let other = |sequence| match sequence {
            1 => 2,
            2 => 1,
            other => other % 7,
        };
        let changed = seen((0..100).map(|sequence| (sequence, other(sequence))));
        let compared = before.compare(&changed);
        assert!(matches!(compared.other_counts, 1..=2), "{compared:?}");
        let other_counts = compared.other_counts;
        let differs = RowsOverlap {
            other_counts,
            ..same
        };
        assert_eq!(compared, differs);
    }

    #[test]
    fn missing_execution_excludes_only_its_bucket() {
        let before = seen((0..160).map(|sequence| (sequence, 1)));
        let after = seen((1..160).map(|sequence| (sequence, 1)));
        let sums = before.compare(&after);
        assert!(!sums.differs());
        assert_eq!(sums.unknown, 1);
        assert!((100..160).contains(&sums.compared), "{sums:?}");
    }

    #[test]
    fn changed_values_are_detected_if_both_runs_have_checksums() {
        let before = digested((0..100).map(|sequence| (sequence, Some(sequence))));
        let again = digested((0..100).rev().map(|sequence| (sequence, Some(sequence))));
        let sums = before.compare(&again);
        assert!(!sums.differs());
        assert_eq!(sums.digests, 100);
        let changed = digested((0..100).map(|sequence| (sequence, Some(sequence ^ 1))));
        let sums = before.compare(&changed);
        assert_eq!((sums.other_counts, sums.other_values), (0, 16));
        let without = digested((0..100).map(|sequence| (sequence, None)));
        let sums = before.compare(&without);
        assert!(!sums.differs());
        assert_eq!(sums.digests, 0);
    }
}
