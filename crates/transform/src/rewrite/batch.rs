//! Merges single-row inserts into multi-row inserts or COPYs, as an ingester with buffers does.
//!
//! Rows of one shape wait for each other. If each insert is its own transaction, rows of all
//! sessions of one database and user with the same settings are merged; within a transaction block
//! only those of the block. A batch is sent when it is full, when its first row has waited for the
//! maximum time, or when a session with rows in it does anything other than insert: so no session
//! reads less of its own data than it wrote. It is sent by a session that has a row in it: that of
//! the last row, or the one that continues. Rows of different tables may change order, as in an
//! ingester that has one buffer for each.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::insert::{Reason, SingleRowInsert, renumber_parameters, split_insert};
use super::inserts_to_copy;
use super::inserts_to_copy::Parameters;
use super::session_context::SessionContexts;
use workload::{Boundary, CopyIn, Event, EventKind, Outcome, RewriteAccount, WireDetails};

/// Maximum number of parameters of a statement (16 bits in the protocol).
const PARAMETERS_MAX: usize = 65_535;

/// Key of rows that can be merged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct InsertShape {
    context: u64,
    /// Set if only this session can send it.
    session: Option<u64>,
    /// The text with parameters; for a simple query the text around its row.
    text: Arc<str>,
    is_simple: bool,
}

#[derive(Debug)]
struct Batch {
    shape: InsertShape,
    first_due_us: i64,
    rows: Vec<Event>,
}

/// Waiting batches; see the module documentation.
#[derive(Debug)]
pub(super) struct Batches {
    rows_max: usize,
    window_us: i64,
    /// Whether batches become COPYs.
    copies: bool,
    contexts: SessionContexts,
    /// Batches by their start.
    waiting: BTreeMap<u64, Batch>,
    by_shape: HashMap<InsertShape, u64>,
    /// Batches with rows of a session.
    by_session: HashMap<u64, Vec<u64>>,
    begun: u64,
    /// Due time of the last event.
    now_us: i64,
}

type Emit<'g, E> = &'g mut dyn FnMut(Event) -> Result<(), E>;

impl Batches {
    pub(super) fn new(rows: u32, window: Duration, copies: bool) -> Self {
        Batches {
            rows_max: rows as usize,
            window_us: i64::try_from(window.as_micros()).unwrap_or(i64::MAX),
            copies,
            contexts: SessionContexts::default(),
            waiting: BTreeMap::new(),
            by_shape: HashMap::new(),
            by_session: HashMap::new(),
            begun: 0,
            now_us: 0,
        }
    }

    pub(super) fn handle_event<E>(
        &mut self,
        event: Event,
        account: &mut RewriteAccount,
        give: Emit<'_, E>,
    ) -> Result<(), E> {
        self.now_us = self.now_us.max(event.due_us);
        self.send_expired(event.due_us, account, give)?;
        let (session, due_us) = (event.session, event.due_us);
        match self.shape_of(&event) {
            Some(Ok(shape)) => {
                if shape.session.is_some() {
                    // Within a block the order of tables matters.
                    let others = self.batches_of(session);
                    let same = self.by_shape.get(&shape).copied();
                    for number in others {
                        if Some(number) != same {
                            self.send(number, session, due_us, account, give)?;
                        }
                    }
                }
                self.add_row(event, shape, account, give)
            }
            other => {
                if let Some(Err(why)) = other {
                    *account.left_alone.entry(why.to_owned()).or_default() += 1;
                }
                for number in self.batches_of(session) {
                    self.send(number, session, due_us, account, give)?;
                }
                self.contexts.follow(&event);
                account.unchanged += u64::from(event.kind.is_statement());
                give(event)
            }
        }
    }

    pub(super) fn finish<E>(
        &mut self,
        account: &mut RewriteAccount,
        give: Emit<'_, E>,
    ) -> Result<(), E> {
        while let Some((&number, batch)) = self.waiting.first_key_value() {
            let session = batch.last_session();
            self.send(number, session, self.now_us, account, give)?;
        }
        Ok(())
    }

    /// Lists the batches with rows of a session, the oldest first.
    fn batches_of(&self, session: u64) -> Vec<u64> {
        let mut numbers = self.by_session.get(&session).cloned().unwrap_or_default();
        numbers.sort_unstable();
        numbers
    }

    /// Returns the shape of an insert; `None` if the event is no insert.
    fn shape_of(&self, event: &Event) -> Option<Result<InsertShape, Reason>> {
        let (sql, is_simple) = match &event.kind {
            EventKind::Simple { sql } => (sql, true),
            EventKind::Execute { sql, .. } => (sql, false),
            _ => return None,
        };
        let row = match split_insert(sql)? {
            Ok(row) => row,
            Err(why) => return Some(Err(why)),
        };
        let usual = |one: &Arc<WireDetails>| {
            one.awaited && one.boundary == Boundary::Sync && one.copy.is_none()
        };
        if event.prelude {
            return Some(Err("what a slice kept from before"));
        }
        if event.unreplayable.is_some() {
            return Some(Err("it cannot be replayed"));
        }
        if event.outcome.sqlstate.is_some() {
            return Some(Err("it failed in the capture"));
        }
        if !event.wire_details.as_ref().is_none_or(usual) {
            return Some(Err("part of a pipeline"));
        }
        if let EventKind::Execute { parameters, .. } = &event.kind
            && parameters.len() * 2 > PARAMETERS_MAX
        {
            return Some(Err("too many parameters"));
        }
        let copy = self
            .copies
            .then(|| build_copy(event, &row, &mut Vec::new()));
        let (text, is_simple) = match copy {
            // For a COPY, rows with and without parameters are the same.
            Some(Ok(copy)) => (normalise(&copy).into(), true),
            Some(Err(why)) => return Some(Err(why)),
            None if is_simple => (
                format!("{} … {}", normalise(row.head), normalise(row.tail)).into(),
                true,
            ),
            None => (sql.clone(), false),
        };
        let context = self.contexts.get(event.session);
        Some(Ok(InsertShape {
            context: context.hash,
            session: context.is_exclusive().then_some(event.session),
            text,
            is_simple,
        }))
    }

    fn add_row<E>(
        &mut self,
        event: Event,
        shape: InsertShape,
        account: &mut RewriteAccount,
        give: Emit<'_, E>,
    ) -> Result<(), E> {
        let (session, due_us) = (event.session, event.due_us);
        let number = match self.by_shape.get(&shape) {
            Some(&number) => number,
            None => {
                self.begun += 1;
                self.by_shape.insert(shape.clone(), self.begun);
                let batch = Batch {
                    shape,
                    first_due_us: due_us,
                    rows: Vec::new(),
                };
                self.waiting.insert(self.begun, batch);
                self.begun
            }
        };
        let numbers = self.by_session.entry(session).or_default();
        if !numbers.contains(&number) {
            numbers.push(number);
        }
        let batch = self.waiting.get_mut(&number).expect("it waits");
        let width = match &event.kind {
            EventKind::Execute { parameters, .. } if !self.copies => parameters.len(),
            _ => 0,
        };
        batch.rows.push(event);
        let rows = batch.rows.len();
        if rows >= self.rows_max || (rows + 1) * width > PARAMETERS_MAX {
            self.send(number, session, due_us, account, give)?;
        }
        Ok(())
    }

    /// Sends the batches that have waited for the maximum time.
    fn send_expired<E>(
        &mut self,
        now_us: i64,
        account: &mut RewriteAccount,
        give: Emit<'_, E>,
    ) -> Result<(), E> {
        while let Some((&number, batch)) = self.waiting.first_key_value() {
            let until_us = batch.first_due_us.saturating_add(self.window_us);
            if until_us > now_us {
                break;
            }
            let session = batch.last_session();
            self.send(number, session, until_us, account, give)?;
        }
        Ok(())
    }

    fn send<E>(
        &mut self,
        number: u64,
        session: u64,
        due_us: i64,
        account: &mut RewriteAccount,
        give: Emit<'_, E>,
    ) -> Result<(), E> {
        let Some(batch) = self.waiting.remove(&number) else {
            return Ok(());
        };
        self.by_shape.remove(&batch.shape);
        for row in &batch.rows {
            if let Some(numbers) = self.by_session.get_mut(&row.session) {
                numbers.retain(|other| *other != number);
                if numbers.is_empty() {
                    self.by_session.remove(&row.session);
                }
            }
        }
        let mut rows = batch.rows;
        if let [_] = rows.as_slice() {
            // Unchanged except for its time, since it waited as well.
            account.unchanged += 1;
            let row = rows.remove(0);
            return give(Event { due_us, ..row });
        }
        account.merged += rows.len() as u64;
        account.batches += 1;
        let made = match self.copies {
            true => merge_into_copy(&rows),
            false => merge_rows(&rows),
        };
        let count = rows.len() as u64;
        let first = rows.swap_remove(0);
        give(Event {
            session,
            due_us,
            kind: made.0,
            outcome: Outcome {
                rows: first.outcome.rows.map(|_| count),
                ..Outcome::default()
            },
            wire_details: made.1,
            ..first
        })
    }
}

impl Batch {
    /// Returns the session of its last row.
    fn last_session(&self) -> u64 {
        self.rows.last().map_or(0, |row| row.session)
    }
}

/// Normalises blanks and case, for comparison only.
fn normalise(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// The statement to send, and its wire details.
type MergedStatement = (EventKind, Option<Arc<WireDetails>>);

/// Builds one insert of all rows.
fn merge_rows(rows: &[Event]) -> MergedStatement {
    let mut out = String::new();
    let mut values = Vec::new();
    let mut width = 0;
    let mut tail = "";
    for (at, row) in rows.iter().enumerate() {
        let cut = split_row(row);
        if at == 0 {
            out.push_str(cut.head);
            tail = cut.tail;
        }
        out.push_str(if at == 0 { " " } else { ", " });
        match &row.kind {
            EventKind::Execute { parameters, .. } => {
                width = parameters.len();
                out.push_str(&renumber_parameters(cut.row, values.len()));
                values.extend(parameters.iter().cloned());
            }
            _ => out.push_str(cut.row),
        }
    }
    if !tail.is_empty() {
        out.push(' ');
        out.push_str(tail);
    }
    let count = rows.len();
    let sql: Arc<str> = out.into();
    let kind = match &rows[0].kind {
        EventKind::Execute {
            statement, portal, ..
        } => EventKind::Execute {
            // Batches of different lengths are different statements.
            statement: match statement.is_empty() {
                true => statement.clone(),
                false => format!("{statement}_x{count}").into(),
            },
            portal: portal.clone(),
            sql,
            parameters: values,
        },
        _ => EventKind::Simple { sql },
    };
    let types = rows[0].wire_details.as_ref().map(|one| {
        let mut types = one.parameter_types.clone();
        if !types.is_empty() {
            types.resize(width, 0);
            types = types.repeat(count);
        }
        Arc::new(WireDetails {
            parameter_types: types,
            ..WireDetails::default()
        })
    });
    (kind, types)
}

/// Builds one COPY of all rows.
fn merge_into_copy(rows: &[Event]) -> MergedStatement {
    let mut data = Vec::new();
    let mut sql = String::new();
    for row in rows {
        sql = build_copy(row, &split_row(row), &mut data).expect("only what can be copied waits");
    }
    let particulars = WireDetails {
        copy: Some(CopyIn {
            data: data.into(),
            failed: None,
        }),
        ..WireDetails::default()
    };
    let kind = EventKind::Simple { sql: sql.into() };
    (kind, Some(Arc::new(particulars)))
}

/// Splits a waiting insert at its row.
fn split_row(row: &Event) -> SingleRowInsert<'_> {
    let sql = row.kind.sql().expect("an insert has a text");
    match split_insert(sql) {
        Some(Ok(cut)) => cut,
        _ => unreachable!("only what was cut waits"),
    }
}

/// Builds the COPY for an insert, whose row is appended to the data.
fn build_copy(
    event: &Event,
    cut: &SingleRowInsert<'_>,
    data: &mut Vec<u8>,
) -> Result<String, Reason> {
    let (sql, columns) = inserts_to_copy::build_copy(cut)?;
    let given = event.wire_details.as_ref();
    let parameters = match &event.kind {
        EventKind::Execute { parameters, .. } => Parameters {
            values: parameters,
            types: given.map_or(&[], |one| &one.parameter_types),
        },
        _ => Parameters::default(),
    };
    inserts_to_copy::append_row(cut.row, columns, parameters, data)?;
    Ok(sql)
}
