//! A key of another type: a `uuid`, `bytea` or text becomes a `bigint`, in the statements as in the data.
//!
//! The numbers are those that the data's rows get ([`KeySource`]); what is in no row is numbered on in the order in which
//! it is sent, as an identity column would do it. Values are known by where they stand: beside a column of
//! the key or of one that refers to it (`places.rs`). Two passes: the first collects values, whose numbers are
//! asked for between them.
//!
//! Deliberately absent: what expressions make of a key (`encode(id, 'hex')`), and columns that hold keys
//! without referring to them.

mod arrays;
mod key;
mod places;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_128;

use super::insert::Why;
use crate::event::{Event, EventKind};
use crate::parameter::Parameter;
use crate::particulars::{CopyIn, Particulars};
use crate::rewrite::mask::{Spelling, unescape_text};
pub use key::{KeyColumn, KeyKind, KeyName, KeyNumbers, KeySource, SwappedKey};
use places::{Place, Places, places};

/// Texts whose places are remembered.
const TEXTS_MAX: usize = 10_000;
/// Longer values at other places are not asked for: no key is so long.
const OTHER_MAX: usize = 256;

const NO_KEY: Why = "a value that the key's type cannot have";
const OTHER_TYPE: Why = "a parameter of another type beside a key";
const ELSEWHERE: Why = "a key where no column of it is named";

/// Swaps. See the module's text.
#[derive(Debug)]
pub(super) struct Swapping {
    name: KeyName,
    key: Option<SwappedKey>,
    values: HashSet<Box<[u8]>>,
    numbers: KeyNumbers,
    known: HashMap<u128, Arc<Places>>,
}

/// What is done with each value that is met.
type Each<'e> = &'e mut dyn FnMut(Box<[u8]>) -> i64;

impl Swapping {
    pub(super) fn new(name: &KeyName) -> Self {
        Swapping {
            name: name.clone(),
            key: None,
            values: HashSet::new(),
            numbers: KeyNumbers::default(),
            known: HashMap::new(),
        }
    }

    /// Asks for the key's columns, before anything is read.
    pub(super) fn begin<E>(&mut self, source: &mut dyn KeySource<Error = E>) -> Result<(), E> {
        self.key = Some(source.columns(&self.name)?);
        Ok(())
    }

    /// Takes note of the values of an event of the first pass.
    pub(super) fn survey(&mut self, event: &Event) {
        let Some(found) = self.places_of(event) else {
            return;
        };
        let others = self.others(event, &found);
        let mut values = std::mem::take(&mut self.values);
        values.extend(others);
        let mut note = |value: Box<[u8]>| {
            values.insert(value);
            0
        };
        let _ = self.swapped_by(event, &mut note);
        self.values = values;
    }

    /// Asks for the numbers of what was met.
    pub(super) fn surveyed<E>(&mut self, source: &mut dyn KeySource<Error = E>) -> Result<(), E> {
        self.numbers = source.numbers(&self.name, std::mem::take(&mut self.values))?;
        Ok(())
    }

    /// The statement with numbers for keys; `None` of one that has nothing to do with them.
    ///
    /// # Errors
    /// Why it stays as it is.
    pub(super) fn swapped(&mut self, event: &Event) -> Option<Result<Event, Why>> {
        let found = self.places_of(event)?;
        if self.has_others(event, &found) {
            return Some(Err(ELSEWHERE));
        }
        // What is left alone takes no number.
        if let Some(Err(why)) = self.swapped_by(event, &mut |_| 0) {
            return Some(Err(why));
        }
        let mut numbers = std::mem::take(&mut self.numbers);
        let made = self.swapped_by(event, &mut |value| numbers.of(value));
        self.numbers = numbers;
        made
    }

    /// The places of a text that names a table of the key.
    fn places_of(&mut self, event: &Event) -> Option<Arc<Places>> {
        let key = self.key.as_ref()?;
        let sql = event.kind.sql()?;
        let hash = xxh3_128(sql.as_bytes());
        if let Some(found) = self.known.get(&hash) {
            return found.names_it.then(|| Arc::clone(found));
        }
        let found = Arc::new(places(sql, key));
        if self.known.len() >= TEXTS_MAX {
            self.known.clear();
        }
        self.known.insert(hash, Arc::clone(&found));
        found.names_it.then_some(found)
    }

    /// Values where no column of the key stands that would be keys if a row had them, in arrays too.
    fn others(&self, event: &Event, found: &Places) -> Vec<Box<[u8]>> {
        let (Some(key), Some(sql)) = (&self.key, event.kind.sql()) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        let mut take = |value: Option<Box<[u8]>>| {
            all.extend(
                value.filter(|value| key.kind.is_unmistakable(value) && value.len() <= OTHER_MAX),
            );
        };
        let mut of_text = |text: &str| {
            let mut within = Vec::new();
            let _ = arrays::text(text, key.kind, &mut |value| {
                within.push(value);
                0
            });
            within.into_iter().map(Some).for_each(&mut take);
            take(key.kind.read(text));
        };
        let mut binary = Vec::new();
        for place in &found.others {
            match place.parameter.map(|number| parameter(event, number)) {
                None => of_text(&literal(sql, place)),
                Some(Some(Some(Parameter::Text(text)))) => of_text(text),
                Some(Some(Some(Parameter::Binary(bytes)))) => {
                    binary.push(key.kind.read_binary(bytes));
                    let _ = arrays::binary(bytes, key.kind, &mut |value| {
                        binary.push(Some(value));
                        0
                    });
                }
                Some(_) => {}
            }
        }
        binary.into_iter().for_each(take);
        all
    }

    /// Whether a value that is surely a key of a row stands where no column says so.
    fn has_others(&self, event: &Event, found: &Places) -> bool {
        let others = self.others(event, found);
        others.iter().any(|value| self.numbers.knows(value))
    }

    /// The event without what is known of its result, where that may have keys in it.
    pub(super) fn without_result(&mut self, mut event: Event) -> Event {
        let has = |one: &Particulars| one.first_row.is_some() || one.result_digest.is_some();
        if event.particulars.as_deref().is_some_and(has) && self.places_of(&event).is_some() {
            let particulars = event.particulars.as_deref().cloned();
            event.particulars = particulars.map(|one| {
                Arc::new(Particulars {
                    first_row: None,
                    result_digest: None,
                    ..one
                })
            });
        }
        event
    }

    fn swapped_by(&mut self, event: &Event, each: Each<'_>) -> Option<Result<Event, Why>> {
        let found = self.places_of(event)?;
        let kind = self.key.as_ref()?.kind;
        if let Some(why) = found.refused {
            return Some(Err(why));
        }
        let touches = !(found.values.is_empty() && found.copied.is_empty());
        if event.unreplayable.is_some() || !touches {
            return None;
        }
        Some(swapped(event, &found, kind, each))
    }
}

/// What a literal says.
fn literal<'s>(sql: &'s str, place: &Place) -> Cow<'s, str> {
    let (spelling, inner) = Spelling::of(&sql[place.token.clone()]);
    spelling.read(inner, '\\')
}

fn parameter(event: &Event, number: usize) -> Option<&Option<Parameter>> {
    match &event.kind {
        EventKind::Execute { parameters, .. } => parameters.get(number.checked_sub(1)?),
        _ => None,
    }
}

fn swapped(event: &Event, found: &Places, kind: KeyKind, each: Each<'_>) -> Result<Event, Why> {
    let mut event = event.clone();
    let mut particulars = event.particulars.as_deref().cloned();
    let text = match event.kind.sql() {
        Some(sql) => with_numbers(sql, found, kind, each)?,
        None => return Err(NO_KEY),
    };
    match &mut event.kind {
        EventKind::Execute {
            sql, parameters, ..
        } => {
            *sql = text;
            let types = particulars
                .as_ref()
                .map_or(&[][..], |one| &one.parameter_types);
            // Of a parameter that stands at several places there is one value.
            let mut done = BTreeSet::new();
            for place in &found.values {
                let Some(at) = place.parameter.and_then(|number| number.checked_sub(1)) else {
                    continue;
                };
                if !kind.may_be(types.get(at).copied().unwrap_or(0)) {
                    return Err(OTHER_TYPE);
                }
                if let Some(Some(value)) = parameters.get_mut(at)
                    && done.insert(at)
                {
                    *value = number_of(value, place, kind, each)?;
                }
            }
        }
        EventKind::Simple { sql }
        | EventKind::Prepare { sql, .. }
        | EventKind::Fetch { sql, .. } => {
            *sql = text;
        }
        EventKind::Connect { .. } | EventKind::Cancel | EventKind::Disconnect => {}
    }
    if let Some(particulars) = &mut particulars {
        of_numbers(particulars, found, kind, each)?;
    }
    event.particulars = particulars.map(Arc::new);
    Ok(event)
}

/// What a capture from the wire knows: types become others, and keys in data.
fn of_numbers(
    particulars: &mut Particulars,
    found: &Places,
    kind: KeyKind,
    each: Each<'_>,
) -> Result<(), Why> {
    for number in found.values.iter().filter_map(|place| place.parameter) {
        if let Some(oid) = particulars.parameter_types.get_mut(number.wrapping_sub(1)) {
            *oid = kind.swapped_oid(*oid);
        }
    }
    if let (false, Some(copy)) = (found.copied.is_empty(), &mut particulars.copy) {
        *copy = CopyIn {
            data: copied(&copy.data, &found.copied, kind, each)?.into(),
            ..copy.clone()
        };
    }
    Ok(())
}

/// The text with numbers in the place of literals, and with the other type's name.
fn with_numbers(sql: &str, found: &Places, kind: KeyKind, each: Each<'_>) -> Result<Arc<str>, Why> {
    let mut changes: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    for place in found.values.iter().filter(|one| one.parameter.is_none()) {
        let said = literal(sql, place);
        let text = match place.is_array {
            true => format!("'{}'", arrays::text(&said, kind, each).ok_or(NO_KEY)?),
            false => each(kind.read(&said).ok_or(NO_KEY)?).to_string(),
        };
        let text = match place.is_typed {
            true => format!("'{text}'"),
            false => text,
        };
        changes.push((place.token.clone(), text));
    }
    let types = found.types.iter().cloned();
    changes.extend(types.map(|range| (range, "bigint".to_owned())));
    changes.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(sql.len());
    let mut copied = 0;
    for (range, text) in changes {
        out.push_str(&sql[copied..range.start]);
        out.push_str(&text);
        copied = range.end;
    }
    out.push_str(&sql[copied..]);
    Ok(out.into())
}

fn number_of(
    value: &Parameter,
    place: &Place,
    kind: KeyKind,
    each: Each<'_>,
) -> Result<Parameter, Why> {
    Ok(match (value, place.is_array) {
        (Parameter::Text(text), true) => arrays::text(text, kind, each).ok_or(NO_KEY)?.into(),
        (Parameter::Binary(bytes), true) => {
            let numbers = arrays::binary(bytes, kind, each).ok_or(NO_KEY)?;
            Parameter::Binary(numbers.into())
        }
        (Parameter::Text(text), false) => each(kind.read(text).ok_or(NO_KEY)?).to_string().into(),
        (Parameter::Binary(bytes), false) => {
            let number = each(kind.read_binary(bytes).ok_or(NO_KEY)?);
            Parameter::Binary(number.to_be_bytes().into())
        }
    })
}

/// Rows of COPY in the text format, with numbers in these fields.
fn copied(data: &[u8], places: &[usize], kind: KeyKind, each: Each<'_>) -> Result<Vec<u8>, Why> {
    let mut out = Vec::with_capacity(data.len());
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        let row = line.strip_suffix(b"\n").unwrap_or(line);
        let row = row.strip_suffix(b"\r").unwrap_or(row);
        let is_end = row == b"\\.";
        for (at, field) in row.split(|byte| *byte == b'\t').enumerate() {
            if at > 0 {
                out.push(b'\t');
            }
            if !places.contains(&at) || is_end || field == b"\\N" {
                out.extend_from_slice(field);
                continue;
            }
            let value = unescape_text(field);
            let text = std::str::from_utf8(&value).map_err(|_| NO_KEY)?;
            let number = each(kind.read(text).ok_or(NO_KEY)?);
            out.extend_from_slice(number.to_string().as_bytes());
        }
        out.extend_from_slice(&line[row.len()..]);
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
