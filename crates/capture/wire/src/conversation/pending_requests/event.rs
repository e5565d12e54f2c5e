//! Future events: what a client asked for, and what is known of the answer so far.

use std::rc::Rc;

use workload::{
    Boundary, FirstRows, MessageSet, PackedParameters, Parameter, ResultFormat, Sqlstate,
    Unreplayable,
};

use super::{KeptRows, Statement};

/// Request of a future event.
#[derive(Debug)]
pub(in super::super) enum Request {
    Simple {
        sql: String,
    },
    Prepare {
        statement: Rc<Statement>,
    },
    Execute {
        statement: Rc<Statement>,
        portal: Rc<str>,
        parameters: Box<PackedParameters>,
    },
    Fetch {
        /// `None` if the source of the rows is unknown.
        statement: Option<Rc<Statement>>,
        portal: Rc<str>,
    },
    FunctionCall {
        /// OID in decimal.
        function: Box<str>,
        sql: Box<str>,
        parameters: Box<PackedParameters>,
    },
    Cancel,
}

impl Request {
    pub(in super::super) fn sql(&self) -> Option<&str> {
        match self {
            Request::Simple { sql } => Some(sql),
            Request::Prepare { statement } | Request::Execute { statement, .. } => {
                Some(&statement.sql)
            }
            Request::Fetch { statement, .. } => {
                Some(statement.as_ref().map_or("", |statement| &statement.sql))
            }
            Request::FunctionCall { sql, .. } => Some(sql),
            Request::Cancel => None,
        }
    }

    /// The prepared statement that is used.
    pub(in super::super) fn statement(&self) -> Option<&Rc<Statement>> {
        match self {
            Request::Prepare { statement } | Request::Execute { statement, .. } => Some(statement),
            Request::Fetch { statement, .. } => statement.as_ref(),
            Request::Simple { .. } | Request::FunctionCall { .. } | Request::Cancel => None,
        }
    }
}

/// The data of `COPY … FROM STDIN` so far.
#[derive(Debug, Default)]
pub(in super::super) struct CopyData {
    pub(in super::super) data: Vec<u8>,
    pub(in super::super) failed: Option<Box<str>>,
    /// The data is not needed.
    pub(in super::super) unwanted: bool,
    /// The client has sent CopyDone or CopyFail.
    pub(in super::super) ended: bool,
    /// Some of the data is missing.
    pub(in super::super) cut: bool,
}

/// Preparation of an event's named statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Preparation {
    /// By an earlier group of messages, or the statement has no name.
    Earlier,
    /// In the same group.
    SameGroup,
}

/// Relation of a future event to the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum EventRecording {
    /// The recording had not begun when the request was sent.
    Unrecorded,
    /// The recording had begun when the request was sent.
    Recorded,
    /// The event was recorded with its partial result when the recording ended.
    Counted,
}

impl EventRecording {
    pub(in super::super) fn new(is_recorded: bool) -> Self {
        match is_recorded {
            true => EventRecording::Recorded,
            false => EventRecording::Unrecorded,
        }
    }
}

/// Maximum length of a row description, and of all kept rows of a result, in bytes.
pub(in super::super) const READ_BYTES_MAX: usize = 64 << 10;

/// A future event.
#[derive(Debug)]
pub(in super::super) struct PendingEvent {
    pub(in super::super) request: Request,
    pub(in super::super) due_us: i64,
    /// Number of the packet that brought it.
    pub(in super::super) place: u64,
    /// Whether the previous request had been answered.
    pub(in super::super) awaited: bool,
    /// The boundary so far.
    pub(in super::super) boundary: Boundary,
    pub(in super::super) recording: EventRecording,
    /// The event that it is part of: a statement that was executed in the group that prepared it.
    pub(in super::super) merged_into: Option<u64>,
    pub(in super::super) preparation: Preparation,
    pub(in super::super) messages: MessageSet,
    /// The event before it in its group, with its boundary if this one fails. Set for incomplete messages.
    pub(in super::super) follows: Option<(u64, Boundary)>,
    pub(in super::super) unreplayable: Option<Unreplayable>,
    pub(in super::super) result_formats: Option<Rc<[ResultFormat]>>,
    pub(in super::super) rows_max: Option<u32>,
    /// Time at which the server finished it, if it has.
    pub(in super::super) done_us: Option<i64>,
    /// Whether the answer is complete.
    pub(in super::super) answered: bool,
    pub(in super::super) rows: Option<u64>,
    /// Rows since the last command tag.
    pub(in super::super) rows_came: u64,
    pub(in super::super) bytes: u64,
    pub(in super::super) sqlstate: Option<Sqlstate>,
    pub(in super::super) copy: Option<Box<CopyData>>,
    /// Rows that may contain values that the server generated.
    pub(in super::super) kept_rows: KeptRows,
    /// Bytes of the rows that were kept.
    pub(in super::super) kept_bytes: usize,
    pub(in super::super) first_rows: Option<Box<FirstRows>>,
    pub(in super::super) digest: Option<u64>,
}

impl PendingEvent {
    pub(in super::super) fn new(request: Request, due_us: i64, place: u64) -> Self {
        PendingEvent {
            request,
            due_us,
            place,
            awaited: true,
            boundary: Boundary::Nothing,
            recording: EventRecording::Unrecorded,
            merged_into: None,
            preparation: Preparation::Earlier,
            messages: MessageSet::Complete,
            follows: None,
            unreplayable: None,
            result_formats: None,
            rows_max: None,
            done_us: None,
            answered: false,
            rows: None,
            rows_came: 0,
            bytes: 0,
            sqlstate: None,
            copy: None,
            kept_rows: KeptRows::None,
            kept_bytes: 0,
            first_rows: None,
            digest: None,
        }
    }

    pub(super) fn is_statement(&self) -> bool {
        !matches!(self.request, Request::Cancel)
    }

    /// Returns whether it does not become an event: it is part of another one, or has incomplete messages that the
    /// server did not refuse.
    pub(super) fn is_dropped(&self) -> bool {
        self.merged_into.is_some()
            || self.messages != MessageSet::Complete && self.sqlstate.is_none()
    }

    /// Whether the row that begins is kept. Kept rows are the first ones of one result.
    pub(in super::super) fn keeps_row(&self, body_bytes: usize) -> bool {
        let before = self.first_rows.as_ref().map_or(0, |rows| rows.count());
        let is_next = before as u64 + 1 == self.rows_came;
        let is_wanted = match self.kept_rows {
            KeptRows::None => false,
            KeptRows::First => before == 0,
            KeptRows::All => before == 0 || before < KeptRows::COUNT_MAX && self.rows.is_none(),
        };
        is_wanted && is_next && self.kept_bytes + body_bytes <= READ_BYTES_MAX
    }

    /// Keeps a row of `body_bytes` bytes. No further ones are kept if it has no `values`.
    pub(in super::super) fn keep_row(
        &mut self,
        columns: &[Box<str>],
        body_bytes: usize,
        values: Option<Vec<Option<Parameter>>>,
    ) {
        self.kept_bytes += body_bytes;
        match (&mut self.first_rows, values) {
            (Some(rows), Some(values)) => rows.values.extend(values),
            (None, Some(values)) => {
                let columns = columns.to_vec();
                self.first_rows = Some(Box::new(FirstRows { columns, values }));
            }
            (_, None) => self.kept_rows = KeptRows::None,
        }
    }

    /// Adds a portion of rows, at a command tag or a suspended portal.
    pub(in super::super) fn add_rows(&mut self, rows: Option<u64>) {
        self.rows_came = 0;
        if let Some(rows) = rows {
            self.rows = Some(self.rows.unwrap_or(0) + rows);
        }
    }
}
