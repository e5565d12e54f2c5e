//! What the processor time of a profile was for.

use std::collections::HashMap;

use analyse::phases::{Phase, PhaseAccount, PhaseSums, SampleTime};
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
    /// Samples of the server's processes that were not: other processes, roles, databases, statements, and before and behind the
    /// time that the kernel's count is of.
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
    /// Samples within the time of the kernel's count, times the time between two, in microseconds.
    pub sampled_cpu_us: u64,
    /// What the kernel's scheduler counted for these processes in that time (`/proc`), in microseconds; `null` where it could
    /// not be read.
    pub kernel_cpu_us: Option<u64>,
    /// As `kernel_cpu_us`, but by the kernel's counters of tasks, which read the clock at each switch; `null` where they were not wanted or not to be had.
    pub task_clock_us: Option<u64>,
    /// What each sample stands for, in microseconds: where `is_weighed`, `task_clock_us` divided by the samples within its
    /// time; else the time between two samples.
    pub sample_us: f64,
    /// Whether the chosen samples and the others within that time add up to `task_clock_us`.
    pub is_weighed: bool,
    /// `sampled_cpu_us` in percent of `task_clock_us`, or of `kernel_cpu_us` where that is `null`.
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
    /// Processor time, in microseconds: samples times what one stands for.
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
        let each = SampleTime::of(info);
        let statements = account.statements();
        let all = account.all().all();
        let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
        let sampled_cpu_us = info.counted * 1_000_000 / info.frequency_hz.max(1);
        let kernel_us = info.task_clock_ns.or(info.cpu_ns).map(|ns| ns / 1_000);
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
                kernel_cpu_us: info.cpu_ns.map(|ns| ns / 1_000),
                task_clock_us: info.task_clock_ns.map(|ns| ns / 1_000),
                sampled_percent: kernel_us
                    .filter(|us| *us > 0)
                    .map(|us| percent(sampled_cpu_us, us)),
                sample_us: each.ns / 1e3,
                is_weighed: each.weight.is_some(),
                lost: info.lost,
                left_out: info.left_out,
                notes: info.notes.clone(),
            },
            samples: all,
            others,
            of_statements: statements.iter().map(|one| one.sums.all()).sum(),
            phases: phases(account.all(), each),
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
                    cpu_us: us(one.sums.all(), each),
                    phases: phases(&one.sums, each),
                })
                .collect(),
        }
    }
}

fn us(samples: u64, each: SampleTime) -> u64 {
    (samples as f64 * each.ns / 1e3).round() as u64
}

fn phases(sums: &PhaseSums, each: SampleTime) -> Vec<PhaseView> {
    let all = sums.all().max(1) as f64;
    let view = |(phase, samples): (Phase, u64)| PhaseView {
        phase: phase.name(),
        title: phase.title(),
        samples,
        share_percent: samples as f64 * 100.0 / all,
        cpu_us: us(samples, each),
    };
    sums.largest_first().into_iter().map(view).collect()
}
