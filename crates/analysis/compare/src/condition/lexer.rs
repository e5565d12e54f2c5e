//! Splits the text of a condition into tokens.

use super::error::ConditionError;
use super::{Operator, Unit};

/// Maximum length of a condition in bytes.
const BYTES_MAX: usize = 16_384;

/// Token with its byte range.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SpannedToken {
    pub(super) token: Token,
    pub(super) at: (usize, usize),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// Name in lower case, including dots.
    Word(String),
    Number(f64, Unit),
    Text(String),
    Compare(Operator),
    Matches,
    MatchesNot,
    Open,
    Close,
}

pub(super) fn tokenize(text: &str) -> Result<Vec<SpannedToken>, ConditionError> {
    let fault = |at: (usize, usize), message: String| ConditionError {
        text: text.to_owned(),
        at,
        message,
    };
    if text.len() > BYTES_MAX {
        return Err(ConditionError {
            text: String::new(),
            at: (0, 0),
            message: format!(
                "a condition has at most {BYTES_MAX} bytes, this has {}; give its parts apart, each as --fail-on",
                text.len()
            ),
        });
    }
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let from = at;
        let token = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if first.is_ascii_digit()
            || matches!(first, '-' | '+' | '.')
                && rest[1..].starts_with(|next: char| next.is_ascii_digit() || next == '.')
        {
            let (token, length) =
                number(rest).map_err(|(length, message)| fault((from, from + length), message))?;
            at += length;
            token
        } else if is_word_character(first) {
            let length = rest
                .find(|next: char| !is_word_character(next) && next != '.')
                .unwrap_or(rest.len());
            at += length;
            Token::Word(rest[..length].to_ascii_lowercase())
        } else if matches!(first, '\'' | '"') {
            let (content, length) = quoted(rest, first).ok_or_else(|| {
                fault(
                    (from, text.len()),
                    format!("no {first} closes this text; put one after it"),
                )
            })?;
            at += length;
            Token::Text(content)
        } else {
            let symbols = [
                ("!~", Token::MatchesNot),
                ("~", Token::Matches),
                ("(", Token::Open),
                (")", Token::Close),
            ];
            let operators = Operator::ALL
                .iter()
                .filter(|(word, _)| rest.starts_with(word))
                .max_by_key(|(word, _)| word.len())
                .map(|(word, operator)| (*word, Token::Compare(*operator)));
            let symbol = symbols
                .into_iter()
                .find(|(word, _)| rest.starts_with(word))
                .or(operators);
            let Some((word, token)) = symbol else {
                return Err(fault(
                    (from, from + first.len_utf8()),
                    format!(
                        "'{}' has no meaning here; there are names, numbers with a unit, 'texts', > >= < <= = != ~ !~, and, or, not and brackets",
                        first.escape_debug()
                    ),
                ));
            };
            at += word.len();
            token
        };
        pieces.push(SpannedToken {
            token,
            at: (from, at),
        });
    }
    Ok(pieces)
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Reads a number with its unit, and returns its length in bytes; or the length and message of the
/// fault.
fn number(rest: &str) -> Result<(Token, usize), (usize, String)> {
    let sign = usize::from(rest.starts_with(['-', '+']));
    let digits = sign
        + rest[sign..]
            .find(|next: char| !next.is_ascii_digit() && next != '.' && next != '_')
            .unwrap_or(rest.len() - sign);
    let plain = rest[..digits].replace('_', "");
    let value = plain.parse::<f64>().ok().filter(|value| value.is_finite());
    let Some(value) = value else {
        return Err((digits, format!("'{}' is no number", &rest[..digits])));
    };
    // A unit may be separated by blanks. A separate word that is not a unit belongs to the next
    // token.
    let tail = &rest[digits..];
    let blanks = tail.len() - tail.trim_start().len();
    let word = &tail[blanks..];
    let length = match word.starts_with('%') {
        true => 1,
        false => word
            .find(|next: char| !is_word_character(next))
            .unwrap_or(word.len()),
    };
    let word = &word[..length];
    let known = Unit::WORDS
        .iter()
        .find(|(known, _)| *known == word.to_lowercase());
    match known {
        Some((_, Unit::None)) => Ok((Token::Number(value, Unit::None), digits)),
        Some((_, unit)) => Ok((Token::Number(value, *unit), digits + blanks + length)),
        None if blanks > 0 => Ok((Token::Number(value, Unit::None), digits)),
        None => Err((
            digits + length,
            format!("'{word}' is no unit; there are x and % (of a ratio), ns, us, ms, s and min"),
        )),
    }
}

/// Reads a quoted text, in which a doubled quote stands for one, and returns its length in bytes.
fn quoted(rest: &str, quote: char) -> Option<(String, usize)> {
    let mut content = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        if character != quote {
            content.push(character);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            content.push(quote);
        } else {
            return Some((content, at + 1));
        }
    }
    None
}
