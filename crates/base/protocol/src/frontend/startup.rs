//! Packets that a client sends before messages have tags: a length, and then a code or a version.
//!
//! A client may first request encryption (once each for TLS and GSSAPI), to which the server responds with
//! one byte, [`crate::backend::EncryptionReply`]. Then it sends a StartupMessage, or a CancelRequest and
//! nothing more. Since PostgreSQL 17 it may also begin with a TLS handshake directly, whose first byte is
//! [`TLS_HANDSHAKE`]; [`next_packet`] rejects it as an invalid length.
//!
//! PostgreSQL documentation, 54.2.1 Start-up, 54.2.10 SSL Session Encryption; 54.7 Message Formats:
//! StartupMessage, SSLRequest, GSSENCRequest and CancelRequest (F).

use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::frame::{LENGTH_BYTES, body_length};
use crate::writer::Writer;

use std::fmt;

/// Code of a CancelRequest, at the position of a version.
pub const CANCEL_REQUEST_CODE: u32 = 80_877_102;

/// Code of an SSLRequest.
pub const SSL_REQUEST_CODE: u32 = 80_877_103;

/// Code of a GSSENCRequest.
pub const GSSENC_REQUEST_CODE: u32 = 80_877_104;

/// First byte of a TLS handshake record. No packet of this phase begins with it.
pub const TLS_HANDSHAKE: u8 = 0x16;

/// Maximum bytes of the body of a start-up packet that PostgreSQL accepts (`MAX_STARTUP_PACKET_LENGTH`).
pub const PACKET_BYTES_MAX: usize = 10_000;

/// Major version of the protocol that this crate supports.
const MAJOR_VERSION: u32 = 3;

/// One packet of the start-up phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupPacket<'a> {
    /// Requests TLS.
    SslRequest,
    /// Requests GSSAPI encryption.
    GssEncRequest,
    /// Requests to cancel the statement of another connection.
    Cancel(CancelRequest<'a>),
    /// Begins a session.
    Startup(StartupMessage<'a>),
}

impl<'a> StartupPacket<'a> {
    /// Reads a body, which follows the packet's length.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new("start-up packet", body);
        match cursor.u32("version or code")? {
            SSL_REQUEST_CODE => {
                cursor.end()?;
                Ok(Self::SslRequest)
            }
            GSSENC_REQUEST_CODE => {
                cursor.end()?;
                Ok(Self::GssEncRequest)
            }
            CANCEL_REQUEST_CODE => CancelRequest::decode(body).map(Self::Cancel),
            version if version >> 16 == MAJOR_VERSION => {
                StartupMessage::decode(body).map(Self::Startup)
            }
            found => Err(cursor.invalid("version or code", 4, found)),
        }
    }

    /// Appends the packet, length and body. Fails if a field that the caller set cannot be encoded.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let code = match self {
            Self::SslRequest => SSL_REQUEST_CODE,
            Self::GssEncRequest => GSSENC_REQUEST_CODE,
            Self::Cancel(cancel) => return cancel.encode(out),
            Self::Startup(startup) => return startup.encode(out),
        };
        let mut writer = Writer::untagged("start-up packet", out);
        writer.u32(code);
        writer.finish()
    }
}

/// Returns the packet at the front of `buffer` with its number of bytes; `None` if it is incomplete.
///
/// Fails if the length is invalid or the body longer than [`PACKET_BYTES_MAX`].
pub fn next_packet(buffer: &[u8]) -> Result<Option<(StartupPacket<'_>, usize)>, DecodeError> {
    let Some((length, rest)) = buffer.split_first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    // The version or code is always present.
    let body_bytes = body_length(None, *length, 4, PACKET_BYTES_MAX)?;
    let Some(body) = rest.get(..body_bytes) else {
        return Ok(None);
    };
    let packet = StartupPacket::decode(body)?;
    Ok(Some((packet, LENGTH_BYTES + body_bytes)))
}

const CANCEL: &str = "CancelRequest";

/// Requests to cancel the statement of another connection. There is no response. `Debug` does not show the
/// key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CancelRequest<'a> {
    /// Process id from that connection's BackendKeyData.
    pub process_id: i32,
    /// Secret key from it: 4 bytes in version 3.0, up to 256 in version 3.2.
    pub secret_key: &'a [u8],
}

impl<'a> CancelRequest<'a> {
    /// Reads a body, which begins with the code.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(CANCEL, body);
        let code = cursor.u32("code")?;
        if code != CANCEL_REQUEST_CODE {
            return Err(cursor.invalid("code", 4, code));
        }
        let process_id = cursor.i32("process id")?;
        let secret_key = crate::backend::key_data::decode_key(&mut cursor)?;
        Ok(Self {
            process_id,
            secret_key,
        })
    }

    /// Appends the packet. Fails if the key has fewer than 4 or more than 256 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut writer = Writer::untagged(CANCEL, out);
        writer.u32(CANCEL_REQUEST_CODE);
        writer.i32(self.process_id);
        crate::backend::key_data::encode_key(&mut writer, self.secret_key)?;
        writer.finish()
    }
}

impl fmt::Debug for CancelRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CancelRequest(process {})", self.process_id)
    }
}

const STARTUP: &str = "StartupMessage";

/// Begins a session, with user, database and settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartupMessage<'a> {
    /// Version of the protocol, such as [`crate::PROTOCOL_3_0`].
    pub version: u32,
    /// Parameters.
    pub parameters: StartupParameters<'a>,
}

impl<'a> StartupMessage<'a> {
    /// Reads a body, which begins with the version.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(STARTUP, body);
        let version = cursor.u32("version")?;
        if version >> 16 != MAJOR_VERSION {
            return Err(cursor.invalid("version", 4, version));
        }
        let start = cursor.offset();
        while !cursor.string("parameter name")?.is_empty() {
            cursor.string("parameter value")?;
        }
        let parameters = StartupParameters {
            encoded: cursor.since(start),
        };
        cursor.end()?;
        Ok(Self {
            version,
            parameters,
        })
    }

    /// Appends the packet. Fails if the version is not 3.x.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        encode(self.version, self.parameters.iter(), out)
    }
}

/// Appends a StartupMessage.
///
/// Fails if the version is not 3.x, a name is empty (which ends the list), or a string has a NUL.
pub fn encode<'p>(
    version: u32,
    parameters: impl IntoIterator<Item = (&'p [u8], &'p [u8])>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut writer = Writer::untagged(STARTUP, out);
    if version >> 16 != MAJOR_VERSION {
        return Err(writer.invalid("version", version));
    }
    writer.u32(version);
    for (name, value) in parameters {
        if name.is_empty() {
            return Err(writer.invalid("parameter name's length", 0));
        }
        writer.string("parameter name", name)?;
        writer.string("parameter value", value)?;
    }
    writer.u8(0);
    writer.finish()
}

/// Names and values of a StartupMessage, such as `user`, `database`, `application_name`, and `_pq_.` options
/// of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartupParameters<'a> {
    /// Strings in pairs, then an empty name; checked when decoded.
    encoded: &'a [u8],
}

impl<'a> StartupParameters<'a> {
    /// Iterates over names and values in order, without NUL.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone + 'a {
        // The text after the last NUL is empty.
        let mut strings = self.encoded.split(|&byte| byte == 0);
        std::iter::from_fn(move || {
            let name = strings.next().filter(|name| !name.is_empty())?;
            Some((name, strings.next()?))
        })
    }

    /// Returns the value of a parameter; the last one if it is given twice, as the server does.
    pub fn get(&self, name: &str) -> Option<&'a [u8]> {
        let named = self.iter().filter(|(found, _)| *found == name.as_bytes());
        named.last().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_startup_message_is_read_pair_by_pair() {
        let mut out = Vec::new();
        let parameters = [
            (&b"user"[..], &b"ann"[..]),
            (b"options", b""),
            (b"user", b"bob"),
        ];
        encode(crate::PROTOCOL_3_0, parameters, &mut out).unwrap();
        assert_eq!(&out[..8], b"\0\0\0\x24\0\x03\0\0");

        let (packet, bytes) = next_packet(&out).unwrap().unwrap();
        assert_eq!(bytes, out.len());
        let StartupPacket::Startup(startup) = packet else {
            panic!("{packet:?}")
        };
        assert!(startup.parameters.iter().eq(parameters));
        assert_eq!(startup.parameters.get("user"), Some(&b"bob"[..]));
        assert_eq!(startup.parameters.get("options"), Some(&b""[..]));
        assert_eq!(startup.parameters.get("database"), None);
        for length in 0..out.len() {
            assert_eq!(next_packet(&out[..length]), Ok(None));
        }
    }

    #[test]
    fn startup_requests_are_distinguished_by_their_codes() {
        let ssl = b"\0\0\0\x08\x04\xd2\x16\x2f";
        assert_eq!(next_packet(ssl), Ok(Some((StartupPacket::SslRequest, 8))));
        let gss = b"\0\0\0\x08\x04\xd2\x16\x30";
        assert_eq!(
            next_packet(gss),
            Ok(Some((StartupPacket::GssEncRequest, 8)))
        );
        let cancel = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07wxyz";
        let expected = CancelRequest {
            process_id: 7,
            secret_key: b"wxyz",
        };
        assert_eq!(
            next_packet(cancel),
            Ok(Some((StartupPacket::Cancel(expected), 16)))
        );
    }

    #[test]
    fn a_tls_handshake_is_not_a_packet() {
        let hello = [TLS_HANDSHAKE, 3, 1, 2, 0, 1, 0, 1, 0xfc];
        assert!(matches!(
            next_packet(&hello),
            Err(DecodeError::FrameLength { tag: None, .. })
        ));
    }

    #[test]
    fn startup_packet_that_the_server_refuses_is_an_error() {
        let version_2 = b"\0\0\0\x08\0\x02\0\0";
        assert!(matches!(
            next_packet(version_2),
            Err(DecodeError::InvalidValue {
                found: 0x2_0000,
                ..
            })
        ));
        let goes_on = b"\0\0\0\x0a\0\x03\0\0\0x";
        assert!(matches!(
            next_packet(goes_on),
            Err(DecodeError::TrailingBytes { remaining: 1, .. })
        ));
        let nameless = [(&b""[..], &b"v"[..])];
        assert!(encode(crate::PROTOCOL_3_0, nameless, &mut Vec::new()).is_err());
    }
}
