//! Tracks one side of a connection: its position, and its waiting pieces.
//!
//! Positions count a side's sequence numbers from the first known one, without wrapping. FIN has a
//! sequence number of its own, so it is a piece of length one without bytes.

use std::collections::BTreeMap;

/// Overhead of a piece, in bytes: approximate size of its map entry and allocation.
const PIECE_OVERHEAD_BYTES: usize = 128;

/// A waiting piece.
#[derive(Debug)]
pub(super) struct Piece {
    pub what: OwnedContent,
    pub seen: SegmentInfo,
}

/// Content of a piece.
#[derive(Debug, Clone, Copy)]
pub(super) enum PieceContent<'a> {
    Bytes(&'a [u8]),
    /// Number of bytes that the snap length cut off.
    Cut(i64),
    End,
}

/// Owned content of a piece.
#[derive(Debug)]
pub(super) enum OwnedContent {
    Bytes(Box<[u8]>),
    Cut(i64),
    End,
}

/// The segment that brought a piece.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentInfo {
    pub at_us: i64,
    /// Number of the packet.
    pub place: u64,
    /// Number of the segment within its connection.
    pub nth: u64,
    /// Position of the other side that this segment acknowledges.
    pub needs: i64,
}

impl PieceContent<'_> {
    pub(super) fn length(self) -> i64 {
        match self {
            PieceContent::Bytes(bytes) => bytes.len() as i64,
            PieceContent::Cut(length) => length,
            PieceContent::End => 1,
        }
    }

    /// Returns the part from `from` to `to`.
    pub(super) fn part(self, from: i64, to: i64) -> Self {
        match self {
            PieceContent::Bytes(bytes) => PieceContent::Bytes(&bytes[from as usize..to as usize]),
            PieceContent::Cut(_) => PieceContent::Cut(to - from),
            PieceContent::End => PieceContent::End,
        }
    }

    /// Number of captured bytes.
    pub(super) fn bytes(self) -> u64 {
        match self {
            PieceContent::Bytes(bytes) => bytes.len() as u64,
            _ => 0,
        }
    }
}

impl OwnedContent {
    pub(super) fn as_content(&self) -> PieceContent<'_> {
        match self {
            OwnedContent::Bytes(bytes) => PieceContent::Bytes(bytes),
            OwnedContent::Cut(length) => PieceContent::Cut(*length),
            OwnedContent::End => PieceContent::End,
        }
    }

    pub(super) fn cost(&self) -> usize {
        PIECE_OVERHEAD_BYTES
            + match self {
                OwnedContent::Bytes(bytes) => bytes.len(),
                _ => 0,
            }
    }
}

/// One side of a connection.
#[derive(Debug, Default)]
pub(super) struct HalfStream {
    /// Sequence number of position 0, once one is known.
    pub base: Option<u32>,
    /// Next position: everything before was passed on, or was lost.
    pub next: i64,
    /// Acknowledged position: the other side has everything before.
    pub acknowledged: i64,
    /// Number and time of the segment with which the acknowledged position passed [`Self::next`].
    pub acknowledged_nth: u64,
    pub acknowledged_us: i64,
    /// It has sent FIN, and all data before that was passed on.
    pub ended: bool,
    /// Waiting pieces by position; they do not overlap.
    pub pieces: BTreeMap<i64, Piece>,
}

impl HalfStream {
    /// Sets the initial sequence number, if there is none.
    pub(super) fn begin(&mut self, sequence: u32) {
        self.base.get_or_insert(sequence);
    }

    /// Returns the position of a sequence number: the one nearest to the next expected one.
    pub(super) fn position(&self, sequence: u32) -> i64 {
        let next = self.base.unwrap_or(sequence).wrapping_add(self.next as u32);
        self.next + i64::from(sequence.wrapping_sub(next) as i32)
    }

    /// Returns the next expected sequence number.
    pub(super) fn next_sequence(&self) -> u32 {
        self.base.unwrap_or(0).wrapping_add(self.next as u32)
    }

    /// Returns the first waiting piece.
    pub(super) fn first(&self) -> Option<(i64, &Piece)> {
        self.pieces
            .first_key_value()
            .map(|(at, piece)| (*at, piece))
    }

    /// Keeps the new part of a piece after [`Self::next`]; earlier data takes precedence. Returns
    /// its size including overhead, and the number of duplicate bytes.
    pub(super) fn keep(
        &mut self,
        at: i64,
        saying: PieceContent<'_>,
        seen: SegmentInfo,
    ) -> (usize, u64) {
        let end = at + saying.length();
        let (mut cursor, mut cost, mut known) = (at, 0, 0);
        while cursor < end {
            let before = self.pieces.range(..=cursor).next_back();
            let covered =
                before.map_or(cursor, |(at, piece)| at + piece.what.as_content().length());
            let stop = match covered > cursor {
                true => covered.min(end),
                false => {
                    let next_piece = self.pieces.range(cursor + 1..).next();
                    next_piece.map_or(end, |(at, _)| (*at).min(end))
                }
            };
            let part = saying.part(cursor - at, stop - at);
            if covered > cursor {
                known += part.bytes();
            } else {
                let what = match part {
                    PieceContent::Bytes(bytes) => OwnedContent::Bytes(bytes.into()),
                    PieceContent::Cut(length) => OwnedContent::Cut(length),
                    PieceContent::End => OwnedContent::End,
                };
                cost += what.cost();
                self.pieces.insert(cursor, Piece { what, seen });
            }
            cursor = stop;
        }
        (cost, known)
    }
}
