//! Samples summed up by phase.

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

    /// Samples of a phase.
    pub fn of(&self, phase: Phase) -> u64 {
        self.counts[phase as usize]
    }

    /// All samples.
    pub fn all(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The phases that have samples, those with the most first.
    pub fn largest_first(&self) -> Vec<(Phase, u64)> {
        let with = Phase::ALL.iter().map(|&phase| (phase, self.of(phase)));
        let mut with: Vec<_> = with.filter(|(_, count)| *count > 0).collect();
        with.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        with
    }
}

/// One statement's samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementPhases {
    /// Which.
    pub fingerprint: Fingerprint,
    /// By phase.
    pub sums: PhaseSums,
}

/// Samples at spin locks, by the function that took one, the most first.
pub type SpinLocks = Vec<(String, u64)>;

/// Sums up a profile. Memory: a few hundred bytes for each statement.
#[derive(Debug, Default)]
pub struct PhaseAccount {
    all: PhaseSums,
    statements: HashMap<Fingerprint, PhaseSums>,
    spin_locks: BTreeMap<String, u64>,
}

impl PhaseAccount {
    /// Takes a sample.
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

    /// Of all samples.
    pub fn all(&self) -> &PhaseSums {
        &self.all
    }

    /// Of statements, those with the most samples first.
    pub fn statements(&self) -> Vec<StatementPhases> {
        let of = |(&fingerprint, sums): (&Fingerprint, &PhaseSums)| StatementPhases {
            fingerprint,
            sums: sums.clone(),
        };
        let mut statements: Vec<_> = self.statements.iter().map(of).collect();
        statements.sort_by_key(|one| (std::cmp::Reverse(one.sums.all()), one.fingerprint));
        statements
    }

    /// At spin locks.
    pub fn spin_locks(&self) -> SpinLocks {
        let mut locks: SpinLocks = self.spin_locks.clone().into_iter().collect();
        locks.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        locks
    }
}
