//! Forwards plain connections by io_uring: received bytes are sent from the same buffer. One system
//! call sends everything received since the last one and waits for more; two, if the forwarder
//! yields first ([`yield_policy`](super::yield_policy)).
//!
//! If a side does not accept bytes, the rest is kept, the other side is not read, and epoll reports
//! free space, as for any other connection: the ring never waits with a buffer. The epoll
//! descriptor itself is watched by the ring.

use std::io;
use std::os::fd::AsRawFd;

use event_loop::{Buffer, Completion, Ring, StopReason};

use super::{Forwarder, Pair, RunState, opposite};
use capture_wire::conversation::Side;

/// Number of buffers of one forwarder …
const BUFFERS: u16 = 128;
/// … and the size of each, which is the maximum received at once.
const BUFFER_BYTES: u32 = 32 << 10;
/// Token of the epoll descriptor.
const EPOLL: u64 = 1 << 61;
const SLOT_BITS: u32 = 25;

/// Token of a connection's side. It contains the connection's number, so that late completions are
/// recognised.
pub(super) fn token(slot: usize, side: Side, connection: u64) -> u64 {
    let place = slot as u64 * 2 + u64::from(side == Side::Server);
    u64::from(connection as u32) << SLOT_BITS | place
}

impl Forwarder {
    /// Creates the ring on the thread that uses it; without one, epoll does everything.
    pub(super) fn create_ring(&mut self) {
        if !self.shared.use_io_uring {
            return;
        }
        let Ok(mut ring) = Ring::new(BUFFERS, BUFFER_BYTES) else {
            return;
        };
        if ring.watch(self.epoll.as_raw_fd(), EPOLL).is_ok() {
            self.ring = Some(ring);
        }
    }

    /// Waits by the ring, and handles its completions.
    pub(super) fn run_once_by_ring(&mut self) -> io::Result<()> {
        let is_patient = self.has_no_deadline();
        let is_urgent = std::mem::take(&mut self.has_follow_up);
        let timeout_ns = match is_patient {
            _ if is_urgent || self.epoll_pending => Some(0),
            true => None,
            false => Some(self.wait_limit_ns().unsigned_abs()),
        };
        let gave_way = match timeout_ns {
            None => self.yield_to_receivers(),
            // Other work remains.
            Some(_) => None,
        };
        let Some(ring) = &mut self.ring else {
            return Ok(());
        };
        ring.wait(timeout_ns)?;
        if let Some((sends, from_ns, until_ns)) = gave_way {
            // Each send causes about one answer; other receptions are unrelated.
            let answers = ring.received_max().min(sends);
            self.yield_policy
                .record_yield(until_ns, until_ns - from_ns, answers);
        }
        self.notified_us = self.shared.clock.now_us();
        while let Some(happened) = self.ring.as_mut().and_then(Ring::next_completion) {
            self.handle_completion(happened)?;
        }
        if self.epoll_pending {
            self.epoll.wait(0)?;
            self.handle_ready_descriptors();
        }
        if !is_patient {
            self.check_deadlines();
        }
        Ok(())
    }

    /// Yields to the receivers of recent sends, if that is worthwhile; returns their number, the
    /// start and the end.
    fn yield_to_receivers(&mut self) -> Option<(usize, i64, i64)> {
        let (clock, ring) = (&self.shared.clock, self.ring.as_mut()?);
        let (sends, from_ns) = (ring.to_send(), clock.now_ns());
        if !self.yield_policy.should_yield(from_ns, sends) {
            return None;
        }
        ring.submit_and_yield();
        Some((sends, from_ns, clock.now_ns()))
    }

    /// Returns the slot and side of a token, if that connection still exists.
    fn find_side(&self, token: u64) -> Option<(usize, Side)> {
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
    fn handle_completion(&mut self, happened: Completion) -> io::Result<()> {
        match happened {
            Completion::Received {
                token,
                buffer,
                armed,
            } => match self.find_side(token) {
                Some((slot, side)) => self.handle_received(slot, side, buffer, armed),
                None => self.recycle(buffer),
            },
            Completion::Sent {
                token,
                buffer,
                sent,
            } => match self.find_side(token) {
                Some((slot, side)) => self.handle_sent(slot, side, buffer, sent),
                None => self.recycle(buffer),
            },
            Completion::Stopped { token, why } => {
                if let Some((slot, side)) = self.find_side(token) {
                    self.handle_stopped(slot, side, why);
                }
            }
            Completion::Readable { armed, .. } => {
                self.epoll_pending = true;
                if let Some(ring) = self.ring.as_mut().filter(|_| !armed) {
                    ring.watch(self.epoll.as_raw_fd(), EPOLL)?;
                }
            }
        }
        Ok(())
    }

    fn recycle(&mut self, buffer: Buffer) {
        if let Some(ring) = &mut self.ring {
            ring.return_buffer(buffer);
        }
    }

    /// Forwards the bytes of one side.
    #[inline]
    fn handle_received(&mut self, slot: usize, side: Side, buffer: Buffer, armed: bool) {
        let (Some(pair), Some(ring)) = (&mut self.pairs[slot], &mut self.ring) else {
            return;
        };
        let Some(server) = &mut pair.server else {
            return ring.return_buffer(buffer);
        };
        let source = match side {
            Side::Client => &mut pair.client,
            Side::Server => server,
        };
        if !armed {
            source.mark_disarmed();
        }
        // Bytes after an end have no destination.
        if source.ended {
            return ring.return_buffer(buffer);
        }
        let counts = (&mut self.mirror, &mut self.totals, &*self.counters);
        pair.record_bytes(side, ring.bytes(&buffer), self.notified_us, counts);
        let sink = match (side, &mut pair.server) {
            (Side::Client, Some(server)) => server,
            _ => &mut pair.client,
        };
        let token = token(slot, opposite(side), pair.connection);
        let sent = sink.send_by_ring(ring, token, buffer);
        self.has_follow_up |= sink.has_queued() || self.state == RunState::Draining;
        let is_behind = sink.is_congested();
        if sent.is_err() {
            self.handle_send_failure(slot, opposite(side));
        } else if is_behind || !armed {
            self.update_interest(slot);
        }
    }

    /// Handles a completed send to a side.
    #[inline]
    fn handle_sent(&mut self, slot: usize, side: Side, buffer: Buffer, sent: io::Result<usize>) {
        let (Some(pair), Some(ring)) = (&mut self.pairs[slot], &mut self.ring) else {
            return;
        };
        let end = match (side, &mut pair.server) {
            (Side::Server, Some(server)) => server,
            (Side::Server, None) => return ring.return_buffer(buffer),
            (Side::Client, _) => &mut pair.client,
        };
        if end.complete_ring_send(ring, buffer, sent).is_err() {
            return self.handle_send_failure(slot, side);
        }
        let is_behind = end.is_congested();
        let is_ending = pair.client.ended || pair.server.as_ref().is_some_and(|end| end.ended);
        if is_behind {
            self.update_interest(slot);
        } else if is_ending {
            self.handle_progress(slot);
        } else if self.state == RunState::Draining && pair.idle && side == Side::Client {
            self.end_idle(slot);
        }
    }

    /// Handles the end of receiving from a side.
    fn handle_stopped(&mut self, slot: usize, side: Side, why: StopReason) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        match (side, &mut pair.server) {
            (Side::Client, _) => pair.client.mark_disarmed(),
            (Side::Server, Some(server)) => server.mark_disarmed(),
            (Side::Server, None) => {}
        }
        match why {
            StopReason::End => self.handle_end(slot, side),
            StopReason::Broken(_) => self.handle_broken(slot, side),
            StopReason::Paused => self.update_interest(slot),
        }
    }

    /// Removes a connection's sockets from the ring before they are closed.
    pub(super) fn leave_ring(&mut self, slot: usize, pair: &mut Pair) {
        let Some(ring) = &mut self.ring else {
            return;
        };
        let client = token(slot, Side::Client, pair.connection);
        pair.client.leave_ring(ring, client);
        if let Some(server) = &mut pair.server {
            server.leave_ring(ring, token(slot, Side::Server, pair.connection));
        }
    }
}
