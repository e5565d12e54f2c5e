//! One TCP connection: segments of both sides in, bytes of both sides in the order in which they
//! were said out.
//!
//! Within a side the sequence numbers give the order. Between the sides it is what is
//! acknowledged: who sends a segment has received all that it acknowledges, so that must be handed
//! on first, also where the file has the packets in another order. What neither comes nor is
//! waited for by TCP itself, since the other side has it, was lost by the capture: this is
//! believed after [`PATIENCE_SEGMENTS`] or [`PATIENCE_US`], or where more than [`HELD_MAX`] waits.
//!
//! Deliberately absent: windows, selective acknowledgements and times of TCP; nothing here is sent.

use std::net::SocketAddr;

use super::direction::{Direction, Saying, Seen};
use crate::conversation::Side;
use capture_sink::SinkError;

/// Packets of a connection that come in another order than they were sent lie within so many.
pub(super) const PATIENCE_SEGMENTS: u64 = 128;

/// Or within so much time, in microseconds.
pub(super) const PATIENCE_US: i64 = 1_000_000;

/// What may wait in one connection, in bytes: more than a window of TCP usually has.
pub(super) const HELD_MAX: usize = 8 << 20;

/// A window of TCP has at most so many numbers (RFC 7323): what lies farther ahead is not of this
/// connection.
const AHEAD_MAX: i64 = 1 << 30;

/// What lies farther back is no retransmission but of another connection, whose beginning was lost.
const BEHIND_MAX: i64 = 16 << 20;

/// What comes out. Times are in microseconds since 1970-01-01 UTC and never go back within a
/// connection.
pub(super) trait Heard {
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

/// Bytes of payload, by what became of them. `captured_bytes` = `delivered_bytes` +
/// `retransmitted_bytes` + `after_the_end_bytes`, once nothing waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bytes {
    pub captured: u64,
    pub delivered: u64,
    pub retransmitted: u64,
    pub after_the_end: u64,
    pub lost: u64,
    pub gaps: u64,
    /// Segments that had to wait.
    pub waited: u64,
    /// What waits now, with its cost.
    pub held: usize,
}

/// A segment of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said<'a> {
    pub side: Side,
    /// Of the first byte of payload.
    pub sequence: u32,
    pub acknowledges: Option<u32>,
    pub payload: &'a [u8],
    pub cut: u32,
    pub fin: bool,
    pub reset: bool,
    pub at_us: i64,
    pub place: u64,
}

/// What a segment did to its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    GoesOn,
    /// It has ended; nothing of it waits.
    Closed,
    /// The segment, of which nothing was taken, belongs to another with the same addresses.
    Another,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub number: u64,
    client: SocketAddr,
    pub from_the_start: bool,
    /// It was told of.
    pub told: bool,
    begun_us: i64,
    at_us: i64,
    segments: u64,
    held: usize,
    reset: Option<(usize, i64)>,
    /// The client's first number of another connection that it may have asked for since.
    pub asked_again: Option<u32>,
    sides: [Direction; 2],
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
            told: false,
            begun_us: at_us,
            at_us,
            segments: 0,
            held: 0,
            reset: None,
            asked_again: None,
            sides: Default::default(),
        }
    }

    pub(super) fn side(&self, side: Side) -> &Direction {
        &self.sides[index(side)]
    }

    /// Both sides have said, or been told, where they stand.
    pub(super) fn is_established(&self) -> bool {
        self.sides.iter().all(|side| side.base.is_some())
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// A side's first byte will have this sequence number.
    pub(super) fn begin(&mut self, side: Side, sequence: u32) {
        self.sides[index(side)].begin(sequence);
    }

    /// The sequence numbers that come next, of the client and the server.
    pub(super) fn next_sequences(&self) -> [u32; 2] {
        [self.sides[0].next_sequence(), self.sides[1].next_sequence()]
    }

    /// Takes a segment.
    pub(super) fn segment(
        &mut self,
        said: &Said<'_>,
        bytes: &mut Bytes,
        heard: &mut impl Heard,
    ) -> Result<After, SinkError> {
        let side = index(said.side);
        let other = 1 - side;
        let carries = !said.payload.is_empty() || said.cut > 0;
        // Where a connection is joined, this says where its sides stand.
        if carries || said.fin {
            self.sides[side].begin(said.sequence);
        }
        let position = self.sides[side].position(said.sequence);
        let ahead = position - self.sides[side].next;
        if carries && !(-BEHIND_MAX..=AHEAD_MAX).contains(&ahead) {
            return Ok(After::Another);
        }
        self.segments += 1;
        let mut needs = i64::MIN;
        if let Some(acknowledges) = said.acknowledges {
            let direction = &mut self.sides[other];
            direction.begin(acknowledges);
            let position = direction.position(acknowledges);
            if (position - direction.next).abs() <= AHEAD_MAX {
                needs = position;
                if position > direction.next && direction.acknowledged <= direction.next {
                    direction.acknowledged_nth = self.segments;
                    direction.acknowledged_us = said.at_us;
                }
                direction.acknowledged = direction.acknowledged.max(position);
            }
        }
        let seen = Seen {
            at_us: said.at_us,
            place: said.place,
            nth: self.segments,
            needs,
        };
        bytes.captured += said.payload.len() as u64;
        let held = bytes.held;
        let mut at = position;
        if !said.payload.is_empty() {
            self.take(side, at, Saying::Bytes(said.payload), seen, bytes, heard)?;
            at += said.payload.len() as i64;
        }
        if said.cut > 0 {
            let cut = i64::from(said.cut);
            self.take(side, at, Saying::Cut(cut), seen, bytes, heard)?;
            at += cut;
        }
        if said.fin {
            self.take(side, at, Saying::End, seen, bytes, heard)?;
        }
        bytes.waited += u64::from(bytes.held > held);
        if said.reset && self.reset.is_none() {
            let ahead = position - self.sides[side].next;
            self.reset = match ahead {
                0..=BEHIND_MAX => Some((side, position)),
                // It answers a late segment.
                i64::MIN..0 if ahead >= -BEHIND_MAX => Some((side, i64::MIN)),
                // Outside of any window: who gets it takes no notice of it (RFC 5961, 3.2), nor do we.
                _ => None,
            };
        }
        self.drain(bytes, heard)?;
        self.be_patient(said.at_us, bytes, heard)?;
        let ended = self.sides[0].ended && self.sides[1].ended
            || (self.reset).is_some_and(|(side, position)| self.sides[side].next >= position);
        if ended {
            self.close(said.at_us, bytes, heard)?;
            return Ok(After::Closed);
        }
        Ok(After::GoesOn)
    }

    /// Hands on what can be, and keeps what cannot.
    fn take(
        &mut self,
        side: usize,
        at: i64,
        saying: Saying<'_>,
        seen: Seen,
        bytes: &mut Bytes,
        heard: &mut impl Heard,
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
            return self.hand_on(side, new, seen, bytes, heard);
        }
        let (cost, known) = self.sides[side].keep(at, new, seen);
        bytes.retransmitted += known;
        bytes.held += cost;
        self.held += cost;
        Ok(())
    }

    /// What is next of a side leaves.
    fn hand_on(
        &mut self,
        side: usize,
        saying: Saying<'_>,
        seen: Seen,
        bytes: &mut Bytes,
        heard: &mut impl Heard,
    ) -> Result<(), SinkError> {
        self.at_us = self.at_us.max(seen.at_us);
        self.sides[side].next += saying.length();
        match saying {
            Saying::Bytes(said) => {
                self.tell(heard);
                bytes.delivered += said.len() as u64;
                heard.bytes(self.number, SIDES[side], self.at_us, seen.place, said)
            }
            Saying::Cut(length) => self.tell_lost(side, length, bytes, heard),
            Saying::End => {
                let direction = &mut self.sides[side];
                direction.ended = true;
                for piece in std::mem::take(&mut direction.pieces).into_values() {
                    bytes.after_the_end += piece.what.saying().bytes();
                    bytes.held -= piece.what.cost();
                    self.held -= piece.what.cost();
                }
                Ok(())
            }
        }
    }

    fn tell(&mut self, heard: &mut impl Heard) {
        if !self.told {
            self.told = true;
            heard.opened(self.number, self.client, self.begun_us, self.from_the_start);
        }
    }

    fn tell_lost(
        &mut self,
        side: usize,
        length: i64,
        bytes: &mut Bytes,
        heard: &mut impl Heard,
    ) -> Result<(), SinkError> {
        self.tell(heard);
        bytes.lost += length as u64;
        bytes.gaps += 1;
        heard.lost(self.number, SIDES[side], self.at_us, length as u64)
    }

    /// Hands on what has waited, as far as nothing is missing.
    fn drain(&mut self, bytes: &mut Bytes, heard: &mut impl Heard) -> Result<(), SinkError> {
        let mut side = 0;
        let mut idle = 0;
        while self.held > 0 && idle < 2 {
            let direction = &self.sides[side];
            let ready = direction.first().is_some_and(|(at, piece)| {
                at <= direction.next && piece.seen.needs <= self.sides[1 - side].next
            });
            match ready {
                true => {
                    self.release(side, bytes, heard)?;
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

    /// The first that waits on a side leaves; nothing before it is missing.
    fn release(
        &mut self,
        side: usize,
        bytes: &mut Bytes,
        heard: &mut impl Heard,
    ) -> Result<(), SinkError> {
        let direction = &mut self.sides[side];
        let (at, piece) = direction.pieces.pop_first().expect("there is one");
        debug_assert_eq!(at, direction.next);
        bytes.held -= piece.what.cost();
        self.held -= piece.what.cost();
        self.hand_on(side, piece.what.saying(), piece.seen, bytes, heard)
    }

    /// Believes in losses that have been waited for long enough.
    fn be_patient(
        &mut self,
        now_us: i64,
        bytes: &mut Bytes,
        heard: &mut impl Heard,
    ) -> Result<(), SinkError> {
        while self.held > 0 {
            let waited = |side: usize| -> bool {
                let direction = &self.sides[side];
                let Some((at, piece)) = direction.first() else {
                    return false;
                };
                let (mut nth, mut at_us) = (piece.seen.nth, piece.seen.at_us);
                if at > direction.next {
                    // What the other side does not have, TCP will send again.
                    if direction.acknowledged <= direction.next {
                        return false;
                    }
                    nth = nth.max(direction.acknowledged_nth);
                    at_us = at_us.max(direction.acknowledged_us);
                }
                self.segments - nth >= PATIENCE_SEGMENTS || now_us - at_us >= PATIENCE_US
            };
            let side = match (waited(0), waited(1)) {
                (true, true) => self.longest_waiting(),
                (true, false) => 0,
                (false, true) => 1,
                (false, false) if self.held > HELD_MAX => self.longest_waiting(),
                (false, false) => return Ok(()),
            };
            self.force(side, bytes, heard)?;
        }
        Ok(())
    }

    /// The side whose first piece waits the longest. Something waits.
    fn longest_waiting(&self) -> usize {
        let nth = |side: usize| {
            let first = self.sides[side].first();
            first.map_or(u64::MAX, |(_, piece)| piece.seen.nth)
        };
        usize::from(nth(1) < nth(0))
    }

    /// What a side's first piece waits for is lost; what then can leaves.
    fn force(
        &mut self,
        side: usize,
        bytes: &mut Bytes,
        heard: &mut impl Heard,
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
            self.tell_lost(missing, length, bytes, heard)?;
        } else {
            // Each side waits for the other, which no real connection does.
            self.release(side, bytes, heard)?;
        }
        self.drain(bytes, heard)
    }

    /// Nothing waits any more.
    pub(super) fn flush(
        &mut self,
        bytes: &mut Bytes,
        heard: &mut impl Heard,
    ) -> Result<(), SinkError> {
        while self.held > 0 {
            let side = self.longest_waiting();
            self.force(side, bytes, heard)?;
        }
        Ok(())
    }

    /// Nothing more comes: what was acknowledged and never seen was lost, too.
    pub(super) fn end(
        &mut self,
        bytes: &mut Bytes,
        heard: &mut impl Heard,
    ) -> Result<(), SinkError> {
        self.flush(bytes, heard)?;
        for side in 0..2 {
            let direction = &mut self.sides[side];
            let length = direction.acknowledged - direction.next;
            if length > 0 && !direction.ended {
                direction.next = direction.acknowledged;
                self.tell_lost(side, length, bytes, heard)?;
            }
        }
        Ok(())
    }

    /// It is over.
    pub(super) fn close(
        &mut self,
        at_us: i64,
        bytes: &mut Bytes,
        heard: &mut impl Heard,
    ) -> Result<(), SinkError> {
        self.end(bytes, heard)?;
        self.at_us = self.at_us.max(at_us);
        match self.told {
            true => heard.closed(self.number, self.at_us),
            false => Ok(()),
        }
    }
}
