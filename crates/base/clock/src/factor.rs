//! An exact factor: a decimal number with at most six decimal places.

use std::fmt;
use std::str::FromStr;

/// Millionths in one.
const ONE: u64 = 1_000_000;
/// Maximum factor.
const MAX: u64 = 1_000_000;

/// A decimal number of at least 0 with at most six decimal places, stored as millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor {
    millionths: u64,
}

/// An invalid factor, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactorError(String);

impl fmt::Display for FactorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a factor; give a number from 0 to {MAX} with at most 6 decimals, such as 0.5",
            self.0
        )
    }
}

impl std::error::Error for FactorError {}

impl Factor {
    /// Factor one.
    pub const ONE: Factor = Factor { millionths: ONE };
    /// Factor zero.
    pub const ZERO: Factor = Factor { millionths: 0 };

    /// Returns the integer part.
    pub fn whole(self) -> u64 {
        self.millionths / ONE
    }

    /// Returns the fractional part, in millionths.
    pub fn rest_millionths(self) -> u64 {
        self.millionths % ONE
    }

    /// Multiplies a number, rounding down and saturating.
    #[inline]
    pub fn of(self, number: i64) -> i64 {
        let product = i128::from(number) * i128::from(self.millionths);
        let quotient = product.div_euclid(i128::from(ONE));
        quotient.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

impl FromStr for Factor {
    type Err = FactorError;

    fn from_str(text: &str) -> Result<Self, FactorError> {
        let fail = || FactorError(text.to_owned());
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() && decimals.is_empty()
            || !digits(whole)
            || !digits(decimals)
            || decimals.len() > 6
            || whole.len() > 7
        {
            return Err(fail());
        }
        let number = |part: &str| -> u64 { part.parse().unwrap_or(0) };
        let millionths = number(whole) * ONE + number(&format!("{decimals:0<6}"));
        if millionths > MAX * ONE {
            return Err(fail());
        }
        Ok(Factor { millionths })
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.whole())?;
        match self.rest_millionths() {
            0 => Ok(()),
            rest => write!(f, ".{}", format!("{rest:06}").trim_end_matches('0')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        for (text, number, product) in [
            ("0", 7, 0),
            ("1", 7, 7),
            ("0.5", 7, 3),
            ("2.5", 4, 10),
            (".000001", 2_000_000, 2),
            ("0.1", i64::MAX, i64::MAX / 10),
            ("1000000", i64::MAX, i64::MAX),
            ("0.5", -3, -2),
        ] {
            let factor: Factor = text.parse().unwrap();
            assert_eq!(factor.of(number), product, "{text}");
        }
        let factor: Factor = "2.25".parse().unwrap();
        assert_eq!((factor.whole(), factor.rest_millionths()), (2, 250_000));
    }

    #[test]
    fn a_factor_prints_as_it_was_given() {
        for text in ["0", "1", "0.5", "12.000001", "1000000"] {
            assert_eq!(text.parse::<Factor>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn invalid_factor_error_names_the_allowed_values() {
        for text in ["", ".", "-1", "x", "1e3", "0.0000001", "1000001", "1.2.3"] {
            let error = text.parse::<Factor>().unwrap_err().to_string();
            assert!(error.contains("from 0 to 1000000"), "{text}: {error}");
        }
    }
}
