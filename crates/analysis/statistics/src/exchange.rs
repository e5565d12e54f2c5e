//! Could chance alone have made this difference? A test that knows of no shape.
//!
//! If the change changed nothing, then which of two runs a stretch belongs to is a mere label, and
//! labels can be exchanged: a permutation test (Pitman 1937; Good, "Permutation, Parametric and
//! Bootstrap Tests of Hypotheses", 2005). What is exchanged are blocks of time, not calls, since
//! calls of one moment are no independent witnesses. Runs of one workload at one speed exchange the
//! *same* stretch between them; others any stretch with any.
//!
//! Not "no difference" is tested but "no more than the margin": the times after are first divided by
//! 1 + margin (or its inverse, for faster). So a difference within the margin is no finding, however
//! many calls show it. Three measures, each a sum over blocks, which makes it cheap: calls above the
//! joint median, calls above the joint 99th percentile, and time. The test is exact where blocks can
//! be exchanged once times are divided; sides with unequal numbers of runs that also spread unequally
//! are exchanged as if they could be.
//!
//! p = (1 + exchanges that are as extreme) / (1 + exchanges), which is exact whatever their number
//! (Phipson and Smyth 2010), doubled since one looks in both directions. One that is not extreme is
//! left after a few exchanges (Besag and Clifford, "Sequential Monte Carlo p-values", 1991).

use crate::bootstrap::{MEASURES, Resampler};
use crate::quantile;
use crate::quantile::{P50, P99};
use crate::random::SplitMix64;
use crate::series::{slot_of, value_of};
use crate::timeline::STRETCHES_MAX;

/// As often is exchanged at first.
const EXCHANGES: u32 = 1_023;
/// And at most, where a small p decides among many statements: enough for the only one that differs
/// among 100,000.
const EXCHANGES_MAX: u32 = 1 << 24;
/// With so many that are as extreme, the rest need not be looked at.
const EXTREME_ENOUGH: u32 = 20;

/// What one run did in one block of stretches.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    after: bool,
    /// How many calls its samples stand for.
    samples: f64,
    /// How many calls, exactly, for the mean.
    calls: f64,
    /// Samples above the joint median; time in all; samples above the joint 99th percentile.
    sums: [f64; MEASURES],
}

/// A difference that is being tested.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// Parts may be exchanged within a group.
    groups: Vec<Vec<Part>>,
    observed: [f64; MEASURES],
    extreme: [u32; MEASURES],
    done: [u32; MEASURES],
    random: SplitMix64,
    /// Of the group that is being exchanged; kept, so that none is made for each.
    order: Vec<usize>,
}

/// Sums of one side.
#[derive(Debug, Clone, Copy, Default)]
struct Side {
    samples: f64,
    calls: f64,
    sums: [f64; MEASURES],
}

impl Side {
    fn add(&mut self, part: &Part) {
        self.samples += part.samples;
        self.calls += part.calls;
        for (sum, more) in self.sums.iter_mut().zip(part.sums) {
            *sum += more;
        }
    }

    fn mean(&self, measure: usize) -> f64 {
        let of = if measure == 1 {
            self.calls
        } else {
            self.samples
        };
        self.sums[measure] / of.max(1.0)
    }
}

impl Exchange {
    /// `scale` divides the times after: 1 + margin to show that they are longer, its inverse for
    /// shorter ones, with `longer` false.
    pub fn new(
        before: &[Resampler],
        after: &[Resampler],
        (paired, block_bits): (bool, u32),
        (margin, longer): (f64, bool),
        seed: u64,
    ) -> Self {
        let scale = if longer {
            1.0 + margin
        } else {
            1.0 / (1.0 + margin)
        };
        let runs: Vec<(&Resampler, bool)> = before
            .iter()
            .map(|run| (run, false))
            .chain(after.iter().map(|run| (run, true)))
            .collect();
        let mut times: Vec<f64> = Vec::new();
        for (run, is_after) in &runs {
            let scale = if *is_after { scale } else { 1.0 };
            times.extend(run.sorted().iter().map(|one| value_of(*one) / scale));
        }
        let thresholds = [P50, P99].map(|per_mille| {
            let rank = quantile::rank(per_mille, times.len() as u64) as usize;
            let at = rank.saturating_sub(1);
            if times.is_empty() {
                return 0.0;
            }
            *times.select_nth_unstable_by(at, f64::total_cmp).1
        });
        let sign = if longer { 1.0 } else { -1.0 };
        let blocks = STRETCHES_MAX >> block_bits;
        let parts: Vec<Vec<Part>> = runs
            .iter()
            .map(|(run, is_after)| {
                let scale = if *is_after { scale } else { 1.0 };
                // Of very many calls a sample is kept, of which each stands for several.
                let calls: u64 = run.sums().iter().map(|sum| sum.count).sum();
                let each = calls as f64 / run.sorted().len().max(1) as f64;
                let mut parts = vec![
                    Part {
                        after: *is_after,
                        ..Part::default()
                    };
                    blocks
                ];
                for sample in run.sorted() {
                    let part = &mut parts[slot_of(*sample) >> block_bits];
                    let time = value_of(*sample) / scale;
                    part.samples += each;
                    part.sums[0] += f64::from(u8::from(time > thresholds[0])) * each * sign;
                    part.sums[2] += f64::from(u8::from(time > thresholds[1])) * each * sign;
                }
                for (slot, sum) in run.sums().iter().enumerate() {
                    let part = &mut parts[slot >> block_bits];
                    part.calls += sum.count as f64;
                    part.sums[1] += sum.total_ns / scale * sign;
                }
                parts
            })
            .collect();
        let groups: Vec<Vec<Part>> = if paired {
            (0..blocks)
                .map(|block| parts.iter().map(|run| run[block]).collect())
                .collect()
        } else {
            vec![parts.into_iter().flatten().collect()]
        };
        let groups = groups
            .into_iter()
            .map(|mut group: Vec<Part>| {
                // What nobody did says nothing, wherever it is put.
                let empty = group.iter().all(|part| part.calls == 0.0);
                if empty {
                    group.clear();
                } else if !paired {
                    group.retain(|part| part.calls > 0.0);
                }
                group
            })
            .filter(|group| !group.is_empty())
            .collect();
        let mut exchange = Self {
            groups,
            observed: [0.0; MEASURES],
            extreme: [0; MEASURES],
            done: [0; MEASURES],
            random: SplitMix64::new(seed ^ 0x6578_6368_616e_6765),
            order: Vec::new(),
        };
        let (mut before, mut after) = (Side::default(), Side::default());
        for part in exchange.groups.iter().flatten() {
            if part.after { &mut after } else { &mut before }.add(part);
        }
        exchange.observed = std::array::from_fn(|at| after.mean(at) - before.mean(at));
        exchange.continue_to(EXCHANGES);
        exchange
    }

    /// Exchanges until each measure is clear or `exchanges` were made.
    fn continue_to(&mut self, exchanges: u32) {
        loop {
            let open: [bool; MEASURES] = std::array::from_fn(|at| {
                self.done[at] < exchanges && self.extreme[at] < EXTREME_ENOUGH
            });
            if !open.contains(&true) {
                return;
            }
            let found = self.exchanged();
            for at in 0..MEASURES {
                if open[at] {
                    self.done[at] += 1;
                    // Sums of many numbers in another order differ in their last digits.
                    let near = self.observed[at].abs() * 1e-12;
                    self.extreme[at] += u32::from(found[at] >= self.observed[at] - near);
                }
            }
        }
    }

    /// The differences after one exchange.
    fn exchanged(&mut self) -> [f64; MEASURES] {
        let (mut before, mut after) = (Side::default(), Side::default());
        let (mut bits, mut left) = (0, 0);
        for group in &mut self.groups {
            if let [one, other] = group.as_slice()
                && one.after != other.after
            {
                if left == 0 {
                    (bits, left) = (self.random.next_u64(), u64::BITS);
                }
                let swap = bits & 1 == 1;
                (bits, left) = (bits >> 1, left - 1);
                let (first, second) = if swap != one.after {
                    (&mut after, &mut before)
                } else {
                    (&mut before, &mut after)
                };
                first.add(one);
                second.add(other);
                continue;
            }
            // As many are after as were, any of them (Fisher and Yates).
            let count = group.iter().filter(|part| part.after).count();
            self.order.clear();
            self.order.extend(0..group.len());
            for at in 0..count {
                let other = at + self.random.below((group.len() - at) as u64) as usize;
                self.order.swap(at, other);
            }
            for (place, at) in self.order.iter().enumerate() {
                if place < count {
                    &mut after
                } else {
                    &mut before
                }
                .add(&group[*at]);
            }
        }
        std::array::from_fn(|at| after.mean(at) - before.mean(at))
    }

    /// The chance of a difference as extreme in either direction, by measure.
    pub fn p_values(&self) -> [f64; MEASURES] {
        std::array::from_fn(|at| {
            let p = f64::from(self.extreme[at] + 1) / f64::from(self.done[at] + 1);
            (2.0 * p).min(1.0)
        })
    }

    /// Whether more exchanges could make a measure's p-value smaller: none was as extreme so far.
    pub fn could_be_smaller(&self, measure: usize) -> bool {
        self.extreme[measure] == 0 && self.done[measure] < EXCHANGES_MAX
    }

    /// Looks closer at measures whose p-values could be smaller, until they can be as small as `wanted`.
    pub fn look_closer(&mut self, wanted: f64) {
        let needed = (2.0 / wanted.max(f64::MIN_POSITIVE)).ceil() + 1.0;
        let exchanges = (needed.min(f64::from(EXCHANGES_MAX)) as u32).max(EXCHANGES);
        if (0..MEASURES).any(|measure| self.could_be_smaller(measure)) {
            self.continue_to(exchanges);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Series;

    fn run(seed: u64, factor: f64, tail: f64) -> Resampler {
        let mut random = SplitMix64::new(seed);
        let mut uniform = move || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut series = Series::new(seed);
        for number in 0..2_000u64 {
            let slow = if number % 50 == 7 { tail } else { 1.0 };
            let value = 1e6 * factor * slow * (0.5 + uniform());
            series.record(value as u64, (number * 128 / 2_000) as u8);
        }
        Resampler::new(&series)
    }

    fn p_values(before: Resampler, after: Resampler, paired: bool, margin: f64) -> [f64; 3] {
        Exchange::new(&[before], &[after], (paired, 0), (margin, true), 1).p_values()
    }

    #[test]
    fn without_a_difference_small_p_values_are_as_rare_as_they_say() {
        for paired in [true, false] {
            let mut small = [0; MEASURES];
            for seed in 0..400 {
                let (before, after) = (run(2 * seed, 1.0, 3.0), run(2 * seed + 1, 1.0, 3.0));
                for (count, p) in small.iter_mut().zip(p_values(before, after, paired, 0.0)) {
                    // One direction is looked at here: half of the stated rate.
                    *count += u32::from(p <= 0.2);
                }
            }
            // 10 % of 400 are 40; four standard errors of the binomial are 24.
            assert!(
                small.iter().all(|count| (16..=64).contains(count)),
                "{small:?}"
            );
        }
    }

    #[test]
    fn each_measure_sees_its_own_difference() {
        let all = p_values(run(1, 1.0, 3.0), run(2, 1.5, 3.0), true, 0.1);
        assert!(all.iter().all(|p| *p < 0.05), "{all:?}");
        let tail = p_values(run(1, 1.0, 1.0), run(2, 1.0, 4.0), true, 0.1);
        assert!(tail[0] > 0.1 && tail[2] < 0.01, "{tail:?}");
        let within = p_values(run(1, 1.0, 3.0), run(2, 1.05, 3.0), true, 0.1);
        assert!(within.iter().all(|p| *p > 0.1), "{within:?}");
    }

    #[test]
    fn a_closer_look_makes_a_small_p_smaller() {
        let (before, after) = ([run(1, 1.0, 3.0)], [run(2, 2.0, 3.0)]);
        let mut exchange = Exchange::new(&before, &after, (true, 0), (0.1, true), 1);
        let first = exchange.p_values()[0];
        assert!((first - 2.0 / 1_024.0).abs() < 1e-12, "{first}");
        assert!(exchange.could_be_smaller(0));
        exchange.look_closer(1e-4);
        assert!(exchange.p_values()[0] <= 1e-4);
        let none = Exchange::new(&before, &before, (true, 0), (0.0, true), 1);
        assert!(!none.could_be_smaller(0));
    }

    #[test]
    fn several_runs_are_exchanged_within_their_stretch() {
        let before = [run(1, 1.0, 3.0), run(2, 1.0, 3.0)];
        let after = [run(3, 1.4, 3.0), run(4, 1.4, 3.0), run(5, 1.4, 3.0)];
        let found = Exchange::new(&before, &after, (true, 1), (0.1, true), 1).p_values();
        assert!(found[0] < 0.01, "{found:?}");
        let none = Exchange::new(&before, &before, (true, 1), (0.1, true), 1).p_values();
        assert!(none[0] > 0.5, "{none:?}");
        let faster = Exchange::new(&after, &before, (true, 1), (0.1, false), 1).p_values();
        assert!(faster[0] < 0.01, "{faster:?}");
    }
}
