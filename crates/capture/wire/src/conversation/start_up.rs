//! Decodes the messages before tagged ones: encryption requests, cancel requests, and the
//! StartupMessage (PostgreSQL documentation, 54.2.1 and 54.2.10).

use protocol::backend::EncryptionReply;
use protocol::frontend::startup::{StartupPacket, TLS_HANDSHAKE, next_packet};

use super::account::UnreadableReason;

/// Result of the start-up.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StartUpResult {
    /// The StartupMessage, from its version on.
    Startup(Vec<u8>),
    /// A cancel request for a process.
    Cancel { process_id: i32, key: Box<[u8]> },
    /// The rest cannot be read.
    Unreadable(UnreadableReason),
}

/// The start-up of one connection.
#[derive(Debug, Default)]
pub(super) struct StartUp {
    held: Vec<u8>,
    touched: bool,
    /// The next byte of the server answers an encryption request.
    awaits_answer: bool,
}

impl StartUp {
    /// Returns whether neither side has sent anything.
    pub(super) fn is_untouched(&self) -> bool {
        !self.touched
    }

    /// Handles bytes of the client up to the end of the start-up; the rest are messages. If they are `decrypted`, a piece that
    /// begins with a TLS handshake is one that the server read before it began to decrypt.
    pub(super) fn handle_client(
        &mut self,
        bytes: &mut &[u8],
        decrypted: bool,
    ) -> Option<StartUpResult> {
        self.touched |= !bytes.is_empty();
        if decrypted && self.held.is_empty() && bytes.first() == Some(&TLS_HANDSHAKE) {
            *bytes = &[];
            return None;
        }
        self.held.extend_from_slice(bytes);
        if self.held.first() == Some(&TLS_HANDSHAKE) {
            return Some(StartUpResult::Unreadable(UnreadableReason::Tls));
        }
        loop {
            let (packet, used) = match next_packet(&self.held) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    *bytes = &[];
                    return None;
                }
                Err(_) => return Some(StartUpResult::Unreadable(UnreadableReason::NotTheProtocol)),
            };
            let outcome = match packet {
                StartupPacket::SslRequest | StartupPacket::GssEncRequest => None,
                StartupPacket::Cancel(cancel) => Some(StartUpResult::Cancel {
                    process_id: cancel.process_id,
                    key: cancel.secret_key.into(),
                }),
                StartupPacket::Startup(_) => {
                    Some(StartUpResult::Startup(self.held[4..used].to_vec()))
                }
            };
            if outcome.is_some() {
                // The held bytes were no whole packet.
                let unused = self.held.len() - used;
                *bytes = &bytes[bytes.len() - unused..];
                return outcome;
            }
            self.awaits_answer = true;
            self.held.drain(..used);
        }
    }

    /// Handles bytes of the server.
    pub(super) fn handle_server(
        &mut self,
        bytes: &mut &[u8],
        decrypted: bool,
    ) -> Option<StartUpResult> {
        let (reply, rest) = bytes.split_first()?;
        self.touched = true;
        if !std::mem::take(&mut self.awaits_answer) {
            return Some(StartUpResult::Unreadable(UnreadableReason::NotTheProtocol));
        }
        match EncryptionReply::from_byte(*reply) {
            Some(EncryptionReply::Tls | EncryptionReply::Gss) if decrypted && rest.is_empty() => {
                *bytes = rest;
                None
            }
            Some(EncryptionReply::Tls) => Some(StartUpResult::Unreadable(UnreadableReason::Tls)),
            Some(EncryptionReply::Gss) => Some(StartUpResult::Unreadable(UnreadableReason::Gssapi)),
            Some(EncryptionReply::Refused) if rest.is_empty() => {
                *bytes = rest;
                None
            }
            _ => Some(StartUpResult::Unreadable(UnreadableReason::NotTheProtocol)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SSL: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x2f";
    const STARTUP: &[u8] = b"\0\0\0\x12\0\x03\0\0user\0ann\0\0Q";

    #[test]
    fn a_start_cut_anywhere_is_heard_alike() {
        for cut in 0..STARTUP.len() {
            let mut start_up = StartUp::default();
            assert_eq!(start_up.handle_client(&mut &SSL[..], false), None);
            assert_eq!(start_up.handle_server(&mut &b"N"[..], false), None);
            let mut outcome = None;
            let mut rest = Vec::new();
            for mut part in [&STARTUP[..cut], &STARTUP[cut..]] {
                if outcome.is_none() {
                    outcome = start_up.handle_client(&mut part, false);
                }
                rest.extend_from_slice(part);
            }
            let body = STARTUP[4..STARTUP.len() - 1].to_vec();
            assert_eq!(outcome, Some(StartUpResult::Startup(body)), "{cut}");
            assert_eq!(rest, b"Q");
        }
    }

    #[test]
    fn what_is_encrypted_is_named() {
        let mut start_up = StartUp::default();
        assert!(start_up.is_untouched());
        assert_eq!(start_up.handle_client(&mut &SSL[..], false), None);
        let tls = Some(StartUpResult::Unreadable(UnreadableReason::Tls));
        assert_eq!(start_up.handle_server(&mut &b"S"[..], false), tls);
        assert_eq!(
            StartUp::default().handle_client(&mut &b"\x16\x03\x01"[..], false),
            tls
        );
        let no = Some(StartUpResult::Unreadable(UnreadableReason::NotTheProtocol));
        assert_eq!(
            StartUp::default().handle_client(&mut &b"GET / HTTP/1.1\r\n"[..], false),
            no
        );
        assert_eq!(StartUp::default().handle_server(&mut &b"S"[..], false), no);
    }

    #[test]
    fn start_up_that_was_decrypted_continues_after_the_handshake() {
        let mut start_up = StartUp::default();
        assert_eq!(start_up.handle_client(&mut &SSL[..], true), None);
        assert_eq!(start_up.handle_server(&mut &b"S"[..], true), None);
        let body = STARTUP[4..STARTUP.len() - 1].to_vec();
        let startup = Some(StartUpResult::Startup(body));
        assert_eq!(start_up.handle_client(&mut &STARTUP[..], true), startup);
        // Without a request (sslnegotiation=direct), and without a reply that the source sees.
        for before in [&b"\x16\x03\x01 hello"[..], SSL] {
            let mut start_up = StartUp::default();
            assert_eq!(start_up.handle_client(&mut &before[..], true), None);
            assert_eq!(start_up.handle_client(&mut &STARTUP[..], true), startup);
        }
    }
}
