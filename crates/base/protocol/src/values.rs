//! Lists of values that may be NULL: parameters of Bind, columns of DataRow, arguments of FunctionCall.

use crate::cursor::{Cursor, NULL_LENGTH};
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;

/// Values in a message: an Int16 count and, for each, an Int32 length (−1 for NULL) and that number of bytes.
/// All lengths were checked when the message was decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values<'a> {
    count: u16,
    /// Lengths and values, without the count.
    encoded: &'a [u8],
}

impl<'a> Values<'a> {
    pub(crate) fn decode(
        cursor: &mut Cursor<'a>,
        count_field: &'static str,
        value_field: &'static str,
    ) -> Result<Self, DecodeError> {
        let count = cursor.u16(count_field)?;
        let start = cursor.offset();
        for _ in 0..count {
            cursor.value(value_field)?;
        }
        Ok(Self {
            count,
            encoded: cursor.since(start),
        })
    }

    /// Number of values, including NULLs.
    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Iterates over the values in order. `None` is NULL, which differs from an empty value.
    pub fn iter(&self) -> ValuesIter<'a> {
        ValuesIter {
            left: self.count,
            encoded: self.encoded,
        }
    }
}

impl<'a> IntoIterator for Values<'a> {
    type Item = Option<&'a [u8]>;
    type IntoIter = ValuesIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Iterator over [`Values`] without allocations.
#[derive(Clone, Debug)]
pub struct ValuesIter<'a> {
    left: u16,
    encoded: &'a [u8],
}

impl<'a> Iterator for ValuesIter<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        // The lengths were checked: neither branch of `?` below is ever taken.
        let (length, rest) = self.encoded.split_first_chunk::<4>()?;
        let length = i32::from_be_bytes(*length);
        if length == NULL_LENGTH {
            self.encoded = rest;
            return Some(None);
        }
        let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.encoded = rest;
        Some(Some(value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::from(self.left);
        (left, Some(left))
    }
}

impl ExactSizeIterator for ValuesIter<'_> {}

/// Writes a list of values.
pub(crate) fn encode_values<V: AsRef<[u8]>>(
    writer: &mut Writer<'_>,
    field: &'static str,
    values: impl IntoIterator<Item = Option<V>>,
) -> Result<(), EncodeError> {
    writer.counted(field, values, |writer, value| {
        writer.value(field, value.as_ref().map(AsRef::as_ref))
    })
}
