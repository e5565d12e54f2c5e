//! I/O of a session's socket: sends statements, reads answers, and handles the end of a connection.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use protocol::backend::TransactionStatus;
use protocol::frontend::{CopyFail, Sync, Terminate};
use run::{LostConnection, Outcome, SkipReason};
use workload::{Boundary, Sqlstate};

use super::{Slot, Worker, new_execution};
use crate::captured_transactions::ABORT_QUERY;
use crate::epoll::Interest;
use crate::in_flight::{InFlight, Protocol};
use crate::job::{Job, Messages};
use crate::metrics::Count;
use crate::session::{ConnectAttempts, Hold, Phase, SessionEvent};
use crate::stream::Stream;

/// `connection_failure`
pub(super) const CONNECTION_FAILURE: Sqlstate = Sqlstate(*b"08006");
/// Message if the server closed the connection without an error.
pub(super) const CLOSED_BY_SERVER: &str = "the server closed the connection";

impl Worker {
    /// Sends a statement and returns the send time. With io_uring, it is sent with the next call, which sets the
    /// final send time.
    pub(super) fn send(
        &mut self,
        slot: usize,
        mut job: Job,
        mut messages: Messages,
        session_lag_ns: u64,
    ) -> i64 {
        self.replace_generated(&job, &mut messages);
        let Slot {
            session,
            socket,
            ring_socket,
            ..
        } = &mut self.slots[slot];
        let Some(socket) = socket else {
            return self.now_ns();
        };
        let copy = messages.copy.take();
        let state_changing_bytes: Option<Box<[u8]>> =
            (job.session_effect.changes_state).then(|| messages.bytes[..].into());
        let required = session.required_messages(&messages);
        let mut from = messages.bytes.len() - required.len();
        // An open group is one transaction and keeps its mode; a Query within it would end it.
        let needs_guard = session.guard.is_needed() && !session.pipeline.group_is_open;
        let needs_abort = job.transaction_failed && session.can_abort_transaction();
        if needs_guard || needs_abort {
            let mut preceding = Vec::new();
            for (is_needed, message) in [
                (needs_guard, crate::read_only_guard::message()),
                (needs_abort, ABORT_QUERY),
            ] {
                if is_needed {
                    preceding.push(message);
                }
            }
            session.preceding = preceding.len() as u8;
            messages.bytes = [&preceding.concat(), required].concat();
            from = 0;
        }
        if needs_abort {
            self.context.events.transaction_aborted();
        }
        // Otherwise unsent bytes go first, such as COPY data that the server did not read to the end.
        let has_room = session.unsent.is_empty();
        let sent_ns = match ring_socket {
            Some(_) if has_room => self.batch_ns,
            _ => self.context.clock.now_ns() - self.context.start_ns,
        };
        if self.context.at_full_speed {
            job.due_ns = sent_ns;
        } else {
            session.tool_delay_ns += self.stalls.send(job.due_ns, session.idle_since_ns, sent_ns);
        }
        let (due_ns, session_number, sequence) = (job.due_ns, job.session, job.sequence);
        let result = match ring_socket {
            None if has_room => socket.write(&messages.bytes[from..]),
            _ => Ok(0),
        };
        let wants_write = socket.wants_write();
        let ends_group = job.boundary == Boundary::Sync;
        let protocol = match messages.extended {
            false => Protocol::Simple,
            true if copy.is_some() && ends_group => Protocol::ExtendedSyncPending,
            true => Protocol::Extended,
        };
        let mut flight = InFlight::new(job, sent_ns, session_lag_ns, protocol);
        flight.named = messages.named;
        flight.copy = copy;
        flight.state_changing_bytes = state_changing_bytes;
        session.add_in_flight(flight);
        self.context
            .metrics
            .add(self.context.number, Count::Sent, 1);
        if let Some(order) = &self.context.order {
            order.on_sent(session_number, sequence);
        }
        if let Some(ring_socket) = ring_socket.as_mut().filter(|_| has_room) {
            self.outbox.send(slot, ring_socket, messages.bytes, from, 1);
            return sent_ns;
        }
        let written = match result {
            Ok(written) => written,
            Err(error) if is_transient(&error) => 0,
            Err(error) => {
                // The caller advances the session, which skips its further jobs.
                self.on_write_error(slot, &error);
                return self.now_ns();
            }
        };
        let lag_ns = sent_ns - due_ns - session_lag_ns as i64;
        let tool_lag_ns = &self.context.counters.tool_lag_ns;
        tool_lag_ns.fetch_max(lag_ns, Ordering::Relaxed);
        let rest = &messages.bytes[from + written..];
        if !rest.is_empty() || wants_write {
            self.write_later(slot, rest.to_vec());
        }
        self.now_ns()
    }

    /// Sends bytes after those that wait already.
    pub(super) fn write_later(&mut self, slot: usize, rest: Vec<u8>) {
        let Slot {
            session,
            socket,
            ring_socket,
            awaits_writable,
            ..
        } = &mut self.slots[slot];
        if let Some(ring_socket) = ring_socket
            && session.unsent.is_empty()
        {
            return self.outbox.send(slot, ring_socket, rest, 0, 0);
        }
        session.unsent.extend_from_slice(&rest);
        if let Some(socket) = socket
            && !*awaits_writable
        {
            *awaits_writable = true;
            let fd = socket.as_raw_fd();
            let _ = self.epoll.change(fd, slot as u64, Interest::ReadAndWrite);
        }
    }

    /// Writes the bytes that wait, as far as the socket accepts them.
    pub(super) fn write_rest(&mut self, slot: usize) {
        let Slot {
            session,
            socket,
            ring_socket,
            awaits_writable,
            ..
        } = &mut self.slots[slot];
        let Some(socket) = socket else { return };
        let fd = socket.as_raw_fd();
        while session.unsent_from < session.unsent.len() {
            match socket.write(&session.unsent[session.unsent_from..]) {
                Ok(written) => session.unsent_from += written,
                Err(error) if is_transient(&error) => return,
                Err(error) if ring_socket.is_some() => {
                    session.unsent = Vec::new();
                    session.unsent_from = 0;
                    *awaits_writable = false;
                    let _ = self.epoll.remove(fd);
                    return self.on_send_error(slot, &error);
                }
                Err(error) => {
                    if self.on_write_error(slot, &error) {
                        let now_ns = self.now_ns();
                        self.advance_session(slot, now_ns);
                    }
                    return;
                }
            }
        }
        // An error of a broken socket is reported by the next read.
        if socket.flush().is_err_and(|error| is_transient(&error)) {
            return;
        }
        session.unsent = Vec::new();
        session.unsent_from = 0;
        *awaits_writable = false;
        let _ = match ring_socket {
            None => self.epoll.change(fd, slot as u64, Interest::Read),
            Some(_) => self.epoll.remove(fd),
        };
    }

    /// Reads all available bytes, and advances the session if it became free.
    pub(super) fn read(&mut self, slot: usize) {
        let became_free = self.read_all(slot);
        let socket = self.slots[slot].socket.as_ref();
        if socket.is_some_and(Stream::wants_write) {
            self.write_later(slot, Vec::new());
        }
        if became_free {
            let now_ns = self.now_ns();
            self.advance_session(slot, now_ns);
        }
    }

    /// Handles a connection that cannot be written. The server's last message may still be readable and has the
    /// reason. Returns whether the session was busy and must be advanced.
    fn on_write_error(&mut self, slot: usize, error: &io::Error) -> bool {
        let became_free = self.read_all(slot);
        match self.slots[slot].socket {
            Some(_) => self.connection_lost(slot, &error.to_string()) | became_free,
            None => became_free,
        }
    }

    /// Reads all available bytes. Returns whether the session became free.
    fn read_all(&mut self, slot: usize) -> bool {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut became_free = false;
        while let Some(socket) = &mut self.slots[slot].socket {
            let read = match socket.read(&mut buffer) {
                Ok(0) => {
                    became_free |= self.connection_lost(slot, CLOSED_BY_SERVER);
                    break;
                }
                Ok(read) => read,
                Err(error) if is_transient(&error) => break,
                Err(error) => {
                    became_free |= self.connection_lost(slot, &error.to_string());
                    break;
                }
            };
            let now_ns = self.now_ns();
            self.stalls.run(now_ns);
            became_free |= self.process_bytes(slot, &buffer[..read], now_ns);
            if read < buffer.len() {
                break;
            }
        }
        self.buffer = buffer;
        became_free
    }

    /// Processes bytes of the server. Returns whether the session became free.
    pub(super) fn process_bytes(&mut self, slot: usize, mut unread: &[u8], now_ns: i64) -> bool {
        self.context.counters.note_answer(now_ns);
        let mut became_free = false;
        while !unread.is_empty() {
            match self.slots[slot].session.on_bytes(&mut unread, now_ns) {
                Ok(SessionEvent::Nothing) => {}
                Ok(SessionEvent::StatementDone) => {
                    self.finish_statement(slot, now_ns, None);
                    self.finish_aborted(slot, now_ns);
                    became_free = true;
                }
                Ok(SessionEvent::Restored) => {
                    self.finish_restore(slot, now_ns);
                    became_free = true;
                }
                Ok(SessionEvent::CopyDataRequested) => self.answer_copy(slot),
                Ok(SessionEvent::SyncRequired) => {
                    let mut sync = Vec::new();
                    Sync.encode(&mut sync);
                    self.write_later(slot, sync);
                }
                Err(error) => return became_free | self.connection_lost(slot, &error.to_string()),
            }
        }
        became_free
    }

    /// Answers the server's request for COPY data. If the workload does not have them, the COPY fails cleanly.
    fn answer_copy(&mut self, slot: usize) {
        if let Some(flight) = &mut self.slots[slot].session.in_flight
            && let Some(data) = flight.copy.take()
        {
            // The Sync follows the data.
            flight.take_pending_sync();
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
            && flight.protocol != Protocol::Simple
        {
            // The server took the Sync after the Execute as part of the data.
            Sync.encode(&mut refusal);
        }
        self.write_later(slot, refusal);
    }

    /// Ends the statement in flight and records it. `lost`: the error, if the connection was lost.
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
        session.idle_since_ns = now_ns;
        // A cancel request that waits for its time has nothing to cancel any more.
        session.end_hold(Hold::UntilDue);
        let connection_is_lost = lost.is_some();
        session.in_flight = session.pipeline.pop();
        session.select_bodies();
        if session.phase == Phase::Running && session.in_flight.is_none() {
            session.phase = Phase::Idle;
        }
        let failure = lost.or(flight.error);
        if !connection_is_lost {
            session.attempts = ConnectAttempts::default();
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
        let mut execution = new_execution(
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
        if execution.outcome == Outcome::Done
            && let Some(mut columns) = flight.columns.and_then(|columns| columns.finish())
        {
            columns.session = execution.session;
            columns.sequence = execution.sequence;
            columns.fingerprint = execution.fingerprint;
            columns.digest = flight.digest.unwrap_or_default();
            self.result_columns.push(columns);
        }
        execution.bytes = flight.bytes;
        self.add_stall(slot, &mut execution);
        let id = (execution.session, execution.sequence);
        self.take_generated(id, &flight.replayed);
        self.record(now_ns, execution);
    }

    /// Handles the loss of a connection: the statements in flight fail. Returns whether the session was busy and
    /// must be advanced.
    pub(super) fn connection_lost(&mut self, slot: usize, reason: &str) -> bool {
        let now_ns = self.now_ns();
        // Later sends of this batch are not before the loss.
        self.batch_ns = now_ns;
        let session = &mut self.slots[slot].session;
        let error = session
            .fatal_error
            .get_or_insert_with(|| (CONNECTION_FAILURE, reason.to_owned()))
            .clone();
        let was_running = session.phase == Phase::Running;
        let begun = session.in_flight.is_some() && session.will_be_in_transaction();
        if session.in_flight.is_some() {
            // The last reported status is older than the statement.
            session.server_state.ready(TransactionStatus::Idle);
        }
        session.server_state.lost(begun);
        self.context.events.lost(LostConnection {
            at_ns: now_ns,
            session: session.id,
            sqlstate: error.0,
            connections_open: self.context.counters.sessions_open.load(Ordering::Relaxed),
        });
        self.close(slot, false);
        let session = &mut self.slots[slot].session;
        if self.context.patience_ns > 0 && self.stopped_ns.is_none() {
            session.phase = Phase::Lost;
        }
        session.idle_since_ns = now_ns;
        if was_running {
            // All statements in flight fail with it.
            while self.slots[slot].session.in_flight.is_some() {
                self.finish_statement(slot, now_ns, Some(error.clone()));
            }
        }
        was_running
    }

    /// Closes the socket of a session. `terminate`: whether to send Terminate first.
    pub(super) fn close(&mut self, slot: usize, terminate: bool) {
        let Slot {
            session,
            socket,
            ring_socket,
            awaits_writable,
            ..
        } = &mut self.slots[slot];
        session.phase = Phase::Closed;
        session.reset_connection();
        let awaited_writable = std::mem::take(awaits_writable);
        if let Some(mut socket) = socket.take() {
            if terminate {
                let mut bytes = Vec::new();
                Terminate.encode(&mut bytes);
                socket.terminate(&bytes);
            }
            if let Some(ring_socket) = ring_socket.take() {
                if awaited_writable {
                    let _ = self.epoll.remove(socket.as_raw_fd());
                }
                self.outbox.release(socket, ring_socket, slot);
            }
            let counters = &self.context.counters;
            counters.sessions_open.fetch_sub(1, Ordering::Relaxed);
            counters.sessions_live.fetch_sub(1, Ordering::Relaxed);
            if let Some(pool) = &mut self.pool {
                pool.closed(slot);
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
