//! Sets of rows that a statement reads or writes, and the executions that did so last.

use std::collections::HashMap;

use sql::{PlaceRole, StatementClass, TableUse, ValuePlaces};
use workload::Event;

use super::row_effect::RowEffect;
use crate::generated::{KeyColumns, result_texts, text_at};
use crate::statement_cache::hash;

/// Most executions of each mode that are kept for one set of rows, one for each session. The earliest are forgotten
/// first.
const SESSIONS_MAX: usize = 4_096;
/// Most sets of rows before the earlier half is forgotten.
const SETS_MAX: usize = 500_000;

/// Execution, with its transaction and its end in captured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) session: u64,
    pub(super) transaction: u64,
    pub(super) sequence: u64,
    pub(super) end_us: i64,
    pub(super) has_failed: bool,
    pub(super) effect: RowEffect,
}

/// Set of rows: those with a key, or those of a table, by the hash of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowSet(u64);

/// Way in which a statement uses a set of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Requires that a row exists, as a foreign key does.
    Reference,
    /// Reads rows.
    Read,
    /// Changes rows, and neither adds nor removes any.
    Change,
    /// Adds or removes rows, or changes their keys.
    Write,
    /// Reads some rows of a table, which it finds by a key.
    ReadByKey,
    /// Writes some rows of a table, which it finds by a key, or adds rows.
    WriteByKey,
}

impl Mode {
    const ALL: [Mode; 6] = [
        Mode::Reference,
        Mode::Read,
        Mode::Change,
        Mode::Write,
        Mode::ReadByKey,
        Mode::WriteByKey,
    ];

    /// Whether the order of the two matters for the same set. That of two keys of a table is known from the keys' own sets.
    fn conflicts_with(self, other: Mode) -> bool {
        use Mode::{Change, Read, ReadByKey, Reference, Write, WriteByKey};
        match (self, other) {
            (Write, _) | (_, Write) => true,
            (Change, Change | Read | ReadByKey | WriteByKey) => true,
            (Read | ReadByKey | WriteByKey, Change) => true,
            (Read, WriteByKey) | (WriteByKey, Read) => true,
            (Change, Reference)
            | (Reference, Change | Read | ReadByKey | WriteByKey | Reference) => false,
            (Read, Read | ReadByKey | Reference) => false,
            (ReadByKey | WriteByKey, ReadByKey | WriteByKey | Reference) => false,
            (ReadByKey, Read) => false,
        }
    }

    /// Whether it locks the rows of the set.
    pub(super) fn locks_rows(self) -> bool {
        matches!(self, Mode::Change | Mode::Write)
    }

    /// Whether everything that conflicts with `other` conflicts with this, so that who follows this follows `other`.
    fn includes(self, other: Mode) -> bool {
        let all = Mode::ALL.into_iter();
        all.filter(|one| one.conflicts_with(other))
            .all(|one| one.conflicts_with(self))
    }
}

/// Reason why the order of two accesses matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conflict {
    /// One sees what the other writes.
    Visibility,
    /// One waits until the other's transaction is over. So the one that was done first had the lock, unless their
    /// outcomes tell otherwise: both ends are those that the client saw.
    Locks,
}

/// Whether an access was over when another one began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precedence {
    /// Its transaction was over, so the other one depends on it.
    Over,
    /// It was not, or is of the same session.
    Open,
}

impl Access {
    /// Returns the mode with which later accesses conflict. A statement that failed wrote nothing.
    fn kept_mode(self, mode: Mode) -> Mode {
        match mode {
            Mode::Change | Mode::Write if self.has_failed => Mode::Read,
            Mode::WriteByKey if self.has_failed => Mode::ReadByKey,
            mode => mode,
        }
    }
}

/// Last accesses to a set of rows by mode, one for each session.
type LastAccesses = [Vec<Access>; Mode::ALL.len()];

/// Last accesses to all sets of rows.
#[derive(Debug, Default)]
pub(super) struct Accesses {
    recent: HashMap<RowSet, LastAccesses>,
    earlier: HashMap<RowSet, LastAccesses>,
}

impl Accesses {
    /// Adds an access. `depend` is called with those before it with which it conflicts. Those on which it depends are
    /// forgotten, if who conflicts with them conflicts with it.
    pub(super) fn add(
        &mut self,
        rows: RowSet,
        mode: Mode,
        access: Access,
        mut depend: impl FnMut(Access, Conflict) -> Precedence,
    ) {
        if self.recent.len() >= SETS_MAX && !self.recent.contains_key(&rows) {
            self.earlier = std::mem::take(&mut self.recent);
        }
        let earlier = &mut self.earlier;
        let last = self
            .recent
            .entry(rows)
            .or_insert_with(|| earlier.remove(&rows).unwrap_or_default());
        for (other, accesses) in Mode::ALL.into_iter().zip(last.iter_mut()) {
            if mode.conflicts_with(other) {
                let is_included = access.kept_mode(mode).includes(other);
                let conflict = match mode.locks_rows() && other.locks_rows() {
                    true => Conflict::Locks,
                    false => Conflict::Visibility,
                };
                accesses.retain(|one| depend(*one, conflict) == Precedence::Open || !is_included);
            }
        }
        let own = &mut last[access.kept_mode(mode) as usize];
        own.retain(|one| one.session != access.session);
        if own.len() == SESSIONS_MAX {
            own.remove(0);
        }
        own.push(access);
    }
}

/// Returns the sets of rows that a statement reads and writes.
pub(super) fn row_sets(
    event: &Event,
    sql: &str,
    class: StatementClass,
    places: &ValuePlaces,
    keys: &KeyColumns,
) -> Vec<(RowSet, Mode)> {
    let mut sets = Vec::new();
    let copied = (class == StatementClass::Copy)
        .then(|| copied_table(sql))
        .flatten();
    for (table, of) in places.tables.iter().chain(&copied) {
        let whole = RowSet(hash(table.as_str()));
        let values = key_values(event, places, table, keys);
        let writes = *of != TableUse::Read;
        let adds = class == StatementClass::Insert && places.written_table() == Some(table);
        let is_compared = |(.., role): &ColumnValue| *role == PlaceRole::Compared;
        let finds_by_key = !places.has_alternatives && values.iter().any(is_compared);
        let mode = match (writes, adds || finds_by_key) {
            (false, true) => Mode::ReadByKey,
            (true, true) => Mode::WriteByKey,
            (false, false) => Mode::Read,
            (true, false) => Mode::Write,
        };
        sets.push((whole, mode));
        add_keys(
            table,
            if writes { Mode::Write } else { Mode::Read },
            &values,
            keys,
            &mut sets,
        );
    }
    add_referenced(event, places, keys, &mut sets);
    if sql.contains("advisory") {
        add_advisory_lock(event, places, &mut sets);
    }
    sets
}

/// Value of a column, as text.
type ColumnValue = (String, Vec<u8>, PlaceRole);

/// Returns the values of key columns of a table that a statement names.
fn key_values(
    event: &Event,
    places: &ValuePlaces,
    table: &str,
    keys: &KeyColumns,
) -> Vec<ColumnValue> {
    let mut values = Vec::new();
    for place in &places.places {
        if let (Some(of), Some(column)) = (&place.table, &place.column)
            && of == table
            && keys.is_key_column(table, column)
            && let Some(text) = text_at(event, &place.token)
        {
            values.push((column.clone(), text.into_owned(), place.role));
        }
    }
    // Keys that the server generated.
    if places.written_table() == Some(table) {
        for (column, text) in result_texts(event) {
            if keys.is_key_column(table, column)
                && !values.iter().any(|(known, ..)| known == column)
            {
                values.push((column.to_owned(), text, PlaceRole::Inserted));
            }
        }
    }
    values
}

fn add_keys(
    table: &str,
    mode: Mode,
    values: &[ColumnValue],
    keys: &KeyColumns,
    sets: &mut Vec<(RowSet, Mode)>,
) {
    // With all columns of a key, a statement that only finds rows finds one row.
    let mut whole_key = false;
    for key in keys.composite_keys(table) {
        for row in rows_of(key, values) {
            whole_key = true;
            sets.push((RowSet(hash(&(table, key, row))), mode));
        }
    }
    for (column, text, role) in values {
        let is_found_by_another =
            *role == PlaceRole::Compared && whole_key && !keys.is_key(table, column);
        if !is_found_by_another {
            let mode = match role {
                PlaceRole::Inserted | PlaceRole::Assigned if keys.is_key(table, column) => {
                    Mode::Write
                }
                // Other rows may have the same value.
                PlaceRole::Inserted | PlaceRole::Assigned => Mode::WriteByKey,
                PlaceRole::Compared | PlaceRole::Other => mode,
            };
            sets.push((key_set(table, column, text), mode));
        }
    }
}

/// Returns the values of a key's columns by row; none if a column has no value. One value of a column holds for all rows.
fn rows_of<'v>(key: &[String], values: &'v [ColumnValue]) -> Vec<Vec<&'v [u8]>> {
    let of_column = |column: &String| {
        let found = values.iter().filter(|(known, ..)| known == column);
        found.map(|(_, text, _)| &text[..]).collect::<Vec<_>>()
    };
    let columns: Vec<Vec<&[u8]>> = key.iter().map(of_column).collect();
    let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
    if !columns
        .iter()
        .all(|column| column.len() == 1 || column.len() == rows)
        || rows == 0
    {
        return Vec::new();
    }
    let value = |column: &Vec<&'v [u8]>, row: usize| column[row.min(column.len() - 1)];
    (0..rows)
        .map(|row| columns.iter().map(|column| value(column, row)).collect())
        .collect()
}

fn key_set(table: &str, column: &str, text: &[u8]) -> RowSet {
    RowSet(hash(&(table, column, text)))
}

/// Adds the rows that new values of foreign keys reference.
fn add_referenced(
    event: &Event,
    places: &ValuePlaces,
    keys: &KeyColumns,
    sets: &mut Vec<(RowSet, Mode)>,
) {
    for place in &places.places {
        if let (Some(table), Some(column)) = (&place.table, &place.column)
            && matches!(place.role, PlaceRole::Inserted | PlaceRole::Assigned)
            && let Some((other, key)) = keys.referenced(table, column)
            && let Some(text) = text_at(event, &place.token)
        {
            sets.push((key_set(other, key, &text), Mode::Reference));
        }
    }
}

/// Adds the lock that a function like `pg_advisory_xact_lock` takes.
fn add_advisory_lock(event: &Event, places: &ValuePlaces, sets: &mut Vec<(RowSet, Mode)>) {
    let values = places.places.iter().filter(|place| place.column.is_none());
    let texts: Vec<Vec<u8>> = values
        .filter_map(|place| Some(text_at(event, &place.token)?.into_owned()))
        .collect();
    sets.push((RowSet(hash(&("advisory lock", texts))), Mode::Write));
}

/// Returns the table of a COPY, and its use.
fn copied_table(sql: &str) -> Option<(String, TableUse)> {
    let statements = sql::split_statements(sql);
    let words = &statements
        .iter()
        .find(|one| one.words.first().is_some_and(|word| word.is("copy")))?
        .words;
    let mut name = words.get(1)?.name()?;
    let mut at = 2;
    while words.get(at).is_some_and(|word| word.is_symbol(".")) {
        name = words.get(at + 1)?.name()?;
        at += 2;
    }
    let writes = words.iter().any(|word| word.is("from"));
    Some((
        name,
        if writes {
            TableUse::Written
        } else {
            TableUse::Read
        },
    ))
}
