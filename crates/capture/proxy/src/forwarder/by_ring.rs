//! Plain connections, forwarded by a ring: what arrives in a buffer goes out of the same buffer, and
//! one call of the kernel sends all that came since the last one and waits for what comes next, or two, where others
//! are let go first ([`giving_way`](super::giving_way)).
//!
//! Where a side does not take what is sent to it, the rest is kept, its other side is not read on, and
//! epoll tells when there is room, as for any other connection: the ring never holds on to a buffer.
//! Epoll itself is one of the things that the ring watches.

use std::io;
use std::os::fd::AsRawFd;

use event_loop::{Buffer, Happened, Ring, Stopped};

use super::{Forwarder, Pair, other};
use capture_wire::conversation::Side;

/// Buffers of one forwarder …
const BUFFERS: u16 = 128;
/// … and how long each is: the most that arrives at once.
const BUFFER_BYTES: u32 = 32 << 10;
/// What epoll waits for is ready.
const EPOLL: u64 = 1 << 61;
const SLOT_BITS: u32 = 25;

/// Of a connection's side. What is told after a connection has ended carries the number of that one.
pub(super) fn token(slot: usize, side: Side, connection: u64) -> u64 {
    let place = slot as u64 * 2 + u64::from(side == Side::Server);
    u64::from(connection as u32) << SLOT_BITS | place
}

impl Forwarder {
    /// Makes the ring, on the thread that is to use it; without one, epoll does all.
    pub(super) fn begin_ring(&mut self) {
        if !self.shared.by_ring {
            return;
        }
        let Ok(mut ring) = Ring::new(BUFFERS, BUFFER_BYTES) else {
            return;
        };
        if ring.watch(self.epoll.as_raw_fd(), EPOLL).is_ok() {
            self.ring = Some(ring);
        }
    }

    /// Waits by the ring, and does what is to be done then.
    pub(super) fn turn_by_ring(&mut self) -> io::Result<()> {
        let is_patient = self.waits_for_ever();
        let is_urgent = std::mem::take(&mut self.follows_up);
        let timeout_ns = match is_patient {
            _ if is_urgent || self.epoll_has_more => Some(0),
            true => None,
            false => Some(self.patience_ns().unsigned_abs()),
        };
        let gave_way = match timeout_ns {
            None => self.give_way(),
            // There is something else to do.
            Some(_) => None,
        };
        let Some(ring) = &mut self.ring else {
            return Ok(());
        };
        ring.wait(timeout_ns)?;
        if let Some((sends, from_ns, until_ns)) = gave_way {
            // Who was sent something answers about once; what else came is of others.
            let answers = ring.arrived().min(sends);
            self.giving_way
                .gave_way(until_ns, until_ns - from_ns, answers);
        }
        self.told_us = self.shared.clock.now_us();
        while let Some(happened) = self.ring.as_mut().and_then(Ring::next_happened) {
            self.happened(happened)?;
        }
        if self.epoll_has_more {
            self.epoll.wait(0)?;
            self.look_at_ready();
        }
        if !is_patient {
            self.look_at_deadlines();
        }
        Ok(())
    }

    /// Lets those answer that were just sent something, where that pays; how many, from when and until when.
    fn give_way(&mut self) -> Option<(usize, i64, i64)> {
        let (clock, ring) = (&self.shared.clock, self.ring.as_mut()?);
        let (sends, from_ns) = (ring.to_send(), clock.now_ns());
        if !self.giving_way.pays(from_ns, sends) {
            return None;
        }
        ring.give_way();
        Some((sends, from_ns, clock.now_ns()))
    }

    /// Whose it is, if that connection is still there.
    fn whose(&self, token: u64) -> Option<(usize, Side)> {
        let place = token & ((1 << SLOT_BITS) - 1);
        let slot = (place / 2) as usize;
        let side = match place % 2 {
            0 => Side::Client,
            _ => Side::Server,
        };
        let is_it = |pair: &Pair| pair.connection as u32 == (token >> SLOT_BITS) as u32;
        let pair = self.pairs.get(slot)?.as_ref()?;
        is_it(pair).then_some((slot, side))
    }

    #[inline]
    fn happened(&mut self, happened: Happened) -> io::Result<()> {
        match happened {
            Happened::Received {
                token,
                buffer,
                armed,
            } => match self.whose(token) {
                Some((slot, side)) => self.arrived(slot, side, buffer, armed),
                None => self.give_back(buffer),
            },
            Happened::Sent {
                token,
                buffer,
                sent,
            } => match self.whose(token) {
                Some((slot, side)) => self.went_out(slot, side, buffer, sent),
                None => self.give_back(buffer),
            },
            Happened::Stopped { token, why } => {
                if let Some((slot, side)) = self.whose(token) {
                    self.stopped(slot, side, why);
                }
            }
            Happened::Readable { armed, .. } => {
                self.epoll_has_more = true;
                if let Some(ring) = self.ring.as_mut().filter(|_| !armed) {
                    ring.watch(self.epoll.as_raw_fd(), EPOLL)?;
                }
            }
        }
        Ok(())
    }

    fn give_back(&mut self, buffer: Buffer) {
        if let Some(ring) = &mut self.ring {
            ring.give_back(buffer);
        }
    }

    /// Passes on what one side has sent.
    #[inline]
    fn arrived(&mut self, slot: usize, side: Side, buffer: Buffer, armed: bool) {
        let (Some(pair), Some(ring)) = (&mut self.pairs[slot], &mut self.ring) else {
            return;
        };
        let Some(server) = &mut pair.server else {
            return ring.give_back(buffer);
        };
        let source = match side {
            Side::Client => &mut pair.client,
            Side::Server => server,
        };
        if !armed {
            source.disarmed();
        }
        // What is said behind an end has nowhere to go.
        if source.ended {
            return ring.give_back(buffer);
        }
        let counts = (&mut self.tap, &mut self.totals, &*self.counters);
        pair.note(side, ring.bytes(&buffer), self.told_us, counts);
        let sink = match (side, &mut pair.server) {
            (Side::Client, Some(server)) => server,
            _ => &mut pair.client,
        };
        let token = token(slot, other(side), pair.connection);
        let sent = sink.send_by(ring, token, buffer);
        self.follows_up |= sink.keeps_behind() || self.draining;
        let is_behind = sink.is_behind();
        if sent.is_err() {
            self.cannot_send(slot, other(side));
        } else if is_behind || !armed {
            self.wait(slot);
        }
    }

    /// A side was sent what the ring had for it.
    #[inline]
    fn went_out(&mut self, slot: usize, side: Side, buffer: Buffer, sent: io::Result<usize>) {
        let (Some(pair), Some(ring)) = (&mut self.pairs[slot], &mut self.ring) else {
            return;
        };
        let end = match (side, &mut pair.server) {
            (Side::Server, Some(server)) => server,
            (Side::Server, None) => return ring.give_back(buffer),
            (Side::Client, _) => &mut pair.client,
        };
        if end.sent_by(ring, buffer, sent).is_err() {
            return self.cannot_send(slot, side);
        }
        let is_behind = end.is_behind();
        let is_ending = pair.client.ended || pair.server.as_ref().is_some_and(|end| end.ended);
        if is_behind {
            self.wait(slot);
        } else if is_ending {
            self.caught_up(slot);
        } else if self.draining && pair.idle && side == Side::Client {
            self.dismiss(slot);
        }
    }

    /// Nothing more arrives of a side.
    fn stopped(&mut self, slot: usize, side: Side, why: Stopped) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        match (side, &mut pair.server) {
            (Side::Client, _) => pair.client.disarmed(),
            (Side::Server, Some(server)) => server.disarmed(),
            (Side::Server, None) => {}
        }
        match why {
            Stopped::End => self.ended(slot, side),
            Stopped::Broken(_) => self.broken(slot, side),
            Stopped::Paused => self.wait(slot),
        }
    }

    /// A connection's sockets are about to be closed.
    pub(super) fn leave_ring(&mut self, slot: usize, pair: &mut Pair) {
        let Some(ring) = &mut self.ring else {
            return;
        };
        let client = token(slot, Side::Client, pair.connection);
        pair.client.leave(ring, client);
        if let Some(server) = &mut pair.server {
            server.leave(ring, token(slot, Side::Server, pair.connection));
        }
    }
}
