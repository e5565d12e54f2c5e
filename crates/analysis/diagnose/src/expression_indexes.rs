//! Indexes for conditions that a b-tree of columns does not serve: functions and casts around columns,
//! patterns, JSON and arrays.

use run::RelationFact;

use super::access_predicates::mask_other_tables;
use super::conditions::{
    ColumnPredicate, alternatives, comparison, conditions, conjunction, is_expression,
    names_a_column,
};
use super::evidence::Evidence;
use super::finding::Change;
use super::index_shape::IndexShape;
use super::statement_text::quote_identifier;
use plans::PlanNode;

/// Returns the changes that may serve a node's filter.
pub(super) fn expression_indexes(
    evidence: &Evidence,
    table: &RelationFact,
    node: &PlanNode,
) -> Vec<Change> {
    let shapes: Vec<IndexShape> = evidence
        .indexes(table)
        .into_iter()
        .map(IndexShape::parse)
        .collect();
    let mut changes: Vec<Change> = Vec::new();
    let filters = node.conditions.iter().filter(|one| one.label == "Filter");
    let filters: Vec<String> = filters
        .map(|filter| mask_other_tables(&filter.text, node))
        .collect();
    for part in filters.iter().flat_map(|filter| conjunction(filter)) {
        let Some((left, sign, right)) = comparison(part) else {
            changes.extend(of_alternatives(table, &shapes, part));
            continue;
        };
        let condition = Comparison {
            table,
            node,
            shapes: &shapes,
            left,
            sign,
            right,
        };
        for change in condition.changes() {
            if !changes.contains(&change) {
                changes.push(change);
            }
        }
    }
    changes
}

/// Suggests an index for each alternative that has none, if all alternatives compare columns: the server combines the
/// indexes of all alternatives, and without one of them it reads the whole table.
fn of_alternatives(table: &RelationFact, shapes: &[IndexShape], part: &str) -> Option<Change> {
    let all = alternatives(part);
    let compared = all.iter().map(|one| {
        let one = conditions(one, table);
        let keys = one.into_iter().filter_map(|one| match one.asks {
            ColumnPredicate::Equal | ColumnPredicate::Range => one.column,
            _ => None,
        });
        keys.collect::<Vec<String>>()
    });
    let compared: Vec<Vec<String>> = compared.collect();
    if compared.len() < 2 || compared.iter().any(Vec::is_empty) {
        return None;
    }
    let is_indexed = |column: &String| {
        let mut all = shapes.iter();
        all.any(|shape| {
            shape.method == "btree"
                && shape.predicate.is_none()
                && shape.columns().first() == Some(&column.as_str())
        })
    };
    let missing = compared.iter().filter(|one| !one.iter().any(is_indexed));
    let mut missing: Vec<&String> = missing.map(|columns| &columns[0]).collect();
    missing.dedup();
    if missing.is_empty() {
        return None;
    }
    let sql = missing.iter().map(|column| {
        format!(
            "CREATE INDEX ON {}.{} ({});",
            quote_identifier(&table.schema),
            quote_identifier(&table.name),
            quote_identifier(column)
        )
    });
    Some(Change::sql(
        "an index for each alternative of the condition, which the server combines",
        sql.collect::<Vec<_>>().join("\n"),
    ))
}

/// Comparison of a filter, as the server writes it.
struct Comparison<'a> {
    table: &'a RelationFact,
    node: &'a PlanNode,
    shapes: &'a [IndexShape],
    left: &'a str,
    sign: &'a str,
    right: &'a str,
}

impl Comparison<'_> {
    fn changes(&self) -> Vec<Change> {
        let of_left = names_a_column(self.left, self.table);
        if of_left && !names_a_column(self.right, self.table) {
            return match self.sign {
                "=" | "<" | "<=" | ">" | ">=" if is_expression(self.left, self.table) => {
                    self.of_expression()
                }
                "=" | "<" | "<=" | ">" | ">=" => self.of_collation(),
                "@>" => self.of_containment(),
                "<@" | "&&" | "@@" | "?" | "?|" | "?&" => self.of_elements(),
                "~~" if begins_fixed(self.right) => self.of_prefix(),
                "~~" | "~~*" | "~" | "~*" => self.of_pattern(),
                _ => Vec::new(),
            };
        }
        if !of_left && self.sign == "=" {
            return self.of_element();
        }
        Vec::new()
    }

    /// Returns the column of a side that is one column, with an optional cast.
    fn bare_column(&self, side: &str) -> Option<(&str, &str)> {
        let bare = side.split("::").next().unwrap_or(side);
        let bare = bare.trim_matches(['(', ')', ' ']);
        let name = bare.rsplit('.').next().unwrap_or(bare).trim_matches('"');
        let place = self.table.column_names.iter().position(|one| one == name)?;
        Some((
            self.table.column_names[place].as_str(),
            self.table.columns.get(place).map_or("", String::as_str),
        ))
    }

    fn create(&self, words: String, keys: &str) -> Vec<Change> {
        let name = format!(
            "{}.{}",
            quote_identifier(&self.table.schema),
            quote_identifier(&self.table.name)
        );
        vec![Change::sql(
            words,
            format!("CREATE INDEX ON {name} {keys};"),
        )]
    }

    /// Suggests an index on a function or a cast of a column, and the statement without a cast.
    fn of_expression(&self) -> Vec<Change> {
        let expression = self.unqualified(self.left);
        let has = |shape: &IndexShape| {
            let keys = shape.columns();
            keys.first()
                .is_some_and(|key| folded(key) == folded(&expression))
        };
        if self.shapes.iter().any(has) {
            return Vec::new();
        }
        let mut changes = self.create(
            format!("an index on {expression}, by which the rows are looked for"),
            &format!("(({expression}))"),
        );
        if let (Some((column, sql_type)), Some((_, cast))) =
            (self.bare_column(self.left), self.left.rsplit_once("::"))
            && is_only_cast(self.left)
        {
            let sql_type = sql_type.split(" not null").next().unwrap_or(sql_type);
            changes.push(Change::manual(format!(
                "or leave out the cast to {}: {column} is {sql_type}, so send the value as {sql_type}",
                cast.trim_matches(['(', ')', ' '])
            )));
        }
        changes
    }

    fn of_containment(&self) -> Vec<Change> {
        match self.bare_column(self.left) {
            Some((column, sql_type)) if sql_type.starts_with("jsonb") => {
                let mut changes = self.create(
                    format!("a GIN index on {column} for containment"),
                    &format!("USING gin ({} jsonb_path_ops)", quote_identifier(column)),
                );
                changes.extend(self.of_elements());
                changes
            }
            Some((column, _)) => self.create(
                format!("a GIN index on {column} for containment"),
                &format!("USING gin ({})", quote_identifier(column)),
            ),
            None => Vec::new(),
        }
    }

    /// Suggests a GIN index for the elements of a column.
    fn of_elements(&self) -> Vec<Change> {
        let serves = |sql_type: &str| {
            sql_type.contains("[]")
                || ["jsonb", "tsvector"]
                    .iter()
                    .any(|one| sql_type.starts_with(one))
        };
        match self.bare_column(self.left) {
            Some((column, sql_type)) if serves(sql_type) => self.create(
                format!("a GIN index on the elements of {column}"),
                &format!("USING gin ({})", quote_identifier(column)),
            ),
            _ => Vec::new(),
        }
    }

    /// Suggests an index for a comparison under another collation than the column's.
    fn of_collation(&self) -> Vec<Change> {
        let sides = [self.left, self.right];
        let mut named = sides.iter().filter_map(|side| side.split_once(" COLLATE "));
        let collation = named
            .next()
            .map(|(_, rest)| rest.trim_end_matches([')', ' ']));
        let (Some(collation), Some((column, _))) = (collation, self.bare_column(self.left)) else {
            return Vec::new();
        };
        self.create(
            format!("an index on {column} under the collation of the comparison"),
            &format!("({} COLLATE {collation})", quote_identifier(column)),
        )
    }

    /// Suggests an index for a pattern with a fixed beginning, which an index under a collation other
    /// than C does not serve.
    fn of_prefix(&self) -> Vec<Change> {
        let Some((column, sql_type)) = self.bare_column(self.left) else {
            return Vec::new();
        };
        let class = match sql_type {
            one if one.starts_with("character varying") => "varchar_pattern_ops",
            one if one.starts_with("character") => "bpchar_pattern_ops",
            _ => "text_pattern_ops",
        };
        self.create(
            format!("an index on {column} that serves patterns under every collation"),
            &format!("({} {class})", quote_identifier(column)),
        )
    }

    fn of_pattern(&self) -> Vec<Change> {
        let Some((column, _)) = self.bare_column(self.left) else {
            return Vec::new();
        };
        let keys = format!("USING gin ({} gin_trgm_ops)", quote_identifier(column));
        let words = format!("a GIN index on the trigrams of {column}");
        let mut changes = self.create(words, &keys);
        if let Some(crate::Form::Sql(sql)) = changes.first_mut().map(|one| &mut one.form) {
            sql.insert_str(0, "CREATE EXTENSION IF NOT EXISTS pg_trgm;\n");
        }
        changes
    }

    /// Suggests containment for `value = ANY (array column)`, which no index serves.
    fn of_element(&self) -> Vec<Change> {
        let Some(array) = self.right.strip_prefix("ANY (") else {
            return Vec::new();
        };
        let Some((column, sql_type)) = self.bare_column(array) else {
            return Vec::new();
        };
        if !sql_type.contains("[]") {
            return Vec::new();
        }
        let column = quote_identifier(column);
        vec![Change::manual(format!(
            "write {column} @> ARRAY[value] in place of value = ANY ({column}), and CREATE INDEX ON {}.{} USING gin ({column}): \
             no index serves ANY of a column",
            quote_identifier(&self.table.schema),
            quote_identifier(&self.table.name)
        ))]
    }

    /// Removes the alias before columns, since an index definition has none, and outer parentheses.
    fn unqualified(&self, text: &str) -> String {
        let mut text = text.trim().to_owned();
        for name in [&self.node.alias, &self.node.relation]
            .into_iter()
            .flatten()
        {
            for prefix in [format!("{name}."), format!("{}.", quote_identifier(name))] {
                text = without_qualifier(&text, &prefix);
            }
        }
        super::conditions::strip_parentheses(&text).to_owned()
    }
}

/// Removes a qualifier wherever it begins a name.
fn without_qualifier(text: &str, prefix: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(prefix) {
        let before = rest[..at].chars().next_back();
        let is_name = before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '"'));
        out.push_str(&rest[..at]);
        if is_name {
            out.push_str(prefix);
        }
        rest = &rest[at + prefix.len()..];
    }
    out + rest
}

fn folded(text: &str) -> String {
    text.chars()
        .filter(|c| !matches!(c, '(' | ')' | ' '))
        .collect()
}

/// Whether a pattern has a fixed beginning, or is a parameter, which may have one.
fn begins_fixed(pattern: &str) -> bool {
    match pattern.trim_start_matches('(').strip_prefix('\'') {
        Some(text) => !text.starts_with(['%', '_']),
        None => true,
    }
}

/// Whether an expression is a cast of a column and nothing else.
fn is_only_cast(text: &str) -> bool {
    let before = text.split("::").next().unwrap_or_default();
    before
        .trim_matches(['(', ')', ' '])
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '"'))
}
