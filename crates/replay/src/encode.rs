//! Events become messages.
//!
//! A Describe of the portal stands before each Execute, as libpq and the drivers on top of it
//! send it: without it the server would not send the rows' description, which is part of the
//! answer that clients paid for.

use std::hash::{DefaultHasher, Hash, Hasher};

use pgwire::frontend::{Close, Describe, Execute, Query, Sync};
use pgwire::frontend::{bind, parse, target::Target as Of};
use pgwire::{EncodeError, Format};
use run::{Captured, Place, SkipReason, StatementKind};
use workload::rewrite::Bearing;
use workload::{Event, EventKind, Fingerprint, Sqlstate, Unreplayable};

use crate::job::{Action, Job, Messages, NamedStatement};
use crate::login::LoginMap;
use crate::resume::{Left, Resumed};
use crate::target::Target;

/// `character_not_in_repertoire`: what the server would say of SQL with a NUL in it.
const NOT_ENCODABLE: Sqlstate = Sqlstate(*b"22021");

/// What is to be done for an event.
pub(crate) fn job(
    event: Event,
    fingerprint: Option<Fingerprint>,
    due_ns: i64,
    target: &Target,
    logins: &LoginMap,
) -> Job {
    let kind = StatementKind::from(&event.kind);
    let action = match (event.unreplayable, &event.kind) {
        (Some(reason), _) => Action::Skip(SkipReason::Unreplayable(reason)),
        (
            None,
            EventKind::Connect {
                database,
                user,
                application,
            },
        ) => Action::Connect(Box::new(logins.login(target, user, database, application))),
        (None, EventKind::Simple { sql }) => send(simple(sql)),
        (None, EventKind::Prepare { statement, sql }) => send(prepare(statement, sql)),
        (
            None,
            EventKind::Execute {
                statement,
                portal,
                sql,
                parameters,
            },
        ) => send(execute(statement, portal, sql, parameters)),
        (None, EventKind::Fetch { .. }) => {
            Action::Skip(SkipReason::Unreplayable(Unreplayable::PortalFetch))
        }
        (None, EventKind::Cancel) => Action::Cancel,
        (None, EventKind::Disconnect) => Action::Disconnect,
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
            place: Place::of(event.source, event.line),
        },
        after: 0,
        bearing: event
            .kind
            .sql()
            .map_or(Bearing::default(), |sql| Bearing::of(sql)),
        action,
    }
}

/// What has a session go on where another replay left it.
pub(crate) fn resumed(
    event: &Event,
    left: Left,
    due_ns: i64,
    target: &Target,
    logins: &LoginMap,
) -> Job {
    let login = logins.login(target, &left.user, &left.database, &left.application);
    let resumed = Resumed {
        login,
        held: left.held,
        transaction_lost: left.in_transaction,
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
        bearing: Bearing::default(),
        action: Action::Resume(Box::new(resumed)),
    }
}

/// The messages of a text that is sent as it is.
pub(crate) fn statement(sql: &str) -> Option<Messages> {
    simple(sql).ok()
}

/// The messages of a statement; `None` for what is none, or cannot be put into messages.
pub(crate) fn messages(kind: &EventKind) -> Option<Messages> {
    match kind {
        EventKind::Simple { sql } => simple(sql).ok(),
        EventKind::Prepare { statement, sql } => prepare(statement, sql).ok(),
        EventKind::Execute {
            statement,
            portal,
            sql,
            parameters,
        } => execute(statement, portal, sql, parameters).ok(),
        EventKind::Connect { .. }
        | EventKind::Fetch { .. }
        | EventKind::Cancel
        | EventKind::Disconnect => None,
    }
}

fn send(messages: Result<Messages, EncodeError>) -> Action {
    match messages {
        Ok(messages) => Action::Send(messages),
        Err(error) => Action::Refuse(NOT_ENCODABLE, error.to_string()),
    }
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

fn prepare(statement: &str, sql: &str) -> Result<Messages, EncodeError> {
    let mut messages = begin(statement, sql)?;
    // Drivers that prepare ask what the parameters and rows are.
    Describe {
        target: Of::Statement(statement.as_bytes()),
    }
    .encode(&mut messages.bytes)?;
    Sync.encode(&mut messages.bytes);
    Ok(messages)
}

fn execute(
    statement: &str,
    portal: &str,
    sql: &str,
    parameters: &[Option<Box<str>>],
) -> Result<Messages, EncodeError> {
    let mut messages = begin(statement, sql)?;
    let out = &mut messages.bytes;
    bind::encode(
        portal.as_bytes(),
        statement.as_bytes(),
        std::iter::empty::<Format>(),
        parameters
            .iter()
            .map(|value| value.as_ref().map(|text| text.as_bytes())),
        std::iter::empty::<Format>(),
        out,
    )?;
    Describe {
        target: Of::Portal(portal.as_bytes()),
    }
    .encode(out)?;
    Execute {
        portal: portal.as_bytes(),
        rows_max: 0,
    }
    .encode(out)?;
    Sync.encode(out);
    Ok(messages)
}

/// Close and Parse. The unnamed statement needs no Close, and is parsed each time.
fn begin(statement: &str, sql: &str) -> Result<Messages, EncodeError> {
    let mut messages = Messages {
        extended: true,
        ..Messages::default()
    };
    let out = &mut messages.bytes;
    if !statement.is_empty() {
        Close {
            target: Of::Statement(statement.as_bytes()),
        }
        .encode(out)?;
        messages.close_bytes = out.len() as u32;
        messages.named = Some(NamedStatement {
            name: hash(statement),
            sql: hash(sql),
        });
    }
    parse::encode(
        statement.as_bytes(),
        sql.as_bytes(),
        std::iter::empty(),
        out,
    )?;
    messages.parse_bytes = out.len() as u32 - messages.close_bytes;
    Ok(messages)
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
