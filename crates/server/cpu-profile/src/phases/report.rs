//! Report of a profile's CPU time by phase.

use std::collections::HashMap;

use run::ProfileInfo;
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::StatementText;

use super::{Phase, PhaseAccount, PhaseSums, SampleTime};

/// CPU time of a profile by phase. The phases' samples add up to `samples`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PhaseReport {
    /// Name of the run, as the user passed it.
    pub run: String,
    /// Options and results of the recording.
    pub profile: ProfileInfo,
    /// CPU time that a sample represents.
    pub sample_ns: f64,
    /// Whether all samples within the counted time add up to the kernel's task counters. Otherwise a sample
    /// represents the sampling interval.
    pub is_weighed: bool,
    /// Number of selected samples.
    pub samples: u64,
    /// Number of samples of the server's processes that were not selected: other processes, roles, databases
    /// and statements, and samples outside of the time that the kernel's count covers.
    pub others: u64,
    /// Number of selected samples whose statement is known.
    pub statement_samples: u64,
    /// Phases, those with the most samples first. `unplaced` is time in functions without a rule.
    pub phases: Vec<PhaseSamples>,
    /// Functions that took the spin locks at which samples were taken, those with the most samples first.
    pub spin_locks: Vec<SpinLockSamples>,
    /// Statements with the most samples.
    pub statements: Vec<StatementSamples>,
}

/// Samples of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PhaseSamples {
    /// Phase.
    pub phase: Phase,
    /// Number of samples.
    pub samples: u64,
    /// CPU time that they represent.
    pub cpu_ns: f64,
}

/// Samples at spin locks that a function took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SpinLockSamples {
    /// Function.
    pub taken_by: String,
    /// Number of samples.
    pub samples: u64,
}

/// Samples of a statement.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StatementSamples {
    /// Statement.
    pub fingerprint: Fingerprint,
    /// Normalised SQL, if known.
    pub sql: Option<String>,
    /// Number of samples.
    pub samples: u64,
    /// CPU time that they represent.
    pub cpu_ns: f64,
    /// Processor share: the statement's time, of the processor time of all processes of the server; `null` if it is not known.
    pub processor_share: Option<f64>,
    /// Phases, those with the most samples first.
    pub phases: Vec<PhaseSamples>,
}

impl PhaseReport {
    /// Creates a report of an account with the `most` statements that have the most samples. `processor_share` returns their
    /// shares.
    pub fn new(
        run: &str,
        info: &ProfileInfo,
        account: &PhaseAccount,
        others: u64,
        texts: &HashMap<Fingerprint, StatementText>,
        most: usize,
        processor_share: impl Fn(Fingerprint) -> Option<f64>,
    ) -> Self {
        let each = SampleTime::of(info);
        let statements = account.statements();
        let statement = |one: &super::StatementPhases| StatementSamples {
            fingerprint: one.fingerprint,
            sql: texts.get(&one.fingerprint).map(|text| text.sql.clone()),
            samples: one.sums.total(),
            cpu_ns: one.sums.total() as f64 * each.ns,
            processor_share: processor_share(one.fingerprint),
            phases: phases(&one.sums, each),
        };
        let spin_locks = account.spin_locks().into_iter();
        Self {
            run: run.to_owned(),
            profile: info.clone(),
            sample_ns: each.ns,
            is_weighed: each.weight.is_some(),
            samples: account.all().total(),
            others,
            statement_samples: statements.iter().map(|one| one.sums.total()).sum(),
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
