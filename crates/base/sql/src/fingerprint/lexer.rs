//! Splits SQL into the kinds of token that the normal form distinguishes, by the rules of `scan.l`.

use super::quotes::{QuoteRules, literal_end, segment_end};

/// Lexical rules that a text does not show. The defaults are those of current servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct LexicalRules {
    /// Meaning of a backslash in a plain literal.
    pub backslash: Backslash,
    /// Numbers that the server's version reads.
    pub numbers: NumberSyntax,
}

/// Meaning of a backslash in a plain literal, by the session's `standard_conforming_strings`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Backslash {
    /// A plain character.
    #[default]
    Plain,
    /// An escape character, as with the setting off.
    Escape,
}

/// Numbers that a server's version reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum NumberSyntax {
    /// Decimal numbers, possibly with a name directly after them: up to PostgreSQL 14.
    Until14,
    /// `0x1F` and `1_000` as well (PostgreSQL 16). PostgreSQL 15 refuses both, and so do all of them a name
    /// directly after a number.
    #[default]
    From15,
}

impl NumberSyntax {
    /// Returns the syntax of a server's major version.
    pub fn of_major(major: u32) -> Self {
        match major {
            ..=14 => NumberSyntax::Until14,
            15.. => NumberSyntax::From15,
        }
    }
}

/// A token, as byte offsets into the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "byte offsets")]
pub enum Token {
    /// A keyword or a plain name.
    Word { start: usize, end: usize },
    /// A quoted name.
    Quoted { start: usize, end: usize },
    /// A literal or a `$1`.
    Value { start: usize, end: usize },
    /// An operator or a bracket, one character (but `::`, `<=` and the like stay together).
    Symbol { start: usize, end: usize },
    /// A comment.
    Comment { start: usize, end: usize },
}

impl Token {
    /// Offset of its first byte.
    pub fn start(self) -> usize {
        let (Token::Word { start, .. }
        | Token::Quoted { start, .. }
        | Token::Value { start, .. }
        | Token::Symbol { start, .. }
        | Token::Comment { start, .. }) = self;
        start
    }

    /// Offset after its last byte.
    pub fn end(self) -> usize {
        let (Token::Word { end, .. }
        | Token::Quoted { end, .. }
        | Token::Value { end, .. }
        | Token::Symbol { end, .. }
        | Token::Comment { end, .. }) = self;
        end
    }
}

/// Iterator over the tokens of a text. Every byte outside of white space is in one token. Tokens end on
/// character boundaries.
pub struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The last token was an operand. If not, a minus before a number is its sign.
    after_operand: bool,
    rules: LexicalRules,
}

impl<'a> Lexer<'a> {
    /// Creates a lexer of a text with the default rules.
    pub fn new(sql: &'a str) -> Self {
        Self::with_rules(sql, LexicalRules::default())
    }

    /// Creates a lexer of a text with the rules of its session and server.
    pub fn with_rules(sql: &'a str, rules: LexicalRules) -> Self {
        Lexer {
            bytes: sql.as_bytes(),
            at: 0,
            after_operand: false,
            rules,
        }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Returns the offset after a quoted name whose opening quote is at `from`.
    fn quoted_name(&self, from: usize) -> usize {
        segment_end(self.bytes, from, QuoteRules::Doubled)
    }

    /// Returns the offset after a literal whose first quote is at `from`.
    fn literal(&self, from: usize, quotes: QuoteRules) -> usize {
        literal_end(self.bytes, from, quotes)
    }

    /// Returns the rules of a literal without a prefix that gives it others.
    fn plain_quotes(&self) -> QuoteRules {
        match self.rules.backslash {
            Backslash::Plain => QuoteRules::Doubled,
            Backslash::Escape => QuoteRules::Escapes,
        }
    }

    /// Returns the offset after the `UESCAPE '!'` that follows a literal or name with Unicode escapes; `end` if
    /// none does.
    fn unicode_escape_clause(&self, end: usize) -> usize {
        let mut rest = Lexer { at: end, ..*self };
        let mut next = || rest.find(|token| !matches!(token, Token::Comment { .. }));
        match (next(), next()) {
            (
                Some(Token::Word { start, end: after }),
                Some(Token::Value {
                    start: from,
                    end: to,
                }),
            ) if self.bytes[start..after].eq_ignore_ascii_case(b"uescape")
                && self.bytes[from..to].contains(&b'\'') =>
            {
                to
            }
            _ => end,
        }
    }

    /// Returns the offset after a dollar-quoted literal that begins at `self.at`; `None` if none does.
    fn dollar_quoted(&self) -> Option<usize> {
        let rest = &self.bytes[self.at..];
        let tag_end = 1 + rest[1..]
            .iter()
            .position(|&byte| !(byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80))?;
        if rest[tag_end] != b'$' || rest[1].is_ascii_digit() {
            return None;
        }
        let tag = &rest[..=tag_end];
        let body = &rest[tag.len()..];
        let mut from = 0;
        loop {
            match body[from..].iter().position(|&byte| byte == b'$') {
                None => return Some(self.bytes.len()),
                Some(found) if body[from + found..].starts_with(tag) => {
                    return Some(self.at + tag.len() + from + found + tag.len());
                }
                Some(found) => from += found + 1,
            }
        }
    }

    /// Returns the end of the digits at `from`. An underscore may separate two of them.
    fn digits(&self, from: usize, is_digit: impl Fn(u8) -> bool) -> usize {
        let separates = self.rules.numbers == NumberSyntax::From15;
        let digit_at = |at: usize| self.bytes.get(at).copied().is_some_and(&is_digit);
        let mut at = from;
        loop {
            let separated = separates && at > from && self.bytes.get(at) == Some(&b'_');
            match at + usize::from(separated) {
                next if digit_at(next) => at = next + 1,
                _ => return at,
            }
        }
    }

    /// Returns the offset after a number with another base, such as `0x1F`; `None` if none begins at `from`.
    fn based_number(&self, from: usize) -> Option<usize> {
        if self.rules.numbers == NumberSyntax::Until14 || self.bytes[from] != b'0' {
            return None;
        }
        let is_digit: fn(u8) -> bool = match self.bytes.get(from + 1)? {
            b'x' | b'X' => |byte| byte.is_ascii_hexdigit(),
            b'o' | b'O' => |byte| matches!(byte, b'0'..=b'7'),
            b'b' | b'B' => |byte| matches!(byte, b'0' | b'1'),
            _ => return None,
        };
        let first = from + 2 + usize::from(self.bytes.get(from + 2) == Some(&b'_'));
        let end = self.digits(first, is_digit);
        (end > first).then_some(end)
    }

    /// Returns the offset after a number without a sign. What follows it directly is another token. From
    /// PostgreSQL 15 on, the server refuses a text with letters there.
    fn number(&self, from: usize) -> usize {
        if let Some(end) = self.based_number(from) {
            return end;
        }
        let byte = |at: usize| self.bytes.get(at).copied().unwrap_or(0);
        let decimal = |at: usize| self.digits(at, |byte| byte.is_ascii_digit());
        let mut end = decimal(from);
        // `1..10` in PL/pgSQL is a range, not a number.
        if byte(end) == b'.' && byte(end + 1) != b'.' {
            end = decimal(end + 1);
        }
        if matches!(byte(end), b'e' | b'E') {
            let digits = end + 1 + usize::from(matches!(byte(end + 1), b'+' | b'-'));
            let after = decimal(digits);
            if after > digits {
                end = after;
            }
        }
        end
    }

    fn word(&self) -> usize {
        let mut at = self.at;
        while self.bytes.get(at).is_some_and(|&byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
        }) {
            at += 1;
        }
        at
    }

    /// Whether the minus at `self.at` belongs to the number after it. A cast binds more closely.
    fn is_sign(&self) -> bool {
        let has_digit =
            self.peek(1).is_ascii_digit() || self.peek(1) == b'.' && self.peek(2).is_ascii_digit();
        has_digit && !self.after_operand && {
            let after = self.bytes[self.number(self.at + 1)..].trim_ascii_start();
            !after.starts_with(b"::")
        }
    }

    /// Returns the token other than a comment that begins with the byte `first` at `self.at`.
    #[inline]
    fn token(&self, first: u8) -> Token {
        let start = self.at;
        let signed = first == b'-' && self.is_sign();
        match first {
            _ if signed => Token::Value {
                start,
                end: self.number(start + 1),
            },
            b'0'..=b'9' => Token::Value {
                start,
                end: self.number(start),
            },
            b'.' if self.peek(1).is_ascii_digit() && !self.after_operand => Token::Value {
                start,
                end: self.number(start),
            },
            b'\'' => Token::Value {
                start,
                end: self.literal(start, self.plain_quotes()),
            },
            b'e' | b'E' if self.peek(1) == b'\'' => Token::Value {
                start,
                end: self.literal(start + 1, QuoteRules::Escapes),
            },
            b'b' | b'B' | b'x' | b'X' if self.peek(1) == b'\'' => Token::Value {
                start,
                end: self.literal(start + 1, QuoteRules::Bits),
            },
            // National character literal.
            b'n' | b'N' if self.peek(1) == b'\'' => Token::Value {
                start,
                end: self.literal(start + 1, self.plain_quotes()),
            },
            b'u' | b'U' if self.peek(1) == b'&' && self.peek(2) == b'\'' => Token::Value {
                start,
                end: self.unicode_escape_clause(self.literal(start + 2, QuoteRules::Doubled)),
            },
            b'u' | b'U' if self.peek(1) == b'&' && self.peek(2) == b'"' => Token::Quoted {
                start,
                end: self.unicode_escape_clause(self.quoted_name(start + 2)),
            },
            b'"' => Token::Quoted {
                start,
                end: self.quoted_name(start),
            },
            b'$' => self.dollar(),
            byte if byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80 => Token::Word {
                start,
                end: self.word(),
            },
            _ => self.symbol(first),
        }
    }

    /// Returns the offset of the end of the line.
    fn line_comment(&self) -> usize {
        self.bytes[self.at..]
            .iter()
            .position(|&byte| matches!(byte, b'\n' | b'\r'))
            .map_or(self.bytes.len(), |found| self.at + found)
    }

    /// Returns the token that begins with a dollar: a quoted literal, a parameter or a symbol.
    fn dollar(&self) -> Token {
        let start = self.at;
        match self.dollar_quoted() {
            Some(end) => Token::Value { start, end },
            None if self.peek(1).is_ascii_digit() => {
                let digits = self.bytes[start + 1..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                Token::Value {
                    start,
                    end: start + 1 + digits,
                }
            }
            None => Token::Symbol {
                start,
                end: start + 1,
            },
        }
    }

    /// Returns an operator or a bracket of one or two characters.
    #[inline]
    fn symbol(&self, first: u8) -> Token {
        let start = self.at;
        let pair = [first, self.peek(1)];
        let two = matches!(
            &pair,
            b"::"
                | b"<="
                | b">="
                | b"<>"
                | b"!="
                | b"||"
                | b"->"
                | b"@>"
                | b"<@"
                | b"&&"
                | b"!~"
                | b"~*"
                | b".."
        );
        Token::Symbol {
            start,
            end: start + if two { 2 } else { 1 },
        }
    }
}

/// Returns the offset after the block comment that begins at `at`, with the comments inside it; `None` if the text
/// ends before it.
pub(crate) fn comment_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0;
    loop {
        match (*bytes.get(at)?, bytes.get(at + 1)) {
            (b'/', Some(b'*')) => {
                depth += 1;
                at += 2;
            }
            (b'*', Some(b'/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
}

/// Whether a sign after this word belongs to the number that follows.
fn takes_an_operand(word: &[u8]) -> bool {
    const WORDS: [&[u8]; 29] = [
        b"select",
        b"where",
        b"and",
        b"or",
        b"not",
        b"in",
        b"between",
        b"limit",
        b"offset",
        b"values",
        b"then",
        b"else",
        b"when",
        b"set",
        b"by",
        b"returning",
        b"from",
        b"on",
        b"having",
        b"distinct",
        b"all",
        b"like",
        b"ilike",
        b"to",
        b"default",
        b"symmetric",
        b"asymmetric",
        b"case",
        b"return",
    ];
    WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

impl Iterator for Lexer<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        while self.peek(0).is_ascii_whitespace() || self.peek(0) == 0x0b {
            self.at += 1;
        }
        let start = self.at;
        let first = *self.bytes.get(start)?;
        let token = match first {
            b'-' if self.peek(1) == b'-' => {
                let end = self.line_comment();
                self.at = end;
                return Some(Token::Comment { start, end });
            }
            b'/' if self.peek(1) == b'*' => {
                let end = comment_end(self.bytes, start).unwrap_or(self.bytes.len());
                self.at = end;
                return Some(Token::Comment { start, end });
            }
            _ => self.token(first),
        };
        // An escape may point past the text or into a character.
        let mut end = token.end().min(self.bytes.len());
        while end < self.bytes.len() && (0x80..0xc0).contains(&self.bytes[end]) {
            end += 1;
        }
        self.at = end;
        self.after_operand = match token {
            Token::Value { .. } | Token::Quoted { .. } => true,
            Token::Word { .. } => !takes_an_operand(&self.bytes[start..end]),
            Token::Symbol { .. } => matches!(first, b')' | b']'),
            Token::Comment { .. } => self.after_operand,
        };
        Some(match token {
            Token::Word { .. } => Token::Word { start, end },
            Token::Quoted { .. } => Token::Quoted { start, end },
            Token::Value { .. } => Token::Value { start, end },
            Token::Symbol { .. } => Token::Symbol { start, end },
            Token::Comment { .. } => Token::Comment { start, end },
        })
    }
}
