//! Searches bytes and parses numbers eight bytes at a time: matches in a log's line are near, so a
//! call of `memchr` costs more than the search.
//!
//! Sources: S. E. Anderson, "Bit Twiddling Hacks" (a zero byte in a word), and D. Lemire, "Quickly
//! parsing eight digits" (2018). All words are little-endian, so the first byte is the lowest.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Returns the eight bytes at `at`, if there are as many.
#[inline(always)]
pub(super) fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|chunk| u64::from_le_bytes(*chunk))
}

/// Returns the first position of `wanted` from `from` on, which is expected near.
#[inline(always)]
pub(super) fn find_near(bytes: &[u8], from: usize, wanted: u8) -> Option<usize> {
    let pattern = u64::from(wanted) * ONES;
    let mut at = from;
    while let Some(word) = word_at(bytes, at) {
        let differs = word ^ pattern;
        let zeros = differs.wrapping_sub(ONES) & !differs & HIGHS;
        if zeros != 0 {
            return Some(at + zeros.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    bytes
        .get(at..)?
        .iter()
        .position(|byte| *byte == wanted)
        .map(|found| at + found)
}

/// Returns the first quote, backslash or control character of a JSON string from `from` on: its
/// end, or a byte that needs decoding.
#[inline]
pub(super) fn string_end(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(word) = word_at(bytes, at) {
        let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
        let quote = zeros(word ^ (u64::from(b'"') * ONES));
        let escape = zeros(word ^ (u64::from(b'\\') * ONES));
        let control = word.wrapping_sub(0x20 * ONES) & !word & HIGHS;
        let found = quote | escape | control;
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    bytes
        .get(at..)?
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))
        .map(|found| at + found)
}

/// Returns the first position of `wanted` from `from` on, near or far.
#[inline]
pub(super) fn find(bytes: &[u8], from: usize, wanted: u8) -> Option<usize> {
    let near = bytes.len().min(from + 32);
    match find_near(&bytes[..near], from, wanted) {
        None if near < bytes.len() => {
            memchr::memchr(wanted, &bytes[near..]).map(|found| near + found)
        }
        found => found,
    }
}

/// Parses the decimal number at the start of `text`; also returns its number of digits. `None` if
/// there is none, or it has more than 19 digits, which no number of the server's has.
#[inline(always)]
pub(super) fn parse_number(text: &[u8]) -> Option<(u64, usize)> {
    if let Some(word) = word_at(text, 0) {
        let digits = word ^ (0x30 * ONES);
        // Bits of bytes after the first non-digit are undefined, and unused.
        let others = (digits.wrapping_add(0x76 * ONES) | digits) & HIGHS;
        if others != 0 {
            let length = others.trailing_zeros() as usize / 8;
            if length == 0 {
                return None;
            }
            let value = digits << (64 - 8 * length);
            let value = (value.wrapping_mul(2_561) >> 8) & 0x00ff_00ff_00ff_00ff;
            let value = (value.wrapping_mul(6_553_601) >> 16) & 0x0000_ffff_0000_ffff;
            let value = value.wrapping_mul(42_949_672_960_001) >> 32;
            return Some((value, length));
        }
    }
    parse_long_number(text)
}

#[inline(never)]
fn parse_long_number(text: &[u8]) -> Option<(u64, usize)> {
    let (mut value, mut length) = (0u64, 0);
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        if length == 19 {
            return None;
        }
        value = value * 10 + u64::from(digit);
        length += 1;
    }
    (length > 0).then_some((value, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_is_what_the_standard_library_reads(
            value in any::<u64>(), shift in 0u32..64, rest in "([^0-9].*)?"
        ) {
            let digits = (value >> shift).to_string();
            let text = format!("{digits}{rest}");
            let expected = (digits.len() < 20).then(|| (value >> shift, digits.len()));
            prop_assert_eq!(parse_number(text.as_bytes()), expected);
            prop_assert_eq!(parse_number(rest.as_bytes()), None);
        }

        #[test]
        fn what_is_found_is_the_first(bytes in prop::collection::vec(0u8..4, 0..40), from in 0usize..44) {
            let expected = bytes.iter().enumerate().skip(from).find(|(_, byte)| **byte == 2);
            prop_assert_eq!(find_near(&bytes, from, 2), expected.map(|(at, _)| at));
            let high: Vec<u8> = bytes.iter().map(|byte| byte | 0x80).collect();
            prop_assert_eq!(find_near(&high, from, 0x82), expected.map(|(at, _)| at));
        }
    }
}
