//! Bech32 (BIP 173), in which age writes keys.

const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const CHECKSUM_LENGTH: usize = 6;

fn polymod(values: impl Iterator<Item = u8>) -> u32 {
    const GENERATOR: [u32; 5] = [
        0x3b6a_57b2,
        0x2650_8e6d,
        0x1ea1_19fa,
        0x3d42_33dd,
        0x2a14_62b3,
    ];
    values.fold(1u32, |checksum, value| {
        let top = checksum >> 25;
        let shifted = (checksum & 0x1ff_ffff) << 5 ^ u32::from(value);
        GENERATOR.iter().enumerate().fold(
            shifted,
            |sum, (bit, by)| if top >> bit & 1 == 1 { sum ^ by } else { sum },
        )
    })
}

fn expanded(prefix: &str) -> impl Iterator<Item = u8> + '_ {
    let high = prefix.bytes().map(|byte| byte >> 5);
    high.chain([0]).chain(prefix.bytes().map(|byte| byte & 31))
}

/// 32 bytes behind a prefix in lower case.
pub(super) fn encode(prefix: &str, bytes: &[u8; 32]) -> String {
    let mut groups = Vec::new();
    let (mut bits, mut held) = (0u32, 0);
    for byte in bytes {
        bits = bits << 8 | u32::from(*byte);
        held += 8;
        while held >= 5 {
            held -= 5;
            groups.push((bits >> held & 31) as u8);
        }
    }
    groups.push((bits << (5 - held) & 31) as u8);
    let padded = expanded(prefix)
        .chain(groups.iter().copied())
        .chain([0; CHECKSUM_LENGTH]);
    let checksum = polymod(padded) ^ 1;
    groups.extend((0..CHECKSUM_LENGTH).map(|place| (checksum >> (5 * (5 - place)) & 31) as u8));
    let letters = groups
        .iter()
        .map(|group| char::from(ALPHABET[usize::from(*group)]));
    format!("{prefix}1{}", letters.collect::<String>())
}

/// The 32 bytes behind this prefix; `None` where the text is something else.
pub(super) fn decode(prefix: &str, text: &str) -> Option<[u8; 32]> {
    if text.bytes().any(|byte| byte.is_ascii_lowercase())
        && text.bytes().any(|byte| byte.is_ascii_uppercase())
    {
        return None;
    }
    let text = text.to_ascii_lowercase();
    let data = text.strip_prefix(prefix)?.strip_prefix('1')?;
    let groups: Option<Vec<u8>> = data
        .bytes()
        .map(|byte| {
            ALPHABET
                .iter()
                .position(|letter| *letter == byte)
                .map(|at| at as u8)
        })
        .collect();
    let groups = groups?;
    if polymod(expanded(prefix).chain(groups.iter().copied())) != 1 {
        return None;
    }
    let (mut bits, mut held, mut bytes) = (0u32, 0, Vec::new());
    for group in &groups[..groups.len().checked_sub(CHECKSUM_LENGTH)?] {
        bits = bits << 5 | u32::from(*group);
        held += 5;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    let padding_is_zero = bits & ((1 << held) - 1) == 0;
    padding_is_zero.then(|| bytes.try_into().ok())?
}
