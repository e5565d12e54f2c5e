//! Measurements of the case *queue*.

use study::proof::{ProofReport, ProofSideReport};

use super::diagnosis::ReplayDiagnosis;
use super::{
    Amplification, DrainResult, Index, Key, KeyCosts, Migration, Queue, Sample, SystemPlan,
    SystemResult,
};
use crate::report_parts::verdict_text;

/// Measurements, in the order in which they are taken.
pub(super) struct Measurements {
    pub(super) queue: Queue,
    pub(super) plan: SystemPlan,
    /// The system without the index.
    pub(super) trouble: SystemResult,
    /// Title of the finding that its workers starve.
    pub(super) starved: Option<String>,
    pub(super) diagnosis: ReplayDiagnosis,
    pub(super) proof: ProofReport,
    /// The system with the index.
    pub(super) cured: SystemResult,
    /// Claims without `FOR UPDATE SKIP LOCKED`.
    pub(super) unlocked: DrainResult,
    /// Claims with it.
    pub(super) locked: DrainResult,
    /// Claims of an instance that is killed.
    pub(super) killed: DrainResult,
    pub(super) keys: Vec<KeyCosts>,
    pub(super) migration: Migration,
    pub(super) amplification: Amplification,
}

impl Measurements {
    /// Returns the result of an index.
    pub(super) fn side(&self, index: &Index) -> Option<&ProofSideReport> {
        self.proof.sides.iter().find(|side| side.name == index.on)
    }

    pub(super) fn verdict_text(&self, index: &Index) -> String {
        verdict_text(self.side(index))
    }

    /// Returns the server's CPU time with an index, as a ratio to that without.
    pub(super) fn cpu_ratio(&self, index: &Index) -> Option<f64> {
        Some(self.side(index)?.effect?.ratio)
    }

    /// Returns the WAL that the traffic writes with an index, as a ratio to that without.
    pub(super) fn proof_wal_ratio(&self, index: &Index) -> Option<f64> {
        let mut numbers = self.side(index)?.numbers.iter();
        let wal = numbers.find(|one| one.name == "wal")?;
        Some(wal.after / wal.before)
    }

    pub(super) fn key_costs(&self, key: Key) -> Option<&KeyCosts> {
        self.keys.iter().find(|one| one.key == key)
    }

    /// Returns the WAL of a kind of key, as a ratio to that of sequential keys.
    pub(super) fn key_wal_ratio(&self, key: Key) -> f64 {
        let wal = |key: Key| {
            self.key_costs(key)
                .map_or(f64::NAN, |one| one.wal_bytes as f64)
        };
        wal(key) / wal(Key::Identity)
    }

    /// Returns the mean duration of a claim without the index, in seconds.
    pub(super) fn claim_s(&self) -> f64 {
        let pollers = self.plan.instances as f64;
        self.trouble.took.as_secs_f64() * pollers / self.trouble.counts.claims.max(1) as f64
    }
}

/// Returns the share of samples in which no link was claimed.
pub(super) fn idle_share(samples: &[Sample]) -> f64 {
    let zeros = samples.iter().filter(|one| one.queued == 0).count();
    zeros as f64 / samples.len().max(1) as f64
}

/// Returns the number of links that were due and not claimed, in the first and in the last sample.
pub(super) fn stalled(samples: &[Sample]) -> (i64, i64) {
    let of = |sample: Option<&Sample>| sample.map_or(0, |sample| sample.stalled);
    (of(samples.first()), of(samples.last()))
}

/// Returns the number of attempts to download per second.
pub(super) fn downloads_per_s(driven: &SystemResult) -> f64 {
    driven.served.requests as f64 / driven.took.as_secs_f64()
}
