//! What a plan's condition asks of the columns of a table: `((queued_at IS NULL) AND (due < now()))`.
//!
//! The server writes conditions in one form (`ruleutils.c`): every operator in parentheses, constants with
//! their types. What is not told apart here is kept as [`Asks::Other`], and never taken for an index's key.

use run::RelationFact;

/// What a condition asks of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asks {
    /// It equals something that does not hang on the row, or is one of some.
    Equal,
    /// It is less or more than something.
    Range,
    /// It is NULL.
    Null,
    /// It is not NULL.
    NotNull,
    /// A column of truth is true, or is not.
    Truth(bool),
    /// Something that a b-tree does not answer.
    Other,
}

/// One part of a conjunction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    /// The column; `None` where it is of none, of several, or of an expression.
    pub(super) column: Option<String>,
    pub(super) asks: Asks,
}

/// The parts of a condition, of the columns of this table.
pub(super) fn conditions(text: &str, table: &RelationFact) -> Vec<Condition> {
    let mut parts = Vec::new();
    conjuncts(text, &mut parts);
    parts.into_iter().map(|part| of(part, table)).collect()
}

/// The columns that a list of keys orders by, up to the first that is no column of the table: `a, b DESC`.
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

fn conjuncts<'t>(text: &'t str, parts: &mut Vec<&'t str>) {
    let text = bare(text);
    let mut from = 0;
    let mut cuts = Vec::new();
    outside(text, |at, rest| {
        if rest.starts_with(" AND ") {
            cuts.push(at);
        }
    });
    // `BETWEEN` is written as two comparisons by the server, so that every AND is one.
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

/// Calls `visit` for each place that stands in no parentheses and no quotes, with what follows.
fn outside<'t>(text: &'t str, mut visit: impl FnMut(usize, &'t str)) {
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

/// Without the parentheses around all of it.
fn bare(text: &str) -> &str {
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
                    return if whole { bare(&text[1..at]) } else { text };
                }
            }
            (None, _) => {}
        }
    }
    text
}

/// A column of the table, with its alias before it and a cast of text behind it, or not.
fn column(text: &str, table: &RelationFact) -> Option<String> {
    let text = bare(text);
    let text = match text.split_once("::") {
        // A type, and nothing behind it.
        Some((text, cast))
            if cast
                .chars()
                .all(|c| c.is_alphanumeric() || " _[](),".contains(c)) =>
        {
            bare(text)
        }
        Some(_) => return None,
        None => text,
    };
    let text = match text.rsplit_once('.') {
        // An alias, and not the left side of a comparison.
        Some((alias, column)) if is_name(alias) => column,
        Some(_) => return None,
        None => text,
    };
    let text = text.trim_matches('"');
    table
        .column_names
        .iter()
        .find(|column| *column == text)
        .cloned()
}

/// One name, or several with dots between them.
fn is_name(text: &str) -> bool {
    let mut quoted = false;
    text.chars().all(|c| {
        quoted ^= c == '"';
        quoted || c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '"')
    })
}

/// Whether a text names a column of the table.
fn names_a_column(text: &str, table: &RelationFact) -> bool {
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

fn of(part: &str, table: &RelationFact) -> Condition {
    let other = |column| Condition {
        column,
        asks: Asks::Other,
    };
    for (end, asks) in [(" IS NULL", Asks::Null), (" IS NOT NULL", Asks::NotNull)] {
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
            asks: Asks::Truth(truth),
        };
    }
    let mut operator = None;
    outside(part, |at, rest| {
        let is_operator = rest.starts_with(' ')
            && rest[1..].starts_with([
                '=', '<', '>', '~', '!', '@', '&', '|', '?', '#', '%', '+', '-', '*', '/',
            ]);
        if operator.is_none() && is_operator {
            operator = Some(at);
        }
    });
    let Some(at) = operator else {
        return other(None);
    };
    let (left, rest) = (&part[..at], part[at + 1..].trim_start());
    let (sign, right) = rest.split_once(' ').unwrap_or((rest, ""));
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
        "=" if !right.starts_with("ALL ") => Asks::Equal,
        "<" | "<=" | ">" | ">=" => Asks::Range,
        _ => Asks::Other,
    };
    Condition {
        column: Some(column),
        asks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::table;

    #[test]
    fn a_condition_is_read_as_the_server_writes_it() {
        let table = table(
            "t",
            1,
            &["a int", "b text", "queued_at x", "due x", "done bool"],
        );
        let read = |text: &str| -> Vec<(Option<String>, Asks)> {
            conditions(text, &table)
                .into_iter()
                .map(|one| (one.column, one.asks))
                .collect()
        };
        let is = |column: &str, asks: Asks| (Some(column.to_owned()), asks);
        assert_eq!(
            read(
                "((queued_at IS NULL) AND (due < now()) AND (t_1.a = 5) AND (b = 'x AND (y'::text) AND (NOT done))"
            ),
            [
                is("queued_at", Asks::Null),
                is("due", Asks::Range),
                is("a", Asks::Equal),
                is("b", Asks::Equal),
                is("done", Asks::Truth(false)),
            ]
        );
        assert_eq!(
            read("(a = ANY ('{1,2}'::integer[]))"),
            [is("a", Asks::Equal)]
        );
        assert_eq!(read("((b)::text ~~ 'x%'::text)"), [is("b", Asks::Other)]);
        assert_eq!(read("(a = length(b))"), [is("a", Asks::Other)]);
        assert_eq!(read("((a = 1) OR (a = 2))"), [(None, Asks::Other)]);
        assert_eq!(read("(t.a = other.a)"), [is("a", Asks::Other)]);
        assert_eq!(read("(t.done)"), [is("done", Asks::Truth(true))]);
        assert_eq!(read("(lower(b) = 'x'::text)"), [(None, Asks::Other)]);
        assert_eq!(order("due, a DESC, lower(b), b", &table), ["due", "a"]);
    }
}
