//! What the processor time of a profile was for.

use std::collections::HashMap;

use analyse::phases::{Phase, PhaseAccount, PhaseSums};
use run::ProfileInfo;
use schemars::JsonSchema;
use serde::Serialize;
use workload::{Fingerprint, StatementText};

/// What the processor time of a profile was for. The phases' samples add up to `samples`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct PhasesView {
    /// `rehearse/phases/1`.
    pub schema: &'static str,
    /// The run.
    pub run: String,
    /// How the profile was taken.
    pub profile: ProfileView,
    /// Samples that were chosen.
    pub samples: u64,
    /// Samples of the server's processes that were not: other processes, roles, databases, statements.
    pub others: u64,
    /// Of the chosen ones, those whose statement is known.
    pub of_statements: u64,
    /// By phase, the most first. `unplaced` is what the rules do not know.
    pub phases: Vec<PhaseView>,
    /// Which functions took the spin locks that samples stand at, the most first.
    pub spin_locks: Vec<SpinLockView>,
    /// By statement, the most samples first.
    pub statements: Vec<StatementPhasesView>,
}

/// How a profile was taken.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct ProfileView {
    /// The event that was sampled.
    pub event: String,
    /// Samples a second of processor time.
    pub frequency_hz: u64,
    /// `frame pointers` or `dwarf`.
    pub unwinding: String,
    /// How complete the stacks of a trial were, by each way that was tried.
    pub trial: String,
    /// `all processors` or `processes`.
    pub scope: String,
    /// Whether the kernel's time is in it.
    pub kernel: bool,
    /// Of stacks with functions of programs, how many percent reach `main`.
    pub complete_percent: Option<f64>,
    /// Samples of all processes of the server.
    pub samples: u64,
    /// Samples within the time of the kernel's count, times the time of a sample, in microseconds.
    pub sampled_cpu_us: u64,
    /// What the kernel counted for these processes in that time, in microseconds; `null` where it could not
    /// be read.
    pub kernel_cpu_us: Option<u64>,
    /// The former in percent of the latter.
    pub sampled_percent: Option<f64>,
    /// Events that perf lost.
    pub lost: u64,
    /// Samples past the most that a run keeps.
    pub left_out: u64,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// A phase's part.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct PhaseView {
    /// Its name (`open_indexes`).
    pub phase: &'static str,
    /// In words.
    pub title: &'static str,
    /// Samples.
    pub samples: u64,
    /// Of all chosen ones, in percent.
    pub share_percent: f64,
    /// Processor time, in microseconds: samples times the time of one.
    pub cpu_us: u64,
}

/// Who took a spin lock.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct SpinLockView {
    /// The function.
    pub taken_by: String,
    /// Samples.
    pub samples: u64,
}

/// A statement's part.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct StatementPhasesView {
    /// Its fingerprint.
    pub fingerprint: String,
    /// Its normal form, where it is known.
    pub sql: Option<String>,
    /// Samples.
    pub samples: u64,
    /// Of all chosen ones, in percent.
    pub share_percent: f64,
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// By phase, the most first.
    pub phases: Vec<PhaseView>,
}

impl PhasesView {
    /// Of an account, with the texts of its statements, those with the most samples first.
    pub fn new(
        run: &str,
        info: &ProfileInfo,
        account: &PhaseAccount,
        others: u64,
        texts: &HashMap<Fingerprint, StatementText>,
        most: usize,
    ) -> Self {
        let hz = info.frequency_hz.max(1);
        let statements = account.statements();
        let all = account.all().all();
        let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
        let sampled_cpu_us = info.counted * 1_000_000 / hz;
        let kernel_cpu_us = info.cpu_ns.map(|ns| ns / 1_000);
        PhasesView {
            schema: "rehearse/phases/1",
            run: run.to_owned(),
            profile: ProfileView {
                event: info.event.clone(),
                frequency_hz: info.frequency_hz,
                unwinding: info.unwinding.clone(),
                trial: info.trial.clone(),
                scope: info.scope.clone(),
                kernel: info.kernel,
                complete_percent: (info.unwound > 0).then(|| percent(info.complete, info.unwound)),
                samples: info.samples,
                sampled_cpu_us,
                kernel_cpu_us,
                sampled_percent: kernel_cpu_us
                    .filter(|us| *us > 0)
                    .map(|us| percent(sampled_cpu_us, us)),
                lost: info.lost,
                left_out: info.left_out,
                notes: info.notes.clone(),
            },
            samples: all,
            others,
            of_statements: statements.iter().map(|one| one.sums.all()).sum(),
            phases: phases(account.all(), hz),
            spin_locks: account
                .spin_locks()
                .into_iter()
                .map(|(taken_by, samples)| SpinLockView { taken_by, samples })
                .collect(),
            statements: statements
                .iter()
                .take(most)
                .map(|one| StatementPhasesView {
                    fingerprint: one.fingerprint.to_string(),
                    sql: texts.get(&one.fingerprint).map(|text| text.sql.clone()),
                    samples: one.sums.all(),
                    share_percent: percent(one.sums.all(), all),
                    cpu_us: one.sums.all() * 1_000_000 / hz,
                    phases: phases(&one.sums, hz),
                })
                .collect(),
        }
    }
}

fn phases(sums: &PhaseSums, hz: u64) -> Vec<PhaseView> {
    let all = sums.all().max(1) as f64;
    let view = |(phase, samples): (Phase, u64)| PhaseView {
        phase: phase.name(),
        title: phase.title(),
        samples,
        share_percent: samples as f64 * 100.0 / all,
        cpu_us: samples * 1_000_000 / hz,
    };
    sums.largest_first().into_iter().map(view).collect()
}
