//! Whether a text may have one of a few words, told by pairs of letters that stand in them and seldom elsewhere.
//!
//! Who drives: whoever looks for words in every text, of which nearly none has one. All of a text is compared without a
//! branch, many bytes at once, where going through it for the words takes some cycles a byte. Deliberately absent: the
//! words. Where a pair is found, they have to be looked for.

/// So many bytes are compared before it is asked whether a pair was among them.
const STRIDE_BYTES: usize = 256;

/// Whether one of these pairs stands in a text, letters in any case. Pairs are given in lower case. It may say so of a
/// text that has none of them, never the other way round.
#[inline]
pub fn may_have_pair<const N: usize>(text: &[u8], pairs: [[u8; 2]; N]) -> bool {
    // As of upper and lower case letters, one bit of some other characters is passed over.
    let pairs = pairs.map(|pair| pair.map(|byte| byte | 0x20));
    let mut from = 0;
    while from + 1 < text.len() {
        let until = (from + STRIDE_BYTES).min(text.len());
        // The last byte of a stride is the first of a pair in the next one as well.
        let (firsts, seconds) = (&text[from..until - 1], &text[from + 1..until]);
        let found = firsts
            .iter()
            .zip(seconds)
            .fold(false, |found, (first, second)| {
                let (first, second) = (first | 0x20, second | 0x20);
                let is = |pair: &[u8; 2]| (first == pair[0]) & (second == pair[1]);
                found | pairs.iter().fold(false, |found, pair| found | is(pair))
            });
        if found {
            return true;
        }
        from = until - 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pair_is_found_wherever_it_stands(
            before in "[a-fA-F ]{0,600}", pair in "[xX][yY]|//|_[zZ]", behind in "[a-fA-F ]{0,600}",
        ) {
            let pairs = [*b"xy", *b"//", *b"_z"];
            let nothing = before.clone() + &behind;
            prop_assert!(!may_have_pair(nothing.as_bytes(), pairs));
            let text = before + &pair + &behind;
            prop_assert!(may_have_pair(text.as_bytes(), pairs));
        }
    }
}
