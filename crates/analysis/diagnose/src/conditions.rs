//! Parses the conditions of a plan into predicates on columns: `((queued_at IS NULL) AND (due <
//! now()))`.
//!
//! The server writes conditions in a fixed form (`ruleutils.c`): every operator in parentheses,
//! constants with their types. Anything not recognised is [`ColumnPredicate::Other`] and never used
//! as an index key.

use run::RelationFact;

/// Predicate on a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ColumnPredicate {
    /// Equal to a value that is independent of the row, or to one of several.
    Equal,
    /// Less or greater than a value.
    Range,
    /// IS NULL.
    Null,
    /// IS NOT NULL.
    NotNull,
    /// Boolean column, true or false.
    Truth(bool),
    /// Not usable by a B-tree.
    Other,
}

/// Part of a conjunction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    /// Column; `None` for an expression, several columns or no column of the table.
    pub(super) column: Option<String>,
    pub(super) asks: ColumnPredicate,
}

/// Returns the parts of a condition that concern columns of this table.
pub(super) fn conditions(text: &str, table: &RelationFact) -> Vec<Condition> {
    let mut parts = Vec::new();
    conjuncts(text, &mut parts);
    parts
        .into_iter()
        .map(|part| parse_condition(part, table))
        .collect()
}

/// Returns the columns of a sort key list (`a, b DESC`), up to the first key that is not a column
/// of the table.
pub(super) fn order(keys: &str, table: &RelationFact) -> Vec<String> {
    keys.split(',')
        .map_while(|key| {
            column(
                key.trim()
                    .trim_end_matches(" DESC")
                    .trim_end_matches(" NULLS LAST"),
                table,
            )
        })
        .collect()
}

/// Returns the parts of a conjunction.
pub(super) fn conjunction(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    conjuncts(text, &mut parts);
    parts
}

/// Returns the parts of a disjunction; one part if it is none.
pub(super) fn alternatives(text: &str) -> Vec<&str> {
    let text = strip_parentheses(text);
    let mut cuts = Vec::new();
    visit_top_level(text, |at, rest| {
        if rest.starts_with(" OR ") {
            cuts.push(at);
        }
    });
    let mut parts = Vec::new();
    let mut from = 0;
    for cut in cuts {
        parts.push(&text[from..cut]);
        from = cut + " OR ".len();
    }
    parts.push(&text[from..]);
    parts
}

/// Whether the side of a comparison is an expression over columns of the table, not a column.
pub(super) fn is_expression(text: &str, table: &RelationFact) -> bool {
    column(text, table).is_none() && names_a_column(text, table)
}

/// Splits a comparison into its left side, its operator and its right side.
pub(super) fn comparison(part: &str) -> Option<(&str, &str, &str)> {
    let mut operator = None;
    visit_top_level(part, |at, rest| {
        let is_operator = rest.starts_with(' ')
            && rest[1..].starts_with([
                '=', '<', '>', '~', '!', '@', '&', '|', '?', '#', '%', '+', '-', '*', '/',
            ]);
        if operator.is_none() && is_operator {
            operator = Some(at);
        }
    });
    let at = operator?;
    let (left, rest) = (&part[..at], part[at + 1..].trim_start());
    let (sign, right) = rest.split_once(' ').unwrap_or((rest, ""));
    Some((left, sign, right))
}

fn conjuncts<'t>(text: &'t str, parts: &mut Vec<&'t str>) {
    let text = strip_parentheses(text);
    let mut from = 0;
    let mut cuts = Vec::new();
    visit_top_level(text, |at, rest| {
        if rest.starts_with(" AND ") {
            cuts.push(at);
        }
    });
    // The server writes `BETWEEN` as two comparisons, so every AND is a conjunction.
    if cuts.is_empty() {
        parts.push(text);
        return;
    }
    for cut in cuts {
        conjuncts(&text[from..cut], parts);
        from = cut + " AND ".len();
    }
    conjuncts(&text[from..], parts);
}

/// Calls `visit` for each position outside parentheses and quotes, with the rest of the text.
fn visit_top_level<'t>(text: &'t str, mut visit: impl FnMut(usize, &'t str)) {
    let mut depth = 0;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '[') => depth += 1,
            (None, ')' | ']') => depth -= 1,
            (None, _) if depth == 0 => visit(at, &text[at..]),
            (None, _) => {}
        }
    }
}

/// Removes the parentheses around the whole text.
pub(super) fn strip_parentheses(text: &str) -> &str {
    let text = text.trim();
    if !text.starts_with('(') {
        return text;
    }
    let mut depth = 0;
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => {
                depth -= 1;
                if depth == 0 {
                    let whole = at + 1 == text.len();
                    return if whole {
                        strip_parentheses(&text[1..at])
                    } else {
                        text
                    };
                }
            }
            (None, _) => {}
        }
    }
    text
}

/// Returns the column of the table that a text names, with an optional alias before it and an
/// optional cast after it that leaves its value as it is.
fn column(text: &str, table: &RelationFact) -> Option<String> {
    let text = strip_parentheses(text);
    let (text, cast) = match text.split_once("::") {
        // A type with nothing after it.
        Some((text, cast))
            if cast
                .chars()
                .all(|c| c.is_alphanumeric() || " _[](),".contains(c)) =>
        {
            (strip_parentheses(text), Some(cast))
        }
        Some(_) => return None,
        None => (text, None),
    };
    let text = match text.rsplit_once('.') {
        // An alias, not the left side of a comparison.
        Some((alias, column)) if is_name(alias) => column,
        Some(_) => return None,
        None => text,
    };
    let text = text.trim_matches('"');
    let place = table.column_names.iter().position(|one| one == text)?;
    let sql_type = table.columns.get(place).map_or("", String::as_str);
    cast.is_none_or(|cast| keeps_value(sql_type, cast))
        .then(|| text.to_owned())
}

/// Whether a cast leaves the value as it is, so that an index of the column serves it: between types of
/// text, or to the type itself.
fn keeps_value(sql_type: &str, cast: &str) -> bool {
    let is_text = |name: &str| {
        ["text", "character varying", "varchar"]
            .iter()
            .any(|one| name.starts_with(one))
    };
    sql_type.starts_with(cast) || is_text(sql_type) && is_text(cast)
}

/// Whether a text is a name, or several names with dots between them.
fn is_name(text: &str) -> bool {
    let mut quoted = false;
    text.chars().all(|c| {
        quoted ^= c == '"';
        quoted || c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '"')
    })
}

/// Whether a text contains the name of a column of the table.
pub(super) fn names_a_column(text: &str, table: &RelationFact) -> bool {
    let mut quoted = false;
    let outside: String = text
        .chars()
        .map(|c| {
            quoted ^= c == '\'';
            if quoted { ' ' } else { c }
        })
        .collect();
    let mut words = outside.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.any(|word| table.column_names.iter().any(|column| column == word))
}

fn parse_condition(part: &str, table: &RelationFact) -> Condition {
    let other = |column| Condition {
        column,
        asks: ColumnPredicate::Other,
    };
    for (end, asks) in [
        (" IS NULL", ColumnPredicate::Null),
        (" IS NOT NULL", ColumnPredicate::NotNull),
    ] {
        if let Some(left) = part.strip_suffix(end) {
            return Condition {
                column: column(left, table),
                asks,
            };
        }
    }
    let (truth, rest) = match part.strip_prefix("NOT ") {
        Some(rest) => (false, rest),
        None => (true, part),
    };
    if let Some(column) = column(rest, table) {
        return Condition {
            column: Some(column),
            asks: ColumnPredicate::Truth(truth),
        };
    }
    let Some((left, sign, right)) = comparison(part) else {
        return other(None);
    };
    let (one, two) = (column(left, table), column(right, table));
    let (column, across) = match (one, two) {
        (Some(column), None) => (column, right),
        (None, Some(column)) => (column, left),
        (one, _) => return other(one),
    };
    if names_a_column(across, table) {
        return other(Some(column));
    }
    let asks = match sign {
        "=" if !right.starts_with("ALL ") => ColumnPredicate::Equal,
        "<" | "<=" | ">" | ">=" => ColumnPredicate::Range,
        _ => ColumnPredicate::Other,
    };
    Condition {
        column: Some(column),
        asks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::table;

    #[test]
    fn condition_is_parsed_as_the_server_writes_it() {
        let table = table(
            "t",
            1,
            &["a int", "b text", "queued_at x", "due x", "done bool"],
        );
        let read = |text: &str| -> Vec<(Option<String>, ColumnPredicate)> {
            conditions(text, &table)
                .into_iter()
                .map(|one| (one.column, one.asks))
                .collect()
        };
        let is = |column: &str, asks: ColumnPredicate| (Some(column.to_owned()), asks);
        assert_eq!(
            read(
                "((queued_at IS NULL) AND (due < now()) AND (t_1.a = 5) AND (b = 'x AND (y'::text) AND (NOT done))"
            ),
            [
                is("queued_at", ColumnPredicate::Null),
                is("due", ColumnPredicate::Range),
                is("a", ColumnPredicate::Equal),
                is("b", ColumnPredicate::Equal),
                is("done", ColumnPredicate::Truth(false)),
            ]
        );
        assert_eq!(
            read("(a = ANY ('{1,2}'::integer[]))"),
            [is("a", ColumnPredicate::Equal)]
        );
        assert_eq!(
            read("((b)::text ~~ 'x%'::text)"),
            [is("b", ColumnPredicate::Other)]
        );
        assert_eq!(read("(a = length(b))"), [is("a", ColumnPredicate::Other)]);
        assert_eq!(
            read("((a = 1) OR (a = 2))"),
            [(None, ColumnPredicate::Other)]
        );
        assert_eq!(read("(t.a = other.a)"), [is("a", ColumnPredicate::Other)]);
        assert_eq!(read("(t.done)"), [is("done", ColumnPredicate::Truth(true))]);
        assert_eq!(
            read("(lower(b) = 'x'::text)"),
            [(None, ColumnPredicate::Other)]
        );
        assert_eq!(order("due, a DESC, lower(b), b", &table), ["due", "a"]);
    }
}
