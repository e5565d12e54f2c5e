//! Events become messages.
//!
//! A Describe of the portal stands before each Execute, as libpq and the drivers on top of it
//! send it: without it the server would not send the rows' description, which is part of the
//! answer that clients paid for.

use std::sync::Arc;

use protocol::frontend::target::Target as Of;
use protocol::frontend::{
    Close, CopyData, CopyDone, CopyFail, Describe, Execute, Flush, Query, Sync,
};
use protocol::frontend::{bind, parse};
use protocol::{EncodeError, Format};
use run::{Captured, Place, SkipReason, StatementKind};
use sql::Fingerprint;
use sql::SessionEffect;
use workload::{
    Boundary, CopyIn, Event, EventKind, Parameter, Particulars, ResultFormat, Sqlstate,
};

use crate::job::{Action, Job, Messages, NamedStatement};
use crate::login::{LoginMap, Unsaid, with_settings_of};
use crate::portals::Portals;
use crate::resume::{Left, Resumed};
use crate::texts::{Texts, hash};
use connect::Target;

/// `character_not_in_repertoire`: what the server would say of SQL with a NUL in it.
const NOT_ENCODABLE: Sqlstate = Sqlstate(*b"22021");

/// `duplicate_prepared_statement`
const NAME_TAKEN: Sqlstate = Sqlstate(*b"42P05");
/// `invalid_sql_statement_name`
pub(crate) const NAME_UNKNOWN: Sqlstate = Sqlstate(*b"26000");

/// The class of cancelled statements and of sessions that were ended.
const OPERATOR_INTERVENTION: &[u8] = b"57";

/// COPY data are sent in messages of at most this much.
const COPY_BYTES_MAX: usize = 64 << 10;

/// Makes jobs of the events of one replay, in their order.
pub(crate) struct Encoder<'a> {
    target: &'a Target,
    logins: &'a LoginMap,
    unsaid: Unsaid,
    portals: Portals,
    texts: Texts,
}

impl<'a> Encoder<'a> {
    /// `fetch_size`: what executions of named portals ask for where the capture does not know it.
    pub(crate) fn new(target: &'a Target, logins: &'a LoginMap, fetch_size: Option<u32>) -> Self {
        Encoder {
            target,
            logins,
            unsaid: Unsaid::Utf8,
            portals: Portals::new(fetch_size),
            texts: Texts::default(),
        }
    }

    /// What sessions say of their encoding whose clients said nothing of it.
    pub(crate) fn with_encoding(mut self, unsaid: Unsaid) -> Self {
        self.unsaid = unsaid;
        self
    }

    /// What is to be done for an event.
    pub(crate) fn job(
        &mut self,
        event: Event,
        fingerprint: Option<Fingerprint>,
        due_ns: i64,
    ) -> Job {
        let kind = StatementKind::from(&event.kind);
        let particulars = event.particulars.as_deref();
        let (awaited, boundary) = particulars.map_or((true, Boundary::Sync), |particulars| {
            (particulars.awaited, particulars.boundary)
        });
        let session_effect = match &event.kind {
            // Nearly every simple statement is another text.
            EventKind::Simple { sql } => SessionEffect::of(sql),
            kind => kind.sql().map_or(SessionEffect::default(), |sql| {
                self.texts.known(sql).session_effect
            }),
        };
        let action = match (self.portals.rows_max(&event), &event.kind) {
            (Err(reason), _) => Action::Skip(SkipReason::Unreplayable(reason)),
            (
                Ok(_),
                EventKind::Connect {
                    database,
                    user,
                    application,
                },
            ) => {
                let login = self.logins.login(self.target, user, database, application);
                Action::Connect(Box::new(with_settings_of(login, particulars, &self.unsaid)))
            }
            (Ok(_), EventKind::Cancel) => Action::Cancel,
            (Ok(_), EventKind::Disconnect) => Action::Disconnect,
            (Ok(rows_max), kind) => {
                let sqlstate = event.outcome.sqlstate;
                match messages_of(kind, particulars, sqlstate, rows_max, &mut self.texts) {
                    Ok(messages) => Action::Send(messages),
                    Err(error) => Action::Refuse(NOT_ENCODABLE, error.to_string()),
                }
            }
        };
        Job {
            session: event.session,
            sequence: event.sequence,
            due_ns,
            captured_us: event.due_us,
            think_ns: None,
            kind,
            fingerprint,
            captured: Captured {
                duration_us: event.outcome.duration_us,
                rows: event.outcome.rows,
                sqlstate: event.outcome.sqlstate,
                digest: particulars.and_then(|known| known.result_digest),
                place: Place::of(event.source, event.line),
            },
            after: 0,
            session_effect,
            awaited,
            boundary,
            expected: None,
            action,
        }
    }

    /// What has a session go on where another replay left it.
    pub(crate) fn resumed(&self, event: &Event, left: Left, due_ns: i64) -> Job {
        let logins = self.logins;
        let login = logins.login(self.target, &left.user, &left.database, &left.application);
        let login = with_settings_of(login, left.particulars.as_deref(), &self.unsaid);
        let resumed = Resumed {
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
            after: 0,
            session_effect: SessionEffect::default(),
            awaited: true,
            boundary: Boundary::Sync,
            expected: None,
            action: Action::Resume(Box::new(resumed)),
        }
    }
}

/// What stands in front of a statement's Bind or Describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preparing {
    /// Close and Parse, of which a session sends what it needs.
    AsNeeded,
    /// The client prepared a name that was taken: two of Parse, of which the one or the other fails, be
    /// the name taken here or not. With a failure less, its transaction would be committed.
    NameTaken,
    /// The client bound a name that was not prepared, such as one whose Parse the server had passed over.
    NameUnknown,
}

impl Preparing {
    /// `sqlstate`: with which it failed in a capture from the wire.
    fn of(kind: &EventKind, sqlstate: Option<Sqlstate>) -> Self {
        match kind {
            EventKind::Prepare { statement, .. } | EventKind::Execute { statement, .. }
                if sqlstate == Some(NAME_TAKEN) && !statement.is_empty() =>
            {
                Preparing::NameTaken
            }
            EventKind::Execute { .. } if sqlstate == Some(NAME_UNKNOWN) => Preparing::NameUnknown,
            _ => Preparing::AsNeeded,
        }
    }
}

/// The messages of a text that is sent as it is.
pub(crate) fn text(sql: &str) -> Option<Messages> {
    simple(sql).ok()
}

/// The messages of a statement; `None` for what is none, or cannot be put into messages.
pub(crate) fn messages(kind: &EventKind) -> Option<Messages> {
    match kind {
        EventKind::Simple { .. } | EventKind::Prepare { .. } | EventKind::Execute { .. } => {
            messages_of(kind, None, None, 0, &mut Texts::default()).ok()
        }
        EventKind::Connect { .. }
        | EventKind::Fetch { .. }
        | EventKind::Cancel
        | EventKind::Disconnect => None,
    }
}

/// The messages of an event that is a statement; none for others. `sqlstate`: with which it failed in the capture.
fn messages_of(
    kind: &EventKind,
    particulars: Option<&Particulars>,
    sqlstate: Option<Sqlstate>,
    rows_max: u32,
    texts: &mut Texts,
) -> Result<Messages, EncodeError> {
    let types = particulars.map_or(&[][..], |particulars| &particulars.parameter_types);
    // In a log the code may stand for what the statement itself did.
    let sqlstate = sqlstate.filter(|_| particulars.is_some());
    let preparing = Preparing::of(kind, sqlstate);
    let mut messages = match kind {
        EventKind::Simple { sql } => simple(sql)?,
        EventKind::Prepare { statement, sql } => {
            let mut messages = begin(statement, sql, types, preparing, texts, statement.len())?;
            // Drivers that prepare ask what the parameters and rows are.
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
            let mut messages = begin(statement, sql, types, preparing, texts, room)?;
            let formats = particulars.map_or(&[][..], |particulars| &particulars.result_formats);
            bind(statement, portal, parameters, formats, &mut messages.bytes)?;
            execute(portal, rows_max, &mut messages.bytes)?;
            messages
        }
        EventKind::Fetch { portal, .. } => {
            let mut messages = Messages {
                extended: true,
                ..Messages::default()
            };
            execute(portal, rows_max, &mut messages.bytes)?;
            messages
        }
        EventKind::Connect { .. } | EventKind::Cancel | EventKind::Disconnect => {
            return Ok(Messages::default());
        }
    };
    let boundary = particulars.map_or(Boundary::Sync, |particulars| particulars.boundary);
    let copy = particulars.and_then(|particulars| particulars.copy.as_ref());
    if let Some(copy) = copy {
        let mut data = copy_in(copy, sqlstate)?;
        if messages.extended {
            end(boundary, &mut data);
        }
        messages.copy = Some(data);
    }
    if messages.extended {
        let at_once = match boundary {
            // The server must be heard before it is known where the Sync belongs.
            Boundary::Sync if copy.is_some() => Boundary::Flush,
            boundary => boundary,
        };
        end(at_once, &mut messages.bytes);
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

/// Bind, and the Describe of the portal.
fn bind(
    statement: &str,
    portal: &str,
    parameters: &[Option<Parameter>],
    result_formats: &[ResultFormat],
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let is_binary = |value: &Option<Parameter>| matches!(value, Some(Parameter::Binary(_)));
    // No format at all is text for all of them.
    let said = match parameters.iter().any(is_binary) {
        true => parameters,
        false => &[],
    };
    bind::encode(
        portal.as_bytes(),
        statement.as_bytes(),
        said.iter().map(|value| match is_binary(value) {
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
    Describe {
        target: Of::Portal(portal.as_bytes()),
    }
    .encode(out)
}

fn execute(portal: &str, rows_max: u32, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    Execute {
        portal: portal.as_bytes(),
        rows_max: i32::try_from(rows_max).unwrap_or(i32::MAX),
    }
    .encode(out)
}

fn end(boundary: Boundary, out: &mut Vec<u8>) {
    match boundary {
        Boundary::Sync => Sync.encode(out),
        Boundary::Flush => Flush.encode(out),
        Boundary::Nothing => {}
    }
}

/// What a client sent when it was asked for COPY data. Where somebody else ended it in the capture it fails
/// here, too: the data come at once, and would all be there before a cancel request.
fn copy_in(copy: &CopyIn, sqlstate: Option<Sqlstate>) -> Result<Vec<u8>, EncodeError> {
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

/// Close and Parse, with room for so many bytes behind them. The unnamed statement needs no Close, and is
/// parsed each time.
fn begin(
    statement: &Arc<str>,
    sql: &Arc<str>,
    types: &[u32],
    preparing: Preparing,
    texts: &mut Texts,
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
    if preparing == Preparing::NameUnknown {
        if statement.is_empty() {
            // Of another text.
            close.encode(out)?;
        }
        return Ok(messages);
    }
    if !statement.is_empty() {
        close.encode(out)?;
        messages.close_bytes = out.len() as u32;
        let mut named = texts.known(sql).hash;
        if !types.is_empty() {
            // Of other types it is another statement.
            named ^= hash(types);
        }
        messages.named = Some(NamedStatement {
            name: texts.known(statement).hash,
            sql: named,
        });
    }
    if preparing == Preparing::NameTaken {
        out.clear();
        messages.close_bytes = 0;
    }
    let parse = |out: &mut Vec<u8>| {
        let types = types.iter().copied();
        parse::encode(statement.as_bytes(), sql.as_bytes(), types, out)
    };
    parse(out)?;
    match preparing {
        Preparing::NameTaken => parse(out)?,
        _ => messages.parse_bytes = out.len() as u32 - messages.close_bytes,
    }
    Ok(messages)
}
