//! Recognises literals, quoted names and comments that the end of a text cuts off.

use super::lexer::{Backslash, Lexer, LexicalRules, Token, comment_end};
use super::quotes::{QuoteRules, closed_segment_end, continuation};
use crate::literal::Spelling;

impl Token {
    /// Returns whether the token lacks its closing quote, tag or `*/`. `text` is the token's. Only the last token of a
    /// text can.
    pub fn is_unterminated(self, text: &str, rules: LexicalRules) -> bool {
        match self {
            Token::Word { .. } | Token::Symbol { .. } => false,
            Token::Comment { .. } => {
                text.starts_with("/*") && comment_end(text.as_bytes(), 0).is_none()
            }
            Token::Quoted { .. } => is_open(text, '"', QuoteRules::Doubled, rules),
            Token::Value { .. } => match Spelling::of(text).0 {
                Spelling::Placeholder | Spelling::Number => false,
                Spelling::Dollars(tag) => text.len() < 2 * tag.len() || !text.ends_with(tag),
                Spelling::Escapes(_) => is_open(text, '\'', QuoteRules::Escapes, rules),
                Spelling::Unicode(..) => is_open(text, '\'', QuoteRules::Doubled, rules),
                Spelling::Bits(_) | Spelling::HexBits(_) => {
                    is_open(text, '\'', QuoteRules::Bits, rules)
                }
                Spelling::Plain(_) if rules.backslash == Backslash::Escape => {
                    is_open(text, '\'', QuoteRules::Escapes, rules)
                }
                Spelling::Plain(_) => is_open(text, '\'', QuoteRules::Doubled, rules),
            },
        }
    }
}

/// Returns whether the last segment of a literal or name, or the literal of its `UESCAPE`, lacks its closing quote.
fn is_open(text: &str, quote: char, quotes: QuoteRules, rules: LexicalRules) -> bool {
    let bytes = text.as_bytes();
    let mut next = text.find(quote);
    let mut end = 0;
    while let Some(first) = next {
        match closed_segment_end(bytes, first, quotes) {
            None => return true,
            Some(after) => end = after,
        }
        next = match quote {
            '\'' => continuation(bytes, end),
            _ => None,
        };
    }
    let clause = &text[end..];
    let last = Lexer::with_rules(clause, rules).last();
    last.is_some_and(|last| last.is_unterminated(&clause[last.start()..last.end()], rules))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_cut(sql: &str, backslash: Backslash) -> bool {
        let rules = LexicalRules {
            backslash,
            ..LexicalRules::default()
        };
        let last = Lexer::with_rules(sql, rules).last().unwrap();
        last.is_unterminated(&sql[last.start()..last.end()], rules)
    }

    #[test]
    fn token_is_unterminated_without_its_last_character() {
        for whole in ["a", "1", "$1", "-- a", "B'", "''"] {
            assert_eq!(is_cut(whole, Backslash::Plain), whole == "B'", "{whole}");
        }
        for whole in [
            "'a'",
            "'a'''",
            "'a'\n'b'",
            r"E'a\''",
            "B'10'",
            "X'1f'\n'1f'",
            "U&'a' uescape '!'",
            "U&\"a\" uescape '!'",
            "\"a\"",
            "\"a\"\"\"",
            "$$a$$",
            "$a$ $$ $a$",
            "/* a /* b */ */",
        ] {
            assert!(!is_cut(whole, Backslash::Plain), "{whole}");
            let cut = &whole[..whole.len() - 1];
            assert!(is_cut(cut, Backslash::Plain), "{cut}");
        }
        assert!(is_cut(r"'a\'", Backslash::Escape));
        assert!(!is_cut(r"'a\'", Backslash::Plain));
        assert!(is_cut(r"E'a\'", Backslash::Plain));
        assert!(is_cut("$a$a$", Backslash::Plain));
    }
}
