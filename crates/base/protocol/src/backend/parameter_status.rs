//! PostgreSQL documentation, 54.2.7 Asynchronous Operations; 54.7 Message Formats:
//! ParameterStatus (B).

use super::tag::PARAMETER_STATUS;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;

const NAME: &str = "ParameterStatus";

/// Value of a setting that clients need, at the start and after each change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterStatus<'a> {
    /// Name of the setting, such as `server_version`.
    pub name: &'a [u8],
    /// Current value.
    pub value: &'a [u8],
}

impl<'a> ParameterStatus<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let message = Self {
            name: cursor.string("name")?,
            value: cursor.string("value")?,
        };
        cursor.end()?;
        Ok(message)
    }

    /// Appends the message. Fails if a string has a NUL.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged(NAME, PARAMETER_STATUS, out);
        writer.string("name", self.name)?;
        writer.string("value", self.value)?;
        writer.finish()
    }
}
