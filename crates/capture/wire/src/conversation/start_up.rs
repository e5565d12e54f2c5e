//! What the two sides say before messages have tags: requests for encryption, cancels, and who the
//! client is (PostgreSQL documentation, 54.2.1 and 54.2.10).

use protocol::backend::EncryptionReply;
use protocol::frontend::startup::{StartupPacket, TLS_HANDSHAKE, next_packet};

use super::account::Unreadable;

/// What was heard.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The StartupMessage, from its version on.
    Begun(Vec<u8>),
    /// A request to cancel what the process runs.
    Cancel { process_id: i32, key: Box<[u8]> },
    /// No more can be read.
    Unreadable(Unreadable),
}

/// The start of one connection.
#[derive(Debug, Default)]
pub(super) struct StartUp {
    held: Vec<u8>,
    touched: bool,
    /// The server's next byte says whether the connection will be encrypted.
    asked: bool,
}

impl StartUp {
    /// Nobody has said anything.
    pub(super) fn is_untouched(&self) -> bool {
        !self.touched
    }

    /// Takes bytes of the client up to what ends the start; the rest are messages.
    pub(super) fn client(&mut self, bytes: &mut &[u8]) -> Option<Heard> {
        self.touched |= !bytes.is_empty();
        self.held.extend_from_slice(bytes);
        if self.held.first() == Some(&TLS_HANDSHAKE) {
            return Some(Heard::Unreadable(Unreadable::Tls));
        }
        loop {
            let (packet, used) = match next_packet(&self.held) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    *bytes = &[];
                    return None;
                }
                Err(_) => return Some(Heard::Unreadable(Unreadable::NotTheProtocol)),
            };
            let heard = match packet {
                StartupPacket::SslRequest | StartupPacket::GssEncRequest => None,
                StartupPacket::Cancel(cancel) => Some(Heard::Cancel {
                    process_id: cancel.process_id,
                    key: cancel.secret_key.into(),
                }),
                StartupPacket::Startup(_) => Some(Heard::Begun(self.held[4..used].to_vec())),
            };
            if heard.is_some() {
                // What was held before these bytes was no whole packet.
                let behind = self.held.len() - used;
                *bytes = &bytes[bytes.len() - behind..];
                return heard;
            }
            self.asked = true;
            self.held.drain(..used);
        }
    }

    /// Takes bytes of the server.
    pub(super) fn server(&mut self, bytes: &mut &[u8]) -> Option<Heard> {
        let (reply, rest) = bytes.split_first()?;
        self.touched = true;
        if !std::mem::take(&mut self.asked) {
            return Some(Heard::Unreadable(Unreadable::NotTheProtocol));
        }
        match EncryptionReply::from_byte(*reply) {
            Some(EncryptionReply::Tls) => Some(Heard::Unreadable(Unreadable::Tls)),
            Some(EncryptionReply::Gss) => Some(Heard::Unreadable(Unreadable::Gssapi)),
            Some(EncryptionReply::Refused) if rest.is_empty() => {
                *bytes = rest;
                None
            }
            _ => Some(Heard::Unreadable(Unreadable::NotTheProtocol)),
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
            assert_eq!(start_up.client(&mut &SSL[..]), None);
            assert_eq!(start_up.server(&mut &b"N"[..]), None);
            let mut heard = None;
            let mut rest = Vec::new();
            for mut part in [&STARTUP[..cut], &STARTUP[cut..]] {
                if heard.is_none() {
                    heard = start_up.client(&mut part);
                }
                rest.extend_from_slice(part);
            }
            let body = STARTUP[4..STARTUP.len() - 1].to_vec();
            assert_eq!(heard, Some(Heard::Begun(body)), "{cut}");
            assert_eq!(rest, b"Q");
        }
    }

    #[test]
    fn what_is_encrypted_is_named() {
        let mut start_up = StartUp::default();
        assert!(start_up.is_untouched());
        assert_eq!(start_up.client(&mut &SSL[..]), None);
        let tls = Some(Heard::Unreadable(Unreadable::Tls));
        assert_eq!(start_up.server(&mut &b"S"[..]), tls);
        assert_eq!(StartUp::default().client(&mut &b"\x16\x03\x01"[..]), tls);
        let no = Some(Heard::Unreadable(Unreadable::NotTheProtocol));
        assert_eq!(
            StartUp::default().client(&mut &b"GET / HTTP/1.1\r\n"[..]),
            no
        );
        assert_eq!(StartUp::default().server(&mut &b"S"[..]), no);
    }
}
