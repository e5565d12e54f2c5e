//! In which order the sides of a block are run.

use analyse::SplitMix64;

use crate::order::shuffled;

/// The sides of a block (from 1), those that are still of interest: in an order of chance, and back
/// again. Of each two blocks, the second begins with what the first has in its middle.
pub(super) fn block(sides: usize, active: &[usize], number: u32, seed: u64) -> Vec<usize> {
    let couple = u64::from((number.max(1) - 1) / 2);
    // By a number of its own, so that it does not hang on how many sides earlier blocks had.
    let mut random = SplitMix64::new(seed ^ couple.wrapping_mul(0xd129_0d3b_3a2c_1f65));
    let mut there: Vec<usize> = shuffled(sides, &mut random)
        .into_iter()
        .filter(|side| active.contains(side))
        .collect();
    if number.is_multiple_of(2) {
        there.reverse();
    }
    let back: Vec<usize> = there.iter().rev().copied().collect();
    there.extend(back);
    there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_its_own_mirror_and_each_second_one_turned_round() {
        let mut first = [0; 2];
        for seed in 0..200 {
            let one = block(2, &[0, 1], 1, seed);
            assert!(one == [0, 1, 1, 0] || one == [1, 0, 0, 1], "{one:?}");
            let other = block(2, &[0, 1], 2, seed);
            assert_eq!(other, one.iter().map(|side| 1 - side).collect::<Vec<_>>());
            first[one[0]] += 1;
        }
        assert!(first.iter().all(|&count| count > 70), "{first:?}");
        let four = block(4, &[0, 1, 3], 5, 9);
        assert_eq!(four.len(), 6);
        assert!(!four.contains(&2));
        let mirror: Vec<usize> = four.iter().rev().copied().collect();
        assert_eq!(four, mirror);
        assert_eq!(four, block(4, &[0, 1, 3], 5, 9));
    }
}
