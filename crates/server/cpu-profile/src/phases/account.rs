//! Counts samples by phase.

use std::collections::{BTreeMap, HashMap};

use sql::Fingerprint;

use super::Phase;

/// Samples by phase, in the order of [`Phase::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseSums {
    counts: Vec<u64>,
}

impl Default for PhaseSums {
    fn default() -> Self {
        PhaseSums {
            counts: vec![0; Phase::ALL.len()],
        }
    }
}

impl PhaseSums {
    pub(super) fn add(&mut self, phase: Phase) {
        self.counts[phase as usize] += 1;
    }

    /// Returns the samples of a phase.
    pub fn samples(&self, phase: Phase) -> u64 {
        self.counts[phase as usize]
    }

    /// Returns the number of all samples.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the phases that have samples, the largest first.
    pub fn largest_first(&self) -> Vec<(Phase, u64)> {
        let with = Phase::ALL.iter().map(|&phase| (phase, self.samples(phase)));
        let mut with: Vec<_> = with.filter(|(_, count)| *count > 0).collect();
        with.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        with
    }
}

/// Samples of one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementPhases {
    /// Statement.
    pub fingerprint: Fingerprint,
    /// Samples by phase.
    pub sums: PhaseSums,
}

/// Samples at spin locks, by the function that took the lock, the largest first.
pub type SpinLocks = Vec<(String, u64)>;

/// Counts the samples of a profile. It uses a few hundred bytes for each statement.
#[derive(Debug, Default)]
pub struct PhaseAccount {
    all: PhaseSums,
    statements: HashMap<Fingerprint, PhaseSums>,
    spin_locks: BTreeMap<String, u64>,
}

impl PhaseAccount {
    /// Adds a sample.
    pub fn add(&mut self, placed: super::Placement<'_>, statement: Option<Fingerprint>) {
        self.all.add(placed.phase);
        if let Some(holder) = placed.holder {
            match self.spin_locks.get_mut(holder) {
                Some(count) => *count += 1,
                None => drop(self.spin_locks.insert(holder.to_owned(), 1)),
            }
        }
        if let Some(fingerprint) = statement {
            self.statements
                .entry(fingerprint)
                .or_default()
                .add(placed.phase);
        }
    }

    /// Returns the counts of all samples.
    pub fn all(&self) -> &PhaseSums {
        &self.all
    }

    /// Returns the counts of statements, those with the most samples first.
    pub fn statements(&self) -> Vec<StatementPhases> {
        let of = |(&fingerprint, sums): (&Fingerprint, &PhaseSums)| StatementPhases {
            fingerprint,
            sums: sums.clone(),
        };
        let mut statements: Vec<_> = self.statements.iter().map(of).collect();
        statements.sort_by_key(|one| (std::cmp::Reverse(one.sums.total()), one.fingerprint));
        statements
    }

    /// Returns the counts at spin locks.
    pub fn spin_locks(&self) -> SpinLocks {
        let mut locks: SpinLocks = self.spin_locks.clone().into_iter().collect();
        locks.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        locks
    }
}
