//! PostgreSQL documentation, 54.2.6 COPY Operations; 54.7 Message Formats: CopyFail (F).

use super::tag::COPY_FAIL;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;

const NAME: &str = "CopyFail";

/// Aborts a COPY from the client. The server responds with an ErrorResponse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyFail<'a> {
    /// Reason, for the server's error message.
    pub reason: &'a [u8],
}

impl<'a> CopyFail<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let reason = cursor.string("reason")?;
        cursor.end()?;
        Ok(Self { reason })
    }

    /// Appends the message. Fails if the reason has a NUL.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged(NAME, COPY_FAIL, out);
        writer.string("reason", self.reason)?;
        writer.finish()
    }
}
