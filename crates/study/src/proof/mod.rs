//! A proof: changes are compared with the unchanged side, in randomised blocks, until each verdict is clear or the time is
//! over.
//!
//! ```text
//! noise runs (unchanged) ─► decision: number of blocks, and with it the interim analyses
//!    ─► block: two runs of each side in a random order ─► at an interim analysis: effect, verdict ─► …
//! ```
//!
//! - [`ProofPlan`]: the sides ([`ProofSide`]), the goal, the margin, the seed;
//! - [`Proof`]: the experiment;
//! - [`SideResult`]: effect and verdict, as `compare::proof` judges them.
//!
//! Which run is next depends on the plan and on the results of earlier runs alone, so a killed proof is resumed as if it
//! had not been interrupted. Statements are compared elsewhere, from the runs (`compare::compare()`).

mod goal_noise;
mod hidden_command;
mod load_probe;
mod numbers;
mod perform_proof;
mod plan;
mod privileged_roles;
mod report;
mod request;
mod server;
mod side_result;
pub mod sides;
mod summarise;
mod table_counters;
mod trial;

use std::time::Duration;

use compare::proof::{BLOCKS_MIN, Goal, RUNS_A_SIDE as RUNS};
use replay::Options;
use workload::WorkloadReader;

use crate::environment::Environment;
use crate::error::ExperimentError;
use crate::journal::Journal;
use crate::runner::{EndReason, Experiment, Progress, Step};
use crate::stalled_share::TrialStalls;
use crate::trial::TrialContext;
use crate::trial_order::random_block;

pub use goal_noise::{GoalNoise, recommend};
pub(crate) use hidden_command::hide_secrets;
pub use numbers::{ProofNumbers, RelationSize};
pub use perform_proof::{ProofDisplay, ProofReplays, perform_proof, perform_runs};
pub use plan::{Change, Decision, ProofPlan, ProofRecord, ProofSide, ProofTrial};
pub use report::{
    InterimAnalysis, Movement, ProofEnd, ProofNumber, ProofReport, ProofSideReport, SizeChange,
};
pub use request::{ProofGoal, ProofPlace, ProofRequest};
pub(crate) use server::{data_source, refuse_captured_servers};
pub use side_result::{Look, SideResult};
pub(crate) use summarise::compare_side;
pub use summarise::{CANDIDATES, SideRenderer, summarise};

/// The directory of a proof.
pub type ProofJournal = Journal<ProofPlan>;

/// The runs of a proof.
#[derive(Debug)]
pub struct Proof {
    /// The workload of each side, the unchanged first.
    pub workloads: Vec<WorkloadReader>,
    /// How workloads are replayed.
    pub options: Options,
    /// The number that is to get better.
    pub goal: Goal,
    /// Number of statements of the unchanged workload.
    pub statements: u64,
    /// Whether a time that is too short for a verdict ends the proof after the first run, and is no failure.
    pub ends_if_too_short: bool,
    /// Whether runs continue with all blocks that there is time for, although the verdict is clear.
    pub uses_all_time: bool,
}

impl Experiment for Proof {
    type Plan = ProofPlan;
    type Trial = ProofTrial;
    type Numbers = ProofNumbers;

    fn next(
        &self,
        journal: &mut ProofJournal,
        progress: &Progress,
    ) -> Result<Step<ProofTrial>, ExperimentError> {
        let plan = journal.plan().clone();
        let is_done = |journal: &ProofJournal, trial: ProofTrial| {
            let found = journal.record(trial.number);
            found.is_some_and(|record| record.trial == trial)
        };
        let mut trial = ProofTrial::default();
        for _ in 0..plan.noise_runs {
            trial.number += 1;
            if !is_done(journal, trial) {
                self.check_first(journal)?;
                if let Some(message) = too_short(journal, progress) {
                    return self.end_too_short(message);
                }
                return Ok(step(trial));
            }
        }
        let decision = match journal.decision() {
            Some(decision) => decision,
            None => {
                self.check_first(journal)?;
                if let Some(message) = too_short(journal, progress) {
                    return self.end_too_short(message);
                }
                let decision = self.decide(journal, progress);
                journal.decide(decision)?;
                decision
            }
        };
        let results = journal.side_results(self.goal, self.statements);
        for block in 1..=decision.blocks {
            let is_active =
                |side: &usize| *side == 0 || !self.is_finished(&results[side - 1], block);
            let active: Vec<usize> = (0..plan.sides.len()).filter(is_active).collect();
            if active.len() == 1 {
                break;
            }
            let order = random_block(plan.sides.len(), &active, block, plan.seed);
            let needed_s = decision.run_s * order.len() as f64;
            let is_harmful = |side: usize| side > 0 && results[side - 1].harmful_in.is_some();
            for (at, side) in order.into_iter().enumerate() {
                let next = ProofTrial {
                    number: trial.number + 1,
                    block,
                    side,
                };
                if is_done(journal, next) {
                    trial = next;
                    continue;
                }
                // The rest of the block is for the others.
                let is_over = active.iter().all(|side| *side == 0 || is_harmful(*side));
                if is_harmful(side) || is_over {
                    continue;
                }
                trial = next;
                let is_over = spent_s(journal, progress) + needed_s > plan.within_s;
                if at == 0 && (is_over || decision.ended == Some(block - 1)) {
                    let ended = Some(block - 1);
                    journal.decide(Decision { ended, ..decision })?;
                    return Ok(Step::End(EndReason::TimeOver));
                }
                return Ok(step(trial));
            }
        }
        Ok(Step::End(EndReason::Complete))
    }

    fn prepare(&self, environment: &mut dyn Environment) -> Result<(), ExperimentError> {
        environment.prepare()
    }

    fn perform(
        &self,
        _: &ProofPlan,
        trial: &ProofTrial,
        context: &TrialContext<'_>,
    ) -> Result<Option<ProofNumbers>, ExperimentError> {
        // Once for each side, since a plan hangs on the server's state and not on the load.
        let asks_for_plans = trial.block == 1;
        let workload = &self.workloads[trial.side];
        trial::perform(workload, &self.options, context, asks_for_plans)
    }

    fn stalls(numbers: &mut ProofNumbers) -> &mut TrialStalls {
        &mut numbers.stalls
    }

    fn has_time_to_repeat(
        &self,
        journal: &ProofJournal,
        progress: &Progress,
        took: Duration,
        spent: Duration,
    ) -> bool {
        let needed_s = (spent + took).as_secs_f64();
        !self.goal.is_work() && spent_s(journal, progress) + needed_s <= journal.plan().within_s
    }

    fn record(
        &self,
        trial: ProofTrial,
        started_wall_us: i64,
        took_s: f64,
        result: Result<ProofNumbers, ExperimentError>,
    ) -> Result<ProofRecord, ExperimentError> {
        Ok(ProofRecord {
            trial,
            started_wall_us,
            took_s,
            numbers: result?,
        })
    }
}

fn step(trial: ProofTrial) -> Step<ProofTrial> {
    Step::Trial {
        number: trial.number,
        condition: trial.side,
        trial,
    }
}

fn spent_s(journal: &ProofJournal, progress: &Progress) -> f64 {
    journal.spent_s() + progress.preparation.as_secs_f64()
}

impl Proof {
    /// Whether a side is not part of a block, since its verdict was clear before.
    fn is_finished(&self, result: &SideResult, block: u32) -> bool {
        let needs_no_more = !self.uses_all_time || result.harmful_in.is_some();
        needs_no_more && result.is_clear_before(block)
    }

    /// Checks by the first run that the goal can be measured.
    fn check_first(&self, journal: &ProofJournal) -> Result<(), ExperimentError> {
        let Some(first) = journal.record(1) else {
            return Ok(());
        };
        if first.numbers.of(self.goal, self.statements).is_none() {
            let why = first.numbers.missing.get(self.goal.name());
            return Err(ExperimentError::Failed(format!(
                "the goal {} cannot be measured here ({}); give another --goal",
                self.goal.name(),
                why.map_or("the first run has none of it", String::as_str)
            )));
        }
        Ok(())
    }

    fn end_too_short(&self, message: String) -> Result<Step<ProofTrial>, ExperimentError> {
        match self.ends_if_too_short {
            true => Ok(Step::End(EndReason::TimeOver)),
            false => Err(ExperimentError::Failed(message)),
        }
    }

    /// Decides how many blocks there will be at most: as many as there is time for.
    fn decide(&self, journal: &ProofJournal, progress: &Progress) -> Decision {
        let plan = journal.plan();
        let run_s = journal.records().map(ProofRecord::attempt_s);
        let run_s = run_s.fold(0.0, f64::max);
        let number = |one: &ProofRecord| one.numbers.of(self.goal, self.statements);
        let logs: Option<Vec<f64>> = journal
            .records()
            .map(|one| number(one).map(f64::ln))
            .collect();
        let deviation = logs.and_then(|logs| goal_noise::deviation(&logs));
        let of_block_s = run_s * (RUNS * plan.sides.len()) as f64;
        let fitting = ((plan.within_s - spent_s(journal, progress)) / of_block_s).floor();
        Decision {
            blocks: (fitting.max(0.0) as u32).clamp(BLOCKS_MIN, plan.blocks_max.max(BLOCKS_MIN)),
            deviation,
            run_s,
            ended: None,
        }
    }
}

/// Reports by the first run that there is no time for a verdict.
fn too_short(journal: &ProofJournal, progress: &Progress) -> Option<String> {
    let (first, plan) = (journal.record(1)?, journal.plan());
    let of_block = RUNS * plan.sides.len();
    let runs = plan.noise_runs as usize + BLOCKS_MIN as usize * of_block;
    let needed_s = progress.preparation.as_secs_f64() + first.took_s * runs as f64;
    let text = |seconds: f64| {
        let time = Duration::from_secs_f64(seconds.ceil());
        clock::duration_text(time.as_nanos() as i64)
    };
    (needed_s > plan.within_s).then(|| {
        format!(
            "{} are too short for a verdict: a run takes {} with restoring, and at least {runs} are needed ({} to know the noise, {BLOCKS_MIN} blocks of {of_block}); give --time-budget {} or more and another directory with -o, or a part of the workload (`rehearse slice`)",
            text(plan.within_s),
            text(first.took_s),
            plan.noise_runs,
            text(needed_s * 1.1).replace(' ', ""),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Manifest;
    use compare::proof::Verdict;

    fn perform(response_s: impl Fn(ProofTrial) -> f64) -> (ProofJournal, Vec<ProofTrial>) {
        perform_until(false, response_s)
    }

    /// Performs a proof of up to four blocks, opening its directory again before each run, and returns the trials.
    fn perform_until(
        uses_all_time: bool,
        response_s: impl Fn(ProofTrial) -> f64,
    ) -> (ProofJournal, Vec<ProofTrial>) {
        let proof = Proof {
            workloads: Vec::new(),
            options: Options::default(),
            goal: Goal::Total,
            statements: 1,
            ends_if_too_short: false,
            uses_all_time,
        };
        let plan = ProofPlan {
            sides: vec![ProofSide::default(); 3],
            goal: Goal::Total.name().to_owned(),
            margin: 0.05,
            within_s: 1e6,
            blocks_max: 4,
            noise_runs: 2,
            seed: 3,
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.proof");
        let manifest = Manifest::new(plan, Default::default(), Vec::new(), 0);
        ProofJournal::begin(&path, None, manifest).unwrap();
        let mut trials = Vec::new();
        loop {
            let mut journal = ProofJournal::open(&path).unwrap();
            match proof.next(&mut journal, &Progress::default()).unwrap() {
                Step::End(end) => {
                    assert_eq!(end, EndReason::Complete);
                    return (journal, trials);
                }
                Step::Trial { trial, number, .. } => {
                    trials.push(trial);
                    assert_eq!(number as usize, trials.len(), "{trial:?} is repeated");
                    let numbers = ProofNumbers {
                        response_s: response_s(trial),
                        ..ProofNumbers::default()
                    };
                    let record = proof.record(trial, 0, 1.0, Ok(numbers));
                    journal.add(record.unwrap()).unwrap();
                }
            }
        }
    }

    fn noise(trial: ProofTrial) -> f64 {
        f64::from(trial.number * 7_919 % 11) / 11.0
    }

    #[test]
    fn proof_resumed_after_each_run_continues_as_if_not_interrupted() {
        // Side 1 is clearly faster than the unchanged, and side 2 is noise.
        let (journal, trials) = perform(|trial| {
            let noise = noise(trial);
            [1.0 + noise / 1e3, 0.5 + noise / 1e3, 0.8 + noise][trial.side]
        });
        // Side 1 is clear after three blocks, and is not part of the fourth.
        let runs = |block| trials.iter().filter(|one| one.block == block).count();
        assert_eq!([0, 1, 2, 3, 4].map(runs), [2, 6, 6, 6, 4]);
        assert_eq!(journal.side_results(Goal::Total, 1)[0].blocks, 3);
    }

    #[test]
    fn clear_verdict_stays_with_further_blocks_unless_the_change_is_harmful() {
        let (journal, trials) = perform_until(true, |trial| {
            let noise = noise(trial) / 1e3;
            [1.0 + noise, 0.5 + noise, 753.0 + noise][trial.side]
        });
        let runs = |side| trials.iter().filter(|one| one.side == side).count();
        assert_eq!([0, 1, 2].map(runs), [2 + 8, 8, 1]);
        let results = journal.side_results(Goal::Total, 1);
        let verdicts = [0, 1].map(|side| results[side].verdict());
        assert_eq!(verdicts, [Verdict::Won, Verdict::Lost]);
        assert_eq!(results[0].blocks, 4);
    }

    #[test]
    fn harmful_change_has_one_run() {
        let (journal, trials) = perform(|trial| {
            let noise = noise(trial);
            [1.0 + noise / 1e3, 753.0 + noise, 0.8 + noise][trial.side]
        });
        let runs = |side| trials.iter().filter(|one| one.side == side).count();
        assert_eq!([0, 1, 2].map(runs), [2 + 8, 1, 8]);
        let result = &journal.side_results(Goal::Total, 1)[0];
        assert_eq!(
            (result.verdict(), result.harmful_in),
            (Verdict::Lost, Some(1))
        );
        // Without another change the block ends, too.
        let (journal, trials) =
            perform(|trial| [1.0, 753.0, 754.0][trial.side] + noise(trial) / 1e3);
        assert!(trials.len() < 2 + 6, "{trials:?}");
        for side in [1, 2] {
            let (before, after) = summarise::compared_records(&journal, (side, true), u32::MAX);
            assert!(before.len() >= 2 && after.len() == 1, "{trials:?}");
        }
        assert!(trials.iter().all(|one| one.block < 2));
    }
}
