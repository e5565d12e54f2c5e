//! Masks a value in text form by its appearance, whatever the type of its column. So it is masked
//! in the same way as a literal, as a parameter and in COPY data, where no type is known.

use super::Mask;
use super::calendar::CalendarTime;
use super::codes::{mask_address, mask_bytea, mask_hex, mask_uuid};
use super::number::Number;
use super::outcome::MaskOutcome;
use super::structured::{mask_array, mask_json};
use super::words::{TextSyntax, mask_text};
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
const UNITS: [&str; 29] = [
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
    "ago",
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
        let structured = match text.as_bytes()[0] {
            b'{' => mask_json(self, text, out) || mask_array(self, text, out),
            b'[' | b'"' => mask_json(self, text, out),
            b'\\' => mask_bytea(key, text, out),
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
        if self.keep_values.iter().any(|kept| kept.matches_name(text)) {
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

/// Returns whether it is an interval: `1 day 02:00:00`, `3 hours`, `P1DT2H`.
fn is_interval(text: &str) -> bool {
    let first = text.as_bytes().first().copied().unwrap_or(0);
    if first == b'P' {
        let designators = |byte: u8| byte.is_ascii_digit() || b"YMWDTHS.-".contains(&byte);
        let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
        return has_digit && text.len() < 40 && text.bytes().skip(1).all(designators);
    }
    if !(first.is_ascii_digit() || matches!(first, b'-' | b'+' | b'@')) || text.len() > 80 {
        return false;
    }
    let mut units = 0;
    let mut number = false;
    for word in text.split_ascii_whitespace() {
        let word = word.trim_start_matches(['-', '+', '@']);
        let digits = word
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
            .count();
        let (digits, unit) = word.split_at(digits);
        if !digits.is_empty() && unit.starts_with(':') {
            // A time after the days.
            if units == 0
                || !unit
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'))
            {
                return false;
            }
            continue;
        }
        number |= !digits.is_empty();
        if unit.is_empty() {
            continue;
        }
        let unit = unit.to_ascii_lowercase();
        let singular = unit
            .strip_suffix('s')
            .filter(|unit| !unit.is_empty())
            .unwrap_or(&unit);
        if !number || !UNITS.contains(&singular) && !UNITS.contains(&unit.as_str()) {
            return false;
        }
        units += 1;
    }
    units > 0
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
        let (date, _) = masked("2026-03-05");
        assert_eq!(masked(r#""2026-03-05""#).0, format!("\"{date}\""));
    }
}
