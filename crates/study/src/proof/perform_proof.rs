//! Performs the runs of a proof.

use std::collections::BTreeMap;
use std::path::Path;

use clock::{Clock, SystemClock};
use compare::proof::Goal;
use replay::Options;
use workload::WorkloadReader;

use super::request::ProofRequest;
use super::{Decision, Proof, ProofJournal, ProofPlan, ProofSide, server, sides};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::journal::Manifest;
use crate::keys;
use crate::leftovers;
use crate::perform;
use crate::rewrite_workload::rewrite_workload;
use crate::runner::{EndReason, Event};

/// Shows a running proof.
pub trait ProofDisplay {
    /// Called once, before the first run.
    fn begin(&mut self, journal: &ProofJournal, replays: &ProofReplays<'_>);
    /// Called at each event.
    fn happened(&mut self, journal: &ProofJournal, event: &Event<'_, Proof>);
    /// Called after the last run.
    fn end(&mut self, journal: &ProofJournal);
}

/// Replays of a proof's runs.
pub struct ProofReplays<'w> {
    /// The unchanged workload.
    pub whole: &'w WorkloadReader,
    /// Options of every replay.
    pub options: &'w Options,
    /// Number that is to improve.
    pub goal: Goal,
    /// Whether data are restored before each run.
    pub restores: bool,
    /// Whether a time that is too short for a verdict ends the proof after the first run, and is no failure.
    pub ends_if_too_short: bool,
    /// Whether replays continue with all blocks that there is time for, although the verdict is clear.
    pub uses_all_time: bool,
}

/// Compares each side with the first, which is unchanged, until all verdicts are clear or the time is over. `begun` is
/// called with the proof's directory once it is created.
///
/// # Errors
/// If the request is invalid, or a replay cannot be done. A refused proof leaves no files.
pub fn perform_proof(
    request: &ProofRequest,
    sides: Vec<ProofSide>,
    whole: &WorkloadReader,
    interrupt: &Interrupt,
    begun: &dyn Fn(&Path) -> Result<(), Failure>,
    display: &mut dyn ProofDisplay,
) -> Result<(ProofJournal, EndReason), Failure> {
    let output = &request.output;
    let conditions = sides::side_conditions(&sides)?;
    let mut previous = ProofJournal::previous(output, request.resume)?;
    if let Some(journal) = previous.as_mut().filter(|_| request.goal.can_change_time) {
        change_time(journal, request.goal.time_budget.as_secs_f64())?;
    }
    let known = previous.as_ref().map(|one| one.manifest().settings.clone());
    let mut server = server::make(request, whole, (conditions, known), interrupt)?;
    let goal = &request.goal;
    let seed = goal.seed;
    let seed = seed.or(previous.as_ref().map(|journal| journal.plan().seed));
    let plan = ProofPlan {
        sides,
        goal: goal.goal.name().to_owned(),
        margin: goal.margin,
        within_s: goal.time_budget.as_secs_f64(),
        blocks_max: goal.blocks,
        noise_runs: goal.noise_runs,
        seed: seed.unwrap_or_else(|| rand::random::<u32>().into()),
    };
    let described = described(request, &server.name, whole);
    let started = SystemClock::start().wall_us();
    let manifest = Manifest::new(plan, described, server.settings.clone(), started);
    let is_new = previous.is_none();
    let mut journal = ProofJournal::begin(output, previous, manifest)?;
    if is_new {
        begun(output)?;
    }
    let replays = ProofReplays {
        whole,
        options: &server.options,
        goal: goal.goal,
        restores: server.restores,
        ends_if_too_short: goal.ends_if_too_short,
        uses_all_time: goal.uses_all_time,
    };
    let environment = &mut *server.environment;
    let ended = perform_runs(&mut journal, &replays, environment, interrupt, display)?;
    Ok((journal, ended))
}

/// Gives a resumed proof another time. The number of blocks stays, once it is decided, since the interim analyses depend on it.
fn change_time(journal: &mut ProofJournal, within_s: f64) -> Result<(), Failure> {
    let plan = journal.plan().clone();
    if plan.within_s == within_s {
        return Ok(());
    }
    journal.replace_plan(ProofPlan { within_s, ..plan })?;
    if let Some(decision) = journal.decision() {
        let ended = None;
        journal.decide(Decision { ended, ..decision })?;
    }
    Ok(())
}

/// Performs the runs that the journal lacks, and rewrites workloads for the sides that need it.
///
/// # Errors
/// If a replay cannot be done. A refusal before the first one leaves no files.
pub fn perform_runs(
    journal: &mut ProofJournal,
    replays: &ProofReplays<'_>,
    environment: &mut dyn Environment,
    interrupt: &Interrupt,
    display: &mut dyn ProofDisplay,
) -> Result<EndReason, Failure> {
    let ended = workloads(journal, replays.whole, interrupt).and_then(|workloads| {
        let proof = Proof {
            workloads,
            options: replays.options.clone(),
            goal: replays.goal,
            statements: replays.whole.info().statements,
            ends_if_too_short: replays.ends_if_too_short,
            uses_all_time: replays.uses_all_time,
        };
        display.begin(journal, replays);
        let tell = &mut |journal: &ProofJournal, event: Event<'_, Proof>| {
            display.happened(journal, &event);
        };
        let ended = perform(&proof, environment, journal, interrupt, tell);
        display.end(journal);
        ended
    });
    if ended.is_err() && journal.records().next().is_none() {
        leftovers::remove_refused(journal.path());
    }
    ended
}

/// Returns the workload of each side, after rewriting those that are missing.
fn workloads(
    journal: &ProofJournal,
    whole: &WorkloadReader,
    interrupt: &Interrupt,
) -> Result<Vec<WorkloadReader>, Failure> {
    let mut workloads = Vec::new();
    for (number, side) in journal.plan().sides.iter().enumerate() {
        let rewrites = sides::parse_rewritings(side)?;
        if rewrites.is_empty() {
            workloads.push(whole.clone());
            continue;
        }
        let path = journal.rewritten_path(number);
        if !path.exists() {
            for at in 0..rewrites.len() {
                let between = path.with_extension(format!("{at}.workload"));
                leftovers::remove(&between.with_extension("workload.partial"))?;
                leftovers::remove(&between)?;
            }
            leftovers::remove(&path.with_extension("workload.partial"))?;
            rewrite_workload(whole, &rewrites, (&path, &whole.recipients()), interrupt)?;
        }
        workloads.push(keys::open_workload(&path)?);
    }
    Ok(workloads)
}

/// Returns the options that affect every run, by name, for the manifest.
fn described(
    request: &ProofRequest,
    place_name: &str,
    whole: &WorkloadReader,
) -> BTreeMap<String, String> {
    let place = &request.place;
    let load = place.new_server.as_ref().and_then(|one| one.load.clone());
    let connections = request.replay.connections_max;
    let given = [
        ("workload", Some(whole.id().to_owned())),
        ("workload-name", Some(whole.path().display().to_string())),
        ("place-name", Some(place_name.to_owned())),
        ("speed", Some(request.replay.speed.to_string())),
        ("restore", place.restore.clone()),
        ("template", place.template.clone()),
        ("load", load),
        ("no-restore", place.no_restore.then(|| "true".to_owned())),
        (
            "max-connections",
            connections.map(|count| count.to_string()),
        ),
    ];
    given
        .into_iter()
        .chain(request.session_options.iter().cloned())
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}
