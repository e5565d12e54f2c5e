//! PostgreSQL documentation, 54.2.5 Function Call; 54.7 Message Formats: FunctionCallResponse (B).

use super::tag::FUNCTION_CALL_RESPONSE;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;

const NAME: &str = "FunctionCallResponse";

/// Result of a FunctionCall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionCallResponse<'a> {
    /// Result in the requested format; `None` is NULL.
    pub result: Option<&'a [u8]>,
}

impl<'a> FunctionCallResponse<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let result = cursor.value("result")?;
        cursor.end()?;
        Ok(Self { result })
    }

    /// Appends the message. Fails if it is longer than 2 GiB.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::tagged(NAME, FUNCTION_CALL_RESPONSE, out);
        writer.value("result", self.result)?;
        writer.finish()
    }
}
