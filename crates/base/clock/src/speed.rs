//! Replay speed.

use std::fmt;
use std::str::FromStr;

/// Replay speed as a ratio of integers, so that 0.5, 1.5 and 0.1 are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// `numerator / denominator` times as fast as captured: 2 is twice as fast, 0.5 half.
    Times {
        /// Never zero.
        numerator: u64,
        /// A power of ten, never zero.
        denominator: u64,
    },
    /// Wait only for the session's previous statement.
    Max,
}

/// An invalid speed, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpeedError(String);

impl fmt::Display for SpeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a speed; give a number above 0 with at most 6 decimals (2 or 2x is twice as fast, 0.5 half), or 'max'",
            self.0
        )
    }
}

impl std::error::Error for SpeedError {}

impl Speed {
    /// Captured speed.
    pub const ONE: Speed = Speed::Times {
        numerator: 1,
        denominator: 1,
    };

    /// Returns the due time of an event in nanoseconds after the replay's start, for an event `offset_us`
    /// microseconds after the capture's start. Zero for [`Speed::Max`].
    #[inline]
    pub fn due_ns(self, offset_us: i64) -> i64 {
        match self {
            Speed::Times {
                numerator,
                denominator,
            } => {
                let scaled =
                    i128::from(offset_us) * 1_000 * i128::from(denominator) / i128::from(numerator);
                scaled.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
            }
            Speed::Max => 0,
        }
    }
}

impl FromStr for Speed {
    type Err = SpeedError;

    fn from_str(text: &str) -> Result<Self, SpeedError> {
        let fail = || SpeedError(text.to_owned());
        if text.eq_ignore_ascii_case("max") {
            return Ok(Speed::Max);
        }
        let number = text.strip_suffix(['x', '×']).unwrap_or(text);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() && decimals.is_empty()
            || !digits(whole)
            || !digits(decimals)
            || decimals.len() > 6
            || whole.len() > 9
        {
            return Err(fail());
        }
        let denominator = 10u64.pow(decimals.len() as u32);
        let number = |part: &str| -> u64 { part.parse().unwrap_or(0) };
        let numerator = number(whole) * denominator + number(decimals);
        if numerator == 0 {
            return Err(fail());
        }
        Ok(Speed::Times {
            numerator,
            denominator,
        })
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Speed::Max => f.write_str("max"),
            Speed::Times {
                numerator,
                denominator,
            } => {
                write!(f, "{}", numerator / denominator)?;
                let rest = numerator % denominator;
                if rest != 0 {
                    let width = denominator.ilog10() as usize;
                    let decimals = format!("{rest:0width$}");
                    write!(f, ".{}", decimals.trim_end_matches('0'))?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_speeds_are_exact() {
        for (text, offset_us, due_ns) in [
            ("0.5", 3, 6_000),
            ("1", 3, 3_000),
            ("1.5", 3, 2_000),
            ("4", 3, 750),
            ("0.1", 1_000_000, 10_000_000_000),
            (".25", 1, 4_000),
            ("10.", 10, 1_000),
        ] {
            let speed: Speed = text.parse().unwrap();
            assert_eq!(speed.due_ns(offset_us), due_ns, "{text}");
        }
    }

    #[test]
    fn invalid_speed_error_names_the_allowed_values() {
        for text in [
            "0",
            "0.0",
            "-1",
            "fast",
            "",
            ".",
            "1.2.3",
            "1e3",
            "0.0000001",
            "nan",
        ] {
            let error = text.parse::<Speed>().unwrap_err().to_string();
            assert!(error.contains("above 0"), "{text}: {error}");
        }
    }

    #[test]
    fn a_speed_prints_as_it_was_given() {
        for text in ["0.5", "1", "1.5", "4", "max", "0.125"] {
            assert_eq!(text.parse::<Speed>().unwrap().to_string(), text);
        }
        assert_eq!("2.50".parse::<Speed>().unwrap().to_string(), "2.5");
    }

    #[test]
    fn years_of_capture_at_a_crawl_do_not_overflow() {
        let speed: Speed = "0.000001".parse().unwrap();
        assert_eq!(speed.due_ns(i64::MAX), i64::MAX);
    }
}
