//! Object of Describe and Close.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;

/// A prepared statement or a portal, by its name; the unnamed one has an empty name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target<'a> {
    /// `S`
    Statement(&'a [u8]),
    /// `P`
    Portal(&'a [u8]),
}

impl<'a> Target<'a> {
    pub(crate) fn decode(message: &'static str, body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(message, body);
        let target = match cursor.u8("kind")? {
            b'S' => Self::Statement(cursor.string("name")?),
            b'P' => Self::Portal(cursor.string("name")?),
            found => return Err(cursor.invalid("kind", 1, found)),
        };
        cursor.end()?;
        Ok(target)
    }

    pub(crate) fn encode(
        self,
        message: &'static str,
        tag: u8,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let (kind, name) = match self {
            Self::Statement(name) => (b'S', name),
            Self::Portal(name) => (b'P', name),
        };
        let mut writer = Writer::tagged(message, tag, out);
        writer.u8(kind);
        writer.string("name", name)?;
        writer.finish()
    }
}
