//! Parses times that a user gives: absolute, or relative to the workload's start.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Time at which a slice begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeBound {
    /// Microseconds since 1970-01-01 UTC.
    Wall(i64),
    /// Microseconds from the workload's start.
    Offset(i64),
}

/// Error of a text that is no time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{given}' is no time: give one such as '2026-03-01 09:30' (UTC), '2026-03-01 09:30:15 +02', \
     '2026-03-01 09:30 Europe/Berlin', or '+1h30m' from the start"
)]
pub struct InvalidTimeBound {
    /// The text that was given.
    pub given: String,
}

impl TimeBound {
    /// Parses a time.
    ///
    /// An absolute time is a date, or a date and a time of day with or without seconds, separated
    /// by a blank or `T`. After it comes nothing (UTC, as in this program's output), `Z`, an offset
    /// from UTC, or a time zone of the IANA database (`Europe/Berlin`; of abbreviations only those
    /// in the database, such as `CET`).
    ///
    /// A relative time is `+` and numbers with units, the largest first: `+90s`, `+1h30m`, `+1.5h`,
    /// `+250ms`; units are d, h, m, s, ms, us.
    ///
    /// # Errors
    /// If the text is none of these.
    pub fn parse(text: &str) -> Result<Self, InvalidTimeBound> {
        let given = text.trim();
        let read = match given.strip_prefix('+') {
            Some(span) => parse_span_us(span).map(TimeBound::Offset),
            None => wall_us(given).map(TimeBound::Wall),
        };
        read.ok_or_else(|| InvalidTimeBound {
            given: text.to_owned(),
        })
    }

    /// Returns microseconds since 1970-01-01 UTC, for a workload that starts at `start_wall_us`.
    pub fn wall_us(self, start_wall_us: i64) -> i64 {
        match self {
            TimeBound::Wall(us) => us,
            TimeBound::Offset(us) => start_wall_us.saturating_add(us),
        }
    }
}

impl fmt::Display for TimeBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimeBound::Wall(us) => f.write_str(&format_time(*us)),
            TimeBound::Offset(us) => {
                let ns = us.saturating_mul(1_000);
                write!(f, "{} from the start", clock::duration_text(ns))
            }
        }
    }
}

/// Formats a wall time in seconds, or in microseconds if it is no whole second.
pub(crate) fn format_time(wall_us: i64) -> String {
    let whole = clock::utc_text(wall_us.div_euclid(1_000_000).saturating_mul(1_000_000));
    match (wall_us.rem_euclid(1_000_000), whole.strip_suffix(" UTC")) {
        (1.., Some(time)) => {
            let digits = format!("{:06}", wall_us.rem_euclid(1_000_000));
            format!("{time}.{} UTC", digits.trim_end_matches('0'))
        }
        _ => whole,
    }
}

fn wall_us(text: &str) -> Option<i64> {
    // A blank before the zone, as logs write it.
    let (time, zone) = match text.rsplit_once(' ') {
        Some((time, zone)) if zone.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            (time.trim_end(), Some(TimeZone::get(zone).ok()?))
        }
        _ => (text, None),
    };
    let squeezed = match time.rsplit_once(' ') {
        Some((time, offset)) if offset.starts_with(['+', '-']) => format!("{time}{offset}"),
        _ => time.to_owned(),
    };
    if let Ok(instant) = squeezed.parse::<jiff::Timestamp>() {
        // Both an offset and a zone are ambiguous.
        return zone.is_none().then(|| instant.as_microsecond());
    }
    let time: DateTime = squeezed.parse().ok()?;
    // An offset after a date alone would be ignored.
    if squeezed.contains('+') || squeezed.contains('[') {
        return None;
    }
    let zoned = time.to_zoned(zone.unwrap_or(TimeZone::UTC)).ok()?;
    Some(zoned.timestamp().as_microsecond())
}

fn parse_span_us(text: &str) -> Option<i64> {
    const UNITS: [(&str, f64); 6] = [
        ("d", 86_400e6),
        ("h", 3_600e6),
        ("m", 60e6),
        ("s", 1e6),
        ("ms", 1e3),
        ("us", 1.0),
    ];
    let mut rest = text.trim();
    let mut units = UNITS.as_slice();
    let mut total_us = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let name = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let unit = units.iter().position(|(unit, _)| *unit == &rest[..name])?;
        total_us += number * units[unit].1;
        units = &units[unit + 1..];
        rest = rest[name..].trim_start();
    }
    (total_us < 1e18).then_some(total_us.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-03-01 09:30:00 UTC.
    const HALF_PAST_NINE: i64 = 1_772_357_400_000_000;

    #[test]
    fn times_with_and_without_a_zone() {
        for text in [
            "2026-03-01 09:30",
            "2026-03-01T09:30",
            " 2026-03-01 09:30:00 ",
            "2026-03-01T09:30:00Z",
            "2026-03-01 09:30:00.000 UTC",
            "2026-03-01 11:30+02",
            "2026-03-01 11:30 +02",
            "2026-03-01 11:30:00 +02:00",
            "2026-03-01T04:30:00-05:00",
            "2026-03-01 10:30 Europe/Berlin",
            "2026-03-01 10:30:00 CET",
        ] {
            assert_eq!(
                TimeBound::parse(text),
                Ok(TimeBound::Wall(HALF_PAST_NINE)),
                "{text}"
            );
        }
        assert_eq!(
            TimeBound::parse("2026-03-01"),
            Ok(TimeBound::Wall(HALF_PAST_NINE - 34_200_000_000))
        );
        assert_eq!(
            TimeBound::parse("2026-03-01 09:30:00.25"),
            Ok(TimeBound::Wall(HALF_PAST_NINE + 250_000))
        );
    }

    #[test]
    fn spans_from_the_start() {
        for (text, us) in [
            ("+90s", 90_000_000),
            ("+1h30m", 5_400_000_000),
            ("+1.5h", 5_400_000_000),
            ("+1h 30m", 5_400_000_000),
            ("+250ms", 250_000),
            ("+0s", 0),
            ("+1d", 86_400_000_000),
        ] {
            assert_eq!(TimeBound::parse(text), Ok(TimeBound::Offset(us)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "+",
            "+90",
            "+s",
            "+1m2h",
            "+1h2h",
            "+-1s",
            "noon",
            "09:30",
            "2026-13-01",
            "2026-02-30 09:30",
            "2026-03-01 25:00",
            "2026-03-01 09:30 Mars/Base",
            "2026-03-01 09:30+02 UTC",
            "2026-03-01+02",
            "+1e400s",
            "+9999999999999d",
            "+ü",
        ] {
            assert!(TimeBound::parse(text).is_err(), "{text}");
        }
        let said = TimeBound::parse("noon").unwrap_err().to_string();
        assert!(
            said.starts_with("'noon' is no time: give one such as"),
            "{said}"
        );
    }

    #[test]
    fn a_time_is_shown_as_it_is() {
        assert_eq!(
            TimeBound::Wall(HALF_PAST_NINE).to_string(),
            "2026-03-01 09:30:00 UTC"
        );
        assert_eq!(
            TimeBound::Wall(HALF_PAST_NINE + 250_000).to_string(),
            "2026-03-01 09:30:00.25 UTC"
        );
        assert_eq!(
            TimeBound::Offset(90_000_000).to_string(),
            "1 min 30 s from the start"
        );
        assert_eq!(TimeBound::Offset(5).wall_us(7), 12);
        assert_eq!(TimeBound::Wall(5).wall_us(7), 5);
    }
}
