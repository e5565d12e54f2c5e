//! Redaction of values of the user's data.
//!
//! Results hold no values of the user's data unless the caller asks for them. Messages and plans are redacted
//! when a result is computed, so that no renderer can omit it.

use std::collections::HashSet;

use crate::Sqlstate;
use schemars::JsonSchema;
use serde::Serialize;

/// Whether a result may hold values of the user's data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Literals {
    /// Values are redacted.
    #[default]
    Hidden,
    /// Values are kept.
    Shown,
}

/// Messages of PostgreSQL whose quoted texts are names of objects, with `"…"` for each name.
///
/// The SQLSTATE does not identify them, because `RAISE` may use any code with any text. Source: the messages in
/// `src/backend` of PostgreSQL 10 to 18.
const MESSAGES_WITH_NAMES: [&str; 52] = [
    "access method \"…\" does not exist",
    "collation \"…\" for encoding \"…\" does not exist",
    "column \"…\" does not exist",
    "column \"…\" of relation \"…\" already exists",
    "column \"…\" of relation \"…\" does not exist",
    "column reference \"…\" is ambiguous",
    "column \"…\" must appear in the GROUP BY clause or be used in an aggregate function",
    "conflicting key value violates exclusion constraint \"…\"",
    "constraint \"…\" for relation \"…\" already exists",
    "constraint \"…\" for table \"…\" does not exist",
    "constraint \"…\" of relation \"…\" does not exist",
    "could not access file \"…\": No such file or directory",
    "cursor \"…\" already exists",
    "cursor \"…\" does not exist",
    "database \"…\" does not exist",
    "database \"…\" is not currently accepting connections",
    "duplicate key value violates unique constraint \"…\"",
    "extension \"…\" already exists",
    "extension \"…\" does not exist",
    "extension \"…\" is not available",
    "index \"…\" does not exist",
    "insert or update on table \"…\" violates foreign key constraint \"…\"",
    "invalid reference to FROM-clause entry for table \"…\"",
    "language \"…\" does not exist",
    "missing FROM-clause entry for table \"…\"",
    "new row for relation \"…\" violates check constraint \"…\"",
    "new row violates row-level security policy for table \"…\"",
    "no partition of relation \"…\" found for row",
    "null value in column \"…\" of relation \"…\" violates not-null constraint",
    "null value in column \"…\" violates not-null constraint",
    "operator class \"…\" does not exist for access method \"…\"",
    "password authentication failed for user \"…\"",
    "portal \"…\" cannot be run",
    "portal \"…\" does not exist",
    "prepared statement \"…\" already exists",
    "prepared statement \"…\" does not exist",
    "relation \"…\" already exists",
    "relation \"…\" does not exist",
    "role \"…\" does not exist",
    "savepoint \"…\" does not exist",
    "schema \"…\" already exists",
    "schema \"…\" does not exist",
    "sequence \"…\" does not exist",
    "table \"…\" does not exist",
    "tablespace \"…\" does not exist",
    "trigger \"…\" for relation \"…\" already exists",
    "trigger \"…\" for table \"…\" does not exist",
    "type \"…\" already exists",
    "type \"…\" does not exist",
    "unrecognized configuration parameter \"…\"",
    "update or delete on table \"…\" violates foreign key constraint \"…\" on table \"…\"",
    "view \"…\" does not exist",
];

/// SQLSTATE class of errors that the application's functions raise themselves (`RAISE EXCEPTION`,
/// documentation, 41.9.1, and the table of codes). Their text is arbitrary; a value in it looks like any
/// other word. `RAISE` may use any code; this class is its default.
const RAISED_CLASS: &str = "P0";

/// Replacement for such a text.
const RAISED_REPLACEMENT: &str = "a message of the application's own";

/// Returns a server's message with quoted text and numbers masked if they may be values rather than names. A
/// message that the application raised is replaced.
pub fn redact_message(sqlstate: Sqlstate, message: &str, literals: Literals) -> String {
    if literals == Literals::Shown {
        return message.to_owned();
    }
    if sqlstate.as_str().starts_with(RAISED_CLASS) {
        return RAISED_REPLACEMENT.to_owned();
    }
    if MESSAGES_WITH_NAMES.contains(&hide_values(message).as_str()) {
        return message.to_owned();
    }
    hide_values(message)
}

/// Returns the description of an advisory lock (`ExclusiveLock on advisory lock [5,0,42,1]`, `DescribeLockTag` in the
/// server's `lmgr.c`) without its key, which the client chose; `None` for another lock.
pub fn without_advisory_key(lock: &str) -> Option<&str> {
    let end = [" advisory lock [", " user lock ["]
        .iter()
        .find_map(|words| lock.find(words).map(|at| at + words.len()))?;
    Some(lock[..end].trim_end_matches(" ["))
}

/// Replacement for a quoted text.
const HIDDEN: char = '…';
/// Maximum number of characters of a pattern.
const PATTERN_CHARACTERS_MAX: usize = 200;

/// Returns the pattern of a server's message: its first line without the position in the statement, with quoted
/// texts as `"…"` and numbers as `#`. Equal messages about different objects and values have one pattern.
///
/// A value at the end of a message (`invalid input syntax for type integer: "…"`) may contain quotes: everything
/// between the first and the last one is replaced.
pub fn message_pattern(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = match line.rsplit_once(" at character ") {
        Some((before, place)) if place.bytes().all(|byte| byte.is_ascii_digit()) => before,
        _ => line,
    };
    let value = [": \"", "at or near \"", ": '"]
        .iter()
        .filter_map(|words| line.find(words).map(|at| at + words.len()))
        .min();
    let pattern = match value {
        Some(at) => {
            let quote = &line[at - 1..at];
            let after = line[at..]
                .rfind(quote)
                .map_or("", |end| &line[at + end + 1..]);
            let before = hide_values(&line[..at - 1]);
            format!("{before}{quote}{HIDDEN}{quote}{}", hide_values(after))
        }
        None => hide_values(line),
    };
    match pattern.char_indices().nth(PATTERN_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}{HIDDEN}", &pattern[..end]),
        None => pattern,
    }
}

/// Returns the pattern of a message without secrets; `None` if a word of a secret may be left. `redacted` has texts
/// with secrets, and each of them without.
pub(crate) fn pattern_without_secret<'a>(
    message: &str,
    redacted: impl Iterator<Item = (&'a str, &'a str)>,
) -> Option<String> {
    let words = |text: &str| -> HashSet<String> {
        let words = text.split(|character: char| !character.is_alphabetic());
        let words = words.filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let pattern = message_pattern(message);
    let lower = pattern.to_lowercase();
    for (text, without) in redacted {
        let kept = words(without);
        let mut removed = words(text).into_iter().filter(|word| !kept.contains(word));
        if removed.any(|word| lower.contains(&word)) {
            return None;
        }
    }
    Some(pattern)
}

/// Returns the quotation mark that ends a quotation. Translated messages of the server (`lc_messages`) use those of
/// their language: `»x«` in German, `« x »` in French, `「x」` in Japanese.
fn closing_quote(opening: char) -> Option<char> {
    Some(match opening {
        '"' | '\'' => opening,
        '«' => '»',
        '»' => '«',
        '„' => '“',
        '“' => '”',
        '‘' => '’',
        '「' => '」',
        _ => return None,
    })
}

/// Replaces quoted text and numbers.
fn hide_values(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut characters = message.chars().peekable();
    while let Some(character) = characters.next() {
        // A single quote between letters is an apostrophe.
        let is_apostrophe = character == '\'' && out.ends_with(char::is_alphabetic);
        if let Some(closing) = closing_quote(character)
            && !is_apostrophe
        {
            characters.by_ref().find(|inner| *inner == closing);
            out.extend([character, HIDDEN, closing]);
            continue;
        }
        match character {
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
        redact_message(
            Sqlstate::parse(sqlstate).unwrap(),
            message,
            Literals::Hidden,
        )
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
                "42P01",
                "customer \"Jane\" with card 4111 does not exist",
                "customer \"…\" with card # does not exist",
            ),
            (
                "23505",
                "duplicate key value violates unique constraint \"orders_2024_key\"",
                "duplicate key value violates unique constraint \"orders_2024_key\"",
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
            (
                "22P02",
                "ungültige Eingabesyntax für Typ integer: »Jane Doe«",
                "ungültige Eingabesyntax für Typ integer: »…«",
            ),
            (
                "22P02",
                "syntaxe en entrée invalide pour le type integer : « Jane »",
                "syntaxe en entrée invalide pour le type integer : «…»",
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
    fn literals_are_kept_if_asked_for() {
        for (sqlstate, message) in [(*b"22P02", "\"12\""), (*b"P0001", "no Jane")] {
            let kept = redact_message(Sqlstate(sqlstate), message, Literals::Shown);
            assert_eq!(kept, message);
        }
    }

    #[test]
    fn pattern_has_no_names_numbers_or_values() {
        for (message, pattern) in [
            (
                "relation \"orders\" does not exist at character 15",
                "relation \"…\" does not exist",
            ),
            (
                "duplicate key value violates unique constraint \"a_key\"",
                "duplicate key value violates unique constraint \"…\"",
            ),
            (
                "invalid input syntax for type integer: \"it\"s Jane\"",
                "invalid input syntax for type integer: \"…\"",
            ),
            (
                "syntax error at or near \"\"Jane\" Doe\"",
                "syntax error at or near \"…\"",
            ),
            (
                "invalid input syntax for type json: \"{\n\"Jane\"}\"",
                "invalid input syntax for type json: \"…\"",
            ),
            (
                "column \"a\" is of type int4 but 25 was given",
                "column \"…\" is of type int4 but # was given",
            ),
            (
                "canceling statement due to lock timeout",
                "canceling statement due to lock timeout",
            ),
            ("", ""),
        ] {
            assert_eq!(message_pattern(message), pattern, "{message}");
        }
        let long = message_pattern(&"é".repeat(500));
        assert_eq!(long.chars().count(), PATTERN_CHARACTERS_MAX + 1);
    }
}
