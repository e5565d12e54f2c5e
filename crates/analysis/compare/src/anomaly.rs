//! Detects anomalies in a statement's times that limit the meaning of a plain ratio.
//!
//! Anomalies do not affect findings, whose intervals and tests are valid in their presence. They
//! tell the reader where to look.

use schemars::JsonSchema;
use serde::Serialize;

use crate::side::Side;
use statistics::STRETCHES_MAX;
use statistics::bootstrap::Resampler;
use statistics::series::{slot_of, value_of};
use statistics::trend::trend;

/// Significance level of a trend; small because thousands of statements are tested.
const TREND_LEVEL: f64 = 0.001;
/// Minimum factor between the times at the start and at the end for a trend to be reported.
pub const TREND_FACTOR: f64 = 1.25;
/// Minimum factor by which the first eighth of a run is slower to be reported as warm-up.
pub const WARM_UP_FACTOR: f64 = 1.5;
/// Share of the total time from which the slowest hundredth of calls is a heavy tail.
pub const HEAVY_TAIL_SHARE: f64 = 0.3;
/// Share of the run that must contain half of the calls for them to count as a burst.
pub const BURST_SHARE: f64 = 0.05;

/// Minimum number of calls for judging the tail.
const TAIL_CALLS_MIN: usize = 200;
/// Minimum number of calls for judging bursts.
const BURST_CALLS_MIN: u64 = 50;
/// Number of neighbouring stretches that are merged for trends, as a power of two: 16 values of a
/// run.
const COARSE_BITS: u32 = 3;
const COARSE: usize = STRETCHES_MAX >> COARSE_BITS;
/// Minimum number of non-empty stretches in the first eighth.
const WARM_UP_STRETCHES_MIN: usize = 3;

/// Anomaly in a statement's times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "anomaly", rename_all = "snake_case")]
pub enum Anomaly {
    /// The slowest hundredth of calls takes a large share of the time, so the mean says little
    /// about a typical call.
    HeavyTail {
        /// Side.
        side: Side,
        /// Share of the time.
        share: f64,
    },
    /// Half of the calls lie in a small share of the run, so few moments decide.
    Burst {
        /// Side.
        side: Side,
        /// Share of the run.
        share: f64,
    },
    /// The statement was slower at the start of the run.
    WarmUp {
        /// Side.
        side: Side,
        /// Median in the first eighth, divided by that of the rest.
        factor: f64,
    },
    /// The statement got slower or faster in the course of the run.
    Drift {
        /// Side.
        side: Side,
        /// Median at the end, divided by that at the start (after the warm-up).
        factor: f64,
    },
    /// The difference between the sides grows or shrinks in the course of the runs.
    DifferenceDrifts {
        /// Ratio at the start.
        from: f64,
        /// Ratio at the end.
        to: f64,
    },
}

/// Medians by stretch.
pub(crate) type Medians = [Option<f64>; STRETCHES_MAX];

/// Returns the median of each group of `2^bits` stretches over several runs, in nanoseconds.
pub(crate) fn medians(runs: &[Resampler], bits: u32) -> Medians {
    let mut counts = [0_u32; STRETCHES_MAX];
    for run in runs {
        for sample in run.sorted() {
            counts[slot_of(*sample) >> bits] += 1;
        }
    }
    // The samples of one run are already sorted; those of several runs are merged.
    let merged: Vec<u32>;
    let sorted = match runs {
        [run] => run.sorted(),
        _ => {
            let mut all: Vec<u32> = runs.iter().flat_map(|run| run.sorted()).copied().collect();
            all.sort_unstable();
            merged = all;
            &merged
        }
    };
    let mut seen = [0_u32; STRETCHES_MAX];
    let mut found = [None; STRETCHES_MAX];
    for sample in sorted {
        let slot = slot_of(*sample) >> bits;
        seen[slot] += 1;
        if seen[slot] == counts[slot].div_ceil(2) {
            found[slot] = Some(value_of(*sample));
        }
    }
    found
}

/// Returns all anomalies. `used` is the number of stretches that are not empty.
pub(crate) fn anomalies(
    before: &[Resampler],
    after: &[Resampler],
    paired: bool,
    used: usize,
) -> Vec<Anomaly> {
    let mut found = Vec::new();
    for (side, runs) in [(Side::Before, before), (Side::After, after)] {
        of_side(side, runs, used, &mut found);
    }
    if paired {
        found.extend(difference_drifts(before, after));
    }
    found
}

fn of_side(side: Side, runs: &[Resampler], used: usize, found: &mut Vec<Anomaly>) {
    let shares = runs.iter().filter_map(|run| tail_share(run.sorted()));
    // Use the run with the smallest share, so that the anomaly holds in all runs.
    let share = shares.fold(f64::INFINITY, f64::min);
    if share.is_finite() && share >= HEAVY_TAIL_SHARE {
        found.push(Anomaly::HeavyTail { side, share });
    }
    if let Some(share) = burst_share(runs, used)
        && share <= BURST_SHARE
    {
        found.push(Anomaly::Burst { side, share });
    }
    let fine = medians(runs, 0);
    let first = used.div_ceil(8);
    let warm_up = warm_up(&fine[..first], &fine[first..used.max(first)]);
    if let Some(factor) = warm_up {
        found.push(Anomaly::WarmUp { side, factor });
    }
    let skipped = if warm_up.is_some() {
        first.div_ceil(1 << COARSE_BITS)
    } else {
        0
    };
    let coarse = medians(runs, COARSE_BITS);
    let logs: Vec<f64> = coarse[skipped..COARSE]
        .iter()
        .filter_map(|median| Some((*median)?.max(1.0).ln()))
        .collect();
    if let Some(trend) = trend(&logs)
        && trend.p < TREND_LEVEL
        && trend.change.abs() > TREND_FACTOR.ln()
    {
        found.push(Anomaly::Drift {
            side,
            factor: trend.change.exp(),
        });
    }
}

/// Returns the share of the time that the slowest hundredth of calls takes.
fn tail_share(sorted: &[u32]) -> Option<f64> {
    if sorted.len() < TAIL_CALLS_MIN {
        return None;
    }
    let slowest = sorted.len() - sorted.len().div_ceil(100);
    let sum = |samples: &[u32]| samples.iter().map(|one| value_of(*one)).sum::<f64>();
    let tail = sum(&sorted[slowest..]);
    Some(tail / (tail + sum(&sorted[..slowest])))
}

/// Returns the smallest share of the run that contains half of the calls.
fn burst_share(runs: &[Resampler], used: usize) -> Option<f64> {
    let mut counts = [0_u64; STRETCHES_MAX];
    for run in runs {
        for (count, sum) in counts.iter_mut().zip(run.sums()) {
            *count += sum.count;
        }
    }
    let all: u64 = counts.iter().sum();
    if all < BURST_CALLS_MIN || used == 0 {
        return None;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum = 0;
    let needed = counts.iter().take_while(|count| {
        let more = sum * 2 < all;
        sum += **count;
        more
    });
    Some(needed.count() as f64 / used as f64)
}

/// Returns how much slower the first stretches were, if the difference is clear: three in four of
/// them were slower than three in four of the rest.
fn warm_up(first: &[Option<f64>], rest: &[Option<f64>]) -> Option<f64> {
    let sorted = |stretches: &[Option<f64>]| {
        let mut known: Vec<f64> = stretches.iter().flatten().copied().collect();
        known.sort_unstable_by(f64::total_cmp);
        known
    };
    let (first, rest) = (sorted(first), sorted(rest));
    if first.len() < WARM_UP_STRETCHES_MIN || rest.len() < 2 * WARM_UP_STRETCHES_MIN {
        return None;
    }
    let factor = first[first.len() / 2] / rest[rest.len() / 2].max(1.0);
    let clear = first[first.len() / 4] > rest[rest.len() * 3 / 4];
    (clear && factor >= WARM_UP_FACTOR).then_some(factor)
}

fn difference_drifts(before: &[Resampler], after: &[Resampler]) -> Option<Anomaly> {
    let (before, after) = (medians(before, COARSE_BITS), medians(after, COARSE_BITS));
    let logs: Vec<f64> = before
        .iter()
        .zip(&after)
        .filter_map(|(before, after)| Some(((*after)?.max(1.0) / (*before)?.max(1.0)).ln()))
        .collect();
    let trend = trend(&logs)?;
    if trend.p >= TREND_LEVEL || trend.change.abs() <= TREND_FACTOR.ln() {
        return None;
    }
    let last = (logs.len() - 1) as f64;
    let mut starts: Vec<f64> = logs
        .iter()
        .enumerate()
        .map(|(at, log)| log - trend.change * at as f64 / last)
        .collect();
    starts.sort_unstable_by(f64::total_cmp);
    let start = starts[starts.len() / 2];
    Some(Anomaly::DifferenceDrifts {
        from: start.exp(),
        to: (start + trend.change).exp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use statistics::SplitMix64;
    use statistics::series::Series;

    /// Creates 4,000 calls over all stretches. `factor` gives the slowness of each from its
    /// position in the run (0 to 1) and a random number (0 to 1).
    fn run(seed: u64, factor: impl Fn(f64, f64) -> f64) -> [Resampler; 1] {
        let mut random = SplitMix64::new(seed);
        let mut uniform = move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut series = Series::new(seed);
        for number in 0..4_000u64 {
            let place = number as f64 / 4_000.0;
            let value = 1e6 * factor(place, uniform()) * (0.7 + 0.6 * uniform());
            series.record(value as u64, (place * STRETCHES_MAX as f64) as u8);
        }
        [Resampler::new(&series)]
    }

    fn names(before: &[Resampler], after: &[Resampler]) -> Vec<String> {
        let name = |anomaly: &Anomaly| {
            let json = serde_json::to_value(anomaly).unwrap();
            json["anomaly"].as_str().unwrap().to_owned()
        };
        let found = anomalies(before, after, true, STRETCHES_MAX);
        found.iter().map(name).collect()
    }

    #[test]
    fn steady_statement_has_no_anomaly() {
        for seed in 0..20 {
            let (before, after) = (run(2 * seed, |_, _| 1.0), run(2 * seed + 1, |_, _| 1.3));
            assert_eq!(names(&before, &after), [""; 0]);
        }
    }

    #[test]
    fn each_anomaly_is_detected() {
        let steady = run(1, |_, _| 1.0);
        let drifting = run(2, |place, _| 1.0 + place);
        let found = anomalies(&steady, &drifting, true, STRETCHES_MAX);
        let [
            Anomaly::Drift {
                side: Side::After,
                factor,
            },
            Anomaly::DifferenceDrifts { from, to },
        ] = found[..]
        else {
            panic!("{found:?}");
        };
        assert!((1.7..2.2).contains(&factor), "{found:?}");
        assert!(
            (0.9..1.15).contains(&from) && (1.8..2.1).contains(&to),
            "{found:?}"
        );

        let cold = run(3, |place, _| if place < 0.1 { 4.0 } else { 1.0 });
        assert_eq!(names(&steady, &cold), ["warm_up"]);
        let heavy = run(4, |_, chance| if chance < 0.005 { 200.0 } else { 1.0 });
        assert_eq!(names(&heavy, &steady), ["heavy_tail"]);
        let mut series = Series::new(5);
        for number in 0..100 {
            series.record(
                1_000_000 + number,
                if number < 60 { 40 } else { number as u8 },
            );
        }
        let burst = [Resampler::new(&series)];
        assert_eq!(names(&steady, &burst), ["burst"]);
    }
}
