//! PostgreSQL documentation, 54.2.2 Simple Query; 54.7 Message Formats: Query (F).

use super::tag::QUERY;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;
use std::borrow::Cow;

const NAME: &str = "Query";

/// A simple query: any number of statements, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// SQL in the client's encoding, without NUL.
    pub sql: &'a [u8],
}

impl<'a> Query<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let sql = cursor.string("query")?;
        cursor.end()?;
        Ok(Self { sql })
    }

    /// Appends the message. Fails if the SQL has a NUL.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged(NAME, QUERY, out);
        writer.string("query", self.sql)?;
        writer.finish()
    }

    /// Returns the SQL as UTF-8, with invalid bytes replaced by U+FFFD.
    pub fn sql_str(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.sql)
    }
}
