//! The server's CPU time in a run, from two sources: stacks of the CPU profile and counts of the kernel.
//!
//! The stacks are read once, for the time of statements and for the total CPU time.

use std::collections::{BTreeMap, HashMap};

use cpu_profile::phases::{Phase, PhaseAccount, PhaseSums, Rules, SampleTime, Stage};
use run::RunReader;
use sql::Fingerprint;
use time_breakdown::time_model::{ProcessorEvidence, ProcessorTime, ProcessorUser, StackCount};

use crate::failure::Failure;
use crate::profile_samples;
use crate::profile_samples::{ProfileSamples, SampleFilter};

/// CPU time that is derived from stacks.
#[derive(Default)]
pub struct StackEvidence {
    /// Clients' time by phase, in total and for each statement, if the statement is known.
    pub times: Vec<ProcessorTime>,
    /// All samples within the period that the kernel's count covers.
    pub processor: ProcessorEvidence,
    /// Number of samples of the run's statements within planning and within execution, as `pg_stat_statements`
    /// delimits them.
    pub planned_and_executed: (u64, u64),
}

/// The kernel's count that serves as the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CpuTimeSource {
    /// The scheduler's count, which is comparable between runs with and without a profile. It excludes time stolen by
    /// the hypervisor.
    Scheduler,
    /// The count of task-clock counters if known, else the scheduler's.
    TaskClock,
}

/// Reads the stacks of a run's profile. The result is empty if the run has no profile.
///
/// # Errors
/// If the run cannot be read.
pub fn read_stacks(run: &RunReader, count: CpuTimeSource) -> Result<StackEvidence, Failure> {
    let Some(profile) = run
        .profile()?
        .filter(|profile| profile.info().off.is_none())
    else {
        return Ok(StackEvidence::default());
    };
    let info = profile.info();
    let profiled = ProfileSamples::open(RunReader::open(run.path())?, &SampleFilter::default())?;
    let (stacks, rules) = (profiled.read_stacks()?, Rules::new());
    let classified: Vec<_> = stacks
        .iter()
        .map(|stack| (rules.place(stack), Stage::of(stack)))
        .collect();
    let mut account = PhaseAccount::default();
    let mut samples_by_phase: HashMap<(ProcessorUser, Option<Fingerprint>, Phase), u64> =
        HashMap::new();
    let mut stages = (0, 0);
    profiled.for_each_sample(|sample, statement| {
        let unclassified = || (rules.place(""), Stage::Neither);
        let known = classified.get(sample.stack as usize).copied();
        let (classified, stage) = known.unwrap_or_else(unclassified);
        let kind = profiled.process_kind(sample.pid);
        let who = match kind {
            kind if profile_samples::CLIENT_KINDS.contains(&kind) => ProcessorUser::Client,
            profile_samples::OWN_KIND => ProcessorUser::Own,
            kind => ProcessorUser::Server(kind.to_owned()),
        };
        if who == ProcessorUser::Client {
            account.add(classified, statement);
            // Only samples of the run's statements count. Those of parallel workers have no known statement.
            match stage {
                Stage::Planning if statement.is_some() => stages.0 += 1,
                Stage::Execution if statement.is_some() => stages.1 += 1,
                _ => {}
            }
        }
        if (info.begun_ns..=info.ended_ns).contains(&sample.at_ns) {
            *samples_by_phase
                .entry((who, statement, classified.phase))
                .or_default() += 1;
        }
    })?;
    let mut times = convert_samples(None, account.all());
    for one in account.statements() {
        times.extend(convert_samples(Some(one.fingerprint), &one.sums));
    }
    let tasks_ns = info
        .task_clock_ns
        .filter(|_| count == CpuTimeSource::TaskClock);
    Ok(StackEvidence {
        times,
        processor: ProcessorEvidence {
            kernel_ns: tasks_ns.or(info.cpu_ns).map(|ns| ns as f64),
            by_tasks: tasks_ns.is_some(),
            sample_ns: 1e9 / info.frequency_hz.max(1) as f64,
            weight: tasks_ns.and_then(|_| SampleTime::of(info).weight),
            stacks: samples_by_phase
                .into_iter()
                .map(|((who, fingerprint, phase), samples)| StackCount {
                    who,
                    fingerprint,
                    phase: phase.title().to_owned(),
                    samples,
                })
                .collect(),
            ..ProcessorEvidence::default()
        },
        planned_and_executed: stages,
    })
}

/// Converts the samples of each phase to times. Waiting for the client is left out, since it is no statement's time.
fn convert_samples(fingerprint: Option<Fingerprint>, sums: &PhaseSums) -> Vec<ProcessorTime> {
    let phases = sums.largest_first().into_iter();
    phases
        .filter(|(phase, _)| *phase != Phase::Idle)
        .map(|(phase, samples)| ProcessorTime {
            fingerprint,
            phase: phase.title().to_owned(),
            is_planning: phase == Phase::Plan,
            time: samples as f64,
        })
        .collect()
}

/// Reads the CPU time that the kernel counted for the server's processes, if the machine was observed. It serves runs
/// without stacks.
///
/// # Errors
/// If the run cannot be read.
pub fn read_kernel_counts(run: &RunReader) -> Result<ProcessorEvidence, Failure> {
    let mut first_and_last: BTreeMap<(bool, String, String), (f64, f64)> = BTreeMap::new();
    for counter in run.counters()? {
        let counter = counter?;
        let is_process = counter.source == "process";
        if (is_process || counter.source == "server")
            && matches!(&*counter.name, "user_seconds" | "system_seconds")
        {
            let of = (is_process, counter.object, counter.name);
            let range = first_and_last
                .entry(of)
                .or_insert((counter.value, counter.value));
            range.1 = counter.value;
        }
    }
    let mut evidence = ProcessorEvidence::default();
    let mut by_process: BTreeMap<ProcessorUser, f64> = BTreeMap::new();
    for ((is_process, object, _), (first, last)) in first_and_last {
        // The counter decreases if the server was restarted.
        let ns = (last - first).max(0.0) * 1e9;
        if is_process {
            // The object is a kind and a number.
            let kind = object.rsplit_once(' ').map_or(&*object, |(kind, _)| kind);
            let who = match kind {
                "client" | profile_samples::PARALLEL_WORKER => ProcessorUser::Client,
                kind => ProcessorUser::Server(kind.to_owned()),
            };
            *by_process.entry(who).or_default() += ns;
        } else {
            *evidence.kernel_ns.get_or_insert(0.0) += ns;
        }
    }
    evidence.by_process = by_process.into_iter().collect();
    Ok(evidence)
}
