//! What passes is copied into pieces of memory, which go to the capture thread when they are full
//! or some time old. A forwarder never waits for that thread: where no piece can be handed on, the
//! copy is dropped, and the capture is told of it as soon as there is room again.
//!
//! A piece is handed on by the forwarder when it is full, and where little passes when the capture
//! thread asks for it: so the forwarder needs no timer, and no thread is woken for a statement.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, TrySendError};

use capture_wire::conversation::Side;

/// A piece is handed on when it has so many bytes. It may become longer by one read.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Pieces of one forwarder, on their way.
pub(super) struct Chunk {
    pub(super) forwarder: usize,
    pub(super) bytes: Vec<u8>,
}

/// What the capture thread and a forwarder know of each other.
#[derive(Debug, Default)]
pub(super) struct TapState {
    /// Twice the pieces handed on, and 1 more where there is an unfinished one.
    progress: AtomicU64,
    /// Bytes that were dropped.
    pub(super) lost_bytes: AtomicU64,
    /// Nobody reads any more: nothing is copied.
    pub(super) off: AtomicBool,
}

impl TapState {
    pub(super) fn progress(&self) -> u64 {
        self.progress.load(Ordering::Relaxed)
    }
}

/// What the tap remembers of a connection.
#[derive(Debug, Default)]
pub(super) struct Track {
    /// The capture knows of it.
    announced: bool,
    /// Bytes of each side that were dropped since the last that were not.
    lost: [u64; 2],
}

/// A forwarder's totals, as they stand at a mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Bytes read of clients, and of servers, from the start-up packet on.
    pub(super) bytes: [u64; 2],
    /// Those of them on connections that are passed on without capture.
    pub(super) passed: [u64; 2],
}

/// A stretch of time in which copies were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) from_us: i64,
    pub(super) to_us: i64,
    pub(super) bytes: u64,
}

/// Copies for the capture. One for each forwarder.
pub(super) struct Tap {
    forwarder: usize,
    chunk: Vec<u8>,
    chunks: Sender<Chunk>,
    free: Receiver<Vec<u8>>,
    state: Arc<TapState>,
    handed_on: u64,
    gap: Option<Gap>,
    /// The end of a connection could not be told.
    end_lost: bool,
    open: HashSet<u64>,
    /// Commands that have yet to be put down.
    marks: Vec<u64>,
}

/// One thing in a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Opened {
        connection: u64,
        at_us: i64,
        client: &'a str,
        from_the_start: bool,
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
        bytes: u64,
    },
    Closed {
        connection: u64,
        at_us: i64,
    },
    /// Copies were dropped; which connections it concerns comes with their next bytes.
    Gap(Gap),
    /// The ends of some connections could not be told: these are all that are left.
    Alive {
        at_us: i64,
        connections: Ids<'a>,
    },
    /// All that was before a command is before it here.
    Mark {
        command: u64,
        at_us: i64,
        totals: Totals,
    },
}

/// Numbers, eight bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ids<'a>(&'a [u8]);

impl Ids<'_> {
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.chunks_exact(8).map(number)
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

/// A kind, a connection, a time and a length.
const HEADER_BYTES: usize = 25;

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn place(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

impl Tap {
    pub(super) fn new(
        forwarder: usize,
        chunks: Sender<Chunk>,
        free: Receiver<Vec<u8>>,
        state: Arc<TapState>,
    ) -> Self {
        Tap {
            forwarder,
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

    /// A connection begins, whose first bytes come next.
    pub(super) fn opened(&mut self, track: &mut Track, connection: u64, at_us: i64, client: &str) {
        if self.is_off() || !self.has_room(at_us) {
            return;
        }
        self.push(OPENED, connection, at_us, client.as_bytes());
        self.open.insert(connection);
        track.announced = true;
    }

    /// One side has sent something.
    #[inline]
    pub(super) fn bytes(
        &mut self,
        track: &mut Track,
        (connection, client): (u64, &str),
        side: Side,
        at_us: i64,
        bytes: &[u8],
    ) {
        if self.is_off() {
            return;
        }
        if !self.has_room(at_us) {
            self.lose(track, side, at_us, bytes.len() as u64);
            return;
        }
        if !track.announced || track.lost[place(side)] > 0 {
            self.catch_up(track, connection, client, side, at_us);
        }
        let kind = match side {
            Side::Client => CLIENT_BYTES,
            Side::Server => SERVER_BYTES,
        };
        self.push(kind, connection, at_us, bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.hand_on();
        }
    }

    #[cold]
    fn lose(&mut self, track: &mut Track, side: Side, at_us: i64, bytes: u64) {
        track.lost[place(side)] += bytes;
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
    fn catch_up(
        &mut self,
        track: &mut Track,
        connection: u64,
        client: &str,
        side: Side,
        at_us: i64,
    ) {
        if !track.announced {
            self.push(OPENED_LATE, connection, at_us, client.as_bytes());
            self.open.insert(connection);
            track.announced = true;
            // What it said before it was known of is nothing that is missing in between.
            track.lost = [0; 2];
            return;
        }
        let lost = std::mem::take(&mut track.lost[place(side)]);
        let kind = match side {
            Side::Client => CLIENT_LOST,
            Side::Server => SERVER_LOST,
        };
        self.push(kind, connection, at_us, &lost.to_le_bytes());
    }

    /// A connection has ended.
    pub(super) fn closed(&mut self, track: &mut Track, connection: u64, at_us: i64) {
        let was_open = self.open.remove(&connection);
        if self.is_off() || !was_open {
            return;
        }
        if !self.has_room(at_us) {
            self.end_lost = true;
            return;
        }
        for side in [Side::Client, Side::Server] {
            if track.lost[place(side)] > 0 {
                self.catch_up(track, connection, "", side, at_us);
            }
        }
        self.push(CLOSED, connection, at_us, &[]);
    }

    /// All until now is handed on, and behind it that a command was given.
    pub(super) fn mark(&mut self, command: u64, at_us: i64, totals: Totals) {
        self.marks.push(command);
        self.hand_on_all(at_us, totals);
    }

    /// Hands on what there is, as far as there is room. `totals` are those of now.
    pub(super) fn hand_on_all(&mut self, at_us: i64, totals: Totals) {
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
            self.hand_on();
        }
    }

    /// Whether something waits to be handed on that only an end could still lose.
    pub(super) fn is_behind(&self) -> bool {
        !self.is_off() && (!self.chunk.is_empty() || !self.marks.is_empty() || self.gap.is_some())
    }

    /// Whether something can be put down; the first after a gap is what the gap was.
    #[inline]
    fn has_room(&mut self, at_us: i64) -> bool {
        if self.chunk.len() >= CHUNK_BYTES && !self.hand_on() {
            return false;
        }
        if self.gap.is_some() || self.end_lost {
            self.tell_gap(at_us);
        }
        true
    }

    #[cold]
    fn tell_gap(&mut self, at_us: i64) {
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

    fn hand_on(&mut self) -> bool {
        if self.chunks.is_full() {
            return false;
        }
        // As long as nobody gives one back, there is nothing that a full one could be exchanged for,
        // and the queue's length is the only limit.
        let next = self.free.try_recv().unwrap_or_default();
        let bytes = std::mem::replace(&mut self.chunk, next);
        let forwarder = self.forwarder;
        match self.chunks.try_send(Chunk { forwarder, bytes }) {
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

/// The things in a piece, in order.
pub(super) fn records(mut chunk: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        let (header, rest) = chunk.split_at_checked(HEADER_BYTES)?;
        let connection = number(&header[1..9]);
        let at_us = number(&header[9..17]) as i64;
        let (body, rest) = rest.split_at(number(&header[17..]) as usize);
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
                bytes: number(body),
            },
            CLOSED => Record::Closed { connection, at_us },
            GAP => Record::Gap(Gap {
                from_us: at_us,
                to_us: number(&body[..8]) as i64,
                bytes: number(&body[8..]),
            }),
            ALIVE => Record::Alive {
                at_us,
                connections: Ids(body),
            },
            _ => Record::Mark {
                command: connection,
                at_us,
                totals: Totals {
                    bytes: [number(&body[..8]), number(&body[8..16])],
                    passed: [number(&body[16..24]), number(&body[24..])],
                },
            },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{bounded, unbounded};

    fn tap(room: usize) -> (Tap, Receiver<Chunk>, Arc<TapState>) {
        let (chunks, received) = bounded(room);
        let (_, free) = unbounded();
        let state = Arc::new(TapState::default());
        (Tap::new(3, chunks, free, state.clone()), received, state)
    }

    #[test]
    fn what_is_put_down_is_read_as_it_was() {
        let (mut tap, received, state) = tap(4);
        let mut track = Track::default();
        tap.opened(&mut track, 7, 10, "127.0.0.1:5");
        assert_eq!(state.progress(), 1);
        tap.bytes(&mut track, (7, ""), Side::Client, 11, b"ask");
        tap.bytes(&mut track, (7, ""), Side::Server, 12, b"");
        tap.closed(&mut track, 7, 13);
        let totals = Totals {
            bytes: [3, 0],
            passed: [1, 2],
        };
        tap.mark(99, 14, totals);
        assert_eq!(state.progress(), 2);
        let chunk = received.try_recv().unwrap();
        assert_eq!(chunk.forwarder, 3);
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
        let (mut tap, received, state) = tap(1);
        let piece = vec![b'x'; CHUNK_BYTES];
        let (mut first, mut second) = (Track::default(), Track::default());
        tap.opened(&mut first, 1, 1, "a");
        tap.opened(&mut second, 2, 1, "b");
        // One in the queue, one in the hand: then there is no room.
        tap.bytes(&mut first, (1, "a"), Side::Client, 2, &piece);
        tap.bytes(&mut first, (1, "a"), Side::Client, 3, &piece);
        tap.bytes(&mut first, (1, "a"), Side::Client, 4, b"lost");
        tap.bytes(&mut first, (1, "a"), Side::Server, 6, b"lost, too");
        tap.closed(&mut second, 2, 7);
        let mut third = Track::default();
        tap.opened(&mut third, 3, 8, "c");
        tap.mark(5, 8, Totals::default());
        assert!(tap.is_behind());
        assert_eq!(state.lost_bytes.load(Ordering::Relaxed), 13);

        drop(received.try_recv().unwrap());
        tap.bytes(&mut first, (1, "a"), Side::Client, 9, b"again");
        drop(received.try_recv().unwrap());
        tap.bytes(&mut third, (3, "c"), Side::Server, 10, b"late");
        tap.hand_on_all(11, Totals::default());
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
        assert!(!tap.is_behind());
    }

    #[test]
    fn where_nobody_reads_nothing_is_kept() {
        let (mut tap, received, state) = tap(1);
        drop(received);
        let mut track = Track::default();
        tap.opened(&mut track, 1, 1, "a");
        let piece = vec![b'x'; CHUNK_BYTES];
        for at_us in 0..100 {
            tap.bytes(&mut track, (1, "a"), Side::Client, at_us, &piece);
        }
        assert!(state.off.load(Ordering::Relaxed));
        assert!(tap.chunk.capacity() <= 3 * CHUNK_BYTES && !tap.is_behind());
    }
}
