//! Follows a stream of messages by their headers, in bounded memory.
//!
//! The replay needs to know that rows were received, and their size, but not their content. A [`Scanner`]
//! receives the bytes read from the socket, in chunks of any size. It reports each message's header as soon
//! as its 5 bytes are complete, buffers and reports the bodies of the requested kinds of message, and skips
//! all other bodies.
//!
//! ```text
//! chunks      T 0 0 0 4 . | . . . D 0 0 | 1 0 . . . . . . . . . C 0 0 0 8 S E | L E C T _ 1 \0
//! wants C        │                       │                       │                            │
//! yields      Header(T)              Header(D)                Header(C)                    Body(C)
//! ```
//!
//! The caller calls [`Scanner::next`] until it returns `None`, which means that all of the chunk was
//! consumed, and then reads more. It may stop between two events; the rest of the chunk remains with the
//! caller.

use crate::error::DecodeError;
use crate::frame::{BODY_BYTES_MAX, HEADER_BYTES, Header};

/// Maximum bytes of the buffer that a scanner retains for the next split body. Ten thousand sessions each
/// have a scanner, and none should retain the memory of one long error message.
const KEPT_BYTES_MAX: usize = 4096;

/// A set of message tags. Tags are ASCII; a byte above 127 is never in the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagSet(u128);

impl TagSet {
    /// No tag.
    pub const NONE: Self = Self(0);

    /// Creates a set of the listed tags, such as `TagSet::of(b"CEZ")`; bytes above 127 are ignored.
    pub const fn of(tags: &[u8]) -> Self {
        let mut set = 0;
        let mut index = 0;
        while index < tags.len() {
            if tags[index] < 128 {
                set |= 1u128 << tags[index];
            }
            index += 1;
        }
        Self(set)
    }

    /// Whether the tag is in the set.
    #[inline]
    pub const fn contains(self, tag: u8) -> bool {
        tag < 128 && self.0 & (1u128 << tag) != 0
    }
}

/// Event of a [`Scanner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanEvent<'b> {
    /// A message began. Reported once for every message.
    Header(Header),
    /// Complete body of the message whose header was reported last. Only for requested tags, also if the body
    /// is empty.
    Body {
        /// Tag of the message.
        tag: u8,
        /// Complete body.
        body: &'b [u8],
    },
    /// Part of the body of the message whose header was reported last, after a call of
    /// [`Scanner::report_pieces`]. The parts together are the body; an empty body has none.
    Piece {
        /// Next bytes of the body, at least one.
        bytes: &'b [u8],
    },
}

/// Interpretation of the next byte of the stream.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Byte of a header at this index.
    Header { filled: usize },
    /// One of this number of bytes of a skipped body; at least 1.
    Skip { left: usize },
    /// One of this number of bytes of a body that is reported in pieces; at least 1.
    Pieces { left: usize },
    /// Byte of a requested body; `held` has the bytes before it.
    Body { header: Header },
}

/// Follows one direction of one connection, after the start-up phase.
///
/// Memory is limited to this struct, and to a buffer for a requested body that was split between chunks.
#[derive(Debug)]
pub struct Scanner {
    wanted: TagSet,
    wanted_body_bytes_max: usize,
    state: State,
    header: [u8; HEADER_BYTES],
    held: Vec<u8>,
    /// `held` was lent out as a body and must be emptied.
    lent: bool,
}

impl Scanner {
    /// Creates a scanner at the beginning of a message, that reports the bodies of `wanted`.
    ///
    /// A requested body longer than `wanted_body_bytes_max` is an error. Other bodies may have any length
    /// that the protocol allows.
    pub fn new(wanted: TagSet, wanted_body_bytes_max: usize) -> Self {
        Self {
            wanted,
            wanted_body_bytes_max,
            state: State::Header { filled: 0 },
            header: [0; HEADER_BYTES],
            held: Vec::new(),
            lent: false,
        }
    }

    /// Changes the requested bodies, from the next header on.
    pub fn want(&mut self, wanted: TagSet) {
        self.wanted = wanted;
    }

    /// Skips the requested body of the message whose header was just reported, for callers that need short
    /// ones only.
    pub fn skip_body(&mut self) {
        if let State::Body { header } = self.state
            && self.held.is_empty()
        {
            self.state = match header.body_bytes {
                0 => State::Header { filled: 0 },
                left => State::Skip { left },
            };
        }
    }

    /// Reports the body of the message whose header was just reported in pieces, whether it is requested or
    /// not, for bodies that are too long to buffer.
    pub fn report_pieces(&mut self) {
        self.skip_body();
        if let State::Skip { left } = self.state {
            self.state = State::Pieces { left };
        }
    }

    /// Whether the stream is between two messages. It must not end elsewhere.
    pub fn is_between_messages(&self) -> bool {
        matches!(self.state, State::Header { filled: 0 })
    }

    /// Consumes the bytes of `unread` up to the next event, and reports it. Returns `None` if `unread` is
    /// empty and there is no event.
    ///
    /// A body is borrowed from the chunk if it is complete, and copied only if it is split. It fails if a
    /// header's length is invalid or a requested body is too long. The stream cannot be followed further, and
    /// every later call fails in the same way.
    #[inline]
    pub fn next<'b, 'c: 'b>(
        &'b mut self,
        unread: &mut &'c [u8],
    ) -> Result<Option<ScanEvent<'b>>, DecodeError> {
        if self.lent {
            self.forget_held();
        }
        loop {
            match self.state {
                State::Skip { left } => {
                    let taken = left.min(unread.len());
                    *unread = &unread[taken..];
                    if taken < left {
                        self.state = State::Skip { left: left - taken };
                        return Ok(None);
                    }
                    self.state = State::Header { filled: 0 };
                }
                State::Pieces { left } => {
                    if unread.is_empty() {
                        return Ok(None);
                    }
                    let (bytes, rest) = unread.split_at(left.min(unread.len()));
                    *unread = rest;
                    self.state = match left - bytes.len() {
                        0 => State::Header { filled: 0 },
                        left => State::Pieces { left },
                    };
                    return Ok(Some(ScanEvent::Piece { bytes }));
                }
                State::Header { filled } => {
                    let taken = (HEADER_BYTES - filled).min(unread.len());
                    self.header[filled..filled + taken].copy_from_slice(&unread[..taken]);
                    *unread = &unread[taken..];
                    self.state = State::Header {
                        filled: filled + taken,
                    };
                    if filled + taken < HEADER_BYTES {
                        return Ok(None);
                    }
                    return self.begin_body().map(Some);
                }
                State::Body { header } => return Ok(self.take_body(header, unread)),
            }
        }
    }

    /// Starts the body of a complete header. A failure leaves the state as it is, and repeats.
    #[inline]
    fn begin_body(&mut self) -> Result<ScanEvent<'static>, DecodeError> {
        let wanted = self.wanted.contains(self.header[0]);
        let body_bytes_max = if wanted {
            self.wanted_body_bytes_max
        } else {
            BODY_BYTES_MAX
        };
        let header = Header::decode(self.header, body_bytes_max)?;
        self.state = match header.body_bytes {
            _ if wanted => State::Body { header },
            0 => State::Header { filled: 0 },
            left => State::Skip { left },
        };
        Ok(ScanEvent::Header(header))
    }

    fn take_body<'b, 'c: 'b>(
        &'b mut self,
        header: Header,
        unread: &mut &'c [u8],
    ) -> Option<ScanEvent<'b>> {
        let missing = header.body_bytes - self.held.len();
        let (taken, rest) = unread.split_at(missing.min(unread.len()));
        *unread = rest;
        if taken.len() == missing {
            self.state = State::Header { filled: 0 };
            if self.held.is_empty() {
                return Some(ScanEvent::Body {
                    tag: header.tag,
                    body: taken,
                });
            }
        }
        // A length is not trusted for an allocation: `held` grows with the received bytes.
        self.held.extend_from_slice(taken);
        if taken.len() < missing {
            return None;
        }
        self.lent = true;
        Some(ScanEvent::Body {
            tag: header.tag,
            body: &self.held,
        })
    }

    #[cold]
    fn forget_held(&mut self) {
        self.held.clear();
        self.held.shrink_to(KEPT_BYTES_MAX);
        self.lent = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b"1\0\0\0\x04D\0\0\0\x0arow456C\0\0\0\x0dSELECT 1\0I\0\0\0\x04Z\0\0\0\x05I";

    /// Returns the events of a stream that is split into chunks of a size.
    fn scan(
        stream: &[u8],
        chunk_bytes: usize,
        wanted: TagSet,
    ) -> Vec<(u8, Result<usize, Vec<u8>>)> {
        let mut scanner = Scanner::new(wanted, 100);
        let mut seen = Vec::new();
        for mut chunk in stream.chunks(chunk_bytes) {
            while let Some(event) = scanner.next(&mut chunk).unwrap() {
                seen.push(match event {
                    ScanEvent::Header(header) => (header.tag, Ok(header.body_bytes)),
                    ScanEvent::Body { tag, body } => (tag, Err(body.to_vec())),
                    ScanEvent::Piece { .. } => unreachable!("nobody asked for pieces"),
                });
            }
            assert!(chunk.is_empty());
        }
        assert!(scanner.is_between_messages());
        seen
    }

    #[test]
    fn events_do_not_depend_on_where_the_stream_is_cut() {
        let expected = vec![
            (b'1', Ok(0)),
            (b'D', Ok(6)),
            (b'C', Ok(9)),
            (b'C', Err(b"SELECT 1\0".to_vec())),
            (b'I', Ok(0)),
            (b'I', Err(vec![])),
            (b'Z', Ok(1)),
            (b'Z', Err(b"I".to_vec())),
        ];
        for chunk_bytes in 1..=STREAM.len() {
            assert_eq!(scan(STREAM, chunk_bytes, TagSet::of(b"CIZ")), expected);
        }
    }

    #[test]
    fn a_header_is_reported_before_its_body_has_come() {
        let mut scanner = Scanner::new(TagSet::of(b"C"), 100);
        let mut chunk = &b"D\x40\0\0\0some"[..];
        assert_eq!(
            scanner.next(&mut chunk),
            Ok(Some(ScanEvent::Header(Header {
                tag: b'D',
                body_bytes: 0x4000_0000 - 4
            })))
        );
        assert_eq!(scanner.next(&mut chunk), Ok(None));
        assert!(!scanner.is_between_messages());
        assert_eq!(scanner.held.capacity(), 0);
    }

    #[test]
    fn a_wanted_body_too_long_ends_the_stream() {
        let mut scanner = Scanner::new(TagSet::of(b"C"), 100);
        let mut chunk = &b"C\0\0\0\x69"[..];
        let error = scanner.next(&mut chunk).unwrap_err();
        assert!(matches!(error, DecodeError::FrameLength { max: 104, .. }));
        assert_eq!(scanner.next(&mut &b"Z\0\0\0\x05I"[..]), Err(error));
    }

    #[test]
    fn a_wanted_body_can_be_let_pass_once_its_header_is_known() {
        for chunk_bytes in 1..=STREAM.len() {
            let mut scanner = Scanner::new(TagSet::of(b"CDIZ"), 100);
            let mut bodies = Vec::new();
            for mut chunk in STREAM.chunks(chunk_bytes) {
                while let Some(event) = scanner.next(&mut chunk).unwrap() {
                    match event {
                        ScanEvent::Header(header) if matches!(header.tag, b'D' | b'I') => {
                            scanner.skip_body();
                        }
                        ScanEvent::Header(_) | ScanEvent::Piece { .. } => {}
                        ScanEvent::Body { tag, .. } => bodies.push(tag),
                    }
                }
            }
            assert_eq!(bodies, b"CZ");
            assert!(scanner.is_between_messages());
        }
    }

    #[test]
    fn scanner_reports_a_body_in_pieces() {
        for chunk_bytes in 1..=STREAM.len() {
            let mut scanner = Scanner::new(TagSet::of(b"CZ"), 100);
            let (mut rows, mut bodies) = (Vec::new(), Vec::new());
            for mut chunk in STREAM.chunks(chunk_bytes) {
                while let Some(event) = scanner.next(&mut chunk).unwrap() {
                    match event {
                        // An empty one and one that is not wanted, and one that is.
                        ScanEvent::Header(header) if b"1DC".contains(&header.tag) => {
                            scanner.report_pieces();
                        }
                        ScanEvent::Header(_) => {}
                        ScanEvent::Piece { bytes } => rows.extend_from_slice(bytes),
                        ScanEvent::Body { tag, .. } => bodies.push(tag),
                    }
                }
            }
            assert_eq!(rows, b"row456SELECT 1\0");
            assert_eq!(bodies, b"Z");
            assert!(scanner.is_between_messages());
        }
    }

    #[test]
    fn memory_of_a_long_body_is_given_back() {
        let mut scanner = Scanner::new(TagSet::of(b"E"), 1 << 20);
        let mut message = b"E\0\x01\0\x04".to_vec();
        message.resize(5 + 0x1_0000, b'x');
        for mut chunk in message.chunks(1000) {
            while scanner.next(&mut chunk).unwrap().is_some() {}
        }
        assert!(scanner.held.capacity() <= KEPT_BYTES_MAX);
    }

    #[test]
    fn tags_above_ascii_are_in_no_set() {
        let set = TagSet::of(&[b'Z', 0xff]);
        assert!(set.contains(b'Z') && !set.contains(0xff) && !set.contains(b'C'));
        assert!(!TagSet::NONE.contains(0));
    }
}
