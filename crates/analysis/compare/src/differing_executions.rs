//! Counts the executions whose rows differ between two runs.
//!
//! Checksums of buckets ([`crate::row_checksums`]) tell whether a statement's rows differ, in fixed memory. The
//! executions of such a statement are then read again from both runs and compared one by one.

use std::collections::{HashMap, HashSet};

use run::{Execution, Outcome};
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;

use crate::side::Side;

/// Maximum number of executions that wait for the same execution of the other run. Runs end their executions in about
/// the same order, so few wait. Each takes about 80 bytes.
const WAITING_MAX: usize = 1 << 20;

/// Executions of a statement whose rows differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DifferingExecutions {
    /// Number of executions with another number of rows.
    pub other_counts: u64,
    /// Number of executions with as many rows, and other values in them. At least one row of each differs.
    pub other_values: u64,
    /// Meaning of the two numbers.
    pub bound: CountBound,
    /// The one with the lowest session, and of these the one with the lowest sequence; `null` if it is not known.
    pub first: Option<ExecutionPlace>,
}

impl DifferingExecutions {
    /// Whether there is one.
    pub(crate) fn has_any(&self) -> bool {
        self.other_counts + self.other_values > 0
    }
}

/// Meaning of a count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountBound {
    /// It is exact.
    Exact,
    /// It is a lower bound.
    #[default]
    AtLeast,
}

/// Place of an execution in the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct ExecutionPlace {
    /// Session.
    pub session: u64,
    /// Position in the session.
    pub sequence: u64,
}

/// Rows of a statement over the executions that both runs did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PairedRows {
    /// Number of these executions.
    pub(crate) compared: u64,
    /// Number of these executions with a checksum in both runs.
    pub(crate) digests: u64,
    /// Rows before, saturating.
    pub(crate) before: u64,
    /// Rows after, saturating.
    pub(crate) after: u64,
    pub(crate) differing: DifferingExecutions,
}

impl PairedRows {
    pub(crate) fn merge(&mut self, other: &PairedRows) {
        self.compared += other.compared;
        self.digests += other.digests;
        self.before = self.before.saturating_add(other.before);
        self.after = self.after.saturating_add(other.after);
        self.differing.other_counts += other.differing.other_counts;
        self.differing.other_values += other.differing.other_values;
        self.differing.first = self.differing.first.or(other.differing.first);
    }

    fn add(&mut self, place: ExecutionPlace, before: RowsOfExecution, after: RowsOfExecution) {
        self.compared += 1;
        self.before = self.before.saturating_add(before.rows);
        self.after = self.after.saturating_add(after.rows);
        let digests = before.digest.zip(after.digest);
        self.digests += u64::from(digests.is_some());
        if before.rows != after.rows {
            self.differing.other_counts += 1;
        } else if digests.is_some_and(|(one, other)| one != other) {
            self.differing.other_values += 1;
        } else {
            return;
        }
        let first = self.differing.first.map_or(place, |first| first.min(place));
        self.differing.first = Some(first);
    }
}

#[derive(Debug, Clone, Copy)]
struct RowsOfExecution {
    rows: u64,
    digest: Option<u64>,
}

/// Compares the executions of two runs one by one. Add those of both runs alternately, so that few wait.
#[derive(Debug)]
pub struct ExecutionPairs {
    statements: HashSet<Fingerprint>,
    waiting: HashMap<ExecutionPlace, (Side, RowsOfExecution)>,
    waiting_max: usize,
    has_left_out: bool,
    pub(crate) rows: HashMap<Fingerprint, PairedRows>,
}

impl ExecutionPairs {
    /// Creates a comparison of the executions of these statements.
    pub fn new(statements: HashSet<Fingerprint>) -> Self {
        Self::with_limit(statements, WAITING_MAX)
    }

    fn with_limit(statements: HashSet<Fingerprint>, waiting_max: usize) -> Self {
        Self {
            statements,
            waiting: HashMap::new(),
            waiting_max,
            has_left_out: false,
            rows: HashMap::new(),
        }
    }

    /// Creates a comparison of one equal execution of both runs.
    #[cfg(test)]
    pub(crate) fn of_equal_execution(fingerprint: Fingerprint, waiting_max: usize) -> Self {
        let mut pairs = Self::with_limit([fingerprint].into(), waiting_max);
        let (session, sequence) = (1, 1);
        let place = ExecutionPlace { session, sequence };
        let (rows, digest) = (1, None);
        for side in [Side::Before, Side::After] {
            pairs.pair(side, fingerprint, place, RowsOfExecution { rows, digest });
        }
        pairs
    }

    /// Adds an execution of a run.
    pub fn add(&mut self, side: Side, execution: &Execution) {
        let Some(fingerprint) = execution.fingerprint else {
            return;
        };
        if execution.outcome != Outcome::Done || !self.statements.contains(&fingerprint) {
            return;
        }
        let place = ExecutionPlace {
            session: execution.session,
            sequence: execution.sequence,
        };
        let rows = RowsOfExecution {
            rows: execution.rows,
            digest: execution.digest,
        };
        self.pair(side, fingerprint, place, rows);
    }

    fn pair(
        &mut self,
        side: Side,
        fingerprint: Fingerprint,
        place: ExecutionPlace,
        rows: RowsOfExecution,
    ) {
        match self.waiting.remove(&place) {
            Some((waiting_side, other)) if waiting_side != side => {
                let (before, after) = match side {
                    Side::Before => (rows, other),
                    Side::After => (other, rows),
                };
                let paired = self.rows.entry(fingerprint).or_default();
                paired.add(place, before, after);
            }
            _ if self.waiting.len() >= self.waiting_max => self.has_left_out = true,
            _ => {
                self.waiting.insert(place, (side, rows));
            }
        }
    }

    /// Returns the meaning of the counts.
    pub(crate) fn bound(&self) -> CountBound {
        match self.has_left_out {
            true => CountBound::AtLeast,
            false => CountBound::Exact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(sequence: u64) -> ExecutionPlace {
        ExecutionPlace {
            session: 1,
            sequence,
        }
    }

    fn add(pairs: &mut ExecutionPairs, side: Side, sequence: u64, rows: u64, digest: u64) {
        let digest = Some(digest);
        let rows = RowsOfExecution { rows, digest };
        pairs.pair(side, Fingerprint(7), place(sequence), rows);
    }

    #[test]
    fn differing_executions_are_counted_whatever_their_order() {
        let mut pairs = ExecutionPairs::new([Fingerprint(7)].into());
        for sequence in 0..10 {
            add(&mut pairs, Side::Before, sequence, 5, sequence);
        }
        for sequence in (0..9).rev() {
            let (rows, digest) = match sequence {
                3 | 6 => (5, 100),
                7 => (4, 100),
                _ => (5, sequence),
            };
            add(&mut pairs, Side::After, sequence, rows, digest);
        }
        let rows = pairs.rows[&Fingerprint(7)];
        assert_eq!(pairs.bound(), CountBound::Exact);
        assert_eq!((rows.compared, rows.before, rows.after), (9, 45, 44));
        let differing = rows.differing;
        assert_eq!((differing.other_counts, differing.other_values), (1, 2));
        assert_eq!(differing.first, Some(place(3)));
    }

    #[test]
    fn executions_past_the_limit_make_a_lower_bound() {
        let mut pairs = ExecutionPairs::with_limit([Fingerprint(7)].into(), 4);
        for (side, digest) in [(Side::Before, 1), (Side::After, 2)] {
            for sequence in 0..10 {
                add(&mut pairs, side, sequence, 1, digest);
            }
        }
        assert_eq!(pairs.bound(), CountBound::AtLeast);
        assert_eq!(pairs.rows[&Fingerprint(7)].differing.other_values, 4);
    }
}
