//! Finding the messages of a connection again whose beginning, or a part of which, is not here.
//!
//! A server that is ready says so and then waits; what the client sends next begins with a message. So
//! a piece of the server's that ends with ReadyForQuery, and a piece of the client's behind it that can
//! be messages, are a place where both sides can be read.

use protocol::backend::TransactionStatus;

use super::Side;

/// Looks for such a place.
#[derive(Debug, Default)]
pub(super) struct Finding {
    ready: Option<TransactionStatus>,
}

/// Such a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) transaction: TransactionStatus,
}

impl Finding {
    /// Takes in a piece. Found: it begins with a message of the client's.
    pub(super) fn takes(&mut self, side: Side, bytes: &[u8]) -> Option<Found> {
        match side {
            Side::Server => {
                self.ready = match bytes.last_chunk::<6>() {
                    Some(b"Z\0\0\0\x05I") => Some(TransactionStatus::Idle),
                    Some(b"Z\0\0\0\x05T") => Some(TransactionStatus::InTransaction),
                    Some(b"Z\0\0\0\x05E") => Some(TransactionStatus::Failed),
                    _ => None,
                };
                None
            }
            Side::Client => {
                let transaction = self.ready.take()?;
                are_messages(bytes).then_some(Found { transaction })
            }
        }
    }
}

/// Whether bytes can be messages of a client that begins to ask, the last of them perhaps cut.
fn are_messages(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut tags = &b"QPBDCFX"[..];
    while let [tag, a, b, c, d, ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let may_be = match tag {
            b'S' | b'H' | b'X' | b'c' => length == 4,
            _ => (5..1 << 30).contains(&length),
        };
        if !tags.contains(tag) || !may_be {
            return false;
        }
        tags = b"QPBDCFXEHSdcfp";
        rest = rest.get(1 + length..).unwrap_or(&[]);
    }
    // Of a header that is cut nothing can be said; there was a message before it.
    rest.len() < bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] = b"Q\0\0\0\x0dSELECT 1\0";

    #[test]
    fn a_question_behind_a_server_that_is_ready_is_a_place_to_go_on() {
        let mut finding = Finding::default();
        assert_eq!(finding.takes(Side::Client, QUERY), None);
        finding.takes(Side::Server, b"...C\0\0\0\x08SET\0Z\0\0\0\x05T");
        let transaction = TransactionStatus::InTransaction;
        assert_eq!(
            finding.takes(Side::Client, QUERY),
            Some(Found { transaction })
        );
        finding.takes(Side::Server, b"Z\0\0\0\x05I");
        finding.takes(Side::Server, b"D\0\0");
        assert_eq!(finding.takes(Side::Client, QUERY), None);
    }

    #[test]
    fn what_is_no_message_is_not_taken_for_one() {
        for bytes in [
            &b""[..],
            b"Q",
            b"Q\0\0\0",
            b"select",
            b"d\0\0\0\x05x",
            b"Q\0\0\0\x03",
            b"Q\x7f\0\0\0x",
        ] {
            assert!(!are_messages(bytes), "{bytes:?}");
        }
        assert!(are_messages(b"X\0\0\0\x04"));
        assert!(are_messages(b"P\0\0\0\x08\0\0\0\0S\0\0\0\x04"));
        assert!(are_messages(b"P\0\0\0\x08\0\0\0\0S\0"));
        assert!(are_messages(b"Q\0\0\x10\0SELECT"));
        assert!(!are_messages(b"P\0\0\0\x08\0\0\0\0S\0\0\0\x05x"));
    }
}
