//! Whether a text may have one of a few words, told by pairs of letters that stand in them and seldom elsewhere.
//!
//! Who drives: whoever looks for words in every text, of which nearly none has one. All of a text is compared without a
//! branch, many bytes at once, where going through it for the words takes some cycles a byte. Deliberately absent: the
//! words. Where a pair is found, they have to be looked for.

/// So many pairs are compared at once: a processor's register of bytes.
const BLOCK: usize = 16;
/// So many blocks are compared before it is asked whether a pair was among them.
const BLOCKS: usize = 8;

/// Whether one of these pairs stands in a text, letters in any case. Pairs are given in lower case. It may say so of a
/// text that has none of them, never the other way round.
#[inline]
pub fn may_have_pair<const N: usize>(text: &[u8], pairs: [[u8; 2]; N]) -> bool {
    // As of upper and lower case letters, one bit of some other characters is passed over.
    let pairs = pairs.map(|pair| pair.map(|byte| byte | 0x20));
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
            // What is left is compared with some of what was before it.
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

/// Whether one begins within a block. Without a branch, so that its bytes are compared together.
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
        fn a_pair_is_found_wherever_it_stands(
            before in "[a-fA-F ]{0,40}|[a-f ]{100,600}",
            pair in "[xX][yY]|//|_[zZ]",
            behind in "[a-fA-F ]{0,40}|[a-f ]{100,600}",
        ) {
            let pairs = [*b"xy", *b"//", *b"_z"];
            let nothing = before.clone() + &behind;
            prop_assert!(!may_have_pair(nothing.as_bytes(), pairs));
            let text = before + &pair + &behind;
            prop_assert!(may_have_pair(text.as_bytes(), pairs));
        }
    }
}
