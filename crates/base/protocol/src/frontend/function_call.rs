//! The fast-path interface for functions, which libpq's large objects still use.
//!
//! PostgreSQL documentation, 54.2.5 Function Call; 54.7 Message Formats: FunctionCall (F).

use super::tag::FUNCTION_CALL;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::format::{Format, Formats, encode_formats};
use crate::values::{Values, encode_values};
use crate::writer::Writer;

const NAME: &str = "FunctionCall";

/// Calls a function by its OID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionCall<'a> {
    /// OID of the function.
    pub function: u32,
    /// Formats of the arguments.
    pub argument_formats: Formats<'a>,
    /// Arguments in order.
    pub arguments: Values<'a>,
    /// Requested format of the result.
    pub result_format: Format,
}

impl<'a> FunctionCall<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let message = Self {
            function: cursor.u32("function")?,
            argument_formats: Formats::decode(&mut cursor, "argument formats")?,
            arguments: Values::decode(&mut cursor, "argument count", "argument")?,
            result_format: Format::from_code(cursor.i16("result format")?),
        };
        cursor.end()?;
        Ok(message)
    }

    /// Appends the message. Fails if it is longer than 2 GiB.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode(
            self.function,
            self.argument_formats.iter(),
            self.arguments,
            self.result_format,
            out,
        )
    }
}

/// Appends a FunctionCall message, the fields in wire order.
///
/// Fails if a list has more than 65,535 entries or the message more than 2 GiB.
pub fn encode<V: AsRef<[u8]>>(
    function: u32,
    argument_formats: impl IntoIterator<Item = Format>,
    arguments: impl IntoIterator<Item = Option<V>>,
    result_format: Format,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut writer = Writer::tagged(NAME, FUNCTION_CALL, out);
    writer.u32(function);
    encode_formats(&mut writer, "argument formats", argument_formats)?;
    encode_values(&mut writer, "argument", arguments)?;
    writer.i16(result_format.code());
    writer.finish()
}
