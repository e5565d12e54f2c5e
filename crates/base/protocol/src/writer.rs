//! Appends one message to a buffer, completely or not at all.

use crate::cursor::NULL_LENGTH;
use crate::error::EncodeError;

/// A message that is being appended. If it is dropped before [`Writer::finish`], the buffer is restored.
pub(crate) struct Writer<'o> {
    message: &'static str,
    out: &'o mut Vec<u8>,
    start: usize,
    /// Offset of the message's length.
    length_at: usize,
    finished: bool,
}

impl<'o> Writer<'o> {
    /// Starts a message with a tag.
    pub(crate) fn tagged(message: &'static str, tag: u8, out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[tag, 0, 0, 0, 0]);
        Self {
            message,
            out,
            start,
            length_at: start + 1,
            finished: false,
        }
    }

    /// Starts a packet of the start-up phase, which has no tag.
    pub(crate) fn untagged(message: &'static str, out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        Self {
            message,
            out,
            start,
            length_at: start,
            finished: false,
        }
    }

    /// Byte1.
    pub(crate) fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    /// Int16.
    pub(crate) fn i16(&mut self, value: i16) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Int16, unsigned.
    pub(crate) fn u16(&mut self, value: u16) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Int32.
    pub(crate) fn i32(&mut self, value: i32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Int32, unsigned.
    pub(crate) fn u32(&mut self, value: u32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    /// Bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// String: bytes without NUL, followed by a NUL.
    pub(crate) fn string(&mut self, field: &'static str, text: &[u8]) -> Result<(), EncodeError> {
        // `contains` is the standard library's fast search. The position is only needed for an error.
        if text.contains(&0) {
            return Err(EncodeError::NulInString {
                message: self.message,
                field,
                offset: text.iter().take_while(|&&byte| byte != 0).count(),
            });
        }
        self.out.extend_from_slice(text);
        self.out.push(0);
        Ok(())
    }

    /// An Int32 length and that number of bytes, or −1 for NULL.
    pub(crate) fn value(
        &mut self,
        field: &'static str,
        value: Option<&[u8]>,
    ) -> Result<(), EncodeError> {
        match value {
            None => self.i32(NULL_LENGTH),
            Some(bytes) => {
                let length = i32::try_from(bytes.len()).map_err(|_| EncodeError::TooLong {
                    message: self.message,
                    field,
                    bytes: bytes.len(),
                })?;
                self.i32(length);
                self.bytes(bytes);
            }
        }
        Ok(())
    }

    /// An Int16 count and that number of items. The count is set afterwards, so the length of `items` need
    /// not be known.
    pub(crate) fn counted<T>(
        &mut self,
        field: &'static str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let count_at = self.out.len();
        self.u16(0);
        let mut count: u16 = 0;
        for item in items {
            count = count.checked_add(1).ok_or(EncodeError::TooMany {
                message: self.message,
                field,
            })?;
            write(self, item)?;
        }
        self.out[count_at..count_at + 2].copy_from_slice(&count.to_be_bytes());
        Ok(())
    }

    /// Returns the error for a field with an invalid value.
    pub(crate) fn invalid(&self, field: &'static str, found: impl Into<i64>) -> EncodeError {
        EncodeError::InvalidValue {
            message: self.message,
            field,
            found: found.into(),
        }
    }

    /// Sets the message's length.
    pub(crate) fn finish(mut self) -> Result<(), EncodeError> {
        let bytes = self.out.len() - self.length_at;
        let length = i32::try_from(bytes).map_err(|_| EncodeError::TooLong {
            message: self.message,
            field: "message",
            bytes,
        })?;
        self.fill_length(length);
        Ok(())
    }

    /// Sets the length of a message that is known to be small.
    pub(crate) fn finish_small(mut self) {
        let bytes = self.out.len() - self.length_at;
        self.fill_length(i32::try_from(bytes).expect("a message of fixed size is small"));
    }

    fn fill_length(&mut self, length: i32) {
        self.out[self.length_at..self.length_at + 4].copy_from_slice(&length.to_be_bytes());
        self.finished = true;
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.out.truncate(self.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_cannot_be_written_leaves_nothing() {
        let mut out = b"before".to_vec();
        let mut writer = Writer::tagged("Query", b'Q', &mut out);
        let error = writer.string("query", b"SELECT\x001");
        assert_eq!(
            error,
            Err(EncodeError::NulInString {
                message: "Query",
                field: "query",
                offset: 6
            })
        );
        drop(writer);
        assert_eq!(out, b"before");
    }

    #[test]
    fn a_list_longer_than_its_count_is_refused() {
        let mut out = Vec::new();
        let mut writer = Writer::tagged("Bind", b'B', &mut out);
        let write = |writer: &mut Writer<'_>, format| {
            writer.i16(format);
            Ok(())
        };
        assert!(
            writer
                .counted("formats", (0..65_535).map(|_| 0i16), write)
                .is_ok()
        );
        assert_eq!(
            writer.counted("formats", (0..65_536).map(|_| 0i16), write),
            Err(EncodeError::TooMany {
                message: "Bind",
                field: "formats"
            })
        );
    }
}
