//! The engine that performs the trials of an experiment: `next trial → set up → perform → record`, until none is left.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;

use crate::environment::Environment;
use crate::error::ExperimentError;
use crate::journal::{Journal, Plan};
use crate::notes;
use crate::stalled_share::{REPEATS_MAX, TrialStalls};
use crate::trial::TrialContext;

/// Why an experiment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// All trials are over, or no more are needed.
    Complete,
    /// The user interrupted it.
    Interrupted,
    /// There is no time for another trial.
    TimeOver,
    /// Several trials in a row failed.
    Failing,
}

/// How far this run of the engine is. Trials before a resumption are not part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Progress {
    /// Time since the engine started.
    pub elapsed: Duration,
    /// Time that preparing the environment took.
    pub preparation: Duration,
    /// Time of the longest trial, including its set-up.
    pub longest: Option<Duration>,
    /// Number of trials that failed since the last that did not.
    pub failures: usize,
}

/// The next step of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<T> {
    /// A trial, with its number in the order (from 1) and the index of its condition.
    Trial {
        /// The trial.
        trial: T,
        /// Number in the order, from 1.
        number: u32,
        /// Index of the environment's condition.
        condition: usize,
    },
    /// The end.
    End(EndReason),
}

/// An event of a running experiment.
pub enum Event<'a, E: Experiment> {
    /// The environment is prepared.
    Preparing,
    /// A trial begins.
    Begin(&'a E::Trial, &'a Progress),
    /// A trial is repeated, since the tool was stopped or starved during it.
    Repeat(TrialStalls),
    /// A trial is over.
    Over(&'a <E::Plan as Plan>::Record),
}

/// A function that is called at each event, with the journal as it is then.
pub type Listener<'l, E> = dyn FnMut(&Journal<<E as Experiment>::Plan>, Event<'_, E>) + 'l;

/// A design of trials and how each is performed. All state is in the journal, so that a killed experiment can be resumed.
pub trait Experiment {
    /// The plan, as the journal keeps it.
    type Plan: Plan;
    /// A trial of the design.
    type Trial;
    /// Measurements of a trial.
    type Numbers;

    /// Returns the first step that the journal lacks. It depends on the plan and on earlier results alone.
    ///
    /// # Errors
    /// If the results so far show that the experiment cannot succeed.
    fn next(
        &self,
        journal: &mut Journal<Self::Plan>,
        progress: &Progress,
    ) -> Result<Step<Self::Trial>, ExperimentError>;

    /// Prepares the environment before the first trial.
    ///
    /// # Errors
    /// If a condition cannot be set up.
    fn prepare(&self, environment: &mut dyn Environment) -> Result<(), ExperimentError>;

    /// Performs a trial. Returns `None` if the user interrupted it.
    ///
    /// # Errors
    /// If it fails.
    fn perform(
        &self,
        plan: &Self::Plan,
        trial: &Self::Trial,
        context: &TrialContext<'_>,
    ) -> Result<Option<Self::Numbers>, ExperimentError>;

    /// Creates the record of a trial from its start time, in microseconds since 1970-01-01 UTC, and its duration in
    /// seconds.
    ///
    /// # Errors
    /// If a failed trial fails the whole experiment.
    fn record(
        &self,
        trial: Self::Trial,
        started_wall_us: i64,
        took_s: f64,
        result: Result<Self::Numbers, ExperimentError>,
    ) -> Result<<Self::Plan as Plan>::Record, ExperimentError>;

    /// Returns the stalls of the tool in a trial.
    fn stalls(numbers: &mut Self::Numbers) -> &mut TrialStalls;

    /// Reports whether there is time to repeat a trial. `took` is the time of the last attempt, `spent` that of all.
    fn has_time_to_repeat(
        &self,
        journal: &Journal<Self::Plan>,
        progress: &Progress,
        took: Duration,
        spent: Duration,
    ) -> bool;

    /// Reports whether the runs of trials are kept.
    fn keeps_runs(&self) -> bool {
        true
    }
}

/// Inputs of an experiment.
pub struct Engine<'a> {
    /// The server.
    pub environment: &'a mut dyn Environment,
    /// The clock.
    pub clock: &'a Arc<dyn Clock>,
    /// Reports whether the user wants to interrupt it.
    pub stop: &'a dyn Fn() -> bool,
}

impl Engine<'_> {
    /// Performs the trials that the journal lacks, in their order. The environment is released in any case.
    ///
    /// # Errors
    /// If the environment cannot be prepared, the journal cannot be written, or the experiment fails.
    pub fn run<E: Experiment>(
        &mut self,
        experiment: &E,
        journal: &mut Journal<E::Plan>,
        tell: &mut Listener<'_, E>,
    ) -> Result<EndReason, ExperimentError> {
        let ended = self.trials(experiment, journal, tell);
        let released = self.environment.release();
        let ended = ended?;
        released?;
        Ok(ended)
    }

    fn trials<E: Experiment>(
        &mut self,
        experiment: &E,
        journal: &mut Journal<E::Plan>,
        tell: &mut Listener<'_, E>,
    ) -> Result<EndReason, ExperimentError> {
        let mut progress = Progress::default();
        let mut is_prepared = false;
        let engine_begun_ns = self.clock.now_ns();
        loop {
            progress.elapsed = self.since(engine_begun_ns);
            let (trial, number, condition) = match experiment.next(journal, &progress)? {
                Step::End(end) => return Ok(end),
                Step::Trial { .. } if (self.stop)() => return Ok(EndReason::Interrupted),
                Step::Trial {
                    trial,
                    number,
                    condition,
                } => (trial, number, condition),
            };
            if !is_prepared {
                tell(journal, Event::Preparing);
                experiment.prepare(self.environment)?;
                progress.preparation = self.since(engine_begun_ns);
                is_prepared = true;
            }
            tell(journal, Event::Begin(&trial, &progress));
            let (started_ns, started_wall_us) = (self.clock.now_ns(), self.clock.wall_us());
            let attempts = self.attempt(
                experiment,
                journal,
                (&trial, number, condition),
                &progress,
                tell,
            );
            let Some(result) = attempts.transpose() else {
                return Ok(EndReason::Interrupted);
            };
            let took = self.since(started_ns);
            progress.longest = progress.longest.max(Some(took));
            progress.failures = match result {
                Ok(_) => 0,
                Err(_) => progress.failures + 1,
            };
            let took_s = took.as_secs_f64();
            let failure = result.as_ref().err().map(ToString::to_string);
            let record = experiment.record(trial, started_wall_us, took_s, result)?;
            if let Some(failure) = failure.filter(|_| (self.stop)()) {
                // The request may be the reason, so that a resumed experiment performs the trial again.
                notes::note(&format!(
                    "Trial {number} failed after the stop was requested, and is not recorded: {failure}"
                ));
                return Ok(EndReason::Interrupted);
            }
            journal.add(record)?;
            if let Some(record) = journal.record(number) {
                tell(journal, Event::Over(record));
            }
        }
    }

    /// Performs a trial, and repeats it if the tool stalled and there is time.
    fn attempt<E: Experiment>(
        &mut self,
        experiment: &E,
        journal: &Journal<E::Plan>,
        (trial, number, condition): (&E::Trial, u32, usize),
        progress: &Progress,
        tell: &mut Listener<'_, E>,
    ) -> Result<Option<E::Numbers>, ExperimentError> {
        let run = journal.run_path(number);
        let first_ns = self.clock.now_ns();
        let mut repeats = 0;
        loop {
            let begun_ns = self.clock.now_ns();
            let found = self.perform(experiment, journal.plan(), trial, condition, &run)?;
            let Some(mut numbers) = found else {
                return Ok(None);
            };
            let stalls = E::stalls(&mut numbers);
            stalls.repeats = repeats;
            let took = self.since(begun_ns);
            let spent = Progress {
                elapsed: progress.elapsed + self.since(first_ns),
                ..*progress
            };
            if !stalls.is_disturbed()
                || repeats == REPEATS_MAX
                || !experiment.has_time_to_repeat(journal, &spent, took, self.since(first_ns))
            {
                return Ok(Some(numbers));
            }
            repeats += 1;
            tell(journal, Event::Repeat(*stalls));
        }
    }

    fn perform<E: Experiment>(
        &mut self,
        experiment: &E,
        plan: &E::Plan,
        trial: &E::Trial,
        condition: usize,
        run: &Path,
    ) -> Result<Option<E::Numbers>, ExperimentError> {
        let (target, postmaster) = self.environment.set_up(condition)?;
        let mut partial = run.to_owned().into_os_string();
        partial.push(".partial");
        // Remains of an engine that was killed.
        for left in [run, partial.as_ref()] {
            remove_directory(left)?;
        }
        let context = TrialContext {
            target,
            postmaster,
            run,
            clock: self.clock,
            stop: self.stop,
        };
        let numbers = experiment.perform(plan, trial, &context)?;
        if numbers.is_none() || !experiment.keeps_runs() {
            remove_directory(run)?;
        }
        Ok(numbers)
    }

    fn since(&self, from_ns: i64) -> Duration {
        Duration::from_nanos((self.clock.now_ns() - from_ns).max(0) as u64)
    }
}

fn remove_directory(path: &Path) -> Result<(), ExperimentError> {
    match path.exists() {
        true => std::fs::remove_dir_all(path).map_err(ExperimentError::file("remove", path)),
        false => Ok(()),
    }
}
