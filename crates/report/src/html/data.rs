//! Data for a page's scripts.

use serde::Serialize;

/// The value as JSON that can stand within `<script type="application/json">`: it holds no `<`, so
/// that nothing in it ends the element, and no line separators of Unicode.
///
/// # Panics
///
/// Never: views have text keys and finite numbers only.
pub(super) fn script_json<V: Serialize>(value: &V) -> String {
    let json = serde_json::to_string(value).expect("a view is plain data");
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            // These occur within strings only, where JSON has an escape for them.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_it_ends_the_script() {
        let nasty = "</script><!-- & \u{2028} \"quoted\" \\";
        let json = script_json(&nasty);
        assert!(!json.contains(['<', '>', '&', '\u{2028}']), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), nasty);
    }
}
