//! PostgreSQL documentation, 54.2.3 Extended Query; 54.7 Message Formats: Describe (F).

use super::Target;
use super::tag::DESCRIBE;
use crate::error::{DecodeError, EncodeError};

const NAME: &str = "Describe";

/// Requests the description of a prepared statement (ParameterDescription, then RowDescription or NoData) or
/// of a portal (RowDescription or NoData).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Describe<'a> {
    /// Object to describe.
    pub target: Target<'a>,
}

impl<'a> Describe<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            target: Target::decode(NAME, body)?,
        })
    }

    /// Appends the message. Fails if the name has a NUL.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.target.encode(NAME, DESCRIBE, out)
    }
}
