//! Values that an event sends, with their places in the statement.

use std::ops::Range;
use std::sync::Arc;

use protocol::Format;
use sql::{Fingerprint, Lexer, LexicalRules, Spelling, Token, ValuePlace, ValuePlaces, ValueToken};
use workload::{Event, EventKind, Parameter};

use super::array_elements::{add_binary_elements, add_text_elements};
use super::key_columns::{ColumnName, KeyColumns};
use super::parts::parts_of;
use super::provenance::Place;
use super::value::{Value, of_parameter};
use crate::statement_cache::TextCache;

/// Longest text whose places are looked for, in bytes. Longer ones are dumps and generated lists.
const SQL_BYTES_MAX: usize = 64 << 10;

/// Places of the values of a statement's text.
#[derive(Debug, Default)]
pub(crate) struct StatementPlaces {
    pub(crate) values: ValuePlaces,
    /// Identity of each place; empty if the text has no fingerprint.
    ids: Box<[Place]>,
}

impl StatementPlaces {
    fn of(sql: &str, fingerprint: Option<Fingerprint>, keys: &KeyColumns) -> Self {
        if sql.len() > SQL_BYTES_MAX {
            return StatementPlaces::default();
        }
        let values = find_places(sql, keys);
        let places = values.places.iter().enumerate();
        let ids = fingerprint.map(|fingerprint| {
            let of = |(index, place)| Place::of(fingerprint, index, place);
            places.map(of).collect()
        });
        StatementPlaces {
            values,
            ids: ids.unwrap_or_default(),
        }
    }

    /// Calls `found` with each value of an event that may have been generated: the values of its places, and those within
    /// arrays and documents.
    pub(crate) fn for_each_value<'p>(
        &'p self,
        event: &Event,
        mut found: impl FnMut(PlacedValue<'p>),
    ) {
        for (id, place) in self.with_ids() {
            let placed = |value: Value| PlacedValue {
                id,
                place,
                member: None,
                part: None,
                value,
            };
            if let Some(value) = value_at(event, &place.token) {
                found(placed(value));
                continue;
            }
            let ValueToken::Parameter(index) = place.token else {
                continue;
            };
            let Some(Some(parameter)) = parameters(event).get(index) else {
                continue;
            };
            for part in parts_of(declared_type(event, index), parameter) {
                let mut placed = placed(part.value);
                placed.part = Some(part.range);
                if let Some(member) = part.member {
                    placed.id = id.member(member.path);
                    placed.member = Some(member.name);
                }
                found(placed);
            }
        }
    }

    /// Iterates over the places with their identities.
    pub(crate) fn with_ids(&self) -> impl Iterator<Item = (Place, &ValuePlace)> {
        self.ids.iter().copied().zip(&self.values.places)
    }
}

/// Value of an event at a place, or within an array or a document there.
#[derive(Debug, Clone)]
pub(crate) struct PlacedValue<'p> {
    pub(crate) id: Place,
    pub(crate) place: &'p ValuePlace,
    /// Name of the member of a document.
    pub(crate) member: Option<String>,
    /// Bytes within the parameter; `None` if it is the whole parameter or a literal.
    pub(crate) part: Option<Range<usize>>,
    pub(crate) value: Value,
}

impl PlacedValue<'_> {
    /// Returns the table and column that the value belongs to, as far as names tell; a document has no table.
    pub(crate) fn column(&self) -> Option<ColumnName> {
        match &self.member {
            Some(name) => Some((String::new(), name.clone())),
            None => self.place.table.clone().zip(self.place.column.clone()),
        }
    }
}

/// Cache of the places of statement texts.
#[derive(Debug, Default)]
pub(crate) struct PlacesCache(TextCache<Arc<StatementPlaces>>);

impl PlacesCache {
    /// Returns the places of an event's text; `None` if it is no statement. It must be called with the same keys.
    pub(crate) fn get(
        &mut self,
        event: &Event,
        fingerprint: Option<Fingerprint>,
        keys: &KeyColumns,
    ) -> Option<Arc<StatementPlaces>> {
        let find = |sql: &str| Arc::new(StatementPlaces::of(sql, fingerprint, keys));
        match &event.kind {
            // A simple statement with literals seldom repeats.
            EventKind::Simple { sql } => Some(find(sql)),
            EventKind::Prepare { sql, .. } | EventKind::Execute { sql, .. } => {
                Some(self.0.get(sql, find).clone())
            }
            _ => None,
        }
    }
}

fn find_places(sql: &str, keys: &KeyColumns) -> ValuePlaces {
    let mut found = ValuePlaces::of(sql, LexicalRules::default());
    for place in &mut found.places {
        if let (Some(table), Some(number)) = (&place.table, place.column_number) {
            place.column = keys.column(table, number).cloned();
        }
    }
    found
}

/// Appends the text form of the value at a place, as sent, and returns where it is; `None` for NULL. A binary value of
/// another type than numbers and UUIDs is appended as it is.
pub(crate) fn add_text_at(
    event: &Event,
    token: &ValueToken,
    texts: &mut Vec<u8>,
) -> Option<Range<usize>> {
    let start = texts.len();
    match token {
        ValueToken::Parameter(index) => match parameters(event).get(*index)?.as_ref()? {
            Parameter::Text(text) => texts.extend_from_slice(text.as_bytes()),
            Parameter::Binary(bytes) => match value_at(event, token) {
                Some(value) => value.add_text(texts),
                None => texts.extend_from_slice(bytes),
            },
        },
        ValueToken::Literal(range) => {
            let (spelling, inner) = Spelling::of(event.kind.sql()?.get(range.clone())?);
            texts.extend_from_slice(spelling.read(inner).as_bytes());
        }
    }
    Some(start..texts.len())
}

/// Appends the text forms of the elements of an array at a place, and returns where they are, without NULLs; none if the array
/// is NULL. `None` if the value is no array that can be read.
pub(crate) fn add_elements_at(
    event: &Event,
    token: &ValueToken,
    texts: &mut Vec<u8>,
) -> Option<Vec<Range<usize>>> {
    match token {
        ValueToken::Parameter(index) => match parameters(event).get(*index)? {
            None => Some(Vec::new()),
            Some(Parameter::Text(text)) => add_text_elements(text, texts),
            Some(Parameter::Binary(bytes)) => add_binary_elements(bytes, texts),
        },
        ValueToken::Literal(range) => {
            let (spelling, inner) = Spelling::of(event.kind.sql()?.get(range.clone())?);
            add_text_elements(&spelling.read(inner), texts)
        }
    }
}

/// Returns the value at a place, if it may have been generated.
pub(crate) fn value_at(event: &Event, token: &ValueToken) -> Option<Value> {
    match token {
        ValueToken::Parameter(index) => {
            let declared = declared_type(event, *index);
            match parameters(event).get(*index)?.as_ref()? {
                Parameter::Text(text) => of_parameter(declared, Format::Text, text.as_bytes()),
                Parameter::Binary(bytes) => of_parameter(declared, Format::Binary, bytes),
            }
        }
        ValueToken::Literal(range) => {
            let (spelling, inner) = Spelling::of(event.kind.sql()?.get(range.clone())?);
            match spelling {
                Spelling::Number | Spelling::Plain(_) => Value::of_text(inner.as_bytes()),
                _ => None,
            }
        }
    }
}

/// Returns the type that the client declared for a parameter; 0 if it declared none.
fn declared_type(event: &Event, index: usize) -> u32 {
    let details = event.wire_details.as_ref();
    let types = details.map_or(&[][..], |details| &details.parameter_types);
    types.get(index).copied().unwrap_or(0)
}

fn parameters(event: &Event) -> &[Option<Parameter>] {
    match &event.kind {
        EventKind::Execute { parameters, .. } => parameters,
        _ => &[],
    }
}

/// Returns the values of a result that the server may have generated. Each has its place among all values of the known
/// rows, its column's number, and its name.
pub(crate) fn result_values(event: &Event) -> impl Iterator<Item = (usize, usize, &str, Value)> {
    let row = event
        .wire_details
        .as_ref()
        .and_then(|details| details.first_rows.as_ref());
    let row = row.filter(|_| event.outcome.sqlstate.is_none());
    row.into_iter().flat_map(|row| {
        row.with_columns()
            .enumerate()
            .filter_map(|(index, (column, value))| {
                let value = match value.as_ref()? {
                    Parameter::Text(text) => Value::of_text(text.as_bytes()),
                    Parameter::Binary(bytes) => Value::of_binary(bytes),
                }?;
                let name = row.columns.get(column).map_or("", |name| name);
                Some((index, column, name, value))
            })
    })
}

/// Appends the text forms of a result's known rows, and calls `found` with each column's name and where its text is; not
/// for NULLs.
pub(crate) fn add_result_texts(
    event: &Event,
    texts: &mut Vec<u8>,
    mut found: impl FnMut(&str, Range<usize>),
) {
    let details = event.wire_details.as_ref();
    let row = details.and_then(|details| details.first_rows.as_ref());
    let row = row.filter(|_| event.outcome.sqlstate.is_none());
    let values = row.into_iter().flat_map(|row| {
        let values = row.with_columns();
        values.filter_map(|(column, value)| Some((row.columns.get(column)?, value)))
    });
    for (name, value) in values {
        let start = texts.len();
        match value {
            None => continue,
            Some(Parameter::Text(text)) => texts.extend_from_slice(text.as_bytes()),
            Some(Parameter::Binary(bytes)) => match Value::of_binary(bytes) {
                Some(value) => value.add_text(texts),
                None => texts.extend_from_slice(bytes),
            },
        }
        found(name, start..texts.len());
    }
}

/// Returns the sequence that a text asks for its next value, without its schema.
pub(crate) fn next_value_of(sql: &str) -> Option<String> {
    let mut words = Lexer::new(sql);
    let is_call = |token: Token| matches!(token, Token::Word { start, end } if sql[start..end].eq_ignore_ascii_case("nextval"));
    words.find(|token| is_call(*token))?;
    let (Some(Token::Symbol { .. }), Some(Token::Value { start, end })) =
        (words.next(), words.next())
    else {
        return None;
    };
    let (spelling, inner) = Spelling::of(&sql[start..end]);
    let name = spelling.read(inner);
    let name = name.rsplit('.').next()?;
    Some(name.trim_matches('"').to_owned())
}
