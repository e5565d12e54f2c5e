//! Encodes events as protocol messages.
//!
//! A Describe of the portal precedes each Execute, as libpq and the drivers on top of it send it. Without it
//! the server would not send the row description, which is part of the cost of the captured answer.

use std::sync::Arc;

use protocol::frontend::target::Target as Of;
use protocol::frontend::{
    Close, CopyData, CopyDone, CopyFail, Describe, Execute, Flush, Query, Sync,
};
use protocol::frontend::{bind, function_call, parse};
use protocol::{EncodeError, Format};
use run::{Captured, SkipReason, SourceLocation, StatementKind};
use sql::Fingerprint;
use sql::{CapturedIdentifier, ContextReader, SessionEffect};
use workload::{
    Boundary, CopyIn, Event, EventKind, LO_CREAT, LO_CREATE, MessageSet, Parameter, ResultFormat,
    Sqlstate, Unreplayable, WireDetails,
};

use crate::captured_identifiers::unknown_identifier;
use crate::captured_transactions::CapturedTransactions;
use crate::job::{Action, Job, Messages, NamedStatement, ResumedSession};
use crate::login::{DefaultEncoding, LoginMap, with_settings_of};
use crate::portals::{NAME_UNKNOWN, Portals};
use crate::resume::SessionPosition;
use crate::statement_cache::{StatementCache, hash};
use crate::user_types::UserTypes;
use connect::Target;

/// `character_not_in_repertoire`: the server's code for SQL that contains a NUL.
const NOT_ENCODABLE: Sqlstate = Sqlstate(*b"22021");

/// `duplicate_prepared_statement`
const NAME_TAKEN: Sqlstate = Sqlstate(*b"42P05");

/// SQLSTATE class of cancelled statements and terminated sessions.
const OPERATOR_INTERVENTION: &[u8] = b"57";

/// Hash that stands for no text.
const NO_SQL: u64 = 0;

/// Most bytes of one CopyData message.
const COPY_BYTES_MAX: usize = 64 << 10;

/// Encodes the events of one replay as jobs, in order.
pub(crate) struct Encoder<'a> {
    target: &'a Target,
    logins: &'a LoginMap,
    default_encoding: DefaultEncoding,
    portals: Portals,
    transactions: CapturedTransactions,
    statements: StatementCache,
    contexts: ContextReader,
    types: UserTypes,
    /// Whether the snapshot that the next event names is one of the replay.
    snapshot_is_known: bool,
}

impl<'a> Encoder<'a> {
    /// Creates an encoder. `fetch_size` is the row limit for executions of named portals if the capture does not
    /// have it.
    pub(crate) fn new(target: &'a Target, logins: &'a LoginMap, fetch_size: Option<u32>) -> Self {
        Encoder {
            target,
            logins,
            default_encoding: DefaultEncoding::Utf8,
            portals: Portals::new(fetch_size),
            transactions: CapturedTransactions::default(),
            statements: StatementCache::default(),
            contexts: ContextReader::default(),
            types: UserTypes::default(),
            snapshot_is_known: false,
        }
    }

    /// Sets what is known of the target's types.
    pub(crate) fn with_types(mut self, types: UserTypes) -> Self {
        self.types = types;
        self
    }

    /// Returns the types of parameters that the target does not have.
    pub(crate) fn user_types(&self) -> &UserTypes {
        &self.types
    }

    /// Sets the encoding of sessions whose clients did not request one.
    pub(crate) fn with_encoding(mut self, encoding: DefaultEncoding) -> Self {
        self.default_encoding = encoding;
        self
    }

    /// Sets whether the snapshot that the next event names is one of the replay.
    pub(crate) fn set_snapshot_known(&mut self, is_known: bool) {
        self.snapshot_is_known = is_known;
    }

    fn is_known(&self, reason: SkipReason) -> bool {
        reason == SkipReason::SnapshotUnknown && self.snapshot_is_known
    }

    /// Returns the effect of an event on the state and the transaction of its session.
    pub(crate) fn session_effect(&mut self, event: &Event) -> SessionEffect {
        match &event.kind {
            // Simple statements seldom repeat, so the cache does not help.
            EventKind::Simple { sql } => SessionEffect::of(sql),
            kind => kind.sql().map_or(SessionEffect::default(), |sql| {
                self.statements.get(sql).session_effect
            }),
        }
    }

    /// Encodes an event as a job.
    pub(crate) fn job(
        &mut self,
        event: &Event,
        fingerprint: Option<Fingerprint>,
        due_ns: i64,
    ) -> Job {
        let particulars = event.wire_details.as_deref();
        let kind = match particulars.map(|particulars| particulars.messages) {
            None | Some(MessageSet::Complete) => StatementKind::from(&event.kind),
            // It executes nothing, and its answer is that of a Describe.
            Some(MessageSet::Bind | MessageSet::Describe) => StatementKind::Prepare,
        };
        let (awaited, boundary) = particulars.map_or((true, Boundary::Sync), |particulars| {
            (particulars.awaited, particulars.boundary)
        });
        let session_effect = self.session_effect(event);
        let transaction_failed = self.transactions.follow(event, session_effect);
        let statements = &mut self.statements;
        let unknown = unknown_identifier(&event.kind, |kind, sql| match kind {
            EventKind::Simple { .. } => CapturedIdentifier::find(sql),
            _ => statements.get(sql).identifier,
        });
        let action = match (self.portals.rows_max(event), &event.kind) {
            (Err(reason), _) => Action::Skip(SkipReason::Unreplayable(reason)),
            (Ok(_), _) if unknown.is_some_and(|reason| !self.is_known(reason)) => {
                Action::Skip(unknown.expect("it is some"))
            }
            (
                Ok(_),
                EventKind::Connect {
                    database,
                    user,
                    application,
                },
            ) => {
                self.types.begin(event.session, database);
                let login = self.logins.login(self.target, user, database, application);
                Action::Connect(Box::new(with_settings_of(
                    login,
                    particulars,
                    &self.default_encoding,
                )))
            }
            (Ok(_), EventKind::Cancel) => Action::Cancel,
            (Ok(_), EventKind::Disconnect) => {
                self.types.end(event.session);
                Action::Disconnect
            }
            (Ok(rows_max), kind) => {
                let captured = particulars.map_or(&[][..], |known| &known.parameter_types);
                let types = self.types.choose_types(event.session, captured);
                let details = StatementDetails {
                    wire: particulars,
                    types: &types,
                    sqlstate: sqlstate_of_messages(event),
                    rows_max,
                    protocol: match self.target.is_read_only() {
                        true => SimpleProtocol::Avoided,
                        false => SimpleProtocol::Allowed,
                    },
                };
                match messages_of(kind, details, &mut self.statements) {
                    Ok(messages) => Action::Send(messages),
                    Err(error) => Action::Refuse(NOT_ENCODABLE, error.to_string()),
                }
            }
        };
        let captured = self.captured(event);
        Job {
            session: event.session,
            sequence: event.sequence,
            due_ns,
            captured_us: event.due_us,
            think_ns: None,
            kind,
            fingerprint,
            captured,
            commits_before: 0,
            dependencies: Box::default(),
            transaction_failed,
            session_effect,
            awaited,
            boundary,
            expected: None,
            used: Box::default(),
            action,
        }
    }

    /// Returns the number of statements so far whose `traceparent` cannot be read.
    pub(crate) fn invalid_traces(&self) -> u64 {
        self.contexts.invalid_traces()
    }

    /// Returns what the capture knows of an event.
    fn captured(&mut self, event: &Event) -> Captured {
        let sql = event.kind.sql();
        let comment = sql.and_then(|sql| self.contexts.read(sql));
        let context = (comment.as_ref()).filter(|comment| !comment.context.is_empty());
        let details = event.wire_details.as_deref();
        Captured {
            duration_us: event.outcome.duration_us,
            rows: event.outcome.rows,
            sqlstate: event.outcome.sqlstate,
            digest: details.and_then(|known| known.result_digest),
            context: context.map(|comment| comment.context.id()),
            trace: comment.as_ref().and_then(|comment| comment.trace),
            location: SourceLocation::of(event.source, event.line),
        }
    }

    /// Creates the job that resumes a session at the position where another replay stopped.
    pub(crate) fn resume_job(&mut self, event: &Event, left: SessionPosition, due_ns: i64) -> Job {
        let logins = self.logins;
        let login = logins.login(self.target, &left.user, &left.database, &left.application);
        let login = with_settings_of(login, left.particulars.as_deref(), &self.default_encoding);
        self.types.begin(event.session, &left.database);
        let resumed = ResumedSession {
            login,
            transaction_lost: left.state.in_transaction(),
            state: left.state,
        };
        Job {
            session: event.session,
            sequence: event.sequence,
            due_ns,
            captured_us: event.due_us,
            think_ns: None,
            kind: StatementKind::Connect,
            fingerprint: None,
            captured: Captured::default(),
            commits_before: 0,
            dependencies: Box::default(),
            transaction_failed: false,
            session_effect: SessionEffect::default(),
            awaited: true,
            boundary: Boundary::Sync,
            expected: None,
            used: Box::default(),
            action: Action::Resume(Box::new(resumed)),
        }
    }
}

/// Messages in front of a statement's Bind or Describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParseMode {
    /// Close and Parse, of which a session sends the part it needs.
    IfNeeded,
    /// Parse twice. The client prepared a name that was taken, and one of the two fails whether or not the name
    /// is taken here. Without the failure, its transaction would be committed.
    NameTaken,
    /// Close alone. The client used a name that was not prepared, such as one that it had closed, or whose Parse the
    /// server had skipped.
    NameUnknown,
}

impl ParseMode {
    /// Chooses the mode. `sqlstate` is the error of the messages in the capture.
    fn of(kind: &EventKind, messages: MessageSet, sqlstate: Option<Sqlstate>) -> Self {
        match kind {
            EventKind::Prepare { statement, .. } | EventKind::Execute { statement, .. }
                if sqlstate == Some(NAME_TAKEN) && !statement.is_empty() =>
            {
                ParseMode::NameTaken
            }
            EventKind::Execute { .. } if sqlstate == Some(NAME_UNKNOWN) => ParseMode::NameUnknown,
            EventKind::Prepare { .. }
                if sqlstate == Some(NAME_UNKNOWN) && messages == MessageSet::Describe =>
            {
                ParseMode::NameUnknown
            }
            _ => ParseMode::IfNeeded,
        }
    }
}

/// Whether a text may be sent as a simple query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum SimpleProtocol {
    #[default]
    Allowed,
    /// The extended protocol is used instead, in which the server refuses several statements in one text.
    Avoided,
}

/// Encodes a simple query.
pub(crate) fn text(sql: &str) -> Option<Messages> {
    simple(sql).ok()
}

/// Encodes a statement; `None` for other events, or if it cannot be encoded.
pub(crate) fn messages(kind: &EventKind) -> Option<Messages> {
    match kind {
        EventKind::Simple { .. } | EventKind::Prepare { .. } | EventKind::Execute { .. } => {
            let texts = &mut StatementCache::default();
            messages_of(kind, StatementDetails::default(), texts).ok()
        }
        EventKind::Connect { .. }
        | EventKind::Fetch { .. }
        | EventKind::FunctionCall { .. }
        | EventKind::Cancel
        | EventKind::Disconnect => None,
    }
}

/// Returns the error in the capture, if it is known to come from the event's messages. An execution in a log may
/// have the error of an SQL command such as EXECUTE instead.
fn sqlstate_of_messages(event: &Event) -> Option<Sqlstate> {
    let is_of_messages = event.wire_details.is_some()
        || matches!(event.kind, EventKind::Prepare { .. })
        || event.unreplayable == Some(Unreplayable::StatementUnknown);
    event.outcome.sqlstate.filter(|_| is_of_messages)
}

/// Details by which a statement is encoded.
#[derive(Debug, Clone, Copy, Default)]
struct StatementDetails<'e> {
    /// Details of a capture from the wire.
    wire: Option<&'e WireDetails>,
    /// Types of its parameters that are sent.
    types: &'e [u32],
    /// Error of its messages in the capture.
    sqlstate: Option<Sqlstate>,
    /// Maximum number of rows that an Execute requests; 0 is all.
    rows_max: u32,
    protocol: SimpleProtocol,
}

/// Encodes an event that is a statement; no messages for others.
fn messages_of(
    kind: &EventKind,
    details: StatementDetails<'_>,
    texts: &mut StatementCache,
) -> Result<Messages, EncodeError> {
    let StatementDetails {
        wire: particulars,
        types,
        sqlstate,
        rows_max,
        protocol,
    } = details;
    let set = particulars.map_or(MessageSet::Complete, |particulars| particulars.messages);
    let preparing = ParseMode::of(kind, set, sqlstate);
    let mut messages = match kind {
        EventKind::Simple { sql } => match protocol {
            SimpleProtocol::Allowed => simple(sql)?,
            SimpleProtocol::Avoided => {
                let unnamed: &Arc<str> = &"".into();
                let mut messages = encode_parse(unnamed, sql, &[], ParseMode::IfNeeded, texts, 32)?;
                bind("", "", &[], &[], &mut messages.bytes)?;
                execute("", 0, &mut messages.bytes)?;
                messages
            }
        },
        EventKind::Prepare { statement, sql } => {
            let mut messages =
                encode_parse(statement, sql, types, preparing, texts, statement.len())?;
            // Drivers that prepare also describe the parameters and rows.
            Describe {
                target: Of::Statement(statement.as_bytes()),
            }
            .encode(&mut messages.bytes)?;
            messages
        }
        EventKind::Execute {
            statement,
            portal,
            sql,
            parameters,
        } => {
            let bound = parameters.iter().flatten();
            let bound_bytes: usize = bound.map(|value| value.as_bytes().len()).sum();
            let room = bound_bytes + 8 * parameters.len() + statement.len() + 2 * portal.len();
            let mut messages = encode_parse(statement, sql, types, preparing, texts, room)?;
            let formats = particulars.map_or(&[][..], |particulars| &particulars.result_formats);
            bind(statement, portal, parameters, formats, &mut messages.bytes)?;
            if set == MessageSet::Complete {
                execute(portal, rows_max, &mut messages.bytes)?;
            }
            messages
        }
        EventKind::Fetch { portal, .. } => {
            let mut messages = Messages {
                extended: true,
                ..Messages::default()
            };
            match set {
                MessageSet::Describe => describe_portal(portal, &mut messages.bytes)?,
                _ => execute(portal, rows_max, &mut messages.bytes)?,
            }
            messages
        }
        EventKind::FunctionCall {
            function,
            parameters,
            ..
        } => call_function(function, parameters, particulars)?,
        EventKind::Connect { .. } | EventKind::Cancel | EventKind::Disconnect => {
            return Ok(Messages::default());
        }
    };
    messages.reparses = particulars.is_some_and(|particulars| particulars.parsed);
    let boundary = particulars.map_or(Boundary::Sync, |particulars| particulars.boundary);
    let copy = particulars.and_then(|particulars| particulars.copy.as_ref());
    if let Some(copy) = copy {
        let mut data = encode_copy_data(copy, sqlstate)?;
        if messages.extended {
            encode_boundary(boundary, &mut data);
        }
        messages.copy = Some(data);
    }
    if messages.extended {
        let at_once = match boundary {
            // The place of the Sync depends on the server's answer.
            Boundary::Sync if copy.is_some() => Boundary::Flush,
            boundary => boundary,
        };
        encode_boundary(at_once, &mut messages.bytes);
    }
    Ok(messages)
}

fn simple(sql: &str) -> Result<Messages, EncodeError> {
    let mut messages = Messages {
        bytes: Vec::with_capacity(sql.len() + 6),
        ..Messages::default()
    };
    Query {
        sql: sql.as_bytes(),
    }
    .encode(&mut messages.bytes)?;
    Ok(messages)
}

/// Encodes Bind and the Describe of the portal.
fn bind(
    statement: &str,
    portal: &str,
    parameters: &[Option<Parameter>],
    result_formats: &[ResultFormat],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let is_binary = |value: &Option<Parameter>| matches!(value, Some(Parameter::Binary(_)));
    // An empty list of formats means text for all parameters.
    let formatted = match parameters.iter().any(is_binary) {
        true => parameters,
        false => &[],
    };
    bind::encode(
        portal.as_bytes(),
        statement.as_bytes(),
        formatted.iter().map(|value| match is_binary(value) {
            true => Format::Binary,
            false => Format::Text,
        }),
        parameters
            .iter()
            .map(|value| value.as_ref().map(Parameter::as_bytes)),
        result_formats.iter().map(|format| match format {
            ResultFormat::Text => Format::Text,
            ResultFormat::Binary => Format::Binary,
        }),
        out,
    )?;
    describe_portal(portal, out)
}

fn describe_portal(portal: &str, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    Describe {
        target: Of::Portal(portal.as_bytes()),
    }
    .encode(out)
}

/// Encodes a call of a function by its OID. A large object is created with the OID that it had in the capture, since
/// later calls and statements use it.
fn call_function(
    function: &str,
    arguments: &[Option<Parameter>],
    particulars: Option<&WireDetails>,
) -> Result<Messages, EncodeError> {
    let mut function: u32 = function.parse().unwrap_or(0);
    let row = particulars.and_then(|particulars| particulars.first_rows.as_ref());
    let created = row.and_then(|row| row.values.first()?.clone());
    let created = match function {
        LO_CREAT | LO_CREATE => created.map(|created| [Some(created)]),
        _ => None,
    };
    if created.is_some() {
        function = LO_CREATE;
    }
    let arguments = created.as_ref().map_or(arguments, |created| &created[..]);
    let format = particulars.and_then(|particulars| particulars.result_formats.first());
    let mut messages = Messages::default();
    function_call::encode(
        function,
        arguments.iter().map(|value| match value {
            Some(Parameter::Binary(_)) => Format::Binary,
            _ => Format::Text,
        }),
        arguments
            .iter()
            .map(|value| value.as_ref().map(Parameter::as_bytes)),
        match format {
            Some(ResultFormat::Binary) => Format::Binary,
            _ => Format::Text,
        },
        &mut messages.bytes,
    )?;
    Ok(messages)
}

fn execute(portal: &str, rows_max: u32, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    Execute {
        portal: portal.as_bytes(),
        rows_max: i32::try_from(rows_max).unwrap_or(i32::MAX),
    }
    .encode(out)
}

fn encode_boundary(boundary: Boundary, out: &mut Vec<u8>) {
    match boundary {
        Boundary::Sync => Sync.encode(out),
        Boundary::Flush => Flush.encode(out),
        Boundary::Nothing => {}
    }
}

/// Encodes the client's COPY data. If another client cancelled the COPY in the capture, it ends in CopyFail:
/// the data arrive at once, and would be complete before a cancel request.
fn encode_copy_data(copy: &CopyIn, sqlstate: Option<Sqlstate>) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(copy.data.len() + copy.data.len() / COPY_BYTES_MAX * 5 + 64);
    for data in copy.data.chunks(COPY_BYTES_MAX) {
        CopyData { data }.encode(&mut out)?;
    }
    let cancelled = sqlstate.is_some_and(|code| code.0.starts_with(OPERATOR_INTERVENTION));
    let failed = match &copy.failed {
        None if cancelled => Some("it was cancelled in the capture"),
        failed => failed.as_deref(),
    };
    match failed {
        None => CopyDone.encode(&mut out),
        Some(reason) => CopyFail {
            reason: reason.as_bytes(),
        }
        .encode(&mut out)?,
    }
    Ok(out)
}

/// Encodes Close and Parse, with capacity for `room` more bytes. The unnamed statement needs no Close, and is
/// parsed each time.
fn encode_parse(
    statement: &Arc<str>,
    sql: &Arc<str>,
    types: &[u32],
    preparing: ParseMode,
    texts: &mut StatementCache,
    room: usize,
) -> Result<Messages, EncodeError> {
    let own = 2 * statement.len() + sql.len() + 4 * types.len();
    let mut messages = Messages {
        // The messages' headers and counts take the rest.
        bytes: Vec::with_capacity(own + room + 64),
        extended: true,
        ..Messages::default()
    };
    let out = &mut messages.bytes;
    let close = Close {
        target: Of::Statement(statement.as_bytes()),
    };
    if preparing == ParseMode::NameUnknown {
        // No other text has the name from then on.
        close.encode(out)?;
        if !statement.is_empty() {
            messages.named = Some(NamedStatement {
                name: texts.get(statement).hash,
                sql: NO_SQL,
            });
        }
        return Ok(messages);
    }
    if !statement.is_empty() {
        close.encode(out)?;
        messages.close_bytes = out.len() as u32;
        let mut named = texts.get(sql).hash;
        if !types.is_empty() {
            // With other parameter types it is another statement.
            named ^= hash(types);
        }
        messages.named = Some(NamedStatement {
            name: texts.get(statement).hash,
            sql: named,
        });
    }
    if preparing == ParseMode::NameTaken {
        out.clear();
        messages.close_bytes = 0;
    }
    let parse = |out: &mut Vec<u8>| {
        let types = types.iter().copied();
        parse::encode(statement.as_bytes(), sql.as_bytes(), types, out)
    };
    parse(out)?;
    match preparing {
        ParseMode::NameTaken => parse(out)?,
        _ => messages.parse_bytes = out.len() as u32 - messages.close_bytes,
    }
    Ok(messages)
}
