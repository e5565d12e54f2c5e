//! Masks values in the binary form of their type: they are converted to text, masked, and converted
//! back.
//!
//! Formats: the `…send` functions in PostgreSQL's `src/backend/utils/adt`; OIDs: `pg_type.dat`.

use std::net::IpAddr;

use super::Mask;
use super::calendar::{mask_days, mask_time, mask_timestamp};
use super::codes::{mask_bits, mask_bytes, mask_hex, mask_ip, mask_uuid_bytes};
use super::key::MaskKey;
use super::outcome::MaskOutcome;
use workload::{FIRST_USER_OID, KeepReason};

/// PostgreSQL's epoch, 2000-01-01, in days since 1970-01-01.
const EPOCH_DAYS: i64 = 10_957;
const DAY_US: i64 = 86_400_000_000;

impl Mask {
    /// Masks a value in binary form; `oid` is its type, 0 if unknown.
    pub(super) fn mask_binary(&self, oid: u32, bytes: &[u8]) -> (Vec<u8>, MaskOutcome) {
        if oid != 0
            && let Some(masked) = self.mask_known(oid, bytes)
        {
            return masked;
        }
        if let Some(masked) = self.mask_array(bytes) {
            return (masked, MaskOutcome::Masked);
        }
        let guess = match oid {
            0 | FIRST_USER_OID.. => self.mask_guessed(bytes),
            _ => None,
        };
        match guess {
            Some((masked, MaskOutcome::Masked)) => (masked, MaskOutcome::Guessed),
            Some(kept) => kept,
            None if bytes.is_empty() => (Vec::new(), MaskOutcome::Kept(KeepReason::Small)),
            None => (mask_bytes(&self.key, bytes), MaskOutcome::Opaque),
        }
    }

    /// Masks bytes of an unknown type by their appearance.
    fn mask_guessed(&self, bytes: &[u8]) -> Option<(Vec<u8>, MaskOutcome)> {
        const BOOL: u32 = 16;
        const INT8: u32 = 20;
        const INT2: u32 = 21;
        const INT4: u32 = 23;
        const FLOAT8: u32 = 701;
        const TIMESTAMP: u32 = 1114;
        const UUID: u32 = 2950;
        const NUMERIC: u32 = 1700;
        let printable = |text: &&str| {
            !text
                .chars()
                .any(|character| character.is_control() && !character.is_whitespace())
        };
        if let Some(text) = std::str::from_utf8(bytes).ok().filter(printable) {
            return Some(self.mask_text_bytes(text));
        }
        let oid = match bytes.len() {
            1 if bytes[0] <= 1 => BOOL,
            2 => INT2,
            4 => INT4,
            8 => match i64::from_be_bytes(bytes.try_into().ok()?) {
                // 2006 to 2050 in microseconds: times are more frequent than numbers of fifteen
                // digits.
                200_000_000_000_000..1_600_000_000_000_000 => TIMESTAMP,
                // Floats between about 1e-6 and 1e15, of either sign.
                0x3eb0_0000_0000_0000..0x4310_0000_0000_0000 => FLOAT8,
                low if (0xbeb0_0000_0000_0000..0xc310_0000_0000_0000).contains(&(low as u64)) => {
                    FLOAT8
                }
                _ => INT8,
            },
            16 => UUID,
            _ => NUMERIC,
        };
        self.mask_known(oid, bytes)
    }

    fn mask_text_bytes(&self, text: &str) -> (Vec<u8>, MaskOutcome) {
        let mut masked = String::with_capacity(text.len());
        let outcome = self.mask_value(text, &mut masked);
        (masked.into_bytes(), outcome)
    }

    /// Masks the text form of a value; returns the result and how it was masked.
    fn mask_written(&self, text: &str) -> (String, MaskOutcome) {
        let mut masked = String::with_capacity(text.len());
        let outcome = self.mask_value(text, &mut masked);
        (masked, outcome)
    }

    /// Masks a value of a known type. Returns `None` if the bytes are no value of the type, or the
    /// type is unknown here.
    fn mask_known(&self, oid: u32, bytes: &[u8]) -> Option<(Vec<u8>, MaskOutcome)> {
        let key = &self.key;
        match oid {
            // bool, "char"
            16 | 18 if bytes.len() == 1 => small(bytes),
            // bytea
            17 => masked(&mask_bytes(key, bytes)),
            // name, text, json, xml, unknown, bpchar, varchar
            19 | 25 | 114 | 142 | 705 | 1042 | 1043 => {
                Some(self.mask_text_bytes(std::str::from_utf8(bytes).ok()?))
            }
            // jsonb: its version comes first
            3802 => {
                let (version, text) = bytes.split_first()?;
                let (mut masked, outcome) = self.mask_text_bytes(std::str::from_utf8(text).ok()?);
                masked.insert(0, *version);
                Some((masked, outcome))
            }
            // int8, int2, int4, float4, float8, money, numeric
            20 | 21 | 23 | 700 | 701 | 790 | 1700 => self.mask_binary_number(oid, bytes),
            // oid and its aliases, xid, cid: the system's numbers
            24 | 26 | 28 | 29 | 2202..=2206 | 3734 | 3769 | 4089 | 4096 => {
                Some((bytes.to_vec(), MaskOutcome::Kept(KeepReason::Instruction)))
            }
            // macaddr, macaddr8
            774 | 829 if matches!(bytes.len(), 6 | 8) => {
                let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                let mut text = String::new();
                mask_hex(key, &pairs.join(":"), &mut text).then_some(())?;
                let byte = |pair: &str| u8::from_str_radix(pair, 16).ok();
                masked(&text.split(':').map(byte).collect::<Option<Vec<u8>>>()?)
            }
            // inet, cidr
            650 | 869 => mask_network(self, bytes).map(|bytes| (bytes, MaskOutcome::Masked)),
            // date, time, timestamp, timestamptz, interval, timetz
            1082 | 1083 | 1114 | 1184 | 1186 | 1266 => mask_binary_time(key, oid, bytes),
            // bit, varbit
            1560 | 1562 => mask_bit_string(self, bytes).map(|bytes| (bytes, MaskOutcome::Masked)),
            // uuid
            2950 => masked(&mask_uuid_bytes(key, bytes.try_into().ok()?)),
            _ => None,
        }
    }

    /// Masks a value of a numeric type.
    fn mask_binary_number(&self, oid: u32, bytes: &[u8]) -> Option<(Vec<u8>, MaskOutcome)> {
        match oid {
            // int8; money, in its smallest unit
            20 | 790 => {
                let number = i64::from_be_bytes(bytes.try_into().ok()?);
                let (text, outcome) = self.mask_written(&number.to_string());
                Some((text.parse::<i64>().ok()?.to_be_bytes().to_vec(), outcome))
            }
            // int2
            21 => {
                let number = i16::from_be_bytes(bytes.try_into().ok()?);
                let (text, outcome) = self.mask_written(&number.to_string());
                Some((text.parse::<i16>().ok()?.to_be_bytes().to_vec(), outcome))
            }
            // int4
            23 => {
                let number = i32::from_be_bytes(bytes.try_into().ok()?);
                let (text, outcome) = self.mask_written(&number.to_string());
                Some((text.parse::<i32>().ok()?.to_be_bytes().to_vec(), outcome))
            }
            // float4
            700 => {
                let number = f32::from_be_bytes(bytes.try_into().ok()?);
                let (text, outcome) = self.mask_written(&number.to_string());
                let masked = text.parse::<f32>().ok()?;
                (masked.is_finite() == number.is_finite())
                    .then(|| (masked.to_be_bytes().to_vec(), outcome))
            }
            // float8
            701 => {
                let number = f64::from_be_bytes(bytes.try_into().ok()?);
                let (text, outcome) = self.mask_written(&number.to_string());
                let masked = text.parse::<f64>().ok()?;
                (masked.is_finite() == number.is_finite())
                    .then(|| (masked.to_be_bytes().to_vec(), outcome))
            }
            // numeric
            1700 => {
                let (masked, outcome) = self.mask_written(&numeric::read(bytes)?);
                Some((numeric::write(&masked)?, outcome))
            }
            _ => None,
        }
    }

    /// Masks an array of known elements: dimensions, whether there are NULLs, the elements' type,
    /// each dimension with its lower bound, then each element after its length.
    fn mask_array(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let word = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let (dimensions, has_nulls, element) = (word(0)?, word(4)?, word(8)?);
        if dimensions > 6 || has_nulls > 1 || element == 0 {
            return None;
        }
        let mut at = 12 + 8 * dimensions as usize;
        let mut out = bytes.get(..at)?.to_vec();
        while at < bytes.len() {
            let length = word(at)?;
            at += 4;
            if length == u32::MAX {
                out.extend_from_slice(&length.to_be_bytes());
                continue;
            }
            let value = bytes.get(at..at.checked_add(length as usize)?)?;
            at += value.len();
            let masked = match element {
                FIRST_USER_OID.. => self.mask_guessed(value)?.0,
                _ => self.mask_known(element, value)?.0,
            };
            out.extend_from_slice(&u32::try_from(masked.len()).ok()?.to_be_bytes());
            out.extend_from_slice(&masked);
        }
        Some(out)
    }
}

/// Returns a value that is kept because it identifies nobody.
fn small(bytes: &[u8]) -> Option<(Vec<u8>, MaskOutcome)> {
    Some((bytes.to_vec(), MaskOutcome::Kept(KeepReason::Small)))
}

/// Returns a value that has been masked.
fn masked(bytes: &[u8]) -> Option<(Vec<u8>, MaskOutcome)> {
    Some((bytes.to_vec(), MaskOutcome::Masked))
}

/// Masks a date or time.
fn mask_binary_time(key: &MaskKey, oid: u32, bytes: &[u8]) -> Option<(Vec<u8>, MaskOutcome)> {
    let long = || Some(i64::from_be_bytes(bytes.try_into().ok()?));
    match oid {
        // date
        1082 => match i32::from_be_bytes(bytes.try_into().ok()?) {
            i32::MIN | i32::MAX => small(bytes),
            days => {
                let days = mask_days(key, i64::from(days) + EPOCH_DAYS) - EPOCH_DAYS;
                masked(&i32::try_from(days).ok()?.to_be_bytes())
            }
        },
        // time
        1083 => masked(&mask_time(key, long()?).to_be_bytes()),
        // timestamp, timestamptz
        1114 | 1184 => match long()? {
            i64::MIN | i64::MAX => small(bytes),
            at_us => {
                let epoch_us = EPOCH_DAYS * DAY_US;
                let at_us = mask_timestamp(key, at_us.checked_add(epoch_us)?) - epoch_us;
                masked(&at_us.to_be_bytes())
            }
        },
        // interval
        1186 => Some((bytes.to_vec(), MaskOutcome::Kept(KeepReason::Interval))),
        // timetz: the zone counts westwards
        1266 => {
            let (time, zone) = bytes.split_at_checked(8)?;
            let west_us = i64::from(i32::from_be_bytes(zone.try_into().ok()?)) * 1_000_000;
            let time_us = i64::from_be_bytes(time.try_into().ok()?);
            let utc = mask_time(key, (time_us.checked_add(west_us)?).rem_euclid(DAY_US));
            let mut moved = (utc - west_us).rem_euclid(DAY_US).to_be_bytes().to_vec();
            moved.extend_from_slice(zone);
            masked(&moved)
        }
        _ => None,
    }
}

/// Masks an address: family (2 or 3), bits of the network, whether it is a cidr, length, address.
fn mask_network(mask: &Mask, bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, address) = bytes.split_at_checked(4)?;
    let ip = match address.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(address).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
        _ => return None,
    };
    let mut out = head.to_vec();
    match mask_ip(&mask.key, ip, head[1].into()) {
        IpAddr::V4(ip) => out.extend(ip.octets()),
        IpAddr::V6(ip) => out.extend(ip.octets()),
    }
    Some(out)
}

/// Masks a bit string: the number of bits, and the bits, the first in the most significant
/// position.
fn mask_bit_string(mask: &Mask, bytes: &[u8]) -> Option<Vec<u8>> {
    let (head, bits) = bytes.split_at_checked(4)?;
    let length = u32::from_be_bytes(head.try_into().ok()?) as usize;
    if bits.len() != length.div_ceil(8) {
        return None;
    }
    let text: String = bits.iter().map(|byte| format!("{byte:08b}")).collect();
    let mut masked = String::new();
    mask_bits(&mask.key, &text[..length], &mut masked);
    let mut out = head.to_vec();
    for byte in masked.as_bytes().chunks(8) {
        let set = byte.iter().enumerate().filter(|(_, bit)| **bit == b'1');
        out.push(set.map(|(place, _)| 0x80 >> place).sum());
    }
    Some(out)
}

/// Converts numeric: groups of four digits; their number, the power of 10000 of the first, the
/// sign, and the number of displayed digits after the point.
mod numeric {
    const NEGATIVE: u16 = 0x4000;

    pub(super) fn read(bytes: &[u8]) -> Option<String> {
        let word = |at: usize| {
            Some(u16::from_be_bytes(
                bytes.get(2 * at..2 * at + 2)?.try_into().ok()?,
            ))
        };
        let (count, weight, sign, scale) = (
            word(0)? as usize,
            word(1)? as i16,
            word(2)?,
            word(3)? as usize,
        );
        if bytes.len() != 8 + 2 * count || !matches!(sign, 0 | NEGATIVE) || scale > 16_383 {
            return match (bytes.len(), sign) {
                (8, 0xc000) => Some("NaN".to_owned()),
                (8, 0xd000) => Some("Infinity".to_owned()),
                (8, 0xf000) => Some("-Infinity".to_owned()),
                _ => None,
            };
        }
        let group = |power: i32| -> Option<u16> {
            match usize::try_from(i32::from(weight) - power) {
                Ok(at) if at < count => word(4 + at).filter(|group| *group < 10_000),
                _ => Some(0),
            }
        };
        let mut text = String::new();
        for power in (0..=i32::from(weight).max(0)).rev() {
            text.push_str(&format!("{:04}", group(power)?));
        }
        let whole = text.trim_start_matches('0');
        let mut text = match whole {
            "" => "0".to_owned(),
            whole => whole.to_owned(),
        };
        if scale > 0 {
            text.push('.');
            let point = text.len();
            for power in 1..=scale.div_ceil(4) as i32 {
                text.push_str(&format!("{:04}", group(-power)?));
            }
            text.truncate(point + scale);
        }
        if sign == NEGATIVE {
            text.insert(0, '-');
        }
        Some(text)
    }

    pub(super) fn write(text: &str) -> Option<Vec<u8>> {
        let special: Option<u16> = match text {
            "NaN" => Some(0xc000),
            "Infinity" => Some(0xd000),
            "-Infinity" => Some(0xf000),
            _ => None,
        };
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let mut groups: Vec<u16> = Vec::new();
        let mut weight = 0;
        if special.is_none() {
            let digits = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
            let after = format!("{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
            weight = (digits.len() / 4) as i16 - 1;
            for group in [digits, after]
                .iter()
                .flat_map(|digits| digits.as_bytes().chunks(4))
            {
                groups.push(std::str::from_utf8(group).ok()?.parse().ok()?);
            }
            let zeros = groups.iter().take_while(|group| **group == 0).count();
            groups.drain(..zeros);
            weight -= zeros as i16;
            while groups.last() == Some(&0) {
                groups.pop();
            }
            if groups.is_empty() {
                weight = 0;
            }
        }
        let sign = special.unwrap_or(if text.starts_with('-') { NEGATIVE } else { 0 });
        let mut out = Vec::with_capacity(8 + 2 * groups.len());
        for word in [
            groups.len() as u16,
            weight as u16,
            sign,
            fraction.len() as u16,
        ]
        .iter()
        .chain(&groups)
        {
            out.extend_from_slice(&word.to_be_bytes());
        }
        Some(out)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn numeric_is_read_as_written(text in "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,15})?") {
                let zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
                let text = if zero { text.trim_start_matches('-').to_owned() } else { text };
                let bytes = write(&text).unwrap();
                prop_assert_eq!(read(&bytes), Some(text));
            }
        }

        #[test]
        fn numeric_as_the_server_sends_it() {
            // select numeric_send(12345.678): 1 2345 . 6780
            let bytes = [0, 3, 0, 1, 0, 0, 0, 3, 0, 1, 0x09, 0x29, 0x1a, 0x7c];
            assert_eq!(read(&bytes).as_deref(), Some("12345.678"));
            assert_eq!(write("12345.678").as_deref(), Some(&bytes[..]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::mask;
    use super::*;

    fn text(text: &str) -> String {
        let mut out = String::new();
        mask().mask_value(text, &mut out);
        out
    }

    #[test]
    fn a_value_is_the_same_in_binary_and_in_text() {
        let mask = mask();
        let binary = |oid, bytes: &[u8]| mask.mask_binary(oid, bytes).0;
        for number in [42i16, -700, 12_345, 32_767] {
            let expected: i64 = text(&number.to_string()).parse().unwrap();
            assert_eq!(
                binary(21, &number.to_be_bytes()),
                (expected as i16).to_be_bytes()
            );
            assert_eq!(
                binary(23, &i32::from(number).to_be_bytes()),
                (expected as i32).to_be_bytes()
            );
            assert_eq!(
                binary(20, &i64::from(number).to_be_bytes()),
                expected.to_be_bytes()
            );
            // Without a type, too.
            assert_eq!(
                binary(0, &i32::from(number).to_be_bytes()),
                (expected as i32).to_be_bytes()
            );
        }
        assert_eq!(binary(25, b"Smith"), text("Smith").as_bytes());
        assert_eq!(binary(0, b"Smith"), text("Smith").as_bytes());
        assert_eq!(
            binary(701, &12.5f64.to_be_bytes()),
            text("12.5").parse::<f64>().unwrap().to_be_bytes()
        );
        assert_eq!(
            binary(1700, &numeric::write("12.50").unwrap()),
            numeric::write(&text("12.50")).unwrap()
        );
        // 2026-03-05 is 9560 days after 2000-01-01.
        let days = i32::from_be_bytes(binary(1082, &9560i32.to_be_bytes()).try_into().unwrap());
        assert_eq!(
            text("2026-03-05"),
            format!("2026-03-{:02}", days - 9556 + 1)
        );
        let at = 9560 * DAY_US + 36_610_000_000i64;
        let moved = i64::from_be_bytes(binary(1184, &at.to_be_bytes()).try_into().unwrap());
        let time = moved.rem_euclid(DAY_US) / 1_000_000;
        assert_eq!(
            text("2026-03-05 11:10:10+01")[11..19],
            format!(
                "{:02}:{:02}:{:02}",
                (time / 3600 + 1) % 24,
                time / 60 % 60,
                time % 60
            )
        );
        let id = [7, 1, 2, 3, 4, 5, 0x40, 7, 0x80, 9, 10, 11, 12, 13, 14, 15];
        let written: String = binary(2950, &id)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            text("07010203-0405-4007-8009-0a0b0c0d0e0f").replace('-', ""),
            written
        );
        let network = binary(869, &[2, 32, 0, 4, 10, 1, 2, 3]);
        assert_eq!(
            text("10.1.2.3"),
            IpAddr::from([network[4], network[5], network[6], network[7]]).to_string()
        );
    }

    #[test]
    fn arrays_are_masked_by_element_and_what_is_unknown_does_not_stay() {
        let mask = mask();
        let mut array = Vec::new();
        for word in [1i32, 0, 23, 2, 1, 4, 42, -1] {
            array.extend(word.to_be_bytes());
        }
        let (masked, outcome) = mask.mask_binary(1007, &array);
        assert_eq!(outcome, MaskOutcome::Masked);
        assert_eq!(masked[..24], array[..24]);
        let element = i32::from_be_bytes(masked[24..28].try_into().unwrap());
        assert_eq!(element.to_string(), text("42"));
        let circle = [
            1, 0xff, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
            24,
        ];
        let (masked, outcome) = mask.mask_binary(718, &circle);
        assert_eq!((masked.len(), outcome), (24, MaskOutcome::Opaque));
        assert_ne!(masked, circle);
    }
}
