//! In which form a COPY statement says its data is (PostgreSQL documentation, COPY; `gram.y`).
//!
//! Only the list of options is read for it. What it does not surely say is taken as not said: then
//! every row is masked.

use std::borrow::Cow;

use sql::{Lexer, Token};

use super::backslash::Backslash;
use sql::Spelling;

/// In which form COPY has its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyFormat {
    pub(super) kind: Kind,
    pub(super) delimiter: u8,
    pub(super) null: String,
    pub(super) quote: u8,
    pub(super) escape: u8,
    /// The first row has the names of columns.
    pub(super) header: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Csv,
    Binary,
}

impl Default for CopyFormat {
    /// The text format, as `pg_dump` writes it.
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
    /// As the options of the COPY statement in a text say; of several that differ, none.
    pub fn of(sql: &str) -> Self {
        Self::read(sql, Backslash::Plain)
    }

    /// As [`Self::of`], by a session that reads backslashes so.
    pub(super) fn read(sql: &str, backslash: Backslash) -> Self {
        let escapes = backslash == Backslash::Escapes;
        let lexer = match escapes {
            true => Lexer::with_escapes(sql),
            false => Lexer::new(sql),
        };
        let pieces: Vec<Piece<'_>> = lexer
            .filter(|token| !matches!(token, Token::Comment { .. }))
            .map(|token| Piece::new(token, &sql[token.start()..token.end()], escapes))
            .collect();
        let mut formats = pieces
            .split(|piece| piece.is_symbol(";"))
            .filter_map(|statement| Given::of(statement).map(Given::format));
        let first = formats.next().unwrap_or_default();
        match formats.all(|format| format == first) {
            true => first,
            false => CopyFormat::default(),
        }
    }
}

/// A token as the options have it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece<'a> {
    /// A name or keyword: folded to lower case where it is not quoted.
    Word {
        text: String,
        quoted: bool,
    },
    Value(Cow<'a, str>),
    Symbol(&'a str),
}

impl<'a> Piece<'a> {
    fn new(token: Token, text: &'a str, escapes: bool) -> Self {
        match token {
            Token::Word { .. } => Piece::Word {
                text: text.to_ascii_lowercase(),
                quoted: false,
            },
            Token::Quoted { .. } => Piece::Word {
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
                Piece::Value(spelling.read(inner, '\\'))
            }
            Token::Symbol { .. } | Token::Comment { .. } => Piece::Symbol(text),
        }
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self, Piece::Symbol(found) if *found == symbol)
    }

    /// Whether it is this keyword.
    fn is(&self, keyword: &str) -> bool {
        matches!(self, Piece::Word { text, quoted: false } if text == keyword)
    }

    /// What it says as the value of an option: a word and a literal are the same there.
    fn says(&self) -> &str {
        match self {
            Piece::Word { text, .. } => text,
            Piece::Value(text) => text,
            Piece::Symbol(_) => "",
        }
    }
}

/// The pieces of a statement that are still to be read.
struct Rest<'p, 'a>(&'p [Piece<'a>]);

impl<'p, 'a> Rest<'p, 'a> {
    fn next(&mut self) -> Option<&'p Piece<'a>> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn takes(&mut self, keyword: &str) -> bool {
        self.takes_if(|piece| piece.is(keyword))
    }

    fn takes_symbol(&mut self, symbol: &str) -> bool {
        self.takes_if(|piece| piece.is_symbol(symbol))
    }

    fn takes_if(&mut self, is: impl Fn(&Piece<'a>) -> bool) -> bool {
        let found = self.0.first().is_some_and(is);
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    fn takes_name(&mut self) -> bool {
        self.takes_if(|piece| matches!(piece, Piece::Word { .. }))
    }

    fn takes_value(&mut self) -> Option<&'p str> {
        match self.0.first()? {
            Piece::Value(text) => {
                self.0 = &self.0[1..];
                Some(text)
            }
            _ => None,
        }
    }

    /// What stands within brackets, where one opens here; behind the whole, if none closes it.
    fn takes_bracket(&mut self) -> Option<&'p [Piece<'a>]> {
        if !self.takes_symbol("(") {
            return None;
        }
        let (inner, mut depth) = (self.0, 1);
        for (at, piece) in inner.iter().enumerate() {
            match piece {
                Piece::Symbol("(") => depth += 1,
                Piece::Symbol(")") => depth -= 1,
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

/// What options say; `None` where they do not.
#[derive(Debug, Default)]
struct Given {
    kind: Option<Kind>,
    header: Option<bool>,
    delimiter: Option<u8>,
    null: Option<String>,
    quote: Option<u8>,
    escape: Option<u8>,
}

impl Given {
    /// Of a statement, if it is a COPY.
    fn of(statement: &[Piece<'_>]) -> Option<Self> {
        let mut rest = Rest(statement);
        if !rest.takes("copy") {
            return None;
        }
        let mut given = Given::default();
        // The rest stays unread where it is none that is known.
        let _ = given.read(&mut rest);
        Some(given)
    }

    fn read(&mut self, rest: &mut Rest<'_, '_>) -> Option<()> {
        if rest.takes_bracket().is_none() {
            // As a name of a table it has to be quoted.
            if rest.takes("binary") {
                self.kind = Some(Kind::Binary);
            }
            loop {
                rest.takes_name().then_some(())?;
                if !rest.takes_symbol(".") {
                    break;
                }
            }
            rest.takes_bracket();
        }
        (rest.takes("from") || rest.takes("to")).then_some(())?;
        rest.takes("program");
        if rest.takes_value().is_none() {
            (rest.takes("stdin") || rest.takes("stdout")).then_some(())?;
        }
        rest.takes("using");
        if rest.takes("delimiters") {
            self.delimiter = rest.takes_value()?.bytes().next();
        }
        rest.takes("with");
        match rest.takes_bracket() {
            Some(options) => {
                for option in list(options) {
                    self.option(option);
                }
                Some(())
            }
            None => self.words(rest),
        }
    }

    /// `CSV HEADER DELIMITER AS ';'`, as before PostgreSQL 9.0.
    fn words(&mut self, rest: &mut Rest<'_, '_>) -> Option<()> {
        loop {
            let Piece::Word {
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
                "header" => self.says_header(true),
                "delimiter" | "null" | "quote" | "escape" | "encoding" => {
                    rest.takes("as");
                    let value = rest.takes_value()?;
                    self.literal(text, value);
                }
                "force" => {
                    if rest.takes("not") || !rest.takes("quote") {
                        rest.takes("null").then_some(())?;
                    }
                    if !rest.takes_symbol("*") {
                        loop {
                            rest.takes_name().then_some(())?;
                            if !rest.takes_symbol(",") {
                                break;
                            }
                        }
                    }
                }
                // WHERE, or what a later version knows.
                _ => return None,
            }
        }
    }

    /// One of `(FORMAT csv, HEADER, DELIMITER ';')`.
    fn option(&mut self, option: &[Piece<'_>]) {
        let Some((Piece::Word { text: name, .. }, value)) = option.split_first() else {
            return;
        };
        match (name.as_str(), value) {
            ("format", [kind]) => {
                self.kind = match kind.says() {
                    kind if kind.eq_ignore_ascii_case("csv") => Some(Kind::Csv),
                    kind if kind.eq_ignore_ascii_case("binary") => Some(Kind::Binary),
                    _ => self.kind,
                }
            }
            ("header", []) => self.says_header(true),
            ("header", [value]) => {
                let yes = ["true", "on", "1", "match"];
                self.says_header(yes.iter().any(|yes| value.says().eq_ignore_ascii_case(yes)));
            }
            ("header", _) => self.says_header(false),
            (name, [value]) => self.literal(name, value.says()),
            _ => {}
        }
    }

    /// Said twice, as no server allows it, it is not sure.
    fn says_header(&mut self, is: bool) {
        self.header = Some(is && self.header.is_none());
    }

    fn literal(&mut self, name: &str, value: &str) {
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

/// Options between commas that stand outside of brackets.
fn list<'p, 'a>(options: &'p [Piece<'a>]) -> impl Iterator<Item = &'p [Piece<'a>]> {
    let mut depth = 0;
    options.split(move |piece| {
        match piece {
            Piece::Symbol("(") => depth += 1,
            Piece::Symbol(")") => depth -= 1,
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
            assert_eq!(CopyFormat::of(sql), csv, "{sql}");
        }
        assert_eq!(
            CopyFormat::of("COPY BINARY t FROM STDIN").kind,
            Kind::Binary
        );
        assert_eq!(CopyFormat::of("COPY t TO STDOUT BINARY").kind, Kind::Binary);
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
            assert_eq!(CopyFormat::of(sql), CopyFormat::default(), "{sql}");
        }
    }
}
