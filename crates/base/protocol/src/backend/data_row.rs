//! PostgreSQL documentation, 54.7 Message Formats: DataRow (B).

use super::tag::DATA_ROW;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::values::{Values, encode_values};
use crate::writer::Writer;

const NAME: &str = "DataRow";

/// One row of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRow<'a> {
    /// Columns in order, in the formats of the RowDescription.
    pub columns: Values<'a>,
}

impl<'a> DataRow<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let columns = Values::decode(&mut cursor, "column count", "column")?;
        cursor.end()?;
        Ok(Self { columns })
    }

    /// Appends the message. Fails if it is longer than 2 GiB.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode(self.columns, out)
    }
}

/// Appends a DataRow message.
///
/// Fails if there are more than 65,535 columns or the message is longer than 2 GiB.
pub fn encode<V: AsRef<[u8]>>(
    columns: impl IntoIterator<Item = Option<V>>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut writer = Writer::tagged(NAME, DATA_ROW, out);
    encode_values(&mut writer, "column", columns)?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_empty_are_two_things() {
        let row = DataRow::decode(b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0").unwrap();
        assert_eq!(row.columns.len(), 3);
        assert!(row.columns.iter().eq([Some(&b"ab"[..]), None, Some(b"")]));
    }

    #[test]
    fn a_negative_length_that_is_not_null_is_corrupt() {
        let error = DataRow::decode(b"\0\x01\xff\xff\xff\xfe").unwrap_err();
        assert!(matches!(
            error,
            DecodeError::InvalidLength { found: -2, .. }
        ));
        assert_eq!(error.to_string(), "DataRow: column at byte 2 is -2");
    }
}
