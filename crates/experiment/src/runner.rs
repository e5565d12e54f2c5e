//! Does what is left of a plan.

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;

use crate::budget::Budget;
use crate::design::Trial;
use crate::error::ExperimentError;
use crate::ground::Ground;
use crate::journal::{Journal, Record};
use crate::load::Load;
use crate::trial::{Place, perform};

/// After so many trials in a row that failed, the rest is not tried.
const FAILURES_MAX: usize = 3;

/// What is to be done, beside the plan that the journal has.
#[derive(Debug)]
pub struct Experiment {
    /// What clients do.
    pub load: Load,
    /// How long all may take.
    pub budget: Budget,
    /// Data are restored before each trial.
    pub restore: bool,
    /// Runs are kept, with what the target is.
    pub keep_runs: bool,
}

/// What is told while it goes on.
#[derive(Debug)]
pub enum Told<'a> {
    /// A trial begins; `done` of `of` were done before it.
    Begins {
        /// Which one.
        trial: &'a Trial,
        /// Trials done before.
        done: usize,
        /// All trials.
        of: usize,
        /// How long the rest is likely to take, as far as trials so far tell.
        left: Option<Duration>,
    },
    /// A trial is over.
    Over(&'a Record),
}

/// How it ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ended {
    /// Trials that were not done, in their order.
    pub not_done: Vec<Trial>,
    /// Why not.
    pub why: Option<&'static str>,
}

/// Does the trials of the journal's plan that it does not have, in their order.
///
/// # Errors
/// Where the server cannot be brought to the state that trials begin from, or the journal not be
/// written. A trial that fails is a record.
pub fn run(
    experiment: &Experiment,
    ground: &mut dyn Ground,
    journal: &mut Journal,
    clock: &Arc<dyn Clock>,
    tell: &mut dyn FnMut(Told<'_>),
    stop: &dyn Fn() -> bool,
) -> Result<Ended, ExperimentError> {
    let design = journal.manifest().design.clone();
    ground.check(&design.variants)?;
    let trials = design.trials();
    let begun_ns = clock.now_ns();
    let since = |from_ns: i64| Duration::from_nanos((clock.now_ns() - from_ns).max(0) as u64);
    let (mut longest, mut failures) = (None::<Duration>, 0);
    let mut ended = Ended::default();
    for trial in &trials {
        if journal.has(trial) {
            continue;
        }
        if ended.why.is_none() {
            ended.why = if stop() {
                Some("it was stopped")
            } else if failures >= FAILURES_MAX {
                Some("three trials in a row failed")
            } else if !experiment.budget.allows_another(since(begun_ns), longest) {
                Some("the time that it was given (--within) was over")
            } else {
                None
            };
        }
        if ended.why.is_some() {
            ended.not_done.push(trial.clone());
            continue;
        }
        let done = journal.records().count();
        let left = longest.map(|time| time * (trials.len() - done) as u32);
        tell(Told::Begins {
            trial,
            done,
            of: trials.len(),
            left,
        });
        let (started_ns, started_wall_us) = (clock.now_ns(), clock.wall_us());
        let result = one(experiment, ground, journal, trial, clock, stop);
        let took = since(started_ns);
        let (numbers, failed) = match result {
            Ok(Some(numbers)) => (Some(numbers), None),
            // Nothing of it counts.
            Ok(None) => {
                ended.why = Some("it was stopped");
                ended.not_done.push(trial.clone());
                continue;
            }
            Err(error) => (None, Some(error.to_string())),
        };
        failures = if failed.is_some() { failures + 1 } else { 0 };
        longest = longest.max(Some(took));
        let record = journal.keep(Record {
            trial: trial.clone(),
            started_wall_us,
            took_s: took.as_secs_f64(),
            numbers,
            failed,
        })?;
        tell(Told::Over(record));
    }
    ground.leave()?;
    Ok(ended)
}

fn one(
    experiment: &Experiment,
    ground: &mut dyn Ground,
    journal: &Journal,
    trial: &Trial,
    clock: &Arc<dyn Clock>,
    stop: &dyn Fn() -> bool,
) -> Result<Option<crate::Numbers>, ExperimentError> {
    let design = &journal.manifest().design;
    let variant = &design.variants[trial.cell.variant];
    let target = ground.ready(variant, experiment.restore)?;
    let run = journal.run_path(trial);
    let mut partial = run.clone().into_os_string();
    partial.push(".partial");
    // Of a sweep that was killed within this very trial.
    for left in [run.as_path(), partial.as_ref()] {
        if left.exists() {
            std::fs::remove_dir_all(left).map_err(ExperimentError::file("remove", left))?;
        }
    }
    let place = Place {
        target: &target,
        is_ours: ground.is_ours(),
        postmaster: ground.postmaster(),
        run: &run,
        facts: experiment.keep_runs,
        clock,
        stop,
    };
    // Trials of a block do the same, so that they differ in what is varied only.
    let seed = design.seed.wrapping_add(u64::from(trial.block));
    let numbers = perform(&experiment.load, &trial.cell, seed, &place)?;
    if !experiment.keep_runs || numbers.is_none() {
        std::fs::remove_dir_all(&run).map_err(ExperimentError::file("remove", &run))?;
    }
    Ok(numbers)
}
