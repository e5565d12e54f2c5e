//! I/O by io_uring at full speed, for connections without TLS: one system call submits the sends and waits for
//! answers, instead of three calls per statement.
//!
//! Sends are batched until there are [`BATCH_CONNECTIONS`] connections or no more completions. The send time of a
//! statement is that of the submitting call, so it includes at most the other sends of that call, and no work of
//! the worker. A paced replay does not use this, since each statement is sent when it is due. Connections with
//! TLS, and bytes for which a socket has no room, are left to epoll, which the ring polls.

use std::io;
use std::os::fd::AsRawFd;

use event_loop::{Completion, Ring, Socket, StopReason};

use super::{Slot, Worker};
use crate::epoll::Interest;
use crate::stream::Stream;

/// Receive buffers of one worker.
const BUFFERS: u16 = 128;
/// Size of a receive buffer: the most bytes of one completion.
const BUFFER_BYTES: u32 = 8 << 10;
/// Most connections to which one call sends.
const BATCH_CONNECTIONS: usize = 16;
/// Token of the epoll descriptor.
const EPOLL: u64 = 1 << 60;
/// A token has the slot in the lower bits and the connection's number in the upper ones.
const SLOT_BITS: u32 = 32;
const NUMBER_MASK: u32 = (1 << 28) - 1;

/// Sends that are not yet submitted, and closed connections that the ring still uses.
#[derive(Default)]
pub(super) struct Outbox {
    batch: Vec<Outgoing>,
    /// Closed connections that the ring still uses.
    closed: Vec<(Stream, RingSocket, usize)>,
    next_number: u32,
    epoll_has_more: bool,
}

/// Connection of the ring. Its number identifies late completions of a connection that has ended.
#[derive(Debug)]
pub(super) struct RingSocket {
    socket: Socket,
    number: u32,
    /// Index of its bytes in the batch.
    batch_index: Option<usize>,
}

impl RingSocket {
    fn token(&self, slot: usize) -> u64 {
        u64::from(self.number) << SLOT_BITS | slot as u64
    }
}

/// Bytes that one connection sends with the next call.
struct Outgoing {
    slot: usize,
    number: u32,
    bytes: Vec<u8>,
    from: usize,
    /// Number of statements in the bytes.
    statements: usize,
}

/// Creates a ring on the thread that will use it. `None` if the system does not support it.
pub(super) fn create_ring(epoll: &impl AsRawFd) -> Option<Box<Ring>> {
    let mut ring = Ring::new(BUFFERS, BUFFER_BYTES).ok()?;
    ring.watch(epoll.as_raw_fd(), EPOLL).ok()?;
    Some(Box::new(ring))
}

impl Outbox {
    /// Keeps the socket of a closed connection open until the ring has released it.
    pub(super) fn release(&mut self, stream: Stream, ring_socket: RingSocket, slot: usize) {
        self.closed.push((stream, ring_socket, slot));
    }

    /// Adds the bytes from `from` on to the batch, after those of the same connection.
    #[inline]
    pub(super) fn send(
        &mut self,
        slot: usize,
        ring_socket: &mut RingSocket,
        bytes: Vec<u8>,
        from: usize,
        statements: usize,
    ) {
        if let Some(index) = ring_socket.batch_index {
            let outgoing = &mut self.batch[index];
            outgoing.bytes.extend_from_slice(&bytes[from..]);
            outgoing.statements += statements;
            return;
        }
        ring_socket.batch_index = Some(self.batch.len());
        self.batch.push(Outgoing {
            slot,
            number: ring_socket.number,
            bytes,
            from,
            statements,
        });
    }
}

impl Worker {
    /// Adds a connection to the ring, if there is a ring and the connection has no TLS. Returns whether it was added.
    pub(super) fn add_to_ring(&mut self, slot: usize, stream: &Stream) -> io::Result<bool> {
        let Some(ring) = self.ring.as_mut().filter(|_| stream.is_plain()) else {
            return Ok(false);
        };
        let outbox = &mut self.outbox;
        let ring_socket = RingSocket {
            // Not in the ring's file table: before Linux 6.13, no file leaves the table while an older receive
            // is pending.
            socket: Socket::of(stream.as_raw_fd()),
            number: outbox.next_number,
            batch_index: None,
        };
        outbox.next_number = (outbox.next_number + 1) & NUMBER_MASK;
        ring.receive(ring_socket.socket, ring_socket.token(slot))?;
        self.slots[slot].ring_socket = Some(ring_socket);
        Ok(true)
    }

    /// Waits for at most `timeout_ns` and handles the completions.
    pub(super) fn poll_ring(&mut self, timeout_ns: i64) -> io::Result<()> {
        self.queue_outgoing()?;
        self.release_closed()?;
        let Some(ring) = &mut self.ring else {
            return Ok(());
        };
        // The ring reports when epoll becomes readable, so epoll is polled until it has no more events.
        let timeout_ns = match self.outbox.epoll_has_more {
            true => 0,
            false => timeout_ns.unsigned_abs(),
        };
        self.stalls.sleep(timeout_ns as i64);
        ring.wait(Some(timeout_ns))?;
        self.submit_ring()?;
        self.batch_ns = self.now_ns();
        self.stalls.run(self.batch_ns);
        while let Some(completion) = self.ring.as_mut().and_then(|ring| ring.next_completion()) {
            self.on_completion(completion)?;
            if self.outbox.batch.len() >= BATCH_CONNECTIONS {
                self.send_outgoing()?;
            }
        }
        if self.outbox.epoll_has_more {
            // Polling epoll also enqueues new jobs; the batch does not wait for them.
            self.send_outgoing()?;
            self.poll_epoll(0)?;
            self.outbox.epoll_has_more = self.epoll.ready_count() > 0;
        }
        Ok(())
    }

    /// Sends the batch without waiting for completions.
    pub(super) fn send_outgoing(&mut self) -> io::Result<()> {
        self.queue_outgoing()?;
        self.submit_ring()
    }

    fn submit_ring(&mut self) -> io::Result<()> {
        if let Some(ring) = &mut self.ring {
            ring.submit()?;
        }
        self.collect_unsent();
        Ok(())
    }

    /// Queues the batch at the ring, and submits it in parts if it is too large for one call. The send time is that
    /// of the call.
    fn queue_outgoing(&mut self) -> io::Result<()> {
        if self.ring.is_none() || self.outbox.batch.is_empty() {
            return Ok(());
        }
        let mut all = std::mem::take(&mut self.outbox.batch);
        let (mut queued, mut sent_ns) = (BATCH_CONNECTIONS, 0);
        for outgoing in all.drain(..) {
            if queued >= BATCH_CONNECTIONS {
                self.submit_ring()?;
                (queued, sent_ns) = (0, self.now_ns());
            }
            let Slot {
                session,
                ring_socket,
                ..
            } = &mut self.slots[outgoing.slot];
            // The statements of a connection that was closed meanwhile have ended with it.
            if let Some(ring) = &mut self.ring
                && let Some(ring_socket) = ring_socket
                && ring_socket.number == outgoing.number
            {
                ring_socket.batch_index = None;
                session.set_sent_ns(outgoing.statements, sent_ns);
                let token = ring_socket.token(outgoing.slot);
                ring.send_message(ring_socket.socket, token, outgoing.bytes, outgoing.from)?;
                queued += 1;
            }
        }
        if self.outbox.batch.is_empty() {
            self.outbox.batch = all;
        }
        Ok(())
    }

    /// Moves bytes for which a socket had no room to epoll.
    fn collect_unsent(&mut self) {
        while let Some(unsent) = self.ring.as_mut().and_then(|ring| ring.next_unsent()) {
            let Some(slot) = self.slot_of_token(unsent.token) else {
                continue;
            };
            let waits = match unsent.broken {
                None => self.await_writable(slot, &unsent.rest),
                Some(error) => Err(error),
            };
            if let Err(error) = waits {
                self.on_send_error(slot, &error);
            }
        }
    }

    /// Handles a failed send. If the connection is broken, the ring still delivers the server's last bytes and then
    /// the end. Otherwise no completion would follow, so the connection counts as lost.
    pub(super) fn on_send_error(&mut self, slot: usize, error: &io::Error) {
        let end_follows = matches!(
            error.kind(),
            io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::NotConnected
                | io::ErrorKind::TimedOut
        );
        if !end_follows && self.connection_lost(slot, &error.to_string()) {
            self.advance_session(slot, self.batch_ns);
        }
    }

    fn await_writable(&mut self, slot: usize, rest: &[u8]) -> io::Result<()> {
        let Slot {
            session,
            socket: Some(socket),
            awaits_writable,
            ..
        } = &mut self.slots[slot]
        else {
            return Ok(());
        };
        session.unsent.extend_from_slice(rest);
        if !std::mem::replace(awaits_writable, true) {
            let fd = socket.as_raw_fd();
            self.epoll.add(fd, slot as u64, Interest::Write)?;
        }
        Ok(())
    }

    /// Removes closed connections from the ring.
    pub(super) fn release_closed(&mut self) -> io::Result<()> {
        let Some(ring) = self
            .ring
            .as_mut()
            .filter(|_| !self.outbox.closed.is_empty())
        else {
            return Ok(());
        };
        for (_, ring_socket, slot) in &self.outbox.closed {
            ring.stop(ring_socket.token(*slot))?;
        }
        ring.submit()?;
        for (stream, _, _) in self.outbox.closed.drain(..) {
            // The server sees the end now, even if the ring releases the socket later.
            event_loop::shutdown(stream.as_raw_fd());
        }
        self.collect_unsent();
        Ok(())
    }

    /// Returns the slot of a token, if its connection is still open.
    #[inline]
    fn slot_of_token(&self, token: u64) -> Option<usize> {
        let slot = (token & ((1 << SLOT_BITS) - 1)) as usize;
        let ring_socket = self.slots.get(slot)?.ring_socket.as_ref()?;
        (u64::from(ring_socket.number) == token >> SLOT_BITS).then_some(slot)
    }

    fn on_completion(&mut self, completion: Completion) -> io::Result<()> {
        match completion {
            Completion::Received {
                token,
                buffer,
                armed,
            } => {
                let slot = self.slot_of_token(token);
                // The bytes are in the ring's buffer, so the ring is taken out of the worker meanwhile.
                let Some(mut ring) = self.ring.take() else {
                    return Ok(());
                };
                if let Some(flight) =
                    slot.and_then(|slot| self.slots[slot].session.in_flight.as_ref())
                {
                    // It may have been sent and answered since the last wait.
                    self.batch_ns = self.batch_ns.max(flight.sent_ns);
                }
                let became_free = slot.is_some_and(|slot| {
                    self.process_bytes(slot, ring.bytes(&buffer), self.batch_ns)
                });
                ring.return_buffer(buffer);
                self.ring = Some(ring);
                if let Some(slot) = slot {
                    if !armed {
                        self.rearm_receive(slot)?;
                    }
                    if became_free {
                        self.advance_session(slot, self.batch_ns);
                    }
                }
            }
            Completion::Stopped { token, why } => {
                let Some(slot) = self.slot_of_token(token) else {
                    return Ok(());
                };
                let reason = match why {
                    StopReason::Paused => return self.rearm_receive(slot),
                    StopReason::End => super::socket_io::CLOSED_BY_SERVER.to_owned(),
                    StopReason::Broken(error) => error.to_string(),
                };
                if self.connection_lost(slot, &reason) {
                    self.advance_session(slot, self.batch_ns);
                }
            }
            Completion::Readable { armed, .. } => {
                self.outbox.epoll_has_more = true;
                if let Some(ring) = self.ring.as_mut().filter(|_| !armed) {
                    ring.watch(self.epoll.as_raw_fd(), EPOLL)?;
                }
            }
            Completion::Sent { .. } => {}
        }
        Ok(())
    }

    /// Arms the next receive of a connection, if it is still open.
    fn rearm_receive(&mut self, slot: usize) -> io::Result<()> {
        if let (Some(ring), Some(ring_socket)) = (&mut self.ring, &self.slots[slot].ring_socket) {
            ring.receive(ring_socket.socket, ring_socket.token(slot))?;
        }
        Ok(())
    }
}
