//! The one answer of a server that is no message: a byte, to an SSLRequest or a GSSENCRequest.
//!
//! PostgreSQL documentation, 54.2.10 SSL Session Encryption and 54.2.11 GSSAPI Session Encryption.

use super::tag::ERROR_RESPONSE;

/// What the first byte after a request for encryption says.
///
/// The bytes after it must not be read before the handshake: whatever came with it in clear may
/// be an attacker's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncryptionReply {
    /// `S`: begin the TLS handshake.
    Tls,
    /// `G`: begin the GSSAPI handshake.
    Gss,
    /// `N`: no; the client may go on in clear or ask for the other kind.
    Refused,
    /// `E`: the byte is the tag of an ErrorResponse, whose text cannot be trusted.
    Error,
}

impl EncryptionReply {
    /// The answer that a byte stands for; `None` if the server is no PostgreSQL server.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            b'S' => Self::Tls,
            b'G' => Self::Gss,
            b'N' => Self::Refused,
            ERROR_RESPONSE => Self::Error,
            _ => return None,
        })
    }

    /// The byte.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Tls => b'S',
            Self::Gss => b'G',
            Self::Refused => b'N',
            Self::Error => ERROR_RESPONSE,
        }
    }
}
