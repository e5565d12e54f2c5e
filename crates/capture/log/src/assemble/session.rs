//! Tracks one session that may continue.

use std::sync::Arc;

use workload::series::{HeldEvent, RunningEvent};
use workload::{EventRef, KindRef, Outcome, Session, Unreplayable};

use super::super::entry::Entry;
use super::super::quality_counters::TransactionState;
use super::super::reconcile::SkipReason;
use super::Output;
use super::cursors::{FileCause, OpenCursors, may_declare};
use super::exchange::{AuditPosition, Exchange, PendingDurations, Stage};
use super::prepared::KnownStatements;
use super::uncommitted::UncommittedStatements;
use crate::reconcile::Location;
use capture_sink::{SessionStart, SinkError};

/// A connection that is not yet a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingConnection {
    pub wall_us: i64,
    pub lines: u64,
    pub place: Location,
}

/// One session, or a connection that may become one.
#[derive(Debug)]
pub(super) struct LiveSession {
    /// Serial number, which distinguishes it from others with the same process number.
    pub serial: u64,
    pub started: u64,
    pub line_number: u64,
    pub seen_us: i64,
    pub connection: Option<PendingConnection>,
    pub replication: bool,
    /// The process's last message was not a step of a statement: a lock wait, a temporary file.
    pub wrote_unrelated: bool,
    /// Time and place of the FATAL that ended it.
    pub ended: Option<(i64, Location)>,
    pub client: String,
    pub(super) database: Arc<str>,
    pub(super) user: Arc<str>,
    pub(super) application: Arc<str>,
    /// Names that it set for its application.
    pub(super) applications: Vec<Box<str>>,
    /// Its number in the workload, once it has one.
    id: Option<u64>,
    sequence: u64,
    start_us: i64,
    /// Due time of the last event; the next is not before it.
    due_us: i64,
    start_seen: bool,
    statements: u64,
    /// State of the transaction, as far as its statements show it.
    pub(super) transaction: TransactionState,
    /// The exchange in progress.
    pub(super) pending: Option<Box<Exchange>>,
    /// Last statement of pgAudit.
    pub(super) audited: AuditPosition,
    /// Exchanges that an error before the next Sync would undo, the oldest first.
    pub(super) uncommitted: UncommittedStatements,
    /// Exchanges bound to named portals and not yet executed, the oldest first.
    #[expect(clippy::vec_box, reason = "they come and go in their boxes")]
    pub(super) bound: Vec<Box<Exchange>>,
    pub(super) known: KnownStatements,
    /// Number of statements whose parse no execution has used.
    pub(super) unused_parses: usize,
    pub(super) pending_durations: Option<PendingDurations>,
    /// Its cursors, once it declared one.
    pub(super) cursors: Option<Box<OpenCursors>>,
}

/// `host:port`, or the host alone.
pub(super) fn client(host: &str, port: &str) -> String {
    match port {
        "" => host.to_owned(),
        port => format!("{host}:{port}"),
    }
}

/// Returns the identity of the server process of a session. It is the same if the log is read again.
pub(super) fn process_identity(pid: u32, started: u64) -> u64 {
    started.rotate_left(32) ^ u64::from(pid)
}

/// Replaces the server's placeholder for an unknown name by an empty one.
pub(super) fn unless_unknown(name: &str) -> &str {
    match name {
        "[unknown]" => "",
        name => name,
    }
}

impl LiveSession {
    pub(super) fn new(serial: u64, entry: &Entry<'_>, empty: &Arc<str>) -> Self {
        LiveSession {
            serial,
            started: entry.started,
            wrote_unrelated: false,
            line_number: entry.line_number,
            seen_us: entry.wall_us,
            connection: None,
            replication: false,
            ended: None,
            client: String::new(),
            database: empty.clone(),
            user: empty.clone(),
            application: empty.clone(),
            applications: Vec::new(),
            id: None,
            sequence: 0,
            start_us: 0,
            due_us: i64::MIN,
            start_seen: false,
            statements: 0,
            transaction: TransactionState::default(),
            pending: None,
            audited: AuditPosition::default(),
            uncommitted: UncommittedStatements::default(),
            bound: Vec::new(),
            known: KnownStatements::default(),
            unused_parses: 0,
            pending_durations: None,
            cursors: None,
        }
    }

    /// Returns whether an entry with this process number belongs to another session: its process
    /// started at another time, or its line numbers restart.
    pub(super) fn belongs_to_other(&self, entry: &Entry<'_>) -> bool {
        self.is_other(entry.started, entry.line_number)
    }

    /// Returns whether a line with this start and line number belongs to another session.
    pub(super) fn is_other(&self, started: u64, line_number: u64) -> bool {
        if self.started != 0 && started != 0 {
            return self.started != started;
        }
        line_number != 0 && line_number <= self.line_number
    }

    /// Its number in the workload, once it is a session.
    pub(super) fn id(&self) -> Option<u64> {
        self.id
    }

    /// Returns whether it is a session, not only a connection.
    pub(super) fn is_open(&self) -> bool {
        self.id.is_some()
    }

    /// Returns whether its beginning is in the log.
    pub(super) fn is_whole(&self) -> bool {
        self.start_seen
    }

    /// Returns whether it may be dropped after a time.
    pub(super) fn may_expire(&self) -> bool {
        self.ended.is_some() || (!self.is_open() && self.connection.is_some())
    }

    /// Handles `connection authenticated` and `connection ready`.
    pub(super) fn handle_connection_progress(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
    ) {
        let open = self.is_open();
        match &mut self.connection {
            Some(connection) => connection.lines += entry.lines,
            None if open => output.account.lines_in_events += entry.lines,
            // The capture began between this and `received`.
            None => {
                self.connection = Some(PendingConnection {
                    wall_us: entry.wall_us,
                    lines: entry.lines,
                    place: entry.place,
                });
            }
        }
    }

    /// Handles `connection authorized`: the session begins.
    pub(super) fn handle_authorized(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        user: &str,
        database: &str,
        application: &str,
    ) -> Result<(), SinkError> {
        if self.is_open() {
            // A reused process number would have another start time; this is unusual, but
            // belongs to the session.
            output.account.lines_in_events += entry.lines;
            return Ok(());
        }
        let (user, database) = output.names.of_authorized(entry, (user, database));
        let connection = self.connection.get_or_insert(PendingConnection {
            wall_us: entry.wall_us,
            lines: 0,
            place: entry.place,
        });
        connection.lines += entry.lines;
        let wall_us = connection.wall_us;
        self.user = user.into();
        self.database = database.into();
        self.application = application.into();
        self.open(output, entry, wall_us)
    }

    /// Ensures that it is a session, which began at `wall_us` at the latest.
    #[inline(always)]
    pub(super) fn open(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        wall_us: i64,
    ) -> Result<(), SinkError> {
        match self.id {
            Some(_) => Ok(()),
            None => self.begin(output, entry, wall_us),
        }
    }

    #[inline(never)]
    fn begin(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        wall_us: i64,
    ) -> Result<(), SinkError> {
        let (start_us, place) = match self.connection.take() {
            Some(connection) => {
                output.account.lines_in_events += connection.lines;
                self.start_seen = true;
                (connection.wall_us.min(wall_us), connection.place)
            }
            None => (wall_us, entry.place),
        };
        let mut names = entry.who.names();
        if self.user.is_empty() && self.database.is_empty() {
            (names.user, names.database) = output.names.of_line(entry);
        }
        for (known, said) in [
            (&mut self.user, names.user),
            (&mut self.database, names.database),
            (&mut self.application, names.application),
        ] {
            if known.is_empty() && !unless_unknown(said).is_empty() && !self.start_seen {
                *known = said.into();
            }
        }
        // A connection that was received but whose authorization is not logged.
        if self.user.is_empty() && self.database.is_empty() {
            self.user = unless_unknown(names.user).into();
            self.database = unless_unknown(names.database).into();
            self.application = unless_unknown(names.application).into();
        }
        if self.client.is_empty() {
            self.client = client(names.client.0, names.client.1);
        }
        self.id = Some(output.sessions);
        output.sink.session_begins(SessionStart {
            id: output.sessions,
            client: &self.client,
            start_seen: self.start_seen,
            process: process_identity(entry.pid, self.started),
        })?;
        output.sessions += 1;
        self.start_us = start_us;
        let (database, user, application) = (
            self.database.clone(),
            self.user.clone(),
            self.application.clone(),
        );
        let connect = KindRef::Connect {
            database: &database,
            user: &user,
            application: &application,
        };
        self.emit(output, connect, Outcome::default(), None, start_us, place)
    }

    /// Follows the cursors of a text that the session executes, in a portal if it has a name.
    #[inline]
    pub(super) fn follow_cursors(&mut self, sql: &str, portal: &str) {
        let in_portal = !portal.is_empty() && self.transaction == TransactionState::Open;
        if self.cursors.is_some() || in_portal || may_declare(sql) {
            let cursors = self.cursors.get_or_insert_default();
            cursors.follow(sql);
            if in_portal && cursors.is_last_a_query() {
                cursors.add_portal(portal, sql);
            }
        }
    }

    /// Returns the statement that made a temporary file whose line names `sql`; `None` if it is unknown.
    pub(super) fn file_cause(&self, sql: &Arc<str>) -> Option<Arc<str>> {
        let pending = self.pending.as_ref().filter(|pending| pending.is_text(sql));
        let is_running = pending.is_some_and(|pending| pending.stage == Stage::Running);
        let has_failed = pending.is_some_and(|pending| pending.sqlstate.is_some());
        if has_failed && self.cursors.is_some() {
            // The error also ended the cursors of the transaction.
            return None;
        }
        let cause = match &self.cursors {
            Some(cursors) => cursors.cause(sql, is_running),
            None => OpenCursors::default().cause(sql, false),
        };
        match cause {
            FileCause::Named => Some(sql.clone()),
            FileCause::Other(cause) => Some(cause),
            FileCause::Unknown => None,
        }
    }

    /// Passes an event to the sink.
    #[inline]
    pub(super) fn emit(
        &mut self,
        output: &mut Output<'_>,
        kind: KindRef<'_>,
        outcome: Outcome,
        unreplayable: Option<Unreplayable>,
        due_us: i64,
        place: Location,
    ) -> Result<(), SinkError> {
        // Whole seconds, or two lines written out of order, must not put it before the last
        // event.
        self.due_us = self.due_us.max(due_us);
        self.statements += u64::from(kind.is_statement());
        let event = EventRef {
            session: self.id.expect("opened before its first event"),
            sequence: self.sequence,
            due_us: self.due_us,
            kind,
            outcome,
            unreplayable,
            source: place.source,
            line: place.line,
            prelude: false,
            wire_details: None,
        };
        self.sequence += 1;
        output.account.events += 1;
        output
            .account
            .tallies
            .count_event(&event, &mut self.transaction);
        output.sink.event(&event)
    }

    /// Returns the exchanges and the parses that were not emitted.
    pub(super) fn held_events(&self) -> impl Iterator<Item = HeldEvent> {
        let exchanges = || {
            let held = self.uncommitted.iter();
            held.chain(self.bound.iter().chain(&self.pending).map(AsRef::as_ref))
        };
        let event = |due_us: i64, duration_us, sql: &str| {
            let event = RunningEvent::new(due_us.max(self.due_us), duration_us, Some(sql));
            Some(HeldEvent::of_source(self.id?, event))
        };
        // Parses are emitted after all exchanges, and time does not go back within a session.
        let last_us = exchanges().map(|exchange| exchange.due_us).max();
        let last_us = last_us.unwrap_or(i64::MIN);
        let parses = self
            .unused_parses()
            .filter_map(move |(due_us, duration_us, sql)| {
                event(due_us.max(last_us), Some(duration_us), sql)
            });
        let held = exchanges().filter_map(move |exchange| {
            event(
                exchange.due_us,
                exchange.known_duration_us(),
                exchange.sql(),
            )
        });
        held.chain(parses)
    }

    /// Handles `disconnection`.
    pub(super) fn handle_disconnected(
        &mut self,
        output: &mut Output<'_>,
        entry: &Entry<'_>,
        user: &str,
        database: &str,
    ) -> Result<(), SinkError> {
        if !self.is_open() {
            self.user = user.into();
            self.database = database.into();
            self.open(output, entry, entry.wall_us)?;
        }
        self.emit_held(output)?;
        output.account.lines_in_events += entry.lines;
        self.emit(
            output,
            KindRef::Disconnect,
            Outcome::default(),
            None,
            entry.wall_us,
            entry.place,
        )?;
        self.leave(output, true)
    }

    /// Closes the session: its number was reused, the server restarted, or the input ended.
    pub(super) fn close(&mut self, output: &mut Output<'_>) -> Result<(), SinkError> {
        self.emit_held(output)?;
        if let Some(connection) = self.connection.take() {
            output.account.skip(
                SkipReason::ConnectionWithoutSession,
                connection.lines,
                connection.place,
            );
        }
        if !self.is_open() {
            return Ok(());
        }
        if let Some((wall_us, place)) = self.ended {
            self.emit(
                output,
                KindRef::Disconnect,
                Outcome::default(),
                None,
                wall_us,
                place,
            )?;
        }
        self.leave(output, self.ended.is_some())
    }

    fn leave(&mut self, output: &mut Output<'_>, end_seen: bool) -> Result<(), SinkError> {
        let named = !self.user.is_empty() || !self.database.is_empty();
        let tallies = &mut output.account.tallies;
        tallies.count_session(self.start_seen, end_seen, named);
        output.sink.session(Session {
            id: self.id.expect("open"),
            database: self.database.clone(),
            user: self.user.clone(),
            application: self.application.clone(),
            client: self.client.as_str().into(),
            start_us: self.start_us,
            end_us: self.seen_us.max(self.due_us),
            start_seen: self.start_seen,
            end_seen,
            statements: self.statements,
        })
    }
}
