//! What the processor time of a profile was for.

use std::collections::HashMap;

use run::ProfileInfo;
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::StatementText;

use super::{Phase, PhaseAccount, PhaseSums, SampleTime};

/// The processor time of a profile by phase. The phases' samples add up to `samples`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PhaseReport {
    /// The run's name, as the user gave it.
    pub run: String,
    /// How the profile was taken.
    pub profile: ProfileInfo,
    /// Processor time that a sample stands for.
    pub sample_ns: f64,
    /// Whether the chosen samples and the others within the counted time add up to the kernel's counters
    /// of tasks. Otherwise a sample stands for the time between two.
    pub is_weighed: bool,
    /// Number of samples that were chosen.
    pub samples: u64,
    /// Number of samples of the server's processes that were not chosen: other processes, roles, databases
    /// and statements, and samples outside the time that the kernel's count covers.
    pub others: u64,
    /// Number of chosen samples whose statement is known.
    pub statement_samples: u64,
    /// The phases, those with the most samples first. `unplaced` is what the rules do not know.
    pub phases: Vec<PhaseSamples>,
    /// Functions that took the spin locks at which samples were taken, those with the most samples first.
    pub spin_locks: Vec<SpinLockSamples>,
    /// The statements with the most samples.
    pub statements: Vec<StatementSamples>,
}

/// The samples of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PhaseSamples {
    /// The phase.
    pub phase: Phase,
    /// Number of samples.
    pub samples: u64,
    /// Processor time that they stand for.
    pub cpu_ns: f64,
}

/// The samples at spin locks that a function took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SpinLockSamples {
    /// The function.
    pub taken_by: String,
    /// Number of samples.
    pub samples: u64,
}

/// The samples of a statement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StatementSamples {
    /// The statement.
    pub fingerprint: Fingerprint,
    /// Normalised SQL, if known.
    pub sql: Option<String>,
    /// Number of samples.
    pub samples: u64,
    /// Processor time that they stand for.
    pub cpu_ns: f64,
    /// The phases, those with the most samples first.
    pub phases: Vec<PhaseSamples>,
}

impl PhaseReport {
    /// Reports an account with the `most` statements that have the most samples.
    pub fn new(
        run: &str,
        info: &ProfileInfo,
        account: &PhaseAccount,
        others: u64,
        texts: &HashMap<Fingerprint, StatementText>,
        most: usize,
    ) -> Self {
        let each = SampleTime::of(info);
        let statements = account.statements();
        let statement = |one: &super::StatementPhases| StatementSamples {
            fingerprint: one.fingerprint,
            sql: texts.get(&one.fingerprint).map(|text| text.sql.clone()),
            samples: one.sums.all(),
            cpu_ns: one.sums.all() as f64 * each.ns,
            phases: phases(&one.sums, each),
        };
        let spin_locks = account.spin_locks().into_iter();
        Self {
            run: run.to_owned(),
            profile: info.clone(),
            sample_ns: each.ns,
            is_weighed: each.weight.is_some(),
            samples: account.all().all(),
            others,
            statement_samples: statements.iter().map(|one| one.sums.all()).sum(),
            phases: phases(account.all(), each),
            spin_locks: spin_locks
                .map(|(taken_by, samples)| SpinLockSamples { taken_by, samples })
                .collect(),
            statements: statements.iter().take(most).map(statement).collect(),
        }
    }
}

fn phases(sums: &PhaseSums, each: SampleTime) -> Vec<PhaseSamples> {
    let of = |(phase, samples): (Phase, u64)| PhaseSamples {
        phase,
        samples,
        cpu_ns: samples as f64 * each.ns,
    };
    sums.largest_first().into_iter().map(of).collect()
}
