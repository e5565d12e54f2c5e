//! Parses a client's first messages, and builds the proxy's own answers: whether TLS is available,
//! and that a session cannot begin.
//!
//! Source: PostgreSQL documentation, 54.2.1 and 54.2.10; `ProcessStartupPacket` in
//! `backend_startup.c` for the cases that a server refuses.

use protocol::backend::error_notice;
use protocol::backend::error_notice::{Report, field};
use protocol::frontend::startup::{
    CANCEL_REQUEST_CODE, GSSENC_REQUEST_CODE, PACKET_BYTES_MAX, SSL_REQUEST_CODE, StartupPacket,
    TLS_HANDSHAKE,
};

/// Meaning of a client's first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeting {
    /// The bytes are incomplete.
    Wait,
    /// An SSLRequest.
    AsksForTls,
    /// A GSSENCRequest of this length in bytes.
    AsksForGssapi(usize),
    /// A direct TLS handshake.
    BeginsTls,
    /// A StartupMessage.
    Session {
        /// Whether it is for the replication protocol.
        replicates: bool,
    },
    /// A CancelRequest of this length in bytes.
    Cancel(usize),
    /// PostgreSQL would close the connection without an answer.
    Refuse,
}

/// Parses the first bytes. `encrypted`: they came through TLS.
pub(super) fn parse_greeting(bytes: &[u8], encrypted: bool) -> Greeting {
    if !encrypted && bytes.first() == Some(&TLS_HANDSHAKE) {
        return Greeting::BeginsTls;
    }
    let number = |at: usize| -> Option<u32> {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().expect("four bytes")))
    };
    let Some(length) = number(0) else {
        return Greeting::Wait;
    };
    let length = length as usize;
    if !(8..=PACKET_BYTES_MAX + 4).contains(&length) {
        return Greeting::Refuse;
    }
    if bytes.len() < length {
        return Greeting::Wait;
    }
    match number(4).unwrap_or_default() {
        // Plain text after the request was not meant to be sent unencrypted.
        SSL_REQUEST_CODE if encrypted || bytes.len() > length => Greeting::Refuse,
        SSL_REQUEST_CODE => Greeting::AsksForTls,
        GSSENC_REQUEST_CODE => Greeting::AsksForGssapi(length),
        CANCEL_REQUEST_CODE => Greeting::Cancel(length),
        _ => Greeting::Session {
            replicates: is_replication(&bytes[4..length]),
        },
    }
}

/// Returns whether a StartupMessage requests the replication protocol, by the rules of `parse_bool`
/// and the word `database`. The server handles invalid ones.
fn is_replication(body: &[u8]) -> bool {
    let Ok(StartupPacket::Startup(startup)) = StartupPacket::decode(body) else {
        return false;
    };
    let Some(value) = startup.parameters.get("replication") else {
        return false;
    };
    let value = value.to_ascii_lowercase();
    let is = |word: &str, at_least: usize| {
        value.len() >= at_least && word.as_bytes().starts_with(&value)
    };
    value == b"database" || is("true", 1) || is("yes", 1) || is("on", 2) || value == b"1"
}

/// `cannot_connect_now`: clients with several hosts try the next, as they do while a server starts.
pub(super) const NOT_NOW: &str = "57P03";
/// `invalid_authorization_specification`: as if no line of `pg_hba.conf` matches.
pub(super) const NO_ENTRY: &str = "28000";
/// `admin_shutdown`
pub(super) const SHUTDOWN: &str = "57P01";

/// Builds PostgreSQL's message that ends a connection.
pub(super) fn fatal_error(sqlstate: &str, message: &str) -> Vec<u8> {
    let mut out = Vec::new();
    // A NUL would end the message.
    let message = message.replace('\0', " ");
    let fields: [(u8, &[u8]); 4] = [
        (field::SEVERITY, b"FATAL"),
        (field::SEVERITY_NON_LOCALIZED, b"FATAL"),
        (field::SQLSTATE, sqlstate.as_bytes()),
        (field::MESSAGE, message.as_bytes()),
    ];
    error_notice::encode(Report::Error, fields, &mut out).expect("there is no NUL in it");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use protocol::PROTOCOL_3_0;
    use protocol::frontend::startup;

    fn session(parameters: &[(&str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        let parameters = parameters
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        startup::encode(PROTOCOL_3_0, parameters, &mut out).unwrap();
        out
    }

    #[test]
    fn a_greeting_is_told_by_its_first_bytes() {
        let ssl = b"\0\0\0\x08\x04\xd2\x16\x2f";
        assert_eq!(parse_greeting(ssl, false), Greeting::AsksForTls);
        assert_eq!(parse_greeting(ssl, true), Greeting::Refuse);
        assert_eq!(
            parse_greeting(&[ssl.as_slice(), b"x"].concat(), false),
            Greeting::Refuse
        );
        let gss = b"\0\0\0\x08\x04\xd2\x16\x30\0";
        assert_eq!(parse_greeting(gss, false), Greeting::AsksForGssapi(8));
        let cancel = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x07wxyz";
        assert_eq!(parse_greeting(cancel, false), Greeting::Cancel(16));
        assert_eq!(parse_greeting(&[TLS_HANDSHAKE], false), Greeting::BeginsTls);
        assert_eq!(
            parse_greeting(b"GET / HTTP/1.1\r\n", false),
            Greeting::Refuse
        );
        let old = b"\0\0\0\x08\0\x02\0\0";
        let replicates = false;
        assert_eq!(parse_greeting(old, false), Greeting::Session { replicates });
        let whole = session(&[("user", "a")]);
        for cut in 0..whole.len() {
            assert_eq!(parse_greeting(&whole[..cut], true), Greeting::Wait);
        }
        assert_eq!(
            parse_greeting(&whole, true),
            Greeting::Session { replicates }
        );
    }

    proptest! {
        /// Checks that any first bytes are parsed without reading past their end.
        #[test]
        fn any_beginning_is_told(
            mut said in proptest::collection::vec(any::<u8>(), 0..64),
            length in 0u32..80,
            code in prop_oneof![
                Just(SSL_REQUEST_CODE), Just(GSSENC_REQUEST_CODE), Just(CANCEL_REQUEST_CODE),
                Just(PROTOCOL_3_0), any::<u32>(),
            ],
            encrypted in any::<bool>(),
        ) {
            let begins = [length.to_be_bytes(), code.to_be_bytes()].concat();
            let taken = begins.len().min(said.len());
            said[..taken].copy_from_slice(&begins[..taken]);
            match parse_greeting(&said, encrypted) {
                Greeting::AsksForGssapi(length) | Greeting::Cancel(length) => {
                    prop_assert!(length <= said.len());
                }
                Greeting::Wait => prop_assert!(said.len() < 4 || said.len() < length as usize),
                _ => {}
            }
        }
    }

    #[test]
    fn replication_is_told_by_its_parameter() {
        for (value, replicates) in [
            ("true", true),
            ("database", true),
            ("ON", true),
            ("1", true),
            ("off", false),
            ("o", false),
            ("false", false),
            ("0", false),
        ] {
            let packet = session(&[("user", "a"), ("replication", value)]);
            assert_eq!(
                parse_greeting(&packet, false),
                Greeting::Session { replicates },
                "{value}"
            );
        }
    }

    #[test]
    fn a_refusal_is_postgresqls_own() {
        let message = fatal_error(NOT_NOW, "no\0way");
        let (tag, body) = (message[0], &message[5..]);
        let decoded = protocol::backend::Message::decode(tag, body).unwrap();
        let protocol::backend::Message::ErrorResponse(error) = decoded else {
            panic!("{decoded:?}")
        };
        assert_eq!(error.severity().as_deref(), Some("FATAL"));
        assert_eq!(error.sqlstate(), Some(*b"57P03"));
        assert_eq!(error.message().as_deref(), Some("no way"));
    }
}
