//! Parts of a text that the server may have read otherwise.

use std::ops::Range;

use sql::{Spelling, Token};
use workload::{Outcome, Sqlstate};

use super::escaped_literals::escaped_literals;
use crate::mask::backslash::BackslashMeaning;

/// Code of a syntax error.
const SYNTAX_ERROR: Sqlstate = Sqlstate(*b"42601");

/// Knowledge about how the server read a text.
#[derive(Debug, Clone, Copy)]
pub(in crate::mask) struct Reading {
    /// Meaning of a backslash in a plain literal.
    pub(super) backslash: BackslashMeaning,
    validity: Validity,
}

/// Knowledge about whether a text is valid SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Validity {
    Unknown,
    /// The server reported a syntax error.
    Invalid,
}

impl From<BackslashMeaning> for Reading {
    fn from(backslash: BackslashMeaning) -> Self {
        Reading {
            backslash,
            validity: Validity::Unknown,
        }
    }
}

impl Reading {
    /// Returns the reading of a text with this outcome.
    pub(in crate::mask) fn of(backslash: BackslashMeaning, outcome: &Outcome) -> Self {
        let validity = match outcome.sqlstate {
            Some(SYNTAX_ERROR) => Validity::Invalid,
            _ => Validity::Unknown,
        };
        Reading {
            backslash,
            validity,
        }
    }

    /// Lists the parts of a text in which words may belong to values.
    ///
    /// In `'O'Brien Ann'`, a quote in a value is not doubled, so that words of the value are outside of literals. The
    /// server then finds an unterminated literal or another syntax error.
    pub(super) fn uncertain_parts(self, sql: &str, tokens: &[Token]) -> Vec<Range<usize>> {
        match self.first_uncertain(sql, tokens) {
            Some(token) => std::iter::once(token.start()..sql.len()).collect(),
            None if self.backslash == BackslashMeaning::Unsure => escaped_literals(sql, tokens),
            None => Vec::new(),
        }
    }

    /// Returns the first token that may be read otherwise because the text is invalid.
    fn first_uncertain(self, sql: &str, tokens: &[Token]) -> Option<Token> {
        let text = |token: Token| &sql[token.start()..token.end()];
        let last = tokens.last().copied();
        let unterminated =
            last.filter(|last| last.is_unterminated(text(*last), self.backslash.lexical_rules()));
        // A quoted name may begin where a literal's quote was not doubled, but not the other way round. An unterminated
        // comment is blanked out as a whole.
        let from_name = matches!(unterminated, Some(Token::Quoted { .. }));
        let from_literal =
            matches!(unterminated, Some(Token::Value { .. })) || self.validity == Validity::Invalid;
        let is_first = |token: &Token| match token {
            Token::Value { .. } => !matches!(
                Spelling::of(text(*token)).0,
                Spelling::Placeholder | Spelling::Number
            ),
            Token::Quoted { .. } => from_name,
            _ => false,
        };
        let mut tokens = tokens.iter().copied();
        tokens.find(|token| (from_name || from_literal) && is_first(token))
    }
}
