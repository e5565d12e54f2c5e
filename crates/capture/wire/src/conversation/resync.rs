//! Resynchronises a connection whose beginning, or a part of which, is missing.
//!
//! A server that is ready sends ReadyForQuery and then waits; the client's next bytes begin with a
//! message. So decoding resumes where a piece of the server ends with ReadyForQuery and the next
//! piece of the client consists of valid messages.

use protocol::backend::TransactionStatus;

use super::Side;

/// Searches for such a position.
#[derive(Debug, Default)]
pub(super) struct Resync {
    ready: Option<TransactionStatus>,
}

/// Such a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResyncPoint {
    pub(super) transaction: TransactionStatus,
}

impl Resync {
    /// Examines a piece. A result means that it begins with a message of the client.
    pub(super) fn examine(&mut self, side: Side, bytes: &[u8]) -> Option<ResyncPoint> {
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
                are_messages(bytes).then_some(ResyncPoint { transaction })
            }
        }
    }
}

/// Returns whether bytes can be request messages of a client, the last of them possibly cut.
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
    // A cut header proves nothing; it must follow a message.
    rest.len() < bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] = b"Q\0\0\0\x0dSELECT 1\0";

    #[test]
    fn a_question_behind_a_server_that_is_ready_is_a_place_to_go_on() {
        let mut finding = Resync::default();
        assert_eq!(finding.examine(Side::Client, QUERY), None);
        finding.examine(Side::Server, b"...C\0\0\0\x08SET\0Z\0\0\0\x05T");
        let transaction = TransactionStatus::InTransaction;
        assert_eq!(
            finding.examine(Side::Client, QUERY),
            Some(ResyncPoint { transaction })
        );
        finding.examine(Side::Server, b"Z\0\0\0\x05I");
        finding.examine(Side::Server, b"D\0\0");
        assert_eq!(finding.examine(Side::Client, QUERY), None);
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
