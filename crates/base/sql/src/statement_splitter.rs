//! Splits a text into its statements, and a statement into words.

use super::fingerprint::lexer::{Lexer, LexicalRules, Token};
use super::literal::read_quoted_name;

/// One statement of a text.
#[derive(Debug, Clone)]
pub struct SqlStatement<'a> {
    /// The statement as written, without the semicolon.
    pub text: &'a str,
    /// Its words, without comments.
    pub words: Vec<Lexeme<'a>>,
}

/// A word, name, value or symbol, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lexeme<'a> {
    /// A keyword or a plain name.
    Word(&'a str),
    /// A quoted name.
    Quoted(&'a str),
    /// A literal or a parameter (`$1`).
    Value(&'a str),
    /// An operator or a bracket.
    Symbol(&'a str),
}

impl<'a> Lexeme<'a> {
    /// Whether it is this keyword, given in lower case.
    pub fn is(&self, keyword: &str) -> bool {
        matches!(self, Lexeme::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    /// Whether it is this symbol.
    pub fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self, Lexeme::Symbol(this) if *this == symbol)
    }

    /// Its name, folded to lower case as the server does in UTF-8 (`downcase_identifier`), or without its quotes;
    /// `None` for a value or a symbol.
    pub fn name(&self) -> Option<String> {
        match self {
            Lexeme::Word(word) => Some(word.to_ascii_lowercase()),
            Lexeme::Quoted(text) => Some(read_quoted_name(text)),
            _ => None,
        }
    }

    /// The text as written.
    pub fn text(&self) -> &'a str {
        match self {
            Lexeme::Word(text)
            | Lexeme::Quoted(text)
            | Lexeme::Value(text)
            | Lexeme::Symbol(text) => text,
        }
    }
}

/// Splits a text into its statements, without empty ones. Semicolons in brackets (`CREATE RULE`) and in
/// the bodies of SQL-standard functions (`BEGIN ATOMIC … END`) do not end a statement.
pub fn split_statements(sql: &str) -> Vec<SqlStatement<'_>> {
    split_statements_with(sql, LexicalRules::default())
}

/// Splits a text as [`split_statements`] does, by the lexical rules of its session and server.
pub fn split_statements_with(sql: &str, rules: LexicalRules) -> Vec<SqlStatement<'_>> {
    let mut statements = Vec::new();
    let mut words: Vec<Lexeme<'_>> = Vec::new();
    let mut span: Option<(usize, usize)> = None;
    let (mut brackets, mut atomic) = (0_u32, 0_u32);
    for token in Lexer::with_rules(sql, rules) {
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
                    statements.push(SqlStatement {
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
        statements.push(SqlStatement {
            text: &sql[start..end],
            words,
        });
    }
    statements
}

/// Returns the texts of the statements of a text, without their semicolons and without empty ones.
pub fn statement_texts(sql: &str) -> Vec<&str> {
    let statements = split_statements(sql).into_iter();
    statements.map(|statement| statement.text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_outside_of_literals_brackets_and_bodies() {
        assert_eq!(statement_texts(""), Vec::<&str>::new());
        assert_eq!(statement_texts(" ;; /* x; */ ; -- y"), Vec::<&str>::new());
        assert_eq!(
            statement_texts("BEGIN; select ';' ; -- ;\n set a = \";\" ;"),
            ["BEGIN", "select ';'", "set a = \";\""]
        );
        let rule = "create rule r as on insert to t do also (delete from a; delete from b)";
        assert_eq!(
            statement_texts(&format!("{rule}; select 1")),
            [rule, "select 1"]
        );
        let function = "create function f() returns int begin atomic select case when true then 1 end; select 2; end";
        assert_eq!(
            statement_texts(&format!("{function}; commit")),
            [function, "commit"]
        );
        assert_eq!(
            statement_texts("begin; select $$;$$; end"),
            ["begin", "select $$;$$", "end"]
        );
    }
}
