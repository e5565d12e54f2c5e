//! The four messages with the tag `p`, which cannot be distinguished by their bytes.
//!
//! The server's last authentication request determines the message. A reader that follows both directions
//! calls the method for it. Another reader can still forward the message.
//!
//! PostgreSQL documentation, 54.7 Message Formats: PasswordMessage, SASLInitialResponse, SASLResponse and
//! GSSResponse (F).

use super::tag::AUTHENTICATION_REPLY;
use super::{GssResponse, PasswordMessage, SaslInitialResponse, SaslResponse};
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;
use std::fmt;

/// Response of a client to an authentication request. `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuthenticationReply<'a> {
    /// Complete body. May be a password.
    pub body: &'a [u8],
}

impl<'a> AuthenticationReply<'a> {
    /// Wraps a body. Every body is valid until it is decoded as a specific message.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self { body })
    }

    /// Decodes the response to AuthenticationCleartextPassword or AuthenticationMD5Password.
    pub fn password(&self) -> Result<PasswordMessage<'a>, DecodeError> {
        PasswordMessage::decode(self.body)
    }

    /// Decodes the response to AuthenticationSASL.
    pub fn sasl_initial_response(&self) -> Result<SaslInitialResponse<'a>, DecodeError> {
        SaslInitialResponse::decode(self.body)
    }

    /// Decodes the response to AuthenticationSASLContinue.
    pub fn sasl_response(&self) -> Result<SaslResponse<'a>, DecodeError> {
        SaslResponse::decode(self.body)
    }

    /// Decodes the response to AuthenticationGSS, AuthenticationSSPI or AuthenticationGSSContinue.
    pub fn gss_response(&self) -> Result<GssResponse<'a>, DecodeError> {
        GssResponse::decode(self.body)
    }

    /// Appends the message. Fails if it is longer than 2 GiB.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged("AuthenticationReply", AUTHENTICATION_REPLY, out);
        writer.bytes(self.body);
        writer.finish()
    }
}

impl fmt::Debug for AuthenticationReply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuthenticationReply({} bytes)", self.body.len())
    }
}
