//! PostgreSQL documentation, 54.2.3 Extended Query; 54.7 Message Formats: Bind (F).

use super::tag::BIND;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::format::{Format, Formats, encode_formats};
use crate::values::{Values, encode_values};
use crate::writer::Writer;

const NAME: &str = "Bind";

/// Creates a portal from a prepared statement and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind<'a> {
    /// Name of the portal; empty for the unnamed one.
    pub portal: &'a [u8],
    /// Name of the prepared statement; empty for the unnamed one.
    pub statement: &'a [u8],
    /// Formats of the parameters.
    pub parameter_formats: Formats<'a>,
    /// Parameters in order.
    pub parameters: Values<'a>,
    /// Requested formats of the result's columns.
    pub result_formats: Formats<'a>,
}

impl<'a> Bind<'a> {
    /// Reads a body. The server checks whether there is a format for each parameter.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let message = Self {
            portal: cursor.string("portal")?,
            statement: cursor.string("statement")?,
            parameter_formats: Formats::decode(&mut cursor, "parameter formats")?,
            parameters: Values::decode(&mut cursor, "parameter count", "parameter")?,
            result_formats: Formats::decode(&mut cursor, "result formats")?,
        };
        cursor.end()?;
        Ok(message)
    }

    /// Appends the message. Fails if a name has a NUL.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode(
            self.portal,
            self.statement,
            self.parameter_formats.iter(),
            self.parameters,
            self.result_formats.iter(),
            out,
        )
    }
}

/// Appends a Bind message, the fields in wire order.
///
/// Fails if a name has a NUL, a list more than 65,535 entries, or the message more than 2 GiB.
#[inline]
pub fn encode<V: AsRef<[u8]>>(
    portal: &[u8],
    statement: &[u8],
    parameter_formats: impl IntoIterator<Item = Format>,
    parameters: impl IntoIterator<Item = Option<V>>,
    result_formats: impl IntoIterator<Item = Format>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut writer = Writer::tagged(NAME, BIND, out);
    writer.string("portal", portal)?;
    writer.string("statement", statement)?;
    encode_formats(&mut writer, "parameter formats", parameter_formats)?;
    encode_values(&mut writer, "parameter", parameters)?;
    encode_formats(&mut writer, "result formats", result_formats)?;
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_documentation() {
        let mut out = Vec::new();
        let parameters = [Some(&b"7"[..]), None, Some(b"")];
        encode(
            b"p",
            b"s1",
            [Format::Text],
            parameters,
            [Format::Binary],
            &mut out,
        )
        .unwrap();
        let body = b"p\0s1\0\
            \x00\x01\x00\x00\
            \x00\x03\x00\x00\x00\x017\xff\xff\xff\xff\x00\x00\x00\x00\
            \x00\x01\x00\x01";
        assert_eq!(out[0], b'B');
        assert_eq!(out[1..5], (body.len() as u32 + 4).to_be_bytes());
        assert_eq!(&out[5..], body);

        let bind = Bind::decode(body).unwrap();
        assert_eq!((bind.portal, bind.statement), (&b"p"[..], &b"s1"[..]));
        assert!(bind.parameters.iter().eq(parameters));
        assert_eq!(bind.result_formats.of(5), Some(Format::Binary));
    }

    #[test]
    fn a_parameter_past_the_end_is_truncated_not_null() {
        let body = b"\0\0\0\0\0\x01\0\0\0\x09abc\0\0";
        assert!(matches!(
            Bind::decode(body),
            Err(DecodeError::Truncated {
                needed: 9,
                remaining: 5,
                ..
            })
        ));
    }
}
