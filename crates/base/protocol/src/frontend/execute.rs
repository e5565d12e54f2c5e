//! PostgreSQL documentation, 54.2.3 Extended Query; 54.7 Message Formats: Execute (F).

use super::tag::EXECUTE;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;

const NAME: &str = "Execute";

/// Executes a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    /// Name of the portal; empty for the unnamed one.
    pub portal: &'a [u8],
    /// Maximum number of rows before PortalSuspended. 0 is no limit, and the server treats negative numbers
    /// as 0.
    pub rows_max: i32,
}

impl<'a> Execute<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let message = Self {
            portal: cursor.string("portal")?,
            rows_max: cursor.i32("maximum rows")?,
        };
        cursor.end()?;
        Ok(message)
    }

    /// Appends the message. Fails if the name has a NUL.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged(NAME, EXECUTE, out);
        writer.string("portal", self.portal)?;
        writer.i32(self.rows_max);
        writer.finish()
    }
}
