//! Masks numbers: the number of digits and the sign stay, and equal numbers in any spelling stay
//! equal.

use super::key::{Domain, MaskKey};

/// Maximum number of digits that fit into 128 bits.
const DIGITS_MAX: usize = 38;

/// The highest numbers of smallint, integer and bigint: a permutation across them would create
/// values too large for a column of unknown type. The next number stays unchanged: its negative is
/// the type's lowest.
const LIMITS: [u128; 3] = [i16::MAX as u128, i32::MAX as u128, i64::MAX as u128];

/// A number as written, in parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number<'a> {
    sign: &'a str,
    whole: &'a str,
    /// Digits after the point, if there is one.
    fraction: Option<&'a str>,
    /// The exponent, from the `e` on.
    exponent: &'a str,
}

impl<'a> Number<'a> {
    /// Parses `-12.50e+3` and the like, without leading zeros.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let sign = &text[..text.len() - unsigned.len()];
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => unsigned.split_at(at),
            None => (unsigned, ""),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (mantissa, None),
        };
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let power = exponent.strip_prefix(['e', 'E']).unwrap_or("");
        let power_digits = power.strip_prefix(['-', '+']).unwrap_or(power);
        let is_number = digits(whole)
            && digits(fraction.unwrap_or(""))
            && whole.len() + fraction.unwrap_or("").len() > 0
            && (whole.len() < 2 || !whole.starts_with('0'))
            && (exponent.is_empty() || !power_digits.is_empty() && digits(power_digits));
        is_number.then_some(Number {
            sign,
            whole,
            fraction,
            exponent,
        })
    }

    /// Returns whether it is zero to nine, of either sign. Such flags, kinds and quantities
    /// identify nobody.
    pub(super) fn is_small(&self) -> bool {
        self.whole.len() <= 1
            && self.exponent.is_empty()
            && self.fraction.unwrap_or("").bytes().all(|byte| byte == b'0')
    }

    /// Returns whether it is an integer, without point and exponent.
    pub(super) fn is_integer(&self) -> bool {
        self.fraction.is_none() && self.exponent.is_empty()
    }

    /// Returns the number of digits before the point.
    pub(super) fn whole_digits(&self) -> usize {
        self.whole.len()
    }

    /// Writes the masked number.
    pub(super) fn mask(&self, key: &MaskKey, out: &mut String) {
        out.push_str(self.sign);
        if !self.exponent.is_empty() && self.mask_with_exponent(key, out) {
            return;
        }
        mask_integer(key, self.whole, out);
        if let Some(fraction) = self.fraction {
            out.push('.');
            mask_fraction(key, self.whole, fraction, out);
        }
        out.push_str(self.exponent);
    }

    /// Masks `1.5e3` as 1500, and writes it with the same power. Returns false if it is too long
    /// for that.
    fn mask_with_exponent(&self, key: &MaskKey, out: &mut String) -> bool {
        let fraction = self.fraction.unwrap_or("");
        let digits = format!("{}{fraction}", self.whole);
        let significant = digits.trim_start_matches('0');
        let Ok(power) = self.exponent[1..].parse::<i64>() else {
            return false;
        };
        // Position of the point, counted from the first significant digit.
        let point = self.whole.len() as i64 + power - (digits.len() - significant.len()) as i64;
        if significant.is_empty() || !(-20..=DIGITS_MAX as i64).contains(&point) {
            return false;
        }
        let significant = significant.trim_end_matches('0');
        let (mut whole, mut rest) = (String::new(), String::new());
        for (at, digit) in (0..).zip(significant.chars()) {
            match at < point {
                true => whole.push(digit),
                false => rest.push(digit),
            }
        }
        for _ in whole.len() as i64..point {
            whole.push('0');
        }
        for _ in point..0 {
            rest.insert(0, '0');
        }
        let mut masked = String::new();
        mask_integer(key, &whole, &mut masked);
        let whole_digits = masked.len();
        mask_fraction(key, &whole, &rest, &mut masked);
        let masked = match point > 0 {
            true => &masked[..],
            false => &masked[whole_digits..],
        };
        let masked = masked.trim_start_matches('0').trim_end_matches('0');
        let (first, after) = masked.split_at(1);
        out.push_str(first);
        if !after.is_empty() {
            out.push('.');
            out.push_str(after);
        }
        out.push_str(&self.exponent[..1]);
        out.push_str(&(point - 1).to_string());
        true
    }
}

/// Masks digits without a leading zero: a permutation of the numbers with the same number of digits
/// that fit into the same integer types.
pub(super) fn mask_integer(key: &MaskKey, digits: &str, out: &mut String) {
    if digits.len() <= 1 {
        out.push_str(digits);
        return;
    }
    let Some(number) = (digits.len() <= DIGITS_MAX)
        .then(|| digits.parse::<u128>().ok())
        .flatten()
    else {
        mask_long_digits(key, digits, out);
        return;
    };
    let (from, to) = block(digits.len() as u32, number);
    let place = key.permute(Domain::Integer, from as u64, to - from + 1, number - from);
    out.push_str(&(from + place).to_string());
}

/// Returns the lowest and highest number that may replace one.
fn block(digits: u32, number: u128) -> (u128, u128) {
    let mut from = 10u128.pow(digits - 1);
    let mut to = 10u128.checked_pow(digits).map_or(u128::MAX, |end| end - 1);
    for limit in LIMITS {
        if number == limit + 1 {
            return (number, number);
        }
        match number <= limit {
            true => to = to.min(limit),
            false => from = from.max(limit + 2),
        }
    }
    (from, to)
}

/// Masks more digits than a number has: each is replaced, by a hash of them all.
fn mask_long_digits(key: &MaskKey, digits: &str, out: &mut String) {
    let seed = key.hash(Domain::Digits, 0, digits.as_bytes());
    for (at, byte) in key
        .stream(Domain::Digits, seed)
        .take(digits.len())
        .enumerate()
    {
        let digit = match at {
            0 => 1 + byte % 9,
            _ => byte % 10,
        };
        out.push(char::from(b'0' + digit));
    }
}

/// Masks the digits after a point: zeros at both ends stay, so that 12.5 and 12.50 stay equal and
/// 0.0001 stays small.
fn mask_fraction(key: &MaskKey, whole: &str, fraction: &str, out: &mut String) {
    let after = fraction.trim_start_matches('0');
    let core = after.trim_end_matches('0');
    out.push_str(&fraction[..fraction.len() - after.len()]);
    let whole = if whole.is_empty() { "0" } else { whole };
    let tweak = key.hash(
        Domain::Fraction,
        (fraction.len() - after.len()) as u64,
        whole.as_bytes(),
    );
    match core.len() {
        0 => {}
        1 => {
            let digit = u128::from(core.as_bytes()[0] - b'1');
            let masked = key.permute(Domain::Fraction, tweak, 9, digit);
            out.push(char::from(b'1' + masked as u8));
        }
        length if length <= DIGITS_MAX => {
            // First and last digit are not zero: nine choices each, and ten for those between.
            let digit = |at: usize| u128::from(core.as_bytes()[at] - b'0');
            let between = 10u128.pow(length as u32 - 2);
            let inner = core[1..length - 1].parse().unwrap_or(0u128);
            let number = ((digit(0) - 1) * between + inner) * 9 + digit(length - 1) - 1;
            let masked = key.permute(Domain::Fraction, tweak, 81 * between, number);
            let (rest, last) = (masked / 9, masked % 9 + 1);
            out.push_str(&(rest / between + 1).to_string());
            if length > 2 {
                out.push_str(&format!("{:0width$}", rest % between, width = length - 2));
            }
            out.push_str(&last.to_string());
        }
        _ => mask_long_digits(key, core, out),
    }
    out.push_str(&after[core.len()..]);
}

/// Masks the fraction of a second, like digits after a point.
pub(super) fn mask_second_fraction(key: &MaskKey, digits: &str, out: &mut String) {
    mask_fraction(key, "second", digits, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn key() -> MaskKey {
        MaskKey::from_secret(b"a key for the tests")
    }

    fn masked(text: &str) -> String {
        let mut out = String::new();
        Number::parse(text).expect(text).mask(&key(), &mut out);
        out
    }

    #[test]
    fn integers_are_permuted_within_their_digits_and_types() {
        let all: HashSet<String> = (10..=99_999u32)
            .map(|number| masked(&number.to_string()))
            .collect();
        assert_eq!(all.len(), 99_990);
        for number in 10_000..=32_767i32 {
            assert!(masked(&number.to_string()).parse::<i16>().is_ok());
        }
        for same in [
            "0",
            "7",
            "-9",
            "-32768",
            "2147483648",
            "9223372036854775808",
            "7.00",
        ] {
            assert_eq!(masked(same), same);
        }
    }

    #[test]
    fn one_number_is_one_number_in_every_spelling() {
        let value = |text: &str| masked(text).parse::<f64>().unwrap();
        for (one, other) in [
            ("12.5", "12.50"),
            ("1500", "1.5e3"),
            ("0.015", "1.5e-2"),
            ("42", "42.00"),
            ("0.25", ".25"),
            ("120", "1.2E+2"),
        ] {
            assert_eq!(value(one), value(other), "{one} {other}");
        }
    }

    proptest! {
        #[test]
        fn digits_and_sign_stay(number in any::<i64>(), scale in 0u32..6, fraction in 0u64..1_000_000) {
            let text = masked(&number.to_string());
            prop_assert_eq!(text.len(), number.to_string().len());
            prop_assert_eq!(text.parse::<i64>().unwrap().signum(), number.signum());
            let decimal = format!("{}.{:06}", number / 10i64.pow(scale), fraction);
            let text = masked(&decimal);
            prop_assert_eq!(text.len(), decimal.len());
            prop_assert!(Number::parse(&text).is_some());
        }

        #[test]
        fn floats_stay_near(mantissa in 1.0f64..10.0, power in -15i32..30, negative in any::<bool>()) {
            let value = if negative { -mantissa } else { mantissa } * 10f64.powi(power);
            let one: f64 = masked(&format!("{value:e}")).parse().unwrap();
            let other: f64 = masked(&value.to_string()).parse().unwrap();
            prop_assert_eq!(one, other);
            prop_assert!((one / value) > 0.09 && (one / value) < 11.0);
        }
    }
}
