//! Defines the key of a mask, a keyed hash, and keyed permutations of small sets.

use std::fmt;
use std::hash::Hasher;

use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher24;

/// Number of hexadecimal digits in a key file: 256 bits. A password, or a file with another
/// purpose, could be guessed from its fingerprint.
const KEY_DIGITS: usize = 64;
/// Number of rounds. A Feistel network of four rounds is a pseudo-random permutation (Luby and
/// Rackoff); small sets need more.
const ROUNDS: u8 = 8;

/// Key of a mask. A person who has it can find masked values by trying candidates.
#[derive(Clone)]
pub struct MaskKey {
    keys: (u64, u64),
    fingerprint: String,
}

impl fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MaskKey({})", self.fingerprint)
    }
}

/// Error of a content that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this is no key for masking, which has {KEY_DIGITS} hexadecimal digits in small letters and nothing else; {}make one with `rehearse mask key FILE`",
    match .digits {
        Some(digits) => format!("this has {digits}; "),
        None => String::new(),
    }
)]
pub struct InvalidMaskKey {
    /// Number of hexadecimal digits, if the content has nothing else, apart from surrounding white
    /// space.
    pub digits: Option<usize>,
}

impl MaskKey {
    /// Parses the content of a key file, ignoring surrounding white space.
    ///
    /// # Errors
    /// If it is not in the format of [`MaskKey`]s.
    pub fn parse(content: &[u8]) -> Result<Self, InvalidMaskKey> {
        let content = content.trim_ascii();
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match (content.len(), content.iter().all(is_digit)) {
            (KEY_DIGITS, true) => Ok(MaskKey::from_secret(content)),
            (digits, only) => Err(InvalidMaskKey {
                digits: (only && digits > 0).then_some(digits),
            }),
        }
    }

    /// Derives a key from any secret.
    pub(super) fn from_secret(secret: &[u8]) -> Self {
        let derive = |label: &[u8]| {
            let mut hash = Sha256::new();
            hash.update(label);
            hash.update(secret);
            hash.finalize()
        };
        let key = derive(b"rehearse mask key 1\n");
        let word =
            |from: usize| u64::from_le_bytes(key[from..from + 8].try_into().expect("eight bytes"));
        let fingerprint = derive(b"rehearse mask fingerprint 1\n");
        MaskKey {
            keys: (word(0), word(8)),
            fingerprint: fingerprint[..8]
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        }
    }

    /// Identifies the key without revealing it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Hashes a text in a domain with the key (SipHash-2-4, a pseudo-random function of 128-bit
    /// keys).
    pub(super) fn hash(&self, domain: Domain, tweak: u64, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.keys.0, self.keys.1);
        hasher.write_u8(domain as u8);
        hasher.write_u64(tweak);
        hasher.write(bytes);
        hasher.finish()
    }

    /// Permutes the numbers below `size`, differently for each domain and tweak. Other numbers
    /// stay.
    pub(super) fn permute(&self, domain: Domain, tweak: u64, size: u128, number: u128) -> u128 {
        if size <= 1 || number >= size {
            return number;
        }
        let bits = 128 - (size - 1).leading_zeros();
        let low_bits = bits / 2;
        let mut walked = number;
        // The network permutes the numbers of this number of bits. Numbers outside the set are
        // permuted again (cycle walking), which gives a permutation of the set. At most about half
        // of all are outside.
        loop {
            walked = self.feistel(domain, tweak, (bits - low_bits, low_bits), walked);
            if walked < size {
                return walked;
            }
        }
    }

    fn feistel(
        &self,
        domain: Domain,
        tweak: u64,
        (high_bits, low_bits): (u32, u32),
        number: u128,
    ) -> u128 {
        let mask = |bits: u32| (1u128 << bits) - 1;
        let (mut high, mut low) = (number >> low_bits, number & mask(low_bits));
        for round in 0..ROUNDS {
            // Each half is changed in turn by a hash of the other, so that they may differ in
            // size.
            let (changed, by, bits) = match round % 2 {
                0 => (&mut high, low, high_bits),
                _ => (&mut low, high, low_bits),
            };
            let mut hasher = SipHasher24::new_with_keys(self.keys.0, self.keys.1);
            hasher.write_u8(domain as u8);
            hasher.write_u64(tweak);
            hasher.write_u8(round);
            hasher.write_u32(bits);
            hasher.write_u128(by);
            *changed ^= u128::from(hasher.finish()) & mask(bits);
        }
        (high << low_bits) | low
    }

    /// Returns an unlimited stream of pseudo-random bytes.
    pub(super) fn stream(&self, domain: Domain, seed: u64) -> impl Iterator<Item = u8> + '_ {
        (0u64..).flat_map(move |block| self.hash(domain, seed, &block.to_le_bytes()).to_le_bytes())
    }
}

/// Domain of a value: masked values of different domains are independent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Domain {
    Integer = 1,
    Fraction,
    Digits,
    Day,
    Time,
    Word,
    LongWord,
    Uuid,
    Address,
    Hex,
    Bytes,
    Bits,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn small_sets_are_permuted_and_keys_differ() {
        let one = MaskKey::from_secret(b"0123456789abcdef");
        let other = MaskKey::from_secret(b"0123456789abcdeF");
        assert_ne!(one.fingerprint(), other.fingerprint());
        for size in [1, 2, 3, 9, 23, 59, 90, 900, 22_768] {
            let of = |key: &MaskKey| -> Vec<u128> {
                (0..size)
                    .map(|number| key.permute(Domain::Integer, 7, size, number))
                    .collect()
            };
            let permuted = of(&one);
            assert!(permuted.iter().all(|number| *number < size));
            assert_eq!(permuted.iter().collect::<HashSet<_>>().len() as u128, size);
            if size > 20 {
                assert_ne!(permuted, of(&other), "{size}");
                let fixed = (0..size).filter(|at| permuted[*at as usize] == *at).count();
                assert!(fixed < 12, "{fixed} of {size} stay");
            }
        }
    }

    #[test]
    fn a_key_is_what_is_written_as_one() {
        let digits = "0123456789abcdef".repeat(4);
        let key = MaskKey::parse(format!("{digits}\n").as_bytes()).unwrap();
        assert_eq!(
            key.fingerprint(),
            MaskKey::from_secret(digits.as_bytes()).fingerprint()
        );
        for (content, found) in [
            (String::new(), None),
            (" \n".to_owned(), None),
            ("0123456789abcdef".to_owned(), Some(16)),
            (digits[1..].to_owned(), Some(63)),
            (format!("{digits}0"), Some(65)),
            (digits.to_uppercase(), None),
            (digits.replace('7', "g"), None),
            (
                "a sentence of a person, or a file of any kind".to_owned(),
                None,
            ),
        ] {
            let refused = MaskKey::parse(content.as_bytes()).unwrap_err();
            assert_eq!(refused.digits, found, "{content}");
        }
    }
}
