//! What one side of a connection said, as far as its packets came: where it stands, and what waits.
//!
//! Positions count a side's sequence numbers from the first that was met, without wrapping. The end
//! of a side (FIN) has a number of its own, so it is a piece of length one that has no bytes.

use std::collections::BTreeMap;

/// What a piece costs beside its bytes: about what the map and the allocation take.
const PIECE_COST: usize = 128;

/// A piece that waits.
#[derive(Debug)]
pub(super) struct Piece {
    pub what: What,
    pub seen: Seen,
}

/// What a piece is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Saying<'a> {
    Bytes(&'a [u8]),
    /// So many that the snap length cut off.
    Cut(i64),
    End,
}

/// The same, of its own.
#[derive(Debug)]
pub(super) enum What {
    Bytes(Box<[u8]>),
    Cut(i64),
    End,
}

/// The segment that brought a piece.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub at_us: i64,
    /// The packet's number.
    pub place: u64,
    /// The how many-eth segment of its connection.
    pub nth: u64,
    /// What the other side had said before it, as this segment acknowledges.
    pub needs: i64,
}

impl Saying<'_> {
    pub(super) fn length(self) -> i64 {
        match self {
            Saying::Bytes(bytes) => bytes.len() as i64,
            Saying::Cut(length) => length,
            Saying::End => 1,
        }
    }

    /// The part from `from` to `to`.
    pub(super) fn part(self, from: i64, to: i64) -> Self {
        match self {
            Saying::Bytes(bytes) => Saying::Bytes(&bytes[from as usize..to as usize]),
            Saying::Cut(_) => Saying::Cut(to - from),
            Saying::End => Saying::End,
        }
    }

    /// Bytes that are there.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Saying::Bytes(bytes) => bytes.len() as u64,
            _ => 0,
        }
    }
}

impl What {
    pub(super) fn saying(&self) -> Saying<'_> {
        match self {
            What::Bytes(bytes) => Saying::Bytes(bytes),
            What::Cut(length) => Saying::Cut(*length),
            What::End => Saying::End,
        }
    }

    pub(super) fn cost(&self) -> usize {
        PIECE_COST
            + match self {
                What::Bytes(bytes) => bytes.len(),
                _ => 0,
            }
    }
}

/// One side.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// The sequence number of position 0, once one was met.
    pub base: Option<u32>,
    /// Everything before was handed on, or was lost.
    pub next: i64,
    /// The other side has everything before.
    pub acknowledged: i64,
    /// With which segment of the connection that came to lie behind [`Self::next`], and when.
    pub acknowledged_nth: u64,
    pub acknowledged_us: i64,
    /// It has said that it ends, and all before that was handed on.
    pub ended: bool,
    /// What waits, by position; they do not overlap.
    pub pieces: BTreeMap<i64, Piece>,
}

impl Direction {
    /// Begins at a sequence number, if it has not begun.
    pub(super) fn begin(&mut self, sequence: u32) {
        self.base.get_or_insert(sequence);
    }

    /// Where a sequence number lies: the place nearest to what comes next.
    pub(super) fn position(&self, sequence: u32) -> i64 {
        let next = self.base.unwrap_or(sequence).wrapping_add(self.next as u32);
        self.next + i64::from(sequence.wrapping_sub(next) as i32)
    }

    /// The sequence number of what comes next.
    pub(super) fn next_sequence(&self) -> u32 {
        self.base.unwrap_or(0).wrapping_add(self.next as u32)
    }

    /// The first piece that waits.
    pub(super) fn first(&self) -> Option<(i64, &Piece)> {
        self.pieces
            .first_key_value()
            .map(|(at, piece)| (*at, piece))
    }

    /// Keeps what is new of a piece, which lies behind [`Self::next`]: what was there first stays.
    /// Says what it costs, and how many bytes were there already.
    pub(super) fn keep(&mut self, at: i64, saying: Saying<'_>, seen: Seen) -> (usize, u64) {
        let end = at + saying.length();
        let (mut cursor, mut cost, mut known) = (at, 0, 0);
        while cursor < end {
            let before = self.pieces.range(..=cursor).next_back();
            let covered = before.map_or(cursor, |(at, piece)| at + piece.what.saying().length());
            let stop = match covered > cursor {
                true => covered.min(end),
                false => {
                    let behind = self.pieces.range(cursor + 1..).next();
                    behind.map_or(end, |(at, _)| (*at).min(end))
                }
            };
            let part = saying.part(cursor - at, stop - at);
            if covered > cursor {
                known += part.bytes();
            } else {
                let what = match part {
                    Saying::Bytes(bytes) => What::Bytes(bytes.into()),
                    Saying::Cut(length) => What::Cut(length),
                    Saying::End => What::End,
                };
                cost += what.cost();
                self.pieces.insert(cursor, Piece { what, seen });
            }
            cursor = stop;
        }
        (cost, known)
    }
}
