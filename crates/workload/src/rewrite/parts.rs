//! Cuts a text into its statements, and a statement into words.

use crate::fingerprint::lexer::{Lexer, Token};

/// One statement of a text.
#[derive(Debug, Clone)]
pub(super) struct Part<'a> {
    /// As it stands in the text, without the semicolon.
    pub(super) text: &'a str,
    /// Without comments.
    pub(super) words: Vec<Lexeme<'a>>,
}

/// A word, name, value or symbol, as it stands in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lexeme<'a> {
    Word(&'a str),
    Quoted(&'a str),
    Value(&'a str),
    Symbol(&'a str),
}

impl<'a> Lexeme<'a> {
    /// Whether it is this keyword, given in lower case.
    pub(super) fn is(&self, keyword: &str) -> bool {
        matches!(self, Lexeme::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    pub(super) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self, Lexeme::Symbol(this) if *this == symbol)
    }

    /// The name that it is: folded to lower case, or what stands between quotes.
    pub(super) fn name(&self) -> Option<String> {
        match self {
            Lexeme::Word(word) => Some(word.to_lowercase()),
            Lexeme::Quoted(text) => {
                let inner = text.strip_prefix('"').unwrap_or(text);
                let inner = inner.strip_suffix('"').unwrap_or(inner);
                Some(inner.replace("\"\"", "\""))
            }
            _ => None,
        }
    }

    pub(super) fn text(&self) -> &'a str {
        match self {
            Lexeme::Word(text)
            | Lexeme::Quoted(text)
            | Lexeme::Value(text)
            | Lexeme::Symbol(text) => text,
        }
    }
}

/// The statements of a text, without empty ones. Semicolons in brackets (`CREATE RULE`) and in the
/// bodies of SQL-standard functions (`BEGIN ATOMIC … END`) do not end a statement.
pub(super) fn parts(sql: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut words: Vec<Lexeme<'_>> = Vec::new();
    let mut span: Option<(usize, usize)> = None;
    let (mut brackets, mut atomic) = (0_u32, 0_u32);
    for token in Lexer::new(sql) {
        let text = &sql[token.start()..token.end()];
        let lexeme = match token {
            Token::Comment { .. } => continue,
            Token::Word { .. } => Lexeme::Word(text),
            Token::Quoted { .. } => Lexeme::Quoted(text),
            Token::Value { .. } => Lexeme::Value(text),
            Token::Symbol { .. } => Lexeme::Symbol(text),
        };
        match lexeme {
            Lexeme::Symbol("(") => brackets += 1,
            Lexeme::Symbol(")") => brackets = brackets.saturating_sub(1),
            Lexeme::Symbol(";") if brackets == 0 && atomic == 0 => {
                if let Some((start, end)) = span.take() {
                    parts.push(Part {
                        text: &sql[start..end],
                        words: std::mem::take(&mut words),
                    });
                }
                continue;
            }
            Lexeme::Word(word) => {
                let begins = word.eq_ignore_ascii_case("atomic")
                    && words.last().is_some_and(|before| before.is("begin"))
                    && words[0].is("create");
                if begins || atomic > 0 && word.eq_ignore_ascii_case("case") {
                    atomic += 1;
                } else if atomic > 0 && word.eq_ignore_ascii_case("end") {
                    atomic -= 1;
                }
            }
            _ => {}
        }
        span = Some((span.map_or(token.start(), |(start, _)| start), token.end()));
        words.push(lexeme);
    }
    if let Some((start, end)) = span {
        parts.push(Part {
            text: &sql[start..end],
            words,
        });
    }
    parts
}

/// The statements of a text as they stand in it, without their semicolons and without empty ones.
pub fn statements_of(sql: &str) -> Vec<&str> {
    parts(sql).into_iter().map(|part| part.text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sql: &str) -> Vec<&str> {
        parts(sql).into_iter().map(|part| part.text).collect()
    }

    #[test]
    fn statements_are_told_apart() {
        assert_eq!(texts(""), Vec::<&str>::new());
        assert_eq!(texts(" ;; /* x; */ ; -- y"), Vec::<&str>::new());
        assert_eq!(
            texts("BEGIN; select ';' ; -- ;\n set a = \";\" ;"),
            ["BEGIN", "select ';'", "set a = \";\""]
        );
        let rule = "create rule r as on insert to t do also (delete from a; delete from b)";
        assert_eq!(texts(&format!("{rule}; select 1")), [rule, "select 1"]);
        let function = "create function f() returns int begin atomic select case when true then 1 end; select 2; end";
        assert_eq!(texts(&format!("{function}; commit")), [function, "commit"]);
        assert_eq!(
            texts("begin; select $$;$$; end"),
            ["begin", "select $$;$$", "end"]
        );
    }
}
