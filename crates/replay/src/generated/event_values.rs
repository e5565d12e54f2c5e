//! Values that an event sends, with their places in the statement.

use std::borrow::Cow;
use std::sync::Arc;

use protocol::Format;
use sql::{Lexer, LexicalRules, Spelling, Token, ValuePlaces, ValueToken};
use workload::{Event, EventKind, Parameter};

use super::key_columns::KeyColumns;
use super::value::{Value, of_parameter};
use crate::statement_cache::TextCache;

/// Longest text whose places are looked for, in bytes. Longer ones are dumps and generated lists.
const SQL_BYTES_MAX: usize = 64 << 10;

/// Cache of the places of statement texts.
#[derive(Debug, Default)]
pub(crate) struct PlacesCache(TextCache<Arc<ValuePlaces>>);

impl PlacesCache {
    /// Returns the places of an event's text; `None` if it is no statement. It must be called with the same keys.
    pub(crate) fn get(&mut self, event: &Event, keys: &KeyColumns) -> Option<Arc<ValuePlaces>> {
        let (EventKind::Simple { sql }
        | EventKind::Prepare { sql, .. }
        | EventKind::Execute { sql, .. }) = &event.kind
        else {
            return None;
        };
        let find = |sql: &str| match sql.len() > SQL_BYTES_MAX {
            true => Arc::default(),
            false => Arc::new(find_places(sql, keys)),
        };
        // A simple statement with literals seldom repeats.
        Some(match &event.kind {
            EventKind::Simple { sql } => find(sql),
            _ => self.0.get(sql, find).clone(),
        })
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

/// Returns the text form of the value at a place, as sent; `None` for NULL and binary values of other types.
pub(crate) fn text_at<'e>(event: &'e Event, token: &ValueToken) -> Option<Cow<'e, [u8]>> {
    match token {
        ValueToken::Parameter(index) => match parameters(event).get(*index)?.as_ref()? {
            Parameter::Text(text) => Some(text.as_bytes().into()),
            Parameter::Binary(bytes) => Some(match value_at(event, token) {
                Some(value) => value.text().into(),
                None => bytes[..].into(),
            }),
        },
        ValueToken::Literal(range) => {
            let (spelling, inner) = Spelling::of(event.kind.sql()?.get(range.clone())?);
            Some(match spelling.read(inner) {
                Cow::Borrowed(text) => text.as_bytes().into(),
                Cow::Owned(text) => text.into_bytes().into(),
            })
        }
    }
}

/// Returns the value at a place, if it may have been generated.
pub(crate) fn value_at(event: &Event, token: &ValueToken) -> Option<Value> {
    match token {
        ValueToken::Parameter(index) => {
            let types = event
                .wire_details
                .as_ref()
                .map_or(&[][..], |details| &details.parameter_types);
            let declared = types.get(*index).copied().unwrap_or(0);
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

fn parameters(event: &Event) -> &[Option<Parameter>] {
    match &event.kind {
        EventKind::Execute { parameters, .. } => parameters,
        _ => &[],
    }
}

/// Returns the result's columns whose values the server may have generated, with their values.
pub(crate) fn result_values<'e>(
    event: &'e Event,
) -> impl Iterator<Item = (usize, &'e str, Value)> + 'e {
    let row = event
        .wire_details
        .as_ref()
        .and_then(|details| details.first_row.as_ref());
    let row = row.filter(|_| event.outcome.sqlstate.is_none());
    row.into_iter().flat_map(|row| {
        row.values.iter().enumerate().filter_map(|(index, value)| {
            let value = match value.as_ref()? {
                Parameter::Text(text) => Value::of_text(text.as_bytes()),
                Parameter::Binary(bytes) => Value::of_binary(bytes),
            }?;
            Some((index, row.columns.get(index).map_or("", |name| name), value))
        })
    })
}

/// Returns the texts of a result's first row by column, without NULLs and binary values of other types.
pub(crate) fn result_texts(event: &Event) -> impl Iterator<Item = (&str, Vec<u8>)> {
    let row = event
        .wire_details
        .as_ref()
        .and_then(|details| details.first_row.as_ref());
    let row = row.filter(|_| event.outcome.sqlstate.is_none());
    row.into_iter().flat_map(|row| {
        row.columns
            .iter()
            .zip(&row.values)
            .filter_map(|(name, value)| {
                let text = match value.as_ref()? {
                    Parameter::Text(text) => text.as_bytes().to_vec(),
                    Parameter::Binary(bytes) => {
                        let value = Value::of_binary(bytes);
                        value.map_or_else(|| bytes.to_vec(), Value::text)
                    }
                };
                Some((&**name, text))
            })
    })
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
