//! PostgreSQL documentation, 54.2.1 Start-up; 54.7 Message Formats: NegotiateProtocolVersion (B).

use super::tag::NEGOTIATE_PROTOCOL_VERSION;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;

const NAME: &str = "NegotiateProtocolVersion";

/// The server does not support the requested minor version or an option (`_pq_.`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NegotiateProtocolVersion<'a> {
    /// Newest version of the protocol that the server supports. The documentation describes it as the minor
    /// version; servers send the full version, such as [`crate::PROTOCOL_3_0`].
    pub version: u32,
    /// Options that the server does not support.
    pub options: Options<'a>,
}

impl<'a> NegotiateProtocolVersion<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let version = cursor.u32("version")?;
        let count = cursor.i32("option count")?;
        let Ok(options) = u32::try_from(count) else {
            return Err(cursor.invalid("option count", 4, count));
        };
        let start = cursor.offset();
        // A count of billions ends with the body.
        for _ in 0..options {
            cursor.string("option")?;
        }
        let encoded = cursor.since(start);
        cursor.end()?;
        Ok(Self {
            version,
            options: Options { count, encoded },
        })
    }

    /// Appends the message. Fails if it is longer than 2 GiB.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged(NAME, NEGOTIATE_PROTOCOL_VERSION, out);
        writer.u32(self.version);
        writer.i32(self.options.count);
        writer.bytes(self.options.encoded);
        writer.finish()
    }
}

/// Names of options in a NegotiateProtocolVersion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'a> {
    /// Never negative.
    count: i32,
    /// This number of strings; checked when decoded.
    encoded: &'a [u8],
}

impl<'a> Options<'a> {
    /// Iterates over the names in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + 'a {
        // The text after the last NUL is empty.
        let count = usize::try_from(self.count).unwrap_or(0);
        self.encoded.split(|&byte| byte == 0).take(count)
    }
}

/// Appends a NegotiateProtocolVersion message. Fails if an option has a NUL.
pub fn encode(version: u32, options: &[&[u8]], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut writer = Writer::tagged(NAME, NEGOTIATE_PROTOCOL_VERSION, out);
    writer.u32(version);
    let count = i32::try_from(options.len()).map_err(|_| EncodeError::TooMany {
        message: NAME,
        field: "options",
    })?;
    writer.i32(count);
    for option in options {
        writer.string("option", option)?;
    }
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_as_many_as_counted() {
        let mut out = Vec::new();
        let names: [&[u8]; 2] = [b"_pq_.a", b""];
        encode(crate::PROTOCOL_3_0, &names, &mut out).unwrap();
        let message = NegotiateProtocolVersion::decode(&out[5..]).unwrap();
        assert_eq!(message.version, crate::PROTOCOL_3_0);
        assert!(message.options.iter().eq(names));
    }

    #[test]
    fn a_count_is_not_taken_on_trust() {
        let negative = b"\0\x03\0\0\xff\xff\xff\xff";
        assert!(matches!(
            NegotiateProtocolVersion::decode(negative),
            Err(DecodeError::InvalidValue { found: -1, .. })
        ));
        let huge = b"\0\x03\0\0\x7f\xff\xff\xffa\0";
        assert!(matches!(
            NegotiateProtocolVersion::decode(huge),
            Err(DecodeError::Unterminated { remaining: 0, .. })
        ));
    }
}
