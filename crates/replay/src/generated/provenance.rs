//! Decides where the values at each place of each statement come from, in one pass over the workload.
//!
//! A *place* is a column that a statement compares or sets, or a parameter or literal of it. An *origin* is a column of
//! a statement's result. A place takes values of an origin if
//!
//! - the origin is the column itself, or the column that it references by a foreign key or by its name
//!   (`order_id` for `id` of `orders`), or else
//! - nine of ten of its values are the latest ones of the origin in their sessions, as after `nextval`, and never came
//!   before the origin had them.
//!
//! UUIDs and snapshots need no such evidence, since they are not equal by chance.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use sql::{Fingerprint, ValuePlace, ValuePlaces, ValueToken};
use workload::Event;

use super::event_values::{PlacedValue, StatementPlaces, next_value_of, result_values, value_at};
use super::key_columns::{ColumnName, KeyColumns};
use super::value::Value;
use crate::statement_cache::hash;

/// Most values that the pass remembers. More of them only weaken the evidence.
const VALUES_MAX: usize = 2 << 20;
/// Share of a place's values that must be the latest ones of an origin, if their names do not tell.
const LATEST_SHARE: f64 = 0.9;
/// Share of a place's values that may come before the origin has them.
const EARLY_SHARE: f64 = 0.02;
/// Smallest number that is taken for a generated one by [`LATEST_SHARE`]. Smaller ones are flags, quantities and page
/// sizes as often.
const NUMBER_MIN: i64 = 100;
/// Least number of values of a place with smaller ones. All of them must be the latest of an origin.
const SMALL_VALUES_MIN: u64 = 10;

/// Names of columns whose numbers are computed, not generated.
const AGGREGATE_COLUMNS: [&str; 8] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "total",
    "rank",
    "row_number",
];

/// Statement and column of a result.
pub(crate) type Origin = (Fingerprint, usize);

/// Identity of a place: a column of a statement, otherwise a parameter or literal of it, by hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place(u64);

impl Place {
    /// Returns the identity. `index`: number of the statement's values before it.
    pub(super) fn of(fingerprint: Fingerprint, index: usize, place: &ValuePlace) -> Self {
        let number = match (&place.column, &place.token) {
            (Some(_), _) => None,
            (None, ValueToken::Parameter(number)) => Some((false, *number)),
            (None, ValueToken::Literal(_)) => Some((true, index)),
        };
        let table = place.column.as_ref().and(place.table.as_ref());
        Place(hash(&(fingerprint, table, &place.column, number)))
    }

    /// Returns the identity of a member of the document at this place, by the hash of its path.
    pub(super) fn member(self, path: u64) -> Self {
        Place(hash(&(self.0, path)))
    }
}

/// Evidence that a place takes values of an origin.
#[derive(Debug, Clone, Copy, Default)]
struct Evidence {
    /// Values that the origin had before.
    after: u64,
    /// The part of them that was the latest one of the session.
    latest: u64,
    /// Values that came before the origin had them.
    early: u64,
}

#[derive(Debug, Default)]
struct PlaceEvidence {
    /// Table and column, if both are known.
    column: Option<ColumnName>,
    values: u64,
    smallest: Option<i64>,
    by_origin: HashMap<usize, Evidence>,
}

/// Name of an origin.
#[derive(Debug, Clone)]
struct OriginName {
    table: Option<String>,
    column: String,
    /// Sequence of a `nextval`.
    sequence: Option<String>,
}

/// Origins of the values at each place.
#[derive(Debug, Default)]
pub(crate) struct Provenance {
    origins: HashMap<Origin, usize>,
    allowed: HashMap<Place, Vec<usize>>,
}

impl Provenance {
    /// Returns the number of an origin; `None` if no place uses its numbers.
    pub(crate) fn origin(&self, origin: Origin) -> Option<usize> {
        self.origins.get(&origin).copied()
    }

    /// Returns the origins whose numbers a place takes.
    pub(crate) fn allowed(&self, place: Place) -> &[usize] {
        self.allowed.get(&place).map_or(&[], |origins| origins)
    }
}

/// Value that a result returns when its statement ends.
type Pending = Reverse<(i64, u64, usize, Value)>;

/// Pass over a workload that learns the origins.
#[derive(Default)]
pub(crate) struct ProvenancePass {
    origins: HashMap<Origin, usize>,
    names: Vec<OriginName>,
    places: HashMap<Place, PlaceEvidence>,
    /// Origins that had a value.
    had: HashMap<Value, Vec<usize>>,
    latest: HashMap<(u64, usize), Value>,
    /// Places at which a value came before any origin had it.
    early: HashMap<Value, Vec<Place>>,
    pending: BinaryHeap<Pending>,
}

impl ProvenancePass {
    /// Takes the next event.
    pub(crate) fn add(
        &mut self,
        event: &Event,
        fingerprint: Fingerprint,
        places: &StatementPlaces,
    ) {
        while let Some(&Reverse((end_us, session, origin, value))) = self.pending.peek()
            && end_us <= event.due_us
        {
            self.pending.pop();
            self.end(session, origin, value);
        }
        places.for_each_value(event, |placed| {
            if let Value::Integer(number) = placed.value {
                self.use_number(event.session, &placed, number);
            }
        });
        let places = &places.values;
        let end_us = event
            .due_us
            .saturating_add_unsigned(event.outcome.duration_us.unwrap_or(0));
        for (_, column, name, value) in result_values(event) {
            let Value::Integer(number) = value else {
                continue;
            };
            if is_aggregate(name) || was_given(event, places, name, value, number) {
                continue;
            }
            let count = self.origins.len();
            let origin = *self.origins.entry((fingerprint, column)).or_insert(count);
            if origin == count {
                let sql = event.kind.sql().map_or("", |sql| sql);
                let single = match &places.tables[..] {
                    [(table, _)] => Some(table.as_str()),
                    _ => places.written_table(),
                };
                self.names.push(OriginName {
                    table: single.map(str::to_owned),
                    column: name.to_owned(),
                    sequence: next_value_of(sql),
                });
            }
            self.pending
                .push(Reverse((end_us, event.session, origin, value)));
        }
    }

    fn use_number(&mut self, session: u64, placed: &PlacedValue<'_>, number: i64) {
        let (place, value) = (placed.id, placed.value);
        let evidence = self.places.entry(place).or_insert_with(|| PlaceEvidence {
            column: placed.column(),
            ..PlaceEvidence::default()
        });
        evidence.values += 1;
        evidence.smallest = Some(evidence.smallest.map_or(number, |one| one.min(number)));
        match self.had.get(&value) {
            Some(origins) => {
                for origin in origins {
                    let one = evidence.by_origin.entry(*origin).or_default();
                    one.after += 1;
                    one.latest += u64::from(self.latest.get(&(session, *origin)) == Some(&value));
                }
            }
            None if self.early.len() < VALUES_MAX => {
                let places = self.early.entry(value).or_default();
                if places.len() < 8 && !places.contains(&place) {
                    places.push(place);
                }
            }
            None => {}
        }
    }

    fn end(&mut self, session: u64, origin: usize, value: Value) {
        self.latest.insert((session, origin), value);
        if self.had.len() < VALUES_MAX || self.had.contains_key(&value) {
            let origins = self.had.entry(value).or_default();
            if !origins.contains(&origin) {
                origins.push(origin);
                for place in self.early.get(&value).into_iter().flatten() {
                    if let Some(evidence) = self.places.get_mut(place) {
                        evidence.by_origin.entry(origin).or_default().early += 1;
                    }
                }
            }
        }
    }

    /// Decides about all places. `carriers`: columns whose values places without a name take, if that is known.
    pub(crate) fn decide(
        self,
        keys: &KeyColumns,
        carriers: Option<&HashMap<Place, ColumnName>>,
    ) -> Provenance {
        let mut allowed = HashMap::new();
        for (place, evidence) in self.places {
            let origins = match carriers.and_then(|carriers| carriers.get(&place)) {
                Some(column) => origins_of(column, &self.names),
                None => decide_place(&evidence, &self.names, keys),
            };
            if !origins.is_empty() {
                allowed.insert(place, origins);
            }
        }
        let mut origins = self.origins;
        origins.retain(|_, origin| allowed.values().any(|all| all.contains(origin)));
        Provenance { origins, allowed }
    }
}

/// Returns the origins that have values of a column.
fn origins_of((table, column): &ColumnName, names: &[OriginName]) -> Vec<usize> {
    let is_it = |name: &OriginName| name.table.as_ref() == Some(table) && name.column == *column;
    let found = names.iter().enumerate().filter(|(_, name)| is_it(name));
    found.map(|(origin, _)| origin).collect()
}

/// Returns the origins whose values a place takes.
fn decide_place(evidence: &PlaceEvidence, names: &[OriginName], keys: &KeyColumns) -> Vec<usize> {
    let seen = || evidence.by_origin.iter().filter(|(_, one)| one.after > 0);
    let same =
        |origin: &usize| is_named(evidence.column.as_ref(), &names[*origin], keys) == Some(true);
    let named: Vec<usize> = seen().map(|(origin, _)| *origin).filter(same).collect();
    if !named.is_empty() {
        return named;
    }
    let values = evidence.values as f64;
    let is_small = evidence.smallest.is_some_and(|number| number < NUMBER_MIN);
    let by_chance = |one: &Evidence| match is_small {
        true => evidence.values < SMALL_VALUES_MIN || one.latest < evidence.values || one.early > 0,
        false => {
            (one.latest as f64) < LATEST_SHARE * values || one.early as f64 > EARLY_SHARE * values
        }
    };
    let latest = seen().filter(|(origin, one)| {
        !by_chance(one) && is_named(evidence.column.as_ref(), &names[**origin], keys).is_none()
    });
    latest.map(|(origin, _)| *origin).collect()
}

/// Whether the names say that a place takes values of an origin: the same column (`true`), or another one (`false`).
/// `None` if they say neither.
fn is_named(column: Option<&ColumnName>, origin: &OriginName, keys: &KeyColumns) -> Option<bool> {
    let (table, column) = column?;
    let own = keys.origin(table, column);
    let Some(other_table) = &origin.table else {
        // A sequence is named by its table and column, if a column owns it.
        let sequence = origin.sequence.as_ref()?;
        return (*sequence == format!("{table}_{column}_seq")).then_some(true);
    };
    let other = keys.origin(other_table, &origin.column);
    if own == other || names_column(column, other_table, &origin.column) {
        return Some(true);
    }
    // A key of its own, or of a third table.
    let is_of_another = own != (table.clone(), column.clone()) || keys.is_key(table, column);
    is_of_another.then_some(false)
}

/// Whether a column is named after the table and column that it references: `order_id` or `orders_id` for `orders.id`.
pub(crate) fn names_column(column: &str, table: &str, key: &str) -> bool {
    let Some(named) = column
        .strip_suffix(key)
        .and_then(|rest| rest.strip_suffix('_'))
    else {
        return false;
    };
    let plural = |ending: &str| table.strip_suffix(ending) == Some(named);
    named == table
        || plural("s")
        || plural("es")
        || table
            .strip_suffix("ies")
            .is_some_and(|stem| named == format!("{stem}y"))
}

/// Whether the statement was given the value that its result has in a column, so that it was not generated.
fn was_given(event: &Event, places: &ValuePlaces, column: &str, value: Value, number: i64) -> bool {
    places.places.iter().any(|place| {
        let is_same_place = match &place.column {
            Some(name) => name == column,
            None => number >= NUMBER_MIN,
        };
        is_same_place && value_at(event, &place.token) == Some(value)
    })
}

fn is_aggregate(column: &str) -> bool {
    AGGREGATE_COLUMNS
        .iter()
        .any(|name| column.eq_ignore_ascii_case(name))
}
