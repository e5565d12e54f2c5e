//! Reads the evidence that diagnostic rules examine, from a run, an observation or a workload.

use std::collections::{BTreeMap, HashMap};

use cpu_profile::phases::{Phase, PhaseAccount, PhaseSums, Rules};
use diagnose::{
    Available, Basis, Evidence, EvidenceInputs, History, ServerLog, SessionStep, StackEvidence,
    Unavailable,
};
use run::{Facts, PlanFact, RunReader, SampledStatement, ServiceTime};
use sql::Fingerprint;
use time_breakdown::time_model::match_truncated_queries;
use workload::{StatementText, WorkloadReader};

use crate::failure::Failure;
use crate::notes;
use crate::observation;
use crate::profile_samples::{ProfileSamples, SampleFilter};
use crate::run_time;
use crate::stalled_share::{STALLED_SHARE_MAX, stalled_share};

/// Facts and plans that were queried from a server for the diagnosis alone. They take precedence over those of the
/// run.
#[derive(Debug, Default)]
pub struct QueriedFacts {
    /// Schema and settings.
    pub facts: Option<Facts>,
    /// Plans of statements.
    pub plans: Option<Vec<PlanFact>>,
}

/// Reads the evidence of a run. An observation is a run without executions.
///
/// # Errors
/// If it cannot be read.
pub fn read_run_evidence(run: &RunReader, asked: QueriedFacts) -> Result<Evidence, Failure> {
    let info = run.info();
    let stalled = stalled_share(info);
    if stalled > STALLED_SHARE_MAX {
        notes::note(&format!(
            "Warning: in this run the replay itself was stopped or starved {:.0} % of the time. Findings from times may be of this machine, not of the server; replay again where nothing else runs.",
            stalled * 100.0
        ));
    }
    let mut texts: BTreeMap<Fingerprint, StatementText> = BTreeMap::new();
    for text in run.statements()? {
        let text = text?;
        texts.insert(text.fingerprint, text);
    }
    let seen: Vec<SampledStatement> = run.observed_statements()?.collect::<Result<_, _>>()?;
    let whole = match_truncated_queries(&seen, &texts);
    for one in seen {
        texts.entry(one.fingerprint).or_insert(StatementText {
            fingerprint: one.fingerprint,
            class: one.class,
            sql: one.sql,
        });
    }
    let is_observation = info.is_observation();
    let history = match is_observation {
        true => Err(Unavailable::because(
            "what sessions did one after the other is known of runs and workloads only",
        )),
        false => {
            let mut history = History::new(texts.values());
            for execution in run.executions()? {
                if let Some(step) = SessionStep::from_execution(&execution?) {
                    history.add(&step);
                }
            }
            Ok(history)
        }
    };
    let observed = match run.is_observed() {
        true => Ok(observation::summarize_observations(run)?),
        false => {
            unavailable("the server was not watched; give `rehearse replay` the option --observe")
        }
    };
    let facts = match asked
        .facts
        .map_or_else(|| run.facts(), |facts| Ok(Some(facts)))?
    {
        Some(facts) => Ok(facts),
        None => unavailable(
            "its schema and settings are not known; a replay asks for them unless --no-facts is given",
        ),
    };
    let plans = match asked
        .plans
        .map_or_else(|| run.plans(), |plans| Ok(Some(plans)))?
    {
        Some(plans) => Ok(plans),
        None => unavailable("no plans were asked for; give `rehearse replay` the option --explain"),
    };
    Ok(Evidence::new(EvidenceInputs {
        basis: match is_observation {
            true => Basis::Observation,
            false => Basis::Run,
        },
        elapsed_s: info.elapsed_ns as f64 / 1e9,
        server_version: info.target.server_version.clone(),
        texts: texts.into_values().collect(),
        whole,
        history,
        observed,
        facts,
        plans,
        stacks: read_stacks(run)?,
        processor: run_time::break_down_processor(run)?,
        log: unavailable("only a workload from a server's log has what the log said"),
    }))
}

/// Reads the evidence of a workload.
///
/// # Errors
/// If it cannot be read.
pub fn read_workload_evidence(workload: &WorkloadReader) -> Result<Evidence, Failure> {
    let texts: Vec<StatementText> = workload.statements()?.collect::<Result<_, _>>()?;
    let mut history = History::new(&texts);
    for event in workload.events()? {
        let (event, fingerprint) = event?;
        if !event.prelude {
            history.add(&SessionStep::from_event(&event, fingerprint));
        }
    }
    let mut log = ServerLog::default();
    let mut has_server_events = false;
    for event in workload.server_events()? {
        let (event, fingerprint) = event?;
        log.add(&event, fingerprint);
        has_server_events |= event.kind.is_activity();
    }
    let only = |what: &str| {
        Unavailable::because(format!(
            "a workload has no {what}; replay it with --observe --explain and diagnose the run"
        ))
    };
    Ok(Evidence::new(EvidenceInputs {
        basis: Basis::Workload,
        elapsed_s: 0.0,
        server_version: String::new(),
        texts,
        whole: HashMap::new(),
        history: Ok(history),
        observed: Err(only("server that was watched")),
        facts: Err(only("schema and settings")),
        plans: Err(only("plans")),
        stacks: Err(only("CPU profile")),
        processor: None,
        log: match has_server_events {
            true => Ok(log),
            false => {
                unavailable("the log said nothing of the server, or the workload is not of a log")
            }
        },
    }))
}

/// Returns up to `most` statements with the greatest total time, as the server counted it, and their texts.
///
/// # Errors
/// If the run cannot be read.
pub fn top_statements(run: &RunReader, most: usize) -> Result<Vec<(ServiceTime, String)>, Failure> {
    let observed = observation::summarize_observations(run)?;
    let all = observed.statements.iter().filter_map(|one| {
        let counted = one.counted?;
        let time = ServiceTime {
            fingerprint: one.fingerprint?,
            service_ns: one.total_ns(),
            calls: counted.calls,
        };
        Some((time, one.sql.clone()?))
    });
    Ok(all.take(most).collect())
}

fn unavailable<T>(why: &str) -> Available<T> {
    Err(Unavailable::because(why))
}

/// Reads the time by phase from the stacks of clients' backends.
fn read_stacks(run: &RunReader) -> Result<Available<StackEvidence>, Failure> {
    let info = match run.profile()? {
        None => {
            return Ok(unavailable(
                "no CPU profile was taken; give `rehearse replay` the option --profile",
            ));
        }
        Some(profile) => profile.info().clone(),
    };
    if let Some(off) = &info.off {
        return Ok(unavailable(&format!("there is no CPU profile: {off}")));
    }
    let profiled = ProfileSamples::open(RunReader::open(run.path())?, &SampleFilter::default())?;
    let (stacks, rules) = (profiled.read_stacks()?, Rules::new());
    let classified: Vec<_> = stacks.iter().map(|stack| rules.place(stack)).collect();
    let mut account = PhaseAccount::default();
    profiled.for_each_chosen(|stack, statement| {
        if let Some(classified) = classified.get(stack as usize) {
            account.add(*classified, statement);
        }
    })?;
    let working = |sums: &PhaseSums| -> Vec<(Phase, u64)> {
        let all = sums.largest_first().into_iter();
        all.filter(|(phase, _)| *phase != Phase::Idle).collect()
    };
    Ok(Ok(StackEvidence {
        hz: info.frequency_hz,
        all: working(account.all()),
        statements: account
            .statements()
            .into_iter()
            .map(|one| (one.fingerprint, working(&one.sums)))
            .collect(),
        spin_locks: account.spin_locks(),
    }))
}
