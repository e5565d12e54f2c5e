//! Sets of rows that a statement reads or writes.

use std::ops::Range;
use std::sync::Arc;

use sql::{PlaceRole, StatementClass, TableUse, ValuePlaces, ValueToken, classify};
use workload::{Event, EventKind};

use super::access::Mode;
use crate::generated::{KeyColumns, add_elements_at, add_result_texts, add_text_at};
use crate::statement_cache::{TextCache, hash};

/// Words of a statement that takes the rows which others have not locked.
const SKIP_LOCKED: &[u8] = b"skip locked";

/// Set of rows: those with a key, or those of a table, by hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RowSet(u64);

/// Sets of rows that a text uses, as far as the text and the target's keys tell.
#[derive(Debug)]
pub(super) struct RowPlan {
    pub(super) class: StatementClass,
    tables: Vec<TablePlan>,
    /// New values of foreign keys, each with the hash of the referenced column.
    references: Vec<(ValueToken, u64)>,
    /// Tables from which it takes what others have not locked (`SKIP LOCKED`). Which rows it gets depends on those that
    /// such statements got before.
    taken_from: Vec<RowSet>,
    /// Arguments of functions like `pg_advisory_xact_lock`; `None` if the text calls none.
    advisory_lock: Option<Vec<ValueToken>>,
}

/// Use of one table.
#[derive(Debug)]
struct TablePlan {
    whole: RowSet,
    mode: Mode,
    /// Mode if an array with key values cannot be read.
    mode_without_elements: Mode,
    /// Mode for the rows with a key.
    key_mode: Mode,
    /// Key columns that the text names, or whose new values the server returns.
    columns: Vec<KeyColumn>,
    /// Values of key columns: the column's index, the value, and its role.
    values: Vec<(usize, ValueToken, PlaceRole)>,
    /// Keys of several columns: the key's hash, and indexes of its columns.
    composite_keys: Vec<(u64, Vec<usize>)>,
    /// Whether the server's result has new values of it.
    is_written: bool,
}

#[derive(Debug)]
struct KeyColumn {
    name: String,
    hash: u64,
    /// Whether the table has a key of this column alone.
    is_key: bool,
}

/// Whether the arrays with key values of an execution could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Elements {
    Read,
    Unreadable,
}

/// Value of a key column: the column's index, where its text is, and its role.
type KeyValue = (usize, Range<usize>, PlaceRole);

impl RowPlan {
    fn of(sql: &str, places: &ValuePlaces, keys: &KeyColumns) -> Self {
        let class = classify(sql);
        let copied = (class == StatementClass::Copy)
            .then(|| copied_table(sql))
            .flatten();
        let tables = places.tables.iter().chain(&copied);
        let tables = tables.map(|(table, of)| TablePlan::of(table, *of, class, places, keys));
        let mut references = Vec::new();
        for place in &places.places {
            if let (Some(table), Some(column)) = (&place.table, &place.column)
                && matches!(place.role, PlaceRole::Inserted | PlaceRole::Assigned)
                && let Some((other, key)) = keys.referenced(table, column)
            {
                references.push((place.token.clone(), hash(&(other, key))));
            }
        }
        let mut words = sql.as_bytes().windows(SKIP_LOCKED.len());
        let takes = words.any(|words| words.eq_ignore_ascii_case(SKIP_LOCKED));
        let taken_from = places
            .tables
            .iter()
            .filter(|(_, of)| takes && *of != TableUse::Read);
        let taken_from = taken_from.map(|(table, _)| RowSet(hash(&(table, "skip locked"))));
        let arguments = || {
            let places = places.places.iter().filter(|place| place.column.is_none());
            places.map(|place| place.token.clone()).collect()
        };
        RowPlan {
            class,
            tables: tables.collect(),
            references,
            taken_from: taken_from.collect(),
            advisory_lock: sql.contains("advisory").then(arguments),
        }
    }

    /// Appends the sets of rows that an execution of the text uses. `texts` is space for values.
    pub(super) fn add_sets(
        &self,
        event: &Event,
        texts: &mut Vec<u8>,
        sets: &mut Vec<(RowSet, Mode)>,
    ) {
        texts.clear();
        for table in &self.tables {
            let mode = match table.add_keys(event, texts, sets) {
                Elements::Read => table.mode,
                Elements::Unreadable => table.mode_without_elements,
            };
            sets.push((table.whole, mode));
        }
        for (token, column) in &self.references {
            if let Some(text) = add_text_at(event, token, texts) {
                sets.push((RowSet::of(*column, &texts[text]), Mode::Reference));
            }
        }
        sets.extend(self.taken_from.iter().map(|rows| (*rows, Mode::Change)));
        if let Some(arguments) = &self.advisory_lock {
            let mut key = hash("advisory lock");
            for token in arguments {
                if let Some(text) = add_text_at(event, token, texts) {
                    key = hash(&(key, &texts[text]));
                }
            }
            sets.push((RowSet(key), Mode::Write));
        }
    }
}

impl RowSet {
    /// Returns the rows with a value of a column.
    fn of(column: u64, text: &[u8]) -> Self {
        RowSet(hash(&(column, text)))
    }
}

impl TablePlan {
    fn of(
        table: &str,
        of: TableUse,
        class: StatementClass,
        places: &ValuePlaces,
        keys: &KeyColumns,
    ) -> Self {
        let mut plan = TablePlan {
            whole: RowSet(hash(table)),
            mode: Mode::Read,
            mode_without_elements: Mode::Read,
            key_mode: match of {
                TableUse::Read => Mode::Read,
                TableUse::Locked | TableUse::Written => Mode::Write,
            },
            columns: Vec::new(),
            values: Vec::new(),
            composite_keys: Vec::new(),
            is_written: places.written_table() == Some(table),
        };
        for place in &places.places {
            if let (Some(of), Some(column)) = (&place.table, &place.column)
                && of == table
                && keys.is_key_column(table, column)
            {
                let index = plan.column(table, column, keys);
                plan.values.push((index, place.token.clone(), place.role));
            }
        }
        for key in keys.composite_keys(table) {
            let columns = key.iter().map(|column| plan.column(table, column, keys));
            let columns = columns.collect();
            plan.composite_keys.push((hash(&(table, key)), columns));
        }
        if plan.is_written {
            for column in keys.single_keys(table) {
                plan.column(table, column, keys);
            }
        }
        let adds = class == StatementClass::Insert && plan.is_written;
        let finds_by = |role: PlaceRole| {
            let mut values = plan.values.iter();
            !places.has_alternatives && values.any(|(_, _, of)| *of == role)
        };
        let mode = |by_key: bool| match (of != TableUse::Read, adds || by_key) {
            (false, true) => Mode::ReadByKey,
            (true, true) => Mode::WriteByKey,
            (false, false) => Mode::Read,
            (true, false) => Mode::Write,
        };
        let finds_by_key = finds_by(PlaceRole::Compared);
        let finds_by_elements = finds_by(PlaceRole::ComparedElements);
        let modes = (mode(finds_by_key || finds_by_elements), mode(finds_by_key));
        (plan.mode, plan.mode_without_elements) = modes;
        plan
    }

    /// Returns the index of a key column, which is added if it is new.
    fn column(&mut self, table: &str, column: &str, keys: &KeyColumns) -> usize {
        let known = self.columns.iter().position(|one| one.name == column);
        known.unwrap_or_else(|| {
            self.columns.push(KeyColumn {
                name: column.to_owned(),
                hash: hash(&(table, column)),
                is_key: keys.is_key(table, column),
            });
            self.columns.len() - 1
        })
    }

    /// Appends the rows with the keys that an execution names.
    fn add_keys(
        &self,
        event: &Event,
        texts: &mut Vec<u8>,
        sets: &mut Vec<(RowSet, Mode)>,
    ) -> Elements {
        let mut elements = Elements::Read;
        let mut values: Vec<KeyValue> = Vec::with_capacity(self.values.len());
        for (column, token, role) in &self.values {
            if *role == PlaceRole::ComparedElements {
                match add_elements_at(event, token, texts) {
                    Some(found) => {
                        // The same as a list of values.
                        let role = PlaceRole::Compared;
                        values.extend(found.into_iter().map(|text| (*column, text, role)));
                    }
                    None => elements = Elements::Unreadable,
                }
            } else if let Some(text) = add_text_at(event, token, texts) {
                values.push((*column, text, *role));
            }
        }
        // Keys that the server generated.
        if self.is_written {
            let named = values.len();
            add_result_texts(event, texts, |name, text| {
                let column = self.columns.iter().position(|one| one.name == name);
                let is_named = |of: usize| values[..named].iter().any(|one| one.0 == of);
                if let Some(column) = column
                    && !is_named(column)
                {
                    values.push((column, text, PlaceRole::Inserted));
                }
            });
        }
        // With all columns of a key, a statement that only finds rows finds one row.
        let mut whole_key = false;
        for (key, columns) in &self.composite_keys {
            for row in rows_of(columns, &values) {
                whole_key = true;
                let add = |set: u64, text: &Range<usize>| hash(&(set, &texts[text.clone()]));
                sets.push((RowSet(row.fold(*key, add)), self.key_mode));
            }
        }
        for (column, text, role) in values {
            let column = &self.columns[column];
            if role == PlaceRole::Compared && whole_key && !column.is_key {
                continue;
            }
            let mode = match role {
                PlaceRole::Inserted | PlaceRole::Assigned if column.is_key => Mode::Write,
                // Other rows may have the same value.
                PlaceRole::Inserted | PlaceRole::Assigned => Mode::WriteByKey,
                PlaceRole::Compared | PlaceRole::ComparedElements | PlaceRole::Other => {
                    self.key_mode
                }
            };
            sets.push((RowSet::of(column.hash, &texts[text]), mode));
        }
        elements
    }
}

/// Returns the values of a key's columns by row; none if a column has no value. One value of a column holds for all rows.
fn rows_of<'v>(
    columns: &[usize],
    values: &'v [KeyValue],
) -> impl Iterator<Item = impl Iterator<Item = &'v Range<usize>>> {
    let of_column = |column: &usize| {
        let values = values.iter().filter(|(of, ..)| of == column);
        values.map(|(_, text, _)| text).collect::<Vec<_>>()
    };
    let columns: Vec<Vec<&Range<usize>>> = columns.iter().map(of_column).collect();
    let most = columns.iter().map(Vec::len).max().unwrap_or(0);
    let is_whole = |values: &Vec<_>| values.len() == 1 || values.len() == most;
    let rows = if columns.iter().all(is_whole) {
        most
    } else {
        0
    };
    (0..rows).map(move |row| {
        let value = |values: &Vec<&'v Range<usize>>| values[row.min(values.len() - 1)];
        columns.iter().map(value).collect::<Vec<_>>().into_iter()
    })
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

/// Cache of the plans of statement texts.
#[derive(Debug, Default)]
pub(super) struct RowPlanCache(TextCache<Arc<RowPlan>>);

impl RowPlanCache {
    /// Returns the plan of an execution's text; `None` for other events. It must be called with the same keys.
    pub(super) fn get(
        &mut self,
        event: &Event,
        places: &ValuePlaces,
        keys: &KeyColumns,
    ) -> Option<Arc<RowPlan>> {
        let plan = |sql: &str| Arc::new(RowPlan::of(sql, places, keys));
        match &event.kind {
            EventKind::Simple { sql } => Some(plan(sql)),
            EventKind::Execute { sql, .. } => Some(self.0.get(sql, plan).clone()),
            _ => None,
        }
    }
}
