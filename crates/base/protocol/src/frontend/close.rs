//! PostgreSQL documentation, 54.2.3 Extended Query; 54.7 Message Formats: Close (F).

use super::Target;
use super::tag::CLOSE;
use crate::error::{DecodeError, EncodeError};

const NAME: &str = "Close";

/// Closes a prepared statement with all its portals, or a portal. A name that does not exist is not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// Object to close.
    pub target: Target<'a>,
}

impl<'a> Close<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            target: Target::decode(NAME, body)?,
        })
    }

    /// Appends the message. Fails if the name has a NUL.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.target.encode(NAME, CLOSE, out)
    }
}
