//! Recognises the spellings of a time, which is no secret.

/// Words of a time, other than names of months and days of the week.
const TIME_WORDS: [&str; 15] = [
    "infinity", "epoch", "now", "today", "tomorrow", "t", "z", "utc", "gmt", "am", "pm", "ad",
    "bc", "at", "weds",
];

/// Names of months and days of the week. The server also reads their first letters, at least three.
const MONTHS_AND_DAYS: [&str; 19] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// Whether a value is a time, such as `2030-01-01 00:00:00+00`, `Jan 1 2030` or `tomorrow`.
pub(super) fn is_time(value: &str) -> bool {
    let is_part =
        |character: char| character.is_ascii_alphanumeric() || "-:+., ".contains(character);
    let mut words = value.split(|character: char| !character.is_ascii_alphabetic());
    value.chars().all(is_part) && words.all(is_time_word)
}

fn is_time_word(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    word.is_empty()
        || TIME_WORDS.contains(&&*word)
        || word.len() >= 3 && MONTHS_AND_DAYS.iter().any(|name| name.starts_with(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_told_from_a_password() {
        for value in [
            "2030-01-01",
            "2030-01-01T00:00:00Z",
            "2030-01-01 10:00:00+02",
            "Jan 1 2030",
            "1 Sept 2030 12:00 UTC",
            "Wednesday, January 2, 2030 AD",
            "tomorrow",
            "infinity",
            "",
        ] {
            assert!(is_time(value), "{value}");
        }
        for value in [
            "monkey",
            "marie1990",
            "ja",
            "s3cret",
            "2030-01-01#",
            "Märchen",
        ] {
            assert!(!is_time(value), "{value}");
        }
    }
}
