//! Boundaries of messages: a tag of one byte, then an Int32 length that includes itself but not the tag.
//!
//! It serves callers that buffer the bytes they read and take complete messages from the front.
//! [`crate::scanner`] is for callers that do not buffer them. The start-up phase has no tags:
//! [`crate::frontend::startup::next_packet`].
//!
//! PostgreSQL documentation, 54.2 Message Flow and 54.7 Message Formats.

use crate::error::DecodeError;

/// Bytes of a header: the tag and the length.
pub const HEADER_BYTES: usize = 5;

/// Bytes of a length, which it includes.
pub(crate) const LENGTH_BYTES: usize = 4;

/// Maximum bytes of a body.
pub const BODY_BYTES_MAX: usize = i32::MAX as usize - LENGTH_BYTES;

/// Tag and size of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Tag; see [`crate::frontend::tag`] and [`crate::backend::tag`].
    pub tag: u8,
    /// Number of bytes after the header, at most [`BODY_BYTES_MAX`].
    pub body_bytes: usize,
}

impl Header {
    /// Decodes a complete header of 5 bytes.
    ///
    /// Fails if the length is less than its own size, or the body is longer than `body_bytes_max`.
    #[inline]
    pub fn decode(bytes: [u8; HEADER_BYTES], body_bytes_max: usize) -> Result<Self, DecodeError> {
        let [tag, length @ ..] = bytes;
        let body_bytes = body_length(Some(tag), length, 0, body_bytes_max)?;
        Ok(Self { tag, body_bytes })
    }

    /// Returns the bytes of the message with its header.
    #[inline]
    pub fn message_bytes(&self) -> usize {
        HEADER_BYTES + self.body_bytes
    }
}

/// A complete message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Tag.
    pub tag: u8,
    /// Bytes after the header.
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// Returns the header.
    #[inline]
    pub fn header(&self) -> Header {
        Header {
            tag: self.tag,
            body_bytes: self.body.len(),
        }
    }

    /// Returns the bytes of the message with its header, which the caller removes from the buffer.
    #[inline]
    pub fn message_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }
}

/// Returns the message at the front of `buffer`, or `None` if it is incomplete.
///
/// Fails as soon as a header announces a body longer than `body_bytes_max`, so that a corrupt length does not
/// make the caller wait for a gigabyte. The stream cannot be followed further.
#[inline]
pub fn next_frame(buffer: &[u8], body_bytes_max: usize) -> Result<Option<Frame<'_>>, DecodeError> {
    let Some((header, rest)) = buffer.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(None);
    };
    let header = Header::decode(*header, body_bytes_max)?;
    Ok(rest.get(..header.body_bytes).map(|body| Frame {
        tag: header.tag,
        body,
    }))
}

/// Returns the number of bytes that follow a length, which includes its own 4 bytes.
#[inline]
pub(crate) fn body_length(
    tag: Option<u8>,
    length: [u8; LENGTH_BYTES],
    body_bytes_min: usize,
    body_bytes_max: usize,
) -> Result<usize, DecodeError> {
    let found = i32::from_be_bytes(length);
    match usize::try_from(found)
        .ok()
        .and_then(|length| length.checked_sub(LENGTH_BYTES))
    {
        Some(bytes) if (body_bytes_min..=body_bytes_max).contains(&bytes) => Ok(bytes),
        _ => Err(DecodeError::FrameLength {
            tag,
            found,
            min: length_of(body_bytes_min),
            max: length_of(body_bytes_max),
        }),
    }
}

/// Returns the length in the header for a body, saturating.
fn length_of(body_bytes: usize) -> i32 {
    i32::try_from(body_bytes.saturating_add(LENGTH_BYTES)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_frame_is_none() {
        let buffer = b"Z\0\0\0\x05IZ\0\0\0\x05T";
        for length in 0..6 {
            assert_eq!(next_frame(&buffer[..length], 100), Ok(None));
        }
        for length in 6..buffer.len() {
            let frame = next_frame(&buffer[..length], 100).unwrap().unwrap();
            assert_eq!((frame.tag, frame.body), (b'Z', &b"I"[..]));
            assert_eq!(frame.message_bytes(), 6);
        }
    }

    #[test]
    fn a_length_is_at_least_its_own_and_at_most_the_callers() {
        for found in [i32::MIN, -1, 0, 3, 15, i32::MAX] {
            let mut header = [b'D', 0, 0, 0, 0];
            header[1..].copy_from_slice(&found.to_be_bytes());
            assert_eq!(
                next_frame(&header, 10),
                Err(DecodeError::FrameLength {
                    tag: Some(b'D'),
                    found,
                    min: 4,
                    max: 14
                })
            );
        }
        assert_eq!(next_frame(b"D\0\0\0\x0e", 10), Ok(None));
        assert_eq!(next_frame(b"D\x7f\xff\xff\xff", BODY_BYTES_MAX), Ok(None));
    }
}
