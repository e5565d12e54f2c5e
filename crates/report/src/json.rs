//! JSON documents.

use serde::Serialize;

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
    text
}

/// Returns the value as JSON on one line, without a line feed.
pub fn to_json_line<V: Serialize>(value: &V) -> String {
    serde_json::to_string(value).expect("a result is plain data")
}
