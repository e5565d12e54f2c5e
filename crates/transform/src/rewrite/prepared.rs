//! Repeated simple statements as prepared ones, as a client sends them whose library prepares.
//!
//! A session prepares a statement that it repeats: one text with `$1` in the place of those literals
//! that differ between repetitions anywhere in the workload. What never differs is part of the text, as it would be in a
//! program's: so a partial index on `state = 'due'` stays of use. Parameters have the types that PostgreSQL gives
//! such literals, so that the same operators are chosen.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::insert::Why;
use super::literals::{Literal, literals, with_parameters};
use sql::split_statements;
use workload::{Event, EventKind, Parameter, Particulars};

/// Statements of more shapes than this are left alone, so that memory has a bound.
const SHAPES_MAX: usize = 200_000;

#[derive(Debug)]
struct Shape {
    /// The values of its first.
    first: Vec<Box<str>>,
    /// Which of them differ.
    differs: Vec<bool>,
}

/// Knows from a first pass what repeats. See the module's text.
#[derive(Debug)]
pub(super) struct Preparing {
    /// A session prepares what it sends so often.
    times: u32,
    shapes: HashMap<u64, Shape>,
    /// How often a session sends a shape.
    sent: HashMap<(u64, u64), u32>,
}

impl Preparing {
    pub(super) fn new(times: u32) -> Self {
        Preparing {
            times,
            shapes: HashMap::new(),
            sent: HashMap::new(),
        }
    }

    /// Takes note of an event of the first pass.
    pub(super) fn survey(&mut self, event: &Event) {
        let Some(Ok((_, found, shape))) = read(event) else {
            return;
        };
        if self.shapes.len() >= SHAPES_MAX && !self.shapes.contains_key(&shape) {
            return;
        }
        *self.sent.entry((event.session, shape)).or_default() += 1;
        let known = self.shapes.entry(shape).or_insert_with(|| Shape {
            first: found.iter().map(|literal| literal.value.clone()).collect(),
            differs: vec![false; found.len()],
        });
        for (at, literal) in found.iter().enumerate() {
            known.differs[at] |= known.first[at] != literal.value;
        }
    }

    /// The statement prepared; `None` of what is no simple statement.
    ///
    /// # Errors
    /// Why it stays as it is.
    pub(super) fn prepared(&self, event: &Event) -> Option<Result<Event, Why>> {
        let (sql, found, shape) = match read(event)? {
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
        if is_grouped(sql) && holds_twice(differing()) {
            return Some(Err("a value that stands twice beside GROUP BY"));
        }
        let text = with_parameters(sql, differing());
        let types: Vec<u32> = differing().map(|literal| literal.type_oid).collect();
        let parameters = differing()
            .map(|literal| Some(Parameter::Text(literal.value.clone())))
            .collect();
        let mut hasher = DefaultHasher::new();
        (&text, &types).hash(&mut hasher);
        let particulars = Particulars {
            parameter_types: types,
            ..event.particulars.as_deref().cloned().unwrap_or_default()
        };
        Some(Ok(Event {
            kind: EventKind::Execute {
                statement: format!("repeated_{:016x}", hasher.finish()).into(),
                portal: "".into(),
                sql: text,
                parameters,
            },
            particulars: Some(Arc::new(particulars)),
            ..event.clone()
        }))
    }
}

type Read<'e> = (&'e Arc<str>, Vec<Literal>, u64);

/// The text, what could be parameters of it, and its shape; `None` of what is no simple statement.
fn read(event: &Event) -> Option<Result<Read<'_>, Why>> {
    let EventKind::Simple { sql } = &event.kind else {
        return None;
    };
    if event.prelude {
        return Some(Err("what a slice kept from before"));
    }
    if event.unreplayable.is_some() {
        return Some(Err("it cannot be replayed"));
    }
    let found = match literals(sql)? {
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

/// Where rows are grouped by an expression, its parts have to be the same in the list of results; two parameters
/// never are.
fn is_grouped(sql: &str) -> bool {
    let all = split_statements(sql);
    all.iter()
        .flat_map(|part| &part.words)
        .any(|word| word.is("group") || word.is("distinct"))
}

fn holds_twice<'l>(literals: impl Iterator<Item = &'l Literal>) -> bool {
    let mut values: Vec<&str> = literals.map(|literal| &*literal.value).collect();
    values.sort_unstable();
    values.windows(2).any(|two| two[0] == two[1])
}
