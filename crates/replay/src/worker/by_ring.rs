//! At full speed, plain connections by a ring that is shared with the kernel: one call hands over what is
//! to be sent and waits for what comes, instead of three for each statement.
//!
//! What is sent waits until it goes to [`SENT_AT_ONCE`] connections or nothing more has come, and its moment
//! is that of the call that hands it over: so a time holds at most the others of the same call, and no work
//! of ours. A paced replay does not use this: there a statement goes when it is due. Connections with TLS, and
//! what a socket has no room for, are left to epoll, which the ring watches.

use std::io;
use std::os::fd::AsRawFd;

use event_loop::{Happened, Ring, Socket, Stopped};

use super::{Slot, Worker};
use crate::epoll::Interest;
use crate::link::Link;

/// Buffers of one worker …
const BUFFERS: u16 = 128;
/// … and how long each is: the most that arrives at once.
const BUFFER_BYTES: u32 = 8 << 10;
/// To so many connections something is handed over together at most.
const SENT_AT_ONCE: usize = 16;
/// What epoll waits for is ready.
const EPOLL: u64 = 1 << 60;
/// Slots have the lower bits of a token, the numbers of connections the upper ones.
const SLOT_BITS: u32 = 32;
const NUMBER_MASK: u32 = (1 << 28) - 1;

/// What is about to go out by a worker's ring, and what the ring is to let go of.
#[derive(Default)]
pub(super) struct Outbox {
    outgoing: Vec<Outgoing>,
    /// Connections that were closed and that the ring still knows.
    leaving: Vec<(Link, OnRing, usize)>,
    next_number: u32,
    epoll_has_more: bool,
}

/// A connection that the ring knows. What is told after it has ended carries its number.
#[derive(Debug)]
pub(super) struct OnRing {
    socket: Socket,
    number: u32,
    /// Where in what goes out its bytes are.
    outgoing: Option<usize>,
}

impl OnRing {
    fn token(&self, slot: usize) -> u64 {
        u64::from(self.number) << SLOT_BITS | slot as u64
    }
}

/// What one connection sends with the next call.
struct Outgoing {
    slot: usize,
    number: u32,
    bytes: Vec<u8>,
    from: usize,
    /// How many statements these are.
    statements: usize,
}

/// A ring, on the thread that is to use it. `None` where the system has no such ring.
pub(super) fn ring(epoll: &impl AsRawFd) -> Option<Box<Ring>> {
    let mut ring = Ring::new(BUFFERS, BUFFER_BYTES).ok()?;
    ring.watch(epoll.as_raw_fd(), EPOLL).ok()?;
    Some(Box::new(ring))
}

impl Outbox {
    /// A connection is closed: it stays open until the ring has let go of it.
    pub(super) fn leave(&mut self, link: Link, on_ring: OnRing, slot: usize) {
        self.leaving.push((link, on_ring, slot));
    }

    /// Has the bytes from `from` on go out with the next call, behind what goes out there already.
    #[inline]
    pub(super) fn send(
        &mut self,
        slot: usize,
        on_ring: &mut OnRing,
        bytes: Vec<u8>,
        from: usize,
        statements: usize,
    ) {
        if let Some(place) = on_ring.outgoing {
            let outgoing = &mut self.outgoing[place];
            outgoing.bytes.extend_from_slice(&bytes[from..]);
            outgoing.statements += statements;
            return;
        }
        on_ring.outgoing = Some(self.outgoing.len());
        self.outgoing.push(Outgoing {
            slot,
            number: on_ring.number,
            bytes,
            from,
            statements,
        });
    }
}

impl Worker {
    /// Has a connection read and written by the ring, where there is one that can.
    pub(super) fn goes_by_ring(&mut self, slot: usize, link: &Link) -> io::Result<bool> {
        let Some(ring) = self.ring.as_mut().filter(|_| link.is_plain()) else {
            return Ok(false);
        };
        let outbox = &mut self.outbox;
        let on_ring = OnRing {
            // Not in the ring's table, from which older systems (Linux before 6.13) let nothing go while
            // anything older is received.
            socket: Socket::of(link.as_raw_fd()),
            number: outbox.next_number,
            outgoing: None,
        };
        outbox.next_number = (outbox.next_number + 1) & NUMBER_MASK;
        ring.receive(on_ring.socket, on_ring.token(slot))?;
        self.slots[slot].on_ring = Some(on_ring);
        Ok(true)
    }

    /// Waits by the ring for at most so long, and does what is to be done then.
    pub(super) fn turn_by_ring(&mut self, timeout_ns: i64) -> io::Result<()> {
        self.queue_outgoing()?;
        self.let_leave()?;
        let Some(ring) = &mut self.ring else {
            return Ok(());
        };
        // The ring tells what becomes ready, epoll what is: it is asked until nothing is.
        let timeout_ns = match self.outbox.epoll_has_more {
            true => 0,
            false => timeout_ns.unsigned_abs(),
        };
        ring.wait(Some(timeout_ns))?;
        self.hand_over_to_ring()?;
        self.turn_ns = self.now_ns();
        while let Some(happened) = self.ring.as_mut().and_then(|ring| ring.next_happened()) {
            self.happened(happened)?;
            if self.outbox.outgoing.len() >= SENT_AT_ONCE {
                self.send_outgoing()?;
            }
        }
        if self.outbox.epoll_has_more {
            // New jobs are taken in there: what is ready does not wait for that.
            self.send_outgoing()?;
            self.turn_by_epoll(0)?;
            self.outbox.epoll_has_more = self.epoll.ready_count() > 0;
        }
        Ok(())
    }

    /// Sends what goes out, without waiting for what comes.
    pub(super) fn send_outgoing(&mut self) -> io::Result<()> {
        self.queue_outgoing()?;
        self.hand_over_to_ring()
    }

    fn hand_over_to_ring(&mut self) -> io::Result<()> {
        if let Some(ring) = &mut self.ring {
            ring.hand_over()?;
        }
        self.take_back_unsent();
        Ok(())
    }

    /// Gives the ring what goes out with the next call, and hands over what is more than fits into one. That
    /// call is the moment at which it was sent.
    fn queue_outgoing(&mut self) -> io::Result<()> {
        if self.ring.is_none() || self.outbox.outgoing.is_empty() {
            return Ok(());
        }
        let mut all = std::mem::take(&mut self.outbox.outgoing);
        let (mut queued, mut sent_ns) = (SENT_AT_ONCE, 0);
        for outgoing in all.drain(..) {
            if queued >= SENT_AT_ONCE {
                self.hand_over_to_ring()?;
                (queued, sent_ns) = (0, self.now_ns());
            }
            let Slot {
                session, on_ring, ..
            } = &mut self.slots[outgoing.slot];
            // A connection that is gone meanwhile has taken its statements along.
            if let Some(ring) = &mut self.ring
                && let Some(on_ring) = on_ring
                && on_ring.number == outgoing.number
            {
                on_ring.outgoing = None;
                session.were_sent(outgoing.statements, sent_ns);
                let token = on_ring.token(outgoing.slot);
                ring.send_message(on_ring.socket, token, outgoing.bytes, outgoing.from)?;
                queued += 1;
            }
        }
        if self.outbox.outgoing.is_empty() {
            self.outbox.outgoing = all;
        }
        Ok(())
    }

    /// What sockets had no room for waits until they have.
    fn take_back_unsent(&mut self) {
        while let Some(unsent) = self.ring.as_mut().and_then(|ring| ring.next_unsent()) {
            let Some(slot) = self.whose(unsent.token) else {
                continue;
            };
            let waits = match unsent.broken {
                None => self.wait_for_room(slot, &unsent.rest),
                Some(error) => Err(error),
            };
            if let Err(error) = waits {
                self.could_not_send(slot, &error);
            }
        }
    }

    /// Where the connection is broken, the ring tells what the server said last, and that it is gone. Else
    /// nothing would ever come.
    pub(super) fn could_not_send(&mut self, slot: usize, error: &io::Error) {
        let is_told = matches!(
            error.kind(),
            io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::NotConnected
                | io::ErrorKind::TimedOut
        );
        if !is_told && self.lost(slot, &error.to_string()) {
            self.go_on(slot, self.turn_ns);
        }
    }

    fn wait_for_room(&mut self, slot: usize, rest: &[u8]) -> io::Result<()> {
        let Slot {
            session,
            socket: Some(socket),
            waits_for_room,
            ..
        } = &mut self.slots[slot]
        else {
            return Ok(());
        };
        session.unsent.extend_from_slice(rest);
        if !std::mem::replace(waits_for_room, true) {
            let fd = socket.as_raw_fd();
            self.epoll.add(fd, slot as u64, Interest::Write)?;
        }
        Ok(())
    }

    /// The ring lets go of connections that were closed.
    pub(super) fn let_leave(&mut self) -> io::Result<()> {
        let Some(ring) = self
            .ring
            .as_mut()
            .filter(|_| !self.outbox.leaving.is_empty())
        else {
            return Ok(());
        };
        for (_, on_ring, slot) in &self.outbox.leaving {
            ring.stop(on_ring.token(*slot))?;
        }
        ring.hand_over()?;
        for (link, _, _) in self.outbox.leaving.drain(..) {
            // It is over for the server as well, whenever the ring lets go of it.
            event_loop::shut(link.as_raw_fd());
        }
        self.take_back_unsent();
        Ok(())
    }

    /// Whose it is, if that connection is still there.
    #[inline]
    fn whose(&self, token: u64) -> Option<usize> {
        let slot = (token & ((1 << SLOT_BITS) - 1)) as usize;
        let on_ring = self.slots.get(slot)?.on_ring.as_ref()?;
        (u64::from(on_ring.number) == token >> SLOT_BITS).then_some(slot)
    }

    fn happened(&mut self, happened: Happened) -> io::Result<()> {
        match happened {
            Happened::Received {
                token,
                buffer,
                armed,
            } => {
                let slot = self.whose(token);
                // The bytes are the ring's; what is done with them does not ask for it.
                let Some(mut ring) = self.ring.take() else {
                    return Ok(());
                };
                if let Some(flight) =
                    slot.and_then(|slot| self.slots[slot].session.in_flight.as_ref())
                {
                    // It was sent in this turn, and answered already.
                    self.turn_ns = self.turn_ns.max(flight.sent_ns);
                }
                let became_free =
                    slot.is_some_and(|slot| self.take_in(slot, ring.bytes(&buffer), self.turn_ns));
                ring.give_back(buffer);
                self.ring = Some(ring);
                if let Some(slot) = slot {
                    if !armed {
                        self.receive_on(slot)?;
                    }
                    if became_free {
                        self.go_on(slot, self.turn_ns);
                    }
                }
            }
            Happened::Stopped { token, why } => {
                let Some(slot) = self.whose(token) else {
                    return Ok(());
                };
                let reason = match why {
                    Stopped::Paused => return self.receive_on(slot),
                    Stopped::End => super::wire::CLOSED.to_owned(),
                    Stopped::Broken(error) => error.to_string(),
                };
                if self.lost(slot, &reason) {
                    self.go_on(slot, self.turn_ns);
                }
            }
            Happened::Readable { armed, .. } => {
                self.outbox.epoll_has_more = true;
                if let Some(ring) = self.ring.as_mut().filter(|_| !armed) {
                    ring.watch(self.epoll.as_raw_fd(), EPOLL)?;
                }
            }
            Happened::Sent { .. } => {}
        }
        Ok(())
    }

    /// What comes next at a connection is received as well, if it is still there.
    fn receive_on(&mut self, slot: usize) -> io::Result<()> {
        if let (Some(ring), Some(on_ring)) = (&mut self.ring, &self.slots[slot].on_ring) {
            ring.receive(on_ring.socket, on_ring.token(slot))?;
        }
        Ok(())
    }
}
