//! Reads `standard_conforming_strings`, by which a backslash in a plain literal is a plain or an escape character.

use super::fingerprint::lexer::Backslash;
use super::literal::Spelling;
use super::statement_splitter::{Lexeme, split_statements};

/// Setting that makes a backslash in a plain literal an ordinary character.
pub const STANDARD_CONFORMING_STRINGS: &str = "standard_conforming_strings";

impl Backslash {
    /// Reads the setting's value as PostgreSQL does (`parse_bool`); `None` if it is no boolean.
    pub fn of_setting(value: &str) -> Option<Self> {
        let value = value.trim().to_ascii_lowercase();
        let is = |word: &str, at_least: usize| value.len() >= at_least && word.starts_with(&value);
        match &*value {
            "1" => Some(Backslash::Plain),
            "0" => Some(Backslash::Escape),
            _ if is("true", 1) || is("yes", 1) || is("on", 2) => Some(Backslash::Plain),
            _ if is("false", 1) || is("no", 1) || is("off", 2) => Some(Backslash::Escape),
            _ => None,
        }
    }

    /// Returns the meaning that a text sets, if it is one `SET` of the setting to a value.
    pub fn set_by(sql: &str) -> Option<Self> {
        let statements = split_statements(sql);
        let [statement] = &statements[..] else {
            return None;
        };
        let words = &statement.words;
        let is =
            |place: usize, keyword: &str| words.get(place).is_some_and(|word| word.is(keyword));
        let place = 1 + usize::from(is(1, "session") || is(1, "local"));
        let name = words.get(place).and_then(Lexeme::name)?;
        if !is(0, "set") || !name.eq_ignore_ascii_case(STANDARD_CONFORMING_STRINGS) {
            return None;
        }
        match words.get(place + 2)? {
            Lexeme::Value(text) => {
                let (spelling, inner) = Spelling::of(text);
                Backslash::of_setting(&spelling.read(inner))
            }
            word => Backslash::of_setting(word.text()),
        }
    }

    /// Returns the meaning at a session's start, by the settings of its connection. `reported` is the name under
    /// which the server's own report is given.
    pub fn of_connection<'s>(
        settings: impl Iterator<Item = (&'s str, &'s str)>,
        reported: &str,
    ) -> Self {
        let is_name = |name: &str| name.eq_ignore_ascii_case(STANDARD_CONFORMING_STRINGS);
        let mut meaning = Backslash::default();
        for (name, value) in settings {
            let given = match name {
                // `-c name=off`, `--name=off`, with either `-` or `_`.
                "options" => value.split_whitespace().rev().find_map(|word| {
                    let word = word.trim_start_matches("-c").trim_start_matches('-');
                    let (name, value) = word.split_once('=')?;
                    is_name(&name.replace('-', "_")).then_some(value)
                }),
                name => (name == reported || is_name(name)).then_some(value),
            };
            meaning = given.and_then(Backslash::of_setting).unwrap_or(meaning);
        }
        meaning
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backslash_set_by_a_text_is_the_value_of_its_only_set() {
        for (sql, expected) in [
            (
                "SET standard_conforming_strings = off",
                Some(Backslash::Escape),
            ),
            (
                "set session Standard_Conforming_Strings to 'f'",
                Some(Backslash::Escape),
            ),
            (
                "set local standard_conforming_strings = 1;",
                Some(Backslash::Plain),
            ),
            ("set standard_conforming_strings = default", None),
            ("set standard_conforming_strings = off; select 1", None),
            ("show standard_conforming_strings", None),
        ] {
            assert_eq!(Backslash::set_by(sql), expected, "{sql}");
        }
    }
}
