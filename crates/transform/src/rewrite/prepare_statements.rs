//! Turns repeated simple statements into prepared ones, as a client library does that prepares.
//!
//! A session prepares a statement that it repeats. Its text has `$1` in place of the literals that
//! differ between repetitions anywhere in the workload. Literals that never differ stay in the
//! text, as they would in a program: so a partial index on `state = 'due'` can still be used.
//! Parameters have the types that PostgreSQL gives such literals, so that the same operators are
//! chosen.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::insert::Reason;
use super::literals::{Literal, parameterisable_literals, with_parameters};
use sql::split_statements;
use workload::{Event, EventKind, Parameter, WireDetails};

/// Maximum number of shapes, which bounds the memory. Statements of further shapes stay unchanged.
const SHAPES_MAX: usize = 200_000;

#[derive(Debug)]
struct StatementShape {
    /// Values of its first statement.
    first: Vec<Box<str>>,
    /// Whether each value differs between statements.
    differs: Vec<bool>,
}

/// Finds repetitions in a first pass; see the module documentation.
#[derive(Debug)]
pub(super) struct StatementPreparer {
    /// Number of executions from which a session prepares a statement.
    times: u32,
    shapes: HashMap<u64, StatementShape>,
    /// Number of statements of a shape by session.
    sent: HashMap<(u64, u64), u32>,
}

impl StatementPreparer {
    pub(super) fn new(times: u32) -> Self {
        StatementPreparer {
            times,
            shapes: HashMap::new(),
            sent: HashMap::new(),
        }
    }

    /// Records an event of the first pass.
    pub(super) fn survey(&mut self, event: &Event) {
        let Some(Ok((_, found, shape))) = parse(event) else {
            return;
        };
        if self.shapes.len() >= SHAPES_MAX && !self.shapes.contains_key(&shape) {
            return;
        }
        *self.sent.entry((event.session, shape)).or_default() += 1;
        let known = self.shapes.entry(shape).or_insert_with(|| StatementShape {
            first: found.iter().map(|literal| literal.value.clone()).collect(),
            differs: vec![false; found.len()],
        });
        for (at, literal) in found.iter().enumerate() {
            known.differs[at] |= known.first[at] != literal.value;
        }
    }

    /// Returns the prepared statement; `None` if the event is no simple statement.
    ///
    /// # Errors
    /// Returns the reason if the statement stays unchanged.
    pub(super) fn prepare(&self, event: &Event) -> Option<Result<Event, Reason>> {
        let (sql, found, shape) = match parse(event)? {
            Ok(read) => read,
            Err(why) => return Some(Err(why)),
        };
        let Some(known) = self.shapes.get(&shape) else {
            return Some(Err("too many different statements"));
        };
        let times = self.sent.get(&(event.session, shape)).copied();
        if times.unwrap_or_default() < self.times {
            return Some(Err("its session does not repeat it"));
        }
        let differing = || {
            let all = found.iter().zip(&known.differs);
            all.filter(|(_, differs)| **differs)
                .map(|(literal, _)| literal)
        };
        if is_grouped(sql) && has_duplicate(differing()) {
            return Some(Err(
                "a value that occurs twice in a statement with GROUP BY",
            ));
        }
        let text = with_parameters(sql, differing());
        let types: Vec<u32> = differing().map(|literal| literal.type_oid).collect();
        let parameters = differing()
            .map(|literal| Some(Parameter::Text(literal.value.clone())))
            .collect();
        let mut hasher = DefaultHasher::new();
        (&text, &types).hash(&mut hasher);
        let particulars = WireDetails {
            parameter_types: types,
            ..event.wire_details.as_deref().cloned().unwrap_or_default()
        };
        Some(Ok(Event {
            kind: EventKind::Execute {
                statement: format!("repeated_{:016x}", hasher.finish()).into(),
                portal: "".into(),
                sql: text,
                parameters,
            },
            wire_details: Some(Arc::new(particulars)),
            ..event.clone()
        }))
    }
}

type ParsedStatement<'e> = (&'e Arc<str>, Vec<Literal>, u64);

/// Returns the text, its possible parameters and its shape; `None` if the event is no simple
/// statement.
fn parse(event: &Event) -> Option<Result<ParsedStatement<'_>, Reason>> {
    let EventKind::Simple { sql } = &event.kind else {
        return None;
    };
    if event.prelude {
        return Some(Err("what a slice kept from before"));
    }
    if event.unreplayable.is_some() {
        return Some(Err("it cannot be replayed"));
    }
    let found = match parameterisable_literals(sql)? {
        Ok(found) => found,
        Err(why) => return Some(Err(why)),
    };
    let mut hasher = DefaultHasher::new();
    with_parameters(sql, found.iter()).hash(&mut hasher);
    for literal in &found {
        literal.type_oid.hash(&mut hasher);
    }
    Some(Ok((sql, found, hasher.finish())))
}

/// Returns whether rows are grouped by an expression. Its parts must be the same in the list of
/// results, and two parameters never are.
fn is_grouped(sql: &str) -> bool {
    let all = split_statements(sql);
    all.iter()
        .flat_map(|part| &part.words)
        .any(|word| word.is("group") || word.is("distinct"))
}

fn has_duplicate<'l>(literals: impl Iterator<Item = &'l Literal>) -> bool {
    let mut values: Vec<&str> = literals.map(|literal| &*literal.value).collect();
    values.sort_unstable();
    values.windows(2).any(|two| two[0] == two[1])
}
