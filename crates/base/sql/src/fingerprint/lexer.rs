//! Splits SQL into the kinds of token that the normal form distinguishes.

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
    /// The last token was an operand. If not, a minus or plus before a number is its sign.
    after_operand: bool,
    /// A backslash in a plain literal escapes, as with `standard_conforming_strings = off`.
    backslash_escapes: bool,
}

impl<'a> Lexer<'a> {
    /// Creates a lexer of a text.
    pub fn new(sql: &'a str) -> Self {
        Lexer {
            bytes: sql.as_bytes(),
            at: 0,
            after_operand: false,
            backslash_escapes: false,
        }
    }

    /// Creates a lexer that reads a backslash in a plain literal as an escape, as with
    /// `standard_conforming_strings = off`.
    pub fn with_escapes(sql: &'a str) -> Self {
        Lexer {
            backslash_escapes: true,
            ..Self::new(sql)
        }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Returns the offset after the closing quote of a literal or name whose opening quote is at `from`.
    /// Doubled quotes do not close. The end of the text closes any.
    fn quoted(&self, from: usize, backslash_escapes: bool) -> usize {
        let quote = self.bytes[from];
        let mut at = from + 1;
        while at < self.bytes.len() {
            match self.bytes[at] {
                b'\\' if backslash_escapes => at += 2,
                byte if byte == quote => {
                    if self.bytes.get(at + 1) == Some(&quote) {
                        at += 2;
                    } else {
                        return at + 1;
                    }
                }
                _ => at += 1,
            }
        }
        self.bytes.len()
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

    fn block_comment(&self) -> usize {
        let mut depth = 0;
        let mut at = self.at;
        while at < self.bytes.len() {
            match (self.bytes[at], self.bytes.get(at + 1)) {
                (b'/', Some(b'*')) => {
                    depth += 1;
                    at += 2;
                }
                (b'*', Some(b'/')) => {
                    depth -= 1;
                    at += 2;
                    if depth == 0 {
                        return at;
                    }
                }
                _ => at += 1,
            }
        }
        self.bytes.len()
    }

    fn number(&self, from: usize) -> usize {
        let mut at = from;
        while let Some(&byte) = self.bytes.get(at) {
            let exponent_sign = matches!(byte, b'+' | b'-')
                && matches!(self.bytes[at - 1], b'e' | b'E')
                && !self.bytes[from..].starts_with(b"0x");
            if byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || exponent_sign {
                // `1..10` in PL/pgSQL is a range, not a number.
                if byte == b'.' && self.bytes.get(at + 1) == Some(&b'.') {
                    break;
                }
                at += 1;
            } else {
                break;
            }
        }
        at
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

    /// Returns the token other than a comment that begins with the byte `first` at `self.at`.
    #[inline]
    fn token(&self, first: u8) -> Token {
        let start = self.at;
        let signed = matches!(first, b'-' | b'+')
            && !self.after_operand
            && (self.peek(1).is_ascii_digit()
                || self.peek(1) == b'.' && self.peek(2).is_ascii_digit());
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
                end: self.quoted(start, self.backslash_escapes),
            },
            b'e' | b'E' if self.peek(1) == b'\'' => Token::Value {
                start,
                end: self.quoted(start + 1, true),
            },
            b'b' | b'B' | b'x' | b'X' if self.peek(1) == b'\'' => Token::Value {
                start,
                end: self.quoted(start + 1, false),
            },
            // National character literal.
            b'n' | b'N' if self.peek(1) == b'\'' => Token::Value {
                start,
                end: self.quoted(start + 1, self.backslash_escapes),
            },
            b'u' | b'U' if self.peek(1) == b'&' && self.peek(2) == b'\'' => Token::Value {
                start,
                end: self.quoted(start + 2, false),
            },
            b'u' | b'U' if self.peek(1) == b'&' && self.peek(2) == b'"' => Token::Quoted {
                start,
                end: self.quoted(start + 2, false),
            },
            b'"' => Token::Quoted {
                start,
                end: self.quoted(start, false),
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
            .position(|&byte| byte == b'\n')
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
        );
        Token::Symbol {
            start,
            end: start + if two { 2 } else { 1 },
        }
    }
}

/// Whether a sign after this word belongs to the number that follows.
fn takes_an_operand(word: &[u8]) -> bool {
    const WORDS: [&[u8]; 16] = [
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
                let end = self.block_comment();
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
