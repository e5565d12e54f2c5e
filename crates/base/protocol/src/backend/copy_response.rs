//! PostgreSQL documentation, 54.2.6 COPY Operations; 54.7 Message Formats: CopyInResponse,
//! CopyOutResponse and CopyBothResponse (B), which differ only in their tag.

use super::tag;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::format::{Format, Formats, encode_formats};
use crate::writer::Writer;

/// Sender of CopyData after this message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyDirection {
    /// The client (COPY FROM STDIN).
    In,
    /// The server (COPY TO STDOUT).
    Out,
    /// Both (streaming replication).
    Both,
}

impl CopyDirection {
    /// Returns the direction for a tag, if it is one of these messages' tags.
    pub const fn from_tag(tag: u8) -> Option<Self> {
        Some(match tag {
            tag::COPY_IN_RESPONSE => Self::In,
            tag::COPY_OUT_RESPONSE => Self::Out,
            tag::COPY_BOTH_RESPONSE => Self::Both,
            _ => return None,
        })
    }

    /// Returns the tag of the message.
    pub const fn tag(self) -> u8 {
        match self {
            Self::In => tag::COPY_IN_RESPONSE,
            Self::Out => tag::COPY_OUT_RESPONSE,
            Self::Both => tag::COPY_BOTH_RESPONSE,
        }
    }

    /// Returns the name of the message in the documentation.
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "CopyInResponse",
            Self::Out => "CopyOutResponse",
            Self::Both => "CopyBothResponse",
        }
    }
}

/// Start of a COPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyResponse<'a> {
    /// Sender of the data.
    pub direction: CopyDirection,
    /// Whether the stream is in binary format; text and CSV both count as text.
    pub format: Format,
    /// One format for each column; all are text if the stream is text.
    pub column_formats: Formats<'a>,
}

impl<'a> CopyResponse<'a> {
    /// Reads the body of the message for `direction`.
    pub fn decode(direction: CopyDirection, body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(direction.name(), body);
        // An Int8 here, unlike all other format codes.
        let format = match cursor.u8("format")? {
            0 => Format::Text,
            1 => Format::Binary,
            found => return Err(cursor.invalid("format", 1, found)),
        };
        let column_formats = Formats::decode(&mut cursor, "column formats")?;
        cursor.end()?;
        Ok(Self {
            direction,
            format,
            column_formats,
        })
    }

    /// Appends the message. Fails if the format is neither text nor binary.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode(self.direction, self.format, self.column_formats.iter(), out)
    }
}

/// Appends the message for `direction`.
///
/// Fails if the format is neither text nor binary or there are more than 65,535 columns.
pub fn encode(
    direction: CopyDirection,
    format: Format,
    column_formats: impl IntoIterator<Item = Format>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut writer = Writer::tagged(direction.name(), direction.tag(), out);
    match format {
        Format::Text => writer.u8(0),
        Format::Binary => writer.u8(1),
        Format::Other(code) => return Err(writer.invalid("format", code)),
    }
    encode_formats(&mut writer, "column formats", column_formats)?;
    writer.finish()
}
