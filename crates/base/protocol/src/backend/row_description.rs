//! PostgreSQL documentation, 54.7 Message Formats: RowDescription (B).

use super::tag::ROW_DESCRIPTION;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::format::Format;
use crate::writer::Writer;

const NAME: &str = "RowDescription";

/// One column of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldDescription<'a> {
    /// Name of the column, without NUL.
    pub name: &'a [u8],
    /// OID of the column's table, or 0.
    pub table_oid: u32,
    /// Number of the table's column, or 0.
    pub column_number: i16,
    /// OID of the type.
    pub type_oid: u32,
    /// Size of the type in bytes (`pg_type.typlen`), negative if it varies.
    pub type_bytes: i16,
    /// Modifier of the type (`pg_attribute.atttypmod`), −1 for none.
    pub type_modifier: i32,
    /// Format of the values. After a Describe of a statement it is not known yet, and reported as text.
    pub format: Format,
}

impl<'a> FieldDescription<'a> {
    fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            name: cursor.string("field name")?,
            table_oid: cursor.u32("field's table")?,
            column_number: cursor.i16("field's column number")?,
            type_oid: cursor.u32("field's type")?,
            type_bytes: cursor.i16("field's type size")?,
            type_modifier: cursor.i32("field's type modifier")?,
            format: Format::from_code(cursor.i16("field's format")?),
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.string("field name", self.name)?;
        writer.u32(self.table_oid);
        writer.i16(self.column_number);
        writer.u32(self.type_oid);
        writer.i16(self.type_bytes);
        writer.i32(self.type_modifier);
        writer.i16(self.format.code());
        Ok(())
    }
}

/// Columns of the rows that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowDescription<'a> {
    count: u16,
    /// Fields; checked when decoded.
    encoded: &'a [u8],
}

impl<'a> RowDescription<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let count = cursor.u16("field count")?;
        let start = cursor.offset();
        for _ in 0..count {
            FieldDescription::decode(&mut cursor)?;
        }
        let encoded = cursor.since(start);
        cursor.end()?;
        Ok(Self { count, encoded })
    }

    /// Appends the message. A decoded one can always be encoded.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode(self.iter(), out)
    }

    /// Number of columns.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether the rows have no columns.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over the columns in order.
    pub fn iter(&self) -> impl Iterator<Item = FieldDescription<'a>> + Clone + 'a {
        let mut cursor = Cursor::new(NAME, self.encoded);
        // All fields were decoded once, so `ok` never drops an error.
        (0..self.count).map_while(move |_| FieldDescription::decode(&mut cursor).ok())
    }
}

/// Appends a RowDescription message. Fails if a name has a NUL or there are more than 65,535
/// columns.
pub fn encode<'f>(
    fields: impl IntoIterator<Item = FieldDescription<'f>>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut writer = Writer::tagged(NAME, ROW_DESCRIPTION, out);
    writer.counted("fields", fields, |writer, field| field.encode(writer))?;
    writer.finish()
}
