//! Ratios of statements that are rare in each run, so that no run gives an interval.
//!
//! Each run gives one median and one mean. Their logarithms are compared as the response time of whole runs is, in blocks of two runs
//! a side ([`compare::proof::effect`]). These intervals accuse nobody: they only bound what a remedy left.

use std::collections::{BTreeSet, HashMap};

use compare::proof::{Effect, effect};
use run::{Outcome, RunReader};
use sql::Fingerprint;
use statistics::{Interval, Measure, Ratio};

use crate::failure::Failure;
use crate::proof::{ProofJournal, ProofRecord};
use crate::upgrade_remedies::MeasuredFactor;

/// Smallest number of executions in each run.
const EXECUTIONS_MIN: usize = 5;
/// Smallest number of blocks.
const BLOCKS_MIN: usize = 4;
/// Probability that an interval misses the truth.
const ERROR: f64 = 0.05;

/// Median and mean of a statement in a run, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct RunTimes {
    median: f64,
    mean: f64,
}

/// Returns the ratios of these statements, by fingerprint, on a side of replays. Those that are too rare are left out.
///
/// # Errors
/// If a run cannot be read.
pub(super) fn rare_factors(
    journal: &ProofJournal,
    side: usize,
    fingerprints: &BTreeSet<Fingerprint>,
) -> Result<HashMap<String, MeasuredFactor>, Failure> {
    if fingerprints.is_empty() {
        return Ok(HashMap::new());
    }
    let mut times: HashMap<(u32, Fingerprint), RunTimes> = HashMap::new();
    for record in journal.records() {
        let number = record.trial.number;
        let mut all: HashMap<Fingerprint, Vec<f64>> = HashMap::new();
        for execution in RunReader::open(&journal.run_path(number))?.executions()? {
            let execution = execution?;
            let wanted = execution
                .fingerprint
                .filter(|one| fingerprints.contains(one));
            let service_ns = execution.service_ns().filter(|ns| *ns > 0);
            if let (Some(fingerprint), Some(ns), Outcome::Done) =
                (wanted, service_ns, execution.outcome)
            {
                all.entry(fingerprint).or_default().push(ns as f64);
            }
        }
        for (fingerprint, ns) in all {
            let of_run = run_times(ns);
            times.extend(of_run.map(|of_run| ((number, fingerprint), of_run)));
        }
    }
    let factors = fingerprints.iter().filter_map(|fingerprint| {
        let effect_on = |of: fn(&RunTimes) -> f64| {
            let number_of =
                |record: &ProofRecord| times.get(&(record.trial.number, *fingerprint)).map(of);
            let blocks = journal.blocks_by_run(side, &number_of);
            (blocks.len() >= BLOCKS_MIN).then(|| effect(&blocks, ERROR))?
        };
        let median = ratio(&effect_on(|times| times.median)?);
        let mean = ratio(&effect_on(|times| times.mean)?);
        let factor = MeasuredFactor::new(Measure::Median, median, Some(mean));
        Some((fingerprint.to_string(), factor))
    });
    Ok(factors.collect())
}

fn ratio(effect: &Effect) -> Ratio {
    Ratio {
        value: effect.ratio,
        interval: Some(Interval {
            low: effect.low,
            high: effect.high,
        }),
    }
}

/// Returns median and mean of the times of a run, unless they are too few.
fn run_times(mut ns: Vec<f64>) -> Option<RunTimes> {
    if ns.len() < EXECUTIONS_MIN {
        return None;
    }
    ns.sort_by(f64::total_cmp);
    Some(RunTimes {
        median: ns[ns.len() / 2],
        mean: ns.iter().sum::<f64>() / ns.len() as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_mean_need_five_executions() {
        assert_eq!(run_times(vec![1.0; 4]), None);
        let times = run_times(vec![9.0, 1.0, 2.0, 3.0, 10.0]).unwrap();
        assert_eq!((times.median, times.mean), (3.0, 5.0));
    }
}
