//! Parses the server's timestamps: `2026-03-01 09:30:05.123 CET`, and with whole seconds.
//!
//! The time zone is printed as in `log_timezone`: an abbreviation, or an offset such as `+02`.
//! Every line has its own, so a log stays in order across a change of daylight saving time.
//! Abbreviations that several countries use are resolved by [`super::zones`], otherwise read as in
//! PostgreSQL's default set.

use super::zones::{ZoneReading, is_ambiguous};

const US_PER_SECOND: i64 = 1_000_000;
const US_PER_DAY: i64 = 86_400 * US_PER_SECOND;

/// Offsets of time zone abbreviations, winter and summer, in minutes east of UTC.
const ZONES: &[(&str, i32)] = &[
    ("UTC", 0),
    ("GMT", 0),
    ("UCT", 0),
    ("Z", 0),
    ("WET", 0),
    ("WEST", 60),
    ("BST", 60),
    ("CET", 60),
    ("CEST", 120),
    ("MET", 60),
    ("MEST", 120),
    ("MEZ", 60),
    ("MESZ", 120),
    ("EET", 120),
    ("EEST", 180),
    ("MSK", 180),
    ("MSD", 240),
    ("TRT", 180),
    ("IST", 120),
    ("IDT", 180),
    ("SAST", 120),
    ("CAT", 120),
    ("WAT", 60),
    ("EAT", 180),
    ("GST", 240),
    ("PKT", 300),
    ("NPT", 345),
    ("WIB", 420),
    ("ICT", 420),
    ("WITA", 480),
    ("WIT", 540),
    ("HKT", 480),
    ("SGT", 480),
    ("AWST", 480),
    ("JST", 540),
    ("KST", 540),
    ("ACST", 570),
    ("ACDT", 630),
    ("AEST", 600),
    ("AEDT", 660),
    ("ChST", 600),
    ("CHST", 600),
    ("NZST", 720),
    ("NZDT", 780),
    ("SST", -660),
    ("HST", -600),
    ("HDT", -540),
    ("AKST", -540),
    ("AKDT", -480),
    ("PST", -480),
    ("PDT", -420),
    ("MST", -420),
    ("MDT", -360),
    ("CST", -360),
    ("CDT", -300),
    ("EST", -300),
    ("EDT", -240),
    ("AST", -240),
    ("ADT", -180),
    ("NST", -210),
    ("NDT", -150),
    ("ART", -180),
    ("BRT", -180),
    ("BRST", -120),
    ("CLT", -240),
    ("CLST", -180),
    ("COT", -300),
    ("PET", -300),
    ("UYT", -180),
    ("VET", -240),
];

/// Maximum length of a time zone, in bytes.
const ZONE_BYTES_MAX: usize = 8;

/// Parses timestamps; caches the last date and the last zone, which rarely change.
#[derive(Debug, Clone, Default)]
pub(super) struct TimestampParser {
    /// `2026-03-` and `01 09:30`, and their value.
    hours: [u8; 8],
    minutes: [u8; 8],
    minute_us: i64,
    date: [u8; 10],
    date_us: i64,
    zone: [u8; ZONE_BYTES_MAX],
    zone_length: usize,
    /// Mask of the zone's bytes in a word; empty before the first zone, when no minute is cached.
    zone_mask: u64,
    offset_us: i64,
    /// Number of changes of the zone.
    zone_changes: u64,
    unknown_zone: Option<String>,
    reading: ZoneReading,
    /// The first abbreviations of the input, for [`super::zones::resolve`].
    seen: Vec<String>,
    /// An abbreviation that was read as one of its meanings.
    unresolved: Option<String>,
}

/// Maximum number of abbreviations kept.
const SEEN_MAX: usize = 4;

/// A parsed timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timestamp {
    /// Microseconds since 1970-01-01 UTC.
    pub wall_us: i64,
    /// Number of bytes, including the zone.
    pub length: usize,
    /// Whether it had milliseconds.
    pub milliseconds: bool,
}

impl TimestampParser {
    /// Reads abbreviations as `reading` says.
    pub(super) fn set_reading(&mut self, reading: ZoneReading) {
        self.reading = reading;
        // The next time resolves its zone again.
        (self.zone_length, self.zone_mask) = (0, 0);
        (self.hours, self.minutes) = Default::default();
    }

    /// The first abbreviations of the input.
    pub(super) fn seen_zones(&self) -> &[String] {
        &self.seen
    }

    /// The offset of the last zone, in minutes east of UTC.
    pub(super) fn offset_minutes(&self) -> i32 {
        (self.offset_us / (60 * US_PER_SECOND)) as i32
    }

    /// An abbreviation that was read as one of its meanings, although nothing decides.
    pub(super) fn unresolved_zone(&self) -> Option<&str> {
        self.unresolved.as_deref()
    }

    /// Number of changes of the zone. Without one, a time has the same value at any place of the log.
    #[inline(always)]
    pub(super) fn zone_changes(&self) -> u64 {
        self.zone_changes
    }

    /// The last unknown time zone, if there was one.
    pub(super) fn unknown_zone(&self) -> Option<&str> {
        self.unknown_zone.as_deref()
    }

    /// Parses a timestamp at the start of `text`.
    #[inline(always)]
    pub(super) fn read(&mut self, text: &[u8]) -> Option<Timestamp> {
        match self.read_within_minute(text) {
            Some(stamp) => Some(stamp),
            None => self.read_any(text),
        }
    }

    /// Handles the hot case: the minute and the zone of the last timestamp, and milliseconds.
    #[inline(always)]
    fn read_within_minute(&self, text: &[u8]) -> Option<Timestamp> {
        let fixed = text.first_chunk::<{ 24 + ZONE_BYTES_MAX }>()?;
        let ([hours, minutes, rest, zone], _) = fixed.as_chunks::<8>() else {
            return None;
        };
        if *hours != self.hours || *minutes != self.minutes {
            return None;
        }
        let zone_end = 24 + self.zone_length;
        if u64::from_le_bytes(*zone) & self.zone_mask != u64::from_le_bytes(self.zone)
            || text.get(zone_end).is_none_or(u8::is_ascii_alphanumeric)
        {
            return None;
        }
        // The difference from the pattern is the digits' values.
        let digits = u64::from_le_bytes(*rest) ^ u64::from_le_bytes(*b":00.000 ");
        let too_large = digits.wrapping_add(0x0006_0606_0006_0600) | digits;
        if too_large & 0xfff0_f0f0_fff0_f0ff != 0 {
            return None;
        }
        let digit = |place: u32| (digits >> (8 * place) & 0xf) as i64;
        let seconds = 10 * digit(1) + digit(2);
        if seconds > 60 {
            return None;
        }
        let milliseconds = seconds * 1_000 + 100 * digit(4) + 10 * digit(5) + digit(6);
        Some(Timestamp {
            wall_us: self.minute_us + milliseconds * 1_000 - self.offset_us,
            length: zone_end,
            milliseconds: true,
        })
    }

    #[inline(never)]
    fn read_any(&mut self, text: &[u8]) -> Option<Timestamp> {
        let fixed = text.first_chunk::<19>()?;
        if fixed[10] != b' ' || fixed[13] != b':' || fixed[16] != b':' {
            return None;
        }
        if fixed[..10] != self.date {
            self.date_us = days(&fixed[..10])? * US_PER_DAY;
            self.date.copy_from_slice(&fixed[..10]);
        }
        let hours = two_digits(fixed[11], fixed[12])?;
        let minutes = two_digits(fixed[14], fixed[15])?;
        let seconds = two_digits(fixed[17], fixed[18])?;
        if hours > 24 || minutes > 59 || seconds > 60 {
            return None;
        }
        let minute_us =
            self.date_us + (i64::from(hours) * 60 + i64::from(minutes)) * 60 * US_PER_SECOND;
        let mut wall_us = minute_us + i64::from(seconds) * US_PER_SECOND;
        let mut length = 19;
        let milliseconds = text.get(19) == Some(&b'.');
        if milliseconds {
            let digits = text[20..]
                .iter()
                .take(6)
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            if digits == 0 {
                return None;
            }
            let mut fraction = text[20..20 + digits]
                .iter()
                .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
            for _ in digits..6 {
                fraction *= 10;
            }
            wall_us += fraction;
            length = 20 + digits;
        }
        if text.get(length) != Some(&b' ') {
            return None;
        }
        let zone = zone_length(&text[length + 1..])?;
        let zone_text = &text[length + 1..length + 1 + zone];
        if *zone_text != self.zone[..self.zone_length] {
            self.learn_zone(zone_text, wall_us)?;
        }
        self.hours.copy_from_slice(&fixed[..8]);
        self.minutes.copy_from_slice(&fixed[8..16]);
        self.minute_us = minute_us;
        Some(Timestamp {
            wall_us: wall_us - self.offset_us,
            length: length + 1 + zone,
            milliseconds,
        })
    }

    /// Sets the zone of the times from `local_us` on, which is the time as printed.
    fn learn_zone(&mut self, zone: &[u8], local_us: i64) -> Option<()> {
        let text = std::str::from_utf8(zone).ok()?;
        let before = std::str::from_utf8(&self.zone[..self.zone_length]).unwrap_or("");
        let numeric = text.starts_with(['+', '-']);
        let resolved = match numeric {
            true => None,
            false => self.reading.offset_minutes(text, before, local_us),
        };
        let Some(minutes) = resolved.or_else(|| offset_minutes(text)) else {
            self.unknown_zone = Some(text.to_owned());
            return None;
        };
        if resolved.is_none() && is_ambiguous(text) {
            self.unresolved.get_or_insert_with(|| text.to_owned());
        }
        if self.seen.len() < SEEN_MAX && !self.seen.iter().any(|seen| seen == text) {
            self.seen.push(text.to_owned());
        }
        self.zone_changes += 1;
        self.offset_us = i64::from(minutes) * 60 * US_PER_SECOND;
        self.zone = [0; ZONE_BYTES_MAX];
        self.zone[..zone.len()].copy_from_slice(zone);
        self.zone_length = zone.len();
        self.zone_mask = u64::MAX >> (8 * (ZONE_BYTES_MAX - zone.len()));
        Some(())
    }
}

/// Returns the length of the time zone at the start of `text`.
fn zone_length(text: &[u8]) -> Option<usize> {
    let first = *text.first()?;
    let length = if first == b'+' || first == b'-' {
        1 + text[1..]
            .iter()
            .take(ZONE_BYTES_MAX - 1)
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    } else {
        let letters = text
            .iter()
            .take(ZONE_BYTES_MAX)
            .take_while(|byte| byte.is_ascii_alphabetic())
            .count();
        // `GMT+3`, which log_timezone = '<GMT+3>-3' prints.
        let offset = match text.get(letters..) {
            Some([b'+' | b'-', rest @ ..]) if letters == 3 => {
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                match digits {
                    1..=4 => 1 + digits,
                    _ => 0,
                }
            }
            _ => 0,
        };
        letters + offset
    };
    // The server never writes `+2`.
    (length > usize::from(first == b'+' || first == b'-') * 2).then_some(length)
}

fn offset_minutes(zone: &str) -> Option<i32> {
    // The name's sign is that of ISO 8601, not of POSIX.
    if let Some(offset) = zone.strip_prefix("GMT").or(zone.strip_prefix("UTC"))
        && let Some(digits) = offset.strip_prefix(['+', '-'])
    {
        return match digits.len() {
            1 => offset_minutes(&format!("{}0{digits}", &offset[..1])),
            _ => offset_minutes(offset),
        };
    }
    if let Some(digits) = zone.strip_prefix(['+', '-']) {
        let (hours, minutes) = digits.split_at_checked(2)?;
        let hours: i32 = hours.parse().ok()?;
        let minutes: i32 = match minutes {
            "" => 0,
            minutes => minutes.parse().ok()?,
        };
        let east = hours * 60 + minutes;
        return (hours < 20 && minutes < 60).then_some(if zone.starts_with('-') {
            -east
        } else {
            east
        });
    }
    ZONES
        .iter()
        .find(|(name, _)| *name == zone)
        .map(|(_, minutes)| *minutes)
}

#[inline]
fn two_digits(tens: u8, ones: u8) -> Option<u32> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then_some(u32::from(tens) * 10 + u32::from(ones))
}

/// Returns the days from 1970-01-01 to `YYYY-MM-DD`.
pub(super) fn days(date: &[u8]) -> Option<i64> {
    if date[4] != b'-' || date[7] != b'-' {
        return None;
    }
    let year = i64::from(two_digits(date[0], date[1])? * 100 + two_digits(date[2], date[3])?);
    let month = i64::from(two_digits(date[5], date[6])?);
    let day = i64::from(two_digits(date[8], date[9])?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // The year begins in March, so that the leap day is its last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall_us(text: &str) -> Option<i64> {
        TimestampParser::default()
            .read(text.as_bytes())
            .map(|stamp| stamp.wall_us)
    }

    #[test]
    fn known_instants() {
        assert_eq!(wall_us("1970-01-01 00:00:00 UTC"), Some(0));
        assert_eq!(
            wall_us("2000-02-29 12:00:00.5 UTC"),
            Some(951_825_600_500_000)
        );
        assert_eq!(
            wall_us("2026-03-01 09:30:05.123 UTC rest"),
            Some(1_772_357_405_123_000)
        );
    }

    #[test]
    fn fact_20_zones_are_abbreviations_or_offsets() {
        let utc = wall_us("2026-07-01 10:00:00 UTC").unwrap();
        for (text, hours) in [
            ("2026-07-01 10:00:00 GMT", 0.0),
            ("2026-07-01 10:00:00 CEST", 2.0),
            ("2026-07-01 10:00:00 CET", 1.0),
            ("2026-07-01 10:00:00 +02", 2.0),
            ("2026-07-01 10:00:00 -03", -3.0),
            ("2026-07-01 10:00:00 +0530", 5.5),
            ("2026-07-01 10:00:00 EDT", -4.0),
            ("2026-07-01 10:00:00 JST", 9.0),
            ("2026-07-01 10:00:00 GMT+3", 3.0),
            ("2026-07-01 10:00:00 UTC-0330", -3.5),
        ] {
            assert_eq!(
                utc - wall_us(text).unwrap(),
                (hours * 3.6e9) as i64,
                "{text}"
            );
        }
    }

    #[test]
    fn fact_20_a_log_that_crosses_daylight_saving_stays_in_order() {
        let mut stamps = TimestampParser::default();
        let mut read = |text: &str| stamps.read(text.as_bytes()).unwrap().wall_us;
        let before = read("2026-10-25 02:59:59.000 CEST");
        let after = read("2026-10-25 02:00:00.000 CET");
        assert_eq!(after - before, 1_000_000);
        // Ireland's summer time has the abbreviation of Israel's winter time.
        let before = read("2026-03-29 00:59:59.500 GMT");
        let after = read("2026-03-29 02:00:00.000 IST");
        assert_eq!(after - before, 500_000);
        let before = read("2026-03-29 01:59:59.500 CET");
        let after = read("2026-03-29 03:00:00.000 CEST");
        assert_eq!(after - before, 500_000);
    }

    #[test]
    fn what_is_no_timestamp() {
        for text in [
            "",
            "2026-07-01",
            "2026-07-01T10:00:00 UTC",
            "2026-13-01 10:00:00 UTC",
            "2026-07-01 10:00:00",
            "2026-07-01 10:00:00. UTC",
            "2026-07-01 10:0x:00 UTC",
            "2026-07-01 10:00:00 +",
        ] {
            assert_eq!(wall_us(text), None, "{text}");
        }
        let mut stamps = TimestampParser::default();
        assert_eq!(stamps.read(b"2026-07-01 10:00:00 XYZ"), None);
        assert_eq!(stamps.unknown_zone(), Some("XYZ"));
    }
}
