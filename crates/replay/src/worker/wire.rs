//! Bytes out and in: a statement is sent, its answer read, a connection lost or closed.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use protocol::backend::TransactionStatus;
use protocol::frontend::{CopyFail, Sync, Terminate};
use run::{Outcome, SkipReason};
use workload::{Boundary, Sqlstate};

use super::{Slot, Worker, done, flight};
use crate::epoll::Interest;
use crate::job::{Job, Messages};
use crate::link::Link;
use crate::meter::Count;
use crate::session::{Heard, Phase, Tries};

/// `connection_failure`
pub(super) const LOST: Sqlstate = Sqlstate(*b"08006");
/// What is said of it where the server said nothing.
pub(super) const CLOSED: &str = "the server closed the connection";

impl Worker {
    /// Sends a statement; returns when that was. By the ring it goes out with the next call, and is told when
    /// that was then.
    pub(super) fn send(
        &mut self,
        slot: usize,
        mut job: Job,
        mut messages: Messages,
        session_lag_ns: u64,
    ) -> i64 {
        self.remap(slot, &mut messages);
        let Slot {
            session,
            socket,
            on_ring,
            ..
        } = &mut self.slots[slot];
        let Some(socket) = socket else {
            return self.now_ns();
        };
        let copy = messages.copy.take();
        let state_changing_bytes: Option<Box<[u8]>> =
            (job.session_effect.changes_state).then(|| messages.bytes[..].into());
        let needed = session.needed(&messages);
        let mut from = messages.bytes.len() - needed.len();
        // A group that has begun is one transaction, and keeps to what that began with; a Query within
        // it would end it.
        if session.guard.is_needed() && !session.pipeline.group_is_open {
            messages.bytes = [crate::guard::message(), needed].concat();
            from = 0;
            session.guard.sent();
        }
        let has_room = session.unsent.is_empty();
        let sent_ns = match on_ring {
            Some(_) if has_room => self.turn_ns,
            _ => self.parts.clock.now_ns() - self.parts.start_ns,
        };
        if self.parts.at_full_speed {
            job.due_ns = sent_ns;
        }
        // What is left of COPY data that the server did not want to the end goes first.
        let due_ns = job.due_ns;
        let place = (job.session, job.sequence);
        let result = match on_ring {
            None if has_room => socket.write(&messages.bytes[from..]),
            _ => Ok(0),
        };
        let wants_write = socket.wants_write();
        let mut in_flight = flight(job, sent_ns, session_lag_ns, &messages);
        in_flight.named = messages.named;
        let ends_group = in_flight.job.boundary == Boundary::Sync;
        in_flight.owes_sync = copy.is_some() && messages.extended && ends_group;
        in_flight.copy = copy;
        // The end of a group that has failed already.
        in_flight.aborted = session.pipeline.passes_over_next();
        in_flight.in_transaction = session.will_be_in_transaction();
        in_flight.state_changing_bytes = state_changing_bytes;
        session.pipeline.group_is_open = !ends_group;
        session.pipeline.asked = in_flight.job.boundary == Boundary::Flush;
        if session.in_flight.is_none() {
            session.in_flight = Some(Box::new(in_flight));
            session.listen();
        } else {
            session.pipeline.push(Box::new(in_flight));
        }
        session.phase = Phase::Running;
        self.parts.meter.add(self.parts.number, Count::Sent, 1);
        if let Some(order) = &self.parts.order {
            order.sent(place.0, place.1);
        }
        if let Some(on_ring) = on_ring.as_mut().filter(|_| has_room) {
            self.outbox.send(slot, on_ring, messages.bytes, from, 1);
            return sent_ns;
        }
        let written = match result {
            Ok(written) => written,
            Err(error) if is_transient(&error) => 0,
            Err(error) => {
                // The session's caller goes on with what waits: it will be skipped.
                self.broke(slot, &error);
                return self.now_ns();
            }
        };
        let lag_ns = sent_ns - due_ns - session_lag_ns as i64;
        self.parts
            .counters
            .tool_lag_ns
            .fetch_max(lag_ns, Ordering::Relaxed);
        let rest = &messages.bytes[from + written..];
        if !rest.is_empty() || wants_write {
            self.write_later(slot, rest.to_vec());
        }
        self.now_ns()
    }

    pub(super) fn write_later(&mut self, slot: usize, rest: Vec<u8>) {
        let Slot {
            session,
            socket,
            on_ring,
            waits_for_room,
            ..
        } = &mut self.slots[slot];
        if let Some(on_ring) = on_ring
            && session.unsent.is_empty()
        {
            return self.outbox.send(slot, on_ring, rest, 0, 0);
        }
        session.unsent.extend_from_slice(&rest);
        if let Some(socket) = socket
            && !*waits_for_room
        {
            *waits_for_room = true;
            let fd = socket.as_raw_fd();
            let _ = self.epoll.change(fd, slot as u64, Interest::ReadAndWrite);
        }
    }

    pub(super) fn write_rest(&mut self, slot: usize) {
        let Slot {
            session,
            socket,
            on_ring,
            waits_for_room,
            ..
        } = &mut self.slots[slot];
        let Some(socket) = socket else { return };
        let fd = socket.as_raw_fd();
        while session.unsent_from < session.unsent.len() {
            match socket.write(&session.unsent[session.unsent_from..]) {
                Ok(written) => session.unsent_from += written,
                Err(error) if is_transient(&error) => return,
                Err(error) if on_ring.is_some() => {
                    session.unsent = Vec::new();
                    session.unsent_from = 0;
                    *waits_for_room = false;
                    let _ = self.epoll.remove(fd);
                    return self.could_not_send(slot, &error);
                }
                Err(error) => {
                    if self.broke(slot, &error) {
                        let now_ns = self.now_ns();
                        self.go_on(slot, now_ns);
                    }
                    return;
                }
            }
        }
        // A socket that is broken says so at the read that follows.
        if socket.flush().is_err_and(|error| is_transient(&error)) {
            return;
        }
        session.unsent = Vec::new();
        session.unsent_from = 0;
        *waits_for_room = false;
        let _ = match on_ring {
            None => self.epoll.change(fd, slot as u64, Interest::Read),
            Some(_) => self.epoll.remove(fd),
        };
    }

    /// Reads all that is there; then, if it became free, the session goes on.
    pub(super) fn read(&mut self, slot: usize) {
        let became_free = self.read_all(slot);
        let socket = self.slots[slot].socket.as_ref();
        if socket.is_some_and(Link::wants_write) {
            self.write_later(slot, Vec::new());
        }
        if became_free {
            let now_ns = self.now_ns();
            self.go_on(slot, now_ns);
        }
    }

    /// Nothing can be sent any more. What the server said before it left may still wait to be read,
    /// and tells why. True if the session was busy, and is to go on with what waits.
    fn broke(&mut self, slot: usize, error: &io::Error) -> bool {
        let became_free = self.read_all(slot);
        match self.slots[slot].socket {
            Some(_) => self.lost(slot, &error.to_string()) | became_free,
            None => became_free,
        }
    }

    /// True if the session became free.
    fn read_all(&mut self, slot: usize) -> bool {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut became_free = false;
        while let Some(socket) = &mut self.slots[slot].socket {
            let read = match socket.read(&mut buffer) {
                Ok(0) => {
                    became_free |= self.lost(slot, CLOSED);
                    break;
                }
                Ok(read) => read,
                Err(error) if is_transient(&error) => break,
                Err(error) => {
                    became_free |= self.lost(slot, &error.to_string());
                    break;
                }
            };
            let now_ns = self.now_ns();
            became_free |= self.take_in(slot, &buffer[..read], now_ns);
            if read < buffer.len() {
                break;
            }
        }
        self.buffer = buffer;
        became_free
    }

    /// Takes in what the server said. True if the session became free.
    pub(super) fn take_in(&mut self, slot: usize, mut unread: &[u8], now_ns: i64) -> bool {
        self.parts.counters.heard(now_ns);
        let mut became_free = false;
        while !unread.is_empty() {
            match self.slots[slot].session.hear(&mut unread, now_ns) {
                Ok(Heard::Nothing) => {}
                Ok(Heard::Done) => {
                    self.finish_statement(slot, now_ns, None);
                    self.pass_over_aborted(slot, now_ns);
                    became_free = true;
                }
                Ok(Heard::Restored) => {
                    self.restored(slot, now_ns);
                    became_free = true;
                }
                Ok(Heard::WantsCopyData) => self.answer_copy(slot),
                Ok(Heard::WantsSync) => {
                    let mut sync = Vec::new();
                    Sync.encode(&mut sync);
                    self.write_later(slot, sync);
                }
                Err(error) => return became_free | self.lost(slot, &error.to_string()),
            }
        }
        became_free
    }

    /// The server waits for the data of a COPY. Where they are not in the workload, it fails cleanly.
    fn answer_copy(&mut self, slot: usize) {
        if let Some(flight) = &mut self.slots[slot].session.in_flight
            && let Some(data) = flight.copy.take()
        {
            flight.owes_sync = false;
            self.write_later(slot, data);
            return;
        }
        let mut refusal = Vec::new();
        CopyFail {
            reason: b"the data is not in the workload",
        }
        .encode(&mut refusal)
        .expect("without a NUL");
        if let Some(flight) = &self.slots[slot].session.in_flight
            && flight.extended
        {
            // The Sync that was sent with the Execute was taken as part of the data.
            Sync.encode(&mut refusal);
        }
        self.write_later(slot, refusal);
    }

    pub(super) fn finish_statement(
        &mut self,
        slot: usize,
        now_ns: i64,
        lost: Option<(Sqlstate, String)>,
    ) {
        let session = &mut self.slots[slot].session;
        let Some(flight) = session.in_flight.take() else {
            return;
        };
        session.free_ns = now_ns;
        // A cancel that waited for its moment has nothing to cancel any more.
        session.scheduled = false;
        let connection_is_lost = lost.is_some();
        session.in_flight = session.pipeline.pop();
        session.listen();
        if session.phase == Phase::Running && session.in_flight.is_none() {
            session.phase = Phase::Idle;
        }
        let failure = lost.or(flight.error);
        if !connection_is_lost {
            session.tries = Tries::default();
            let sqlstate = failure.as_ref().map(|(sqlstate, _)| *sqlstate);
            let bytes = flight.state_changing_bytes.as_deref();
            session
                .server_state
                .answered(bytes, sqlstate, flight.in_transaction);
        }
        let (outcome, message) = match failure {
            Some((sqlstate, message)) => (Outcome::Failed(sqlstate), Some(message)),
            None if flight.aborted => (Outcome::Skipped(SkipReason::PipelineAborted), None),
            None => (Outcome::Done, None),
        };
        let sent_ns = Some(flight.sent_ns);
        let mut execution = done(
            &flight.job,
            outcome,
            message,
            sent_ns,
            flight.session_lag_ns,
        );
        execution.due_ns = flight.due_ns;
        execution.first_byte_ns = flight.first_byte_ns;
        execution.done_ns = Some(now_ns);
        execution.rows = flight.rows;
        execution.digest = flight.digest;
        execution.bytes = flight.bytes;
        self.count_learnt(slot);
        self.record(now_ns, execution);
    }

    /// The connection is gone, by no wish of the workload's: the statement in flight has failed. True
    /// if the session was busy, and is to go on with what waits.
    pub(super) fn lost(&mut self, slot: usize, reason: &str) -> bool {
        let now_ns = self.now_ns();
        // What the session does next in this turn is not before that.
        self.turn_ns = now_ns;
        let session = &mut self.slots[slot].session;
        let said = session
            .farewell
            .get_or_insert_with(|| (LOST, reason.to_owned()))
            .clone();
        let was_running = session.phase == Phase::Running;
        let begun = session.in_flight.is_some() && session.will_be_in_transaction();
        if session.in_flight.is_some() {
            // What the server said last was before that.
            session.server_state.ready(TransactionStatus::Idle);
        }
        session.server_state.lost(begun);
        self.parts.incidents.lost(said.0);
        self.close(slot, false);
        let session = &mut self.slots[slot].session;
        if self.parts.patience_ns > 0 && self.stopped_ns.is_none() {
            session.phase = Phase::Lost;
        }
        session.free_ns = now_ns;
        if was_running {
            // All that was under way went with it.
            while self.slots[slot].session.in_flight.is_some() {
                self.finish_statement(slot, now_ns, Some(said.clone()));
            }
        }
        was_running
    }

    /// Closes the socket; the session is gone.
    pub(super) fn close(&mut self, slot: usize, say_goodbye: bool) {
        let Slot {
            session,
            socket,
            on_ring,
            waits_for_room,
            ..
        } = &mut self.slots[slot];
        session.phase = Phase::Gone;
        session.disconnected();
        let waited_for_room = std::mem::take(waits_for_room);
        if let Some(mut socket) = socket.take() {
            if say_goodbye {
                let mut goodbye = Vec::new();
                Terminate.encode(&mut goodbye);
                socket.say_goodbye(&goodbye);
            }
            if let Some(on_ring) = on_ring.take() {
                if waited_for_room {
                    let _ = self.epoll.remove(socket.as_raw_fd());
                }
                self.outbox.leave(socket, on_ring, slot);
            }
            let counters = &self.parts.counters;
            counters.sessions_open.fetch_sub(1, Ordering::Relaxed);
            counters.sessions_live.fetch_sub(1, Ordering::Relaxed);
            if let Some(shared) = &mut self.shared {
                shared.closed(slot);
            }
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
