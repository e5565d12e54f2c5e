//! PostgreSQL documentation, 54.2.8 Canceling Requests in Progress; 54.7 Message Formats:
//! BackendKeyData (B).

use super::tag::KEY_DATA;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;
use crate::{CANCEL_KEY_BYTES_MAX, CANCEL_KEY_BYTES_MIN};
use std::fmt;

const NAME: &str = "BackendKeyData";

/// Process id and key that a client needs to cancel the statement of this connection. `Debug` does not show
/// the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyData<'a> {
    /// Process id of the backend.
    pub process_id: i32,
    /// Secret key: 4 bytes in version 3.0, up to 256 in version 3.2.
    pub secret_key: &'a [u8],
}

impl<'a> KeyData<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        Ok(Self {
            process_id: cursor.i32("process id")?,
            secret_key: decode_key(&mut cursor)?,
        })
    }

    /// Appends the message. Fails if the key has fewer than 4 or more than 256 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged(NAME, KEY_DATA, out);
        writer.i32(self.process_id);
        encode_key(&mut writer, self.secret_key)?;
        writer.finish()
    }
}

impl fmt::Debug for KeyData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyData(process {})", self.process_id)
    }
}

/// Reads a secret key, which is the rest of a body. A key that is too short is truncated; one that is too
/// long has trailing bytes.
pub(crate) fn decode_key<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], DecodeError> {
    let bytes = cursor
        .remaining()
        .clamp(CANCEL_KEY_BYTES_MIN, CANCEL_KEY_BYTES_MAX);
    let key = cursor.bytes(bytes, "secret key")?;
    cursor.end()?;
    Ok(key)
}

/// Writes a secret key.
pub(crate) fn encode_key(writer: &mut Writer<'_>, key: &[u8]) -> Result<(), EncodeError> {
    if !(CANCEL_KEY_BYTES_MIN..=CANCEL_KEY_BYTES_MAX).contains(&key.len()) {
        let length = i64::try_from(key.len()).unwrap_or(i64::MAX);
        return Err(writer.invalid("secret key's length", length));
    }
    writer.bytes(key);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_4_to_256_bytes_are_taken() {
        let body = [7u8; 4 + 257];
        for bytes in 0..=257 {
            let decoded = KeyData::decode(&body[..4 + bytes]);
            let written = KeyData {
                process_id: 1,
                secret_key: &body[..bytes],
            }
            .encode(&mut Vec::new());
            assert_eq!(decoded.is_ok(), (4..=256).contains(&bytes), "{bytes}");
            assert_eq!(written.is_ok(), decoded.is_ok(), "{bytes}");
        }
    }
}
