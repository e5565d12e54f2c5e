//! ErrorResponse and NoticeResponse, whose bodies have the same structure: fields, each with a letter and a
//! string.
//!
//! PostgreSQL documentation, 54.7 Message Formats: ErrorResponse and NoticeResponse (B); 54.8 Error and
//! Notice Message Fields.

use super::tag;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;
use std::borrow::Cow;

/// Letters of the fields.
pub mod field {
    /// Severity, localised.
    pub const SEVERITY: u8 = b'S';
    /// Severity, never localised.
    pub const SEVERITY_NON_LOCALIZED: u8 = b'V';
    /// SQLSTATE.
    pub const SQLSTATE: u8 = b'C';
    /// The primary message.
    pub const MESSAGE: u8 = b'M';
    /// Detail.
    pub const DETAIL: u8 = b'D';
    /// Hint.
    pub const HINT: u8 = b'H';
    /// Position in the query, in characters from 1.
    pub const POSITION: u8 = b'P';
    /// Position in an internal query, in characters from 1.
    pub const INTERNAL_POSITION: u8 = b'p';
    /// The text of the internal query.
    pub const INTERNAL_QUERY: u8 = b'q';
    /// The call stack of procedural languages.
    pub const WHERE: u8 = b'W';
    /// Schema.
    pub const SCHEMA: u8 = b's';
    /// Table.
    pub const TABLE: u8 = b't';
    /// Column.
    pub const COLUMN: u8 = b'c';
    /// Data type.
    pub const DATA_TYPE: u8 = b'd';
    /// Constraint.
    pub const CONSTRAINT: u8 = b'n';
    /// The server's source file.
    pub const FILE: u8 = b'F';
    /// The line in it.
    pub const LINE: u8 = b'L';
    /// The server's source routine.
    pub const ROUTINE: u8 = b'R';
}

/// Kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Report {
    /// ErrorResponse: the statement or the connection failed.
    Error,
    /// NoticeResponse: a warning or information. It may come at any time.
    Notice,
}

impl Report {
    const fn tag(self) -> u8 {
        match self {
            Self::Error => tag::ERROR_RESPONSE,
            Self::Notice => tag::NOTICE_RESPONSE,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Error => "ErrorResponse",
            Self::Notice => "NoticeResponse",
        }
    }
}

/// Fields of an ErrorResponse or a NoticeResponse.
///
/// All fields are optional in the protocol. The server always sends severity, SQLSTATE and message. Clients
/// have to ignore unknown letters; they are retained here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorNotice<'a> {
    /// Fields, then a zero byte; checked when decoded.
    encoded: &'a [u8],
}

impl<'a> ErrorNotice<'a> {
    /// Decodes the body of the kind of message that `report` names.
    pub fn decode(report: Report, body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(report.name(), body);
        while cursor.u8("field type")? != 0 {
            cursor.string("field value")?;
        }
        cursor.end()?;
        Ok(Self { encoded: body })
    }

    /// Appends the message of the kind that `report` names. Fails if it is longer than 2 GiB.
    pub fn encode(&self, report: Report, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode(report, self.iter(), out)
    }

    /// Iterates over letters and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &'a [u8])> + Clone + 'a {
        // A field's letter is never 0, so each field is one piece. The text after the last field is empty.
        let pieces = self.encoded.split(|&byte| byte == 0);
        pieces.map_while(|piece| piece.split_first().map(|(&letter, value)| (letter, value)))
    }

    /// Returns the value of the first field with a letter; see [`field`].
    pub fn field(&self, letter: u8) -> Option<&'a [u8]> {
        self.iter()
            .find_map(|(found, value)| (found == letter).then_some(value))
    }

    fn field_str(&self, letter: u8) -> Option<Cow<'a, str>> {
        self.field(letter).map(String::from_utf8_lossy)
    }

    /// Returns `ERROR`, `FATAL`, `PANIC`, `WARNING`, `NOTICE`, `DEBUG`, `INFO` or `LOG`. Servers before 9.6,
    /// and incompatible ones, may localise it.
    pub fn severity(&self) -> Option<Cow<'a, str>> {
        self.field_str(field::SEVERITY_NON_LOCALIZED)
            .or_else(|| self.field_str(field::SEVERITY))
    }

    /// Returns the SQLSTATE, such as `42P01`; `None` also if it does not have 5 characters of A–Z and 0–9.
    pub fn sqlstate(&self) -> Option<[u8; 5]> {
        let code: [u8; 5] = self.field(field::SQLSTATE)?.try_into().ok()?;
        let known = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
        code.iter().all(known).then_some(code)
    }

    /// Returns the primary message. All texts here are read as UTF-8, with invalid bytes replaced by U+FFFD.
    pub fn message(&self) -> Option<Cow<'a, str>> {
        self.field_str(field::MESSAGE)
    }

    /// Returns the detail.
    pub fn detail(&self) -> Option<Cow<'a, str>> {
        self.field_str(field::DETAIL)
    }

    /// Returns the hint.
    pub fn hint(&self) -> Option<Cow<'a, str>> {
        self.field_str(field::HINT)
    }

    /// Returns the position of the error in the query, in characters (not bytes) from 1.
    pub fn position(&self) -> Option<u32> {
        std::str::from_utf8(self.field(field::POSITION)?)
            .ok()?
            .parse()
            .ok()
    }
}

/// Appends the message of the kind that `report` names, with letters (see [`field`]) and values.
///
/// Fails if a letter is 0, which would end the list, or a value has a NUL.
pub fn encode<'f>(
    report: Report,
    fields: impl IntoIterator<Item = (u8, &'f [u8])>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut writer = Writer::tagged(report.name(), report.tag(), out);
    for (letter, value) in fields {
        if letter == 0 {
            return Err(writer.invalid("field type", 0));
        }
        writer.u8(letter);
        writer.string("field value", value)?;
    }
    writer.u8(0);
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"SFEHLER\0VERROR\0C42P01\0Mno \xff table\0P15\0Hlook\0zfuture\0\0";

    #[test]
    fn fields_are_looked_up_by_letter() {
        let error = ErrorNotice::decode(Report::Error, BODY).unwrap();
        assert_eq!(error.severity().as_deref(), Some("ERROR"));
        assert_eq!(error.sqlstate(), Some(*b"42P01"));
        assert_eq!(error.message().as_deref(), Some("no \u{fffd} table"));
        assert_eq!(error.hint().as_deref(), Some("look"));
        assert_eq!(error.detail(), None);
        assert_eq!(error.position(), Some(15));
        assert_eq!(error.field(b'z'), Some(&b"future"[..]));
        assert_eq!(error.iter().count(), 7);
    }

    #[test]
    fn without_v_the_severity_is_s() {
        let error = ErrorNotice::decode(Report::Notice, b"SWARNUNG\0C0100\0\0").unwrap();
        assert_eq!(error.severity().as_deref(), Some("WARNUNG"));
        assert_eq!(error.sqlstate(), None);
    }

    #[test]
    fn an_empty_value_is_a_field() {
        let error = ErrorNotice::decode(Report::Error, b"M\0Cx\0\0").unwrap();
        assert!(error.iter().eq([(b'M', &b""[..]), (b'C', b"x")]));
        let empty = ErrorNotice::decode(Report::Error, b"\0").unwrap();
        assert_eq!(empty.iter().count(), 0);
    }
}
