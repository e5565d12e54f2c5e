//! Opens connections, retries while the target is unreachable, and reconnects sessions that lost theirs.

use std::cmp::Reverse;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use run::{Outcome, SkipReason};

use super::socket_io::CONNECTION_FAILURE;
use super::{Worker, new_execution};
use crate::connect::{ConnectError, Connection};
use crate::connector::{ConnectorRequest, OpenRequest};
use crate::epoll::Interest;
use crate::in_flight::{InFlight, Protocol};
use crate::inbox::OpenResult;
use crate::job::Job;
use crate::login::Login;
use crate::metrics::Count;
use crate::session::{Hold, Phase};

/// First delay before a retry; each further delay is twice the previous one.
const RETRY_DELAY_NS: i64 = 100_000_000;
/// Longest delay.
const RETRY_DELAY_NS_MAX: i64 = 2_000_000_000;

impl Worker {
    /// Starts a session.
    pub(super) fn connect(&mut self, slot: usize, job: Job, login: Login, now_ns: i64) {
        if self.pool.as_mut().is_some_and(|pool| !pool.reserve()) {
            self.connect_parked(slot, &job, login, now_ns);
            return;
        }
        let session = &mut self.slots[slot].session;
        session.in_flight = Some(Box::new(InFlight::new(job, -1, 0, Protocol::Simple)));
        session.login = Some(Box::new(login));
        self.request_connection(slot);
    }

    /// Reconnects a session that lost its connection. If it was lost again before a statement was done, the retry
    /// is delayed.
    pub(super) fn reconnect(&mut self, slot: usize, now_ns: i64) {
        let session = &mut self.slots[slot].session;
        if session.attempts.count == 0 {
            session.attempts.first_ns = now_ns;
            self.request_connection(slot);
            return;
        }
        let (sqlstate, message) = session
            .fatal_error
            .clone()
            .unwrap_or_else(|| (CONNECTION_FAILURE, "it was lost again and again".to_owned()));
        self.open_failed(slot, ConnectError { sqlstate, message }, now_ns);
        if self.slots[slot].session.phase == Phase::Closed {
            self.advance_session(slot, now_ns);
        }
    }

    /// Requests a connection.
    pub(super) fn request_connection(&mut self, slot: usize) {
        let generation = self.slots[slot].generation;
        let session = &mut self.slots[slot].session;
        session.phase = Phase::Connecting;
        session.attempts.count += 1;
        self.context
            .metrics
            .add(self.context.number, Count::OpensAsked, 1);
        let login = session.login.as_deref().expect("it has connected once");
        let request = ConnectorRequest::Open(OpenRequest {
            slot,
            generation,
            login: login.clone(),
            inbox: self.context.inbox.clone(),
        });
        // The connectors outlive the workers.
        let _ = self.context.connectors.send(request);
    }

    /// Takes the result of a request for a connection.
    pub(super) fn on_open_result(&mut self, opened: OpenResult) -> io::Result<()> {
        let slot = opened.slot;
        let now_ns = self.now_ns();
        self.context
            .metrics
            .add(self.context.number, Count::OpensAnswered, 1);
        if self.slots[slot].generation != opened.generation
            || self.slots[slot].session.phase != Phase::Connecting
        {
            return Ok(());
        }
        let session = &mut self.slots[slot].session;
        if let Some(flight) = &mut session.in_flight
            && flight.sent_ns < 0
        {
            flight.sent_ns = opened.sent_ns;
            session.attempts.first_ns = opened.sent_ns;
        }
        match opened.result {
            Ok(connection) => self.connection_opened(slot, connection, now_ns)?,
            Err(error) => self.open_failed(slot, error, now_ns),
        }
        self.advance_session(slot, now_ns);
        Ok(())
    }

    fn connection_opened(
        &mut self,
        slot: usize,
        connection: Connection,
        now_ns: i64,
    ) -> io::Result<()> {
        if !self.add_to_ring(slot, &connection.stream)? {
            let fd = connection.stream.as_raw_fd();
            self.epoll.add(fd, slot as u64, Interest::Read)?;
        }
        self.slots[slot].socket = Some(connection.stream);
        let session = &mut self.slots[slot].session;
        session.phase = Phase::Idle;
        session.guard = connection.guard;
        let process_id = connection.backend.process_id();
        let backends = self.context.metrics.backends();
        backends.add(session.id, process_id, now_ns);
        if let Some(order) = &self.context.order {
            order.set_process(session.id, process_id);
        }
        session.backend = Some(Box::new(connection.backend));
        session.reconnecting = session.fatal_error.take().is_some();
        session.idle_since_ns = now_ns;
        if let Some(pool) = &mut self.pool {
            pool.opened(slot);
        }
        let counters = &self.context.counters;
        counters.note_answer(now_ns);
        counters.sessions_open.fetch_add(1, Ordering::Relaxed);
        let first = session.in_flight.take();
        // Notices that arrived after the first ReadyForQuery.
        let _ = session.on_bytes(&mut &connection.unread[..], now_ns);
        if let Some(flight) = first {
            let sent_ns = Some(flight.sent_ns);
            let mut execution = new_execution(&flight.job, Outcome::Done, None, sent_ns, 0);
            execution.done_ns = Some(now_ns);
            self.add_stall(slot, &mut execution);
            self.record(now_ns, execution);
            return Ok(());
        }
        let is_reconnect = session.reconnecting;
        session.replaces_connection = false;
        if is_reconnect {
            counters.sessions_live.fetch_add(1, Ordering::Relaxed);
        }
        let restoring = session.begin_restore(Vec::new());
        if restoring.is_empty() {
            // Otherwise the end of the next restoration would count it again.
            session.reconnecting = false;
            if is_reconnect {
                self.context.events.reopened(0);
            }
        } else {
            session.phase = Phase::Running;
            self.write_later(slot, restoring);
        }
        Ok(())
    }

    /// Finishes restoring a session's state on a new connection.
    pub(super) fn finish_restore(&mut self, slot: usize, now_ns: i64) {
        let session = &mut self.slots[slot].session;
        session.phase = Phase::Idle;
        session.idle_since_ns = now_ns;
        let errors = u64::from(session.restore_errors);
        if std::mem::take(&mut session.reconnecting) {
            self.context.events.reopened(errors);
        } else {
            self.context.events.restore_errors(errors);
        }
    }

    /// Handles a connection that could not be opened: schedules a retry if it may succeed, or ends the session.
    pub(super) fn open_failed(&mut self, slot: usize, error: ConnectError, now_ns: i64) {
        let session = &mut self.slots[slot].session;
        let waited_ns = now_ns - session.attempts.first_ns;
        if error.is_transient() && waited_ns < self.context.patience_ns && self.stopped_ns.is_none()
        {
            self.context.events.retried();
            let doublings = (session.attempts.count - 1).min(10);
            let delay_ns = (RETRY_DELAY_NS << doublings).min(RETRY_DELAY_NS_MAX);
            session.phase = Phase::Backoff;
            session.hold = Hold::UntilDue;
            let generation = self.slots[slot].generation;
            self.deadlines
                .push(Reverse((now_ns + delay_ns, slot, generation)));
            return;
        }
        if let Some(pool) = &mut self.pool {
            pool.unreserve();
        }
        session.phase = Phase::Closed;
        session.idle_since_ns = now_ns;
        session.fatal_error = Some((error.sqlstate, error.message.clone()));
        if let Some(flight) = session.in_flight.take() {
            self.context
                .counters
                .sessions_live
                .fetch_sub(1, Ordering::Relaxed);
            let outcome = Outcome::Failed(error.sqlstate);
            let sent_ns = Some(flight.sent_ns);
            let mut execution =
                new_execution(&flight.job, outcome, Some(error.message), sent_ns, 0);
            execution.done_ns = Some(now_ns);
            self.add_stall(slot, &mut execution);
            self.record(now_ns, execution);
        }
    }

    /// Ends the sessions that wait for a connection, after a stop.
    pub(super) fn abandon_connecting(&mut self, now_ns: i64) {
        for slot in 0..self.slots.len() {
            let session = &mut self.slots[slot].session;
            if !matches!(session.phase, Phase::Backoff | Phase::Queued) {
                continue;
            }
            session.phase = Phase::Closed;
            session.end_hold(Hold::UntilDue);
            if let Some(flight) = session.in_flight.take() {
                let outcome = Outcome::Skipped(SkipReason::Stopped);
                self.record(now_ns, new_execution(&flight.job, outcome, None, None, 0));
            }
            self.busy -= 1;
        }
    }
}
