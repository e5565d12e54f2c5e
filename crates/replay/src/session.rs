//! Session: the state machine of one session's connection and of the statement in flight.
//!
//! ```text
//! Fresh ──connect──► Connecting ──────► Idle ◄──────────┐
//!                     ▲  │   ▲           │ send         │ ReadyForQuery
//!               retry │  │   │           ▼              │
//!                  Backoff   │        Running ──────────┘
//!                        │   │           │ connection lost
//!                        │   └── Lost ◄──┤   (opened again when the session has more to send)
//!                        ▼               ▼
//!                       Closed ◄─────────┴── disconnect
//! ```
//!
//! A session on a new connection is Running while its state is restored.
//!
//! It does no I/O: the worker reads and writes, and passes the bytes that it read.

mod learning;
mod prepared_names;
mod result_checks;

use protocol::backend::{
    CommandComplete, ErrorNotice, ParameterStatus, ReadyForQuery, Report, TransactionStatus, tag,
};
use protocol::{DecodeError, Header, ScanEvent, Scanner, TagSet};
use workload::{Boundary, Sqlstate};

use crate::captured_transactions::IN_FAILED_TRANSACTION;
use crate::connect::BackendHandle;
use crate::in_flight::InFlight;
use crate::job::{Job, Messages};
use crate::login::Login;
use crate::options::ResultChecksums;
use crate::pipeline::Pipeline;
use crate::queue::Queue;
use crate::read_only_guard::ReadOnlyGuard;
use crate::server_state::ServerState;
use prepared_names::{NameState, PreparedNames};
use result_checks::ResultChecks;

/// Bodies that are decoded; all others are only counted.
const DECODED_BODIES: TagSet = TagSet::of(&[
    tag::COMMAND_COMPLETE,
    tag::ERROR_RESPONSE,
    tag::READY_FOR_QUERY,
    tag::PARAMETER_STATUS,
]);

/// Phase of a session's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Fresh,
    Connecting,
    /// Between two attempts to connect.
    Backoff,
    Idle,
    Running,
    /// The connection was lost, and may be opened again.
    Lost,
    /// It has no connection, and requests one when it has a statement to send.
    Parked,
    /// It waits for one of the shared connections.
    Queued,
    Closed,
}

impl Phase {
    /// Whether an operation must end before the session runs its next job.
    pub(crate) fn is_busy(self) -> bool {
        matches!(
            self,
            Phase::Connecting | Phase::Backoff | Phase::Queued | Phase::Running
        )
    }
}

/// Event that the worker must handle after it passed bytes to a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SessionEvent {
    /// None: all bytes were processed.
    Nothing,
    /// The statement in flight is done.
    StatementDone,
    /// The session's state is restored on its new connection.
    Restored,
    /// The server asks for COPY data.
    CopyDataRequested,
    /// The server did not ask for the COPY data that the Sync would have followed.
    SyncRequired,
}

/// Release from waiting for commits before the session's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    None,
    /// For its next statement.
    NextStatement,
    /// Until its transaction ends, since the lock that blocks others is held until then.
    Transaction,
}

/// Hold of a session's next job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    None,
    /// It has a deadline in the worker's heap.
    UntilDue,
    /// It waits for executions of other sessions.
    ForOthers,
}

/// Backlog of a session: its jobs that wait at the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backlog {
    Sufficient,
    /// Counted as below the low watermark, so that the dispatcher reads further ahead.
    Low,
    /// All jobs of the session were dispatched.
    Complete,
}

/// Attempts to open a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConnectAttempts {
    /// Time of the first attempt.
    pub(crate) first_ns: i64,
    /// Number of attempts.
    pub(crate) count: u32,
}

/// Session of the workload.
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) phase: Phase,
    pub(crate) queue: Queue,
    /// Time at which the previous statement was done.
    pub(crate) idle_since_ns: i64,
    /// Part of that time that stalls of the tool caused, in nanoseconds.
    pub(crate) tool_delay_ns: u64,
    pub(crate) backlog: Backlog,
    pub(crate) hold: Hold,
    pub(crate) in_flight: Option<Box<InFlight>>,
    /// Statements sent after the one in flight.
    pub(crate) pipeline: Pipeline,
    /// Bytes for which the socket had no room, from `unsent_from` on.
    pub(crate) unsent: Vec<u8>,
    pub(crate) unsent_from: usize,
    /// The server's reason for closing the connection, if it sent one.
    pub(crate) fatal_error: Option<(Sqlstate, String)>,
    /// Guard that keeps the session read-only, if it must be.
    pub(crate) guard: ReadOnlyGuard,
    /// Number of messages sent before the statement in flight, whose answers are not its own.
    pub(crate) preceding: u8,
    /// Login of the session, for another connection.
    pub(crate) login: Option<Box<Login>>,
    /// Backend of its connection, for cancel requests.
    pub(crate) backend: Option<Box<BackendHandle>>,
    pub(crate) server_state: ServerState,
    /// Whether a cancel request is on its way to the server.
    pub(crate) cancelling: bool,
    pub(crate) release: Release,
    /// Attempts to open its connection, while there is none.
    pub(crate) attempts: ConnectAttempts,
    /// Statements that restore its state on a new connection and are not answered yet.
    restoring: u32,
    /// Whether its connection was lost, and the state is being restored on another one.
    pub(crate) reconnecting: bool,
    /// Whether its connection is to be replaced, since it skipped statements that may have changed its state.
    pub(crate) replaces_connection: bool,
    /// Number of restoring statements that failed.
    pub(crate) restore_errors: u32,
    /// Checksums of rows, if they are requested.
    checks: Option<Box<ResultChecks>>,
    scanner: Scanner,
    prepared: PreparedNames,
}

impl Session {
    /// Creates a session without a connection.
    pub(crate) fn new(id: u64, checksums: ResultChecksums) -> Self {
        Session {
            id,
            phase: Phase::Fresh,
            queue: Queue::default(),
            idle_since_ns: 0,
            tool_delay_ns: 0,
            backlog: Backlog::Sufficient,
            hold: Hold::None,
            in_flight: None,
            pipeline: Pipeline::default(),
            unsent: Vec::new(),
            unsent_from: 0,
            fatal_error: None,
            guard: ReadOnlyGuard::default(),
            preceding: 0,
            login: None,
            backend: None,
            server_state: ServerState::default(),
            cancelling: false,
            release: Release::None,
            attempts: ConnectAttempts::default(),
            restoring: 0,
            reconnecting: false,
            replaces_connection: false,
            restore_errors: 0,
            checks: ResultChecks::new(checksums),
            scanner: scanner(),
            prepared: PreparedNames::default(),
        }
    }

    /// Adds a statement that was just sent.
    #[inline]
    pub(crate) fn add_in_flight(&mut self, mut flight: InFlight) {
        // The end of a group that has already failed is sent, and the server skips it.
        flight.aborted = self.pipeline.aborts_next();
        flight.in_transaction = self.will_be_in_transaction();
        self.pipeline.group_is_open = flight.job.boundary != Boundary::Sync;
        self.pipeline.flush_sent = flight.job.boundary == Boundary::Flush;
        self.phase = Phase::Running;
        if self.in_flight.is_none() {
            self.in_flight = Some(Box::new(flight));
            self.select_bodies();
        } else {
            self.pipeline.push(Box::new(flight));
        }
    }

    /// Resets the state that belongs to a connection.
    pub(crate) fn reset_connection(&mut self) {
        self.unsent = Vec::new();
        self.unsent_from = 0;
        self.pipeline.aborting = false;
        self.pipeline.group_is_open = false;
        self.guard = ReadOnlyGuard::default();
        self.preceding = 0;
        self.backend = None;
        self.restoring = 0;
        self.scanner = scanner();
        self.prepared = PreparedNames::default();
    }

    /// Starts to restore the session's state on a new connection. Returns the bytes to send: `before`, and the
    /// statements that restore the state. Empty if there are none.
    pub(crate) fn begin_restore(&mut self, before: Vec<Messages>) -> Vec<u8> {
        let messages = [before, self.server_state.restoring_messages()].concat();
        self.restoring = messages.len() as u32;
        self.restore_errors = 0;
        messages
            .into_iter()
            .flat_map(|messages| messages.bytes)
            .collect()
    }

    /// Whether a transaction will be open after the statements in flight, if none fails.
    pub(crate) fn will_be_in_transaction(&self) -> bool {
        let last = self.pipeline.iter().next_back();
        match last.or(self.in_flight.as_deref()) {
            None => self.server_state.in_transaction(),
            Some(flight) => {
                let effect = flight.job.session_effect;
                effect.begins_transaction || flight.in_transaction && !effect.ends_transaction
            }
        }
    }

    /// Whether its transaction is healthy, and nothing in flight may change that.
    pub(crate) fn can_abort_transaction(&self) -> bool {
        self.in_flight.is_none()
            && self.server_state.transaction == TransactionStatus::InTransaction
    }

    /// Whether the capture's server refused a statement that would be executed here, since no transaction is open.
    pub(crate) fn would_execute_refused(&self, job: &Job) -> bool {
        job.captured.sqlstate == Some(IN_FAILED_TRANSACTION)
            && self.in_flight.is_none()
            && !self.server_state.in_transaction()
    }

    /// Whether an operation must end before it runs its next job.
    pub(crate) fn is_busy(&self) -> bool {
        self.phase.is_busy() || self.cancelling
    }

    /// Ends a hold of this kind. Returns whether there was one.
    #[inline]
    pub(crate) fn end_hold(&mut self, hold: Hold) -> bool {
        let held = self.hold == hold;
        if held {
            self.hold = Hold::None;
        }
        held
    }

    /// Forgets the prepared statements, after the server has discarded them.
    pub(crate) fn forget_prepared(&mut self) {
        self.prepared = PreparedNames::default();
    }

    /// Takes the parts of another session that belong to its connection.
    pub(crate) fn take_connection(&mut self, other: &mut Session) {
        self.guard = other.guard;
        self.backend = other.backend.take();
        self.prepared = std::mem::take(&mut other.prepared);
        self.scanner = scanner();
        self.fatal_error = None;
        other.reset_connection();
    }

    /// Sets the send time of the last `statements` statements in flight. It is also their due time, since this is
    /// used at full speed only.
    pub(crate) fn set_sent_ns(&mut self, statements: usize, sent_ns: i64) {
        let first = self.in_flight.as_deref_mut().into_iter();
        let flights = first.chain(self.pipeline.iter_mut());
        for flight in flights.rev().take(statements) {
            (flight.due_ns, flight.sent_ns) = (sent_ns, sent_ns);
        }
    }

    /// Returns the part of a statement's messages that this session must send.
    pub(crate) fn required_messages<'m>(&self, messages: &'m Messages) -> &'m [u8] {
        let Some(named) = messages.named else {
            return &messages.bytes;
        };
        let under_way = self
            .pipeline
            .pending_name(self.in_flight.as_deref(), named.name);
        let state = match under_way {
            None => self.prepared.state(named),
            Some(other) if other.sql == named.sql => NameState::Prepared,
            Some(_) => NameState::Occupied,
        };
        let skip = match state {
            NameState::Prepared if messages.reparses => 0,
            NameState::Prepared => messages.close_bytes + messages.parse_bytes,
            NameState::Free => messages.close_bytes,
            NameState::Occupied => 0,
        };
        &messages.bytes[skip as usize..]
    }

    /// Processes bytes that were read, up to the next event for the worker. `unread` keeps the rest.
    ///
    /// # Errors
    /// If the bytes are not protocol messages; the connection cannot be used any more.
    pub(crate) fn on_bytes(
        &mut self,
        unread: &mut &[u8],
        now_ns: i64,
    ) -> Result<SessionEvent, DecodeError> {
        while let Some(scanned) = self.scanner.next(unread)? {
            if self.preceding > 0 && !concerns_session(&scanned) {
                continue;
            }
            let event = match scanned {
                ScanEvent::Header(header) => self.on_header(header, now_ns),
                ScanEvent::Piece { bytes } => {
                    if let (Some(checks), Some(flight)) = (&mut self.checks, &mut self.in_flight) {
                        checks.add(bytes, flight)?;
                    }
                    None
                }
                // The body may lie in the scanner, so the rest of the session is borrowed by parts.
                ScanEvent::Body { tag, body } => match tag {
                    tag::COMMAND_COMPLETE => {
                        let complete = CommandComplete::decode(body)?;
                        self.prepared.command_complete(complete.tag);
                        self.server_state.command_complete(complete.tag);
                        on_command_complete(self.in_flight.as_deref_mut(), &complete)
                    }
                    tag::ERROR_RESPONSE => {
                        let notice = ErrorNotice::decode(Report::Error, body)?;
                        let error = ServerError::from(&notice);
                        self.on_error(error)
                    }
                    tag::ROW_DESCRIPTION | tag::DATA_ROW => {
                        if let Some(flight) = &mut self.in_flight {
                            if let Some(checks) = &self.checks {
                                checks.add_body(tag, body, flight)?;
                            }
                            learning::learn_from_body(flight, tag, body)?;
                        }
                        None
                    }
                    tag::PARAMETER_STATUS => {
                        let status = ParameterStatus::decode(body)?;
                        self.guard.parameter_changed(status.name, status.value);
                        None
                    }
                    _ => {
                        let status = ReadyForQuery::decode(body)?.status;
                        self.on_ready(status)
                    }
                },
            };
            if let Some(event) = event {
                return Ok(event);
            }
        }
        Ok(SessionEvent::Nothing)
    }

    /// Counts a message of an answer. Its body follows only if it is one that is decoded.
    #[inline]
    fn on_header(&mut self, header: Header, now_ns: i64) -> Option<SessionEvent> {
        let flight = self.in_flight.as_mut()?;
        flight.first_byte_ns.get_or_insert(now_ns);
        flight.bytes += header.message_bytes() as u64;
        if flight.job.expected.is_some() {
            learning::limit_to_expected_rows(&mut self.scanner, flight, header);
        }
        match header.tag {
            tag::DATA_ROW => {
                flight.uncounted_rows += 1;
                // A row to learn from comes as a whole body.
                if let Some(checks) = &mut self.checks
                    && flight.job.expected.is_none()
                {
                    checks.begin(header);
                    self.scanner.report_pieces();
                }
            }
            // A row of COPY … TO STDOUT, which the command tag counts; the result of a function call.
            tag::COPY_DATA | tag::FUNCTION_CALL_RESPONSE => {
                if let Some(checks) = &mut self.checks {
                    checks.begin(header);
                    self.scanner.report_pieces();
                }
            }
            // The portal returned as many rows as asked for. No command tag counts them.
            tag::PORTAL_SUSPENDED => {
                flight.rows += std::mem::take(&mut flight.uncounted_rows);
                if flight.is_answered_by(header.tag) {
                    return Some(SessionEvent::StatementDone);
                }
            }
            tag::ROW_DESCRIPTION | tag::NO_DATA | tag::EMPTY_QUERY_RESPONSE
                if flight.is_answered_by(header.tag) =>
            {
                return Some(SessionEvent::StatementDone);
            }
            tag::ROW_DESCRIPTION => {
                if let Some(checks) = &mut self.checks
                    && checks.reads_descriptions()
                    && flight.job.expected.is_none()
                {
                    checks.begin(header);
                    self.scanner.report_pieces();
                }
            }
            tag::PARSE_COMPLETE => {
                if let Some(named) = flight.named {
                    self.prepared.insert(named);
                }
            }
            tag::CLOSE_COMPLETE => {
                if let Some(named) = flight.named {
                    self.prepared.remove(named);
                }
            }
            tag::COPY_IN_RESPONSE | tag::COPY_BOTH_RESPONSE => {
                return Some(SessionEvent::CopyDataRequested);
            }
            _ => {}
        }
        None
    }

    fn on_error(&mut self, error: ServerError) -> Option<SessionEvent> {
        let ServerError {
            sqlstate,
            message,
            is_fatal,
        } = error;
        let error = (sqlstate, message);
        if is_fatal {
            self.fatal_error = Some(error.clone());
        }
        let Some(flight) = &mut self.in_flight else {
            self.restore_errors += u32::from(self.restoring > 0);
            return None;
        };
        flight.error.get_or_insert(error);
        if flight.take_pending_sync() {
            return Some(SessionEvent::SyncRequired);
        }
        if flight.job.boundary != Boundary::Sync {
            self.pipeline.aborting = true;
            return Some(SessionEvent::StatementDone);
        }
        None
    }

    #[inline]
    fn on_ready(&mut self, status: TransactionStatus) -> Option<SessionEvent> {
        self.server_state.ready(status);
        self.pipeline.aborting = false;
        if self.restoring > 0 {
            self.restoring -= 1;
            return (self.restoring == 0).then_some(SessionEvent::Restored);
        }
        let flight = self.in_flight.as_mut()?;
        if self.preceding == 0 {
            return Some(SessionEvent::StatementDone);
        }
        // That answered a preceding message: the answer to the statement follows.
        self.preceding -= 1;
        flight.reset_answer();
        None
    }
}

#[inline]
fn on_command_complete(
    flight: Option<&mut InFlight>,
    complete: &CommandComplete<'_>,
) -> Option<SessionEvent> {
    let flight = flight?;
    flight.rows += complete.rows().unwrap_or(0);
    flight.uncounted_rows = 0;
    if flight.take_pending_sync() {
        return Some(SessionEvent::SyncRequired);
    }
    flight
        .is_answered_by(tag::COMMAND_COMPLETE)
        .then_some(SessionEvent::StatementDone)
}

/// Decoded ErrorResponse.
struct ServerError {
    sqlstate: Sqlstate,
    message: String,
    /// Whether the server closes the connection.
    is_fatal: bool,
}

impl From<&ErrorNotice<'_>> for ServerError {
    fn from(error: &ErrorNotice<'_>) -> Self {
        ServerError {
            sqlstate: error.sqlstate().map_or(Sqlstate::UNKNOWN, Sqlstate),
            message: error.message().unwrap_or_default().into_owned(),
            is_fatal: is_fatal(error),
        }
    }
}

fn is_fatal(error: &ErrorNotice<'_>) -> bool {
    let severity = error.severity();
    severity.is_some_and(|severity| severity == "FATAL" || severity == "PANIC")
}

fn scanner() -> Scanner {
    Scanner::new(DECODED_BODIES, protocol::frame::BODY_BYTES_MAX)
}

/// Whether a message of the answer to a preceding message must be processed: reported settings, the end of the
/// answer, and a fatal error.
fn concerns_session(scanned: &ScanEvent<'_>) -> bool {
    match scanned {
        ScanEvent::Body { tag, body } => match *tag {
            tag::PARAMETER_STATUS | tag::READY_FOR_QUERY => true,
            tag::ERROR_RESPONSE => {
                ErrorNotice::decode(Report::Error, body).is_ok_and(|error| is_fatal(&error))
            }
            _ => false,
        },
        ScanEvent::Header(_) | ScanEvent::Piece { .. } => false,
    }
}

#[cfg(test)]
mod tests;
