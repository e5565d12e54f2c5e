//! Masks dates and times: each part is rotated within the part above it.
//!
//! A day is rotated within its month, and the first of a month stays; an hour is rotated within the
//! day, and midnight stays; and so on to the fraction of a second. So a range of whole months
//! selects the same rows as before, and a shorter one too unless it wraps around. Midnight stays
//! midnight, and `date_trunc` of a masked time is the mask of the truncated one. A permutation
//! would hide more, but destroy ranges of days. A time with an offset is masked in UTC, as the
//! server stores it.

use super::key::{Domain, MaskKey};
use super::number::mask_second_fraction;

const DAY_US: i64 = 86_400_000_000;

/// A date of the proleptic Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Date {
    year: i64,
    month: i64,
    day: i64,
}

impl Date {
    /// Returns the days since 1970-01-01 (Hinnant, "chrono-compatible low-level date algorithms").
    fn to_days(self) -> i64 {
        let year = if self.month <= 2 {
            self.year - 1
        } else {
            self.year
        };
        let era = year.div_euclid(400);
        let of_era = year - era * 400;
        let of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }

    fn from_days(days: i64) -> Self {
        let days = days + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * of_year + 2) / 153;
        let (day, month) = (
            of_year - (153 * month + 2) / 5 + 1,
            if month < 10 { month + 3 } else { month - 9 },
        );
        Date {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day,
        }
    }

    fn days_in_month(self) -> i64 {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        match self.month {
            2 => 28 + i64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    fn mask(self, key: &MaskKey) -> Self {
        let month = (self.year * 12 + self.month) as u64;
        let days = self.days_in_month();
        Date {
            day: mask_part(key, Domain::Day, month, self.day - 1, days) + 1,
            ..self
        }
    }
}

/// Rotates 1 to below `size` by a number of positions that is never 0; zero stays.
fn mask_part(key: &MaskKey, domain: Domain, tweak: u64, value: i64, size: i64) -> i64 {
    if value <= 0 || value >= size {
        return value;
    }
    let turn = 1 + key.hash(domain, tweak, b"") % (size as u64 - 2);
    1 + (value - 1 + turn as i64) % (size - 1)
}

/// Masks a day, counted from 1970-01-01.
pub(super) fn mask_days(key: &MaskKey, days: i64) -> i64 {
    Date::from_days(days).mask(key).to_days()
}

/// Masks a time of day in microseconds.
pub(super) fn mask_time(key: &MaskKey, time_us: i64) -> i64 {
    if !(0..DAY_US).contains(&time_us) {
        return time_us;
    }
    let (second_of_day, fraction) = (time_us / 1_000_000, time_us % 1_000_000);
    let (hour, minute, second) = (
        second_of_day / 3600,
        second_of_day / 60 % 60,
        second_of_day % 60,
    );
    let in_hour = 100 + hour as u64;
    let in_minute = 10_000 + 60 * in_hour + minute as u64;
    let hour = mask_part(key, Domain::Time, 0, hour, 24);
    let minute = mask_part(key, Domain::Time, in_hour, minute, 60);
    let second = mask_part(key, Domain::Time, in_minute, second, 60);
    let mut digits = String::new();
    mask_second_fraction(key, &format!("{fraction:06}"), &mut digits);
    let fraction: i64 = digits.parse().expect("six digits");
    ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction
}

/// Masks microseconds since 1970-01-01 00:00.
pub(super) fn mask_timestamp(key: &MaskKey, at_us: i64) -> i64 {
    mask_days(key, at_us.div_euclid(DAY_US)) * DAY_US + mask_time(key, at_us.rem_euclid(DAY_US))
}

/// A date, time or timestamp as written.
#[derive(Debug, Clone, Copy)]
pub(super) struct CalendarTime<'a> {
    date: Option<Date>,
    /// The text between date and time.
    between: &'a str,
    time: Option<Time<'a>>,
}

#[derive(Debug, Clone, Copy)]
struct Time<'a> {
    at_us: i64,
    has_seconds: bool,
    /// Number of digits after the point of the seconds; `None` without a point.
    fraction_digits: Option<usize>,
    offset_us: Option<i64>,
    /// The offset, as written.
    zone: &'a str,
}

impl<'a> CalendarTime<'a> {
    /// Parses `2026-03-01`, `09:30`, `2026-03-01 09:30:00.5+01` and the like: the format in which
    /// PostgreSQL writes them (ISO) and in which drivers send them.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (date, rest) = match parse_date(text) {
            Some((date, rest)) => (Some(date), rest),
            None => (None, text),
        };
        if date.is_some() && rest.is_empty() {
            return Some(CalendarTime {
                date,
                between: "",
                time: None,
            });
        }
        let (between, rest) = match (date, rest.as_bytes().first()) {
            (Some(_), Some(b' ' | b'T' | b't')) => rest.split_at(1),
            (Some(_), _) => return None,
            (None, _) => ("", rest),
        };
        Some(CalendarTime {
            date,
            between,
            time: Some(parse_time(rest)?),
        })
    }

    pub(super) fn mask(&self, key: &MaskKey, out: &mut String) {
        let offset_us = self.time.and_then(|time| time.offset_us).unwrap_or(0);
        let time_us = self.time.map_or(0, |time| time.at_us);
        let (date, time_us) = match self.date {
            None => {
                // The server stores the offset of a time of day, and compares in UTC.
                let masked = mask_time(key, (time_us - offset_us).rem_euclid(DAY_US));
                let masked = match time_us >= DAY_US {
                    true => time_us,
                    false => (masked + offset_us).rem_euclid(DAY_US),
                };
                (None, masked)
            }
            // 24:00 is the next day's midnight, and a leap second is in the next minute: both
            // stay.
            Some(date) if time_us >= DAY_US => (Some(date.mask(key)), time_us),
            Some(date) => {
                let at_us = date.to_days() * DAY_US + time_us - offset_us;
                let masked = mask_timestamp(key, at_us) + offset_us;
                (
                    Some(Date::from_days(masked.div_euclid(DAY_US))),
                    masked.rem_euclid(DAY_US),
                )
            }
        };
        if let Some(Date { year, month, day }) = date {
            out.push_str(&format!("{year:04}-{month:02}-{day:02}"));
        }
        let Some(time) = self.time else {
            return;
        };
        out.push_str(self.between);
        let second_of_day = time_us / 1_000_000;
        out.push_str(&format!(
            "{:02}:{:02}",
            second_of_day / 3600,
            second_of_day / 60 % 60
        ));
        if time.has_seconds {
            out.push_str(&format!(":{:02}", second_of_day % 60));
        }
        if let Some(digits) = time.fraction_digits {
            let fraction = format!("{:06}", time_us % 1_000_000);
            out.push('.');
            out.push_str(&fraction[..digits]);
        }
        out.push_str(time.zone);
    }
}

fn parse_number(text: &str, digits: usize) -> Option<(i64, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let all = number.bytes().all(|byte| byte.is_ascii_digit());
    Some((all.then(|| number.parse().ok())??, rest))
}

fn parse_date(text: &str) -> Option<(Date, &str)> {
    let (year, rest) = parse_number(text, 4)?;
    let (month, rest) = parse_number(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = parse_number(rest.strip_prefix('-')?, 2)?;
    let date = Date { year, month, day };
    let valid = (1..=12).contains(&month) && year > 0 && (1..=date.days_in_month()).contains(&day);
    valid.then_some((date, rest))
}

fn parse_time(text: &str) -> Option<Time<'_>> {
    let (hour, rest) = parse_number(text, 2)?;
    let (minute, mut rest) = parse_number(rest.strip_prefix(':')?, 2)?;
    let mut second = 0;
    let has_seconds = rest.starts_with(':');
    if has_seconds {
        (second, rest) = parse_number(&rest[1..], 2)?;
    }
    let mut fraction_us = 0;
    let mut fraction_digits = None;
    if has_seconds && rest.starts_with('.') {
        let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=6).contains(&digits) {
            return None;
        }
        fraction_us = parse_number(&rest[1..], digits)?.0 * 10i64.pow(6 - digits as u32);
        fraction_digits = Some(digits);
        rest = &rest[1 + digits..];
    }
    if hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let at_us = ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction_us;
    Some(Time {
        at_us,
        has_seconds,
        fraction_digits,
        offset_us: parse_offset(rest)?,
        zone: rest,
    })
}

/// Parses `Z`, `+01`, `-0330`, `+05:30`, `+00:00:01`, after an optional blank; `Some(None)` if
/// there is no offset, and `None` if there is other text.
#[allow(
    clippy::option_option,
    reason = "no offset is not the same as a wrong one"
)]
fn parse_offset(text: &str) -> Option<Option<i64>> {
    let text = text.strip_prefix(' ').unwrap_or(text);
    match text {
        "" => return Some(None),
        "Z" | "z" | "UTC" => return Some(Some(0)),
        _ => {}
    }
    let sign = match text.as_bytes()[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, mut rest) = parse_number(&text[1..], 2)?;
    let mut seconds = hours * 3600;
    for unit in [60, 1] {
        if rest.is_empty() {
            break;
        }
        let (value, after) = parse_number(rest.strip_prefix(':').unwrap_or(rest), 2)?;
        seconds += value * unit;
        rest = after;
    }
    rest.is_empty().then_some(Some(sign * seconds * 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn key() -> MaskKey {
        MaskKey::from_secret(b"a key for the tests")
    }

    fn masked(text: &str) -> String {
        let mut out = String::new();
        CalendarTime::parse(text)
            .expect(text)
            .mask(&key(), &mut out);
        out
    }

    #[test]
    fn days_move_within_their_month_and_the_first_stays() {
        let mut all = HashSet::new();
        for days in -40_000..40_000 {
            let date = Date::from_days(days);
            assert_eq!(date.to_days(), days);
            let moved = Date::from_days(mask_days(&key(), days));
            assert_eq!((moved.year, moved.month), (date.year, date.month));
            assert_eq!(moved.day == 1, date.day == 1);
            all.insert((moved.year, moved.month, moved.day));
        }
        assert!(all.len() >= 79_950);
        assert_eq!(masked("2026-03-01"), "2026-03-01");
        assert_eq!(masked("2024-02-29").len(), 10);
    }

    #[test]
    fn granularity_and_form_stay() {
        assert_eq!(&masked("2026-03-05 00:00:00")[10..], " 00:00:00");
        assert_eq!(&masked("2026-03-05T10:00:00Z")[13..], ":00:00Z");
        assert_ne!(masked("10:30")[3..], *"00");
        assert_eq!(masked("24:00:00"), "24:00:00");
        assert_eq!(masked("2026-03-05 10:11:12.5").len(), 21);
        // The mask of a date is the date of the masked times.
        assert_eq!(&masked("2026-03-05 10:11:12")[..10], masked("2026-03-05"));
        for text in [
            "2026-13-01",
            "2026-02-30",
            "26-01-01",
            "2026-03-05x",
            "1:30",
            "10:61",
            "2026-03-05 10:00 Europe/Berlin",
        ] {
            assert!(CalendarTime::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn one_instant_is_one_instant_in_every_zone() {
        let us = |text: &str| {
            let moment = CalendarTime::parse(text).unwrap();
            let time = moment.time.unwrap();
            moment.date.unwrap().to_days() * DAY_US + time.at_us - time.offset_us.unwrap_or(0)
        };
        let utc = us(&masked("2026-03-05 23:30:00.25+00"));
        for other in [
            "2026-03-06 00:30:00.25+01",
            "2026-03-05T18:30:00.250-05:00",
            "2026-03-06 05:00:00.25+0530",
            "2026-03-05 23:30:00.250000Z",
        ] {
            assert_eq!(us(&masked(other)), utc, "{other}");
        }
        assert_eq!(mask_timestamp(&key(), us("2026-03-05 23:30:00.25")), utc);
    }

    #[test]
    fn no_two_times_become_one() {
        let all: HashSet<i64> = (0..86_400)
            .map(|second| mask_time(&key(), second * 1_000_000))
            .collect();
        assert_eq!(all.len(), 86_400);
    }
}
