//! What runs of one unchanged server differ by: the noise that a difference must exceed.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::profile::RunProfile;
use statistics::bootstrap::{Draws, MEASURES};
use statistics::series::Series;

use super::facts;
use super::many::in_parallel;
use super::times::{Both, Sampled, same_stretches, widen};
use super::{CompareOptions, WHOLES};

/// Of so many statements in a hundred, what they surely differ by is the noise of all.
const STATEMENTS_PERCENT: usize = 95;

/// Differences between runs of the same server, as shares: 0.05 is 5 %.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Noise {
    /// Runs in which it was measured.
    pub source: NoiseSource,
    /// Names of the runs that were given for it.
    pub runs: Vec<String>,
    /// In medians.
    pub median: f64,
    /// In means.
    pub mean: f64,
    /// In 99th percentiles, where there are calls enough.
    pub p99: Option<f64>,
}

/// Runs in which noise was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoiseSource {
    /// Runs that were given for it: 95 % of their statements surely differ by no more. It raises
    /// the margin.
    Given,
    /// The runs of a side: what the statements of a run have in common, as one standard
    /// deviation. It is in the intervals.
    Repeats,
}

/// Noise with each statement's own.
#[derive(Debug, Clone)]
pub(super) struct Aa {
    pub(super) noise: Noise,
    own: HashMap<u64, [f64; MEASURES]>,
}

impl Aa {
    /// The margins of a statement: what the user allows, what all are seen to differ by, or what it
    /// is itself seen to differ by, whichever is most.
    pub(super) fn margins(&self, seed: u64, margin: f64) -> [f64; MEASURES] {
        let own = self.own.get(&seed).copied().unwrap_or_default();
        let Noise {
            median, mean, p99, ..
        } = self.noise;
        let all = [median, mean, p99.unwrap_or(0.0)];
        std::array::from_fn(|at| margin.max(all[at]).max(own[at]))
    }
}

/// What runs of one server differ by: each with the first. `None` of fewer than two.
pub(super) fn between(mut runs: Vec<RunProfile>, options: CompareOptions) -> Option<Aa> {
    let paired = same_stretches(runs.iter());
    widen(runs.iter_mut());
    let (first, others) = runs.split_first()?;
    if others.is_empty() {
        return None;
    }
    let fingerprints = facts::fingerprints(runs.iter());
    let used = facts::stretches_used(runs.iter());
    let draws = Draws::new(2, used, paired);
    let differ = |seed: u64, of: &dyn Fn(&RunProfile) -> Option<&Series>| {
        let mut most = [None::<f64>; MEASURES];
        for other in others {
            let sampled = Sampled::new(Both {
                before: of(first).into_iter().collect(),
                after: of(other).into_iter().collect(),
                draws: &draws,
                seed,
            });
            let ratios = sampled.measure((1, 1)).resampled.ratios.as_array();
            for (most, ratio) in most.iter_mut().zip(ratios) {
                if let Some(interval) = ratio.and_then(|ratio| ratio.interval) {
                    // What it surely differs by, in whichever direction.
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
            let tracked = run.statements.get(fingerprint)?;
            Some(&tracked.service)
        })
    };
    let own = in_parallel(&fingerprints, options.threads, differ);
    let of_most = |measure: usize| {
        let mut known: Vec<f64> = own.iter().filter_map(|(_, most)| most[measure]).collect();
        known.sort_unstable_by(f64::total_cmp);
        let rank = (known.len() * STATEMENTS_PERCENT).div_ceil(100);
        known.get(rank.checked_sub(1)?).copied()
    };
    Some(Aa {
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
