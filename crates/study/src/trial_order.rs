//! Random orders of trials, reproducible by their seed.
//!
//! Drift during an experiment (a machine that warms up, a neighbour that comes and goes) must not fall on one level of
//! a factor alone. So each repetition is a block in which every combination comes once, in its own order (a randomised
//! complete block design; Fisher, "The Design of Experiments", 1935).

use statistics::SplitMix64;

/// The numbers below `count` in a random order for each block.
pub(crate) fn randomised_blocks(count: usize, blocks: u32, seed: u64) -> Vec<Vec<usize>> {
    let mut random = SplitMix64::new(seed);
    (0..blocks).map(|_| shuffled(count, &mut random)).collect()
}

/// Shuffles the numbers below `count` (Fisher and Yates, in the form of Durstenfeld, 1964).
fn shuffled(count: usize, random: &mut SplitMix64) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        all.swap(last, random.below(last as u64 + 1) as usize);
    }
    all
}

/// Two runs of each active side of a block (numbered from 1), in a random order. The permutation test of a proof relies
/// on each order being equally likely.
pub(crate) fn random_block(sides: usize, active: &[usize], number: u32, seed: u64) -> Vec<usize> {
    // Seeded separately, so that the order does not depend on how many sides earlier blocks had.
    let mut random = SplitMix64::new(seed ^ u64::from(number).wrapping_mul(0xd129_0d3b_3a2c_1f65));
    let order = shuffled(2 * sides, &mut random).into_iter();
    order
        .map(|run| run / 2)
        .filter(|side| active.contains(side))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn randomised_blocks_have_each_number_once_in_different_orders() {
        let blocks = randomised_blocks(8, 50, 7);
        let all: Vec<usize> = (0..8).collect();
        for block in &blocks {
            let mut sorted = block.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, all);
        }
        let different: BTreeSet<_> = blocks.iter().collect();
        assert!(different.len() > 45);
        assert_eq!(blocks, randomised_blocks(8, 50, 7));
        assert_ne!(blocks, randomised_blocks(8, 50, 8));
    }

    #[test]
    fn shuffled_gives_each_order_about_equally_often() {
        let mut seen = std::collections::BTreeMap::new();
        for block in randomised_blocks(3, 12_000, 1) {
            *seen.entry(block).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(
            seen.values().all(|count| (1_850..2_150).contains(count)),
            "{seen:?}"
        );
    }

    #[test]
    fn random_block_has_each_order_about_equally_often() {
        let mut seen = std::collections::BTreeMap::new();
        for seed in 0..3_000 {
            for number in [1, 2] {
                *seen
                    .entry(random_block(2, &[0, 1], number, seed))
                    .or_insert(0) += 1;
            }
        }
        assert_eq!(seen.len(), 6);
        assert!(
            seen.values().all(|count| (850..1_150).contains(count)),
            "{seen:?}"
        );
        let four = random_block(4, &[0, 1, 3], 5, 9);
        assert_eq!(four.len(), 6);
        assert!(!four.contains(&2));
        assert_eq!(four, random_block(4, &[0, 1, 3], 5, 9));
    }
}
