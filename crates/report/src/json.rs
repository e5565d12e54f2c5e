//! Views for machines.

use serde::Serialize;

/// The view as JSON, indented, with a line feed at its end.
///
/// # Panics
///
/// Never: views have text keys and finite numbers only.
pub fn to_json<V: Serialize>(view: &V) -> String {
    let mut text = serde_json::to_string_pretty(view).expect("a view is plain data");
    text.push('\n');
    text
}

/// The view as JSON on one line, without an end of it.
pub fn to_json_line<V: Serialize>(view: &V) -> String {
    serde_json::to_string(view).expect("a view is plain data")
}
