//! CopyData and CopyDone, which both sides send in the same form.
//!
//! PostgreSQL documentation, 54.7 Message Formats: CopyData (F & B), CopyDone (F & B).

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;

/// Tag of [`CopyData`].
pub const COPY_DATA: u8 = b'd';

/// Tag of [`CopyDone`].
pub const COPY_DONE: u8 = b'c';

/// A piece of a COPY stream. The boundaries of pieces have no meaning, though a server sends one row in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyData<'a> {
    /// Data in the format announced by CopyInResponse, CopyOutResponse or CopyBothResponse.
    pub data: &'a [u8],
}

impl<'a> CopyData<'a> {
    /// Reads a body. Every body is valid.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self { data: body })
    }

    /// Appends the message. Fails if it is longer than 2 GiB.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged("CopyData", COPY_DATA, out);
        writer.bytes(self.data);
        writer.finish()
    }
}

/// End of a COPY stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyDone;

impl CopyDone {
    /// Reads a body, which must be empty.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        Cursor::new("CopyDone", body).end()?;
        Ok(Self)
    }

    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        Writer::tagged("CopyDone", COPY_DONE, out).finish_small();
    }
}
