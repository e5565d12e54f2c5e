//! The verdict on a side, as a pure function of what the journal keeps.

use std::path::PathBuf;

use compare::proof::{
    BLOCKS_MIN, ERROR, Effect, Goal, PairedBlock, Verdict, WorkSupport, effect, find_harm,
    plan_interim_looks, support_by_work, verdict,
};

use super::numbers::{ProofNumbers, WorkCounter};
use super::{ProofJournal, ProofRecord, RUNS};

/// Share of the time of the unchanged side that statements with other plans must have, to support an effect on times.
const REPLANNED_SHARE_MIN: f64 = 0.5;

/// Interim analysis, and what its verdict rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// The effect on the goal.
    pub effect: Effect,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether counters of work support the effect.
    pub support: WorkSupport,
}

/// The result of a changed side so far.
#[derive(Debug, Clone, PartialEq)]
pub struct SideResult {
    /// Each interim analysis.
    pub looks: Vec<Look>,
    /// Number of complete blocks; with the incomplete one in which the change was found to be harmful.
    pub blocks: u32,
    /// Block in which the change was so harmful that it has no further runs.
    pub harmful_in: Option<u32>,
}

impl SideResult {
    /// Returns the last verdict.
    pub fn verdict(&self) -> Verdict {
        let last = self.looks.last();
        last.map_or(Verdict::NotProven, |last| last.verdict)
    }

    /// Reports whether the verdict was clear before a block, so that the side is not part of it.
    pub(super) fn is_clear_before(&self, block: u32) -> bool {
        if let Some(harmful_in) = self.harmful_in {
            return harmful_in < block;
        }
        let last = self.looks.last();
        last.is_some_and(|last| last.verdict.is_clear() && last.effect.blocks < block)
    }
}

impl ProofJournal {
    /// Returns the path of the rewritten workload of a side.
    pub fn rewritten_path(&self, side: usize) -> PathBuf {
        self.path().join(format!("rewritten/{side}.workload"))
    }

    /// Returns the duration of all runs, including set-ups, in seconds.
    pub fn spent_s(&self) -> f64 {
        self.records().map(|record| record.took_s).sum()
    }

    /// Returns the results of all changed sides.
    pub fn side_results(&self, goal: Goal, statements: u64) -> Vec<SideResult> {
        let sides = 1..self.plan().sides.len();
        sides
            .map(|side| self.side_result(side, goal, statements))
            .collect()
    }

    /// Returns the goal's measurement of each run of a side and of the unchanged side, by complete blocks. The load of the
    /// machine is added for goals that depend on it.
    pub fn blocks_of(&self, side: usize, goal: Goal, statements: u64) -> Vec<PairedBlock> {
        let mut blocks = self.blocks_with(side, &|numbers| numbers.of(goal, statements));
        if !goal.is_work() {
            self.add_loads(side, &mut blocks);
        }
        blocks
    }

    /// Adds the load of the machine in each run, if it is known for all of them.
    pub(super) fn add_loads(&self, side: usize, blocks: &mut [PairedBlock]) {
        let loads = self.blocks_with(side, &ProofNumbers::load);
        if loads.len() >= blocks.len() {
            for (block, load) in blocks.iter_mut().zip(loads) {
                block.loads = Some([load.before, load.after]);
            }
        }
    }

    /// Returns the effects on the counters of work that are known.
    pub(super) fn work_effects(&self, side: usize, blocks: usize) -> Vec<Effect> {
        let effect_on = |counter: WorkCounter| {
            let all = self.blocks_with(side, &|numbers| numbers.work(counter));
            effect(all.get(..blocks)?, ERROR)
        };
        WorkCounter::ALL.into_iter().filter_map(effect_on).collect()
    }

    /// Whether statements with at least half of the time have other plans on a side.
    fn has_other_plans(&self, side: usize) -> bool {
        let planned = |wanted: usize| {
            let mut runs = self.records().filter(|one| one.trial.side == wanted);
            runs.find(|one| !one.numbers.plans.is_empty())
        };
        let share = planned(0)
            .zip(planned(side))
            .and_then(|(before, after)| before.numbers.replanned_share(&after.numbers));
        share.is_some_and(|share| share >= REPLANNED_SHARE_MIN)
    }

    /// Returns the effect on the server's processor time, if every run has it.
    fn processor_effect(&self, side: usize, blocks: usize, error: f64) -> Option<Effect> {
        let all = self.blocks_with(side, &|numbers| numbers.of(Goal::Cpu, 1));
        effect(all.get(..blocks)?, error)
    }

    /// Returns the first block in which each run of a side was far worse than every unchanged run before it, and the
    /// effect. Later runs do not change it.
    fn harm(&self, side: usize, goal: Goal, statements: u64) -> Option<(u32, Effect)> {
        // A run in which this program stalled shows no harm.
        let shows = |one: &&ProofRecord| {
            one.trial.side != side || goal.is_work() || !one.numbers.stalls.is_disturbed()
        };
        let records: Vec<&ProofRecord> = self.records().filter(shows).collect();
        let done = records.iter().filter(|one| one.trial.side == side);
        done.into_iter().find_map(|last| {
            let earlier = || {
                let earlier = records.iter().copied();
                earlier.filter(|one| one.trial.number <= last.trial.number)
            };
            let values = |wanted: usize, of: &dyn Fn(&ProofNumbers) -> Option<f64>| {
                let runs = earlier().filter(|one| one.trial.side == wanted);
                let values = runs.map(|one| of(&one.numbers));
                values.collect::<Option<Vec<f64>>>()
            };
            let both = |of: &dyn Fn(&ProofNumbers) -> Option<f64>| {
                Some((values(0, of)?, values(side, of)?))
            };
            let (before, after) = both(&|numbers| numbers.of(goal, statements))?;
            let work: Vec<_> = WorkCounter::ALL
                .into_iter()
                .filter_map(|counter| both(&|numbers| numbers.work(counter)))
                .collect();
            let mut found = find_harm(goal, &before, &after, &work)?;
            found.blocks = last.trial.block;
            Some((last.trial.block, found))
        })
    }

    /// Returns a measurement of each run of a side and of the unchanged side, by complete blocks. Stops at the first
    /// run that lacks it.
    pub fn blocks_with(
        &self,
        side: usize,
        number_of: &dyn Fn(&ProofNumbers) -> Option<f64>,
    ) -> Vec<PairedBlock> {
        self.blocks_by_run(side, &|one| number_of(&one.numbers))
    }

    /// Returns a number of each run as [`Self::blocks_with`] does. It may come from the run's file.
    pub(crate) fn blocks_by_run(
        &self,
        side: usize,
        number_of: &dyn Fn(&ProofRecord) -> Option<f64>,
    ) -> Vec<PairedBlock> {
        let of = |block: u32, side: usize| -> Option<[f64; RUNS]> {
            let runs = self
                .records()
                .filter(|one| one.trial.block == block && one.trial.side == side);
            let found: Option<Vec<f64>> = runs.map(number_of).collect();
            found?.try_into().ok()
        };
        let blocks = (1..).map_while(|block| {
            Some(PairedBlock {
                before: of(block, 0)?,
                after: of(block, side)?,
                loads: None,
            })
        });
        blocks.collect()
    }

    /// Reports whether this program stalled in a run of a side or of the unchanged side, up to a block.
    pub(crate) fn has_disturbed_run(&self, side: usize, blocks: u32) -> bool {
        let is_used = |one: &&ProofRecord| {
            (1..=blocks).contains(&one.trial.block) && [0, side].contains(&one.trial.side)
        };
        let mut used = self.records().filter(is_used);
        used.any(|one| one.numbers.stalls.is_disturbed())
    }

    fn side_result(&self, side: usize, goal: Goal, statements: u64) -> SideResult {
        let blocks = self.blocks_of(side, goal, statements);
        let done = blocks.len() as u32;
        let mut result = SideResult {
            looks: Vec::new(),
            blocks: done,
            harmful_in: None,
        };
        let Some(decision) = self.decision() else {
            return result;
        };
        if let Some((block, effect)) = self.harm(side, goal, statements) {
            result.blocks = block;
            result.harmful_in = Some(block);
            result.looks.push(Look {
                effect,
                verdict: Verdict::Lost,
                support: WorkSupport::Unsupported,
            });
            return result;
        }
        for look in plan_interim_looks(decision.blocks) {
            let (at, error) = match look.blocks {
                at if at <= done => (at, look.error),
                // There is no time for another block, independently of the results. So the remaining error
                // probability is spent on the blocks so far.
                _ if decision.ended == Some(done) && done >= BLOCKS_MIN => (done, look.last_error),
                _ => break,
            };
            if let Some(effect) = effect(&blocks[..at as usize], error) {
                let margin = self.plan().margin;
                let work = self.work_effects(side, at as usize);
                let processor = self.processor_effect(side, at as usize, error);
                let support =
                    match support_by_work(goal, effect.ratio, &work, processor.as_ref(), margin) {
                        WorkSupport::Unsupported if self.has_other_plans(side) => {
                            WorkSupport::SupportedByPlans
                        }
                        support => support,
                    };
                let is_by_times = matches!(
                    support,
                    WorkSupport::Unsupported | WorkSupport::SupportedByPlans
                );
                let is_inconclusive =
                    !goal.is_work() && is_by_times && self.has_disturbed_run(side, at);
                let verdict = match is_inconclusive {
                    true => Verdict::NotProven,
                    false => verdict(&effect, goal, margin, support),
                };
                result.looks.push(Look {
                    effect,
                    verdict,
                    support,
                });
                if verdict.is_clear() {
                    break;
                }
            }
            if at < look.blocks {
                break;
            }
        }
        result
    }
}
