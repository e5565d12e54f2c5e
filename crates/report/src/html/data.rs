//! Data for a page's scripts.

use serde::Serialize;

/// Serialises a value as JSON for `<script type="application/json">`. It contains neither `<`,
/// which could end the element, nor Unicode line separators.
///
/// # Panics
///
/// Never: views have text keys and finite numbers only.
pub(super) fn script_json<V: Serialize>(value: &V) -> String {
    let json = serde_json::to_string(value).expect("a view is plain data");
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            // These characters only occur within strings, where JSON has an escape for them.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out
}

/// Rounds a number to five significant digits, of which three are displayed.
pub(super) fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(4 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    // The quotient may end in nines.
    format!("{rounded:.6}").parse().unwrap_or(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_json_cannot_end_the_script() {
        let nasty = "</script><!-- & \u{2028} \"quoted\" \\";
        let json = script_json(&nasty);
        assert!(!json.contains(['<', '>', '&', '\u{2028}']), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), nasty);
    }

    #[test]
    fn numbers_have_at_most_five_digits() {
        for (value, text) in [
            (123.456_789, "123.46"),
            (0.012_345_678, "0.012346"),
            (98_765_432.1, "98765000.0"),
            (-2.345_678_9, "-2.3457"),
            (0.0, "0.0"),
            (2.0, "2.0"),
        ] {
            let json = serde_json::to_string(&short(value)).unwrap();
            assert_eq!(json.parse::<f64>().unwrap(), text.parse::<f64>().unwrap());
            assert!(json.len() <= 10, "{json}");
        }
    }
}
