//! Parses the times that envelopes write before a line: ISO 8601, and syslog's old format without a
//! year.

use crate::timestamp::days;

const US_PER_SECOND: i64 = 1_000_000;
pub(super) const US_PER_DAY: i64 = 86_400 * US_PER_SECOND;

/// Parses `2026-03-01T09:30:05.123Z` at the start of `text`, with or without a fraction, with `Z`,
/// an offset, or nothing, which means UTC. Returns microseconds since 1970-01-01 UTC, and the
/// number of bytes.
pub(super) fn parse_iso(text: &[u8]) -> Option<(i64, usize)> {
    let fixed = text.first_chunk::<19>()?;
    if fixed[10] != b'T' || fixed[13] != b':' || fixed[16] != b':' {
        return None;
    }
    let mut wall_us = days(&fixed[..10])? * US_PER_DAY + parse_clock(&fixed[11..])?;
    let mut length = 19;
    if text.get(length) == Some(&b'.') {
        let digits = text[length + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if !(1..=9).contains(&digits) {
            return None;
        }
        let mut unit = 100_000;
        for digit in &text[length + 1..length + 1 + digits] {
            wall_us += i64::from(digit - b'0') * unit;
            unit /= 10;
        }
        length += 1 + digits;
    }
    match text.get(length) {
        Some(b'Z') => length += 1,
        Some(sign @ (b'+' | b'-')) => {
            let hours = parse_two_digits(text.get(length + 1..length + 3)?)?;
            let colon = usize::from(text.get(length + 3) == Some(&b':'));
            let minutes = parse_two_digits(text.get(length + 3 + colon..length + 5 + colon)?)?;
            let offset_us = (hours * 60 + minutes) * 60 * US_PER_SECOND;
            wall_us -= match sign {
                b'-' => -offset_us,
                _ => offset_us,
            };
            length += 5 + colon;
        }
        _ => (),
    }
    Some((wall_us, length))
}

/// Parses `09:30:05` as microseconds.
fn parse_clock(text: &[u8]) -> Option<i64> {
    let (hours, minutes, seconds) = (
        parse_two_digits(&text[..2])?,
        parse_two_digits(&text[3..5])?,
        parse_two_digits(&text[6..8])?,
    );
    (hours < 24 && minutes < 60 && seconds <= 60)
        .then_some(((hours * 60 + minutes) * 60 + seconds) * US_PER_SECOND)
}

fn parse_two_digits(text: &[u8]) -> Option<i64> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    Some(digit(text[0])? * 10 + digit(text[1])?)
}

/// A time without a year: month and day from 1, microseconds of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct YearlessTime {
    pub month: i64,
    pub day: i64,
    pub of_day_us: i64,
}

/// The start of February 29.
const LEAP_DAY: YearlessTime = YearlessTime {
    month: 2,
    day: 29,
    of_day_us: 0,
};

/// Length of `Mar  1 09:30:05` in bytes.
pub(super) const YEARLESS_BYTES: usize = 15;

impl YearlessTime {
    /// Parses `Mar  1 09:30:05` (RFC 3164, 4.1.2) at the start of `text`.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        const MONTHS: [&[u8]; 12] = [
            b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov",
            b"Dec",
        ];
        let fixed = text.first_chunk::<YEARLESS_BYTES>()?;
        if [fixed[3], fixed[6], fixed[9], fixed[12]] != *b"  ::" {
            return None;
        }
        let month = MONTHS.iter().position(|name| **name == fixed[..3])? as i64 + 1;
        let day = match fixed[4] {
            b' ' => parse_two_digits(&[b'0', fixed[5]])?,
            _ => parse_two_digits(&fixed[4..6])?,
        };
        (1..=31).contains(&day).then_some(YearlessTime {
            month,
            day,
            of_day_us: parse_clock(&fixed[7..])?,
        })
    }

    /// Returns the time in the given year, read as UTC; `None` if the year has no such day.
    pub(super) fn in_year(self, year: i64) -> Option<i64> {
        let text = format!("{year:04}-{:02}-{:02}", self.month, self.day);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        if text.len() != 10 || (self.month == 2 && self.day == 29 && !leap) {
            return None;
        }
        Some(days(text.as_bytes())? * US_PER_DAY + self.of_day_us)
    }
}

/// Assigns years to times without one. The first gets the newest year in which it is not after an
/// upper bound; from December to January the next year begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct YearAssigner {
    pub year: i64,
    month: i64,
    /// Days by which later times are moved, after a February 29 in a year without one.
    leap_days: i64,
}

/// Year of the first time if nothing bounds it.
const YEAR_UNKNOWN: i64 = 2000;

impl YearAssigner {
    /// Creates it from the first time, and a time which it does not exceed by more than a day: an
    /// unknown time zone may differ by that much.
    /// `leap_day` says that the log has a February 29, so that the year is one that has it.
    pub(super) fn new(first: YearlessTime, bound_us: Option<i64>, leap_day: bool) -> Self {
        let has_leap_day = |year: i64| {
            let february = year + i64::from(first.month > 2);
            LEAP_DAY.in_year(february).is_some()
        };
        let year = bound_us.and_then(|bound_us| {
            let newest = 1970 + bound_us.div_euclid(US_PER_DAY) / 365;
            // The last leap day is at most eight years ago.
            (newest - 9..=newest).rev().find(|year| {
                (!leap_day || has_leap_day(*year))
                    && first
                        .in_year(*year)
                        .is_some_and(|at| at <= bound_us.saturating_add(US_PER_DAY))
            })
        });
        YearAssigner {
            year: year.unwrap_or(YEAR_UNKNOWN),
            month: first.month,
            leap_days: 0,
        }
    }

    /// Returns a time in microseconds since 1970-01-01, reading its clock as UTC.
    pub(super) fn instant(&mut self, time: YearlessTime) -> Option<i64> {
        let mut year = self.year;
        match time.month - self.month {
            // A late line of the previous year.
            7.. => year -= 1,
            ..=-7 => {
                self.year += 1;
                year = self.year;
                self.month = time.month;
            }
            _ => self.month = time.month,
        }
        let moved_us = self.leap_days * US_PER_DAY;
        if let Some(instant) = time.in_year(year) {
            return Some(instant + moved_us);
        }
        // The log is older than its file's time says. Intervals stay right.
        let eve = YearlessTime { day: 28, ..time }.in_year(year)?;
        let is_leap_day = time.month == 2 && time.day == 29;
        self.leap_days = self.leap_days.max(i64::from(is_leap_day));
        is_leap_day.then_some(eve + US_PER_DAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_times_have_a_fraction_and_a_zone_or_not() {
        let at = 1_772_357_405_000_000;
        for (text, us, length) in [
            ("2026-03-01T09:30:05Z rest", 0, 20),
            ("2026-03-01T09:30:05 rest", 0, 19),
            ("2026-03-01T09:30:05.123Z", 123_000, 24),
            ("2026-03-01T09:30:05.123456789Z", 123_456, 30),
            ("2026-03-01T10:30:05.5+01:00 x", 500_000, 27),
            ("2026-03-01T04:00:05-0530", 0, 24),
        ] {
            assert_eq!(
                parse_iso(text.as_bytes()),
                Some((at + us, length)),
                "{text}"
            );
        }
        for text in [
            "2026-03-01 09:30:05Z",
            "2026-13-01T09:30:05Z",
            "2026-03-01T24:30:05Z",
            "2026-03-01T09:30:05.Z",
            "2026-03-01T09:30:05+1",
            "2026",
        ] {
            assert_eq!(parse_iso(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_year_is_the_newest_that_does_not_lie_after_the_bound() {
        let time = |text: &str| YearlessTime::read(text.as_bytes()).unwrap();
        let bound = |text: &str| parse_iso(text.as_bytes()).map(|(at, _)| at);
        for (first, until, year) in [
            ("Mar  1 09:30:05", "2026-03-02T00:00:00Z", 2026),
            ("Dec 31 23:59:59", "2026-01-01T00:00:10Z", 2025),
            // Written in a zone east of here.
            ("Mar  2 09:30:05", "2026-03-02T00:00:00Z", 2026),
            ("Mar 05 09:30:05", "2026-03-02T00:00:00Z", 2025),
            ("Feb 29 09:30:05", "2026-03-02T00:00:00Z", 2024),
        ] {
            assert_eq!(
                YearAssigner::new(time(first), bound(until), false).year,
                year,
                "{first}"
            );
        }
        assert_eq!(
            YearAssigner::new(time("Mar  1 09:30:05"), None, false).year,
            2000
        );
        let mut years = YearAssigner::new(
            time("Dec 31 23:59:59"),
            bound("2026-01-01T00:00:10Z"),
            false,
        );
        let mut instant = |text| years.instant(time(text)).unwrap();
        let eve = instant("Dec 31 23:59:59");
        assert_eq!(instant("Jan  1 00:00:00") - eve, 1_000_000);
        assert_eq!(instant("Dec 31 23:59:59"), eve);
        let leap = YearAssigner::new(time("Feb 28 09:30:05"), bound("2026-03-02T00:00:00Z"), true);
        assert_eq!(leap.year, 2024);
        // A February 29 that is found too late for the year keeps the intervals.
        let mut years = YearAssigner::new(
            time("Feb 28 00:00:00"),
            bound("2026-03-02T00:00:00Z"),
            false,
        );
        let mut instant = |text| years.instant(time(text)).unwrap();
        let eve = instant("Feb 28 00:00:00");
        assert_eq!(instant("Feb 29 00:00:00") - eve, US_PER_DAY);
        assert_eq!(instant("Feb 29 00:00:00") - eve, US_PER_DAY);
        assert_eq!(instant("Mar  1 00:00:00") - eve, 2 * US_PER_DAY);
        assert_eq!(YearlessTime::read(b"Mrz  1 09:30:05"), None);
    }
}
