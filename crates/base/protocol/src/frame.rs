//! Where messages begin and end: a tag of one byte, then an Int32 length that counts itself but
//! not the tag.
//!
//! For callers that hold the bytes they read in a buffer and take whole messages off its front.
//! [`crate::scanner`] is for those that would rather not hold them. The start-up phase has no
//! tags: [`crate::frontend::startup::next_packet`].
//!
//! PostgreSQL documentation, 54.2 Message Flow and 54.7 Message Formats.

use crate::error::DecodeError;

/// The tag and the length: what precedes every body.
pub const HEADER_BYTES: usize = 5;

/// The length's own bytes, which it counts.
pub(crate) const LENGTH_BYTES: usize = 4;

/// The longest body that a length can announce, in bytes.
pub const BODY_BYTES_MAX: usize = i32::MAX as usize - LENGTH_BYTES;

/// The tag and size of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of message; see [`crate::frontend::tag`] and [`crate::backend::tag`].
    pub tag: u8,
    /// Bytes that follow the header, at most [`BODY_BYTES_MAX`].
    pub body_bytes: usize,
}

impl Header {
    /// Reads a header whose 5 bytes are all there.
    ///
    /// Fails if the length does not even count itself, or announces more than `body_bytes_max`.
    #[inline]
    pub fn decode(bytes: [u8; HEADER_BYTES], body_bytes_max: usize) -> Result<Self, DecodeError> {
        let [tag, length @ ..] = bytes;
        let body_bytes = body_length(Some(tag), length, 0, body_bytes_max)?;
        Ok(Self { tag, body_bytes })
    }

    /// Bytes of the whole message, header and body.
    #[inline]
    pub fn message_bytes(&self) -> usize {
        HEADER_BYTES + self.body_bytes
    }
}

/// One whole message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The kind of message.
    pub tag: u8,
    /// What follows the header.
    pub body: &'a [u8],
}

impl Frame<'_> {
    /// What its header says.
    #[inline]
    pub fn header(&self) -> Header {
        Header {
            tag: self.tag,
            body_bytes: self.body.len(),
        }
    }

    /// Bytes of the whole message: what to take off the buffer's front.
    #[inline]
    pub fn message_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }
}

/// The message at the front of `buffer`, or `None` if it is not all there yet.
///
/// Fails as soon as the header is there and announces a body longer than `body_bytes_max`, so that
/// a corrupt length does not make the caller wait for a gigabyte. The stream is then lost.
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

/// The bytes that follow a length, which counts its own 4.
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

/// The length that a header says for a body, as far as it can.
fn length_of(body_bytes: usize) -> i32 {
    i32::try_from(body_bytes.saturating_add(LENGTH_BYTES)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_whole_or_not_there() {
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
