//! Reassembles one TCP connection: segments of both sides in, bytes of both sides in the order in
//! which they were sent out.
//!
//! Within a side, sequence numbers give the order. Between the sides, acknowledgements do: the
//! sender of a segment has received all that it acknowledges, so that must be passed on first, even
//! if the file has the packets in another order. Missing data that TCP itself does not wait for,
//! since the other side has it, was lost by the capture. A loss is declared after
//! [`REORDERING_SEGMENTS_MAX`] or [`REORDERING_US_MAX`], or if more than [`HELD_MAX`] waits.
//!
//! TCP's windows, selective acknowledgements and timestamps are ignored; nothing is sent here.

use std::net::SocketAddr;

use super::half_stream::{HalfStream, PieceContent, SegmentInfo};
use crate::conversation::Side;
use capture_sink::SinkError;

/// Maximum reordering of a connection's packets, in segments.
pub(super) const REORDERING_SEGMENTS_MAX: u64 = 128;

/// Maximum reordering of a connection's packets, in microseconds.
pub(super) const REORDERING_US_MAX: i64 = 1_000_000;

/// Maximum waiting data of one connection, in bytes: more than TCP's usual window.
pub(super) const HELD_MAX: usize = 8 << 20;

/// Maximum distance ahead of the expected sequence number. A TCP window is at most this large (RFC
/// 7323), so segments farther ahead belong to another connection.
const AHEAD_MAX: i64 = 1 << 30;

/// Maximum distance of a retransmission back from the expected sequence number. Segments farther
/// back belong to another connection, whose beginning was lost.
const RETRANSMISSION_MAX: i64 = 16 << 20;

/// Receives the reassembled bytes. Times are in microseconds since 1970-01-01 UTC and never
/// decrease within a connection.
pub(super) trait StreamListener {
    fn opened(&mut self, connection: u64, client: SocketAddr, at_us: i64, from_the_start: bool);
    fn bytes(
        &mut self,
        connection: u64,
        side: Side,
        at_us: i64,
        place: u64,
        bytes: &[u8],
    ) -> Result<(), SinkError>;
    fn lost(
        &mut self,
        connection: u64,
        side: Side,
        at_us: i64,
        bytes: u64,
    ) -> Result<(), SinkError>;
    fn closed(&mut self, connection: u64, at_us: i64) -> Result<(), SinkError>;
}

/// Number of bytes of payload, by their use. `captured_bytes` = `delivered_bytes` +
/// `retransmitted_bytes` + `after_the_end_bytes`, once nothing waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ByteCounts {
    pub captured: u64,
    pub delivered: u64,
    pub retransmitted: u64,
    pub after_the_end: u64,
    pub lost: u64,
    pub gaps: u64,
    /// Number of segments that had to wait.
    pub waited: u64,
    /// Size of the waiting data, including its overhead.
    pub held: usize,
}

/// A segment of the connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionSegment<'a> {
    pub side: Side,
    /// Sequence number of the first byte of payload.
    pub sequence: u32,
    pub acknowledges: Option<u32>,
    pub payload: &'a [u8],
    pub cut: u32,
    pub fin: bool,
    pub reset: bool,
    pub at_us: i64,
    pub place: u64,
}

/// Effect of a segment on its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentOutcome {
    GoesOn,
    /// The connection has ended; none of its data waits.
    Closed,
    /// The segment was not used: it belongs to another connection with the same addresses.
    OtherConnection,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub number: u64,
    client: SocketAddr,
    pub from_the_start: bool,
    /// The listener knows it.
    pub announced: bool,
    begun_us: i64,
    at_us: i64,
    segments: u64,
    held: usize,
    reset: Option<(usize, i64)>,
    /// Initial sequence number of another connection that the client may have requested since.
    pub requested_again: Option<u32>,
    sides: [HalfStream; 2],
}

fn index(side: Side) -> usize {
    match side {
        Side::Client => 0,
        Side::Server => 1,
    }
}

const SIDES: [Side; 2] = [Side::Client, Side::Server];

impl Connection {
    pub(super) fn new(number: u64, client: SocketAddr, at_us: i64, from_the_start: bool) -> Self {
        Connection {
            number,
            client,
            from_the_start,
            announced: false,
            begun_us: at_us,
            at_us,
            segments: 0,
            held: 0,
            reset: None,
            requested_again: None,
            sides: Default::default(),
        }
    }

    pub(super) fn side(&self, side: Side) -> &HalfStream {
        &self.sides[index(side)]
    }

    /// Returns whether the sequence numbers of both sides are known.
    pub(super) fn is_established(&self) -> bool {
        self.sides.iter().all(|side| side.base.is_some())
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Sets the sequence number of a side's first byte.
    pub(super) fn begin(&mut self, side: Side, sequence: u32) {
        self.sides[index(side)].begin(sequence);
    }

    /// The next expected sequence numbers, of the client and the server.
    pub(super) fn next_sequences(&self) -> [u32; 2] {
        [self.sides[0].next_sequence(), self.sides[1].next_sequence()]
    }

    /// Handles a segment.
    pub(super) fn handle_segment(
        &mut self,
        segment: &ConnectionSegment<'_>,
        bytes: &mut ByteCounts,
        listener: &mut impl StreamListener,
    ) -> Result<SegmentOutcome, SinkError> {
        let side = index(segment.side);
        let other = 1 - side;
        let carries = !segment.payload.is_empty() || segment.cut > 0;
        // If a connection is joined, this segment gives the positions of both sides.
        if carries || segment.fin {
            self.sides[side].begin(segment.sequence);
        }
        let position = self.sides[side].position(segment.sequence);
        let ahead = position - self.sides[side].next;
        if carries && !(-RETRANSMISSION_MAX..=AHEAD_MAX).contains(&ahead) {
            return Ok(SegmentOutcome::OtherConnection);
        }
        self.segments += 1;
        let mut needs = i64::MIN;
        if let Some(acknowledges) = segment.acknowledges {
            let direction = &mut self.sides[other];
            direction.begin(acknowledges);
            let position = direction.position(acknowledges);
            if (position - direction.next).abs() <= AHEAD_MAX {
                needs = position;
                if position > direction.next && direction.acknowledged <= direction.next {
                    direction.acknowledged_nth = self.segments;
                    direction.acknowledged_us = segment.at_us;
                }
                direction.acknowledged = direction.acknowledged.max(position);
            }
        }
        let seen = SegmentInfo {
            at_us: segment.at_us,
            place: segment.place,
            nth: self.segments,
            needs,
        };
        bytes.captured += segment.payload.len() as u64;
        let held = bytes.held;
        let mut at = position;
        if !segment.payload.is_empty() {
            self.accept(
                side,
                at,
                PieceContent::Bytes(segment.payload),
                seen,
                bytes,
                listener,
            )?;
            at += segment.payload.len() as i64;
        }
        if segment.cut > 0 {
            let cut = i64::from(segment.cut);
            self.accept(side, at, PieceContent::Cut(cut), seen, bytes, listener)?;
            at += cut;
        }
        if segment.fin {
            self.accept(side, at, PieceContent::End, seen, bytes, listener)?;
        }
        bytes.waited += u64::from(bytes.held > held);
        if segment.reset && self.reset.is_none() {
            let ahead = position - self.sides[side].next;
            self.reset = match ahead {
                0..=RETRANSMISSION_MAX => Some((side, position)),
                // It answers a late segment.
                i64::MIN..0 if ahead >= -RETRANSMISSION_MAX => Some((side, i64::MIN)),
                // Outside of any window: the receiver ignores it (RFC 5961, 3.2), and so does
                // this code.
                _ => None,
            };
        }
        self.drain(bytes, listener)?;
        self.declare_overdue_losses(segment.at_us, bytes, listener)?;
        let ended = self.sides[0].ended && self.sides[1].ended
            || (self.reset).is_some_and(|(side, position)| self.sides[side].next >= position);
        if ended {
            self.close(segment.at_us, bytes, listener)?;
            return Ok(SegmentOutcome::Closed);
        }
        Ok(SegmentOutcome::GoesOn)
    }

    /// Passes on the part of a segment that is in order, and keeps the rest.
    fn accept(
        &mut self,
        side: usize,
        at: i64,
        saying: PieceContent<'_>,
        seen: SegmentInfo,
        bytes: &mut ByteCounts,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        let direction = &self.sides[side];
        if direction.ended {
            match at < direction.next {
                true => bytes.retransmitted += saying.bytes(),
                false => bytes.after_the_end += saying.bytes(),
            }
            return Ok(());
        }
        let end = at + saying.length();
        if end <= direction.next {
            bytes.retransmitted += saying.bytes();
            return Ok(());
        }
        let known = (direction.next - at).max(0);
        let (at, new) = (at + known, saying.part(known, saying.length()));
        bytes.retransmitted += saying.bytes() - new.bytes();
        if at == direction.next
            && seen.needs <= self.sides[1 - side].next
            && direction.first().is_none_or(|(waiting, _)| waiting >= end)
        {
            return self.deliver(side, new, seen, bytes, listener);
        }
        let (cost, known) = self.sides[side].keep(at, new, seen);
        bytes.retransmitted += known;
        bytes.held += cost;
        self.held += cost;
        Ok(())
    }

    /// Passes on the next data of a side.
    fn deliver(
        &mut self,
        side: usize,
        saying: PieceContent<'_>,
        seen: SegmentInfo,
        bytes: &mut ByteCounts,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        self.at_us = self.at_us.max(seen.at_us);
        self.sides[side].next += saying.length();
        match saying {
            PieceContent::Bytes(segment) => {
                self.announce(listener);
                bytes.delivered += segment.len() as u64;
                listener.bytes(self.number, SIDES[side], self.at_us, seen.place, segment)
            }
            PieceContent::Cut(length) => self.report_loss(side, length, bytes, listener),
            PieceContent::End => {
                let direction = &mut self.sides[side];
                direction.ended = true;
                for piece in std::mem::take(&mut direction.pieces).into_values() {
                    bytes.after_the_end += piece.what.as_content().bytes();
                    bytes.held -= piece.what.cost();
                    self.held -= piece.what.cost();
                }
                Ok(())
            }
        }
    }

    fn announce(&mut self, listener: &mut impl StreamListener) {
        if !self.announced {
            self.announced = true;
            listener.opened(self.number, self.client, self.begun_us, self.from_the_start);
        }
    }

    fn report_loss(
        &mut self,
        side: usize,
        length: i64,
        bytes: &mut ByteCounts,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        self.announce(listener);
        bytes.lost += length as u64;
        bytes.gaps += 1;
        listener.lost(self.number, SIDES[side], self.at_us, length as u64)
    }

    /// Passes on waiting data up to the next missing byte.
    fn drain(
        &mut self,
        bytes: &mut ByteCounts,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        let mut side = 0;
        let mut idle = 0;
        while self.held > 0 && idle < 2 {
            let direction = &self.sides[side];
            let ready = direction.first().is_some_and(|(at, piece)| {
                at <= direction.next && piece.seen.needs <= self.sides[1 - side].next
            });
            match ready {
                true => {
                    self.release(side, bytes, listener)?;
                    idle = 0;
                }
                false => {
                    side = 1 - side;
                    idle += 1;
                }
            }
        }
        Ok(())
    }

    /// Passes on the first waiting piece of a side; nothing before it is missing.
    fn release(
        &mut self,
        side: usize,
        bytes: &mut ByteCounts,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        let direction = &mut self.sides[side];
        let (at, piece) = direction.pieces.pop_first().expect("there is one");
        debug_assert_eq!(at, direction.next);
        bytes.held -= piece.what.cost();
        self.held -= piece.what.cost();
        self.deliver(side, piece.what.as_content(), piece.seen, bytes, listener)
    }

    /// Declares losses that have been waited for long enough.
    fn declare_overdue_losses(
        &mut self,
        now_us: i64,
        bytes: &mut ByteCounts,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        while self.held > 0 {
            let waited = |side: usize| -> bool {
                let direction = &self.sides[side];
                let Some((at, piece)) = direction.first() else {
                    return false;
                };
                let (mut nth, mut at_us) = (piece.seen.nth, piece.seen.at_us);
                if at > direction.next {
                    // TCP will retransmit data that the other side does not have.
                    if direction.acknowledged <= direction.next {
                        return false;
                    }
                    nth = nth.max(direction.acknowledged_nth);
                    at_us = at_us.max(direction.acknowledged_us);
                }
                self.segments - nth >= REORDERING_SEGMENTS_MAX
                    || now_us - at_us >= REORDERING_US_MAX
            };
            let side = match (waited(0), waited(1)) {
                (true, true) => self.longest_waiting(),
                (true, false) => 0,
                (false, true) => 1,
                (false, false) if self.held > HELD_MAX => self.longest_waiting(),
                (false, false) => return Ok(()),
            };
            self.declare_loss(side, bytes, listener)?;
        }
        Ok(())
    }

    /// Returns the side whose first piece has waited the longest. Some piece waits.
    fn longest_waiting(&self) -> usize {
        let nth = |side: usize| {
            let first = self.sides[side].first();
            first.map_or(u64::MAX, |(_, piece)| piece.seen.nth)
        };
        usize::from(nth(1) < nth(0))
    }

    /// Declares the data lost that a side's first piece waits for, and passes on the data after it.
    fn declare_loss(
        &mut self,
        side: usize,
        bytes: &mut ByteCounts,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        let (at, piece) = self.sides[side].first().expect("something waits");
        let seen = piece.seen;
        let other = &self.sides[1 - side];
        let (missing, until) = match at > self.sides[side].next {
            true => (side, at),
            false => {
                let there = other.first().map_or(i64::MAX, |(at, _)| at);
                (1 - side, seen.needs.min(there))
            }
        };
        let length = until - self.sides[missing].next;
        if length > 0 {
            self.at_us = self.at_us.max(seen.at_us);
            self.sides[missing].next = until;
            self.report_loss(missing, length, bytes, listener)?;
        } else {
            // Each side waits for the other, which no real connection does.
            self.release(side, bytes, listener)?;
        }
        self.drain(bytes, listener)
    }

    /// Passes on all waiting data.
    pub(super) fn flush(
        &mut self,
        bytes: &mut ByteCounts,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        while self.held > 0 {
            let side = self.longest_waiting();
            self.declare_loss(side, bytes, listener)?;
        }
        Ok(())
    }

    /// Handles the end of the capture: data that was acknowledged and never seen is lost, too.
    pub(super) fn end(
        &mut self,
        bytes: &mut ByteCounts,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        self.flush(bytes, listener)?;
        for side in 0..2 {
            let direction = &mut self.sides[side];
            let length = direction.acknowledged - direction.next;
            if length > 0 && !direction.ended {
                direction.next = direction.acknowledged;
                self.report_loss(side, length, bytes, listener)?;
            }
        }
        Ok(())
    }

    /// Closes the connection.
    pub(super) fn close(
        &mut self,
        at_us: i64,
        bytes: &mut ByteCounts,
        listener: &mut impl StreamListener,
    ) -> Result<(), SinkError> {
        self.end(bytes, listener)?;
        self.at_us = self.at_us.max(at_us);
        match self.announced {
            true => listener.closed(self.number, self.at_us),
            false => Ok(()),
        }
    }
}
