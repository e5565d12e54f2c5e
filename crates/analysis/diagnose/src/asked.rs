//! What a step of a plan asks of a table, as far as an index could answer it: which columns it compares, in which
//! order its rows are wanted, and which conditions hang on no value.

use run::RelationFact;

use super::conditions::{Asks, conditions, order};
use super::evidence::Evidence;
use super::index_shape::IndexShape;
use super::statement_text::quoted;
use plans::PlanNode;

/// What a step asks of its table. Columns stand once each, in the order in which they are met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// Columns that are compared for equality.
    pub(super) equal: Vec<String>,
    /// Columns that its rows are ordered by.
    pub(super) ordered: Vec<String>,
    /// Columns that are compared with more than one value.
    pub(super) range: Vec<String>,
    /// Conditions that hang on no value, in SQL: of a partial index.
    pub(super) predicate: Vec<String>,
    /// The column of each of these.
    pub(super) hangs_on: Vec<String>,
    /// There is a condition that a b-tree does not answer, or of an expression.
    pub(super) has_others: bool,
}

impl Asked {
    /// The order of columns that is taught: what is compared for equality, then what rows are ordered by where the
    /// reading may end early, then ranges (documentation, 11.3).
    pub(super) fn classical(&self, limited: bool) -> Vec<String> {
        let ordered: &[String] = match limited {
            true => &self.ordered,
            false => &[],
        };
        let all = self.equal.iter().chain(ordered).chain(&self.range);
        let mut columns: Vec<String> = Vec::new();
        for column in all {
            if !columns.contains(column) {
                columns.push(column.clone());
            }
        }
        columns
    }
}

/// What a step asks. `sort`: the keys of a Sort above it.
pub(super) fn asked(
    evidence: &Evidence,
    table: &RelationFact,
    node: &PlanNode,
    sort: Option<&str>,
) -> Asked {
    let mut asked = Asked::default();
    let own = node
        .conditions
        .iter()
        .filter(|one| matches!(one.label.as_str(), "Filter" | "Index Cond" | "Recheck Cond"));
    let below = node.children.iter().filter(|child| child.is_part());
    let below = below.flat_map(|below| &below.conditions);
    let below = below.filter(|one| one.label == "Index Cond");
    for text in own.chain(below) {
        for one in conditions(&text.text, table) {
            let Some(column) = one.column else {
                asked.has_others = true;
                continue;
            };
            let name = quoted(&column);
            let predicate = match one.asks {
                Asks::Equal => {
                    add(&mut asked.equal, column);
                    continue;
                }
                Asks::Range => {
                    add(&mut asked.range, column);
                    continue;
                }
                Asks::Other => {
                    asked.has_others = true;
                    continue;
                }
                Asks::Null => format!("{name} IS NULL"),
                Asks::NotNull => format!("{name} IS NOT NULL"),
                Asks::Truth(true) => name,
                Asks::Truth(false) => format!("NOT {name}"),
            };
            if !asked.predicate.contains(&predicate) {
                asked.predicate.push(predicate);
                asked.hangs_on.push(column);
            }
        }
    }
    let by_index = || {
        // Read in the order of an index, rows are in that order.
        let name = node.index.as_deref()?;
        let all = evidence.indexes(table).into_iter();
        let index = all
            .filter(|index| index.name == name)
            .map(IndexShape::of)
            .next()?;
        Some(order(&index.keys.join(", "), table))
    };
    asked.ordered = match sort {
        Some(keys) => order(keys, table),
        None => by_index().unwrap_or_default(),
    };
    asked
}

fn add(columns: &mut Vec<String>, column: String) {
    if !columns.contains(&column) {
        columns.push(column);
    }
}

/// The b-trees that a table has.
pub(super) fn shapes(evidence: &Evidence, table: &RelationFact) -> Vec<IndexShape> {
    evidence
        .indexes(table)
        .into_iter()
        .filter(|index| index.valid)
        .map(IndexShape::of)
        .filter(|shape| shape.method == "btree")
        .collect()
}

/// Whether one of them begins with these columns, and is partial if it is to be.
pub(super) fn is_there(shapes: &[IndexShape], columns: &[String], partial: bool) -> bool {
    shapes.iter().any(|shape| {
        let begins = shape
            .columns()
            .iter()
            .take(columns.len())
            .eq(columns.iter());
        begins && shape.predicate.is_some() == partial
    })
}
