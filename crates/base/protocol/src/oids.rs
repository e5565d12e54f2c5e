//! Lists of type OIDs: parameter types of Parse and ParameterDescription.

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;

/// OIDs in a message: an Int16 count and that number of Int32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oids<'a> {
    /// Four bytes per OID.
    encoded: &'a [u8],
}

impl<'a> Oids<'a> {
    pub(crate) fn decode(
        cursor: &mut Cursor<'a>,
        field: &'static str,
    ) -> Result<Self, DecodeError> {
        let count = usize::from(cursor.u16(field)?);
        Ok(Self {
            encoded: cursor.bytes(count * 4, field)?,
        })
    }

    /// Number of OIDs.
    pub fn len(&self) -> usize {
        self.encoded.len() / 4
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// Iterates over the OIDs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + Clone + 'a {
        self.encoded
            .chunks_exact(4)
            .map(|oid| u32::from_be_bytes([oid[0], oid[1], oid[2], oid[3]]))
    }
}

/// Writes a list of OIDs.
pub(crate) fn encode_oids(
    writer: &mut Writer<'_>,
    field: &'static str,
    oids: impl IntoIterator<Item = u32>,
) -> Result<(), EncodeError> {
    writer.counted(field, oids, |writer, oid| {
        writer.u32(oid);
        Ok(())
    })
}
