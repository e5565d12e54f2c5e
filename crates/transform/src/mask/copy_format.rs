//! Parses the data format of a COPY statement (PostgreSQL documentation, COPY; `gram.y`).
//!
//! Only the list of options is parsed. An ambiguous option counts as absent: then every row is
//! masked.

use std::borrow::Cow;

use sql::{Lexer, Token};

use super::backslash::BackslashMeaning;
use sql::Spelling;

/// Data format of a COPY statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFormat {
    pub(super) kind: Kind,
    pub(super) delimiter: u8,
    pub(super) null: String,
    pub(super) quote: u8,
    pub(super) escape: u8,
    /// The first row has column names.
    pub(super) header: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Csv,
    Binary,
}

impl Default for CopyFormat {
    /// Returns the text format, as `pg_dump` writes it.
    fn default() -> Self {
        CopyFormat {
            kind: Kind::Text,
            delimiter: b'\t',
            null: "\\N".to_owned(),
            quote: b'"',
            escape: b'"',
            header: false,
        }
    }
}

impl CopyFormat {
    /// Parses the options of the COPY statement in a text; the default if it has several that
    /// differ.
    pub fn from_statement(sql: &str) -> Self {
        Self::parse(sql, BackslashMeaning::Plain)
    }

    /// Parses like [`Self::from_statement`], with the session's meaning of backslashes.
    pub(super) fn parse(sql: &str, backslash: BackslashMeaning) -> Self {
        let escapes = backslash == BackslashMeaning::Escapes;
        let pieces: Vec<OptionToken<'_>> = Lexer::with_rules(sql, backslash.lexical_rules())
            .filter(|token| !matches!(token, Token::Comment { .. }))
            .map(|token| OptionToken::new(token, &sql[token.start()..token.end()], escapes))
            .collect();
        let mut formats = pieces
            .split(|piece| piece.is_symbol(";"))
            .filter_map(|statement| ParsedOptions::of(statement).map(ParsedOptions::format));
        let first = formats.next().unwrap_or_default();
        match formats.all(|format| format == first) {
            true => first,
            false => CopyFormat::default(),
        }
    }
}

/// A token of the options.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OptionToken<'a> {
    /// A name or keyword: folded to lower case unless quoted.
    Word {
        text: String,
        quoted: bool,
    },
    Value(Cow<'a, str>),
    Symbol(&'a str),
}

impl<'a> OptionToken<'a> {
    fn new(token: Token, text: &'a str, escapes: bool) -> Self {
        match token {
            Token::Word { .. } => OptionToken::Word {
                text: text.to_ascii_lowercase(),
                quoted: false,
            },
            Token::Quoted { .. } => OptionToken::Word {
                text: text.trim_matches('"').replace("\"\"", "\""),
                quoted: true,
            },
            Token::Value { .. } => {
                let (spelling, inner) = match Spelling::of(text) {
                    (Spelling::Plain(prefix), inner) if escapes => {
                        (Spelling::Escapes(prefix), inner)
                    }
                    other => other,
                };
                OptionToken::Value(spelling.read(inner))
            }
            Token::Symbol { .. } | Token::Comment { .. } => OptionToken::Symbol(text),
        }
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self, OptionToken::Symbol(found) if *found == symbol)
    }

    /// Returns whether it is this keyword.
    fn is(&self, keyword: &str) -> bool {
        matches!(self, OptionToken::Word { text, quoted: false } if text == keyword)
    }

    /// Returns its value as an option's value: a word and a literal are equivalent there.
    fn value(&self) -> &str {
        match self {
            OptionToken::Word { text, .. } => text,
            OptionToken::Value(text) => text,
            OptionToken::Symbol(_) => "",
        }
    }
}

/// The unparsed tokens of a statement.
struct TokenStream<'p, 'a>(&'p [OptionToken<'a>]);

impl<'p, 'a> TokenStream<'p, 'a> {
    fn next(&mut self) -> Option<&'p OptionToken<'a>> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn take_keyword(&mut self, keyword: &str) -> bool {
        self.take_if(|piece| piece.is(keyword))
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        self.take_if(|piece| piece.is_symbol(symbol))
    }

    fn take_if(&mut self, is: impl Fn(&OptionToken<'a>) -> bool) -> bool {
        let found = self.0.first().is_some_and(is);
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    fn take_name(&mut self) -> bool {
        self.take_if(|piece| matches!(piece, OptionToken::Word { .. }))
    }

    fn take_value(&mut self) -> Option<&'p str> {
        match self.0.first()? {
            OptionToken::Value(text) => {
                self.0 = &self.0[1..];
                Some(text)
            }
            _ => None,
        }
    }

    /// Takes the content of a bracket that opens here; leaves the position at the end if none
    /// closes it.
    fn take_bracket(&mut self) -> Option<&'p [OptionToken<'a>]> {
        if !self.take_symbol("(") {
            return None;
        }
        let (inner, mut depth) = (self.0, 1);
        for (at, piece) in inner.iter().enumerate() {
            match piece {
                OptionToken::Symbol("(") => depth += 1,
                OptionToken::Symbol(")") => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.0 = &inner[at + 1..];
                return Some(&inner[..at]);
            }
        }
        self.0 = &[];
        None
    }
}

/// The parsed options; `None` if absent.
#[derive(Debug, Default)]
struct ParsedOptions {
    kind: Option<Kind>,
    header: Option<bool>,
    delimiter: Option<u8>,
    null: Option<String>,
    quote: Option<u8>,
    escape: Option<u8>,
}

impl ParsedOptions {
    /// Parses a statement, if it is a COPY.
    fn of(statement: &[OptionToken<'_>]) -> Option<Self> {
        let mut rest = TokenStream(statement);
        if !rest.take_keyword("copy") {
            return None;
        }
        let mut given = ParsedOptions::default();
        // The rest stays unparsed if it is unknown.
        let _ = given.parse(&mut rest);
        Some(given)
    }

    fn parse(&mut self, rest: &mut TokenStream<'_, '_>) -> Option<()> {
        if rest.take_bracket().is_none() {
            // As a table's name it would be quoted.
            if rest.take_keyword("binary") {
                self.kind = Some(Kind::Binary);
            }
            loop {
                rest.take_name().then_some(())?;
                if !rest.take_symbol(".") {
                    break;
                }
            }
            rest.take_bracket();
        }
        (rest.take_keyword("from") || rest.take_keyword("to")).then_some(())?;
        rest.take_keyword("program");
        if rest.take_value().is_none() {
            (rest.take_keyword("stdin") || rest.take_keyword("stdout")).then_some(())?;
        }
        rest.take_keyword("using");
        if rest.take_keyword("delimiters") {
            self.delimiter = rest.take_value()?.bytes().next();
        }
        rest.take_keyword("with");
        match rest.take_bracket() {
            Some(options) => {
                for option in split_options(options) {
                    self.parse_option(option);
                }
                Some(())
            }
            None => self.parse_old_syntax(rest),
        }
    }

    /// Parses `CSV HEADER DELIMITER AS ';'`, the syntax before PostgreSQL 9.0.
    fn parse_old_syntax(&mut self, rest: &mut TokenStream<'_, '_>) -> Option<()> {
        loop {
            let OptionToken::Word {
                text,
                quoted: false,
            } = rest.next()?
            else {
                return None;
            };
            match text.as_str() {
                "csv" => self.kind = Some(Kind::Csv),
                "binary" => self.kind = Some(Kind::Binary),
                "freeze" => {}
                "header" => self.set_header(true),
                "delimiter" | "null" | "quote" | "escape" | "encoding" => {
                    rest.take_keyword("as");
                    let value = rest.take_value()?;
                    self.set_literal(text, value);
                }
                "force" => {
                    if rest.take_keyword("not") || !rest.take_keyword("quote") {
                        rest.take_keyword("null").then_some(())?;
                    }
                    if !rest.take_symbol("*") {
                        loop {
                            rest.take_name().then_some(())?;
                            if !rest.take_symbol(",") {
                                break;
                            }
                        }
                    }
                }
                // WHERE, or an option of a later version.
                _ => return None,
            }
        }
    }

    /// Parses one option of `(FORMAT csv, HEADER, DELIMITER ';')`.
    fn parse_option(&mut self, option: &[OptionToken<'_>]) {
        let Some((OptionToken::Word { text: name, .. }, value)) = option.split_first() else {
            return;
        };
        match (name.as_str(), value) {
            ("format", [kind]) => {
                self.kind = match kind.value() {
                    kind if kind.eq_ignore_ascii_case("csv") => Some(Kind::Csv),
                    kind if kind.eq_ignore_ascii_case("binary") => Some(Kind::Binary),
                    _ => self.kind,
                }
            }
            ("header", []) => self.set_header(true),
            ("header", [value]) => {
                let yes = ["true", "on", "1", "match"];
                self.set_header(
                    yes.iter()
                        .any(|yes| value.value().eq_ignore_ascii_case(yes)),
                );
            }
            ("header", _) => self.set_header(false),
            (name, [value]) => self.set_literal(name, value.value()),
            _ => {}
        }
    }

    /// Sets the header. A repeated option, which servers refuse, makes it uncertain.
    fn set_header(&mut self, is: bool) {
        self.header = Some(is && self.header.is_none());
    }

    fn set_literal(&mut self, name: &str, value: &str) {
        let byte = value.bytes().next();
        match name {
            "delimiter" => self.delimiter = byte,
            "null" => self.null = Some(value.to_owned()),
            "quote" => self.quote = byte,
            "escape" => self.escape = byte,
            _ => {}
        }
    }

    fn format(self) -> CopyFormat {
        let mut format = CopyFormat {
            kind: self.kind.unwrap_or(Kind::Text),
            header: self.header.unwrap_or(false),
            ..CopyFormat::default()
        };
        if format.kind == Kind::Csv {
            (format.delimiter, format.null) = (b',', String::new());
        }
        format.delimiter = self.delimiter.unwrap_or(format.delimiter);
        format.null = self.null.unwrap_or(format.null);
        format.quote = self.quote.unwrap_or(format.quote);
        format.escape = self.escape.unwrap_or(format.quote);
        format
    }
}

/// Splits options at commas outside of brackets.
fn split_options<'p, 'a>(
    options: &'p [OptionToken<'a>],
) -> impl Iterator<Item = &'p [OptionToken<'a>]> {
    let mut depth = 0;
    options.split(move |piece| {
        match piece {
            OptionToken::Symbol("(") => depth += 1,
            OptionToken::Symbol(")") => depth -= 1,
            _ => {}
        }
        depth == 0 && piece.is_symbol(",")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_both_kinds_are_read() {
        let csv = CopyFormat {
            kind: Kind::Csv,
            delimiter: b';',
            null: "-".to_owned(),
            quote: b'\'',
            escape: b'\\',
            header: true,
        };
        for sql in [
            r"COPY t FROM STDIN WITH (FORMAT csv, HEADER, DELIMITER ';', NULL '-', QUOTE '''', ESCAPE '\')",
            r#"copy s."T" (a, "b c") to stdout (delimiter ';', "format" 'csv', null '-', header true, quote E'\'', escape '\', force_quote (a, "b c"))"#,
            r"COPY t FROM STDIN WITH DELIMITER AS ';' NULL AS '-' CSV HEADER QUOTE AS '''' ESCAPE AS '\' FORCE NOT NULL a, b",
            r"COPY (SELECT header FROM t WHERE csv) TO STDOUT USING DELIMITERS ';' CSV FORCE QUOTE * HEADER NULL '-' QUOTE '''' ESCAPE '\'",
            r"/* before */ COPY t FROM STDIN (HEADER match, FORMAT CSV, DELIMITER ';', NULL '-', QUOTE '''', ESCAPE '\') WHERE header; -- behind",
            r"BEGIN; COPY t FROM STDIN (HEADER 1, FORMAT csv, DELIMITER ';', NULL '-', QUOTE '''', ESCAPE '\'); COMMIT",
        ] {
            assert_eq!(CopyFormat::from_statement(sql), csv, "{sql}");
        }
        assert_eq!(
            CopyFormat::from_statement("COPY BINARY t FROM STDIN").kind,
            Kind::Binary
        );
        assert_eq!(
            CopyFormat::from_statement("COPY t TO STDOUT BINARY").kind,
            Kind::Binary
        );
    }

    #[test]
    fn what_is_no_option_says_nothing() {
        for sql in [
            "COPY t (header, csv) FROM STDIN",
            "COPY header FROM STDIN",
            "COPY csv.header (\"binary\") FROM STDIN WHERE header AND csv",
            "COPY \"binary\" (format) FROM STDIN",
            "COPY (SELECT a AS header, b AS binary FROM csv) TO STDOUT",
            "COPY t FROM STDIN WITH (ENCODING 'header', FORCE_NULL (header, csv))",
            "COPY t FROM STDIN (HEADER false)",
            "COPY t FROM STDIN (HEADER off)",
            "COPY t FROM STDIN (HEADER, HEADER)",
            "COPY t FROM STDIN (HEADER yes_or_no)",
            "COPY t FROM STDIN (HEADER 2)",
            "COPY t FROM STDIN NULL AS '\\N' FORCE NULL header, csv",
            "COPY t FROM STDIN (header",
            "COPY t FROM STDIN CSV HEADER; COPY u FROM STDIN",
            "SELECT 'copy t from stdin csv header'",
            "COPY",
            "",
        ] {
            assert_eq!(
                CopyFormat::from_statement(sql),
                CopyFormat::default(),
                "{sql}"
            );
        }
    }
}
