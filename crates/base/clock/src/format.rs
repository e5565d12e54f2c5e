//! Formats instants and durations.

use std::time::Duration;

/// Formats an instant as `2026-03-01 09:30:05 UTC`. `wall_us` is in microseconds since 1970-01-01 UTC. An
/// instant outside of jiff's years (-9999 to 9999) is printed as its number.
pub fn utc_text(wall_us: i64) -> String {
    match jiff::Timestamp::from_microsecond(wall_us) {
        Ok(instant) => instant.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => format!("{wall_us} µs"),
    }
}

/// Formats an instant as in RFC 3339, to the microsecond: `2026-03-01T09:30:05.250000Z`. `wall_us` is in
/// microseconds since 1970-01-01 UTC. An instant outside of jiff's years is printed as the nearest valid one.
pub fn rfc3339_text(wall_us: i64) -> String {
    let instant = jiff::Timestamp::from_microsecond(wall_us).unwrap_or(match wall_us {
        0.. => jiff::Timestamp::MAX,
        _ => jiff::Timestamp::MIN,
    });
    instant.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Formats a duration in nanoseconds with three significant digits and a suitable unit: `850 ns`, `12.3 µs`,
/// `4.57 ms`, `1.02 s`, `3 min 20 s`, `2 h 05 min`.
pub fn duration_text(span_ns: i64) -> String {
    let sign = if span_ns < 0 { "-" } else { "" };
    let ns = span_ns.unsigned_abs();
    let three_digits = |value: f64, unit: &str| {
        let decimals = match value {
            v if v < 9.995 => 2,
            v if v < 99.95 => 1,
            _ => 0,
        };
        format!("{sign}{value:.decimals$} {unit}")
    };
    let seconds = ns / 1_000_000_000;
    match ns {
        0..1_000 => format!("{sign}{ns} ns"),
        1_000..1_000_000 => three_digits(ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => three_digits(ns as f64 / 1e6, "ms"),
        1_000_000_000..60_000_000_000 => three_digits(ns as f64 / 1e9, "s"),
        60_000_000_000..3_600_000_000_000 => {
            format!("{sign}{} min {:02} s", seconds / 60, seconds % 60)
        }
        _ => format!("{sign}{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Parses a duration: `30s`, `10m`, `1h30m`, `90 minutes`. It needs a unit, and must be positive.
///
/// # Errors
/// A sentence, if it is invalid.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let sentence = || format!("'{text}' is no duration; give one such as 30s, 10m or 1h30m");
    let span: jiff::SignedDuration = text.parse().map_err(|_| sentence())?;
    Duration::try_from(span)
        .ok()
        .filter(|span| !span.is_zero())
        .ok_or_else(sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_typed_with_a_unit() {
        for (text, seconds) in [
            ("30s", 30),
            ("10m", 600),
            ("1h30m", 5_400),
            ("90 minutes", 5_400),
            ("2h", 7_200),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        for text in ["", "10", "0s", "-5m", "soon"] {
            assert!(parse_duration(text).unwrap_err().contains("10m"), "{text}");
        }
    }

    #[test]
    fn spans_carry_the_unit_that_fits() {
        for (span_ns, text) in [
            (0, "0 ns"),
            (850, "850 ns"),
            (12_340, "12.3 µs"),
            (4_567_000, "4.57 ms"),
            (-4_567_000, "-4.57 ms"),
            (1_020_000_000, "1.02 s"),
            (200_000_000_000, "3 min 20 s"),
            (7_500_000_000_000, "2 h 05 min"),
        ] {
            assert_eq!(duration_text(span_ns), text);
        }
    }

    #[test]
    fn an_instant_is_printed_in_utc() {
        assert_eq!(utc_text(0), "1970-01-01 00:00:00 UTC");
        assert!(utc_text(i64::MAX).ends_with("µs"));
        let text = rfc3339_text(1_772_357_405_250_000);
        assert_eq!(text, "2026-03-01T09:30:05.250000Z");
        assert!(rfc3339_text(i64::MAX).starts_with("9999-12-"));
    }
}
