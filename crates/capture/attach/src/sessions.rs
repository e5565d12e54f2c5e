//! Translates the records of a prober into the traffic of connections.

use std::collections::HashMap;
use std::sync::Arc;

use capture_recorder::{MirrorQueue, Totals, WallClock};
use capture_wire::conversation::{Login, Side};

use crate::attach_status::{AttachCounters, AttachEvent};
use crate::process_title::{ProcessTitle, own_process_id};
use crate::record::{Record, RecordKind};
use crate::session::{
    BackendSession, HELD_BYTES_MAX, HeldBytes, MissingBytes, SessionState, is_cancel_request,
    is_encryption_reply, is_message_of_session, is_whole_start, names_application,
};

/// Facts about a session that existed before the capture, as the server has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionIdentity {
    /// Database.
    pub database: String,
    /// User.
    pub user: String,
    /// `application_name`.
    pub application: String,
    /// Purpose of the session.
    pub kind: SessionKind,
}

/// Purpose of a session that the server knew before the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SessionKind {
    /// Session of a client.
    #[default]
    Client,
    /// Replication stream.
    Replication,
}

/// Sessions that existed before, by the numbers of their processes as the server has them.
pub type SessionIdentities = HashMap<u32, SessionIdentity>;

/// All backends of the server.
pub(crate) struct Sessions {
    backends: HashMap<u32, BackendSession>,
    outlet: Outlet,
    identities: SessionIdentities,
    /// Leaves out the sessions that existed before.
    new_only: bool,
    /// `application_name` of this program's own sessions, which are left out.
    own_application: String,
    next_connection: u64,
    progress: LossProgress,
    pub(crate) counters: AttachCounters,
    /// Events since they were taken last.
    pub(crate) events: Vec<AttachEvent>,
    /// Reason for which the prober ends.
    pub(crate) failure: Option<String>,
    /// Whether the prober wrote its last record.
    pub(crate) is_complete: bool,
}

/// Losses as counted in the kernel.
#[derive(Debug, Default)]
struct LossProgress {
    at_us: i64,
    lost_bytes: u64,
}

/// Passes bytes on to the recorder.
struct Outlet {
    clock: Arc<WallClock>,
    queue: MirrorQueue,
    totals: Totals,
}

impl Sessions {
    pub(crate) fn new(
        clock: Arc<WallClock>,
        queue: MirrorQueue,
        new_only: bool,
        own_application: String,
    ) -> Self {
        Sessions {
            backends: HashMap::new(),
            progress: LossProgress {
                at_us: clock.now_us(),
                lost_bytes: 0,
            },
            outlet: Outlet {
                clock,
                queue,
                totals: Totals::default(),
            },
            identities: SessionIdentities::default(),
            new_only,
            own_application,
            next_connection: 1,
            counters: AttachCounters::default(),
            events: Vec::new(),
            failure: None,
            is_complete: false,
        }
    }

    /// Sets the logins of sessions that existed before.
    pub(crate) fn set_identities(&mut self, identities: SessionIdentities) {
        self.identities = identities;
    }

    /// Returns whether the recorder does not keep up. Then the pipe is not read, the ring buffer fills, and the kernel counts
    /// what it drops.
    pub(crate) fn must_wait(&self) -> bool {
        self.outlet.queue.is_full()
    }

    /// Passes on what was copied so far.
    pub(crate) fn flush(&mut self) {
        let Outlet {
            clock,
            queue,
            totals,
        } = &mut self.outlet;
        queue.flush(clock.now_us(), *totals);
    }

    /// Marks the position of a command at a time.
    pub(crate) fn mark(&mut self, command: u64, at_us: i64) {
        let totals = self.outlet.totals;
        self.outlet.queue.add_mark(command, at_us, totals);
    }

    /// Passes on the sessions whose first answer was not seen, at the end of the capture.
    pub(crate) fn open_starting(&mut self) {
        for (pid, session) in &mut self.backends {
            if !session.has_no_bytes() {
                self.outlet.open(session, *pid);
            }
        }
    }

    /// Returns whether something would be lost at the end.
    pub(crate) fn has_unsent_reports(&self) -> bool {
        self.outlet.queue.has_unsent_reports()
    }

    /// Notes that the probes record a server.
    pub(crate) fn note_attached(&mut self, postmaster: u32) {
        let is_again = self.counters.attached > 0;
        self.counters.attached += 1;
        self.counters.postmaster = Some(postmaster);
        self.events.push(AttachEvent::Attached {
            postmaster,
            is_again,
        });
    }

    /// Handles a record.
    pub(crate) fn handle(&mut self, record: &Record<'_>) {
        let at_us = self.outlet.clock.at_monotonic_ns(record.time_ns as i64);
        match record.kind {
            RecordKind::FromClient => self.handle_bytes(record, Side::Client, at_us),
            RecordKind::ToClient => self.handle_bytes(record, Side::Server, at_us),
            RecordKind::Position => self.handle_position(record, at_us),
            RecordKind::Closed => {
                self.handle_position(record, at_us);
                if self.is_known(record) {
                    self.close(record.pid, at_us);
                }
            }
            RecordKind::Attached => self.note_attached(record.pid),
            RecordKind::Detached => {
                self.counters.postmaster = None;
                // The sessions of the next server can have the same numbers. Those of this one end with their processes,
                // which may outlive the postmaster.
                self.identities.clear();
                self.events.push(AttachEvent::ServerStopped);
            }
            RecordKind::Progress => {
                self.counters.untracked_calls = record.untracked_calls().unwrap_or_default();
                let counted_ns = record.counted_ns().unwrap_or(record.time_ns);
                let counted_us = self.outlet.clock.at_monotonic_ns(counted_ns as i64);
                self.handle_progress(record.offset, counted_us);
            }
            RecordKind::Failed => {
                self.failure = Some(String::from_utf8_lossy(record.data).into_owned());
            }
            RecordKind::Ended => self.is_complete = true,
        }
        self.counters.sessions = self.backends.len();
    }

    /// Returns whether the process of a record has a session.
    fn is_known(&self, record: &Record<'_>) -> bool {
        let session = self.backends.get(&record.pid);
        session.is_some_and(|session| session.started == record.backend_started)
    }

    fn handle_progress(&mut self, lost_bytes: u64, at_us: i64) {
        let lost = lost_bytes.saturating_sub(self.progress.lost_bytes);
        if lost > 0 {
            self.outlet.totals.bytes[0] += lost;
            self.outlet
                .queue
                .add_gap((self.progress.at_us, at_us), lost);
        }
        self.progress = LossProgress {
            at_us,
            lost_bytes: self.progress.lost_bytes.max(lost_bytes),
        };
    }

    /// Accounts for bytes that were lost after the last ones of a backend, or all of whose bytes were lost.
    fn handle_position(&mut self, record: &Record<'_>, at_us: i64) {
        let Some((read, written)) = record.totals() else {
            return;
        };
        if !self.is_known(record) {
            let newer = self.backends.get(&record.pid);
            let is_of_earlier =
                newer.is_some_and(|session| session.started > record.backend_started);
            if is_of_earlier || read + written == 0 {
                return;
            }
            self.find_or_begin(record, at_us);
        }
        for (side, total) in [(Side::Client, read), (Side::Server, written)] {
            self.advance(record.pid, side, (total, 0), at_us);
        }
    }

    /// Notes the position of a side of a session, and reports the bytes that are missing before it.
    fn advance(&mut self, pid: u32, side: Side, (offset, length): (u64, u64), at_us: i64) {
        let Some(session) = self.backends.get_mut(&pid) else {
            return;
        };
        if let Some(missing) = session.advance(side, offset, length, at_us) {
            if session.has_no_bytes() {
                self.counters.lost_beginnings += 1;
            }
            self.outlet.add_missing(session, pid, side, at_us, missing);
        }
    }

    fn handle_bytes(&mut self, record: &Record<'_>, side: Side, at_us: i64) {
        let index = usize::from(side == Side::Server);
        let length = record.data.len() as u64;
        self.counters.bytes[index] += length;
        self.find_or_begin(record, at_us);
        self.advance(record.pid, side, (record.offset, length), at_us);
        let Some(session) = self.backends.get_mut(&record.pid) else {
            return;
        };
        // The first calls of a process are in no count if there was no space for one more.
        if session.has_no_bytes() && is_message_of_session(side, record.data) {
            self.counters.lost_beginnings += 1;
            self.outlet.open_late(session, record.pid, at_us);
        }
        match &mut session.state {
            SessionState::LeftOut => self.outlet.pass(side, record.data),
            SessionState::Open => self.outlet.add_bytes(session, side, at_us, record.data),
            SessionState::Starting(held) => {
                let size: usize = held.iter().map(|one| one.bytes.len()).sum();
                if side == Side::Client && names_application(record.data, &self.own_application) {
                    self.counters.left_out_own += 1;
                    for one in held {
                        self.outlet.pass(one.side, &one.bytes);
                    }
                    self.outlet.pass(side, record.data);
                    session.state = SessionState::LeftOut;
                    return;
                }
                // A short session may have ended when its next record is read.
                if session.client.is_empty() {
                    session.client = ProcessTitle::read(record.pid).client;
                }
                held.push(HeldBytes {
                    side,
                    at_us,
                    bytes: record.data.to_vec(),
                });
                // A cancel request has no answer.
                let is_known = match side {
                    Side::Client => is_cancel_request(record.data),
                    Side::Server => !is_encryption_reply(record.data),
                };
                if is_known || size + record.data.len() > HELD_BYTES_MAX {
                    self.outlet.open(session, record.pid);
                }
            }
        }
    }

    /// Begins the session of a backend, unless it has one.
    fn find_or_begin(&mut self, record: &Record<'_>, at_us: i64) {
        match self.backends.get(&record.pid) {
            Some(session) if session.started == record.backend_started => return,
            // The end of the earlier process was lost.
            Some(_) => self.close(record.pid, at_us),
            None => (),
        }
        let state = SessionState::Starting(Vec::new());
        let number = self.next_connection;
        let mut session = BackendSession::new(number, record.backend_started, state, at_us);
        self.next_connection += 1;
        // A process may be older than the probes, and its session not.
        let is_whole = record.kind == RecordKind::FromClient
            && record.offset == 0
            && is_whole_start(record.data);
        if record.existing && !is_whole {
            self.begin_existing(&mut session, record.pid, at_us);
        }
        self.backends.insert(record.pid, session);
    }

    /// Begins a session that existed before the capture.
    fn begin_existing(&mut self, session: &mut BackendSession, pid: u32, at_us: i64) {
        let title = ProcessTitle::read(pid);
        let identity = own_process_id(pid).and_then(|own| self.identities.get(&own));
        session.client.clone_from(&title.client);
        self.counters.existing += 1;
        session.state = SessionState::LeftOut;
        if title.is_walsender
            || identity.is_some_and(|identity| identity.kind == SessionKind::Replication)
        {
            self.counters.left_out_replication += 1;
        } else if self.new_only {
            self.counters.left_out_existing += 1;
        } else {
            session.state = SessionState::Open;
            let login = match identity {
                Some(identity) => Login {
                    database: &identity.database,
                    user: &identity.user,
                    application: &identity.application,
                },
                None => Login {
                    database: &title.database,
                    user: &title.user,
                    application: "",
                },
            };
            self.outlet.queue.add_opened_before(
                &mut session.mirrored,
                (session.connection, &session.client),
                at_us,
                Some(login),
            );
        }
    }

    fn close(&mut self, pid: u32, at_us: i64) {
        let Some(mut session) = self.backends.remove(&pid) else {
            return;
        };
        if matches!(session.state, SessionState::Starting(_)) {
            self.outlet.open(&mut session, pid);
        }
        if session.state == SessionState::Open {
            let (connection, mirrored) = (session.connection, &mut session.mirrored);
            self.outlet.queue.add_closed(mirrored, connection, at_us);
        }
    }
}

impl Outlet {
    /// Counts bytes of a session that is not captured.
    fn pass(&mut self, side: Side, bytes: &[u8]) {
        let index = usize::from(side == Side::Server);
        self.totals.bytes[index] += bytes.len() as u64;
        self.totals.passed[index] += bytes.len() as u64;
    }

    /// Passes on bytes of a session, and counts them. Those that are held are in no count, so that the account of a
    /// recording adds up at any time.
    fn add_bytes(&mut self, session: &mut BackendSession, side: Side, at_us: i64, bytes: &[u8]) {
        self.totals.bytes[usize::from(side == Side::Server)] += bytes.len() as u64;
        let connection = (session.connection, session.client.as_str());
        let mirrored = &mut session.mirrored;
        self.queue
            .add_bytes(mirrored, connection, side, at_us, bytes);
    }

    /// Passes on a session whose beginning was seen, with the bytes that it held.
    fn open(&mut self, session: &mut BackendSession, pid: u32) {
        let state = std::mem::replace(&mut session.state, SessionState::Open);
        let SessionState::Starting(held) = state else {
            return;
        };
        if session.client.is_empty() {
            session.client = ProcessTitle::read(pid).client;
        }
        let at_us = held.first().map_or(session.begun_us, |first| first.at_us);
        let (connection, mirrored) = (session.connection, &mut session.mirrored);
        self.queue
            .add_opened(mirrored, connection, at_us, &session.client);
        for one in held {
            self.add_bytes(session, one.side, one.at_us, &one.bytes);
        }
    }

    /// Passes on a session whose beginning was not seen.
    fn open_late(&mut self, session: &mut BackendSession, pid: u32, at_us: i64) {
        let title = ProcessTitle::read(pid);
        session.state = SessionState::Open;
        session.client = title.client;
        let login = Login {
            database: &title.database,
            user: &title.user,
            application: "",
        };
        let connection = (session.connection, session.client.as_str());
        let mirrored = &mut session.mirrored;
        self.queue
            .add_opened_before(mirrored, connection, at_us, Some(login));
    }

    /// Reports missing bytes of a session.
    fn add_missing(
        &mut self,
        session: &mut BackendSession,
        pid: u32,
        side: Side,
        at_us: i64,
        missing: MissingBytes,
    ) {
        match &session.state {
            SessionState::LeftOut => return,
            SessionState::Open => (),
            SessionState::Starting(held) if held.is_empty() => {
                self.open_late(session, pid, at_us);
            }
            SessionState::Starting(_) => self.open(session, pid),
        }
        let connection = (session.connection, session.client.as_str());
        let times = (missing.from_us, at_us);
        let mirrored = &mut session.mirrored;
        self.queue
            .add_lost(mirrored, connection, side, times, missing.bytes);
    }
}
