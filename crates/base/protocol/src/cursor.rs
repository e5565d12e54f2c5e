//! Reads a message's body field by field, and checks each length before slicing.

use crate::error::{DecodeError, Location};
use std::ffi::CStr;

/// Length of a NULL.
pub(crate) const NULL_LENGTH: i32 = -1;

/// A position in the body of one message.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    message: &'static str,
    body: &'a [u8],
    /// Never greater than `body.len()`.
    offset: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of the body of `message`.
    pub(crate) fn new(message: &'static str, body: &'a [u8]) -> Self {
        Self {
            message,
            body,
            offset: 0,
        }
    }

    /// Returns the offset from the start of the body.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the bytes between an earlier offset and the current one.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        &self.body[start..self.offset]
    }

    fn place(&self, field: &'static str) -> Location {
        Location {
            message: self.message,
            field,
            offset: self.offset,
        }
    }

    /// Returns the number of bytes to the end of the body.
    pub(crate) fn remaining(&self) -> usize {
        self.body.len() - self.offset
    }

    /// Returns the next `length` bytes.
    pub(crate) fn bytes(
        &mut self,
        length: usize,
        field: &'static str,
    ) -> Result<&'a [u8], DecodeError> {
        if length > self.remaining() {
            return Err(DecodeError::Truncated {
                place: self.place(field),
                needed: length,
                remaining: self.remaining(),
            });
        }
        let start = self.offset;
        self.offset += length;
        Ok(&self.body[start..self.offset])
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let bytes = self.bytes(N, field)?;
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        Ok(array)
    }

    /// Byte1.
    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(field)?[0])
    }

    /// Int16, signed.
    pub(crate) fn i16(&mut self, field: &'static str) -> Result<i16, DecodeError> {
        Ok(i16::from_be_bytes(self.array(field)?))
    }

    /// Int16, as PostgreSQL reads counts: up to 65,535.
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array(field)?))
    }

    /// Int32, signed.
    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        Ok(i32::from_be_bytes(self.array(field)?))
    }

    /// Int32, unsigned, for OIDs and versions.
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array(field)?))
    }

    /// String: the bytes up to a NUL, without it.
    pub(crate) fn string(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let rest = &self.body[self.offset..];
        // CStr uses the standard library's fast search for a NUL.
        match CStr::from_bytes_until_nul(rest) {
            Ok(text) => {
                let text = text.to_bytes();
                self.offset += text.len() + 1;
                Ok(text)
            }
            Err(_) => Err(DecodeError::Unterminated {
                place: self.place(field),
                remaining: rest.len(),
            }),
        }
    }

    /// An Int32 length and that number of bytes; −1 is NULL, any other negative length an error.
    pub(crate) fn value(&mut self, field: &'static str) -> Result<Option<&'a [u8]>, DecodeError> {
        let place = self.place(field);
        let found = self.i32(field)?;
        if found == NULL_LENGTH {
            return Ok(None);
        }
        match usize::try_from(found) {
            Ok(length) => self.bytes(length, field).map(Some),
            Err(_) => Err(DecodeError::InvalidLength { place, found }),
        }
    }

    /// Returns all bytes to the end of the body.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let start = self.offset;
        self.offset = self.body.len();
        &self.body[start..]
    }

    /// Returns the error for a field of `width` bytes that was just read and has an undefined value.
    pub(crate) fn invalid(
        &self,
        field: &'static str,
        width: usize,
        found: impl Into<i64>,
    ) -> DecodeError {
        DecodeError::InvalidValue {
            place: Location {
                message: self.message,
                field,
                offset: self.offset.saturating_sub(width),
            },
            found: found.into(),
        }
    }

    /// Returns an error unless the body ends here.
    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            remaining => Err(DecodeError::TrailingBytes {
                place: self.place("end"),
                remaining,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_distinguishes_null_from_a_corrupt_length() {
        let null = (-1i32).to_be_bytes();
        assert_eq!(Cursor::new("m", &null).value("v"), Ok(None));
        let corrupt = (-2i32).to_be_bytes();
        let place = Location {
            message: "m",
            field: "v",
            offset: 0,
        };
        assert_eq!(
            Cursor::new("m", &corrupt).value("v"),
            Err(DecodeError::InvalidLength { place, found: -2 })
        );
        let long = i32::MAX.to_be_bytes();
        assert!(matches!(
            Cursor::new("m", &long).value("v"),
            Err(DecodeError::Truncated { remaining: 0, .. })
        ));
    }

    #[test]
    fn a_string_ends_at_its_nul() {
        let mut cursor = Cursor::new("m", b"ab\0c");
        assert_eq!(cursor.string("first"), Ok(&b"ab"[..]));
        assert_eq!(cursor.offset(), 3);
        assert!(matches!(
            cursor.string("second"),
            Err(DecodeError::Unterminated { remaining: 1, .. })
        ));
    }
}
