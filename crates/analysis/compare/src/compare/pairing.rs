//! Tells whether runs were made in pairs, so that the pair is the unit of observation.

use crate::observation_unit::ObservationUnit;
use crate::run_stats::RunStats;
use run::{PAIR_OPTION, PAIR_SEED_OPTION};

/// Treatment of runs that were made in pairs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pairing {
    /// Pairs are recognised by the options of their replays.
    #[default]
    Recorded,
    /// Runs at the same place of both sides are pairs.
    ByPlace,
    /// The run is the unit.
    Ignored,
}

impl Pairing {
    /// Returns the unit of observation. Sorts both sides by pair if it is the pair.
    pub(super) fn unit(self, before: &mut [RunStats], after: &mut [RunStats]) -> ObservationUnit {
        if before.len() == 1 && after.len() == 1 {
            return ObservationUnit::Block;
        }
        let is_paired = match self {
            Pairing::Recorded => sort_by_pair(before, after),
            Pairing::ByPlace => before.len() == after.len(),
            Pairing::Ignored => false,
        };
        match is_paired {
            true => ObservationUnit::Pair,
            false => ObservationUnit::Run,
        }
    }
}

/// Sorts both sides by pair, and returns whether each run has its counterpart.
fn sort_by_pair(before: &mut [RunStats], after: &mut [RunStats]) -> bool {
    let pair = |run: &RunStats| -> Option<(String, u32)> {
        let seed = run.info.options.get(PAIR_SEED_OPTION)?;
        let number = run.info.options.get(PAIR_OPTION)?.parse().ok()?;
        Some((seed.clone(), number))
    };
    let mut sides = [before, after];
    let pairs = sides.each_mut().map(|side| -> Option<Vec<_>> {
        let mut pairs: Vec<_> = side.iter().map(pair).collect::<Option<_>>()?;
        pairs.sort();
        pairs
            .windows(2)
            .all(|two| two[0] != two[1])
            .then_some(pairs)
    });
    let [Some(one), Some(other)] = pairs else {
        return false;
    };
    if one != other {
        return false;
    }
    for side in sides {
        side.sort_by_key(pair);
    }
    true
}
