//! One connection's state machine: what the server has said of the statement in flight.
//!
//! ```text
//! Fresh ──connect──► Connecting ──────► Idle ◄──────────┐
//!                     ▲  │   ▲           │ send         │ ReadyForQuery
//!          in a while │  │   │           ▼              │
//!                  Waiting   │        Running ──────────┘
//!                        │   │           │ connection lost
//!                        │   └── Lost ◄──┤   (opened again when the session has more to send)
//!                        ▼               ▼
//!                       Gone ◄───────────┴── disconnect
//! ```
//!
//! A connection that was opened again is Running while its session is brought to where it was.
//!
//! Without I/O: the worker reads and writes, and feeds what it read.

mod learning;

use std::collections::HashMap;

use protocol::backend::{
    CommandComplete, ErrorNotice, ParameterStatus, ReadyForQuery, Report, tag,
};
use protocol::{DecodeError, Scanned, Scanner, TagSet};
use workload::{Boundary, RowDigest, Sqlstate};

use crate::connect::Place;
use crate::guard::Guard;
use crate::job::{Job, Messages, NamedStatement};
use crate::login::Login;
use crate::pipeline;
use crate::pipeline::Pipeline;
use crate::queue::Queue;
use crate::remap::Remap;
use crate::server_state::ServerState;

/// Bodies that are looked into; all others are only counted.
const WANTED: TagSet = TagSet::of(&[
    tag::COMMAND_COMPLETE,
    tag::ERROR_RESPONSE,
    tag::READY_FOR_QUERY,
    tag::PARAMETER_STATUS,
]);

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Fresh,
    Connecting,
    /// Between two tries to connect.
    Waiting,
    Idle,
    Running,
    /// The connection was lost, and may be opened again.
    Lost,
    /// It has no connection of its own now, and takes one when it has something to send.
    Parked,
    /// It waits for one of the connections that sessions share.
    Queued,
    Gone,
}

impl Phase {
    /// Whether something is under way that must end before the session does what waits.
    pub(crate) fn is_busy(self) -> bool {
        matches!(
            self,
            Phase::Connecting | Phase::Waiting | Phase::Queued | Phase::Running
        )
    }
}

/// The statement in flight.
pub(crate) struct InFlight {
    /// The job, without its bytes.
    pub(crate) job: Job,
    pub(crate) due_ns: i64,
    pub(crate) sent_ns: i64,
    pub(crate) session_lag_ns: u64,
    pub(crate) first_byte_ns: Option<i64>,
    pub(crate) rows: u64,
    /// Rows that came and that no CommandComplete has counted yet.
    pub(crate) rows_came: u64,
    pub(crate) bytes: u64,
    /// Of the rows so far, where it is asked for.
    pub(crate) digest: Option<u64>,
    pub(crate) error: Option<(Sqlstate, String)>,
    pub(crate) named: Option<NamedStatement>,
    pub(crate) extended: bool,
    /// What the server gets when it asks for COPY data.
    pub(crate) copy: Option<Vec<u8>>,
    /// Its Sync comes with the COPY data; where the server does not ask for them, on its own.
    pub(crate) owes_sync: bool,
    /// The server passes over it: something before it in its group has failed.
    pub(crate) aborted: bool,
    /// Whether a transaction was open when it was sent.
    pub(crate) in_transaction: bool,
    /// Its messages, if they change the state of the session.
    pub(crate) state_changing_bytes: Option<Box<[u8]>>,
}

impl InFlight {
    fn adds_to_digest(&mut self, checksum: u64) {
        self.digest = Some(self.digest.unwrap_or(0).wrapping_add(checksum));
    }

    /// Its number within its session.
    pub(crate) fn sequence(&self) -> u64 {
        self.job.sequence
    }

    /// When it is to be cancelled: as long behind its sending as in the capture.
    pub(crate) fn cancel_ns(&self, captured_us: i64) -> i64 {
        let after_us = (captured_us - self.job.captured_us).max(0);
        self.sent_ns.saturating_add(after_us.saturating_mul(1_000))
    }
}

/// What came of feeding bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// All was taken in; nothing to do.
    Nothing,
    /// The statement in flight is done.
    Done,
    /// The session is where it was before its connection was lost.
    Restored,
    /// The server waits for COPY data.
    WantsCopyData,
    /// The server did not ask for the COPY data that a Sync would have come with.
    WantsSync,
}

/// Whether the session goes before its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LetGo {
    No,
    /// With its next statement.
    Once,
    /// Until its transaction has ended: what holds others up is in there.
    ForItsTransaction,
}

/// Tries to open a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tries {
    /// When the first one was made.
    pub(crate) since_ns: i64,
    /// How many there were.
    pub(crate) count: u32,
}

/// One session of the workload.
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) phase: Phase,
    pub(crate) queue: Queue,
    /// When the previous statement was done.
    pub(crate) free_ns: i64,
    /// It is counted among those that have little waiting.
    pub(crate) hungry: bool,
    /// All of it was handed out.
    pub(crate) is_whole: bool,
    /// It has a deadline in the worker's heap.
    pub(crate) scheduled: bool,
    pub(crate) in_flight: Option<Box<InFlight>>,
    /// What was sent behind that.
    pub(crate) pipeline: Pipeline,
    /// What the socket had no room for.
    pub(crate) unsent: Vec<u8>,
    pub(crate) unsent_from: usize,
    /// Why the connection went, if the server said so.
    pub(crate) farewell: Option<(Sqlstate, String)>,
    /// Whether it must be kept from writing before the next statement.
    pub(crate) guard: Guard,
    /// Who it is, once it has connected: for another connection.
    pub(crate) login: Option<Box<Login>>,
    /// Where its connection leads, for cancel requests.
    pub(crate) place: Option<Box<Place>>,
    pub(crate) server_state: ServerState,
    /// A cancel is on its way to the server.
    pub(crate) cancelling: bool,
    /// What waits first waits for commits of other sessions.
    pub(crate) waits_for_commits: bool,
    pub(crate) let_go: LetGo,
    /// Tries to open its connection, while there is none.
    pub(crate) tries: Tries,
    /// Statements that bring a new connection to where the old one was, and are not answered yet.
    restoring: u32,
    /// Its connection was lost, and another one is on its way to where it was.
    pub(crate) comes_back: bool,
    /// How many of them failed.
    pub(crate) restore_errors: u32,
    /// What the server made up in the capture, and what in the replay.
    pub(crate) remap: Option<Box<Remap>>,
    /// The row that comes, where rows are summed up in a checksum.
    digests: Option<Box<RowDigest>>,
    scanner: Scanner,
    prepared: Prepared,
}

impl Session {
    /// `digests`: rows are summed up in a checksum.
    pub(crate) fn new(id: u64, digests: bool) -> Self {
        Session {
            id,
            phase: Phase::Fresh,
            queue: Queue::default(),
            free_ns: 0,
            hungry: false,
            is_whole: false,
            scheduled: false,
            in_flight: None,
            pipeline: Pipeline::default(),
            unsent: Vec::new(),
            unsent_from: 0,
            farewell: None,
            guard: Guard::default(),
            login: None,
            place: None,
            server_state: ServerState::default(),
            cancelling: false,
            waits_for_commits: false,
            let_go: LetGo::No,
            tries: Tries::default(),
            restoring: 0,
            comes_back: false,
            restore_errors: 0,
            remap: None,
            digests: digests.then(Box::default),
            scanner: scanner(),
            prepared: Prepared::default(),
        }
    }

    /// Its connection is gone: what hung on it is forgotten.
    pub(crate) fn disconnected(&mut self) {
        self.unsent = Vec::new();
        self.unsent_from = 0;
        self.pipeline.aborting = false;
        self.pipeline.group_is_open = false;
        self.guard = Guard::default();
        self.place = None;
        self.restoring = 0;
        self.scanner = scanner();
        self.prepared = Prepared::default();
    }

    /// It has another connection. Returns what is to be sent there first: `before`, and what brings
    /// the connection to where the session was. Nothing where neither is anything.
    pub(crate) fn restore(&mut self, before: Vec<Messages>) -> Vec<u8> {
        let messages = [before, self.server_state.restoring_messages()].concat();
        self.restoring = messages.len() as u32;
        self.restore_errors = 0;
        messages
            .into_iter()
            .flat_map(|messages| messages.bytes)
            .collect()
    }

    /// Whether a transaction is open when what is under way is done, if all goes well.
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

    /// Whether something is under way that must end before it does what waits.
    pub(crate) fn is_busy(&self) -> bool {
        self.phase.is_busy() || self.cancelling
    }

    /// Nothing is prepared at the server any more.
    pub(crate) fn forget_prepared(&mut self) {
        self.prepared = Prepared::default();
    }

    /// Takes over the connection of another session, as far as it is in the session.
    pub(crate) fn take_over(&mut self, other: &mut Session) {
        self.guard = other.guard;
        self.place = other.place.take();
        self.prepared = std::mem::take(&mut other.prepared);
        self.scanner = scanner();
        self.farewell = None;
        other.disconnected();
    }

    /// The last so many statements that are under way were sent only now: at full speed, where they are due
    /// when they can be sent.
    pub(crate) fn were_sent(&mut self, statements: usize, sent_ns: i64) {
        let first = self.in_flight.as_deref_mut().into_iter();
        let flights = first.chain(self.pipeline.iter_mut());
        for flight in flights.rev().take(statements) {
            (flight.due_ns, flight.sent_ns) = (sent_ns, sent_ns);
        }
    }

    /// The part of a statement's messages that this session must send now.
    pub(crate) fn needed<'m>(&self, messages: &'m Messages) -> &'m [u8] {
        let Some(named) = messages.named else {
            return &messages.bytes;
        };
        let under_way = self
            .pipeline
            .prepares(self.in_flight.as_deref(), named.name);
        let state = match under_way {
            None => self.prepared.state(named),
            Some(other) if other.sql == named.sql => NameState::Same,
            Some(_) => NameState::Taken,
        };
        let skip = match state {
            NameState::Same => messages.close_bytes + messages.parse_bytes,
            NameState::Free => messages.close_bytes,
            NameState::Taken => 0,
        };
        &messages.bytes[skip as usize..]
    }

    /// Takes in what was read, up to the next thing to do. `unread` is what is left.
    ///
    /// # Errors
    /// Where the bytes are no messages: the connection cannot be followed any more.
    pub(crate) fn hear(&mut self, unread: &mut &[u8], now_ns: i64) -> Result<Heard, DecodeError> {
        while let Some(scanned) = self.scanner.next(unread)? {
            if self.guard.is_in_flight() && !matters_to_all(&scanned) {
                continue;
            }
            match scanned {
                Scanned::Header(header) => {
                    let Some(flight) = &mut self.in_flight else {
                        continue;
                    };
                    flight.first_byte_ns.get_or_insert(now_ns);
                    flight.bytes += header.message_bytes() as u64;
                    if flight.job.expected.is_some() {
                        learning::bound(&mut self.scanner, flight, header);
                    }
                    match header.tag {
                        tag::DATA_ROW => {
                            flight.rows_came += 1;
                            // One that is learnt from comes whole.
                            if let Some(row) = &mut self.digests
                                && flight.job.expected.is_none()
                            {
                                row.begins(header.body_bytes);
                                self.scanner.give_pieces();
                            }
                        }
                        // A row of COPY … TO STDOUT: the command's tag counts it.
                        tag::COPY_DATA => {
                            if let Some(row) = &mut self.digests {
                                row.begins(header.body_bytes);
                                self.scanner.give_pieces();
                            }
                        }
                        // It had as many as it asked for; nobody else counts them.
                        tag::PORTAL_SUSPENDED => {
                            flight.rows += std::mem::take(&mut flight.rows_came);
                            if pipeline::ends_answer(flight, header.tag) {
                                return Ok(Heard::Done);
                            }
                        }
                        tag::ROW_DESCRIPTION | tag::NO_DATA | tag::EMPTY_QUERY_RESPONSE
                            if pipeline::ends_answer(flight, header.tag) =>
                        {
                            return Ok(Heard::Done);
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
                            return Ok(Heard::WantsCopyData);
                        }
                        _ => {}
                    }
                }
                Scanned::Piece { bytes } => {
                    if let Some(row) = &mut self.digests
                        && let Some(checksum) = row.piece(bytes)
                        && let Some(flight) = &mut self.in_flight
                    {
                        flight.adds_to_digest(checksum);
                    }
                }
                Scanned::Body { tag, body } => match tag {
                    tag::COMMAND_COMPLETE => {
                        let complete = CommandComplete::decode(body)?;
                        self.prepared.after(complete.tag);
                        self.server_state.command_complete(complete.tag);
                        if let Some(flight) = &mut self.in_flight {
                            flight.rows += complete.rows().unwrap_or(0);
                            flight.rows_came = 0;
                            if std::mem::take(&mut flight.owes_sync) {
                                return Ok(Heard::WantsSync);
                            }
                            if pipeline::ends_answer(flight, tag) {
                                return Ok(Heard::Done);
                            }
                        }
                    }
                    tag::ERROR_RESPONSE => {
                        let error = ErrorNotice::decode(Report::Error, body)?;
                        let sqlstate = error.sqlstate().map_or(Sqlstate::UNKNOWN, Sqlstate);
                        let said = (sqlstate, error.message().unwrap_or_default().into_owned());
                        let fatal = error
                            .severity()
                            .is_some_and(|severity| severity == "FATAL" || severity == "PANIC");
                        if fatal {
                            self.farewell = Some(said.clone());
                        }
                        match &mut self.in_flight {
                            Some(flight) => {
                                flight.error.get_or_insert(said);
                                if std::mem::take(&mut flight.owes_sync) {
                                    return Ok(Heard::WantsSync);
                                }
                                if flight.job.boundary != Boundary::Sync {
                                    self.pipeline.aborting = true;
                                    return Ok(Heard::Done);
                                }
                            }
                            None => self.restore_errors += u32::from(self.restoring > 0),
                        }
                    }
                    tag::ROW_DESCRIPTION | tag::DATA_ROW => {
                        if let Some(flight) = &mut self.in_flight {
                            if self.digests.is_some() && tag == tag::DATA_ROW {
                                flight.adds_to_digest(RowDigest::of(body));
                            }
                            learning::learn(&mut self.remap, flight, tag, body)?;
                        }
                    }
                    tag::PARAMETER_STATUS => {
                        let status = ParameterStatus::decode(body)?;
                        self.guard.told(status.name, status.value);
                    }
                    _ => {
                        self.server_state.ready(ReadyForQuery::decode(body)?.status);
                        self.pipeline.aborting = false;
                        if self.restoring > 0 {
                            self.restoring -= 1;
                            if self.restoring == 0 {
                                return Ok(Heard::Restored);
                            }
                        } else if let Some(flight) = &mut self.in_flight {
                            if !self.guard.answered() {
                                return Ok(Heard::Done);
                            }
                            // That was the guard's answer: the statement's own comes next.
                            flight.first_byte_ns = None;
                            (flight.rows, flight.rows_came, flight.bytes) = (0, 0, 0);
                            flight.digest = None;
                            flight.error = None;
                        }
                    }
                },
            }
        }
        Ok(Heard::Nothing)
    }
}

fn scanner() -> Scanner {
    Scanner::new(WANTED, protocol::frame::BODY_BYTES_MAX)
}

/// Whether something of the answer to what keeps a session from writing, which is not the statement's,
/// is to be looked at all the same: the settings that it tells of, its end, and that of the connection.
fn matters_to_all(scanned: &Scanned<'_>) -> bool {
    match scanned {
        Scanned::Body { tag, body } => match *tag {
            tag::PARAMETER_STATUS | tag::READY_FOR_QUERY => true,
            tag::ERROR_RESPONSE => ErrorNotice::decode(Report::Error, body).is_ok_and(|error| {
                let severity = error.severity();
                severity.is_some_and(|severity| severity == "FATAL" || severity == "PANIC")
            }),
            _ => false,
        },
        Scanned::Header(_) | Scanned::Piece { .. } => false,
    }
}

/// What a statement's name stands for at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameState {
    /// Nothing.
    Free,
    /// This very SQL.
    Same,
    /// Other SQL, or it is not known: Close it first, which is no error where it is free.
    Taken,
}

/// The names that the server has prepared statements for, as far as they went through messages.
#[derive(Debug, Default)]
struct Prepared {
    sql_by_name: HashMap<u64, u64>,
    /// After a `DEALLOCATE name` it is not known which went.
    uncertain: bool,
}

impl Prepared {
    fn state(&self, named: NamedStatement) -> NameState {
        if self.uncertain {
            return NameState::Taken;
        }
        match self.sql_by_name.get(&named.name) {
            None => NameState::Free,
            Some(&sql) if sql == named.sql => NameState::Same,
            Some(_) => NameState::Taken,
        }
    }

    fn insert(&mut self, named: NamedStatement) {
        self.sql_by_name.insert(named.name, named.sql);
    }

    fn remove(&mut self, named: NamedStatement) {
        self.sql_by_name.remove(&named.name);
    }

    /// Takes in a command tag that says that statements went.
    fn after(&mut self, command_tag: &[u8]) {
        match command_tag {
            b"DEALLOCATE ALL" | b"DISCARD ALL" => {
                self.sql_by_name.clear();
                self.uncertain = false;
            }
            b"DEALLOCATE" if !self.sql_by_name.is_empty() => self.uncertain = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use run::{Captured, StatementKind};

    fn session_in_flight(named: Option<NamedStatement>) -> Session {
        let mut session = Session::new(1, false);
        fly(&mut session, named);
        session
    }

    fn fly(session: &mut Session, named: Option<NamedStatement>) {
        session.in_flight = Some(Box::new(InFlight {
            job: Job {
                session: 1,
                sequence: 0,
                due_ns: 0,
                captured_us: 0,
                think_ns: None,
                kind: StatementKind::Execute,
                fingerprint: None,
                captured: Captured::default(),
                after: 0,
                session_effect: Default::default(),
                awaited: true,
                boundary: workload::Boundary::Sync,
                expected: None,
                action: crate::job::Action::Disconnect,
            },
            due_ns: 0,
            sent_ns: 0,
            session_lag_ns: 0,
            first_byte_ns: None,
            rows: 0,
            rows_came: 0,
            bytes: 0,
            digest: None,
            error: None,
            named,
            extended: true,
            copy: None,
            owes_sync: false,
            aborted: false,
            in_transaction: false,
            state_changing_bytes: None,
        }));
    }

    fn tagged(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut message = vec![tag];
        message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        message.extend_from_slice(body);
        message
    }

    const NAMED: NamedStatement = NamedStatement { name: 1, sql: 10 };
    const CHANGED: NamedStatement = NamedStatement { name: 1, sql: 11 };

    fn messages(named: NamedStatement) -> Messages {
        Messages {
            bytes: b"CloseParseBind".to_vec(),
            close_bytes: 5,
            parse_bytes: 5,
            named: Some(named),
            extended: true,
            copy: None,
        }
    }

    #[test]
    fn an_answer_cut_anywhere_is_heard_alike() {
        let mut answer = tagged(b'2', b"");
        answer.extend(tagged(b'D', b"\0\x01\0\0\0\x01x"));
        answer.extend(tagged(b'C', b"SELECT 1\0"));
        answer.extend(tagged(b'C', b"UPDATE 5\0"));
        answer.extend(tagged(b'Z', b"I"));
        for cut in 0..answer.len() {
            let mut session = session_in_flight(None);
            let mut heard = Vec::new();
            for mut part in [&answer[..cut], &answer[cut..]] {
                heard.push(session.hear(&mut part, 7).unwrap());
                assert!(part.is_empty());
            }
            assert_eq!(heard, [Heard::Nothing, Heard::Done]);
            let flight = session.in_flight.unwrap();
            assert_eq!((flight.rows, flight.bytes), (6, answer.len() as u64));
            assert_eq!(flight.first_byte_ns, Some(7));
        }
    }

    #[test]
    fn a_named_statement_is_prepared_once_and_anew_when_its_sql_changed() {
        let mut session = Session::new(1, false);
        assert_eq!(session.needed(&messages(NAMED)), b"ParseBind");
        let hear = |session: &mut Session, named, bytes: &[u8]| {
            fly(session, named);
            session.hear(&mut &bytes[..], 0).unwrap();
            session.in_flight = None;
        };
        fly(&mut session, Some(NAMED));
        // What is under way prepares it.
        assert_eq!(session.needed(&messages(NAMED)), b"Bind");
        assert_eq!(session.needed(&messages(CHANGED)), b"CloseParseBind");
        hear(&mut session, Some(NAMED), &tagged(b'1', b""));
        assert_eq!(session.needed(&messages(NAMED)), b"Bind");
        assert_eq!(session.needed(&messages(CHANGED)), b"CloseParseBind");
        let closed_and_parsed = [tagged(b'3', b""), tagged(b'1', b"")].concat();
        hear(&mut session, Some(CHANGED), &closed_and_parsed);
        assert_eq!(session.needed(&messages(CHANGED)), b"Bind");
        hear(&mut session, None, &tagged(b'C', b"DEALLOCATE\0"));
        assert_eq!(session.needed(&messages(CHANGED)), b"CloseParseBind");
        hear(&mut session, None, &tagged(b'C', b"DISCARD ALL\0"));
        assert_eq!(session.needed(&messages(CHANGED)), b"ParseBind");
    }

    #[test]
    fn a_parse_that_failed_prepares_nothing() {
        let mut session = session_in_flight(Some(NAMED));
        let error = tagged(b'E', b"SERROR\0C42P01\0Mno such table\0\0");
        session.hear(&mut &error[..], 0).unwrap();
        let flight = session.in_flight.take().unwrap();
        assert_eq!(session.needed(&messages(NAMED)), b"ParseBind");
        assert_eq!(
            flight.error,
            Some((Sqlstate(*b"42P01"), "no such table".to_owned()))
        );
        assert_eq!(session.farewell, None);
    }

    #[test]
    fn a_farewell_is_kept_also_when_nothing_is_in_flight() {
        let mut session = Session::new(1, false);
        let error = tagged(b'E', b"SFATAL\0VFATAL\0C57P01\0Mterminating\0\0");
        assert_eq!(session.hear(&mut &error[..], 0).unwrap(), Heard::Nothing);
        assert_eq!(session.farewell.unwrap().0, Sqlstate(*b"57P01"));
    }
}
