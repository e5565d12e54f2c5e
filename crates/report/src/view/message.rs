//! A server's messages, without the user's data.

/// Whether values of the user's data may be shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Literals {
    /// They are masked.
    #[default]
    Hidden,
    /// They are shown; the user asked for it.
    Shown,
}

/// SQLSTATE classes and codes whose messages hold names of objects and settings only
/// (PostgreSQL's own messages; 42601 quotes the statement itself and is not among them).
const NAMES_ONLY: [&str; 17] = [
    "08", "23", "25", "26", "28", "34", "3D", "3F", "40", "42", "53", "54", "55", "57", "58", "F0",
    "XX",
];

/// The class of what functions of the application raise themselves (`RAISE EXCEPTION`, documentation,
/// 41.9.1, and the table of codes): a text of their own, in which a value looks like any other word.
/// `RAISE` may give any code; this is the one that it has by itself.
const OWN: &str = "P0";

/// What stands in the place of such a text.
const OWN_HIDDEN: &str = "a message of the application's own";

/// A message as it may be shown: on one line, with quoted text and numbers masked where they may
/// be values rather than names, and nothing of what the application words itself.
pub(crate) fn shown(sqlstate: &str, message: &str, literals: Literals) -> String {
    let names_only =
        sqlstate != "42601" && NAMES_ONLY.iter().any(|class| sqlstate.starts_with(class));
    if literals == Literals::Shown || names_only {
        return message.to_owned();
    }
    if sqlstate.starts_with(OWN) {
        return OWN_HIDDEN.to_owned();
    }
    let mut out = String::with_capacity(message.len());
    let mut characters = message.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            // A single quote between letters is an apostrophe.
            '\'' if out.ends_with(char::is_alphabetic) => out.push(character),
            '"' | '\'' => {
                for inner in characters.by_ref() {
                    if inner == character {
                        break;
                    }
                }
                out.push(character);
                out.push('…');
                out.push(character);
            }
            // Digits within a word (`utf8`, `int4`) are part of a name.
            digit if digit.is_ascii_digit() && !out.ends_with(char::is_alphabetic) => {
                if !out.ends_with('#') {
                    out.push('#');
                }
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(sqlstate: &str, message: &str) -> String {
        shown(sqlstate, message, Literals::Hidden)
    }

    #[test]
    fn names_are_shown_and_values_are_not() {
        for (sqlstate, message, wanted) in [
            (
                "42P01",
                "relation \"orders\" does not exist",
                "relation \"orders\" does not exist",
            ),
            (
                "22P02",
                "invalid input syntax for type integer: \"secret 12\"",
                "invalid input syntax for type integer: \"…\"",
            ),
            (
                "42601",
                "syntax error at or near \"'jane'\"",
                "syntax error at or near \"…\"",
            ),
            (
                "P0001",
                "no credit for Jane Doe",
                "a message of the application's own",
            ),
            (
                "P0004",
                "Jane Doe has a balance",
                "a message of the application's own",
            ),
            (
                "22023",
                "can't bill customer 4711 'jane'",
                "can't bill customer # '…'",
            ),
            ("22012", "division by zero", "division by zero"),
            (
                "22003",
                "value 12.50 out of range for int4",
                "value #.# out of range for int4",
            ),
            ("22P02", "never \"ended", "never \"…\""),
        ] {
            assert_eq!(hidden(sqlstate, message), wanted);
        }
    }

    #[test]
    fn who_asks_for_literals_gets_them() {
        assert_eq!(shown("22P02", "\"12\"", Literals::Shown), "\"12\"");
        assert_eq!(shown("P0001", "no Jane", Literals::Shown), "no Jane");
    }
}
