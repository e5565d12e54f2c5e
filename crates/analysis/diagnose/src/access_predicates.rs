//! Predicates and orders by which a plan's node accesses a table, as far as an index could serve
//! them.

use run::RelationFact;

use super::conditions::{ColumnPredicate, conditions, order};
use super::evidence::Evidence;
use super::index_shape::IndexShape;
use super::statement_text::quote_identifier;
use plans::PlanNode;

/// Predicates and orders of a node on its table. Each column is listed once, in order of
/// appearance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AccessPredicates {
    /// Columns compared for equality.
    pub(super) equal: Vec<String>,
    /// Columns that the rows are ordered by.
    pub(super) ordered: Vec<String>,
    /// Columns compared with a range or with several values.
    pub(super) range: Vec<String>,
    /// Conditions without parameters, in SQL, which can be the predicate of a partial index.
    pub(super) predicate: Vec<String>,
    /// Column of each of these conditions.
    pub(super) predicate_columns: Vec<String>,
    /// Whether there is a condition on an expression, or one that a B-tree cannot serve.
    pub(super) has_others: bool,
}

impl AccessPredicates {
    /// Returns the columns in the recommended key order: equality, then sort columns if the scan
    /// may end early, then ranges (documentation, 11.3).
    pub(super) fn classical_key_order(&self, limited: bool) -> Vec<String> {
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

/// Collects the predicates of a node. `sort` is the sort key of a Sort above it.
pub(super) fn access_predicates(
    evidence: &Evidence,
    table: &RelationFact,
    node: &PlanNode,
    sort: Option<&str>,
) -> AccessPredicates {
    let mut asked = AccessPredicates::default();
    let own = node
        .conditions
        .iter()
        .filter(|one| matches!(one.label.as_str(), "Filter" | "Index Cond" | "Recheck Cond"));
    let below = node.children.iter().filter(|child| child.is_part());
    let below = below.flat_map(|below| &below.conditions);
    let below = below.filter(|one| one.label == "Index Cond");
    for text in own.chain(below) {
        let own = mask_other_tables(&text.text, node);
        for one in conditions(&own, table) {
            let Some(column) = one.column else {
                asked.has_others = true;
                continue;
            };
            let name = quote_identifier(&column);
            let predicate = match one.asks {
                ColumnPredicate::Equal => {
                    add(&mut asked.equal, column);
                    continue;
                }
                ColumnPredicate::Range => {
                    add(&mut asked.range, column);
                    continue;
                }
                ColumnPredicate::Other => {
                    asked.has_others = true;
                    continue;
                }
                ColumnPredicate::Null => format!("{name} IS NULL"),
                ColumnPredicate::NotNull => format!("{name} IS NOT NULL"),
                ColumnPredicate::Truth(true) => name,
                ColumnPredicate::Truth(false) => format!("NOT {name}"),
            };
            if !asked.predicate.contains(&predicate) {
                asked.predicate.push(predicate);
                asked.predicate_columns.push(column);
            }
        }
    }
    let by_index = || {
        // An index scan returns rows in index order.
        let name = node.index.as_deref()?;
        let all = evidence.indexes(table).into_iter();
        let index = all
            .filter(|index| index.name == name)
            .map(IndexShape::parse)
            .next()?;
        Some(order(&index.keys.join(", "), table))
    };
    asked.ordered = match sort {
        Some(keys) => order(keys, table),
        None => by_index().unwrap_or_default(),
    };
    asked
}

/// Replaces columns of other tables, which are values for a row of this one: `(o.customer = c.id)`.
pub(super) fn mask_other_tables(text: &str, node: &PlanNode) -> String {
    let own = [&node.alias, &node.relation].into_iter().flatten();
    let own: Vec<String> = own.map(|name| quote_identifier(name)).collect();
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '"');
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find(|c: char| is_name(c) || c == '\'') {
        masked.push_str(&rest[..begin]);
        rest = &rest[begin..];
        let end = match rest.strip_prefix('\'') {
            // A constant.
            Some(inside) => inside.find('\'').map_or(rest.len(), |end| end + 2),
            None => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
        };
        let word = &rest[..end];
        let is_column = word
            .chars()
            .next()
            .is_some_and(|c| !c.is_ascii_digit() && c != '\'');
        let is_function = rest[end..].starts_with('(');
        match word.rsplit_once('.') {
            Some((table, _))
                if is_column && !is_function && !own.iter().any(|one| one == table) =>
            {
                masked.push_str("$0");
            }
            _ => masked.push_str(word),
        }
        rest = &rest[end..];
    }
    masked + rest
}

/// Returns the columns of a table that a scan's conditions compare with values, quoted, in order of appearance.
pub fn condition_columns(node: &PlanNode, table: &RelationFact) -> Vec<String> {
    let below = node.children.iter().filter(|child| child.is_part());
    let nodes = std::iter::once(node).chain(below);
    let mut columns = Vec::new();
    for text in nodes.flat_map(|node| &node.conditions) {
        let own = mask_other_tables(&text.text, node);
        for one in conditions(&own, table) {
            if let Some(column) = one.column {
                add(&mut columns, quote_identifier(&column));
            }
        }
    }
    columns
}

fn add(columns: &mut Vec<String>, column: String) {
    if !columns.contains(&column) {
        columns.push(column);
    }
}

/// Returns the shapes of a table's B-tree indexes.
pub(super) fn btree_shapes(evidence: &Evidence, table: &RelationFact) -> Vec<IndexShape> {
    evidence
        .indexes(table)
        .into_iter()
        .filter(|index| index.valid)
        .map(IndexShape::parse)
        .filter(|shape| shape.method == "btree")
        .collect()
}

/// Whether an index begins with these columns, and is partial if required.
pub(super) fn has_index(shapes: &[IndexShape], columns: &[String], partial: bool) -> bool {
    shapes.iter().any(|shape| {
        let begins = shape
            .columns()
            .iter()
            .take(columns.len())
            .eq(columns.iter());
        begins && shape.predicate.is_some() == partial
    })
}
