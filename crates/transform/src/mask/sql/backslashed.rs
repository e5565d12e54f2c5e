//! Literals where a backslash escapes, or may: which there would be then, and how they are written.

use std::ops::Range;

use super::Scan;
use sql::{Lexer, Spelling, Token};

/// Where the literals of a text are if backslashes escape, where that makes a difference.
pub(super) fn literals_otherwise(sql: &str, tokens: &[Token]) -> Vec<Range<usize>> {
    if !sql.contains('\\') {
        return Vec::new();
    }
    let otherwise: Vec<Token> = Lexer::with_escapes(sql).collect();
    if otherwise == tokens {
        return Vec::new();
    }
    let literals = otherwise
        .iter()
        .filter(|token| matches!(token, Token::Value { .. }));
    literals.map(|token| token.start()..token.end()).collect()
}

impl<'a> Scan<'a> {
    /// Whether something of it is in a literal if backslashes escape.
    pub(super) fn is_literal_otherwise(&self, token: Token) -> bool {
        let behind = self
            .either
            .partition_point(|range| range.end <= token.start());
        (self.either.get(behind)).is_some_and(|range| range.start < token.end())
    }

    /// How a literal is spelled, and what stands within. Where a backslash escapes in plain ones, those that have one are
    /// written with an E: that is read the same whatever the setting. `before` is what was written so far.
    pub(super) fn spelling(&self, index: usize, before: &str) -> (Spelling<'a>, &'a str) {
        let (spelling, inner) = Spelling::of(self.text(index));
        let (true, Spelling::Plain(prefix)) = (self.escapes, spelling) else {
            return (spelling, inner);
        };
        if !self.chain_has_backslash(index) {
            return (spelling, inner);
        }
        let is_of_a_word =
            |last: char| last.is_alphanumeric() || matches!(last, '_' | '$') || !last.is_ascii();
        let prefix = match prefix {
            "" if self.continues(index) => "",
            "" if before.ends_with(is_of_a_word) => " E",
            "" => "E",
            // N'…' is of another type.
            other => other,
        };
        (Spelling::Escapes(prefix), inner)
    }

    /// Whether a literal goes on with what the one before it began: a line's end is between them, and nothing else.
    fn continues(&self, index: usize) -> bool {
        let Some(before) = index.checked_sub(1) else {
            return false;
        };
        let between = &self.sql[self.tokens[before].end()..self.tokens[index].start()];
        matches!(self.tokens[before], Token::Value { .. })
            && self.text(before).ends_with('\'')
            && self.text(index).starts_with('\'')
            && between.contains(['\n', '\r'])
            && between.trim().is_empty()
    }

    /// Whether one of those that make one literal has a backslash.
    fn chain_has_backslash(&self, index: usize) -> bool {
        let mut first = index;
        while self.continues(first) {
            first -= 1;
        }
        let has_one = |index: usize| self.text(index).contains('\\');
        has_one(first)
            || (first + 1..self.tokens.len())
                .take_while(|next| self.continues(*next))
                .any(has_one)
    }
}
