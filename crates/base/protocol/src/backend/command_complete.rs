//! PostgreSQL documentation, 54.7 Message Formats: CommandComplete (B).

use super::tag::COMMAND_COMPLETE;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;
use std::borrow::Cow;

const NAME: &str = "CommandComplete";

/// Completion of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandComplete<'a> {
    /// Command tag, such as `INSERT 0 5`, without NUL.
    pub tag: &'a [u8],
}

impl<'a> CommandComplete<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let tag = cursor.string("tag")?;
        cursor.end()?;
        Ok(Self { tag })
    }

    /// Appends the message. Fails if the tag has a NUL.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged(NAME, COMMAND_COMPLETE, out);
        writer.string("tag", self.tag)?;
        writer.finish()
    }

    /// Returns the tag as UTF-8, with invalid bytes replaced by U+FFFD.
    pub fn tag_str(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.tag)
    }

    /// Returns the number of rows that the statement returned or changed: the number at the end of the tag,
    /// for commands that have one. `SELECT` is also the tag of CREATE TABLE AS.
    ///
    /// `None` for `BEGIN`, `CREATE INDEX` and the like, and for an invalid number.
    #[inline]
    pub fn rows(&self) -> Option<u64> {
        let (command, rest) = split_at_space(self.tag)?;
        let count = match command {
            b"SELECT" | b"UPDATE" | b"DELETE" | b"MERGE" | b"COPY" | b"FETCH" | b"MOVE" => rest,
            // The first number is the OID of the row, always 0 since PostgreSQL 12.
            b"INSERT" => split_at_space(rest)?.1,
            _ => return None,
        };
        decimal(count)
    }
}

fn split_at_space(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|&byte| byte == b' ')?;
    Some((&text[..at], &text[at + 1..]))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &digit| {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit <= 9)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_for_the_commands_that_have_a_count() {
        let expected: [(&[u8], Option<u64>); 20] = [
            (b"SELECT 5", Some(5)),
            (b"SELECT 0", Some(0)),
            (b"INSERT 0 5", Some(5)),
            (b"INSERT 16393 1", Some(1)),
            (b"UPDATE 12", Some(12)),
            (b"DELETE 3", Some(3)),
            (b"MERGE 7", Some(7)),
            (b"COPY 18446744073709551615", Some(u64::MAX)),
            (b"FETCH 10", Some(10)),
            (b"MOVE 10", Some(10)),
            (b"BEGIN", None),
            (b"CREATE TABLE", None),
            (b"CREATE TABLE 5", None),
            (b"INSERT 5", None),
            (b"SELECT", None),
            (b"SELECT ", None),
            (b"SELECT +5", None),
            (b"SELECT 5 ", None),
            (b"COPY 18446744073709551616", None),
            (b"", None),
        ];
        for (tag, rows) in expected {
            assert_eq!(CommandComplete { tag }.rows(), rows, "{tag:?}");
        }
    }
}
