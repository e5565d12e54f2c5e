//! JSON documents.

use std::fmt::Write as _;

use serde::Serialize;

use crate::text::line;

/// Result that is printed as a JSON document.
pub trait Document: Serialize {
    /// Name and version of the document's schema, in its field `schema`.
    const SCHEMA: &'static str;
}

#[derive(Serialize)]
struct Versioned<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    result: &'a T,
}

/// Returns the document as JSON, indented, with a line feed at its end.
///
/// # Panics
///
/// Never: results have text keys and finite numbers only.
pub fn to_document<T: Document>(result: &T) -> String {
    let schema = T::SCHEMA;
    to_json(&Versioned { schema, result })
}

/// Returns the value as JSON, indented, with a line feed at its end.
///
/// # Panics
///
/// Never: results have text keys and finite numbers only.
pub fn to_json<V: Serialize>(value: &V) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("a result is plain data");
    text.push('\n');
    escape_json(text)
}

/// Returns the value as JSON on one line, without a line feed.
pub fn to_json_line<V: Serialize>(value: &V) -> String {
    escape_json(serde_json::to_string(value).expect("a result is plain data"))
}

/// Escapes what a terminal would execute in a JSON text. The values remain the same: such characters are only
/// within its strings.
pub fn escape_json(text: String) -> String {
    let is_safe = |c: char| c == '\n' || line::is_printable(c);
    if text.chars().all(is_safe) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_safe(character) {
            true => escaped.push(character),
            // None of them is above U+FFFF.
            false => write!(escaped, "\\u{:04x}", u32::from(character)).expect("memory"),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_remain_the_same_values() {
        let evil = "a\u{1b}[31m\u{7f}\u{9b}31m\u{202e}\u{2028}b\n\"";
        for text in [to_json(&[evil]), to_json_line(&[evil])] {
            assert!(text.chars().all(|c| c == '\n' || line::is_printable(c)));
            assert_eq!(serde_json::from_str::<[String; 1]>(&text).unwrap(), [evil]);
        }
    }
}
