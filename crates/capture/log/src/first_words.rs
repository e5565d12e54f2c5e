//! First words of a statement, after blanks and comments.

use sql::{Lexer, Token};

/// Returns the text from its first word or symbol on.
#[cold]
pub(crate) fn skip_comments(sql: &str) -> &str {
    let first = Lexer::new(sql).find(|token| !matches!(token, Token::Comment { .. }));
    first.map_or("", |token| &sql[token.start()..])
}

/// Returns whether a statement begins with this word, in any case.
pub(crate) fn starts_with_word(sql: &str, word: &str) -> bool {
    match sql.as_bytes().first() {
        Some(b'/' | b'-' | b' ' | b'\t' | b'\n' | b'\r') => has_word(skip_comments(sql), word),
        _ => has_word(sql, word),
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let bytes = text.as_bytes();
    let is_part = |next: &u8| next.is_ascii_alphanumeric() || *next == b'_';
    bytes
        .get(..word.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        && !bytes.get(word.len()).is_some_and(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_is_found_after_comments_and_ends_there() {
        for sql in [
            "execute p",
            "EXECUTE",
            "/* a */ execute(1)",
            " -- a\nexecute p",
        ] {
            assert!(starts_with_word(sql, "execute"), "{sql:?}");
        }
        for sql in [
            "executed",
            "/* execute */ select 1",
            "",
            "execut",
            "-- execute",
        ] {
            assert!(!starts_with_word(sql, "execute"), "{sql:?}");
        }
    }
}
