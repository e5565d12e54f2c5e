//! In which order trials are done, by chance and yet the same for the same seed.
//!
//! What drifts while an experiment runs (a machine that warms up, a neighbour that comes and goes)
//! must not fall on one level of a factor alone: each repetition is a block in which every
//! combination comes once, in an order of its own (a randomised complete block design; Fisher, "The
//! Design of Experiments", 1935).

use analyse::SplitMix64;

/// For each block, the numbers below `count` in an order of chance.
pub fn in_blocks(count: usize, blocks: u32, seed: u64) -> Vec<Vec<usize>> {
    let mut random = SplitMix64::new(seed);
    (0..blocks).map(|_| shuffled(count, &mut random)).collect()
}

/// Blocks of two conditions for a comparison, each `[A, B, B, A]` or `[B, A, A, B]` by chance, where
/// `false` is A: what drifts evenly within a block falls on both alike. Of each two blocks one is the one and one
/// the other.
pub fn pairs(blocks: u32, seed: u64) -> Vec<[bool; 4]> {
    let mut random = SplitMix64::new(seed);
    let mut all = Vec::new();
    while all.len() < blocks as usize {
        let first = random.below(2) == 1;
        for second in [first, !first] {
            all.push([second, !second, !second, second]);
        }
    }
    all.truncate(blocks as usize);
    all
}

/// By Fisher and Yates, in the form of Durstenfeld (1964).
pub(crate) fn shuffled(count: usize, random: &mut SplitMix64) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        all.swap(last, random.below(last as u64 + 1) as usize);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_block_has_everything_once_and_an_order_of_its_own() {
        let blocks = in_blocks(8, 50, 7);
        let all: Vec<usize> = (0..8).collect();
        for block in &blocks {
            let mut sorted = block.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, all);
        }
        let different: BTreeSet<_> = blocks.iter().collect();
        assert!(different.len() > 45);
        assert_eq!(blocks, in_blocks(8, 50, 7));
        assert_ne!(blocks, in_blocks(8, 50, 8));
    }

    #[test]
    fn every_order_comes_about_equally_often() {
        let mut seen = std::collections::BTreeMap::new();
        for block in in_blocks(3, 12_000, 1) {
            *seen.entry(block).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(
            seen.values().all(|count| (1_850..2_150).contains(count)),
            "{seen:?}"
        );
    }

    #[test]
    fn pairs_are_balanced_within_and_over_blocks() {
        let blocks = pairs(40, 3);
        assert_eq!(blocks.len(), 40);
        for [a, b, c, d] in &blocks {
            assert_eq!((a, b), (d, c));
            assert_ne!(a, b);
        }
        assert_eq!(blocks.iter().filter(|block| block[0]).count(), 20);
        assert_eq!(pairs(3, 3), blocks[..3]);
    }
}
