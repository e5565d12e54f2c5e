//! Handles literals in which a backslash escapes or may escape: their extent in that case, and
//! their spelling.

use std::ops::Range;

use super::BackslashMeaning;
use super::scanner::SqlScanner;
use sql::{Lexer, Spelling, Token};

/// Lists the literals of a text as they are if backslashes escape, if that makes a difference.
pub(super) fn escaped_literals(sql: &str, tokens: &[Token]) -> Vec<Range<usize>> {
    if !sql.contains('\\') {
        return Vec::new();
    }
    let otherwise: Vec<Token> =
        Lexer::with_rules(sql, BackslashMeaning::Escapes.lexical_rules()).collect();
    if otherwise == tokens {
        return Vec::new();
    }
    let literals = otherwise
        .iter()
        .filter(|token| matches!(token, Token::Value { .. }));
    literals.map(|token| token.start()..token.end()).collect()
}

impl<'a> SqlScanner<'a> {
    /// Returns whether part of the token is in a literal if backslashes escape.
    pub(super) fn is_escaped_literal(&self, token: Token) -> bool {
        let after = self
            .either
            .partition_point(|range| range.end <= token.start());
        (self.either.get(after)).is_some_and(|range| range.start < token.end())
    }

    /// Returns a literal's spelling and content. If a backslash escapes in plain literals, those
    /// that have one are written with an E, which is parsed the same under either setting. `before`
    /// is the output so far.
    pub(super) fn spelling_of(&self, index: usize, before: &str) -> (Spelling<'a>, &'a str) {
        let (spelling, inner) = Spelling::of(self.text(index));
        let (true, Spelling::Plain(prefix)) = (self.escapes, spelling) else {
            return (spelling, inner);
        };
        if !inner.contains('\\') {
            return (spelling, inner);
        }
        let is_of_a_word =
            |last: char| last.is_alphanumeric() || matches!(last, '_' | '$') || !last.is_ascii();
        let prefix = match prefix {
            "" if before.ends_with(is_of_a_word) => " E",
            "" => "E",
            // N'…' has another type.
            other => other,
        };
        (Spelling::Escapes(prefix), inner)
    }
}
