//! PostgreSQL documentation, 54.7 Message Formats: ParameterDescription (B).

use super::tag::PARAMETER_DESCRIPTION;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::oids::{Oids, encode_oids};
use crate::writer::Writer;

const NAME: &str = "ParameterDescription";

/// Types of a prepared statement's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterDescription<'a> {
    /// One type for each parameter.
    pub types: Oids<'a>,
}

impl<'a> ParameterDescription<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let types = Oids::decode(&mut cursor, "types")?;
        cursor.end()?;
        Ok(Self { types })
    }

    /// Appends the message. A decoded one can always be encoded.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode(self.types.iter(), out)
    }
}

/// Appends a ParameterDescription message. Fails if there are more than 65,535 types.
pub fn encode(types: impl IntoIterator<Item = u32>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let mut writer = Writer::tagged(NAME, PARAMETER_DESCRIPTION, out);
    encode_oids(&mut writer, "types", types)?;
    writer.finish()
}
