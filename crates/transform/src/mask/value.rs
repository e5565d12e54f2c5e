//! Masks a value in text form by its appearance, whatever the type of its column. So it is masked
//! in the same way as a literal, as a parameter and in COPY data, where no type is known.

use super::Mask;
use super::calendar::CalendarTime;
use super::codes::{mask_address, mask_bytea, mask_hex, mask_uuid};
use super::number::Number;
use super::outcome::MaskOutcome;
use super::structured::{has_elements, mask_array, mask_json};
use super::words::{TextSyntax, mask_text};
use ::sql::Pattern;
use workload::KeepReason;

/// Words that are values of a type rather than data.
const WORDS: [&str; 20] = [
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "null",
    "infinity",
    "-infinity",
    "+infinity",
    "inf",
    "-inf",
    "nan",
    "now",
    "today",
    "tomorrow",
    "yesterday",
    "epoch",
    "allballs",
    "utc",
];

/// Units of time, in the singular.
const UNITS: [&str; 28] = [
    "microsecond",
    "usec",
    "us",
    "millisecond",
    "msec",
    "ms",
    "second",
    "sec",
    "s",
    "minute",
    "min",
    "m",
    "hour",
    "hr",
    "h",
    "day",
    "d",
    "week",
    "w",
    "month",
    "mon",
    "year",
    "yr",
    "y",
    "decade",
    "century",
    "centurie",
    "millennium",
];

impl Mask {
    /// Masks a value in text form.
    pub(super) fn mask_value(&self, text: &str, out: &mut String) -> MaskOutcome {
        let key = &self.key;
        if let Some(reason) = self.kept_reason(text) {
            out.push_str(text);
            return MaskOutcome::Kept(reason);
        }
        if let Some(number) = Number::parse(text) {
            number.mask(key, out);
            return MaskOutcome::Masked;
        }
        if mask_uuid(key, text, out) {
            return MaskOutcome::Masked;
        }
        if let Some(moment) = CalendarTime::parse(text) {
            moment.mask(key, out);
            return MaskOutcome::Masked;
        }
        let structured = match text.trim_start().as_bytes().first() {
            Some(b'{') => mask_json(self, text, out) || mask_array(self, text, out),
            Some(b'[' | b'"') => mask_json(self, text, out),
            Some(b'\\') => mask_bytea(key, text, out),
            _ => mask_address(key, text, out) || mask_hex(key, text, out),
        };
        if structured {
            return MaskOutcome::Masked;
        }
        match mask_text(key, text, TextSyntax::Plain, out) {
            true => MaskOutcome::Masked,
            false => MaskOutcome::Kept(KeepReason::Small),
        }
    }

    /// Returns the reason why a value is kept in any context, if there is one.
    pub(super) fn kept_reason(&self, text: &str) -> Option<KeepReason> {
        if self.keep_values.iter().any(|kept| keeps(kept, text)) {
            return Some(KeepReason::Requested);
        }
        let small = text.chars().nth(1).is_none()
            || Number::parse(text).is_some_and(|number| number.is_small())
            || WORDS.iter().any(|word| word.eq_ignore_ascii_case(text));
        if small {
            return Some(KeepReason::Small);
        }
        is_interval(text).then_some(KeepReason::Interval)
    }
}

/// Returns whether a pattern keeps a text as a whole. A pattern that begins with `*` is meant for single values: one
/// matching element would keep all others of an array or of JSON, so these are compared one by one.
fn keeps(pattern: &Pattern, text: &str) -> bool {
    pattern.matches_name(text) && !(pattern.given().starts_with('*') && has_elements(text))
}

/// Returns whether it is an interval: `1 day 02:00:00`, `3 hours`, `P1DT2H`. A number with more digits than intervals have is
/// none: identity cards and passports have one letter, too.
fn is_interval(text: &str) -> bool {
    if let Some(parts) = text.strip_prefix('P') {
        return is_iso_interval(parts);
    }
    let first = text.as_bytes().first().copied().unwrap_or(0);
    if !(first.is_ascii_digit() || matches!(first, b'-' | b'+' | b'@')) || text.len() > 80 {
        return false;
    }
    let mut units = 0;
    // Number that has no unit yet.
    let mut pending: Option<&str> = None;
    for word in text.split_ascii_whitespace() {
        let (number, unit) = split_number(word.trim_start_matches(['-', '+', '@']));
        if !number.is_empty() && unit.starts_with(':') {
            // A time after the days.
            if units == 0 || pending.is_some() || !is_time_of_interval(number, unit) {
                return false;
            }
            continue;
        }
        if !number.is_empty() && pending.replace(number).is_some() {
            return false;
        }
        if unit.is_empty() || units > 0 && unit.eq_ignore_ascii_case("ago") {
            continue;
        }
        let is_glued = !number.is_empty();
        match pending.take() {
            Some(number) if is_quantity(number, unit, is_glued) => units += 1,
            _ => return false,
        }
    }
    units > 0 && pending.is_none()
}

/// Splits off the leading digits and points.
fn split_number(text: &str) -> (&str, &str) {
    let is_number = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    text.split_at(text.bytes().take_while(is_number).count())
}

fn is_time_of_interval(hours: &str, rest: &str) -> bool {
    let is_time = |byte: u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
    has_digits(hours, 6) && rest.len() <= "00:00:00.000000".len() && rest.bytes().all(is_time)
}

/// Returns whether a number has at most this many digits before its point, and at most microseconds after it.
fn has_digits(number: &str, most: usize) -> bool {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    (1..=most).contains(&whole.len()) && fraction.len() <= 6 && !fraction.contains('.')
}

/// Returns whether a number with a unit is a part of an interval.
fn is_quantity(number: &str, unit: &str, is_glued: bool) -> bool {
    let unit = unit.to_ascii_lowercase();
    let singular = unit.strip_suffix('s').filter(|unit| !unit.is_empty());
    if !UNITS.contains(&singular.unwrap_or(&unit)) && !UNITS.contains(&unit.as_str()) {
        return false;
    }
    let most = match (unit.len(), is_glued) {
        (1, true) => 4,
        (1 | 2, _) => 6,
        _ => 9,
    };
    has_digits(number, most)
}

/// Returns whether this follows the `P` of an interval with designators (ISO 8601, 4.4.3.2), such as `1DT2H`.
fn is_iso_interval(parts: &str) -> bool {
    let (date, time) = match parts.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (parts, None),
    };
    let (has_date, has_time) = (!date.is_empty(), time.is_some());
    let is_date = !has_date || are_iso_parts(date, "YMWD");
    is_date
        && (has_date || has_time)
        && time.is_none_or(|time| !time.is_empty() && are_iso_parts(time, "HMS"))
}

/// Returns whether these are numbers, each with one of the designators, which are in this order.
fn are_iso_parts(mut text: &str, mut designators: &str) -> bool {
    while !text.is_empty() {
        let (number, rest) = split_number(text.trim_start_matches(['-', '+']));
        let mut letters = rest.chars();
        let designator = letters.next();
        let place = designator.and_then(|letter| designators.find(letter));
        let Some(place) = place.filter(|_| has_digits(number, 6)) else {
            return false;
        };
        (text, designators) = (letters.as_str(), &designators[place + 1..]);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::tests::mask;
    use super::*;

    fn masked(text: &str) -> (String, MaskOutcome) {
        let mut out = String::new();
        let outcome = mask().mask_value(text, &mut out);
        (out, outcome)
    }

    #[test]
    fn values_that_name_nobody_stay() {
        for text in [
            "", "x", "7", "-1", "0.00", "true", "F", "Infinity", "--", "%", " ",
        ] {
            assert_eq!(
                masked(text),
                (text.to_owned(), MaskOutcome::Kept(KeepReason::Small))
            );
        }
        for text in [
            "1 day",
            "3 hours",
            "1 year 2 mons 3 days 04:05:06.7",
            "P1DT2H",
            "-5min",
            "2 weeks ago",
        ] {
            assert_eq!(
                masked(text),
                (text.to_owned(), MaskOutcome::Kept(KeepReason::Interval))
            );
        }
        for text in ["12 monkeys", "PETER1", "10:30:00 x", "2 3"] {
            assert!(!is_interval(text), "{text}");
        }
    }

    #[test]
    fn keys_of_json_are_masked_on_request_only() {
        let text = r#"{"Smith": {"Miller" : 1}}"#;
        assert_eq!(masked(text).0, text);
        let mut mask = mask();
        mask.mask_json_keys();
        let replaced = mask.replace(text);
        assert!(
            !replaced.contains("Smith") && !replaced.contains("Miller"),
            "{replaced}"
        );
        assert!(
            serde_json::from_str::<serde_json::Value>(&replaced).is_ok(),
            "{replaced}"
        );
    }

    #[test]
    fn pattern_that_begins_with_a_star_keeps_matching_elements_and_no_whole_array_or_json() {
        let mut mask = mask();
        for pattern in ["*test*", "{exact,list}", "{\"kind\"*"] {
            mask.keep_value(Pattern::name(pattern));
        }
        for text in [
            "{anna.hartmann@example.com,tester@example.com}",
            r#"{"{anna.hartmann@example.com,x}","{tester@example.com}"}"#,
            r#"{"mail": "anna.hartmann@example.com", "role": "tester"}"#,
            r#"["anna.hartmann@example.com", {"a": "tester"}]"#,
            "\n  {\"mail\": \"anna.hartmann@example.com\", \"role\": \"tester\"}",
        ] {
            let replaced = mask.replace(text);
            assert!(
                !replaced.contains("hartmann") && replaced.contains("tester"),
                "{text}: {replaced}"
            );
        }
        for cut in [
            "{anna.hartmann@example.com,tester@exa",
            r#"[{"mail": "anna.hartmann@example.com", "role": "tester"#,
            "[0:1]={anna.hartmann@example.com,tester}",
            "[0:1] = {anna.hartmann@example.com,tester}",
            " {anna.hartmann@example.com,tester}",
            "[\n  {\"mail\": \"anna.hartmann@example.com\", \"role\": \"tester\"",
        ] {
            let replaced = mask.replace(cut);
            assert!(!replaced.contains("hartmann"), "{cut}: {replaced}");
        }
        for text in [
            "a tester",
            "[test] of a text",
            "{exact,list}",
            r#"{"kind": "Hartmann"}"#,
            "\"a test\"",
        ] {
            assert_eq!(mask.replace(text), text);
        }
    }

    #[test]
    fn numbers_of_documents_and_plates_are_no_intervals() {
        for text in [
            "P4012345",
            "P4012345D",
            "P",
            "PT",
            "P1",
            "P1D2Y",
            "10370371S",
            "10370371 S",
            "10740742h",
            "12345678D",
            "1 day 12345678",
            "12345678 1 day",
            "1 day 12345678:00",
            "1234567890 days",
            "5 ago",
        ] {
            assert!(!is_interval(text), "{text}");
        }
        for text in [
            "PT4H5M6.7S",
            "P-1Y2M",
            "P2W",
            "900000 seconds",
            "3600s",
            "@ 1 min ago",
        ] {
            assert!(is_interval(text), "{text}");
        }
    }

    #[test]
    fn json_and_arrays_keep_their_structure() {
        let (name, _) = masked("Smith");
        let (year, _) = masked("1977");
        assert_eq!(
            masked(r#"{"name": "Smith", "born":1977, "tags": ["a", null, true]}"#).0,
            format!(r#"{{"name": "{name}", "born":{year}, "tags": ["a", null, true]}}"#)
        );
        assert_eq!(
            masked(r#"{Smith,"Smith",NULL,{1977,2}}"#).0,
            format!(r#"{{{name},"{name}",NULL,{{{year},2}}}}"#)
        );
        assert_eq!(masked("{}").0, "{}");
        // Half of a surrogate pair.
        let (half, _) = masked(r#"{"a": "\ud800", "b": "Smith"}"#);
        assert!(!half.contains("Smith"), "{half}");
        let (date, _) = masked("2026-03-05");
        assert_eq!(masked(r#""2026-03-05""#).0, format!("\"{date}\""));
    }
}
