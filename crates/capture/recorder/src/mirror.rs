//! Mirrors the traffic into chunks of memory, which go to the capture thread when they are full or
//! of some age. A source never waits for that thread: if the queue is full, the copy is dropped,
//! and a gap is reported as soon as there is room again.
//!
//! The source sends a chunk when it is full; if there is little traffic, when the capture thread
//! requests it. So the source needs no timer, and no thread is woken for a statement.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, TrySendError};

use capture_wire::conversation::{Login, Side};

/// Size in bytes at which a chunk is sent. It may exceed that by one read.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;

/// A chunk of one source in the queue.
pub(crate) struct Chunk {
    pub(crate) source: usize,
    pub(crate) bytes: Vec<u8>,
}

/// State shared by the capture thread and a source.
#[derive(Debug, Default)]
pub(crate) struct MirrorState {
    /// Twice the number of chunks sent, plus 1 if there is an unfinished one.
    progress: AtomicU64,
    /// Number of dropped bytes.
    pub(crate) lost_bytes: AtomicU64,
    /// The capture has ended: nothing is copied.
    pub(crate) off: AtomicBool,
}

impl MirrorState {
    pub(crate) fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }
}

/// The mirror's state of a connection.
#[derive(Debug, Default)]
pub struct MirroredConnection {
    /// Whether the capture knows the connection.
    announced: bool,
    /// Bytes of each side dropped since the last copied ones.
    lost: [Loss; 2],
}

/// Bytes of one side of a connection that were dropped.
#[derive(Debug, Clone, Copy, Default)]
struct Loss {
    bytes: u64,
    from_us: i64,
}

/// A source's totals at the position of a mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of bytes read from clients, and from servers, from the StartupMessage on.
    pub bytes: [u64; 2],
    /// Number of those bytes on connections that are not captured.
    pub passed: [u64; 2],
}

/// Time range in which copies were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from_us: i64,
    pub(crate) to_us: i64,
    pub(crate) bytes: u64,
}

/// Copies the traffic of one source for the capture.
pub struct MirrorQueue {
    source: usize,
    chunk: Vec<u8>,
    chunks: Sender<Chunk>,
    free: Receiver<Vec<u8>>,
    state: Arc<MirrorState>,
    handed_on: u64,
    gap: Option<Gap>,
    /// The end of a connection could not be reported.
    end_lost: bool,
    open: HashSet<u64>,
    /// Commands whose marks are still to be written.
    marks: Vec<u64>,
}

/// An entry of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Opened {
        connection: u64,
        at_us: i64,
        client: &'a str,
        from_the_start: bool,
    },
    /// Login of a connection whose beginning the source did not see.
    Login {
        connection: u64,
        login: Login<'a>,
    },
    Bytes {
        connection: u64,
        side: Side,
        at_us: i64,
        bytes: &'a [u8],
    },
    Lost {
        connection: u64,
        side: Side,
        at_us: i64,
        from_us: i64,
        bytes: u64,
    },
    Closed {
        connection: u64,
        at_us: i64,
    },
    /// Copies were dropped; the next bytes of each connection state how many of it.
    Gap(Gap),
    /// The ends of some connections could not be reported: these are all existing ones.
    Alive {
        at_us: i64,
        connections: Ids<'a>,
    },
    /// All traffic before a command precedes this mark.
    Mark {
        command: u64,
        at_us: i64,
        totals: Totals,
    },
}

/// Numbers of eight bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ids<'a>(&'a [u8]);

impl Ids<'_> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.chunks_exact(8).map(read_number)
    }
}

const OPENED: u8 = 0;
const OPENED_LATE: u8 = 1;
const CLIENT_BYTES: u8 = 2;
const SERVER_BYTES: u8 = 3;
const CLIENT_LOST: u8 = 4;
const SERVER_LOST: u8 = 5;
const CLOSED: u8 = 6;
const GAP: u8 = 7;
const ALIVE: u8 = 8;
const MARK: u8 = 9;
const LOGIN: u8 = 10;

/// Length of a kind, a connection, a time and a length.
const HEADER_BYTES: usize = 25;

fn read_number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// Reads the fields of a login, none of which can have a zero byte.
fn read_login(body: &[u8]) -> Login<'_> {
    let mut fields = std::str::from_utf8(body).unwrap_or_default().split('\0');
    let mut next = || fields.next().unwrap_or_default();
    Login {
        database: next(),
        user: next(),
        application: next(),
    }
}

fn side_index(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

impl MirrorQueue {
    pub(crate) fn new(
        source: usize,
        chunks: Sender<Chunk>,
        free: Receiver<Vec<u8>>,
        state: Arc<MirrorState>,
    ) -> Self {
        MirrorQueue {
            source,
            chunk: Vec::new(),
            chunks,
            free,
            state,
            handed_on: 0,
            gap: None,
            end_lost: false,
            open: HashSet::new(),
            marks: Vec::new(),
        }
    }

    fn is_off(&self) -> bool {
        self.state.off.load(Ordering::Relaxed)
    }

    /// Reports a connection, whose first bytes come next.
    pub fn add_opened(
        &mut self,
        mirrored: &mut MirroredConnection,
        connection: u64,
        at_us: i64,
        client: &str,
    ) {
        if self.is_off() || !self.has_room(at_us) {
            return;
        }
        self.push(OPENED, connection, at_us, client.as_bytes());
        self.open.insert(connection);
        mirrored.announced = true;
    }

    /// Reports a connection that existed before the source saw it, and its login as far as it is known.
    pub fn add_opened_before(
        &mut self,
        mirrored: &mut MirroredConnection,
        (connection, client): (u64, &str),
        at_us: i64,
        login: Option<Login<'_>>,
    ) {
        if self.is_off() || !self.has_room(at_us) {
            return;
        }
        self.report_losses(mirrored, connection, client, Side::Client, at_us);
        if let Some(login) = login {
            let fields = [login.database, login.user, login.application];
            self.push(LOGIN, connection, at_us, fields.join("\0").as_bytes());
        }
    }

    /// Reports bytes of one side that the source itself has lost, between its last bytes at `from_us` and `at_us`. They are
    /// lost to this connection; [`Self::add_gap`] counts them.
    pub fn add_lost(
        &mut self,
        mirrored: &mut MirroredConnection,
        (connection, client): (u64, &str),
        side: Side,
        (from_us, at_us): (i64, i64),
        bytes: u64,
    ) {
        let lost = &mut mirrored.lost[side_index(side)];
        if lost.bytes == 0 {
            lost.from_us = from_us;
        }
        lost.bytes += bytes;
        if !self.is_off() && self.has_room(at_us) {
            self.report_losses(mirrored, connection, client, side, at_us);
        }
    }

    /// Counts bytes that the source itself has lost in a time range.
    pub fn add_gap(&mut self, (from_us, to_us): (i64, i64), bytes: u64) {
        let gap = self.gap.get_or_insert(Gap {
            from_us,
            to_us,
            bytes: 0,
        });
        gap.from_us = gap.from_us.min(from_us);
        gap.to_us = gap.to_us.max(to_us);
        gap.bytes += bytes;
        self.state.lost_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns whether the next entry is dropped, since the capture does not keep up.
    pub fn is_full(&self) -> bool {
        !self.is_off() && self.chunk.len() >= CHUNK_BYTES && self.chunks.is_full()
    }

    /// Copies bytes of one side.
    #[inline]
    pub fn add_bytes(
        &mut self,
        mirrored: &mut MirroredConnection,
        (connection, client): (u64, &str),
        side: Side,
        at_us: i64,
        bytes: &[u8],
    ) {
        if self.is_off() {
            return;
        }
        if !self.has_room(at_us) {
            self.count_loss(mirrored, side, at_us, bytes.len() as u64);
            return;
        }
        if !mirrored.announced || mirrored.lost[side_index(side)].bytes > 0 {
            self.report_losses(mirrored, connection, client, side, at_us);
        }
        let kind = match side {
            Side::Client => CLIENT_BYTES,
            Side::Server => SERVER_BYTES,
        };
        self.push(kind, connection, at_us, bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.send_chunk();
        }
    }

    #[cold]
    fn count_loss(
        &mut self,
        mirrored: &mut MirroredConnection,
        side: Side,
        at_us: i64,
        bytes: u64,
    ) {
        let lost = &mut mirrored.lost[side_index(side)];
        if lost.bytes == 0 {
            lost.from_us = at_us;
        }
        lost.bytes += bytes;
        let gap = self.gap.get_or_insert(Gap {
            from_us: at_us,
            to_us: at_us,
            bytes: 0,
        });
        gap.to_us = at_us;
        gap.bytes += bytes;
        self.state.lost_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    #[cold]
    fn report_losses(
        &mut self,
        mirrored: &mut MirroredConnection,
        connection: u64,
        client: &str,
        side: Side,
        at_us: i64,
    ) {
        if !mirrored.announced {
            self.push(OPENED_LATE, connection, at_us, client.as_bytes());
            self.open.insert(connection);
            mirrored.announced = true;
            // Bytes before the capture knew the connection are no gap within it.
            mirrored.lost = Default::default();
            return;
        }
        let lost = std::mem::take(&mut mirrored.lost[side_index(side)]);
        let kind = match side {
            Side::Client => CLIENT_LOST,
            Side::Server => SERVER_LOST,
        };
        let mut body = [0; 16];
        body[..8].copy_from_slice(&lost.bytes.to_le_bytes());
        body[8..].copy_from_slice(&lost.from_us.to_le_bytes());
        self.push(kind, connection, at_us, &body);
    }

    /// Reports the end of a connection.
    pub fn add_closed(&mut self, mirrored: &mut MirroredConnection, connection: u64, at_us: i64) {
        let was_open = self.open.remove(&connection);
        if self.is_off() || !was_open {
            return;
        }
        if !self.has_room(at_us) {
            self.end_lost = true;
            return;
        }
        for side in [Side::Client, Side::Server] {
            if mirrored.lost[side_index(side)].bytes > 0 {
                self.report_losses(mirrored, connection, "", side, at_us);
            }
        }
        self.push(CLOSED, connection, at_us, &[]);
    }

    /// Sends everything so far, and then the mark of a command. The mark of a source's end is 0.
    pub fn add_mark(&mut self, command: u64, at_us: i64, totals: Totals) {
        self.marks.push(command);
        self.flush(at_us, totals);
    }

    /// Sends the current chunk, if there is room in the queue. `totals` are the current ones.
    pub fn flush(&mut self, at_us: i64, totals: Totals) {
        if self.is_off() {
            self.chunk.clear();
            self.marks.clear();
            return;
        }
        if self.has_room(at_us) {
            for command in std::mem::take(&mut self.marks) {
                let mut body = [0; 32];
                let numbers = totals.bytes.iter().chain(&totals.passed);
                for (place, number) in body.chunks_exact_mut(8).zip(numbers) {
                    place.copy_from_slice(&number.to_le_bytes());
                }
                self.push(MARK, command, at_us, &body);
            }
        }
        if !self.chunk.is_empty() {
            self.send_chunk();
        }
    }

    /// Returns whether unsent reports remain that would be lost at the end.
    pub fn has_unsent_reports(&self) -> bool {
        !self.is_off() && (!self.chunk.is_empty() || !self.marks.is_empty() || self.gap.is_some())
    }

    /// Returns whether an entry can be written; the first one after a gap describes the gap.
    #[inline]
    fn has_room(&mut self, at_us: i64) -> bool {
        if self.chunk.len() >= CHUNK_BYTES && !self.send_chunk() {
            return false;
        }
        if self.gap.is_some() || self.end_lost {
            self.report_gap(at_us);
        }
        true
    }

    #[cold]
    fn report_gap(&mut self, at_us: i64) {
        if let Some(gap) = self.gap.take() {
            let mut body = [0; 16];
            body[..8].copy_from_slice(&gap.to_us.to_le_bytes());
            body[8..].copy_from_slice(&gap.bytes.to_le_bytes());
            self.push(GAP, 0, gap.from_us, &body);
        }
        if std::mem::take(&mut self.end_lost) {
            let ids: Vec<u8> = self.open.iter().flat_map(|id| id.to_le_bytes()).collect();
            self.push(ALIVE, 0, at_us, &ids);
        }
    }

    fn send_chunk(&mut self) -> bool {
        if self.chunks.is_full() {
            return false;
        }
        // While no chunk has been returned, there is none to exchange the full one for, and the
        // queue's length is the only limit.
        let next = self.free.try_recv().unwrap_or_default();
        let bytes = std::mem::replace(&mut self.chunk, next);
        let source = self.source;
        match self.chunks.try_send(Chunk { source, bytes }) {
            Ok(()) => {
                self.handed_on += 1;
                self.state
                    .progress
                    .store(self.handed_on * 2, Ordering::Relaxed);
                true
            }
            Err(TrySendError::Full(chunk)) => {
                self.chunk = chunk.bytes;
                false
            }
            Err(TrySendError::Disconnected(_)) => {
                self.state.off.store(true, Ordering::Relaxed);
                true
            }
        }
    }

    #[inline]
    fn push(&mut self, kind: u8, connection: u64, at_us: i64, body: &[u8]) {
        if self.chunk.is_empty() {
            if self.chunk.capacity() == 0 {
                self.chunk.reserve(CHUNK_BYTES + CHUNK_BYTES / 2);
            }
            self.state
                .progress
                .store(self.handed_on * 2 + 1, Ordering::Relaxed);
        }
        let mut header = [0; HEADER_BYTES];
        header[0] = kind;
        header[1..9].copy_from_slice(&connection.to_le_bytes());
        header[9..17].copy_from_slice(&at_us.to_le_bytes());
        header[17..].copy_from_slice(&(body.len() as u64).to_le_bytes());
        self.chunk.extend_from_slice(&header);
        self.chunk.extend_from_slice(body);
    }
}

/// Returns the entries of a chunk in order.
pub(crate) fn records(mut chunk: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let (header, rest) = chunk.split_at_checked(HEADER_BYTES)?;
        let connection = read_number(&header[1..9]);
        let at_us = read_number(&header[9..17]) as i64;
        let (body, rest) = rest.split_at(read_number(&header[17..]) as usize);
        chunk = rest;
        let side = match header[0] {
            CLIENT_BYTES | CLIENT_LOST => Side::Client,
            _ => Side::Server,
        };
        Some(match header[0] {
            kind @ (OPENED | OPENED_LATE) => Record::Opened {
                connection,
                at_us,
                client: std::str::from_utf8(body).unwrap_or_default(),
                from_the_start: kind == OPENED,
            },
            CLIENT_BYTES | SERVER_BYTES => Record::Bytes {
                connection,
                side,
                at_us,
                bytes: body,
            },
            CLIENT_LOST | SERVER_LOST => Record::Lost {
                connection,
                side,
                at_us,
                from_us: read_number(&body[8..]) as i64,
                bytes: read_number(&body[..8]),
            },
            LOGIN => Record::Login {
                connection,
                login: read_login(body),
            },
            CLOSED => Record::Closed { connection, at_us },
            GAP => Record::Gap(Gap {
                from_us: at_us,
                to_us: read_number(&body[..8]) as i64,
                bytes: read_number(&body[8..]),
            }),
            ALIVE => Record::Alive {
                at_us,
                connections: Ids(body),
            },
            _ => Record::Mark {
                command: connection,
                at_us,
                totals: Totals {
                    bytes: [read_number(&body[..8]), read_number(&body[8..16])],
                    passed: [read_number(&body[16..24]), read_number(&body[24..])],
                },
            },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{bounded, unbounded};

    fn mirror(room: usize) -> (MirrorQueue, Receiver<Chunk>, Arc<MirrorState>) {
        let (chunks, received) = bounded(room);
        let (_, free) = unbounded();
        let state = Arc::new(MirrorState::default());
        (
            MirrorQueue::new(3, chunks, free, state.clone()),
            received,
            state,
        )
    }

    #[test]
    fn what_is_put_down_is_read_as_it_was() {
        let (mut mirror, received, state) = mirror(4);
        let mut mirrored = MirroredConnection::default();
        mirror.add_opened(&mut mirrored, 7, 10, "127.0.0.1:5");
        assert_eq!(state.progress(), 1);
        mirror.add_bytes(&mut mirrored, (7, ""), Side::Client, 11, b"ask");
        mirror.add_bytes(&mut mirrored, (7, ""), Side::Server, 12, b"");
        mirror.add_closed(&mut mirrored, 7, 13);
        let totals = Totals {
            bytes: [3, 0],
            passed: [1, 2],
        };
        mirror.add_mark(99, 14, totals);
        assert_eq!(state.progress(), 2);
        let chunk = received.try_recv().unwrap();
        assert_eq!(chunk.source, 3);
        let found: Vec<Record<'_>> = records(&chunk.bytes).collect();
        let bytes = |side, at_us, bytes| Record::Bytes {
            connection: 7,
            side,
            at_us,
            bytes,
        };
        let expected = [
            Record::Opened {
                connection: 7,
                at_us: 10,
                client: "127.0.0.1:5",
                from_the_start: true,
            },
            bytes(Side::Client, 11, b"ask"),
            bytes(Side::Server, 12, b""),
            Record::Closed {
                connection: 7,
                at_us: 13,
            },
            Record::Mark {
                command: 99,
                at_us: 14,
                totals,
            },
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_finds_no_room_is_told_when_there_is_some() {
        let (mut mirror, received, state) = mirror(1);
        let piece = vec![b'x'; CHUNK_BYTES];
        let (mut first, mut second) =
            (MirroredConnection::default(), MirroredConnection::default());
        mirror.add_opened(&mut first, 1, 1, "a");
        mirror.add_opened(&mut second, 2, 1, "b");
        // One in the queue, one being filled: then there is no room.
        mirror.add_bytes(&mut first, (1, "a"), Side::Client, 2, &piece);
        mirror.add_bytes(&mut first, (1, "a"), Side::Client, 3, &piece);
        mirror.add_bytes(&mut first, (1, "a"), Side::Client, 4, b"lost");
        mirror.add_bytes(&mut first, (1, "a"), Side::Server, 6, b"lost, too");
        mirror.add_closed(&mut second, 2, 7);
        let mut third = MirroredConnection::default();
        mirror.add_opened(&mut third, 3, 8, "c");
        mirror.add_mark(5, 8, Totals::default());
        assert!(mirror.has_unsent_reports());
        assert_eq!(state.lost_bytes.load(Ordering::Relaxed), 13);

        drop(received.try_recv().unwrap());
        mirror.add_bytes(&mut first, (1, "a"), Side::Client, 9, b"again");
        drop(received.try_recv().unwrap());
        mirror.add_bytes(&mut third, (3, "c"), Side::Server, 10, b"late");
        mirror.flush(11, Totals::default());
        let chunk = received.try_recv().unwrap();
        let found: Vec<Record<'_>> = records(&chunk.bytes).collect();
        assert_eq!(
            found[0],
            Record::Gap(Gap {
                from_us: 4,
                to_us: 6,
                bytes: 13
            })
        );
        let Record::Alive { connections, .. } = found[1] else {
            panic!("{found:?}")
        };
        assert_eq!(connections.iter().collect::<Vec<_>>(), [1]);
        assert_eq!(
            found[2],
            Record::Lost {
                connection: 1,
                side: Side::Client,
                at_us: 9,
                from_us: 4,
                bytes: 4
            }
        );
        assert!(matches!(
            found[3],
            Record::Bytes {
                bytes: b"again",
                ..
            }
        ));
        assert_eq!(
            found[4],
            Record::Opened {
                connection: 3,
                at_us: 10,
                client: "c",
                from_the_start: false
            }
        );
        assert!(matches!(found[5], Record::Bytes { bytes: b"late", .. }));
        assert!(matches!(found[6], Record::Mark { command: 5, .. }));
        assert_eq!(found.len(), 7);
        assert!(!mirror.has_unsent_reports());
    }

    #[test]
    fn where_nobody_reads_nothing_is_kept() {
        let (mut mirror, received, state) = mirror(1);
        drop(received);
        let mut mirrored = MirroredConnection::default();
        mirror.add_opened(&mut mirrored, 1, 1, "a");
        let piece = vec![b'x'; CHUNK_BYTES];
        for at_us in 0..100 {
            mirror.add_bytes(&mut mirrored, (1, "a"), Side::Client, at_us, &piece);
        }
        assert!(state.off.load(Ordering::Relaxed));
        assert!(mirror.chunk.capacity() <= 3 * CHUNK_BYTES && !mirror.has_unsent_reports());
    }
}
