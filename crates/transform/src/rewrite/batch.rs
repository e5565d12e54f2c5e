//! Single-row inserts into inserts of many rows, or COPYs, as an ingester does that collects them.
//!
//! Rows of one shape wait for each other: of all sessions of one database and user with the same
//! settings, where each insert stands for itself; within a transaction block only those of that
//! block. A batch is sent when it is full, when its first row has waited for as long as it may, or
//! when one of the sessions whose rows it has does anything else than insert: so no session finds
//! less of its own than it wrote. It is sent by a session that has a row in it: the last one, or the one that goes
//! on. Rows of different tables may change places, as with an ingester that has a buffer for each.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::copied;
use super::copied::Parameters;
use super::insert::{OneRow, Why, counted_on, one_row};
use super::session_context::SessionContexts;
use workload::{Boundary, CopyIn, Event, EventKind, Outcome, Particulars, RewriteAccount};

/// Parameters of one statement (a number of 16 bits in the protocol).
const PARAMETERS_MAX: usize = 65_535;

/// Rows that can be put together have the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Shape {
    context: u64,
    /// Where only this session can send it.
    session: Option<u64>,
    /// The text with parameters; of a simple query what stands around its row.
    text: Arc<str>,
    is_simple: bool,
}

#[derive(Debug)]
struct Batch {
    shape: Shape,
    first_due_us: i64,
    rows: Vec<Event>,
}

/// What waits. See the module's text.
#[derive(Debug)]
pub(super) struct Batches {
    rows_max: usize,
    window_us: i64,
    /// As COPYs.
    copies: bool,
    contexts: SessionContexts,
    /// By their beginning.
    waiting: BTreeMap<u64, Batch>,
    by_shape: HashMap<Shape, u64>,
    /// Batches that have rows of a session.
    by_session: HashMap<u64, Vec<u64>>,
    begun: u64,
    /// When the last event was due.
    now_us: i64,
}

type Give<'g, E> = &'g mut dyn FnMut(Event) -> Result<(), E>;

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

    pub(super) fn event<E>(
        &mut self,
        event: Event,
        account: &mut RewriteAccount,
        give: Give<'_, E>,
    ) -> Result<(), E> {
        self.now_us = self.now_us.max(event.due_us);
        self.expire(event.due_us, account, give)?;
        let (session, due_us) = (event.session, event.due_us);
        match self.shape(&event) {
            Some(Ok(shape)) => {
                if shape.session.is_some() {
                    // Within a block the order of tables counts.
                    let others = self.of(session);
                    let same = self.by_shape.get(&shape).copied();
                    for number in others {
                        if Some(number) != same {
                            self.send(number, session, due_us, account, give)?;
                        }
                    }
                }
                self.add(event, shape, account, give)
            }
            other => {
                if let Some(Err(why)) = other {
                    *account.left_alone.entry(why.to_owned()).or_default() += 1;
                }
                for number in self.of(session) {
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
        give: Give<'_, E>,
    ) -> Result<(), E> {
        while let Some((&number, batch)) = self.waiting.first_key_value() {
            let session = batch.last();
            self.send(number, session, self.now_us, account, give)?;
        }
        Ok(())
    }

    /// Batches with rows of a session, the oldest first.
    fn of(&self, session: u64) -> Vec<u64> {
        let mut numbers = self.by_session.get(&session).cloned().unwrap_or_default();
        numbers.sort_unstable();
        numbers
    }

    /// What an insert can be put together by; `None` of what is no insert.
    fn shape(&self, event: &Event) -> Option<Result<Shape, Why>> {
        let (sql, is_simple) = match &event.kind {
            EventKind::Simple { sql } => (sql, true),
            EventKind::Execute { sql, .. } => (sql, false),
            _ => return None,
        };
        let row = match one_row(sql)? {
            Ok(row) => row,
            Err(why) => return Some(Err(why)),
        };
        let usual = |one: &Arc<Particulars>| {
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
        if !event.particulars.as_ref().is_none_or(usual) {
            return Some(Err("part of a pipeline"));
        }
        if let EventKind::Execute { parameters, .. } = &event.kind
            && parameters.len() * 2 > PARAMETERS_MAX
        {
            return Some(Err("too many parameters"));
        }
        let copy = self.copies.then(|| copy_of(event, &row, &mut Vec::new()));
        let (text, is_simple) = match copy {
            // Whether a row came with parameters or without is nothing to a COPY.
            Some(Ok(copy)) => (folded(&copy).into(), true),
            Some(Err(why)) => return Some(Err(why)),
            None if is_simple => (
                format!("{} … {}", folded(row.head), folded(row.tail)).into(),
                true,
            ),
            None => (sql.clone(), false),
        };
        let context = self.contexts.get(event.session);
        Some(Ok(Shape {
            context: context.hash,
            session: context.is_exclusive().then_some(event.session),
            text,
            is_simple,
        }))
    }

    fn add<E>(
        &mut self,
        event: Event,
        shape: Shape,
        account: &mut RewriteAccount,
        give: Give<'_, E>,
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

    /// Sends what has waited for as long as it may.
    fn expire<E>(
        &mut self,
        now_us: i64,
        account: &mut RewriteAccount,
        give: Give<'_, E>,
    ) -> Result<(), E> {
        while let Some((&number, batch)) = self.waiting.first_key_value() {
            let until_us = batch.first_due_us.saturating_add(self.window_us);
            if until_us > now_us {
                break;
            }
            let session = batch.last();
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
        give: Give<'_, E>,
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
            // As it was, but for its time: it waited as well.
            account.unchanged += 1;
            let row = rows.remove(0);
            return give(Event { due_us, ..row });
        }
        account.merged += rows.len() as u64;
        account.batches += 1;
        let made = match self.copies {
            true => as_copy(&rows),
            false => together(&rows),
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
            particulars: made.1,
            ..first
        })
    }
}

impl Batch {
    /// The session of its last row.
    fn last(&self) -> u64 {
        self.rows.last().map_or(0, |row| row.session)
    }
}

/// With single blanks and in lower case: only to compare by.
fn folded(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

/// What is sent, and what only a capture from the wire would know of it.
type Made = (EventKind, Option<Arc<Particulars>>);

/// One insert of all rows.
fn together(rows: &[Event]) -> Made {
    let mut out = String::new();
    let mut values = Vec::new();
    let mut width = 0;
    let mut tail = "";
    for (at, row) in rows.iter().enumerate() {
        let cut = cut(row);
        if at == 0 {
            out.push_str(cut.head);
            tail = cut.tail;
        }
        out.push_str(if at == 0 { " " } else { ", " });
        match &row.kind {
            EventKind::Execute { parameters, .. } => {
                width = parameters.len();
                out.push_str(&counted_on(cut.row, values.len()));
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
            // Batches of another length are other statements.
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
    let types = rows[0].particulars.as_ref().map(|one| {
        let mut types = one.parameter_types.clone();
        if !types.is_empty() {
            types.resize(width, 0);
            types = types.repeat(count);
        }
        Arc::new(Particulars {
            parameter_types: types,
            ..Particulars::default()
        })
    });
    (kind, types)
}

/// One COPY of all rows.
fn as_copy(rows: &[Event]) -> Made {
    let mut data = Vec::new();
    let mut sql = String::new();
    for row in rows {
        sql = copy_of(row, &cut(row), &mut data).expect("only what can be copied waits");
    }
    let particulars = Particulars {
        copy: Some(CopyIn {
            data: data.into(),
            failed: None,
        }),
        ..Particulars::default()
    };
    let kind = EventKind::Simple { sql: sql.into() };
    (kind, Some(Arc::new(particulars)))
}

/// The row of an insert that waits.
fn cut(row: &Event) -> OneRow<'_> {
    let sql = row.kind.sql().expect("an insert has a text");
    match one_row(sql) {
        Some(Ok(cut)) => cut,
        _ => unreachable!("only what was cut waits"),
    }
}

/// The COPY for an insert, whose row is put behind the others.
fn copy_of(event: &Event, cut: &OneRow<'_>, data: &mut Vec<u8>) -> Result<String, Why> {
    let (sql, columns) = copied::statement(cut)?;
    let given = event.particulars.as_ref();
    let parameters = match &event.kind {
        EventKind::Execute { parameters, .. } => Parameters {
            values: parameters,
            types: given.map_or(&[], |one| &one.parameter_types),
        },
        _ => Parameters::default(),
    };
    copied::line(cut.row, columns, parameters, data)?;
    Ok(sql)
}
