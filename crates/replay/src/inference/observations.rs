//! Pass over a workload that collects calls of generators and uses of values.

use std::collections::HashMap;
use std::sync::Arc;

use sql::{PlaceRole, SessionEffect};
use workload::{Event, EventKind, Sqlstate};

use super::generated_columns::{GeneratedColumns, Generator, SequenceIndex};
use super::log_positions::{LogPosition, LogPositions};
use super::result_shape::{InsertShape, ResultShape};
use super::sequence_values::{Call, OwnUse, SequenceEvidence, Use};
use super::uuid_values::{FirstUse, OwnResult, UuidEvidence};
use crate::event_id::EventId;
use crate::generated::{
    ColumnName, KeyColumns, Place, PlacedValue, StatementPlaces, Value, names_column,
};
use crate::statement_cache::TextCache;

/// Most values and calls that the pass remembers. After them, nothing more is inferred.
const OBSERVATIONS_MAX: usize = 2 << 20;
/// Maximum number of values that are considered after a call in its session.
const OWN_USES_MAX: u8 = 4;
/// Most statements between reading a row by a UUID and using its key.
const LINK_STATEMENTS_MAX: u32 = 8;
/// Usual time between the lines of one execution, and the longest one. A log has the durations of Parse, Bind and Execute
/// alone.
const STEPS_US: i64 = 10_000;
const STEPS_US_MAX: i64 = 1_000_000;

/// Properties of a text.
#[derive(Debug)]
struct TextProperties {
    shape: Option<ResultShape>,
    effect: SessionEffect,
}

/// Call whose session has not made the next one of the sequence.
#[derive(Debug, Clone, Copy)]
struct OpenCall {
    call: usize,
    rows: usize,
    transaction: u64,
    own_uses: u8,
}

/// Row that a session read by a UUID, and whose key it may use next.
#[derive(Debug, Clone)]
struct PendingLink {
    column: ColumnName,
    value: Value,
    transaction: u64,
    statements_left: u32,
}

/// Whether the result of a call's statement has its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReturnsValue {
    Never,
    /// Unless an existing row conflicts.
    Conditionally,
    Always,
}

#[derive(Debug, Default)]
struct SessionState {
    /// Number of transactions that are over.
    transaction: u64,
    in_transaction: bool,
    calls: HashMap<SequenceIndex, OpenCall>,
    last_sequence: Option<SequenceIndex>,
    /// Sequences that the last statement called, and whether it came in several messages.
    running: Vec<(SequenceIndex, bool)>,
    /// Results with a UUID that has not been used, and their transactions.
    uuids: HashMap<ColumnName, (EventId, u64)>,
    link: Option<PendingLink>,
}

/// Pass over a workload.
pub(crate) struct InferencePass<'k> {
    keys: &'k KeyColumns,
    pub(super) columns: &'k GeneratedColumns,
    pub(super) positions: LogPositions,
    texts: TextCache<Arc<TextProperties>>,
    sessions: HashMap<u64, SessionState>,
    pub(super) sequences: Vec<SequenceEvidence>,
    breaks: Vec<usize>,
    pub(super) uuids: HashMap<ColumnName, UuidEvidence>,
    /// Uses at places without a column, of values after a call in their session.
    pub(super) placed: HashMap<(Place, SequenceIndex), Vec<OwnUse>>,
    /// Generated column whose values a column takes.
    resolved: HashMap<ColumnName, Option<ColumnName>>,
    /// Names of the columns of results.
    pub(super) names: HashMap<EventId, Arc<[String]>>,
    observations: usize,
}

impl<'k> InferencePass<'k> {
    pub(crate) fn new(keys: &'k KeyColumns, columns: &'k GeneratedColumns) -> Self {
        let count = columns.sequences().len();
        InferencePass {
            keys,
            columns,
            positions: LogPositions::default(),
            texts: TextCache::default(),
            sessions: HashMap::new(),
            sequences: (0..count).map(|_| SequenceEvidence::default()).collect(),
            breaks: vec![0; count],
            uuids: HashMap::new(),
            placed: HashMap::new(),
            resolved: HashMap::new(),
            names: HashMap::new(),
            observations: 0,
        }
    }

    /// Takes the next event.
    pub(crate) fn add(&mut self, event: &Event, places: &StatementPlaces) {
        if self.observations > OBSERVATIONS_MAX {
            return;
        }
        let position = self.positions.of(event);
        self.end_calls(event, position);
        let (EventKind::Simple { sql } | EventKind::Execute { sql, .. }) = &event.kind else {
            return;
        };
        let keys = self.keys;
        let properties = self.texts.get(sql, |sql| {
            Arc::new(TextProperties {
                shape: ResultShape::of(sql, keys),
                effect: SessionEffect::of(sql),
            })
        });
        let properties = properties.clone();
        self.use_values(event, position, places);
        if let Some(shape) = &properties.shape
            && takes_values(event.outcome.sqlstate)
        {
            self.add_call(event, position, shape);
        }
        let state = self.sessions.entry(event.session).or_default();
        let effect = properties.effect;
        if effect.ends_transaction || !state.in_transaction && !effect.begins_transaction {
            state.transaction += 1;
        }
        state.in_transaction =
            effect.begins_transaction || state.in_transaction && !effect.ends_transaction;
    }

    /// Removes a session that is over.
    pub(crate) fn end_session(&mut self, session: u64) {
        self.sessions.remove(&session);
    }

    #[cfg(test)]
    pub(super) fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Extends the calls of the session's previous statement to the latest time at which they may have ended.
    fn end_calls(&mut self, event: &Event, position: LogPosition) {
        let Some(state) = self.sessions.get_mut(&event.session) else {
            return;
        };
        for (sequence, has_steps) in state.running.drain(..) {
            if let Some(open) = state.calls.get(&sequence) {
                let calls = &mut self.sequences[sequence].calls[open.call..][..open.rows];
                for call in calls {
                    call.next_position = position;
                    if !has_steps {
                        continue;
                    }
                    let continued_us = event.due_us.max(call.end_us);
                    call.latest_us = continued_us.min(call.end_us + STEPS_US_MAX);
                    call.end_us = continued_us.min(call.end_us + STEPS_US);
                }
            }
        }
    }

    fn use_values(&mut self, event: &Event, position: LogPosition, places: &StatementPlaces) {
        if let Some(state) = self.sessions.get_mut(&event.session) {
            state.link = state.link.take().and_then(|mut link| {
                link.statements_left = link.statements_left.checked_sub(1)?;
                Some(link)
            });
        }
        let mut found: Vec<(PlacedValue<'_>, Option<ColumnName>)> = Vec::new();
        places.for_each_value(event, |placed| {
            let column = placed.column();
            let generated = column.and_then(|column| self.resolve(&column));
            found.push((placed, generated));
        });
        let key = found.iter().find_map(|(placed, generated)| {
            let Generator::Sequence(sequence) = self.columns.generator(generated.as_ref()?)? else {
                return None;
            };
            let Value::Integer(number) = placed.value else {
                return None;
            };
            Some((generated.clone()?.0, sequence, number))
        });
        if let Some((table, sequence, number)) = &key {
            self.end_link(event.session, table, *sequence, *number);
        }
        for (placed, generated) in found {
            match (placed.value, generated) {
                (Value::Integer(number), Some(column)) => {
                    if let Some(Generator::Sequence(sequence)) = self.columns.generator(&column) {
                        self.use_number(event, position, sequence, number);
                    }
                }
                (Value::Integer(number), None) => self.use_at_place(event, &placed, number),
                (value @ Value::Uuid(_), Some(column)) => {
                    let is_compared = placed.place.role == PlaceRole::Compared;
                    self.use_uuid(event, column, value, is_compared, key.as_ref());
                }
                _ => {}
            }
        }
    }

    /// Returns the generated column whose values a column takes.
    fn resolve(&mut self, column: &ColumnName) -> Option<ColumnName> {
        if let Some(known) = self.resolved.get(column) {
            return known.clone();
        }
        let (table, name) = column;
        let origin = self.keys.origin(table, name);
        let resolved = match self.columns.generator(&origin) {
            Some(_) => Some(origin),
            None if origin != *column || self.keys.is_key(table, name) => None,
            None => {
                let mut named = self
                    .columns
                    .all()
                    .filter(|(of, key)| names_column(name, of, key));
                named.next().filter(|_| named.next().is_none()).cloned()
            }
        };
        self.resolved.insert(column.clone(), resolved.clone());
        resolved
    }

    fn use_number(
        &mut self,
        event: &Event,
        position: LogPosition,
        sequence: SequenceIndex,
        value: i64,
    ) {
        let evidence = &mut self.sequences[sequence];
        if evidence.first_uses.contains_key(&value) {
            return;
        }
        self.observations += 1;
        let used = Use {
            position,
            due_us: event.due_us,
        };
        evidence.first_uses.insert(value, used);
        let Some(state) = self.sessions.get_mut(&event.session) else {
            return;
        };
        // A value of several rows may be of each.
        if let Some(open) = state.calls.get_mut(&sequence)
            && open.rows == 1
            && open.own_uses < OWN_USES_MAX
        {
            open.own_uses += 1;
            evidence.own_uses.push(OwnUse {
                call: open.call,
                value,
                in_transaction: open.transaction == state.transaction,
            });
        }
    }

    /// Notes a number at a place that names no generated column. It may be a value of the session's last call.
    fn use_at_place(&mut self, event: &Event, placed: &PlacedValue<'_>, value: i64) {
        // Its values are those of a key.
        let is_of_another = placed.column().is_some_and(|(table, column)| {
            self.keys.is_key(&table, &column) || self.keys.referenced(&table, &column).is_some()
        });
        let Some(state) = self.sessions.get(&event.session).filter(|_| !is_of_another) else {
            return;
        };
        for (sequence, open) in state.calls.iter().filter(|(_, open)| open.rows == 1) {
            let uses = self.placed.entry((placed.id, *sequence)).or_default();
            // Of one call, the first counts.
            if uses.last().is_none_or(|last| last.call != open.call) {
                self.observations += 1;
                uses.push(OwnUse {
                    call: open.call,
                    value,
                    in_transaction: open.transaction == state.transaction,
                });
            }
        }
    }

    fn use_uuid(
        &mut self,
        event: &Event,
        column: ColumnName,
        value: Value,
        is_compared: bool,
        key: Option<&(String, SequenceIndex, i64)>,
    ) {
        let state = self.sessions.entry(event.session).or_default();
        let evidence = self.uuids.entry(column.clone()).or_default();
        if let std::collections::hash_map::Entry::Vacant(entry) = evidence.first_uses.entry(value) {
            self.observations += 1;
            entry.insert(FirstUse {
                due_us: event.due_us,
                own: match state.uuids.remove(&column) {
                    None => OwnResult::None,
                    Some((id, transaction)) if transaction == state.transaction => {
                        OwnResult::InTransaction(id)
                    }
                    Some((id, _)) => OwnResult::Earlier(id),
                },
            });
        }
        match key {
            Some((table, sequence, number)) if *table == column.0 => {
                evidence.links.push((value, *sequence, *number));
                self.observations += 1;
            }
            _ if is_compared => {
                state.link = Some(PendingLink {
                    column,
                    value,
                    transaction: state.transaction,
                    statements_left: LINK_STATEMENTS_MAX,
                });
            }
            _ => {}
        }
    }

    /// Takes the first key of a table that a session uses after it read a row of it by a UUID.
    fn end_link(&mut self, session: u64, table: &str, sequence: SequenceIndex, number: i64) {
        let Some(state) = self.sessions.get_mut(&session) else {
            return;
        };
        let same = |link: &mut PendingLink| link.column.0 == table;
        if let Some(link) = state.link.take_if(same)
            && (!state.in_transaction || link.transaction == state.transaction)
        {
            let evidence = self.uuids.entry(link.column).or_default();
            evidence.links.push((link.value, sequence, number));
            self.observations += 1;
        }
    }

    fn add_call(&mut self, event: &Event, position: LogPosition, shape: &ResultShape) {
        match shape {
            ResultShape::Insert(insert) => self.add_insert(event, position, insert),
            ResultShape::NextValue { sequence, returned } => {
                if let Some(sequence) = self.columns.sequence_named(sequence) {
                    self.name_result(event, returned);
                    self.call(event, position, sequence, 1, ReturnsValue::Always);
                }
            }
            ResultShape::CurrentValue { sequence, returned } => {
                let state = self.sessions.get(&event.session);
                let sequence = match sequence {
                    Some(name) => self.columns.sequence_named(name),
                    None => state.and_then(|state| state.last_sequence),
                };
                let open = sequence.and_then(|sequence| {
                    let open = state?.calls.get(&sequence)?;
                    (open.rows == 1).then_some((sequence, open.call))
                });
                // The result of the INSERT has the value already.
                if let Some((sequence, call)) = open
                    && self.sequences[sequence].calls[call].result.is_none()
                {
                    self.name_result(event, returned);
                    let id = (event.session, event.sequence);
                    self.sequences[sequence].calls[call].result = Some(id);
                }
            }
            ResultShape::Unknown { table } => {
                for (_, generator) in self.columns.of_table(table) {
                    if let Generator::Sequence(sequence) = generator {
                        self.breaks[sequence] += 1;
                    }
                }
            }
        }
    }

    fn add_insert(&mut self, event: &Event, position: LogPosition, insert: &InsertShape) {
        let filled: Vec<(ColumnName, Generator)> = self
            .columns
            .of_table(&insert.table)
            .filter(|((_, column), _)| !insert.given.contains(column))
            .map(|(column, generator)| (column.clone(), generator))
            .collect();
        let failed = event.outcome.sqlstate.is_some();
        let mut named = false;
        for (column, generator) in filled {
            let returns = match !failed && insert.returned.contains(&column.1) {
                true if insert.may_lack_row => ReturnsValue::Conditionally,
                true => ReturnsValue::Always,
                false => ReturnsValue::Never,
            };
            named |= returns == ReturnsValue::Always;
            match generator {
                Generator::Sequence(sequence) => {
                    self.call(event, position, sequence, insert.rows, returns);
                }
                Generator::Uuid if returns == ReturnsValue::Always && insert.rows == 1 => {
                    let id = (event.session, event.sequence);
                    let state = self.sessions.entry(event.session).or_default();
                    state.uuids.insert(column.clone(), (id, state.transaction));
                    let evidence = self.uuids.entry(column).or_default();
                    evidence.results.insert(id, event.due_us);
                    self.observations += 1;
                }
                Generator::Uuid if returns == ReturnsValue::Never => {}
                Generator::Uuid => {
                    let evidence = self.uuids.entry(column).or_default();
                    evidence.in_other_results += insert.rows as u64;
                }
            }
        }
        if named {
            self.name_result(event, &insert.returned);
        }
    }

    fn name_result(&mut self, event: &Event, names: &Arc<[String]>) {
        let id = (event.session, event.sequence);
        self.names.insert(id, names.clone());
    }

    fn call(
        &mut self,
        event: &Event,
        position: LogPosition,
        sequence: SequenceIndex,
        rows: usize,
        returns: ReturnsValue,
    ) {
        let duration_us = event.outcome.duration_us.unwrap_or(0);
        let id = (event.session, event.sequence);
        let end_us = event.due_us.saturating_add_unsigned(duration_us);
        let evidence = &mut self.sequences[sequence];
        let first = evidence.calls.len();
        evidence.calls.extend((0..rows).map(|row| Call {
            statement: id,
            result: (returns == ReturnsValue::Always).then_some(id),
            is_conditional: returns == ReturnsValue::Conditionally,
            row,
            position,
            next_position: LogPosition::MAX,
            began_us: event.due_us,
            least_end_us: end_us,
            end_us,
            latest_us: end_us,
            breaks: self.breaks[sequence],
        }));
        self.observations += rows;
        let state = self.sessions.entry(event.session).or_default();
        state.last_sequence = Some(sequence);
        let open = OpenCall {
            call: first,
            rows,
            transaction: state.transaction,
            own_uses: 0,
        };
        state.calls.insert(sequence, open);
        let has_steps = matches!(event.kind, EventKind::Execute { .. });
        state.running.push((sequence, has_steps));
    }
}

/// Whether a statement with this outcome took values. Most errors of rows come after that.
fn takes_values(sqlstate: Option<Sqlstate>) -> bool {
    // Integrity constraints, rollbacks, locks that are not available, cancelled statements (PostgreSQL documentation,
    // appendix A).
    const AFTER_CALLS: [&[u8]; 4] = [b"23", b"40", b"55", b"57"];
    sqlstate.is_none_or(|code| AFTER_CALLS.contains(&&code.0[..2]))
}
