//! Quotes names and texts for SQL.

/// Quotes a name for SQL.
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quotes a text for SQL, for each value of `standard_conforming_strings`: a text with a backslash is written with escapes
/// (PostgreSQL documentation, 4.1.2.2).
pub fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_with_a_backslash_is_the_same_with_and_without_standard_conforming_strings() {
        assert_eq!(quote_literal("O'x"), "'O''x'");
        assert_eq!(quote_literal(r"\'; x"), r"E'\\''; x'");
    }
}
