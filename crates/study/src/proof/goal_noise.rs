//! Noise of each goal between unchanged runs, to recommend the goal that shows the smallest difference.

use compare::proof::{Goal, WorkSupport, half_width, plan_interim_looks};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ProofJournal, ProofRecord};

/// A goal is recommended instead of the chosen one if its noise is at most this share of it.
const RECOMMENDED_SHARE: f64 = 0.5;

/// Noise of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct GoalNoise {
    /// The goal.
    pub goal: Goal,
    /// Standard deviation of its logarithm between unchanged runs before the first block.
    pub noise: f64,
}

impl ProofJournal {
    /// Returns the noise of every goal that was measured, the least first.
    pub fn goal_noise(&self, statements: u64) -> Vec<GoalNoise> {
        let unchanged: Vec<&ProofRecord> =
            self.records().filter(|one| one.trial.block == 0).collect();
        let noise_of = |goal: Goal| {
            let numbers = unchanged.iter().map(|one| one.numbers.of(goal, statements));
            let logs: Vec<f64> = numbers.map(|one| Some(one?.ln())).collect::<Option<_>>()?;
            Some(GoalNoise {
                goal,
                noise: deviation(&logs)?,
            })
        };
        let mut all: Vec<GoalNoise> = Goal::ALL.into_iter().filter_map(noise_of).collect();
        all.sort_by(|a, b| a.noise.total_cmp(&b.noise));
        all
    }
}

impl ProofJournal {
    /// Returns the smallest ratio above 1 that all planned blocks are expected to show, by the noise of the unchanged runs;
    /// `None` before the decision, or if they cannot show any. It is the same after each run.
    ///
    /// Without a goal of work no counter may support the change, so the stricter rule counts.
    pub fn smallest_ratio(&self, goal: Goal) -> Option<f64> {
        let decision = self.decision()?;
        let look = plan_interim_looks(decision.blocks).pop()?;
        let support = match goal.is_work() {
            true => WorkSupport::Supported,
            false => WorkSupport::Unsupported,
        };
        let mut unchanged = self.records().filter(|one| one.trial.block == 0);
        let is_load_adjusted = !goal.is_work() && unchanged.all(|one| one.numbers.load().is_some());
        let reach = half_width(
            decision.deviation?,
            decision.blocks,
            look.error,
            support,
            is_load_adjusted,
        )?;
        Some((reach + self.plan().margin.ln_1p()).exp())
    }
}

/// Returns the standard deviation; `None` for fewer than two numbers.
pub(super) fn deviation(numbers: &[f64]) -> Option<f64> {
    let count = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let squares = numbers.iter().map(|one| (one - mean).powi(2)).sum::<f64>();
    (numbers.len() > 1).then(|| (squares / (count - 1.0)).sqrt())
}

/// Returns the noise of the chosen goal, and the goals whose noise is far less.
pub fn recommend(chosen: Goal, all: &[GoalNoise]) -> Option<(GoalNoise, Vec<GoalNoise>)> {
    let own = all.iter().find(|one| one.goal == chosen)?;
    let less = |one: &&GoalNoise| one.noise <= RECOMMENDED_SHARE * own.noise;
    let better: Vec<GoalNoise> = all.iter().filter(less).copied().collect();
    (!better.is_empty()).then_some((*own, better))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_with_far_less_noise_are_recommended() {
        let noise = |goal, noise| GoalNoise { goal, noise };
        let all = [
            noise(Goal::Blocks, 0.001),
            noise(Goal::Cpu, 0.03),
            noise(Goal::P50, 0.2),
            noise(Goal::Total, 0.3),
        ];
        let (own, better) = recommend(Goal::Total, &all).unwrap();
        assert_eq!(own.noise, 0.3);
        assert_eq!(better, all[..2]);
        assert_eq!(recommend(Goal::Blocks, &all), None);
        assert_eq!(deviation(&[1.0]), None);
    }
}
