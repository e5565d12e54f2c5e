//! PostgreSQL documentation, 54.2.3 Extended Query; 54.7 Message Formats: Parse (F).

use super::tag::PARSE;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::oids::{Oids, encode_oids};
use crate::writer::Writer;
use std::borrow::Cow;

const NAME: &str = "Parse";

/// Creates a prepared statement from SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// Name of the prepared statement; empty for the unnamed one.
    pub statement: &'a [u8],
    /// One statement of SQL in the client's encoding, without NUL.
    pub sql: &'a [u8],
    /// Types of the first parameters; the server infers those that are 0 or missing.
    pub parameter_types: Oids<'a>,
}

impl<'a> Parse<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let message = Self {
            statement: cursor.string("statement")?,
            sql: cursor.string("query")?,
            parameter_types: Oids::decode(&mut cursor, "parameter types")?,
        };
        cursor.end()?;
        Ok(message)
    }

    /// Appends the message. Fails if a string has a NUL.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode(self.statement, self.sql, self.parameter_types.iter(), out)
    }

    /// Returns the SQL as UTF-8, with invalid bytes replaced by U+FFFD.
    pub fn sql_str(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.sql)
    }
}

/// Appends a Parse message. Fails if a string has a NUL or there are more than 65,535 types.
#[inline]
pub fn encode(
    statement: &[u8],
    sql: &[u8],
    parameter_types: impl IntoIterator<Item = u32>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut writer = Writer::tagged(NAME, PARSE, out);
    writer.string("statement", statement)?;
    writer.string("query", sql)?;
    encode_oids(&mut writer, "parameter types", parameter_types)?;
    writer.finish()
}
