//! The four messages with the tag `p`, of which the bytes do not say which one they are.
//!
//! The server's last authentication request does. A reader that follows both directions calls the
//! method for it; one that does not can still pass the message on.
//!
//! PostgreSQL documentation, 54.7 Message Formats: PasswordMessage, SASLInitialResponse,
//! SASLResponse and GSSResponse (F).

use super::tag::AUTHENTICATION_REPLY;
use super::{GssResponse, PasswordMessage, SaslInitialResponse, SaslResponse};
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;
use std::fmt;

/// A client's answer to an authentication request. Its `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuthenticationReply<'a> {
    /// The whole body. May be a password.
    pub body: &'a [u8],
}

impl<'a> AuthenticationReply<'a> {
    /// Takes a body as it is. Every body is valid until one asks which message it is.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self { body })
    }

    /// The message, if AuthenticationCleartextPassword or AuthenticationMD5Password was asked.
    pub fn password(&self) -> Result<PasswordMessage<'a>, DecodeError> {
        PasswordMessage::decode(self.body)
    }

    /// The message, if AuthenticationSASL was asked.
    pub fn sasl_initial_response(&self) -> Result<SaslInitialResponse<'a>, DecodeError> {
        SaslInitialResponse::decode(self.body)
    }

    /// The message, if AuthenticationSASLContinue was asked.
    pub fn sasl_response(&self) -> Result<SaslResponse<'a>, DecodeError> {
        SaslResponse::decode(self.body)
    }

    /// The message, if AuthenticationGSS, AuthenticationSSPI or AuthenticationGSSContinue was
    /// asked.
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
