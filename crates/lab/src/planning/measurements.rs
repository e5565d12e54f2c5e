//! Measurements of the case *planning*.

use diagnose::Diagnosis;
use study::proof::ProofSideReport;
use study::sweep::{Mode, Numbers, Record};

use super::{ExtensionSamples, Headroom, PlanCounts};
use crate::stage::CaseProof;

/// Measurements, in the order in which they are taken.
pub(super) struct Measurements {
    /// Sweep of reads.
    pub(super) reads: Sweep,
    /// Sweep with writes.
    pub(super) writes: Sweep,
    /// Samples of each configuration of [`super::COUNTINGS`]. The error is the reason why there are none.
    pub(super) stacks: Vec<Result<Stacks, String>>,
    /// Plans and calls of single sessions: simple, prepared.
    pub(super) counted: [PlanCounts; 2],
    pub(super) headroom: Headroom,
    /// Diagnosis of the application.
    pub(super) diagnosis: Diagnosis,
    /// Number of reads captured as texts.
    pub(super) captured: u64,
    /// Diagnosis of their replay, and the proof of its first proposal.
    pub(super) proof: CaseProof,
}

impl Measurements {
    /// Returns the result of preparing statements.
    pub(super) fn prepared(&self) -> Option<&ProofSideReport> {
        self.proof.side(0)
    }

    /// Returns the result of tracking planning, if it was tried.
    pub(super) fn tracked(&self) -> Option<&ProofSideReport> {
        self.proof.side(1)
    }
}

/// Samples of reading sessions, in one configuration.
pub(super) struct Stacks {
    pub(super) statistics: ExtensionSamples,
    /// Number of reads meanwhile.
    pub(super) calls: u64,
}

/// Trials of a sweep whose variants are the configurations of [`super::COUNTINGS`].
pub(super) struct Sweep(pub(super) Vec<Record>);

impl Sweep {
    /// Returns the numbers of a configuration's trials in a mode, with the numbers of clients.
    pub(super) fn numbers(
        &self,
        counting: usize,
        mode: Mode,
    ) -> impl Iterator<Item = (u32, &Numbers)> {
        self.0.iter().filter_map(move |record| {
            let cell = &record.trial.cell;
            let numbers = record.numbers.as_ref()?;
            (cell.variant == counting && cell.mode == mode)
                .then_some((cell.clients.unwrap_or(1), numbers))
        })
    }

    /// Returns the number of trials without a result.
    pub(super) fn failed(&self) -> usize {
        let failed = |record: &&Record| record.numbers.is_none();
        self.0.iter().filter(failed).count()
    }

    /// Returns the highest throughput in any mode with planning tracked, per second.
    pub(super) fn ceiling_per_s(&self) -> f64 {
        let tracked = self
            .0
            .iter()
            .filter(|record| record.trial.cell.variant == 2);
        tracked
            .filter_map(|record| Some(record.numbers.as_ref()?.per_s))
            .fold(0.0, f64::max)
    }

    /// Returns the highest throughput of a configuration in a mode, per second.
    pub(super) fn best_per_s(&self, counting: usize, mode: Mode) -> f64 {
        self.numbers(counting, mode)
            .map(|(_, numbers)| numbers.per_s)
            .fold(0.0, f64::max)
    }

    /// Returns the counted plans and calls of a configuration in a mode.
    pub(super) fn counts(&self, counting: usize, mode: Mode) -> (Option<u64>, Option<u64>) {
        let (mut plans, mut calls) = (None, None);
        for (_, numbers) in self.numbers(counting, mode) {
            if let Some(counted) = numbers.counted {
                *calls.get_or_insert(0) += counted.calls;
                if let Some(of_trial) = counted.plans {
                    *plans.get_or_insert(0) += of_trial;
                }
            }
        }
        (plans, calls)
    }

    /// Returns the server's CPU time per statement of a configuration in a mode, in microseconds.
    pub(super) fn cpu_us(&self, counting: usize, mode: Mode) -> Option<f64> {
        let (mut us, mut statements) = (0.0, 0);
        for (_, numbers) in self.numbers(counting, mode) {
            us += numbers.server_cpu_us? * numbers.statements as f64;
            statements += numbers.statements;
        }
        (statements > 0).then(|| us / statements as f64)
    }
}
