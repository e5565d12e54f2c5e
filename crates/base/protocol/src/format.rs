//! Format codes of values: text, or the binary form of the type.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;

/// Format of a parameter or a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Code 0.
    Text,
    /// Code 1.
    Binary,
    /// A code that the protocol does not define. A server responds with an error.
    Other(i16),
}

impl Format {
    /// Returns the format for a code.
    pub const fn from_code(code: i16) -> Self {
        match code {
            0 => Self::Text,
            1 => Self::Binary,
            other => Self::Other(other),
        }
    }

    /// Returns the code in the protocol.
    pub const fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
            Self::Other(code) => code,
        }
    }
}

/// A list of format codes in a message: an Int16 count and that number of Int16.
///
/// Without codes all are text; one code applies to all; otherwise there is one for each. See [`Formats::of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formats<'a> {
    /// Two bytes per code.
    codes: &'a [u8],
}

impl<'a> Formats<'a> {
    pub(crate) fn decode(
        cursor: &mut Cursor<'a>,
        field: &'static str,
    ) -> Result<Self, DecodeError> {
        let count = usize::from(cursor.u16(field)?);
        Ok(Self {
            codes: cursor.bytes(count * 2, field)?,
        })
    }

    /// Number of codes.
    pub fn len(&self) -> usize {
        self.codes.len() / 2
    }

    /// Whether the list is empty, so that all are text.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Iterates over the codes.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Format> + Clone + 'a {
        self.codes
            .chunks_exact(2)
            .map(|code| Format::from_code(i16::from_be_bytes([code[0], code[1]])))
    }

    /// Returns the format of the value at `index`, from 0; `None` if several codes are listed, but none for
    /// it.
    pub fn of(&self, index: usize) -> Option<Format> {
        match self.len() {
            0 => Some(Format::Text),
            1 => self.iter().next(),
            _ => self.iter().nth(index),
        }
    }
}

/// Writes a list of format codes.
pub(crate) fn encode_formats(
    writer: &mut Writer<'_>,
    field: &'static str,
    formats: impl IntoIterator<Item = Format>,
) -> Result<(), EncodeError> {
    writer.counted(field, formats, |writer, format| {
        writer.i16(format.code());
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn formats(codes: &[u8]) -> Formats<'_> {
        Formats { codes }
    }

    #[test]
    fn none_is_text_one_is_for_all_many_are_for_each() {
        assert_eq!(formats(&[]).of(7), Some(Format::Text));
        assert_eq!(formats(&[0, 1]).of(7), Some(Format::Binary));
        assert_eq!(formats(&[0, 0, 0, 1]).of(1), Some(Format::Binary));
        assert_eq!(formats(&[0, 0, 0, 1]).of(2), None);
    }
}
