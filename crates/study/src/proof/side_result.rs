//! The verdict on a side, as a pure function of what the journal keeps.

use std::path::PathBuf;

use compare::proof::{
    BLOCKS_MIN, Effect, Goal, PairedBlock, Verdict, effect, plan_interim_looks, verdict,
};

use super::numbers::ProofNumbers;
use super::{ProofJournal, RUNS};

/// The result of a changed side so far.
#[derive(Debug, Clone, PartialEq)]
pub struct SideResult {
    /// Each interim analysis with its verdict.
    pub looks: Vec<(Effect, Verdict)>,
    /// Number of complete blocks.
    pub blocks: u32,
}

impl SideResult {
    /// Returns the last verdict.
    pub fn verdict(&self) -> Verdict {
        self.looks.last().map_or(Verdict::NotProven, |last| last.1)
    }

    /// Reports whether the verdict was clear before a block, so that the side is not part of it.
    pub(super) fn is_clear_before(&self, block: u32) -> bool {
        let last = self.looks.last();
        last.is_some_and(|(effect, verdict)| verdict.is_clear() && effect.blocks < block)
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

    /// Returns the goal's measurement of each run of a side and of the unchanged side, by complete blocks.
    pub fn blocks_of(&self, side: usize, goal: Goal, statements: u64) -> Vec<PairedBlock> {
        self.blocks_with(side, &|numbers| numbers.of(goal, statements))
    }

    /// Returns a measurement of each run of a side and of the unchanged side, by complete blocks. Stops at the first
    /// run that lacks it.
    pub fn blocks_with(
        &self,
        side: usize,
        number_of: &dyn Fn(&ProofNumbers) -> Option<f64>,
    ) -> Vec<PairedBlock> {
        let of = |block: u32, side: usize| -> Option<[f64; RUNS]> {
            let runs = self
                .records()
                .filter(|one| one.trial.block == block && one.trial.side == side);
            let found: Option<Vec<f64>> = runs.map(|one| number_of(&one.numbers)).collect();
            found?.try_into().ok()
        };
        let blocks = (1..).map_while(|block| {
            Some(PairedBlock {
                before: of(block, 0)?,
                after: of(block, side)?,
            })
        });
        blocks.collect()
    }

    fn side_result(&self, side: usize, goal: Goal, statements: u64) -> SideResult {
        let blocks = self.blocks_of(side, goal, statements);
        let done = blocks.len() as u32;
        let mut result = SideResult {
            looks: Vec::new(),
            blocks: done,
        };
        let Some(decision) = self.decision() else {
            return result;
        };
        for look in plan_interim_looks(decision.blocks) {
            let (at, error) = match look.blocks {
                at if at <= done => (at, look.error),
                // There is no time for another block, independently of the results. So the remaining error
                // probability is spent on the blocks so far.
                _ if decision.ended == Some(done) && done >= BLOCKS_MIN => (done, look.last_error),
                _ => break,
            };
            if let Some(effect) = effect(&blocks[..at as usize], error) {
                let verdict = verdict(&effect, goal, self.plan().margin);
                result.looks.push((effect, verdict));
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
