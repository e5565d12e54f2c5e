//! PostgreSQL documentation, 54.7 Message Formats: GSSResponse (F).

use super::tag::AUTHENTICATION_REPLY;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;
use std::fmt;

/// A message of a GSSAPI or SSPI exchange. `Debug` does not show the data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GssResponse<'a> {
    /// Data of the mechanism.
    pub data: &'a [u8],
}

impl<'a> GssResponse<'a> {
    /// Reads a body. Every body is valid.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self { data: body })
    }

    /// Appends the message. Fails if it is longer than 2 GiB.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged("GSSResponse", AUTHENTICATION_REPLY, out);
        writer.bytes(self.data);
        writer.finish()
    }
}

impl fmt::Debug for GssResponse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GssResponse({} bytes)", self.data.len())
    }
}
