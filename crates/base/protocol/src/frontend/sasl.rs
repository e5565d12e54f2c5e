//! Client messages of a SASL exchange. The mechanisms are left to other crates.
//!
//! PostgreSQL documentation, 54.3 SASL Authentication; 54.7 Message Formats: SASLInitialResponse and
//! SASLResponse (F).

use super::tag::AUTHENTICATION_REPLY;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;
use std::fmt;

const INITIAL: &str = "SASLInitialResponse";
const RESPONSE: &str = "SASLResponse";

/// Choice of a mechanism with its first message. `Debug` does not show the data, which for OAUTHBEARER is a
/// token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SaslInitialResponse<'a> {
    /// Name of the mechanism, such as `SCRAM-SHA-256`.
    pub mechanism: &'a [u8],
    /// Data of the mechanism; `None` (length −1) if it has no initial response.
    pub data: Option<&'a [u8]>,
}

impl<'a> SaslInitialResponse<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(INITIAL, body);
        let mechanism = cursor.string("mechanism")?;
        let data = cursor.value("initial response")?;
        cursor.end()?;
        Ok(Self { mechanism, data })
    }

    /// Appends the message. Fails if the mechanism has a NUL.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged(INITIAL, AUTHENTICATION_REPLY, out);
        writer.string("mechanism", self.mechanism)?;
        writer.value("initial response", self.data)?;
        writer.finish()
    }
}

/// A later message of the mechanism. `Debug` does not show the data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SaslResponse<'a> {
    /// Data of the mechanism.
    pub data: &'a [u8],
}

impl<'a> SaslResponse<'a> {
    /// Reads a body. Every body is valid.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self { data: body })
    }

    /// Appends the message. Fails if it is longer than 2 GiB.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged(RESPONSE, AUTHENTICATION_REPLY, out);
        writer.bytes(self.data);
        writer.finish()
    }
}

impl fmt::Debug for SaslInitialResponse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mechanism = String::from_utf8_lossy(self.mechanism);
        write!(f, "SaslInitialResponse({mechanism:?})")
    }
}

impl fmt::Debug for SaslResponse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SaslResponse({} bytes)", self.data.len())
    }
}
