//! One backend of the server: from its first record to its end.

use capture_recorder::MirroredConnection;
use capture_wire::conversation::Side;

/// Maximum size of the bytes that wait for the first answer of the server. A StartupMessage has at most 10,000 bytes
/// (`MAX_STARTUP_PACKET_LENGTH` of `src/include/libpq/pqcomm.h`).
pub(crate) const HELD_BYTES_MAX: usize = 64 << 10;

/// Treatment of a backend.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// Its client has begun to send, and the server has not answered. The server's title shows the client only then.
    Starting(Vec<HeldBytes>),
    /// It is passed on.
    Open,
    /// It is not captured.
    LeftOut,
}

/// Bytes before the first answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HeldBytes {
    pub(crate) side: Side,
    pub(crate) at_us: i64,
    pub(crate) bytes: Vec<u8>,
}

/// One backend.
#[derive(Debug)]
pub(crate) struct BackendSession {
    /// Number of the connection.
    pub(crate) connection: u64,
    /// Start time of the process, which distinguishes reused process numbers.
    pub(crate) started: u64,
    pub(crate) client: String,
    pub(crate) mirrored: MirroredConnection,
    pub(crate) state: SessionState,
    pub(crate) begun_us: i64,
    /// Number of bytes of each side so far, lost ones included.
    positions: [u64; 2],
    /// Time of the last bytes of each side.
    last_us: [i64; 2],
}

/// Bytes that are missing before a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MissingBytes {
    pub(crate) bytes: u64,
    /// Time of the last bytes before them.
    pub(crate) from_us: i64,
}

impl BackendSession {
    pub(crate) fn new(connection: u64, started: u64, state: SessionState, at_us: i64) -> Self {
        BackendSession {
            connection,
            started,
            client: String::new(),
            mirrored: MirroredConnection::default(),
            state,
            begun_us: at_us,
            positions: [0; 2],
            last_us: [at_us; 2],
        }
    }

    /// Returns whether none of its bytes was seen, although it began after the attach.
    pub(crate) fn has_no_bytes(&self) -> bool {
        matches!(&self.state, SessionState::Starting(held) if held.is_empty())
    }

    /// Notes that bytes of a side end at a position. Returns the bytes that are missing between the previous ones and their
    /// beginning at `offset`.
    pub(crate) fn advance(
        &mut self,
        side: Side,
        offset: u64,
        length: u64,
        at_us: i64,
    ) -> Option<MissingBytes> {
        let index = usize::from(side == Side::Server);
        let missing = MissingBytes {
            bytes: offset.saturating_sub(self.positions[index]),
            from_us: self.last_us[index],
        };
        self.positions[index] = self.positions[index].max(offset + length);
        self.last_us[index] = self.last_us[index].max(at_us);
        (missing.bytes > 0).then_some(missing)
    }
}

/// Returns whether bytes of the server answer a request for encryption, not a StartupMessage.
pub(crate) fn is_encryption_reply(bytes: &[u8]) -> bool {
    matches!(bytes, b"S" | b"G" | b"N")
}

/// Returns whether bytes are a whole StartupMessage, or a whole request for encryption, with a length of at most 10,000
/// (`ProcessStartupPacket` in `src/backend/tcop/backend_startup.c`).
pub(crate) fn is_whole_start(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk() else {
        return false;
    };
    let length = u32::from_be_bytes(*length) as usize;
    length == bytes.len()
        && (8..=10_000).contains(&length)
        && matches!(rest, [0, 3, ..] | [0x04, 0xd2, 0x16, 0x2f | 0x30])
}

/// Returns whether bytes cannot be the first ones of a session, since they are a message within it. Other bytes may be of
/// a client that speaks another protocol.
pub(crate) fn is_message_of_session(side: Side, bytes: &[u8]) -> bool {
    /// Types of the messages that a client sends (PostgreSQL documentation, "Message Formats").
    const CLIENT_TYPES: &[u8] = b"BCDEFHPQSXcdfp";
    const LENGTH_MAX: u32 = 1 << 30;
    if side == Side::Server {
        return !is_encryption_reply(bytes);
    }
    match bytes {
        [kind, a, b, c, d, ..] => {
            let length = u32::from_be_bytes([*a, *b, *c, *d]);
            CLIENT_TYPES.contains(kind) && (4..LENGTH_MAX).contains(&length)
        }
        _ => false,
    }
}

/// Returns whether bytes are a StartupMessage with this `application_name`.
pub(crate) fn names_application(bytes: &[u8], application: &str) -> bool {
    if application.is_empty() || !is_whole_start(bytes) {
        return false;
    }
    let setting = ["application_name", application, ""].join("\0");
    memchr::memmem::find(&bytes[8..], setting.as_bytes()).is_some()
}

/// Returns whether bytes of a client are a CancelRequest (PostgreSQL documentation, "Message Formats").
pub(crate) fn is_cancel_request(bytes: &[u8]) -> bool {
    bytes.get(4..8) == Some(&[0x04, 0xd2, 0x16, 0x2e])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_whose_offset_jumps_has_missing_bytes_of_that_side() {
        let mut session = BackendSession::new(1, 1, SessionState::Open, 5);
        assert_eq!(session.advance(Side::Client, 0, 10, 7), None);
        assert_eq!(session.advance(Side::Server, 0, 3, 8), None);
        let missing = MissingBytes {
            bytes: 20,
            from_us: 7,
        };
        assert_eq!(session.advance(Side::Client, 30, 5, 9), Some(missing));
        assert_eq!(session.advance(Side::Client, 35, 0, 9), None);
        assert_eq!(session.advance(Side::Server, 3, 0, 9), None);
    }
}
