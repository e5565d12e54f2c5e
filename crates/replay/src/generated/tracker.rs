//! Finds, for the dispatcher, the execution that each used value comes from.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use sql::{Fingerprint, ValueToken};
use workload::{Event, EventKind, Parameter};

use super::event_values::{StatementPlaces, result_values};
use super::expected_rows::ExpectedRows;
use super::provenance::Provenance;
use super::replayed_values::ValueNumber;
use super::value::{INT8, INT8_ARRAY, Value, is_smaller_integer, is_smaller_integer_array};
use crate::event_stream::COPY_SESSION_OFFSET;

/// Most values that are remembered; the oldest are forgotten first.
const VALUES_MAX: usize = 1 << 20;
/// Most executions that are remembered of one value and origin.
const SOURCES_MAX: usize = 8;

/// Value of a statement that was generated before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsedValue {
    /// Its place in the statement.
    pub(crate) token: ValueToken,
    /// Its bytes within a parameter that is an array or a document.
    pub(crate) part: Option<Range<usize>>,
    pub(crate) captured: Value,
    pub(crate) number: ValueNumber,
}

/// Execution that generated a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ValueSource {
    pub(crate) session: u64,
    pub(crate) sequence: u64,
    /// Transaction of the session, as the caller counts them.
    pub(crate) transaction: u64,
    /// End of the execution in captured time.
    pub(crate) end_us: i64,
    pub(crate) value: Value,
    number: ValueNumber,
}

/// Copy of the workload, value, and its origin; no origin for UUIDs and snapshots.
type SourceKey = (u64, Value, Option<usize>);

/// Follows the generated values of a workload, in the order of its events.
pub(crate) struct ValueTracker<'p> {
    provenance: &'p Provenance,
    /// Sources of each value, the latest last.
    sources: HashMap<SourceKey, Vec<ValueSource>>,
    order: VecDeque<SourceKey>,
    next: ValueNumber,
    /// Precision of captured times.
    precision_us: i64,
}

/// Generated values of an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// Values of its result that may be used later.
    pub(crate) expected: Option<Box<ExpectedRows>>,
    /// Values that it uses.
    pub(crate) used: Vec<UsedValue>,
    /// Executions of other sessions that these come from.
    pub(crate) sources: Vec<ValueSource>,
}

impl<'p> ValueTracker<'p> {
    pub(crate) fn new(provenance: &'p Provenance, precision_us: i64) -> Self {
        ValueTracker {
            provenance,
            sources: HashMap::new(),
            order: VecDeque::new(),
            next: 0,
            precision_us,
        }
    }

    /// Declares parameters that take generated numbers as bigint. Drivers choose the smallest type of a number, which
    /// another number may not fit.
    pub(crate) fn widen_numbers(&mut self, event: &mut Event, places: &StatementPlaces) {
        let (EventKind::Execute { parameters, .. }, Some(details)) =
            (&mut event.kind, &mut event.wire_details)
        else {
            return;
        };
        for (id, place) in places.with_ids() {
            let ValueToken::Parameter(number) = place.token else {
                continue;
            };
            let declared = details.parameter_types.get(number).copied().unwrap_or(0);
            if place.column.is_none() || self.provenance.allowed(id).is_empty() {
                continue;
            }
            if is_smaller_integer(declared) {
                Arc::make_mut(details).parameter_types[number] = INT8;
                if let Some(Some(Parameter::Binary(bytes))) = parameters.get_mut(number)
                    && let Some(wide) = widen(bytes)
                {
                    *bytes = Box::new(wide.to_be_bytes());
                }
            } else if is_smaller_integer_array(declared)
                && let Some(Some(parameter)) = parameters.get_mut(number)
                && let Some(wide) = widen_elements(parameter)
            {
                Arc::make_mut(details).parameter_types[number] = INT8_ARRAY;
                *parameter = wide;
            }
        }
    }

    /// Takes the next event.
    pub(crate) fn track(
        &mut self,
        event: &Event,
        fingerprint: Option<Fingerprint>,
        places: &StatementPlaces,
        transaction: u64,
    ) -> Tracked {
        let Some(fingerprint) = fingerprint else {
            return Tracked::default();
        };
        let mut tracked = Tracked::default();
        let copy = event.session / COPY_SESSION_OFFSET;
        if !self.sources.is_empty() {
            places.for_each_value(event, |placed| {
                let allowed = self.provenance.allowed(placed.id);
                if let Some(source) = self.find_source(event, placed.value, allowed) {
                    tracked.used.push(UsedValue {
                        token: placed.place.token.clone(),
                        part: placed.part,
                        captured: placed.value,
                        number: source.number,
                    });
                    if source.session != event.session {
                        tracked.sources.push(source);
                    }
                }
            });
        }
        tracked.expected = self.expect(event, fingerprint, transaction, copy);
        tracked
    }

    /// Numbers the values of a result that may be used later.
    fn expect(
        &mut self,
        event: &Event,
        fingerprint: Fingerprint,
        transaction: u64,
        copy: u64,
    ) -> Option<Box<ExpectedRows>> {
        let details = event.wire_details.as_ref()?;
        let rows = details.first_rows.as_ref()?;
        let end_us = event
            .due_us
            .saturating_add_unsigned(event.outcome.duration_us.unwrap_or(0));
        let mut values = vec![None; rows.values.len()];
        for (index, column, _, value) in result_values(event) {
            let origin = match value {
                Value::Integer(_) => match self.provenance.origin((fingerprint, column)) {
                    Some(origin) => Some(origin),
                    None => continue,
                },
                Value::Uuid(_) | Value::Snapshot(_) => None,
            };
            let number = self.next;
            self.next += 1;
            values[index] = Some((value, number));
            self.remember(
                (copy, value, origin),
                ValueSource {
                    session: event.session,
                    sequence: event.sequence,
                    transaction,
                    end_us,
                    value,
                    number,
                },
            );
        }
        let any = values.iter().any(Option::is_some);
        any.then(|| Box::new(ExpectedRows::new(rows.columns.len(), values.into())))
    }

    fn remember(&mut self, key: SourceKey, source: ValueSource) {
        let sources = self.sources.entry(key).or_default();
        if sources.is_empty() {
            self.order.push_back(key);
        }
        // Of one session, the latest counts.
        sources.retain(|one| one.session != source.session);
        if sources.len() == SOURCES_MAX {
            // The first generated the value.
            sources.remove(1);
        }
        sources.push(source);
        if self.order.len() > VALUES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.sources.remove(&oldest);
        }
    }

    /// Returns the latest execution of the event's session that had the value, or else the first of another one that was
    /// over when the event began: a later one only found what the first generated.
    fn find_source(&self, event: &Event, value: Value, allowed: &[usize]) -> Option<ValueSource> {
        let copy = event.session / COPY_SESSION_OFFSET;
        let origins = match value {
            Value::Integer(_) => allowed.iter().copied().map(Some).collect(),
            Value::Uuid(_) | Value::Snapshot(_) => vec![None],
        };
        let all = || {
            let keys = origins.iter().map(|origin| (copy, value, *origin));
            keys.filter_map(|key| self.sources.get(&key)).flatten()
        };
        let own = all().filter(|one| one.session == event.session);
        let found = own.max_by_key(|one| one.number);
        let over = || all().filter(|one| one.end_us <= event.due_us + self.precision_us);
        found
            .or_else(|| over().min_by_key(|one| one.number))
            // The times of a log do not show exactly what was over.
            .or_else(|| match self.precision_us {
                0 => None,
                _ => all().min_by_key(|one| one.number),
            })
            .copied()
    }
}

/// Returns an array of smallint or integer as one of bigint; `None` if it is none.
fn widen_elements(parameter: &Parameter) -> Option<Parameter> {
    let Parameter::Binary(bytes) = parameter else {
        return Some(parameter.clone());
    };
    // Zero and negative numbers are elements, too.
    let mut wide = bytes.get(..8)?.to_vec();
    wide.extend(INT8.to_be_bytes());
    let dimensions = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let mut at = 12 + 8 * dimensions;
    wide.extend_from_slice(bytes.get(12..at)?);
    while at < bytes.len() {
        let length = u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
        at += 4;
        if length == u32::MAX {
            wide.extend(length.to_be_bytes());
            continue;
        }
        let element = widen(bytes.get(at..at.checked_add(length as usize)?)?)?;
        wide.extend(8_u32.to_be_bytes());
        wide.extend(element.to_be_bytes());
        at += length as usize;
    }
    (at == bytes.len()).then(|| Parameter::Binary(wide.into()))
}

/// Reads a binary smallint or integer.
fn widen(bytes: &[u8]) -> Option<i64> {
    Some(match bytes.len() {
        2 => i64::from(i16::from_be_bytes(bytes.try_into().ok()?)),
        4 => i64::from(i32::from_be_bytes(bytes.try_into().ok()?)),
        _ => return None,
    })
}
