//! Decodes one connection: its phase, its session, and its recorded part.

use std::sync::Arc;

use protocol::backend::TransactionStatus;
use protocol::frame::{BODY_BYTES_MAX, Frame, next_frame};
use protocol::frontend::startup::StartupMessage;
use protocol::{DecodeError, ScanEvent, Scanner, TagSet};
use workload::{RowDigest, SessionState};

use super::account::{DecoderAccount, UnreadableReason};
use super::buffer_pool::BufferPool;
use super::describe::DetailsCache;
use super::named_objects::{NamedObjects, UnexecutedMessage};
use super::pending_requests::{EventRecording, PendingEvent, PendingRequests, Request};
use super::resync::Resync;
use super::start_up::{StartUp, StartUpResult};
use super::{DecoderOptions, Side};
use capture_sink::{EventSink, SinkError};

/// Maximum length of a message that is kept, in bytes. Longer ones are skipped: their events cannot
/// be replayed, and memory stays bounded.
pub(super) const KEPT_BYTES_MAX: usize = 64 << 20;

/// Client messages whose body is needed; for the others the header is enough.
const CLIENT_WANTED: TagSet = TagSet::of(b"QPBCDEFf");
/// Server messages whose body is needed.
const SERVER_WANTED: TagSet = TagSet::of(b"CEKSTVZ");

/// Treatment of a message's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyHandling {
    /// By the message's tag.
    Usual,
    /// Skip it.
    Pass,
    /// Pass it on piece by piece.
    Pieces,
}

fn apply(scanner: &mut Scanner, how: BodyHandling) {
    match how {
        BodyHandling::Usual => (),
        BodyHandling::Pass => scanner.skip_body(),
        BodyHandling::Pieces => scanner.report_pieces(),
    }
}

/// Splits the next message off a piece, if it is complete; otherwise, or if it is invalid, the
/// scanner handles it.
#[inline]
fn split_message<'a>(scanner: &Scanner, bytes: &mut &'a [u8]) -> Option<Frame<'a>> {
    if !scanner.is_between_messages() {
        return None;
    }
    let message = next_frame(bytes, BODY_BYTES_MAX).ok()??;
    *bytes = &bytes[message.message_bytes()..];
    Some(message)
}

/// Destination of events, and the counters.
pub(super) struct Output<'a> {
    pub(super) sink: &'a mut dyn EventSink,
    pub(super) account: &'a mut DecoderAccount,
    /// The recording, if there is one: its start, and the number of the next session.
    pub(super) recording: Option<&'a mut Recording>,
    pub(super) options: DecoderOptions,
    pub(super) details_cache: &'a mut DetailsCache,
}

/// The current recording.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recording {
    pub(super) since_us: i64,
    pub(super) next_session: u64,
}

/// Recording state of a connection.
#[derive(Debug)]
pub(super) struct RecordingState {
    pub(super) session: u64,
    pub(super) sequence: u64,
    pub(super) statements: u64,
    pub(super) start_us: i64,
    pub(super) last_us: i64,
}

/// The current row.
#[derive(Debug, Default)]
pub(super) struct CurrentRow {
    pub(super) left: usize,
    pub(super) digest: Option<RowDigest>,
    /// Set if it is kept.
    pub(super) kept: Option<Vec<u8>>,
}

#[derive(Debug)]
enum Phase {
    StartUp(Box<StartUp>),
    /// Messages can be decoded on both sides.
    Open,
    /// The start of a message is being searched for.
    Resync(Resync),
    /// The rest cannot be read.
    Ended,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Box<str>,
    pub(super) opened_us: i64,
    pub(super) start_seen: bool,
    phase: Phase,
    client_scanner: Scanner,
    server_scanner: Scanner,
    pub(super) database: Arc<str>,
    pub(super) user: Arc<str>,
    pub(super) application: Arc<str>,
    /// The client's connection parameters other than these.
    pub(super) settings: Vec<(Box<str>, Box<str>)>,
    pub(super) key: Option<(i32, Box<[u8]>)>,
    pub(super) requests: PendingRequests,
    pub(super) names: NamedObjects,
    pub(super) unexecuted: Option<UnexecutedMessage>,
    pub(super) buffers: BufferPool,
    /// Column names of the next rows.
    pub(super) columns: Option<Arc<[Box<str>]>>,
    /// The current row.
    pub(super) row: CurrentRow,
    pub(super) transaction: TransactionStatus,
    /// The server has been ready at least once.
    pub(super) ready: bool,
    /// The server has just become ready for the first time, and no later message was handled.
    pub(super) just_ready: bool,
    /// State for a recording that begins later.
    pub(super) state: SessionState,
    pub(super) recorded: Option<RecordingState>,
    pub(super) ended_us: Option<i64>,
}

impl Connection {
    pub(super) fn new(client: &str, opened_us: i64, from_the_start: bool) -> Self {
        Connection {
            client: client.into(),
            opened_us,
            start_seen: from_the_start,
            phase: match from_the_start {
                true => Phase::StartUp(Box::default()),
                false => Phase::Resync(Resync::default()),
            },
            client_scanner: Scanner::new(CLIENT_WANTED, BODY_BYTES_MAX),
            server_scanner: Scanner::new(SERVER_WANTED, BODY_BYTES_MAX),
            database: "".into(),
            user: "".into(),
            application: "".into(),
            settings: Vec::new(),
            key: None,
            requests: PendingRequests::default(),
            names: NamedObjects::default(),
            unexecuted: None,
            buffers: BufferPool::default(),
            columns: None,
            row: CurrentRow::default(),
            transaction: TransactionStatus::Idle,
            ready: false,
            just_ready: false,
            state: SessionState::default(),
            recorded: None,
            ended_us: None,
        }
    }

    /// Handles bytes of one side. Returns a request to the set of connections.
    pub(super) fn handle_bytes(
        &mut self,
        side: Side,
        at_us: i64,
        place: u64,
        mut bytes: &[u8],
        out: &mut Output<'_>,
    ) -> Result<Option<StartUpResult>, SinkError> {
        match side {
            Side::Client => out.account.client_bytes += bytes.len() as u64,
            Side::Server => out.account.server_bytes += bytes.len() as u64,
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut request = None;
        if let Phase::StartUp(start_up) = &mut self.phase {
            let outcome = match side {
                Side::Client => start_up.handle_client(&mut bytes, out.options.decrypted),
                Side::Server => start_up.handle_server(&mut bytes, out.options.decrypted),
            };
            match outcome {
                None => return Ok(None),
                Some(StartUpResult::Startup(body)) => {
                    // It was decoded successfully before.
                    if let Ok(message) = StartupMessage::decode(&body)
                        && self.handle_startup(&message)
                    {
                        out.account.unreadable_bytes += bytes.len() as u64;
                        self.give_up(UnreadableReason::Replication, out);
                        return Ok(None);
                    }
                    self.opened_us = at_us;
                    self.phase = Phase::Open;
                }
                Some(StartUpResult::Unreadable(reason)) => {
                    out.account.unreadable_bytes += bytes.len() as u64;
                    self.give_up(reason, out);
                    return Ok(None);
                }
                Some(cancel) => {
                    self.phase = Phase::Ended;
                    request = Some(cancel);
                }
            }
        }
        match &mut self.phase {
            Phase::Ended => {
                out.account.unreadable_bytes += bytes.len() as u64;
                return Ok(request);
            }
            Phase::Resync(finding) => match finding.examine(side, bytes) {
                None => {
                    out.account.unreadable_bytes += bytes.len() as u64;
                    return Ok(None);
                }
                Some(found) => {
                    // Earlier bytes were counted when they came.
                    self.phase = Phase::Open;
                    self.transaction = found.transaction;
                    self.client_scanner = Scanner::new(CLIENT_WANTED, BODY_BYTES_MAX);
                    self.server_scanner = Scanner::new(SERVER_WANTED, BODY_BYTES_MAX);
                    self.ready = true;
                    self.begin_recording(out)?;
                }
            },
            Phase::StartUp(_) | Phase::Open => (),
        }
        let result = match side {
            Side::Client => self.handle_client_bytes(at_us, place, &mut bytes, out),
            Side::Server => self.handle_server_bytes(at_us, &mut bytes, out),
        };
        if result.is_err() {
            out.account.unreadable_bytes += bytes.len() as u64;
            self.handle_violation(at_us, out)?;
        }
        self.emit_answered(out)?;
        Ok(request)
    }

    fn handle_client_bytes(
        &mut self,
        at_us: i64,
        place: u64,
        bytes: &mut &[u8],
        out: &mut Output<'_>,
    ) -> Result<(), DecodeError> {
        if self.ended_us.is_some() {
            out.account.unreadable_bytes += bytes.len() as u64;
            return Ok(());
        }
        // Nearly always a piece has whole messages.
        while let Some(message) = split_message(&self.client_scanner, bytes) {
            let header = message.header();
            let body = message.body;
            match self.handle_client_header(header, at_us, place, out) {
                BodyHandling::Usual if CLIENT_WANTED.contains(header.tag) => {
                    self.handle_client_message(header.tag, body, at_us, place)?;
                }
                BodyHandling::Usual | BodyHandling::Pass => (),
                BodyHandling::Pieces => self.handle_copy_data(body),
            }
            // Nothing follows Terminate, which has no body.
            if self.ended_us.is_some() {
                out.account.unreadable_bytes += (body.len() + bytes.len()) as u64;
                return Ok(());
            }
        }
        if bytes.is_empty() {
            return Ok(());
        }
        // The scanner lends bodies, and handling them changes the other fields.
        let mut scanner =
            std::mem::replace(&mut self.client_scanner, Scanner::new(TagSet::NONE, 0));
        let result = loop {
            match scanner.next(bytes) {
                Ok(None) => break Ok(()),
                Ok(Some(ScanEvent::Header(header))) => {
                    apply(
                        &mut scanner,
                        self.handle_client_header(header, at_us, place, out),
                    );
                    // Nothing follows Terminate.
                    if self.ended_us.is_some() {
                        break Ok(());
                    }
                }
                Ok(Some(ScanEvent::Piece { bytes })) => self.handle_copy_data(bytes),
                Ok(Some(ScanEvent::Body { tag, body })) => {
                    if let Err(error) = self.handle_client_message(tag, body, at_us, place) {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        self.client_scanner = scanner;
        if self.ended_us.is_some() {
            out.account.unreadable_bytes += bytes.len() as u64;
        }
        result
    }

    fn handle_server_bytes(
        &mut self,
        at_us: i64,
        bytes: &mut &[u8],
        out: &mut Output<'_>,
    ) -> Result<(), DecodeError> {
        while let Some(message) = split_message(&self.server_scanner, bytes) {
            let header = message.header();
            let body = message.body;
            match self.handle_server_header(header, at_us, out) {
                BodyHandling::Usual if SERVER_WANTED.contains(header.tag) => {
                    self.handle_server_message(header.tag, body, at_us)?;
                }
                BodyHandling::Usual | BodyHandling::Pass => (),
                BodyHandling::Pieces if body.is_empty() => (),
                BodyHandling::Pieces => self.handle_row_piece(body)?,
            }
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let mut scanner =
            std::mem::replace(&mut self.server_scanner, Scanner::new(TagSet::NONE, 0));
        let result = loop {
            match scanner.next(bytes) {
                Ok(None) => break Ok(()),
                Ok(Some(ScanEvent::Header(header))) => {
                    apply(&mut scanner, self.handle_server_header(header, at_us, out));
                }
                Ok(Some(ScanEvent::Piece { bytes })) => {
                    if let Err(error) = self.handle_row_piece(bytes) {
                        break Err(error);
                    }
                }
                Ok(Some(ScanEvent::Body { tag, body })) => {
                    if let Err(error) = self.handle_server_message(tag, body, at_us) {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        self.server_scanner = scanner;
        result
    }

    /// Handles the StartupMessage; returns whether the client requests replication.
    fn handle_startup(&mut self, message: &StartupMessage<'_>) -> bool {
        let text = |bytes: &[u8]| Arc::<str>::from(String::from_utf8_lossy(bytes));
        let mut replicates = false;
        for (name, value) in message.parameters.iter() {
            match name {
                b"user" => self.user = text(value),
                b"database" => self.database = text(value),
                b"application_name" => self.application = text(value),
                // Its values are booleans, and `database`.
                b"replication" => {
                    let no = [&b"false"[..], b"off", b"no", b"0", b"f", b"n"];
                    replicates = !no.iter().any(|no| value.eq_ignore_ascii_case(no));
                }
                name if name.starts_with(b"_pq_.") => (),
                name => self.settings.push((
                    String::from_utf8_lossy(name).into(),
                    String::from_utf8_lossy(value).into(),
                )),
            }
        }
        if self.database.is_empty() {
            self.database = self.user.clone();
        }
        replicates
    }

    /// Gives up the connection, or the rest of it, as unreadable.
    fn give_up(&mut self, reason: UnreadableReason, out: &mut Output<'_>) {
        *out.account.unreadable.entry(reason).or_default() += 1;
        self.phase = Phase::Ended;
    }

    /// Handles a protocol violation, which is caused by a loss that was not reported.
    fn handle_violation(&mut self, at_us: i64, out: &mut Output<'_>) -> Result<(), SinkError> {
        if !self.ready {
            self.give_up(UnreadableReason::NotTheProtocol, out);
            return Ok(());
        }
        out.account.gaps += 1;
        self.begin_resync(at_us, out)
    }

    /// Handles missing bytes.
    pub(super) fn handle_loss(
        &mut self,
        at_us: i64,
        bytes: Option<u64>,
        out: &mut Output<'_>,
    ) -> Result<(), SinkError> {
        out.account.gaps += 1;
        out.account.lost_bytes += bytes.unwrap_or(0);
        match self.phase {
            Phase::Ended => Ok(()),
            Phase::StartUp(_) | Phase::Open | Phase::Resync(_) => self.begin_resync(at_us, out),
        }
    }

    fn begin_resync(&mut self, at_us: i64, out: &mut Output<'_>) -> Result<(), SinkError> {
        self.emit_in_progress(out)?;
        if let Some(recorded) = &mut self.recorded {
            recorded.last_us = recorded.last_us.max(at_us);
        }
        self.names.handle_loss();
        self.unexecuted = None;
        self.phase = Phase::Resync(Resync::default());
        Ok(())
    }

    /// Handles ReadyForQuery, the first or a later one.
    pub(super) fn handle_ready(&mut self, at_us: i64) {
        self.ready = true;
        self.just_ready = true;
        self.requests.set_free_since(at_us);
    }

    /// Handles Terminate.
    pub(super) fn handle_terminate(&mut self, at_us: i64) {
        self.ended_us.get_or_insert(at_us);
    }

    /// Handles the end of the connection.
    pub(super) fn handle_close(
        &mut self,
        at_us: i64,
        out: &mut Output<'_>,
    ) -> Result<(), SinkError> {
        self.emit_in_progress(out)?;
        match &self.phase {
            Phase::StartUp(start_up) if start_up.is_untouched() => out.account.empty += 1,
            Phase::StartUp(_) => self.give_up(UnreadableReason::NotTheProtocol, out),
            Phase::Resync(_) => self.give_up(UnreadableReason::Lost, out),
            Phase::Open if !self.ready => out.account.refused += 1,
            _ => (),
        }
        self.ended_us.get_or_insert(at_us);
        self.emit_disconnect(out)
    }

    /// Records a cancel request of the client.
    pub(super) fn handle_cancel(
        &mut self,
        at_us: i64,
        out: &mut Output<'_>,
    ) -> Result<(), SinkError> {
        if self.recorded.is_none() {
            out.account.cancels_for_nobody += 1;
            return Ok(());
        }
        let mut pending = PendingEvent::new(Request::Cancel, at_us, 0);
        pending.recording = EventRecording::Recorded;
        self.requests.add_cancel(pending);
        self.emit_answered(out)
    }
}
