//! PostgreSQL documentation, 54.7 Message Formats: PasswordMessage (F).

use super::tag::AUTHENTICATION_REPLY;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;
use std::fmt;

const NAME: &str = "PasswordMessage";

/// A password, in clear text or hashed as the server requested. `Debug` does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PasswordMessage<'a> {
    /// Password, without NUL.
    pub password: &'a [u8],
}

impl<'a> PasswordMessage<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let password = cursor.string("password")?;
        cursor.end()?;
        Ok(Self { password })
    }

    /// Appends the message. Fails if the password has a NUL.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged(NAME, AUTHENTICATION_REPLY, out);
        writer.string("password", self.password)?;
        writer.finish()
    }
}

impl fmt::Debug for PasswordMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordMessage(not shown)")
    }
}
