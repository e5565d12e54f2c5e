//! Permutation test of a difference between two sides, without assumptions about the distribution.
//!
//! If the change had no effect, the assignment of stretches to runs is arbitrary and the labels can
//! be permuted (Pitman 1937; Good, "Permutation, Parametric and Bootstrap Tests of Hypotheses",
//! 2005). Blocks of time are permuted, not calls, because calls of one moment are not independent.
//! Runs of one workload at one speed permute the *same* stretch between them; other runs permute
//! any stretches.
//!
//! The null hypothesis is not "no difference" but "no more than the margin": the times after are
//! first divided by 1 + margin (or its inverse, for faster). So a difference within the margin is
//! never a finding, however many calls show it. There are three measures, each a sum over blocks
//! and so cheap to compute: calls above the joint median, calls above the joint 99th percentile,
//! and total time. The test is exact if blocks are exchangeable after the division. Sides with
//! unequal numbers of runs and unequal variance are permuted as if they were exchangeable.
//!
//! p = (1 + permutations at least as extreme) / (1 + permutations), which is exact for any number
//! of permutations (Phipson and Smyth 2010), doubled for a two-sided test. The test stops early if
//! the difference is clearly not extreme (Besag and Clifford, "Sequential Monte Carlo p-values",
//! 1991).

use crate::bootstrap::{MEASURES, Resampler};
use crate::quantile;
use crate::quantile::{P50, P99};
use crate::random::SplitMix64;
use crate::series::{slot_of, value_of};
use crate::timeline::STRETCHES_MAX;

/// Number of permutations in the first pass.
const PERMUTATIONS: u32 = 1_023;
/// Maximum number of permutations, used if a small p-value decides among many statements. It
/// suffices for a single differing statement among 100,000.
const PERMUTATIONS_MAX: u32 = 1 << 24;
/// Number of extreme permutations after which the test stops.
const EXTREME_MAX: u32 = 20;

/// Sums of one run over one block of stretches.
#[derive(Debug, Clone, Copy, Default)]
struct BlockSums {
    after: bool,
    /// Number of calls that the samples represent.
    samples: f64,
    /// Exact number of calls, for the mean.
    calls: f64,
    /// Samples above the joint median, total time, and samples above the joint 99th percentile.
    sums: [f64; MEASURES],
}

/// Permutation test of one difference in one direction.
#[derive(Debug, Clone)]
pub struct PermutationTest {
    /// Groups of blocks; blocks are permuted within a group.
    groups: Vec<Vec<BlockSums>>,
    observed: [f64; MEASURES],
    extreme: [u32; MEASURES],
    done: [u32; MEASURES],
    random: SplitMix64,
    /// Permutation of the current group, kept to avoid allocations.
    order: Vec<usize>,
}

/// Sums of one side.
#[derive(Debug, Clone, Copy, Default)]
struct SideSums {
    samples: f64,
    calls: f64,
    sums: [f64; MEASURES],
}

impl SideSums {
    fn add(&mut self, block: &BlockSums) {
        self.samples += block.samples;
        self.calls += block.calls;
        for (sum, more) in self.sums.iter_mut().zip(block.sums) {
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

/// Run of the test. Its times are divided by `scale`.
#[derive(Clone, Copy)]
struct Run<'a> {
    samples: &'a Resampler,
    is_after: bool,
    scale: f64,
}

impl Run<'_> {
    /// Sums the run by block. `thresholds` are the joint median and 99th percentile; `sign` is −1 to
    /// test whether times are shorter.
    fn block_sums(self, block_bits: u32, thresholds: [f64; 2], sign: f64) -> Vec<BlockSums> {
        // With very many calls only a sample is kept, and each sample represents several calls.
        let calls: u64 = self.samples.sums().iter().map(|sum| sum.count).sum();
        let each = calls as f64 / self.samples.sorted().len().max(1) as f64;
        let empty = BlockSums {
            after: self.is_after,
            ..BlockSums::default()
        };
        let mut blocks = vec![empty; STRETCHES_MAX >> block_bits];
        for sample in self.samples.sorted() {
            let block = &mut blocks[slot_of(*sample) >> block_bits];
            let time = value_of(*sample) / self.scale;
            block.samples += each;
            block.sums[0] += f64::from(u8::from(time > thresholds[0])) * each * sign;
            block.sums[2] += f64::from(u8::from(time > thresholds[1])) * each * sign;
        }
        for (slot, sum) in self.samples.sums().iter().enumerate() {
            let block = &mut blocks[slot >> block_bits];
            block.calls += sum.count as f64;
            block.sums[1] += sum.total_ns / self.scale * sign;
        }
        blocks
    }
}

/// Returns the median and the 99th percentile of all runs' scaled times.
fn joint_quantiles(runs: &[Run<'_>]) -> [f64; 2] {
    let mut times: Vec<f64> = Vec::new();
    for run in runs {
        let sorted = run.samples.sorted().iter();
        times.extend(sorted.map(|one| value_of(*one) / run.scale));
    }
    [P50, P99].map(|per_mille| {
        let rank = quantile::rank(per_mille, times.len() as u64) as usize;
        let at = rank.saturating_sub(1);
        if times.is_empty() {
            return 0.0;
        }
        *times.select_nth_unstable_by(at, f64::total_cmp).1
    })
}

/// Groups the blocks of all runs: the same block of each run if they are paired, else all blocks
/// together.
fn group_blocks(runs: Vec<Vec<BlockSums>>, paired: bool) -> Vec<Vec<BlockSums>> {
    let blocks = runs.first().map_or(0, Vec::len);
    let mut groups: Vec<Vec<BlockSums>> = if paired {
        (0..blocks)
            .map(|block| runs.iter().map(|run| run[block]).collect())
            .collect()
    } else {
        vec![runs.into_iter().flatten().collect()]
    };
    // Empty blocks do not affect the result.
    for group in &mut groups {
        if group.iter().all(|block| block.calls == 0.0) {
            group.clear();
        } else if !paired {
            group.retain(|block| block.calls > 0.0);
        }
    }
    groups.retain(|group| !group.is_empty());
    groups
}

impl PermutationTest {
    /// Prepares the test and runs the first pass. The times after are divided by 1 + margin to test
    /// whether they are longer, or by its inverse to test whether they are shorter (`longer` is
    /// false).
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
        let before = before.iter().map(|samples| Run {
            samples,
            is_after: false,
            scale: 1.0,
        });
        let after = after.iter().map(|samples| Run {
            samples,
            is_after: true,
            scale,
        });
        let runs: Vec<Run<'_>> = before.chain(after).collect();
        let thresholds = joint_quantiles(&runs);
        let sign = if longer { 1.0 } else { -1.0 };
        let blocks: Vec<Vec<BlockSums>> = runs
            .iter()
            .map(|run| run.block_sums(block_bits, thresholds, sign))
            .collect();
        let mut test = Self {
            groups: group_blocks(blocks, paired),
            observed: [0.0; MEASURES],
            extreme: [0; MEASURES],
            done: [0; MEASURES],
            random: SplitMix64::new(seed ^ 0x6578_6368_616e_6765),
            order: Vec::new(),
        };
        let (mut before, mut after) = (SideSums::default(), SideSums::default());
        for block in test.groups.iter().flatten() {
            if block.after { &mut after } else { &mut before }.add(block);
        }
        test.observed = std::array::from_fn(|at| after.mean(at) - before.mean(at));
        test.permute_up_to(PERMUTATIONS);
        test
    }

    /// Permutes until each measure is decided or has `permutations` permutations.
    fn permute_up_to(&mut self, permutations: u32) {
        loop {
            let open: [bool; MEASURES] = std::array::from_fn(|at| {
                self.done[at] < permutations && self.extreme[at] < EXTREME_MAX
            });
            if !open.contains(&true) {
                return;
            }
            let found = self.permuted_differences();
            for at in 0..MEASURES {
                if open[at] {
                    self.done[at] += 1;
                    // Sums in a different order differ in their last digits.
                    let near = self.observed[at].abs() * 1e-12;
                    self.extreme[at] += u32::from(found[at] >= self.observed[at] - near);
                }
            }
        }
    }

    /// Returns the differences after one permutation.
    fn permuted_differences(&mut self) -> [f64; MEASURES] {
        let (mut before, mut after) = (SideSums::default(), SideSums::default());
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
            // Draws a random subset with the original number of blocks after (Fisher-Yates
            // shuffle).
            let count = group.iter().filter(|block| block.after).count();
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

    /// Returns the two-sided p-value of each measure.
    pub fn p_values(&self) -> [f64; MEASURES] {
        std::array::from_fn(|at| {
            let p = f64::from(self.extreme[at] + 1) / f64::from(self.done[at] + 1);
            (2.0 * p).min(1.0)
        })
    }

    /// Whether more permutations could make a measure's p-value smaller: none was as extreme so
    /// far.
    pub fn is_refinable(&self, measure: usize) -> bool {
        self.extreme[measure] == 0 && self.done[measure] < PERMUTATIONS_MAX
    }

    /// Runs more permutations for the measures that can be refined, until p-values can be as small
    /// as `wanted`.
    pub fn refine_p_values(&mut self, wanted: f64) {
        let needed = (2.0 / wanted.max(f64::MIN_POSITIVE)).ceil() + 1.0;
        let permutations = (needed.min(f64::from(PERMUTATIONS_MAX)) as u32).max(PERMUTATIONS);
        if (0..MEASURES).any(|measure| self.is_refinable(measure)) {
            self.permute_up_to(permutations);
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
        PermutationTest::new(&[before], &[after], (paired, 0), (margin, true), 1).p_values()
    }

    #[test]
    fn p_values_of_equal_sides_are_uniform() {
        for paired in [true, false] {
            let mut small = [0; MEASURES];
            for seed in 0..400 {
                let (before, after) = (run(2 * seed, 1.0, 3.0), run(2 * seed + 1, 1.0, 3.0));
                for (count, p) in small.iter_mut().zip(p_values(before, after, paired, 0.0)) {
                    // Only one direction is checked here: half of the stated rate.
                    *count += u32::from(p <= 0.2);
                }
            }
            // The expected number is 40 of 400; four standard errors of the binomial are 24.
            assert!(
                small.iter().all(|count| (16..=64).contains(count)),
                "{small:?}"
            );
        }
    }

    #[test]
    fn each_measure_detects_its_own_difference() {
        let all = p_values(run(1, 1.0, 3.0), run(2, 1.5, 3.0), true, 0.1);
        assert!(all.iter().all(|p| *p < 0.05), "{all:?}");
        let tail = p_values(run(1, 1.0, 1.0), run(2, 1.0, 4.0), true, 0.1);
        assert!(tail[0] > 0.1 && tail[2] < 0.01, "{tail:?}");
        let within = p_values(run(1, 1.0, 3.0), run(2, 1.05, 3.0), true, 0.1);
        assert!(within.iter().all(|p| *p > 0.1), "{within:?}");
    }

    #[test]
    fn refining_decreases_a_small_p_value() {
        let (before, after) = ([run(1, 1.0, 3.0)], [run(2, 2.0, 3.0)]);
        let mut exchange = PermutationTest::new(&before, &after, (true, 0), (0.1, true), 1);
        let first = exchange.p_values()[0];
        assert!((first - 2.0 / 1_024.0).abs() < 1e-12, "{first}");
        assert!(exchange.is_refinable(0));
        exchange.refine_p_values(1e-4);
        assert!(exchange.p_values()[0] <= 1e-4);
        let none = PermutationTest::new(&before, &before, (true, 0), (0.0, true), 1);
        assert!(!none.is_refinable(0));
    }

    #[test]
    fn several_runs_are_permuted_within_their_block() {
        let before = [run(1, 1.0, 3.0), run(2, 1.0, 3.0)];
        let after = [run(3, 1.4, 3.0), run(4, 1.4, 3.0), run(5, 1.4, 3.0)];
        let found = PermutationTest::new(&before, &after, (true, 1), (0.1, true), 1).p_values();
        assert!(found[0] < 0.01, "{found:?}");
        let none = PermutationTest::new(&before, &before, (true, 1), (0.1, true), 1).p_values();
        assert!(none[0] > 0.5, "{none:?}");
        let faster = PermutationTest::new(&after, &before, (true, 1), (0.1, false), 1).p_values();
        assert!(faster[0] < 0.01, "{faster:?}");
    }
}
