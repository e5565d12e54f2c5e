//! A sweep: every combination of clients, pace, protocol mode and settings, several times, in a random order.
//!
//! - [`Design`]: what is varied, and the order of trials;
//! - [`Load`]: what clients do: pgbench's built-in scripts, a workload dealt to clients, or a workload at its own times;
//! - [`Sweep`]: the experiment. A trial that fails is a record, and the others are performed.

mod design;
pub mod levels;
mod load;
mod numbers;
mod perform_sweep;
mod report;
mod request;
mod script;
mod server;
mod session_pool;
mod statement_counts;
mod summarise;
mod trial;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::error::ExperimentError;
use crate::journal::{Journal, Plan};
use crate::runner::{EndReason, Experiment, Progress, Step};
use crate::stalled_share::TrialStalls;
use crate::trial::TrialContext;

pub use design::{Cell, Design, Mode, Pace, Setting, Trial, Variant};
pub use load::{Length, Load, Work};
pub use numbers::{Numbers, Times};
pub use perform_sweep::{SCRIPT, SweepDisplay, perform_sweep, perform_trials};
pub use report::{Axis, LoadUnit, SweepCurve, SweepPoint, SweepReport};
pub use request::{SweepFactors, SweepLength, SweepPlace, SweepRequest};
pub use script::Script;
pub use session_pool::{STATEMENTS_MAX, SessionPool};
pub use statement_counts::Counted;
pub use summarise::summarise;

/// Number of consecutive failed trials after which the remaining ones are skipped.
const FAILURES_MAX: usize = 3;

/// The directory of a sweep.
pub type SweepJournal = Journal<SweepPlan>;

/// The design of a sweep, as its directory stores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPlan {
    /// Factors of the experiment, and the seed of the order.
    pub design: Design,
}

/// The result of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// The trial.
    pub trial: Trial,
    /// Start time, in microseconds since 1970-01-01 UTC. Setting up the server is part of the trial.
    pub started_wall_us: i64,
    /// Duration in seconds, including the set-up.
    pub took_s: f64,
    /// Measurements, if the trial succeeded.
    pub numbers: Option<Numbers>,
    /// Reason why the trial failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl Plan for SweepPlan {
    const KIND: &'static str = "sweep";
    const COMMAND: &'static str = "sweep";
    type Record = Record;
    type Decision = ();

    fn number(record: &Record) -> u32 {
        record.trial.number
    }

    fn has_failed(record: &Record) -> bool {
        record.failed.is_some()
    }

    fn differences(&self, other: &Self) -> Vec<&'static str> {
        let (a, b) = (&self.design, &other.design);
        let options = [
            ("--clients", a.clients != b.clients),
            ("--speed or --rate", a.paces != b.paces),
            ("--mode", a.modes != b.modes),
            ("--set or --variant", a.variants != b.variants),
            ("--trials", a.repeat != b.repeat),
            ("--seed", a.seed != b.seed),
        ];
        let differing = options.into_iter().filter(|(_, differs)| *differs);
        differing.map(|(name, _)| name).collect()
    }
}

/// The trials of a design.
#[derive(Debug)]
pub struct Sweep {
    /// The load of clients.
    pub load: Load,
    /// Time limit of all trials, including set-ups.
    pub within: Option<Duration>,
    /// Whether to keep runs, with the target's settings and schema.
    pub keep_runs: bool,
}

impl Experiment for Sweep {
    type Plan = SweepPlan;
    type Trial = Trial;
    type Numbers = Numbers;

    fn next(
        &self,
        journal: &mut SweepJournal,
        progress: &Progress,
    ) -> Result<Step<Trial>, ExperimentError> {
        let mut trials = journal.plan().design.trials().into_iter();
        Ok(
            match trials.find(|one| journal.record(one.number).is_none()) {
                None => Step::End(EndReason::Complete),
                Some(_) if progress.failures >= FAILURES_MAX => Step::End(EndReason::Failing),
                Some(_) if !has_time(self.within, progress.elapsed, progress.longest) => {
                    Step::End(EndReason::TimeOver)
                }
                Some(trial) => Step::Trial {
                    number: trial.number,
                    condition: trial.cell.variant,
                    trial,
                },
            },
        )
    }

    fn prepare(&self, environment: &mut dyn Environment) -> Result<(), ExperimentError> {
        environment.check()
    }

    fn perform(
        &self,
        plan: &SweepPlan,
        trial: &Trial,
        context: &TrialContext<'_>,
    ) -> Result<Option<Numbers>, ExperimentError> {
        // Trials of a block send the same values, so that they differ only in the factors.
        let seed = plan.design.seed.wrapping_add(u64::from(trial.block));
        trial::perform(&self.load, &trial.cell, seed, self.keep_runs, context)
    }

    fn stalls(numbers: &mut Numbers) -> &mut TrialStalls {
        &mut numbers.stalls
    }

    fn has_time_to_repeat(
        &self,
        _: &SweepJournal,
        progress: &Progress,
        took: Duration,
        _: Duration,
    ) -> bool {
        has_time(self.within, progress.elapsed, Some(took))
    }

    fn record(
        &self,
        trial: Trial,
        started_wall_us: i64,
        took_s: f64,
        result: Result<Numbers, ExperimentError>,
    ) -> Result<Record, ExperimentError> {
        let (numbers, failed) = match result {
            Ok(numbers) => (Some(numbers), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Ok(Record {
            trial,
            started_wall_us,
            took_s,
            numbers,
            failed,
        })
    }

    fn keeps_runs(&self) -> bool {
        self.keep_runs
    }
}

/// Reports whether there is time for a trial that takes as long as the longest so far. The first may always begin.
fn has_time(within: Option<Duration>, spent: Duration, longest: Option<Duration>) -> bool {
    match (within, longest) {
        (Some(within), Some(longest)) => spent.saturating_add(longest) <= within,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trial_begins_if_it_can_also_end() {
        let seconds = Duration::from_secs;
        let within = Some(seconds(60));
        assert!(has_time(within, seconds(40), Some(seconds(20))));
        assert!(!has_time(within, seconds(41), Some(seconds(20))));
        assert!(has_time(within, seconds(0), None));
        assert!(has_time(None, seconds(1_000_000), Some(seconds(9))));
    }
}
