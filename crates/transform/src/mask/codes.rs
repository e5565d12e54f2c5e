//! Masks UUIDs, network addresses, hexadecimal digits, bytes and bits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::key::{Domain, MaskKey};

/// Masks a UUID. Its version and variant stay; all other bits are permuted.
pub(super) fn mask_uuid_bytes(key: &MaskKey, bytes: [u8; 16]) -> [u8; 16] {
    let number = u128::from_be_bytes(bytes);
    if number == 0 || number == u128::MAX {
        return bytes;
    }
    const VERSION: u128 = 0xf << 76;
    const VARIANT: u128 = 0x3 << 62;
    let fixed = number & (VERSION | VARIANT);
    let free = (number >> 80) << 74 | ((number >> 64) & 0xfff) << 62 | number & ((1 << 62) - 1);
    let tweak = (fixed >> 64) as u64 | (fixed as u64);
    let free = key.permute(Domain::Uuid, tweak, 1 << 122, free);
    let moved = (free >> 74) << 80 | ((free >> 62) & 0xfff) << 64 | free & ((1 << 62) - 1);
    (fixed | moved).to_be_bytes()
}

/// Masks a UUID as written: with or without hyphens, in braces, in either case.
pub(super) fn mask_uuid(key: &MaskKey, text: &str, out: &mut String) -> bool {
    let inner = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'))
        .unwrap_or(text);
    let hyphens = inner.len() == 36
        && inner
            .bytes()
            .enumerate()
            .all(|(at, byte)| matches!(at, 8 | 13 | 18 | 23) == (byte == b'-'));
    if !hyphens && inner.len() != 32 {
        return false;
    }
    let digits: String = inner
        .chars()
        .filter(|character| *character != '-')
        .collect();
    // Digits only are a number; PostgreSQL would accept them for either type.
    if !hyphens && digits.bytes().all(|byte| byte.is_ascii_digit()) || !is_hex(&digits) {
        return false;
    }
    let Ok(number) = u128::from_str_radix(&digits, 16) else {
        return false;
    };
    let masked = u128::from_be_bytes(mask_uuid_bytes(key, number.to_be_bytes()));
    let upper = digits.bytes().any(|byte| byte.is_ascii_uppercase());
    let masked = match upper {
        true => format!("{masked:032X}"),
        false => format!("{masked:032x}"),
    };
    let mut masked = masked.chars();
    out.extend(text.chars().map(|character| match character {
        '-' | '{' | '}' => character,
        _ => masked.next().unwrap_or('0'),
    }));
    true
}

fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Masks an address or a network: addresses with a common prefix have one of the same length
/// afterwards (Xu, Fan, Ammar, Moon: "Prefix-preserving IP address anonymization"). Unspecified and
/// loopback addresses stay.
pub(super) fn mask_address(key: &MaskKey, text: &str, out: &mut String) -> bool {
    let (address, network) = match text.split_once('/') {
        Some((address, network)) => (address, Some(network)),
        None => (text, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else {
        return false;
    };
    let bits = match network.map(str::parse::<u32>) {
        None => u32::MAX,
        Some(Ok(bits)) => bits,
        Some(Err(_)) => return false,
    };
    out.push_str(&mask_ip(key, address, bits).to_string());
    if let Some(network) = network {
        out.push('/');
        out.push_str(network);
    }
    true
}

/// Masks an address. `network` is the length of its network's prefix: if all bits after it are 0,
/// they stay.
pub(super) fn mask_ip(key: &MaskKey, address: IpAddr, network: u32) -> IpAddr {
    if address.is_unspecified() || address.is_loopback() {
        return address;
    }
    match address {
        IpAddr::V4(address) => {
            let bits = u128::from(address.to_bits()) << 96;
            let masked = mask_prefix(key, 4, bits, 32, network);
            IpAddr::V4(Ipv4Addr::from_bits((masked >> 96) as u32))
        }
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(mask_prefix(
            key,
            6,
            address.to_bits(),
            128,
            network,
        ))),
    }
}

fn mask_prefix(key: &MaskKey, family: u64, bits: u128, length: u32, network: u32) -> u128 {
    let network = network.min(length);
    let after = bits.checked_shl(network).unwrap_or(0);
    let masked_bits = if after == 0 { network } else { length };
    let mut masked = bits;
    for bit in 0..masked_bits {
        let prefix = bits & !(u128::MAX >> bit);
        let tweak = family << 8 | u64::from(bit);
        let flip = key.hash(Domain::Address, tweak, &prefix.to_be_bytes()) & 1;
        masked ^= u128::from(flip) << (127 - bit);
    }
    masked
}

/// Masks text of hexadecimal digits and separators only, with digits as well as letters: checksums,
/// hardware addresses. Returns false for other text.
pub(super) fn mask_hex(key: &MaskKey, text: &str, out: &mut String) -> bool {
    let hex = |byte: &u8| byte.is_ascii_hexdigit();
    let letters = text.bytes().any(|byte| byte.is_ascii_alphabetic());
    let digits = text.bytes().any(|byte| byte.is_ascii_digit());
    let separated = text.len() >= 17
        && (text.len() + 1).is_multiple_of(3)
        && text.bytes().enumerate().all(|(at, byte)| match at % 3 {
            2 => matches!(byte, b':' | b'-'),
            _ => hex(&byte),
        });
    // At least as long as a checksum: shorter ones may be words.
    let whole = text.len() >= 32 && text.bytes().all(|byte| hex(&byte)) && letters && digits;
    if !separated && !whole {
        return false;
    }
    let folded: String = text
        .chars()
        .filter(char::is_ascii_hexdigit)
        .map(|digit| digit.to_ascii_lowercase())
        .collect();
    let mut masked = mask_nibbles(key, &folded).into_iter();
    let upper = text.bytes().any(|byte| byte.is_ascii_uppercase());
    out.extend(text.chars().map(|character| match character {
        ':' | '-' => character,
        _ => {
            let digit = masked.next().unwrap_or('0');
            if upper {
                digit.to_ascii_uppercase()
            } else {
                digit
            }
        }
    }));
    true
}

fn mask_nibbles(key: &MaskKey, digits: &str) -> Vec<char> {
    let length = digits.len();
    match u128::from_str_radix(digits, 16) {
        Ok(number) if length < 32 => {
            let masked = key.permute(Domain::Hex, length as u64, 1 << (4 * length), number);
            format!("{masked:0length$x}").chars().collect()
        }
        _ => {
            let seed = key.hash(Domain::Hex, length as u64, digits.as_bytes());
            let digit = |byte| char::from_digit(u32::from(byte) & 15, 16).unwrap_or('0');
            key.stream(Domain::Hex, seed)
                .take(length)
                .map(digit)
                .collect()
        }
    }
}

/// Replaces bytes by the same number of bytes.
pub(super) fn mask_bytes(key: &MaskKey, bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len();
    if (1..=15).contains(&length) {
        let mut wide = [0; 16];
        wide[16 - length..].copy_from_slice(bytes);
        let number = u128::from_be_bytes(wide);
        let masked = key.permute(Domain::Bytes, length as u64, 1 << (8 * length), number);
        return masked.to_be_bytes()[16 - length..].to_vec();
    }
    let seed = key.hash(Domain::Bytes, length as u64, bytes);
    key.stream(Domain::Bytes, seed).take(length).collect()
}

/// Masks `\x68656c6c6f`, the text form of bytea. Returns false for other text.
pub(super) fn mask_bytea(key: &MaskKey, text: &str, out: &mut String) -> bool {
    let Some(digits) = text.strip_prefix("\\x") else {
        return false;
    };
    let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    if !digits.len().is_multiple_of(2) || !is_hex(digits) {
        return false;
    }
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    let Some(bytes) = bytes else {
        return false;
    };
    out.push_str("\\x");
    out.extend(
        mask_bytes(key, &bytes)
            .iter()
            .map(|byte| format!("{byte:02x}")),
    );
    true
}

/// Masks a string of bits, `0` and `1`; returns false for other text.
pub(super) fn mask_bits(key: &MaskKey, bits: &str, out: &mut String) -> bool {
    if !bits.bytes().all(|byte| matches!(byte, b'0' | b'1')) {
        return false;
    }
    // A single bit is a flag.
    let length = bits.len();
    match u128::from_str_radix(bits, 2) {
        _ if length <= 1 => out.push_str(bits),
        Ok(number) if length < 128 => {
            let masked = key.permute(Domain::Bits, length as u64, 1 << length, number);
            out.push_str(&format!("{masked:0length$b}"));
        }
        _ => {
            let seed = key.hash(Domain::Bits, length as u64, bits.as_bytes());
            let drawn = key.stream(Domain::Bits, seed).take(length);
            out.extend(drawn.map(|byte| if byte & 1 == 1 { '1' } else { '0' }));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> MaskKey {
        MaskKey::from_secret(b"a key for the tests")
    }

    fn masked(text: &str, by: fn(&MaskKey, &str, &mut String) -> bool) -> String {
        let mut out = String::new();
        assert!(by(&key(), text, &mut out), "{text}");
        out
    }

    #[test]
    fn a_uuid_keeps_its_version_variant_and_form() {
        let text = "6f1b8a3e-9c4d-4e2f-8a1b-0c2d3e4f5a6b";
        let one = masked(text, mask_uuid);
        assert_ne!(one, text);
        assert_eq!((&one[14..15], one.len()), ("4", 36));
        assert!(
            matches!(one.as_bytes()[19], b'8' | b'9' | b'a' | b'b'),
            "{one}"
        );
        let plain = masked(&text.replace('-', ""), mask_uuid);
        assert_eq!(one.replace('-', ""), plain);
        assert_eq!(masked(&text.to_uppercase(), mask_uuid), one.to_uppercase());
    }

    #[test]
    fn addresses_keep_their_networks() {
        let one = masked("10.1.2.3", mask_address);
        let near = masked("10.1.2.250", mask_address);
        let (one, near) = (
            one.rsplit_once('.').unwrap().0,
            near.rsplit_once('.').unwrap().0,
        );
        assert_eq!(one, near);
        let network = masked("10.1.2.0/24", mask_address);
        assert_eq!(network, format!("{one}.0/24"));
        assert_eq!(masked("127.0.0.1", mask_address), "127.0.0.1");
        assert_ne!(masked("2001:db8::17", mask_address), "2001:db8::17");
    }

    #[test]
    fn hexadecimal_stays_hexadecimal() {
        let mac = masked("08:00:2b:01:02:03", mask_hex);
        assert_eq!(mac.len(), 17);
        assert!(mac.split(':').all(is_hex), "{mac}");
        assert!(!mask_hex(&key(), "deadbeef", &mut String::new()));
        assert_eq!(masked("\\x00ff10", mask_bytea).len(), 8);
        assert_eq!(masked("0101", mask_bits).len(), 4);
    }

    proptest! {
        #[test]
        fn uuids_do_not_collide(one in any::<[u8; 16]>(), other in any::<[u8; 16]>()) {
            prop_assert_eq!(one == other, mask_uuid_bytes(&key(), one) == mask_uuid_bytes(&key(), other));
        }
    }
}
