//! Connections: opened, tried again while the target is away, and opened anew for a session whose
//! connection was lost.

use std::cmp::Reverse;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use run::{Outcome, SkipReason};

use super::wire::LOST;
use super::{Worker, done, flight};
use crate::connect::{ConnectError, Connection};
use crate::connector::{Open, Opened, Wanted};
use crate::epoll::Interest;
use crate::job::{Job, Messages};
use crate::login::Login;
use crate::meter::Count;
use crate::session::Phase;

/// The first pause before a connection is tried again; each is twice the one before.
const PAUSE_NS: i64 = 100_000_000;
/// The longest.
const PAUSE_NS_MAX: i64 = 2_000_000_000;

impl Worker {
    /// A session begins.
    pub(super) fn connect(&mut self, slot: usize, job: Job, login: Login, now_ns: i64) {
        if self.shared.as_mut().is_some_and(|shared| !shared.take()) {
            self.begin_parked(slot, &job, login, now_ns);
            return;
        }
        let session = &mut self.slots[slot].session;
        session.in_flight = Some(Box::new(flight(job, -1, 0, &Messages::default())));
        session.login = Some(Box::new(login));
        self.open(slot);
    }

    /// A session goes on whose connection was lost. One that was lost again before it did anything
    /// is not opened again at once.
    pub(super) fn reconnect(&mut self, slot: usize, now_ns: i64) {
        let session = &mut self.slots[slot].session;
        if session.tries.count == 0 {
            session.tries.since_ns = now_ns;
            self.open(slot);
            return;
        }
        let (sqlstate, message) = session
            .farewell
            .clone()
            .unwrap_or_else(|| (LOST, "it was lost again and again".to_owned()));
        self.has_none(slot, ConnectError { sqlstate, message }, now_ns);
        if self.slots[slot].session.phase == Phase::Gone {
            self.go_on(slot, now_ns);
        }
    }

    /// Asks for a connection.
    pub(super) fn open(&mut self, slot: usize) {
        let generation = self.slots[slot].generation;
        let session = &mut self.slots[slot].session;
        session.phase = Phase::Connecting;
        session.tries.count += 1;
        self.parts
            .meter
            .add(self.parts.number, Count::OpensAsked, 1);
        let login = session.login.as_deref().expect("it has connected once");
        let wanted = Wanted::Open(Open {
            slot,
            generation,
            login: login.clone(),
            inbox: self.parts.inbox.clone(),
        });
        // The connectors outlive the workers.
        let _ = self.parts.connectors.send(wanted);
    }

    pub(super) fn opened(&mut self, opened: Opened) -> io::Result<()> {
        let slot = opened.slot;
        let now_ns = self.now_ns();
        self.parts
            .meter
            .add(self.parts.number, Count::OpensAnswered, 1);
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
            session.tries.since_ns = opened.sent_ns;
        }
        match opened.result {
            Ok(connection) => self.has_connection(slot, connection, now_ns)?,
            Err(error) => self.has_none(slot, error, now_ns),
        }
        self.go_on(slot, now_ns);
        Ok(())
    }

    fn has_connection(
        &mut self,
        slot: usize,
        connection: Connection,
        now_ns: i64,
    ) -> io::Result<()> {
        if !self.goes_by_ring(slot, &connection.link)? {
            let fd = connection.link.as_raw_fd();
            self.epoll.add(fd, slot as u64, Interest::Read)?;
        }
        self.slots[slot].socket = Some(connection.link);
        let session = &mut self.slots[slot].session;
        session.phase = Phase::Idle;
        session.guard = connection.guard;
        let process_id = connection.place.process_id();
        let backends = self.parts.meter.backends();
        backends.speaks_with(session.id, process_id, now_ns);
        session.place = Some(Box::new(connection.place));
        session.comes_back = session.farewell.take().is_some();
        session.free_ns = now_ns;
        if let Some(shared) = &mut self.shared {
            shared.opened(slot);
        }
        let counters = &self.parts.counters;
        counters.heard(now_ns);
        counters.sessions_open.fetch_add(1, Ordering::Relaxed);
        let first = session.in_flight.take();
        // Notices that came behind the first ReadyForQuery.
        let _ = session.hear(&mut &connection.unread[..], now_ns);
        if let Some(flight) = first {
            let sent_ns = Some(flight.sent_ns);
            let mut execution = done(&flight.job, Outcome::Done, None, sent_ns, 0);
            execution.done_ns = Some(now_ns);
            self.record(now_ns, execution);
            return Ok(());
        }
        let comes_back = session.comes_back;
        if comes_back {
            counters.sessions_live.fetch_add(1, Ordering::Relaxed);
        }
        let restoring = session.restore(Vec::new());
        if restoring.is_empty() {
            if comes_back {
                self.parts.incidents.reopened(0);
            }
        } else {
            session.phase = Phase::Running;
            self.write_later(slot, restoring);
        }
        Ok(())
    }

    /// The session is where it was.
    pub(super) fn restored(&mut self, slot: usize, now_ns: i64) {
        let session = &mut self.slots[slot].session;
        session.phase = Phase::Idle;
        session.free_ns = now_ns;
        let errors = u64::from(session.restore_errors);
        if std::mem::take(&mut session.comes_back) {
            self.parts.incidents.reopened(errors);
        } else {
            self.parts.incidents.restore_errors(errors);
        }
    }

    /// A connection could not be opened: it is tried again as long as that may help.
    pub(super) fn has_none(&mut self, slot: usize, error: ConnectError, now_ns: i64) {
        let session = &mut self.slots[slot].session;
        let waited_ns = now_ns - session.tries.since_ns;
        if error.may_pass() && waited_ns < self.parts.patience_ns && self.stopped_ns.is_none() {
            self.parts.incidents.tried_again();
            let doublings = (session.tries.count - 1).min(10);
            let pause_ns = (PAUSE_NS << doublings).min(PAUSE_NS_MAX);
            session.phase = Phase::Waiting;
            session.scheduled = true;
            let generation = self.slots[slot].generation;
            self.deadlines
                .push(Reverse((now_ns + pause_ns, slot, generation)));
            return;
        }
        if let Some(shared) = &mut self.shared {
            shared.untaken();
        }
        session.phase = Phase::Gone;
        session.free_ns = now_ns;
        session.farewell = Some((error.sqlstate, error.message.clone()));
        if let Some(flight) = session.in_flight.take() {
            self.parts
                .counters
                .sessions_live
                .fetch_sub(1, Ordering::Relaxed);
            let outcome = Outcome::Failed(error.sqlstate);
            let sent_ns = Some(flight.sent_ns);
            let mut execution = done(&flight.job, outcome, Some(error.message), sent_ns, 0);
            execution.done_ns = Some(now_ns);
            self.record(now_ns, execution);
        }
    }

    /// After a stop nothing is tried again.
    pub(super) fn give_up_waiting(&mut self, now_ns: i64) {
        for slot in 0..self.slots.len() {
            let session = &mut self.slots[slot].session;
            if !matches!(session.phase, Phase::Waiting | Phase::Queued) {
                continue;
            }
            session.phase = Phase::Gone;
            session.scheduled = false;
            if let Some(flight) = session.in_flight.take() {
                let outcome = Outcome::Skipped(SkipReason::Stopped);
                self.record(now_ns, done(&flight.job, outcome, None, None, 0));
            }
            self.busy -= 1;
        }
    }
}
