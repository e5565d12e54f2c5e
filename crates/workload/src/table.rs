//! The tables' columns, and one row of each, written and read side by side.

use std::collections::HashMap;
use std::sync::Arc;

use archive::{ArchiveError, Batch, Column, ColumnType, TableWriter};

use crate::event::{Event, EventKind, Outcome, Sqlstate, Unreplayable};
use crate::event_ref::{EventRef, KindRef};
use crate::fingerprint::{Fingerprint, StatementClass};
use crate::session::Session;

use ColumnType::{Bool, I64, Text, TextList, U32, U64};

/// Columns of `events`.
pub(crate) const EVENT: &[Column] = &[
    Column::required("session", U64),
    Column::required("sequence", U64),
    Column::required("due_us", I64),
    Column::required("kind", Text),
    Column::nullable("database", Text),
    Column::nullable("user", Text),
    Column::nullable("application", Text),
    Column::nullable("statement", Text),
    Column::nullable("portal", Text),
    Column::nullable("sql", Text),
    Column::nullable("parameters", TextList),
    Column::nullable("captured_duration_us", U64),
    Column::nullable("captured_rows", U64),
    Column::nullable("captured_bytes", U64),
    Column::nullable("captured_sqlstate", Text),
    Column::nullable("unreplayable", Text),
    Column::nullable("fingerprint", U64).repeating(),
    Column::required("source", U32),
    Column::required("line", U64),
    // Since format 2.
    Column::later("prelude", Bool),
];

/// Columns of `sessions`.
pub(crate) const SESSION: &[Column] = &[
    Column::required("id", U64),
    Column::required("database", Text),
    Column::required("user", Text),
    Column::required("application", Text),
    Column::required("client", Text),
    Column::required("start_us", I64),
    Column::required("end_us", I64),
    Column::required("start_seen", Bool),
    Column::required("end_seen", Bool),
    Column::required("statements", U64),
];

/// Columns of `statements`.
pub(crate) const STATEMENT: &[Column] = &[
    Column::required("fingerprint", U64),
    Column::required("class", Text),
    Column::required("sql", Text),
];

pub(crate) fn write_event(
    table: &mut TableWriter,
    event: &EventRef<'_>,
    due_us: i64,
    fingerprint: Option<Fingerprint>,
) -> Result<(), ArchiveError> {
    table.u64(event.session);
    table.u64(event.sequence);
    table.i64(due_us);
    table.text(event.kind.name());
    let (database, user, application) = match event.kind {
        KindRef::Connect {
            database,
            user,
            application,
        } => (Some(database), Some(user), Some(application)),
        _ => (None, None, None),
    };
    table.text(database);
    table.text(user);
    table.text(application);
    let (statement, portal, parameters) = match event.kind {
        KindRef::Prepare { statement, .. } => (Some(statement), None, None),
        KindRef::Execute {
            statement,
            portal,
            parameters,
            ..
        } => (Some(statement), Some(portal), Some(parameters)),
        KindRef::Fetch {
            statement, portal, ..
        } => (Some(statement), Some(portal), None),
        _ => (None, None, None),
    };
    table.text(statement);
    table.text(portal);
    table.text(event.kind.sql());
    table.text_list(parameters.map(|values| values.iter()));
    table.u64(event.outcome.duration_us);
    table.u64(event.outcome.rows);
    table.u64(event.outcome.bytes);
    table.text(event.outcome.sqlstate.as_ref().map(Sqlstate::as_str));
    table.text(event.unreplayable.map(Unreplayable::name));
    table.u64(fingerprint.map(|fingerprint| fingerprint.0));
    table.u32(event.source);
    table.u64(event.line);
    table.bool(event.prelude);
    table.end_row()
}

/// Makes events of rows. The executions of one statement share one text, as they did when they
/// were captured, as long as it is among the last few thousand.
#[derive(Default)]
pub(crate) struct EventRows {
    texts: HashMap<Box<str>, Arc<str>>,
    texts_bytes: usize,
}

/// Shared texts are let go when they have grown to this.
const SHARED_TEXTS_BYTES_MAX: usize = 4 << 20;

impl EventRows {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(shared) = self.texts.get(text) {
            return shared.clone();
        }
        if self.texts_bytes + text.len() > SHARED_TEXTS_BYTES_MAX {
            self.texts.clear();
            self.texts_bytes = 0;
        }
        let shared: Arc<str> = Arc::from(text);
        if text.len() <= SHARED_TEXTS_BYTES_MAX / 16 {
            self.texts_bytes += 2 * text.len() + 64;
            self.texts.insert(Box::from(text), shared.clone());
        }
        shared
    }

    /// The event in a row of [`EVENT`]; an error says what is wrong with it.
    pub(crate) fn read(
        &mut self,
        batch: &Batch,
        row: usize,
    ) -> Result<(Event, Option<Fingerprint>), String> {
        let kind_name = batch.text(3, row).unwrap_or_default();
        let shared = |rows: &mut Self, column| rows.share(batch.text(column, row).unwrap_or(""));
        let kind = match kind_name {
            "connect" => EventKind::Connect {
                database: shared(self, 4),
                user: shared(self, 5),
                application: shared(self, 6),
            },
            // Nearly every simple statement is another text: not worth looking for.
            "simple" => EventKind::Simple {
                sql: Arc::from(batch.text(9, row).unwrap_or("")),
            },
            "prepare" => EventKind::Prepare {
                statement: shared(self, 7),
                sql: shared(self, 9),
            },
            "execute" => EventKind::Execute {
                statement: shared(self, 7),
                portal: shared(self, 8),
                sql: shared(self, 9),
                parameters: batch.text_list(10, row).unwrap_or_default(),
            },
            "fetch" => EventKind::Fetch {
                statement: shared(self, 7),
                portal: shared(self, 8),
                sql: shared(self, 9),
            },
            "cancel" => EventKind::Cancel,
            "disconnect" => EventKind::Disconnect,
            other => return Err(format!("an event of unknown kind '{other}'")),
        };
        let sqlstate = match batch.text(14, row) {
            None => None,
            Some(text) => {
                Some(Sqlstate::parse(text).ok_or_else(|| format!("'{text}' is no SQLSTATE"))?)
            }
        };
        let unreplayable =
            match batch.text(15, row) {
                None => None,
                Some(name) => Some(Unreplayable::from_name(name).ok_or_else(|| {
                    format!("an event is unreplayable for unknown reason '{name}'")
                })?),
            };
        let event = Event {
            session: batch.u64(0, row).unwrap_or_default(),
            sequence: batch.u64(1, row).unwrap_or_default(),
            due_us: batch.i64(2, row).unwrap_or_default(),
            kind,
            outcome: Outcome {
                duration_us: batch.u64(11, row),
                rows: batch.u64(12, row),
                bytes: batch.u64(13, row),
                sqlstate,
            },
            unreplayable,
            source: batch.u32(17, row).unwrap_or_default(),
            line: batch.u64(18, row).unwrap_or_default(),
            prelude: batch.bool(19, row).unwrap_or_default(),
        };
        Ok((event, batch.u64(16, row).map(Fingerprint)))
    }
}

pub(crate) fn write_session(
    table: &mut TableWriter,
    session: &Session,
    shift_us: i64,
) -> Result<(), ArchiveError> {
    table.u64(session.id);
    table.text(&*session.database);
    table.text(&*session.user);
    table.text(&*session.application);
    table.text(&*session.client);
    table.i64(session.start_us - shift_us);
    table.i64(session.end_us - shift_us);
    table.bool(session.start_seen);
    table.bool(session.end_seen);
    table.u64(session.statements);
    table.end_row()
}

pub(crate) fn read_session(batch: &Batch, row: usize) -> Session {
    let text = |column| Arc::from(batch.text(column, row).unwrap_or(""));
    Session {
        id: batch.u64(0, row).unwrap_or_default(),
        database: text(1),
        user: text(2),
        application: text(3),
        client: text(4),
        start_us: batch.i64(5, row).unwrap_or_default(),
        end_us: batch.i64(6, row).unwrap_or_default(),
        start_seen: batch.bool(7, row).unwrap_or_default(),
        end_seen: batch.bool(8, row).unwrap_or_default(),
        statements: batch.u64(9, row).unwrap_or_default(),
    }
}

/// A fingerprint with what it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementText {
    /// The fingerprint.
    pub fingerprint: Fingerprint,
    /// The normalised SQL: no literal is in it.
    pub sql: String,
    /// What sort of statement.
    pub class: StatementClass,
}

impl StatementText {
    /// The columns of a `statements` table, which runs have too.
    pub const COLUMNS: &'static [Column] = STATEMENT;

    /// Writes a row of [`Self::COLUMNS`].
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn write(&self, table: &mut TableWriter) -> Result<(), ArchiveError> {
        table.u64(self.fingerprint.0);
        table.text(self.class.name());
        table.text(self.sql.as_str());
        table.end_row()
    }

    /// Reads a row of [`Self::COLUMNS`].
    pub fn read(batch: &Batch, row: usize) -> StatementText {
        StatementText {
            fingerprint: Fingerprint(batch.u64(0, row).unwrap_or_default()),
            class: batch
                .text(1, row)
                .and_then(StatementClass::from_name)
                .unwrap_or(StatementClass::Other),
            sql: batch.text(2, row).unwrap_or_default().to_owned(),
        }
    }
}
