//! Quotes names and texts for SQL.

/// Quotes a name for SQL.
pub(crate) fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a text for SQL.
pub(crate) fn quote_literal(text: &str) -> String {
    // A backslash is an ordinary character, since standard_conforming_strings is on.
    format!("'{}'", text.replace('\'', "''"))
}
