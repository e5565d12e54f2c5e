//! A substring prefilter: searches for pairs of letters that the words have and other text seldom has.
//!
//! It serves searches that nearly every text fails. It compares many bytes at once without a branch, which a
//! search for the words cannot do. A text that passes must still be searched for the words.

/// Number of pairs compared at once, the bytes of a vector register.
const BLOCK: usize = 16;
/// Number of blocks compared between two checks for a match.
const BLOCKS: usize = 8;

/// Returns whether a text may contain one of these pairs of lower-case letters, in any case. False positives are
/// possible, false negatives are not.
#[inline]
pub fn may_have_pair<const N: usize>(text: &[u8], mut pairs: [[u8; 2]; N]) -> bool {
    // Ignoring the case bit of letters ignores the same bit of some other characters. `array::map` would not be
    // inlined, and cost as much as the search.
    for [first, second] in &mut pairs {
        *first |= 0x20;
        *second |= 0x20;
    }
    let Some(last) = text.len().checked_sub(BLOCK + 1) else {
        return text.windows(2).any(|found| {
            let found = [found[0] | 0x20, found[1] | 0x20];
            pairs.contains(&found)
        });
    };
    let mut from = 0;
    while from < last {
        let mut found = 0;
        for _ in 0..BLOCKS {
            // The last block overlaps the one before it.
            found |= in_block(text, from.min(last), &pairs);
            from += BLOCK;
            if from >= last {
                break;
            }
        }
        if found != 0 {
            return true;
        }
    }
    in_block(text, last, &pairs) != 0
}

/// Returns non-zero if a pair begins within a block. It has no branch, so that the bytes are compared together.
#[inline]
fn in_block<const N: usize>(text: &[u8], from: usize, pairs: &[[u8; 2]; N]) -> u8 {
    let (mut firsts, mut seconds) = ([0; BLOCK], [0; BLOCK]);
    firsts.copy_from_slice(&text[from..from + BLOCK]);
    seconds.copy_from_slice(&text[from + 1..from + 1 + BLOCK]);
    let mut found = [0; BLOCK];
    for at in 0..BLOCK {
        let (first, second) = (firsts[at] | 0x20, seconds[at] | 0x20);
        for pair in pairs {
            found[at] |= u8::from(first == pair[0]) & u8::from(second == pair[1]);
        }
    }
    found.iter().fold(0, |all, found| all | found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prefilter_finds_a_pair_at_any_offset(
            before in "[a-fA-F ]{0,40}|[a-f ]{100,600}",
            pair in "[xX][yY]|//|_[zZ]",
            suffix in "[a-fA-F ]{0,40}|[a-f ]{100,600}",
        ) {
            let pairs = [*b"xy", *b"//", *b"_z"];
            let nothing = before.clone() + &suffix;
            prop_assert!(!may_have_pair(nothing.as_bytes(), pairs));
            let text = before + &pair + &suffix;
            prop_assert!(may_have_pair(text.as_bytes(), pairs));
        }
    }
}
