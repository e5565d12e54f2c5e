//! Literals in all spellings: reads the value of one, and writes another value in the same spelling.
//!
//! Source: PostgreSQL documentation, 4.1.2. As in fingerprints, a backslash in a plain literal is an ordinary
//! character. For a session in which it escapes, callers pass a plain literal as one with an E.

use std::borrow::Cow;
use std::ops::Range;

use super::fingerprint::lexer::{Lexer, Token};
use super::fingerprint::quotes::{QuoteRules, continuation, gaps, literal_end, segment_end};

/// Escape character of `U&'…'` without `UESCAPE`.
const UNICODE_ESCAPE: char = '\\';

/// Spelling of a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling<'a> {
    /// `$1`, which is no literal.
    Placeholder,
    /// `42`, `-1.5e3`, `0x1F`, `1_000`.
    Number,
    /// `'…'` and `N'…'`, with the prefix before the quote.
    Plain(&'a str),
    /// `E'…'`.
    Escapes(&'a str),
    /// `U&'…'`, with the prefix and the escape character of `UESCAPE`.
    Unicode(&'a str, char),
    /// `B'…'`.
    Bits(&'a str),
    /// `X'…'`.
    HexBits(&'a str),
    /// `$tag$…$tag$`, with the tag.
    Dollars(&'a str),
}

impl<'a> Spelling<'a> {
    /// Returns the spelling of a token, and the text inside its first and last quotes.
    pub fn of(token: &'a str) -> (Self, &'a str) {
        let bytes = token.as_bytes();
        if bytes[0] != b'$' {
            return match token.find('\'').filter(|at| *at <= 2) {
                Some(at) => Self::of_quoted(token, at),
                None => (Spelling::Number, token),
            };
        }
        match token[1..].find('$') {
            Some(at) if !bytes[1].is_ascii_digit() => {
                let (tag, rest) = token.split_at(at + 2);
                (
                    Spelling::Dollars(tag),
                    rest.strip_suffix(tag).unwrap_or(rest),
                )
            }
            _ => (Spelling::Placeholder, ""),
        }
    }

    /// Returns the spelling of a token whose first quote is at `at`.
    fn of_quoted(token: &'a str, at: usize) -> (Self, &'a str) {
        let (prefix, mut quoted) = token.split_at(at);
        let spelling = match prefix.as_bytes().first() {
            Some(b'e' | b'E') => Spelling::Escapes(prefix),
            Some(b'u' | b'U') => {
                let end = literal_end(quoted.as_bytes(), 0, QuoteRules::Doubled);
                let escape = escape_character(&quoted[end..]);
                quoted = &quoted[..end];
                Spelling::Unicode(prefix, escape)
            }
            Some(b'b' | b'B') => Spelling::Bits(prefix),
            Some(b'x' | b'X') => Spelling::HexBits(prefix),
            _ => Spelling::Plain(prefix),
        };
        let inner = &quoted[1..];
        // A truncated literal has no closing quote.
        (spelling, inner.strip_suffix('\'').unwrap_or(inner))
    }

    /// Decodes the text inside the quotes.
    pub fn read(self, inner: &'a str) -> Cow<'a, str> {
        match self {
            Spelling::Plain(_) => join_segments(inner, QuoteRules::Doubled),
            Spelling::Bits(_) | Spelling::HexBits(_) => join_segments(inner, QuoteRules::Bits),
            Spelling::Escapes(_) => unescape(inner),
            Spelling::Unicode(_, escape) => Cow::Owned(unescape_unicode(
                &join_segments(inner, QuoteRules::Doubled),
                escape,
            )),
            Spelling::Number if inner.contains('_') => Cow::Owned(inner.replace('_', "")),
            _ => Cow::Borrowed(inner),
        }
    }

    /// Returns the parts of a literal's token that are outside of its quotes, which may hold comments.
    pub fn gaps(token: &'a str) -> Vec<Range<usize>> {
        let rules = match Self::of(token).0 {
            Spelling::Placeholder | Spelling::Number | Spelling::Dollars(_) => return Vec::new(),
            Spelling::Escapes(_) => QuoteRules::Escapes,
            Spelling::Plain(_) | Spelling::Unicode(..) => QuoteRules::Doubled,
            Spelling::Bits(_) | Spelling::HexBits(_) => QuoteRules::Bits,
        };
        let first = token.find('\'');
        first.map_or_else(Vec::new, |first| gaps(token.as_bytes(), first, rules))
    }

    /// Writes another value in the same spelling.
    pub fn write(self, value: &str, out: &mut String) {
        match self {
            Spelling::Placeholder | Spelling::Number => out.push_str(value),
            Spelling::Dollars(tag) => write_dollar_quoted(tag, value, out),
            Spelling::Plain(prefix) | Spelling::Bits(prefix) | Spelling::HexBits(prefix) => {
                write_quoted(prefix, value, |_| None, out);
            }
            Spelling::Unicode(prefix, escape) => {
                write_quoted(
                    prefix,
                    value,
                    |character| (character == escape).then_some(escape),
                    out,
                );
                if escape != UNICODE_ESCAPE {
                    out.push_str(" UESCAPE ");
                    write_quoted("", escape.encode_utf8(&mut [0; 4]), |_| None, out);
                }
            }
            Spelling::Escapes(prefix) => {
                write_quoted(
                    prefix,
                    value,
                    |character| (character == '\\').then_some('\\'),
                    out,
                );
            }
        }
    }
}

/// Returns the character that a clause `UESCAPE '!'` gives.
fn escape_character(clause: &str) -> char {
    let value = Lexer::new(clause).find_map(|token| match token {
        Token::Value { start, end } => Some(&clause[start..end]),
        _ => None,
    });
    let character = value.and_then(|value| {
        let (spelling, inner) = Spelling::of(value);
        spelling.read(inner).chars().next()
    });
    character.unwrap_or(UNICODE_ESCAPE)
}

/// Decodes a quoted name: `"it""s"`, `U&"d\0061t"`.
pub(crate) fn read_quoted_name(token: &str) -> String {
    let Some(at) = token.find('"') else {
        return token.to_owned();
    };
    let end = segment_end(token.as_bytes(), at, QuoteRules::Doubled);
    let inner = &token[at + 1..end];
    let name = inner.strip_suffix('"').unwrap_or(inner);
    let name = name.replace("\"\"", "\"");
    match at {
        0 => name,
        _ => unescape_unicode(&name, escape_character(&token[end..])),
    }
}

/// Joins the segments of a literal, and reads doubled quotes in them.
fn join_segments(inner: &str, rules: QuoteRules) -> Cow<'_, str> {
    if !inner.contains('\'') {
        return Cow::Borrowed(inner);
    }
    let mut joined = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((before, after)) = rest.split_once('\'') {
        joined.push_str(before);
        let is_quote;
        (is_quote, rest) = after_quote(after, rules);
        if is_quote {
            joined.push('\'');
        }
    }
    joined.push_str(rest);
    Cow::Owned(joined)
}

/// Returns whether a quote within a literal is part of its value, and the text after it. If not, that text
/// begins in the segment that continues the literal. No quote is part of a value of bits, so one that nothing
/// continues ends it.
fn after_quote(after: &str, rules: QuoteRules) -> (bool, &str) {
    match after.strip_prefix('\'') {
        Some(rest) if rules != QuoteRules::Bits => (true, rest),
        _ => match continuation(after.as_bytes(), 0) {
            Some(quote) => (false, &after[quote + 1..]),
            None if rules == QuoteRules::Bits => (false, ""),
            None => (true, after),
        },
    }
}

/// Writes a dollar-quoted literal with its own tags, or with longer ones if those would end within the value.
/// Quotes instead would merge with a literal before it: `E'a'$a$b$a$` is two literals, `E'a''b'` is one.
fn write_dollar_quoted(tag: &str, value: &str, out: &mut String) {
    let mut tag = tag.to_owned();
    loop {
        let from = out.len();
        out.push_str(&tag);
        let inner = out.len();
        out.push_str(value);
        out.push_str(&tag);
        if out[inner..].find(&tag) == Some(value.len()) {
            return;
        }
        out.truncate(from);
        // A tag longer than the value does not occur in it, so this loop ends.
        tag.insert(tag.len() - 1, 'm');
    }
}

fn write_quoted(
    prefix: &str,
    value: &str,
    before: impl Fn(char) -> Option<char>,
    out: &mut String,
) {
    out.push_str(prefix);
    out.push('\'');
    for character in value.chars() {
        if character == '\'' {
            out.push('\'');
        }
        out.extend(before(character));
        out.push(character);
    }
    out.push('\'');
}

/// Decodes the text of `E'…'`. An invalid character (a byte of another encoding) becomes U+FFFD.
fn unescape(inner: &str) -> Cow<'_, str> {
    if !inner.contains(['\\', '\'']) {
        return Cow::Borrowed(inner);
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        if character == '\'' {
            let is_quote;
            (is_quote, rest) = after_quote(rest, QuoteRules::Escapes);
            if is_quote {
                bytes.push(b'\'');
            }
            continue;
        }
        if character != '\\' {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let Some(escaped) = rest.chars().next() else {
            break;
        };
        let tail = &rest[escaped.len_utf8()..];
        let digits = |text: &str, radix: u32, most: usize| {
            text.chars()
                .take(most)
                .take_while(|digit| digit.is_digit(radix))
                .count()
        };
        let (length, radix) = match escaped {
            'x' => (digits(tail, 16, 2), 16),
            'u' => (digits(tail, 16, 4), 16),
            'U' => (digits(tail, 16, 8), 16),
            '0'..='7' => (digits(rest, 8, 3), 8),
            _ => (0, 10),
        };
        let number = match escaped {
            '0'..='7' => &rest[..length],
            _ => &tail[..length],
        };
        rest = match escaped {
            '0'..='7' => &rest[length..],
            _ => &tail[length..],
        };
        let code = u32::from_str_radix(number, radix).ok();
        match (escaped, code) {
            ('x' | '0'..='7', Some(code)) => bytes.push(code as u8),
            ('u' | 'U', Some(code)) => {
                let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            _ => {
                let character = match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    other => other,
                };
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    Cow::Owned(
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
}

/// Decodes the text of `U&'…'`: `\0041`, `\+01F600`, and a doubled escape for itself.
fn unescape_unicode(inner: &str, escape: char) -> String {
    let mut units: Vec<u16> = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(mut character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        if character == escape {
            let (from, length) = match rest.starts_with('+') {
                true => (1, 6),
                false => (0, 4),
            };
            let digits = rest.get(from..from + length);
            match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
                Some(code) => {
                    rest = &rest[from + length..];
                    if let Ok(unit) = u16::try_from(code) {
                        // It may be half of a surrogate pair.
                        units.push(unit);
                        continue;
                    }
                    character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                }
                None => rest = rest.strip_prefix(escape).unwrap_or(rest),
            }
        }
        units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollar_quote_tag_does_not_end_within_the_value() {
        for (tag, value, written) in [
            ("$a$", "it's", "$a$it's$a$"),
            ("$$", "5$", "$m$5$$m$"),
            ("$$", "a $$ b", "$m$a $$ b$m$"),
            ("$a$", "b$a", "$am$b$a$am$"),
            ("$a$", "$a$ $am$", "$amm$$a$ $am$$amm$"),
        ] {
            let mut out = String::from("'before'");
            Spelling::Dollars(tag).write(value, &mut out);
            assert_eq!(out, format!("'before'{written}"));
        }
    }

    #[test]
    fn literal_value_is_equal_in_every_spelling() {
        for (token, value) in [
            ("'it''s'", "it's"),
            ("N'it''s'", "it's"),
            (r"E'it\'s'", "it's"),
            (r"e'it''s'", "it's"),
            (r"E'\x69\164\u0027s'", "it's"),
            (r"U&'i\0074\+000027s'", "it's"),
            ("$$it's$$", "it's"),
            ("$a$it's$a$", "it's"),
            ("1_000", "1000"),
            ("'cut", "cut"),
            ("'", ""),
            (r"U&'\d83d\de00\\'", "😀\\"),
            ("U&'i!0074!!' /* x */ uescape '!'", "it!"),
            ("'it'\n'''\ns'", "it'\ns"),
            ("'it' -- 'x\n\t''''\r's'", "it's"),
            ("e'it\\''--'\n's'", "it's"),
            ("b'10'\n'01'", "1001"),
            ("b'10'\n'", "10"),
            ("$$'s$$", "'s"),
        ] {
            let (spelling, inner) = Spelling::of(token);
            let read = spelling.read(inner);
            assert_eq!(read, value, "{token}");
            let mut written = String::new();
            spelling.write(&read, &mut written);
            let (again, inner) = Spelling::of(&written);
            assert_eq!(again.read(inner), value, "{token} {written}");
        }
        assert_eq!(Spelling::of("$12").0, Spelling::Placeholder);
    }
}
