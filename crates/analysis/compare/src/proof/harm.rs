//! Recognises a harmful change at once, so that no further block is spent on it.

use super::effect::Effect;
use super::goal::Goal;

/// Factor by which every run with the change must be worse than every unchanged one. Of equal servers under humps of the
/// load, two runs were never that much worse than five others, and at most by 6.6 (docs/benchmarks/proofs.md).
const HARM_FACTOR: f64 = 20.0;

/// The same if the counters of work grew too, or are the goal. Two runs of equal servers, whose work does not differ, were
/// that much worse than five others in 0.18 % of all choices (the same place).
const HARM_FACTOR_WITH_WORK: f64 = 3.0;

/// Factor by which work must have grown in every run, so that it counts as grown. Unchanged runs had exactly the same blocks
/// and bytes of WAL, so that any growth is real; this one matters.
const WORK_FACTOR: f64 = 1.5;

/// Minimum number of unchanged runs.
const UNCHANGED_MIN: usize = 2;

/// Returns the effect if every run with the change is far worse than every unchanged one. `work` has the counters of
/// work of both sides.
pub fn find_harm(
    goal: Goal,
    before: &[f64],
    after: &[f64],
    work: &[(Vec<f64>, Vec<f64>)],
) -> Option<Effect> {
    if before.len() < UNCHANGED_MIN || after.is_empty() {
        return None;
    }
    let [low, ratio, high] = bounds(before, after)?;
    let worse = match goal.more_is_better() {
        true => 1.0 / high,
        false => low,
    };
    let has_grown = |(before, after): &(Vec<f64>, Vec<f64>)| {
        bounds(before, after).is_some_and(|[low, ..]| low >= WORK_FACTOR)
    };
    let factor = match goal.is_work() || work.iter().any(has_grown) {
        true => HARM_FACTOR_WITH_WORK,
        false => HARM_FACTOR,
    };
    (worse >= factor).then(|| Effect::of_bounds([low, ratio, high], 0))
}

/// Returns the least, the geometric mean and the greatest ratio between runs of both sides.
fn bounds(before: &[f64], after: &[f64]) -> Option<[f64; 3]> {
    if before.is_empty() || after.is_empty() || before.iter().chain(after).any(|one| *one <= 0.0) {
        return None;
    }
    let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |of: &[f64]| of.iter().copied().fold(0.0, f64::max);
    let mean = |of: &[f64]| of.iter().map(|one| one.ln()).sum::<f64>() / of.len() as f64;
    Some([
        least(after) / most(before),
        (mean(after) - mean(before)).exp(),
        most(after) / least(before),
    ])
}
