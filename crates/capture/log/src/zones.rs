//! Resolves time zone abbreviations that several countries use, such as CST and IST.
//!
//! The server prints an abbreviation after each time. Which country's it is follows, in this order,
//! from the time zone that the user gives, from the start of the sessions (`%c` and `session_id`
//! hold it in UTC), or from another abbreviation of the same log. Otherwise it is read as in
//! PostgreSQL's default set, and a note reports it.

use jiff::tz::{Offset, TimeZone};

use super::LogError;

/// Abbreviations that several countries use today: their offsets in minutes east of UTC, the
/// default first, and the countries.
const AMBIGUOUS: &[(&str, &[(i32, &str)])] = &[
    (
        "CST",
        &[
            (-360, "North America"),
            (480, "China and Taiwan"),
            (-300, "Cuba"),
        ],
    ),
    ("CDT", &[(-300, "North America"), (-240, "Cuba")]),
    ("IST", &[(120, "Israel"), (330, "India"), (60, "Ireland")]),
    ("PST", &[(-480, "North America"), (480, "the Philippines")]),
    ("BST", &[(60, "the United Kingdom"), (360, "Bangladesh")]),
];

/// Abbreviations that decide another one of the same log.
const PAIRS: [(&str, &str, i32); 4] = [
    ("GMT", "IST", 60),
    ("GMT", "BST", 60),
    ("IDT", "IST", 120),
    ("PDT", "PST", -480),
];

/// Maximum age of the youngest session of a log's beginning for which its start decides. The
/// alternatives are at least an hour apart.
const AGE_MAX_US: i64 = 15 * 60 * 1_000_000;

/// Tolerated negative age: a session's start has whole seconds.
const AGE_MIN_US: i64 = -2_000_000;

const US_PER_MINUTE: i64 = 60 * 1_000_000;

/// Knowledge of a log's time zone.
#[derive(Debug, Clone, Default)]
pub(super) struct ZoneReading {
    given: Option<TimeZone>,
    /// Offsets that the log shows, in minutes.
    found: Vec<(String, i32)>,
}

impl ZoneReading {
    /// Creates it from the zone that the user gives: a name such as `Asia/Kolkata`, or an offset
    /// such as `+08`.
    pub(super) fn parse(name: &str) -> Result<Self, LogError> {
        let offset = || {
            let digits = name.strip_prefix(['+', '-'])?;
            let (hours, minutes) = match digits.split_once(':') {
                Some(parts) => parts,
                None => digits.split_at_checked(2).unwrap_or((digits, "")),
            };
            let hours: i32 = hours.parse().ok()?;
            let minutes: i32 = match minutes {
                "" => 0,
                minutes => minutes.parse().ok()?,
            };
            let seconds = (hours * 60 + minutes) * 60;
            let east = if name.starts_with('-') {
                -seconds
            } else {
                seconds
            };
            Offset::from_seconds(east).ok().map(TimeZone::fixed)
        };
        let zone = offset()
            .or_else(|| TimeZone::get(name).ok())
            .ok_or_else(|| LogError::TimeZoneUnknown {
                zone: name.to_owned(),
            })?;
        Ok(ZoneReading {
            given: Some(zone),
            found: Vec::new(),
        })
    }

    /// The zone that the user gives.
    pub(super) fn given(&self) -> Option<&TimeZone> {
        self.given.as_ref()
    }

    /// Returns the offset of an abbreviation in minutes, if it is known otherwise than by default.
    /// `local_us` is the time as printed, in microseconds; `before` is the abbreviation before it
    /// in the log.
    pub(super) fn offset_minutes(&self, zone: &str, before: &str, local_us: i64) -> Option<i32> {
        if let Some((_, minutes)) = self.found.iter().find(|(name, _)| name == zone) {
            return Some(*minutes);
        }
        let given = self.given.as_ref();
        given
            .and_then(|given| offset_in(given, zone, local_us))
            .or_else(|| pair(before, zone))
    }
}

fn pair(one: &str, zone: &str) -> Option<i32> {
    let known = PAIRS.iter().find(|(a, b, _)| (*a, *b) == (one, zone));
    known.map(|(_, _, minutes)| *minutes)
}

/// Returns the offset that a zone has under an abbreviation within a year of a time. A zone that is
/// given as an offset has no abbreviation.
fn offset_in(zone: &TimeZone, abbreviation: &str, local_us: i64) -> Option<i32> {
    if let Ok(offset) = zone.to_fixed_offset() {
        return Some(offset.seconds() / 60);
    }
    const QUARTER_US: i64 = 91 * 24 * 60 * US_PER_MINUTE;
    (0..4).find_map(|quarter| {
        let at = jiff::Timestamp::from_microsecond(local_us - quarter * QUARTER_US).ok()?;
        let info = zone.to_offset_info(at);
        (info.abbreviation() == abbreviation).then(|| info.offset().seconds() / 60)
    })
}

/// Returns whether several countries use an abbreviation.
pub(super) fn is_ambiguous(zone: &str) -> bool {
    AMBIGUOUS.iter().any(|(name, _)| *name == zone)
}

/// Facts about a log's time zone, from its beginning.
#[derive(Debug, Clone, Default)]
pub(super) struct ZoneEvidence {
    /// The abbreviations, in the order of their first times.
    pub seen: Vec<String>,
    /// The offset with which the last of them was read, in minutes.
    pub offset_minutes: i32,
    /// The smallest time since its session's start, in microseconds.
    pub age_min_us: Option<i64>,
}

/// Resolves the zone of a log by its beginning; returns also notes for the user.
pub(super) fn resolve(given: &ZoneReading, evidence: &ZoneEvidence) -> (ZoneReading, Vec<String>) {
    let mut reading = given.clone();
    let mut notes = Vec::new();
    if reading.given.is_some() {
        return (reading, notes);
    }
    for zone in &evidence.seen {
        let by_pair = evidence.seen.iter().find_map(|other| pair(other, zone));
        reading
            .found
            .extend(by_pair.map(|minutes| (zone.clone(), minutes)));
    }
    let [zone] = &evidence.seen[..] else {
        return (reading, notes);
    };
    if zone.starts_with(['+', '-']) {
        return (reading, notes);
    }
    let by_default = evidence.offset_minutes;
    let age_us = |minutes: i32| {
        let moved_us = i64::from(by_default - minutes) * US_PER_MINUTE;
        evidence
            .age_min_us
            .map(|age_us| age_us.saturating_add(moved_us))
    };
    let countries = AMBIGUOUS.iter().find(|(name, _)| name == zone);
    let fits = |minutes: i32| {
        age_us(minutes).is_some_and(|age_us| (AGE_MIN_US..AGE_MAX_US).contains(&age_us))
    };
    if let Some((_, countries)) = countries {
        match countries.iter().find(|(minutes, _)| fits(*minutes)) {
            Some((minutes, country)) => {
                reading.found.push((zone.clone(), *minutes));
                if *minutes != by_default {
                    notes.push(format!(
                        "its times are in {zone}, which is read as {} ({country}), as the starts of its sessions show",
                        shown(*minutes)
                    ));
                }
            }
            None => notes.push(ambiguity(zone, by_default, countries)),
        }
        return (reading, notes);
    }
    // `log_timezone = 'GMT+3'` is west of Greenwich by POSIX, and prints only `GMT`.
    let too_early = age_us(by_default).is_some_and(|age_us| age_us < -5 * US_PER_MINUTE);
    if too_early {
        let quarters = age_us(by_default).map(|age_us| age_us.div_euclid(15 * US_PER_MINUTE));
        let quarters = quarters.unwrap_or(0).clamp(-QUARTERS_MAX, QUARTERS_MAX);
        let minutes = by_default + quarters as i32 * 15;
        if fits(minutes) {
            reading.found.push((zone.clone(), minutes));
            notes.push(format!(
                "its times are printed as {zone}, but lie {} from UTC, as the starts of its sessions show; they are read so",
                shown(minutes)
            ));
        }
    }
    (reading, notes)
}

fn ambiguity(zone: &str, by_default: i32, countries: &[(i32, &str)]) -> String {
    let meanings: Vec<String> = countries
        .iter()
        .map(|(minutes, country)| format!("{} in {country}", shown(*minutes)))
        .collect();
    format!(
        "its times are in {zone}, which is {}; nothing in it decides, and they are read as {}; give --log-timezone with the server's log_timezone, such as Europe/London",
        meanings.join(", "),
        shown(by_default)
    )
}

/// Formats an offset as PostgreSQL does.
fn shown(minutes: i32) -> String {
    let sign = if minutes < 0 { '-' } else { '+' };
    let (hours, rest) = (minutes.abs() / 60, minutes.abs() % 60);
    match rest {
        0 => format!("{sign}{hours:02}"),
        rest => format!("{sign}{hours:02}{rest:02}"),
    }
}

/// Converts a time without a zone, read as UTC, to UTC. An hour that occurs twice is its first
/// occurrence, unless that is before `after_us`.
pub(super) fn to_utc(zone: &TimeZone, local_us: i64, after_us: i64) -> Option<i64> {
    let at = jiff::Timestamp::from_microsecond(local_us).ok()?;
    let local = Offset::UTC.to_datetime(at);
    let ambiguous = zone.to_ambiguous_timestamp(local);
    let first = ambiguous.compatible().ok()?.as_microsecond();
    let later = ambiguous.later().ok()?.as_microsecond();
    Some(match first < after_us && later >= after_us {
        true => later,
        false => first,
    })
}

/// Number of quarters of an hour in a day. No zone is further from another.
const QUARTERS_MAX: i64 = 24 * 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(zone: &str, offset_minutes: i32, age_minutes: i64) -> ZoneEvidence {
        ZoneEvidence {
            seen: vec![zone.to_owned()],
            offset_minutes,
            age_min_us: Some(age_minutes * US_PER_MINUTE),
        }
    }

    #[test]
    fn the_start_of_sessions_decides() {
        for (zone, by_default, age_minutes, minutes) in [
            ("CST", -360, 14 * 60 + 1, Some(480)),
            ("CST", -360, 1, Some(-360)),
            ("IST", 120, 211, Some(330)),
            ("PST", -480, 16 * 60, Some(480)),
            // GMT+3
            ("GMT", 0, -179, Some(-180)),
            ("GMT", 0, 1, None),
            ("UTC", 0, 500, None),
        ] {
            let (reading, _) = resolve(
                &ZoneReading::default(),
                &evidence(zone, by_default, age_minutes),
            );
            assert_eq!(reading.offset_minutes(zone, "", 0), minutes, "{zone}");
        }
        let (reading, notes) = resolve(&ZoneReading::default(), &evidence("CST", -360, 120));
        assert_eq!(reading.offset_minutes("CST", "", 0), None);
        assert!(notes[0].contains("--log-timezone"), "{notes:?}");
    }

    #[test]
    fn a_given_zone_decides() {
        let at = 1_772_357_405_000_000;
        for (given, zone, minutes) in [
            ("Asia/Shanghai", "CST", Some(480)),
            ("Asia/Kolkata", "IST", Some(330)),
            ("Europe/Dublin", "IST", Some(60)),
            ("+08", "CST", Some(480)),
            ("-03:30", "X", Some(-210)),
            ("Europe/Berlin", "CST", None),
        ] {
            let reading = ZoneReading::parse(given).unwrap();
            assert_eq!(reading.offset_minutes(zone, "", at), minutes, "{given}");
        }
        assert!(ZoneReading::parse("Mars/Base").is_err());
    }

    #[test]
    fn an_hour_that_occurs_twice_continues() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        // 2026-10-25 02:30 local, first at 00:30 and then at 01:30 UTC.
        let local_us = 1_792_895_400_000_000;
        let first = to_utc(&zone, local_us, i64::MIN).unwrap();
        assert_eq!(local_us - first, 120 * US_PER_MINUTE);
        let second = to_utc(&zone, local_us, first + US_PER_MINUTE).unwrap();
        assert_eq!(second - first, 60 * US_PER_MINUTE);
    }
}
