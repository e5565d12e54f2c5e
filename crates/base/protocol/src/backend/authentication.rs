//! Authentication requests of a server. The mechanisms are left to other crates.
//!
//! PostgreSQL documentation, 54.3 SASL Authentication; 54.7 Message Formats: the Authentication messages (B).

use super::tag::AUTHENTICATION;
use crate::cursor::Cursor;
use crate::error::{DecodeError, EncodeError};
use crate::writer::Writer;

const NAME: &str = "Authentication";

const OK: i32 = 0;
const KERBEROS_V5: i32 = 2;
const CLEARTEXT_PASSWORD: i32 = 3;
const MD5_PASSWORD: i32 = 5;
const GSS: i32 = 7;
const GSS_CONTINUE: i32 = 8;
const SSPI: i32 = 9;
const SASL: i32 = 10;
const SASL_CONTINUE: i32 = 11;
const SASL_FINAL: i32 = 12;

/// An authentication request, or the success of the authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// The authentication succeeded.
    Ok,
    /// Kerberos V5, which no supported server requests.
    KerberosV5,
    /// The password in clear text.
    CleartextPassword,
    /// The password hashed by MD5 with this salt.
    Md5Password {
        /// Salt.
        salt: [u8; 4],
    },
    /// GSSAPI negotiation.
    Gss,
    /// Continuation of a GSSAPI or SSPI exchange.
    GssContinue {
        /// Data of the mechanism.
        data: &'a [u8],
    },
    /// SSPI negotiation.
    Sspi,
    /// SASL with one of the mechanisms.
    Sasl {
        /// Mechanisms that the server supports, in the order of preference.
        mechanisms: Mechanisms<'a>,
    },
    /// A SASL challenge.
    SaslContinue {
        /// Data of the mechanism.
        data: &'a [u8],
    },
    /// End of a SASL exchange.
    SaslFinal {
        /// Data of the mechanism.
        data: &'a [u8],
    },
}

impl<'a> Authentication<'a> {
    /// Reads a body.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(NAME, body);
        let message = match cursor.i32("kind")? {
            OK => Self::Ok,
            KERBEROS_V5 => Self::KerberosV5,
            CLEARTEXT_PASSWORD => Self::CleartextPassword,
            MD5_PASSWORD => Self::Md5Password {
                salt: cursor.u32("salt")?.to_be_bytes(),
            },
            GSS => Self::Gss,
            GSS_CONTINUE => Self::GssContinue {
                data: cursor.rest(),
            },
            SSPI => Self::Sspi,
            SASL => Self::Sasl {
                mechanisms: Mechanisms::decode(&mut cursor)?,
            },
            SASL_CONTINUE => Self::SaslContinue {
                data: cursor.rest(),
            },
            SASL_FINAL => Self::SaslFinal {
                data: cursor.rest(),
            },
            found => return Err(cursor.invalid("kind", 4, found)),
        };
        cursor.end()?;
        Ok(message)
    }

    /// Appends the message. Fails if it is longer than 2 GiB.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let (kind, data): (i32, &[u8]) = match self {
            Self::Ok => (OK, &[]),
            Self::KerberosV5 => (KERBEROS_V5, &[]),
            Self::CleartextPassword => (CLEARTEXT_PASSWORD, &[]),
            Self::Md5Password { salt } => (MD5_PASSWORD, salt),
            Self::Gss => (GSS, &[]),
            Self::GssContinue { data } => (GSS_CONTINUE, data),
            Self::Sspi => (SSPI, &[]),
            Self::Sasl { mechanisms } => (SASL, mechanisms.encoded),
            Self::SaslContinue { data } => (SASL_CONTINUE, data),
            Self::SaslFinal { data } => (SASL_FINAL, data),
        };
        let mut writer = Writer::tagged(NAME, AUTHENTICATION, out);
        writer.i32(kind);
        writer.bytes(data);
        writer.finish()
    }
}

/// Names of SASL mechanisms in an AuthenticationSASL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mechanisms<'a> {
    /// Strings, then an empty one; checked when decoded.
    encoded: &'a [u8],
}

impl<'a> Mechanisms<'a> {
    fn decode(cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let start = cursor.offset();
        while !cursor.string("mechanism")?.is_empty() {}
        Ok(Self {
            encoded: cursor.since(start),
        })
    }

    /// Iterates over the names in the server's order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + Clone + 'a {
        let strings = self.encoded.split(|&byte| byte == 0);
        strings.take_while(|name| !name.is_empty())
    }
}

/// Appends an AuthenticationSASL message.
///
/// Fails if a name has a NUL or is empty, which would end the list.
pub fn encode_sasl<'m>(
    mechanisms: impl IntoIterator<Item = &'m [u8]>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let mut writer = Writer::tagged(NAME, AUTHENTICATION, out);
    writer.i32(SASL);
    for mechanism in mechanisms {
        if mechanism.is_empty() {
            return Err(writer.invalid("mechanism's length", 0));
        }
        writer.string("mechanism", mechanism)?;
    }
    writer.u8(0);
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mechanisms_are_listed_up_to_the_empty_one() {
        let mut out = Vec::new();
        let names = [&b"SCRAM-SHA-256-PLUS"[..], b"SCRAM-SHA-256"];
        encode_sasl(names, &mut out).unwrap();
        assert_eq!(&out[out.len() - 3..], b"6\0\0");
        let Ok(Authentication::Sasl { mechanisms }) = Authentication::decode(&out[5..]) else {
            panic!("not SASL")
        };
        assert!(mechanisms.iter().eq(names));
        assert!(encode_sasl([&b""[..]], &mut Vec::new()).is_err());
    }

    #[test]
    fn a_kind_that_is_not_defined_is_named() {
        let error = Authentication::decode(&6i32.to_be_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Authentication: kind at byte 0 is 6, which the protocol does not define"
        );
    }
}
