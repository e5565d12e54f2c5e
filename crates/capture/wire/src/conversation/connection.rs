//! One connection: in which phase it is, whose it is, and what of it is recorded.

use std::sync::Arc;

use protocol::backend::TransactionStatus;
use protocol::frame::{BODY_BYTES_MAX, Frame, next_frame};
use protocol::frontend::startup::StartupMessage;
use protocol::{DecodeError, Scanned, Scanner, TagSet};
use workload::SessionState;

use super::account::{Account, Unreadable};
use super::describe::Descriptions;
use super::exchange::{Asked, Exchange, Pending};
use super::finding::Finding;
use super::names::Names;
use super::recording::Recorded;
use super::spare::Spare;
use super::start_up::{Heard, StartUp};
use super::{ConversationOptions, Side};
use capture_sink::{EventSink, SinkError};

/// Longer messages are passed over, in bytes: their events cannot be replayed, and memory stays
/// bounded.
pub(super) const KEPT_BYTES_MAX: usize = 64 << 20;

/// The client's messages that say something; of the others the header is enough.
const CLIENT_WANTED: TagSet = TagSet::of(b"QPBCDEf");
/// The server's.
const SERVER_WANTED: TagSet = TagSet::of(b"CEKSTZ");

/// What is to be done with a message's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    /// What its tag says.
    Usual,
    /// Nothing.
    Pass,
    /// It is wanted as it comes.
    Pieces,
}

fn take(scanner: &mut Scanner, how: Take) {
    match how {
        Take::Usual => (),
        Take::Pass => scanner.pass_body(),
        Take::Pieces => scanner.give_pieces(),
    }
}

/// Takes the next message off a piece, where all of it is there; the scanner has it otherwise, and what is wrong
/// with one.
#[inline]
fn whole<'a>(scanner: &Scanner, bytes: &mut &'a [u8]) -> Option<Frame<'a>> {
    if !scanner.is_between_messages() {
        return None;
    }
    let message = next_frame(bytes, BODY_BYTES_MAX).ok()??;
    *bytes = &bytes[message.message_bytes()..];
    Some(message)
}

/// Where events go, and what is counted.
pub(super) struct Out<'a> {
    pub(super) sink: &'a mut dyn EventSink,
    pub(super) account: &'a mut Account,
    /// Since when, and the number of the next session.
    pub(super) recording: Option<&'a mut Recording>,
    pub(super) options: ConversationOptions,
    pub(super) descriptions: &'a mut Descriptions,
}

/// What is being recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recording {
    pub(super) since_us: i64,
    pub(super) next_session: u64,
}

#[derive(Debug)]
enum Phase {
    StartUp(Box<StartUp>),
    /// Messages can be read on both sides.
    Open,
    /// It is looked for a place where they can be read again.
    Finding(Finding),
    /// It cannot be read to its end.
    Over,
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
    /// What the client set when it connected, beyond these.
    pub(super) settings: Vec<(Box<str>, Box<str>)>,
    pub(super) key: Option<(i32, Box<[u8]>)>,
    pub(super) exchange: Exchange,
    pub(super) names: Names,
    pub(super) spare: Spare,
    /// The names of the columns of the rows that come next.
    pub(super) columns: Option<Arc<[Box<str>]>>,
    /// The row that is passing.
    pub(super) row: super::server::Row,
    pub(super) transaction: TransactionStatus,
    /// The server has said that it is ready, once.
    pub(super) ready: bool,
    /// It said so just now, and nothing that it said since was handed out.
    pub(super) ready_first: bool,
    /// State for a recording that begins later.
    pub(super) state: SessionState,
    pub(super) recorded: Option<Recorded>,
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
                false => Phase::Finding(Finding::default()),
            },
            client_scanner: Scanner::new(CLIENT_WANTED, BODY_BYTES_MAX),
            server_scanner: Scanner::new(SERVER_WANTED, BODY_BYTES_MAX),
            database: "".into(),
            user: "".into(),
            application: "".into(),
            settings: Vec::new(),
            key: None,
            exchange: Exchange::default(),
            names: Names::default(),
            spare: Spare::default(),
            columns: None,
            row: super::server::Row::default(),
            transaction: TransactionStatus::Idle,
            ready: false,
            ready_first: false,
            state: SessionState::default(),
            recorded: None,
            ended_us: None,
        }
    }

    /// Takes what one side sent. What it asks the set of connections to do is returned.
    pub(super) fn bytes(
        &mut self,
        side: Side,
        at_us: i64,
        place: u64,
        mut bytes: &[u8],
        out: &mut Out<'_>,
    ) -> Result<Option<Heard>, SinkError> {
        match side {
            Side::Client => out.account.client_bytes += bytes.len() as u64,
            Side::Server => out.account.server_bytes += bytes.len() as u64,
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut asked = None;
        if let Phase::StartUp(start_up) = &mut self.phase {
            let heard = match side {
                Side::Client => start_up.client(&mut bytes),
                Side::Server => start_up.server(&mut bytes),
            };
            match heard {
                None => return Ok(None),
                Some(Heard::Begun(body)) => {
                    // It was decoded once.
                    if let Ok(message) = StartupMessage::decode(&body)
                        && self.begun(&message)
                    {
                        out.account.unreadable_bytes += bytes.len() as u64;
                        self.over(Unreadable::Replication, out);
                        return Ok(None);
                    }
                    self.opened_us = at_us;
                    self.phase = Phase::Open;
                }
                Some(Heard::Unreadable(reason)) => {
                    out.account.unreadable_bytes += bytes.len() as u64;
                    self.over(reason, out);
                    return Ok(None);
                }
                Some(cancel) => {
                    self.phase = Phase::Over;
                    asked = Some(cancel);
                }
            }
        }
        match &mut self.phase {
            Phase::Over => {
                out.account.unreadable_bytes += bytes.len() as u64;
                return Ok(asked);
            }
            Phase::Finding(finding) => match finding.takes(side, bytes) {
                None => {
                    out.account.unreadable_bytes += bytes.len() as u64;
                    return Ok(None);
                }
                Some(found) => {
                    // What was before was counted when it came.
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
            Side::Client => self.client_bytes(at_us, place, &mut bytes, out),
            Side::Server => self.server_bytes(at_us, &mut bytes, out),
        };
        if result.is_err() {
            out.account.unreadable_bytes += bytes.len() as u64;
            self.broken(at_us, out)?;
        }
        self.leave(out)?;
        Ok(asked)
    }

    fn client_bytes(
        &mut self,
        at_us: i64,
        place: u64,
        bytes: &mut &[u8],
        out: &mut Out<'_>,
    ) -> Result<(), DecodeError> {
        if self.ended_us.is_some() {
            out.account.unreadable_bytes += bytes.len() as u64;
            return Ok(());
        }
        // Nearly always a piece has whole messages.
        while let Some(message) = whole(&self.client_scanner, bytes) {
            let header = message.header();
            let body = message.body;
            match self.client_header(header, at_us, place, out) {
                Take::Usual if CLIENT_WANTED.contains(header.tag) => {
                    self.client_message(header.tag, body, at_us, place)?;
                }
                Take::Usual | Take::Pass => (),
                Take::Pieces => self.copy_data(body),
            }
            // Nothing is behind a Terminate, which has no body.
            if self.ended_us.is_some() {
                out.account.unreadable_bytes += (body.len() + bytes.len()) as u64;
                return Ok(());
            }
        }
        if bytes.is_empty() {
            return Ok(());
        }
        // The scanner lends bodies, and what they say changes the rest.
        let mut scanner =
            std::mem::replace(&mut self.client_scanner, Scanner::new(TagSet::NONE, 0));
        let result = loop {
            match scanner.next(bytes) {
                Ok(None) => break Ok(()),
                Ok(Some(Scanned::Header(header))) => {
                    take(&mut scanner, self.client_header(header, at_us, place, out));
                    // Nothing is behind a Terminate.
                    if self.ended_us.is_some() {
                        break Ok(());
                    }
                }
                Ok(Some(Scanned::Piece { bytes })) => self.copy_data(bytes),
                Ok(Some(Scanned::Body { tag, body })) => {
                    if let Err(error) = self.client_message(tag, body, at_us, place) {
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

    fn server_bytes(
        &mut self,
        at_us: i64,
        bytes: &mut &[u8],
        out: &mut Out<'_>,
    ) -> Result<(), DecodeError> {
        while let Some(message) = whole(&self.server_scanner, bytes) {
            let header = message.header();
            let body = message.body;
            match self.server_header(header, at_us, out) {
                Take::Usual if SERVER_WANTED.contains(header.tag) => {
                    self.server_message(header.tag, body, at_us)?;
                }
                Take::Usual | Take::Pass => (),
                Take::Pieces if body.is_empty() => (),
                Take::Pieces => self.row_piece(body)?,
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
                Ok(Some(Scanned::Header(header))) => {
                    take(&mut scanner, self.server_header(header, at_us, out));
                }
                Ok(Some(Scanned::Piece { bytes })) => {
                    if let Err(error) = self.row_piece(bytes) {
                        break Err(error);
                    }
                }
                Ok(Some(Scanned::Body { tag, body })) => {
                    if let Err(error) = self.server_message(tag, body, at_us) {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        self.server_scanner = scanner;
        result
    }

    /// The client said who it is; whether it wants to replicate.
    fn begun(&mut self, message: &StartupMessage<'_>) -> bool {
        let text = |bytes: &[u8]| Arc::<str>::from(String::from_utf8_lossy(bytes));
        let mut replicates = false;
        for (name, value) in message.parameters.iter() {
            match name {
                b"user" => self.user = text(value),
                b"database" => self.database = text(value),
                b"application_name" => self.application = text(value),
                // Its values are those of a boolean, and `database`.
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

    /// The connection, or the rest of it, cannot be read.
    fn over(&mut self, reason: Unreadable, out: &mut Out<'_>) {
        *out.account.unreadable.entry(reason).or_default() += 1;
        self.phase = Phase::Over;
    }

    /// A side broke the protocol: that is so where something was lost that nobody told of.
    fn broken(&mut self, at_us: i64, out: &mut Out<'_>) -> Result<(), SinkError> {
        if !self.ready {
            self.over(Unreadable::NotTheProtocol, out);
            return Ok(());
        }
        out.account.gaps += 1;
        self.find(at_us, out)
    }

    /// Bytes are missing.
    pub(super) fn lost(
        &mut self,
        at_us: i64,
        bytes: Option<u64>,
        out: &mut Out<'_>,
    ) -> Result<(), SinkError> {
        out.account.gaps += 1;
        out.account.lost_bytes += bytes.unwrap_or(0);
        match self.phase {
            Phase::Over => Ok(()),
            Phase::StartUp(_) | Phase::Open | Phase::Finding(_) => self.find(at_us, out),
        }
    }

    fn find(&mut self, at_us: i64, out: &mut Out<'_>) -> Result<(), SinkError> {
        self.give_up(out)?;
        if let Some(recorded) = &mut self.recorded {
            recorded.last_us = recorded.last_us.max(at_us);
        }
        self.names.lost();
        self.phase = Phase::Finding(Finding::default());
        Ok(())
    }

    /// The server is ready for the first time, or again.
    pub(super) fn is_ready(&mut self, at_us: i64) {
        self.ready = true;
        self.ready_first = true;
        self.exchange.free_since(at_us);
    }

    /// The client ends the session.
    pub(super) fn terminated(&mut self, at_us: i64) {
        self.ended_us.get_or_insert(at_us);
    }

    /// The connection has ended.
    pub(super) fn closed(&mut self, at_us: i64, out: &mut Out<'_>) -> Result<(), SinkError> {
        self.give_up(out)?;
        match &self.phase {
            Phase::StartUp(start_up) if start_up.is_untouched() => out.account.empty += 1,
            Phase::StartUp(_) => self.over(Unreadable::NotTheProtocol, out),
            Phase::Finding(_) => self.over(Unreadable::Lost, out),
            Phase::Open if !self.ready => out.account.refused += 1,
            _ => (),
        }
        self.ended_us.get_or_insert(at_us);
        self.disconnect(out)
    }

    /// The client cancels what runs.
    pub(super) fn cancelled(&mut self, at_us: i64, out: &mut Out<'_>) -> Result<(), SinkError> {
        if self.recorded.is_none() {
            out.account.cancels_for_nobody += 1;
            return Ok(());
        }
        let mut pending = Pending::new(Asked::Cancel, at_us, 0);
        pending.recorded = true;
        self.exchange.cancel(pending);
        self.leave(out)
    }
}
