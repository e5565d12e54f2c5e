//! What is known of the server's processor time in a run: stacks, read once for both accounts of the time
//! model, and what the kernel counted.

use std::collections::{BTreeMap, HashMap};

use cpu_profile::phases::{Phase, PhaseAccount, PhaseSums, Rules, SampleTime, Stage};
use run::RunReader;
use sql::Fingerprint;
use time_breakdown::time_model::{ProcessorEvidence, ProcessorTime, StacksMet, Who};

use crate::failure::Failure;
use crate::profile_samples;
use crate::profile_samples::{Profiled, SampleChoice};

/// What stacks say.
#[derive(Default)]
pub struct StackEvidence {
    /// Clients' time by phase, of all and of each statement where that can be told.
    pub times: Vec<ProcessorTime>,
    /// All that was met in the time of the account.
    pub processor: ProcessorEvidence,
    /// Stacks of the run's statements within planning and within execution, as `pg_stat_statements` measures
    /// them.
    pub planned_and_executed: (u64, u64),
}

/// Which of the kernel's counts the whole is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// The scheduler's, which runs with and without a profile have alike, and which leaves out what the hypervisor took.
    Scheduler,
    /// That of counters of tasks where it is known, else the scheduler's.
    Tasks,
}

/// Reads a run's profile; nothing where none was taken.
///
/// # Errors
/// Where the run cannot be read.
pub fn stacks(run: &RunReader, count: Count) -> Result<StackEvidence, Failure> {
    let Some(profile) = run
        .profile()?
        .filter(|profile| profile.info().off.is_none())
    else {
        return Ok(StackEvidence::default());
    };
    let info = profile.info();
    let profiled = Profiled::open(RunReader::open(run.path())?, &SampleChoice::default())?;
    let (stacks, rules) = (profiled.stacks()?, Rules::new());
    let placed: Vec<_> = stacks
        .iter()
        .map(|stack| (rules.place(stack), Stage::of(stack)))
        .collect();
    let mut account = PhaseAccount::default();
    let mut met: HashMap<(Who, Option<Fingerprint>, Phase), u64> = HashMap::new();
    let mut stages = (0, 0);
    profiled.each_sample(|sample, statement| {
        let nowhere = || (rules.place(""), Stage::Neither);
        let known = placed.get(sample.stack as usize).copied();
        let (placed, stage) = known.unwrap_or_else(nowhere);
        let kind = profiled.kind(sample.pid);
        let who = match kind {
            kind if profile_samples::CLIENTS.contains(&kind) => Who::Client,
            profile_samples::OWN => Who::Own,
            kind => Who::Server(kind.to_owned()),
        };
        if who == Who::Client {
            account.add(placed, statement);
            // Of the run's statements; a worker's are known to be none's.
            match stage {
                Stage::Planning if statement.is_some() => stages.0 += 1,
                Stage::Execution if statement.is_some() => stages.1 += 1,
                _ => {}
            }
        }
        if (info.begun_ns..=info.ended_ns).contains(&sample.at_ns) {
            *met.entry((who, statement, placed.phase)).or_default() += 1;
        }
    })?;
    let mut times = times(None, account.all());
    for one in account.statements() {
        times.extend(self::times(Some(one.fingerprint), &one.sums));
    }
    let tasks_ns = info.task_clock_ns.filter(|_| count == Count::Tasks);
    Ok(StackEvidence {
        times,
        processor: ProcessorEvidence {
            kernel_ns: tasks_ns.or(info.cpu_ns).map(|ns| ns as f64),
            by_tasks: tasks_ns.is_some(),
            sample_ns: 1e9 / info.frequency_hz.max(1) as f64,
            weight: tasks_ns.and_then(|_| SampleTime::of(info).weight),
            stacks: met
                .into_iter()
                .map(|((who, fingerprint, phase), samples)| StacksMet {
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

/// Waiting for a client is no statement's time.
fn times(fingerprint: Option<Fingerprint>, sums: &PhaseSums) -> Vec<ProcessorTime> {
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

/// What the kernel counted for the server's processes while the machine was watched, where it was; for runs
/// without stacks.
///
/// # Errors
/// Where the run cannot be read.
pub fn counted(run: &RunReader) -> Result<ProcessorEvidence, Failure> {
    let mut first_and_last: BTreeMap<(bool, String, String), (f64, f64)> = BTreeMap::new();
    for counter in run.counters()? {
        let counter = counter?;
        let is_process = counter.source == "process";
        if (is_process || counter.source == "server")
            && matches!(&*counter.name, "user_seconds" | "system_seconds")
        {
            let of = (is_process, counter.object, counter.name);
            let seen = first_and_last
                .entry(of)
                .or_insert((counter.value, counter.value));
            seen.1 = counter.value;
        }
    }
    let mut evidence = ProcessorEvidence::default();
    let mut by_process: BTreeMap<Who, f64> = BTreeMap::new();
    for ((is_process, object, _), (first, last)) in first_and_last {
        // It goes back where the server was started anew.
        let ns = (last - first).max(0.0) * 1e9;
        if is_process {
            // A kind and a number.
            let kind = object.rsplit_once(' ').map_or(&*object, |(kind, _)| kind);
            let who = match kind {
                "client" | profile_samples::WORKER => Who::Client,
                kind => Who::Server(kind.to_owned()),
            };
            *by_process.entry(who).or_default() += ns;
        } else {
            *evidence.kernel_ns.get_or_insert(0.0) += ns;
        }
    }
    evidence.by_process = by_process.into_iter().collect();
    Ok(evidence)
}
