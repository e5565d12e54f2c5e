//! Indexes that could serve a wasteful step of a plan.

use super::wasteful_steps::WastefulStep;
use crate::access_predicates::{AccessPredicates, access_predicates, btree_shapes, has_index};
use crate::evidence::Evidence;
use crate::expression_indexes::expression_indexes;
use crate::finding::Change;
use crate::index_shape::IndexShape;
use crate::statement_text::{quote_identifier, set_columns, written_table};
use plans::PlanNode;
use run::{IndexKey, RelationFact};

/// Suggested index.
#[derive(Debug, PartialEq)]
pub(crate) enum Candidate {
    /// A b-tree of columns.
    Columns {
        /// Key columns.
        columns: Vec<String>,
        /// Predicate of a partial index.
        predicate: Vec<String>,
        /// Columns of the predicate.
        predicate_columns: Vec<String>,
        /// Index that begins the key and is not needed afterwards. The planner may prefer it, because
        /// it is smaller.
        replaced: Option<String>,
    },
    /// An index of an expression, or of another method.
    Special(Change),
}

impl Candidate {
    /// Returns the change that creates it on this table.
    pub(crate) fn change(&self, table: &str) -> Change {
        let (columns, predicate, replaced) = match self {
            Candidate::Special(change) => return change.clone(),
            Candidate::Columns {
                columns,
                predicate,
                replaced,
                ..
            } => (columns, predicate, replaced),
        };
        let columns: Vec<String> = columns
            .iter()
            .map(|column| quote_identifier(column))
            .collect();
        let columns = columns.join(", ");
        let (predicate, words) = match predicate.is_empty() {
            true => (String::new(), "an index on"),
            false => (
                format!(" WHERE {}", predicate.join(" AND ")),
                "a partial index on",
            ),
        };
        let create = format!("CREATE INDEX ON {table} ({columns}){predicate};");
        match replaced {
            None => Change::sql(format!("{words} {columns}"), create),
            Some(old) => Change::sql(
                format!("{words} {columns} in place of {old}, which the planner may prefer to it"),
                format!("{create}\nDROP INDEX {old};"),
            ),
        }
    }

    /// Returns the columns whose changes must be written to it.
    fn columns(&self) -> Vec<&String> {
        match self {
            Candidate::Columns {
                columns,
                predicate_columns,
                ..
            } => columns.iter().chain(predicate_columns).collect(),
            Candidate::Special(_) => Vec::new(),
        }
    }
}

/// Returns the indexes that could serve a step, the most promising first.
pub(super) fn candidates_of_step(
    evidence: &Evidence,
    table: &RelationFact,
    step: &WastefulStep<'_>,
) -> Vec<Candidate> {
    let mut asked = access_predicates(evidence, table, step.node, step.order);
    let joined = step.joined.iter();
    let joined = joined.filter(|column| !asked.equal.contains(column));
    let joined: Vec<String> = joined.cloned().collect();
    asked.equal.splice(0..0, joined);
    candidates_for(evidence, table, step.node, asked, step.limited)
}

/// Returns the indexes that could serve a node. `order` is the sort key of a sort above it.
pub(crate) fn candidates(
    evidence: &Evidence,
    table: &RelationFact,
    node: &PlanNode,
    order: Option<&str>,
    limited: bool,
) -> Vec<Candidate> {
    let asked = access_predicates(evidence, table, node, order);
    candidates_for(evidence, table, node, asked, limited)
}

fn candidates_for(
    evidence: &Evidence,
    table: &RelationFact,
    node: &PlanNode,
    asked: AccessPredicates,
    limited: bool,
) -> Vec<Candidate> {
    let mut orders = vec![asked.classical_key_order(limited)];
    // With an order and a range, or two ranges, either may be the better beginning.
    if let [.., one, two] = orders[0].as_slice()
        && !asked.equal.contains(one)
        && asked.range.contains(two)
        && limited
    {
        let mut other = orders[0].clone();
        let last = other.len() - 1;
        other.swap(last - 1, last);
        orders.push(other);
    }
    let there = btree_shapes(evidence, table);
    let mut all: Vec<Candidate> = Vec::new();
    for columns in orders.iter().filter(|columns| !columns.is_empty()) {
        // An index that begins with these columns exists and was not chosen.
        if has_index(&there, columns, false) {
            continue;
        }
        // More columns of equality are more selective, so that the planner takes the new index anyway.
        let has_range = columns.iter().any(|one| !asked.equal.contains(one));
        let replaced = replaced_index(evidence, table, &orders[0]).filter(|_| has_range);
        // Without an index to replace, the classical order is enough.
        if columns != &orders[0] && replaced.is_none() {
            continue;
        }
        all.push(Candidate::Columns {
            columns: columns.clone(),
            predicate: Vec::new(),
            predicate_columns: Vec::new(),
            replaced,
        });
    }
    if let Some(first) = asked.predicate_columns.first() {
        let columns = match orders[0].is_empty() {
            true => vec![first.clone()],
            false => orders[0].clone(),
        };
        if !has_index(&there, &columns, true) {
            let partial = Candidate::Columns {
                columns,
                predicate: asked.predicate,
                predicate_columns: asked.predicate_columns,
                replaced: None,
            };
            // Without another condition, only the predicate limits the rows that are read.
            match asked.equal.is_empty() && asked.range.is_empty() {
                true => all.insert(0, partial),
                false => all.push(partial),
            }
        }
    }
    let special = expression_indexes(evidence, table, node);
    all.extend(special.into_iter().map(Candidate::Special));
    all
}

/// Returns a plain index whose key is the beginning of these columns, so that an index of all of them
/// serves what it serves.
fn replaced_index(evidence: &Evidence, table: &RelationFact, columns: &[String]) -> Option<String> {
    let all = evidence.indexes(table).into_iter();
    let old = all
        .filter(|index| index.valid && index.key == IndexKey::Plain)
        .find(|index| {
            let shape = IndexShape::parse(index);
            let keys = shape.columns();
            shape.method == "btree"
            && shape.predicate.is_none()
            && shape.include.is_empty()
            && (1..columns.len()).contains(&keys.len())
            && keys.iter().zip(columns).all(|(key, column)| key == column)
            // An order or an operator class of its own serves something else.
            && shape.keys.iter().all(|key| !key.contains(' '))
        })?;
    Some(format!(
        "{}.{}",
        quote_identifier(&old.schema),
        quote_identifier(&old.name)
    ))
}

/// Describes the updates that could no longer be HOT.
pub(super) fn hot_risk(
    evidence: &Evidence,
    table: &RelationFact,
    candidates: &[Candidate],
) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for one in &evidence.statements {
        let is_of = written_table(&one.sql).is_some_and(|(_, name)| name == table.name);
        if !is_of {
            continue;
        }
        let set = set_columns(&one.sql);
        for candidate in candidates {
            let own = candidate.columns().into_iter();
            columns.extend(
                own.filter(|column| set.contains(column))
                    .map(String::as_str),
            );
        }
    }
    columns.sort_unstable();
    columns.dedup();
    match columns.is_empty() {
        true => String::new(),
        false => format!(
            "; updates of {} can no longer be HOT with an index that has it",
            columns.join(" and ")
        ),
    }
}
