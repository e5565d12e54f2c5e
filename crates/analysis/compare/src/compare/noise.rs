//! Noise: the differences between runs of one unchanged server, which a difference must exceed.

use std::collections::HashMap;

use crate::run_stats::RunStats;
use statistics::bootstrap::{Draws, MEASURES};
use statistics::series::Series;

use super::WHOLES;
use super::comparison::{CompareOptions, Noise, NoiseSource};
use super::facts;
use super::parallel::map_in_parallel;
use super::times::{SampledSides, Sides, same_stretches, widen};
use crate::observation_unit::ObservationUnit;

/// Percentage of statements whose certain differences determine the overall noise.
const STATEMENTS_PERCENT: usize = 95;

/// Overall noise, and the noise of each statement.
#[derive(Debug, Clone)]
pub(super) struct NoiseModel {
    pub(super) noise: Noise,
    own: HashMap<u64, [f64; MEASURES]>,
}

impl NoiseModel {
    /// Returns the margins of a statement: the greatest of the user's margin, the overall noise and
    /// its own noise.
    pub(super) fn margins(&self, seed: u64, margin: f64) -> [f64; MEASURES] {
        let own = self.own.get(&seed).copied().unwrap_or_default();
        let Noise {
            median, mean, p99, ..
        } = self.noise;
        let all = [median, mean, p99.unwrap_or(0.0)];
        std::array::from_fn(|at| margin.max(all[at]).max(own[at]))
    }
}

/// Estimates the noise from runs of one server, each compared with the first; `None` for fewer than
/// two runs.
pub(super) fn estimate_noise(
    mut runs: Vec<RunStats>,
    options: CompareOptions,
) -> Option<NoiseModel> {
    let paired = same_stretches(runs.iter());
    widen(runs.iter_mut());
    let (first, others) = runs.split_first()?;
    if others.is_empty() {
        return None;
    }
    let fingerprints = facts::fingerprints(runs.iter());
    let used = facts::stretches_used(runs.iter());
    let draws = Draws::new(2, used, paired);
    let differ = |seed: u64, of: &dyn Fn(&RunStats) -> Option<&Series>| {
        let mut most = [None::<f64>; MEASURES];
        for other in others {
            let sampled = SampledSides::new(Sides {
                before: of(first).into_iter().collect(),
                after: of(other).into_iter().collect(),
                draws: &draws,
                unit: ObservationUnit::Run,
                seed,
            });
            let ratios = sampled.measure((1, 1)).estimates.ratios.as_array();
            for (most, ratio) in most.iter_mut().zip(ratios) {
                if let Some(interval) = ratio.and_then(|ratio| ratio.interval) {
                    // Difference that is certain, in either direction.
                    let surely = interval.low.max(1.0 / interval.high).max(1.0) - 1.0;
                    *most = Some(most.unwrap_or(0.0).max(surely));
                }
            }
        }
        (seed, most)
    };
    let wholes = WHOLES.map(|(get, seed)| differ(seed, &|run| Some(get(run))));
    let differ = |fingerprint: &sql::Fingerprint| {
        differ(fingerprint.0, &|run| {
            let stats = run.statements.get(fingerprint)?;
            Some(&stats.service)
        })
    };
    let own = map_in_parallel(&fingerprints, options.threads, differ);
    let of_most = |measure: usize| {
        let mut known: Vec<f64> = own.iter().filter_map(|(_, most)| most[measure]).collect();
        known.sort_unstable_by(f64::total_cmp);
        let rank = (known.len() * STATEMENTS_PERCENT).div_ceil(100);
        known.get(rank.checked_sub(1)?).copied()
    };
    Some(NoiseModel {
        noise: Noise {
            source: NoiseSource::Given,
            runs: runs.iter().map(|run| run.name.clone()).collect(),
            median: of_most(0).unwrap_or(0.0),
            mean: of_most(1).unwrap_or(0.0),
            p99: of_most(2),
        },
        own: own
            .into_iter()
            .chain(wholes)
            .map(|(seed, most)| (seed, most.map(|most| most.unwrap_or(0.0))))
            .collect(),
    })
}
