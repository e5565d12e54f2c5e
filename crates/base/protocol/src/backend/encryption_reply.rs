//! Response to an SSLRequest or a GSSENCRequest: a single byte, the only response that is not a message.
//!
//! PostgreSQL documentation, 54.2.10 SSL Session Encryption and 54.2.11 GSSAPI Session Encryption.

use super::tag::ERROR_RESPONSE;

/// First byte after an encryption request.
///
/// Further bytes must not be read before the handshake: unencrypted bytes received with it may come from an
/// attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EncryptionReply {
    /// `S`: begin the TLS handshake.
    Tls,
    /// `G`: begin the GSSAPI handshake.
    Gss,
    /// `N`: refused; the client may continue without encryption or request the other kind.
    Refused,
    /// `E`: the byte is the tag of an ErrorResponse, whose text cannot be trusted.
    Error,
}

impl EncryptionReply {
    /// Returns the reply for a byte; `None` if the server is not a PostgreSQL server.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            b'S' => Self::Tls,
            b'G' => Self::Gss,
            b'N' => Self::Refused,
            ERROR_RESPONSE => Self::Error,
            _ => return None,
        })
    }

    /// Returns the byte.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Tls => b'S',
            Self::Gss => b'G',
            Self::Refused => b'N',
            Self::Error => ERROR_RESPONSE,
        }
    }
}
