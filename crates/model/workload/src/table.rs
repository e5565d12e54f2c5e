//! Columns of the tables, and functions that write and read one row of each.

use std::collections::HashMap;
use std::sync::Arc;

use archive::{ArchiveError, Batch, Column, ColumnType, FileEntry, TableWriter};

use crate::event::{Event, EventKind, Outcome, Sqlstate, Unreplayable};
use crate::event_ref::{EventRef, KindRef, Parameters};
use crate::parameter::{Parameter, ParameterRef};
use crate::session::Session;
use crate::wire_details::{
    Boundary, CopyIn, FirstRows, MessageSet, ResultFormat, Setting, WireDetails,
};
use sql::{ContextId, Fingerprint, StatementClass};

use ColumnType::{Bool, Bytes, BytesList, I64, Text, TextList, U32, U32List, U64};

/// Columns of `events`. Those after the first [`LOG_COLUMNS`] are only in files in which an event has details
/// that a log does not know.
pub(crate) const EVENT: &[Column] = &[
    Column::required("session", U64),
    Column::required("sequence", U64),
    Column::required("due_us", I64),
    Column::required("kind", Text).low_cardinality(),
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
    Column::nullable("fingerprint", U64).low_cardinality(),
    Column::required("source", U32),
    Column::required("line", U64),
    // Since format 2.
    Column::later("prelude", Bool),
    // Since format 5.
    Column::later("context", U64).low_cardinality(),
    // Since format 3.
    Column::later("parameters_binary", BytesList),
    Column::later("parameter_types", U32List),
    Column::later("result_formats", U32List),
    Column::later("rows_max", U32),
    Column::later("copy_data", Bytes),
    Column::later("copy_failed", Text),
    Column::later("awaited", Bool),
    Column::later("boundary", Text).low_cardinality(),
    Column::later("result_columns", TextList),
    Column::later("result_values", TextList),
    Column::later("result_values_binary", BytesList),
    Column::later("result_digest", U64),
    Column::later("settings", TextList),
    // Since format 4.
    Column::later("parsed", Bool),
    Column::later("messages", Text).low_cardinality(),
];

/// Number of columns of a file of `events` without wire details.
const LOG_COLUMNS: usize = 21;

/// Index of the first column of [`WireDetails`].
const WIRE_DETAILS_FROM: usize = LOG_COLUMNS + 1;

/// Returns the columns for files of `events` with or without wire details.
pub(crate) fn event_columns(from_wire: bool) -> &'static [Column] {
    match from_wire {
        true => EVENT,
        false => &EVENT[..LOG_COLUMNS],
    }
}

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

/// Identities of what an event has in common with others.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EventIds {
    /// Fingerprint of its statement, if it has SQL.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Context of its statement, if a comment names one.
    pub(crate) context: Option<ContextId>,
}

/// A table of events that is being written.
pub(crate) struct EventTable {
    table: TableWriter,
    /// Details of the last row: most rows have the same as the one before.
    particulars: Option<Arc<WireDetails>>,
}

impl EventTable {
    /// Creates a writer for this table, whose columns are [`event_columns`].
    pub(crate) fn new(table: TableWriter) -> Self {
        EventTable {
            table,
            particulars: None,
        }
    }

    /// Flushes as [`TableWriter::flush`] does; returns whether a file was completed.
    pub(crate) fn flush(&mut self) -> Result<bool, ArchiveError> {
        self.table.flush()
    }

    /// Finishes as [`TableWriter::finish`] does.
    pub(crate) fn finish(self) -> Result<Vec<FileEntry>, ArchiveError> {
        self.table.finish()
    }

    pub(crate) fn write(
        &mut self,
        event: &EventRef<'_>,
        due_us: i64,
        ids: EventIds,
    ) -> Result<(), ArchiveError> {
        let table = &mut self.table;
        table.u64(event.session);
        table.u64(event.sequence);
        table.i64(due_us);
        table.name(event.kind.name());
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
            KindRef::FunctionCall {
                function,
                parameters,
                ..
            } => (Some(function), None, Some(parameters)),
            _ => (None, None, None),
        };
        table.text(statement);
        table.text(portal);
        table.text(event.kind.sql());
        table.text_list(parameters.map(|values| texts(values.iter())));
        table.u64(event.outcome.duration_us);
        table.u64(event.outcome.rows);
        table.u64(event.outcome.bytes);
        table.text(event.outcome.sqlstate.as_ref().map(Sqlstate::as_str));
        table.name(event.unreplayable.map(Unreplayable::name));
        table.u64(ids.fingerprint.map(|fingerprint| fingerprint.0));
        table.u32(event.source);
        table.u64(event.line);
        table.bool(event.prelude);
        table.u64(ids.context.map(|context| context.0));
        if table.columns().len() > LOG_COLUMNS {
            let binary = parameters.filter(Parameters::has_binary);
            table.bytes_list(binary.map(|values| binaries(values.iter())));
            let is_last = match (event.wire_details, &self.particulars) {
                (Some(details), Some(last)) => Arc::ptr_eq(details, last),
                (None, None) => true,
                _ => false,
            };
            if !(is_last && table.same_as_before(EVENT.len() - WIRE_DETAILS_FROM)) {
                write_wire_details(table, event.wire_details.map(|details| &**details));
                if !is_last {
                    self.particulars = event.wire_details.cloned();
                }
            }
        }
        table.end_row()
    }
}

fn texts<'a>(
    values: impl Iterator<Item = Option<ParameterRef<'a>>>,
) -> impl Iterator<Item = Option<&'a str>> {
    values.map(|value| value.and_then(ParameterRef::text))
}

fn binaries<'a>(
    values: impl Iterator<Item = Option<ParameterRef<'a>>>,
) -> impl Iterator<Item = Option<&'a [u8]>> {
    values.map(|value| value.and_then(ParameterRef::binary))
}

/// Writes the columns from [`WIRE_DETAILS_FROM`] on.
fn write_wire_details(table: &mut TableWriter, particulars: Option<&WireDetails>) {
    table.u32_list(
        particulars
            .map(|details| &details.parameter_types)
            .filter(|types| !types.is_empty())
            .map(|types| types.iter().copied()),
    );
    let formats = particulars.map(|details| {
        let number = |format: &ResultFormat| u32::from(*format == ResultFormat::Binary);
        details.result_formats.iter().map(number)
    });
    table.u32_list(formats.filter(|formats| formats.len() > 0));
    table.u32(particulars.and_then(|details| details.rows_max));
    let copy = particulars.and_then(|details| details.copy.as_ref());
    table.bytes(copy.map(|copy| &*copy.data));
    table.text(copy.and_then(|copy| copy.failed.as_deref()));
    // Distinguishes default details from no details.
    table.bool(particulars.map(|details| details.awaited));
    table.name(particulars.map(|details| details.boundary.name()));
    let row = particulars.and_then(|details| details.first_rows.as_ref());
    table.text_list(row.map(|row| row.columns.iter().map(|name| Some(&**name))));
    let values = row.map(|row| Parameters::Values(&row.values));
    table.text_list(values.map(|values| texts(values.iter())));
    let binary = values.filter(Parameters::has_binary);
    table.bytes_list(binary.map(|values| binaries(values.iter())));
    table.u64(particulars.and_then(|details| details.result_digest));
    // Names and values alternate.
    let settings = particulars.map(|details| &details.settings);
    table.text_list(
        settings
            .filter(|settings| !settings.is_empty())
            .map(|settings| {
                let pairs = settings.iter();
                pairs.flat_map(|(name, value)| [Some(&**name), Some(&**value)])
            }),
    );
    table.bool(particulars.map(|details| details.parsed));
    table.name(particulars.map(|details| details.messages.name()));
}

/// Reads the wire details in a row of [`EVENT`]. An error describes what is wrong.
fn read_wire_details(batch: &Batch, row: usize) -> Result<Option<WireDetails>, String> {
    let Some(awaited) = batch.bool(27, row) else {
        return Ok(None);
    };
    let boundary = batch.text(28, row).unwrap_or_default();
    let formats = batch.u32_list(23, row).unwrap_or_default();
    let format = |number: u32| match number {
        0 => Ok(ResultFormat::Text),
        1 => Ok(ResultFormat::Binary),
        other => Err(format!("{other} is no format of a result")),
    };
    // A workload of format 3 lacks the last two columns.
    let messages = batch.text(35, row).unwrap_or(MessageSet::Complete.name());
    Ok(Some(WireDetails {
        parameter_types: batch.u32_list(22, row).unwrap_or_default(),
        parsed: batch.bool(34, row).unwrap_or_default(),
        messages: MessageSet::from_name(messages)
            .ok_or_else(|| format!("an event of unknown messages '{messages}'"))?,
        result_formats: formats.into_iter().map(format).collect::<Result<_, _>>()?,
        rows_max: batch.u32(24, row),
        copy: batch.bytes(25, row).map(|data| CopyIn {
            data: data.into(),
            failed: batch.text(26, row).map(Into::into),
        }),
        awaited,
        boundary: Boundary::from_name(boundary)
            .ok_or_else(|| format!("a group of messages ends in unknown '{boundary}'"))?,
        first_rows: batch
            .text_list::<Box<str>>(29, row)
            .map(|columns| FirstRows {
                columns: columns.into_iter().flatten().collect(),
                values: values(batch, row, 30, 31),
            }),
        result_digest: batch.u64(32, row),
        settings: settings(batch.text_list(33, row).unwrap_or_default())?,
    }))
}

/// Pairs names and values that alternate.
fn settings(texts: Vec<Option<Box<str>>>) -> Result<Vec<Setting>, String> {
    let mut texts = texts.into_iter().flatten();
    let mut settings = Vec::new();
    while let Some(name) = texts.next() {
        let value = texts.next();
        let value = value.ok_or_else(|| format!("the setting '{name}' has no value"))?;
        settings.push((name, value));
    }
    Ok(settings)
}

/// Reads values, of which those in binary form are in a separate column.
fn values(batch: &Batch, row: usize, text: usize, binary: usize) -> Vec<Option<Parameter>> {
    let mut values: Vec<Option<Parameter>> = batch.text_list(text, row).unwrap_or_default();
    for (value, bytes) in values
        .iter_mut()
        .zip(batch.bytes_list(binary, row).unwrap_or_default())
    {
        if let Some(bytes) = bytes {
            *value = Some(Parameter::Binary(bytes));
        }
    }
    values
}

/// Converts rows to events. The executions of one statement share one text, as they did when they were
/// captured, while the text is in a cache of a few thousand.
#[derive(Default)]
pub(crate) struct EventRows {
    texts: HashMap<Box<str>, Arc<str>>,
    texts_bytes: usize,
    empty: Arc<str>,
    last_details: Option<Arc<WireDetails>>,
}

/// Size of the cache of shared texts, in bytes, at which it is cleared.
const SHARED_TEXTS_BYTES_MAX: usize = 4 << 20;

impl EventRows {
    fn share(&mut self, text: &str) -> Arc<str> {
        // An unnamed statement is not worth a lookup.
        if text.is_empty() {
            return self.empty.clone();
        }
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

    /// Reuses the details of the last row if they are equal. Repeated executions of a statement have equal
    /// details.
    fn wire_details(
        &mut self,
        batch: &Batch,
        row: usize,
    ) -> Result<Option<Arc<WireDetails>>, String> {
        let Some(read) = read_wire_details(batch, row)? else {
            return Ok(None);
        };
        match &self.last_details {
            Some(last) if **last == read => {}
            _ => self.last_details = Some(Arc::new(read)),
        }
        Ok(self.last_details.clone())
    }

    /// Reads the event in a row of [`EVENT`]. An error describes what is wrong.
    pub(crate) fn read(&mut self, batch: &Batch, row: usize) -> Result<(Event, EventIds), String> {
        let kind_name = batch.text(3, row).unwrap_or_default();
        let shared = |rows: &mut Self, column| rows.share(batch.text(column, row).unwrap_or(""));
        let kind = match kind_name {
            "connect" => EventKind::Connect {
                database: shared(self, 4),
                user: shared(self, 5),
                application: shared(self, 6),
            },
            // Nearly every simple statement has another text, so a lookup is not worthwhile.
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
                parameters: values(batch, row, 10, 21),
            },
            "fetch" => EventKind::Fetch {
                statement: shared(self, 7),
                portal: shared(self, 8),
                sql: shared(self, 9),
            },
            "function_call" => EventKind::FunctionCall {
                function: shared(self, 7),
                sql: shared(self, 9),
                parameters: values(batch, row, 10, 21),
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
            wire_details: self.wire_details(batch, row)?,
        };
        let ids = EventIds {
            fingerprint: batch.u64(16, row).map(Fingerprint),
            context: batch.u64(20, row).map(ContextId),
        };
        Ok((event, ids))
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

/// A fingerprint with its normalised SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementText {
    /// The fingerprint.
    pub fingerprint: Fingerprint,
    /// Normalised SQL, without literals.
    pub sql: String,
    /// Class of the statement.
    pub class: StatementClass,
}

impl StatementText {
    /// Columns of a `statements` table, which runs have too.
    pub const COLUMNS: &'static [Column] = STATEMENT;

    /// Writes a row of [`Self::COLUMNS`].
    ///
    /// # Errors
    /// If the file cannot be written.
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
