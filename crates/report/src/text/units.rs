//! Formats numbers with their units.

use clock::duration_text;
use statistics::Unit;

/// Formats a count with thousands separators: `12,345`.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with a noun: `1 session`, `2 sessions`. The plural takes an `s`.
pub(crate) fn counted(number: u64, word: &str) -> String {
    format!(
        "{} {word}{}",
        count(number),
        if number == 1 { "" } else { "s" }
    )
}

/// Formats microseconds as a duration.
pub(crate) fn duration(us: f64) -> String {
    duration_text((us * 1e3).round() as i64)
}

/// Formats nanoseconds as a duration.
pub(crate) fn duration_ns(ns: f64) -> String {
    duration_text(ns.round() as i64)
}

/// Formats durations before and after, given in nanoseconds: `1.20 → 3.40 ms`, `850 µs → 1.20 s`.
pub(crate) fn duration_change(before: Option<f64>, after: Option<f64>) -> String {
    let text = |ns: Option<f64>| ns.map_or_else(|| "–".to_owned(), duration_ns);
    let (before, after) = (text(before), text(after));
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    match (before.split_once(' '), unit(&after)) {
        (Some((number, unit)), Some(other)) if unit == other && !unit.contains(' ') => {
            format!("{number} → {after}")
        }
        _ => format!("{before} → {after}"),
    }
}

/// Formats added nanoseconds: `+1.20 s`, `−3.40 ms`.
pub(crate) fn added(ns: f64) -> String {
    let sign = if ns < 0.0 { "−" } else { "+" };
    format!("{sign}{}", duration_ns(ns.abs()))
}

/// Formats a share with the significant digits: `41.2 %`, `0.3 %`, `100 %`.
pub(crate) fn percent(part: f64, whole: f64) -> String {
    if whole <= 0.0 {
        return "–".to_owned();
    }
    let percent = 100.0 * part / whole;
    // Shares other than 0 and 1 must not be rounded to 0 % or 100 %.
    if percent > 0.0 && percent < 0.05 {
        "<0.1 %".to_owned()
    } else if percent >= 99.95 && part < whole {
        ">99.9 %".to_owned()
    } else if percent >= 99.95 {
        "100 %".to_owned()
    } else {
        format!("{percent:.1} %")
    }
}

/// Formats a ratio with three digits: `1.04`, `12.4`, `250`.
pub(crate) fn ratio(ratio: f64) -> String {
    let decimals = match ratio {
        r if r < 9.995 => 2,
        r if r < 99.95 => 1,
        _ => 0,
    };
    format!("{ratio:.decimals$}")
}

/// Formats a rate per second, with three digits.
pub(crate) fn rate(per_s: f64) -> String {
    if per_s >= 99.95 {
        count(per_s.round() as u64)
    } else {
        ratio(per_s)
    }
}

/// Formats a number with its unit.
pub fn quantity(number: f64, unit: Unit) -> String {
    match unit {
        Unit::Count => count(number.round().max(0.0) as u64),
        Unit::Mean => ratio(number),
        Unit::Nanoseconds => duration(number / 1e3),
        Unit::Share => percent(number, 1.0),
        Unit::Bytes => bytes(number.round().max(0.0) as u64),
        Unit::PerSecond => format!("{} a second", rate(number)),
        Unit::Times => format!("{} times", ratio(number)),
    }
}

/// Formats bytes in powers of 1024: `512 B`, `12.3 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut at = 0;
    while value >= 1023.5 && at + 1 < UNITS.len() {
        value /= 1024.0;
        at += 1;
    }
    format!("{} {}", ratio(value), UNITS[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "session"), "1 session");
        assert_eq!(counted(0, "session"), "0 sessions");
        assert_eq!(duration(1_234.5), "1.23 ms");
        assert_eq!(added(-3_400_000.0), "−3.40 ms");
        assert_eq!(bytes(1_023), "1023 B");
        assert_eq!(bytes(12_897_484), "12.3 MiB");
        assert_eq!(rate(1_234.6), "1,235");
        assert_eq!(rate(0.5), "0.50");
    }

    #[test]
    fn change_has_its_unit_once_if_possible() {
        assert_eq!(duration_change(Some(1.2e6), Some(3.4e6)), "1.20 → 3.40 ms");
        assert_eq!(duration_change(Some(850e3), Some(1.2e9)), "850 µs → 1.20 s");
        assert_eq!(duration_change(None, Some(1.2e9)), "– → 1.20 s");
        assert_eq!(
            duration_change(Some(61e9), Some(62e9)),
            "1 min 01 s → 1 min 02 s"
        );
    }

    #[test]
    fn rounded_share_is_never_zero_or_all() {
        assert_eq!(percent(1.0, 100_000.0), "<0.1 %");
        assert_eq!(percent(99_999.0, 100_000.0), ">99.9 %");
        assert_eq!(percent(5.0, 5.0), "100 %");
        assert_eq!(percent(0.0, 5.0), "0.0 %");
        assert_eq!(percent(1.0, 0.0), "–");
    }
}
