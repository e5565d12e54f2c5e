//! Shape of a statement that takes generated values, and of its result, as far as its text shows.

use std::sync::Arc;

use sql::{Lexeme, SqlStatement, split_statements};

use crate::generated::KeyColumns;

/// Statement that takes values of a generator, or returns those that the session took last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ResultShape {
    Insert(InsertShape),
    /// `SELECT nextval('…')` alone.
    NextValue {
        sequence: String,
        returned: Arc<[String]>,
    },
    /// `SELECT currval('…')` or `SELECT lastval()` alone.
    CurrentValue {
        sequence: Option<String>,
        returned: Arc<[String]>,
    },
    /// `COPY … FROM`, `INSERT … SELECT` and others, which take an unknown number of values for a table.
    Unknown {
        table: String,
    },
}

/// `INSERT INTO table (columns) VALUES …`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InsertShape {
    pub(super) table: String,
    /// Columns for which a row has a value other than `DEFAULT`, row by row.
    pub(super) given: Vec<String>,
    pub(super) rows: usize,
    /// Whether the result has no row if an existing row conflicts. The statement takes a value in either case.
    pub(super) may_lack_row: bool,
    /// Names of the result's columns; empty without `RETURNING`. An expression has no name.
    pub(super) returned: Arc<[String]>,
}

impl ResultShape {
    /// Returns the shape of a text; `None` if it takes no values, or is no single statement.
    pub(super) fn of(sql: &str, keys: &KeyColumns) -> Option<Self> {
        let mut statements = split_statements(sql);
        let statement = statements.pop()?;
        if !statements.is_empty() {
            return None;
        }
        let words = &statement.words;
        let first = words.first()?;
        if first.is("select") {
            return of_select(words);
        }
        if first.is("copy") {
            let table = table_at(words, &mut 1)?;
            return words
                .iter()
                .any(|word| word.is("from"))
                .then_some(ResultShape::Unknown { table });
        }
        if first.is("insert") {
            return of_insert(&statement, keys);
        }
        let into = words
            .windows(2)
            .position(|pair| pair[0].is("insert") && pair[1].is("into"))?;
        let table = table_at(words, &mut (into + 2))?;
        Some(ResultShape::Unknown { table })
    }
}

fn of_select(words: &[Lexeme<'_>]) -> Option<ResultShape> {
    let function = words.get(1)?.name()?;
    if !words.get(2)?.is_symbol("(") {
        return None;
    }
    let mut at = 3;
    let sequence = match words.get(at)? {
        Lexeme::Value(text) if !text.starts_with('$') => {
            let (spelling, inner) = sql::Spelling::of(text);
            at += 1;
            if words.get(at)?.is_symbol("::") {
                at += 2;
            }
            let name = spelling.read(inner);
            let name = name.rsplit('.').next()?.trim_matches('"').to_owned();
            Some(name)
        }
        _ => None,
    };
    if !words.get(at)?.is_symbol(")") {
        return None;
    }
    at += 1;
    at += usize::from(words.get(at).is_some_and(|word| word.is("as")));
    let column = match words.get(at) {
        Some(word) => word.name()?,
        None => function.clone(),
    };
    if at + 1 < words.len() {
        return None;
    }
    let returned = [column].into();
    match (&*function, sequence) {
        ("nextval", Some(sequence)) => Some(ResultShape::NextValue { sequence, returned }),
        ("currval", Some(sequence)) => Some(ResultShape::CurrentValue {
            sequence: Some(sequence),
            returned,
        }),
        ("lastval", None) => Some(ResultShape::CurrentValue {
            sequence: None,
            returned,
        }),
        _ => None,
    }
}

fn of_insert(statement: &SqlStatement<'_>, keys: &KeyColumns) -> Option<ResultShape> {
    let words = &statement.words;
    if !words.get(1)?.is("into") {
        return None;
    }
    let mut at = 2;
    let table = table_at(words, &mut at)?;
    let unknown = || {
        Some(ResultShape::Unknown {
            table: table.clone(),
        })
    };
    if words.get(at).is_some_and(|word| word.is("as")) {
        at += 2;
    }
    let mut columns = None;
    if words.get(at)?.is_symbol("(") {
        let end = closing_bracket(words, at)?;
        let names = words[at + 1..end].iter();
        columns = Some(names.filter_map(Lexeme::name).collect::<Vec<_>>());
        at = end + 1;
    }
    if words.get(at)?.is("overriding") {
        at += 3;
    }
    let source = words.get(at)?;
    let (mut rows, mut given) = (0, Vec::new());
    if source.is("default") {
        (rows, at) = (1, at + 2);
    } else if source.is("values") {
        at += 1;
        while words.get(at).is_some_and(|word| word.is_symbol("(")) {
            let end = closing_bracket(words, at)?;
            let all = columns.as_ref().map_or(&[][..], |columns| columns);
            for (number, value) in items(&words[at + 1..end]).enumerate() {
                let name = all.get(number).or_else(|| keys.column(&table, number));
                if !matches!(value, [word] if word.is("default")) {
                    given.extend(name.cloned());
                }
            }
            (rows, at) = (rows + 1, end + 1);
            if words.get(at).is_some_and(|word| word.is_symbol(",")) {
                at += 1;
            }
        }
    } else {
        return unknown();
    }
    let clauses = words.get(at..)?;
    let has = |first: &str, second: &str| {
        let mut pairs = clauses.windows(2);
        pairs.any(|pair| pair[0].is(first) && pair[1].is(second))
    };
    // The result lacks a row that conflicts with an existing one.
    let has_conflicts = has("on", "conflict");
    if has_conflicts && rows > 1 {
        return unknown();
    }
    let returned = match clauses.iter().position(|word| word.is("returning")) {
        None => Vec::new(),
        Some(after) => returned_names(&clauses[after + 1..], &table, keys),
    };
    Some(ResultShape::Insert(InsertShape {
        table,
        given,
        rows,
        may_lack_row: has_conflicts && has("do", "nothing"),
        returned: returned.into(),
    }))
}

/// Returns the names of the columns of a `RETURNING` list; none if their number is not known.
fn returned_names(words: &[Lexeme<'_>], table: &str, keys: &KeyColumns) -> Vec<String> {
    let mut names = Vec::new();
    for item in items(words) {
        match item {
            [star] | [_, _, star] if star.is_symbol("*") => {
                let all: Vec<String> = (0..)
                    .map_while(|number| keys.column(table, number).cloned())
                    .collect();
                if all.is_empty() {
                    return all;
                }
                names.extend(all);
            }
            [_, dot, name, rest @ ..] if dot.is_symbol(".") => names.push(name_of(name, rest)),
            [name, rest @ ..] => names.push(name_of(name, rest)),
            [] => names.push(String::new()),
        }
    }
    names
}

/// Returns the name of a column, possibly with a cast and another name for the result; empty for an expression.
fn name_of(name: &Lexeme<'_>, rest: &[Lexeme<'_>]) -> String {
    let is_column = match rest {
        [] => true,
        [next, ..] => next.is_symbol("::") || next.is("as"),
    };
    let name = name.name().filter(|_| is_column);
    name.unwrap_or_default()
}

/// Returns the table at a place, without its schema, and moves after it.
fn table_at(words: &[Lexeme<'_>], at: &mut usize) -> Option<String> {
    let mut name = words.get(*at)?.name()?;
    *at += 1;
    while words.get(*at).is_some_and(|word| word.is_symbol(".")) {
        name = words.get(*at + 1)?.name()?;
        *at += 2;
    }
    Some(name)
}

fn closing_bracket(words: &[Lexeme<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, word) in words.iter().enumerate().skip(open) {
        if word.is_symbol("(") {
            depth += 1;
        } else if word.is_symbol(")") {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// Splits a list at its commas outside of brackets.
fn items<'w, 's>(words: &'w [Lexeme<'s>]) -> impl Iterator<Item = &'w [Lexeme<'s>]> {
    let mut depth = 0_i32;
    words.split(move |word| {
        depth += i32::from(word.is_symbol("(") || word.is_symbol("["));
        depth -= i32::from(word.is_symbol(")") || word.is_symbol("]"));
        depth == 0 && word.is_symbol(",")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(sql: &str) -> (String, Vec<String>, usize, Vec<String>) {
        let keys = KeyColumns::default().with_columns("orders", "id,ref,note");
        match ResultShape::of(sql, &keys) {
            Some(ResultShape::Insert(shape)) => (
                shape.table,
                shape.given,
                shape.rows,
                shape.returned.to_vec(),
            ),
            other => panic!("{sql}: {other:?}"),
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn insert_has_given_columns_rows_and_returned_columns() {
        let (table, given, rows, returned) = insert(
            "INSERT INTO app.orders (note, id) VALUES ($1, DEFAULT), (lower('a, b'), default) RETURNING id, now(), orders.ref::text AS r",
        );
        assert_eq!(table, "orders");
        assert_eq!(given, names(&["note", "note"]));
        assert_eq!((rows, returned), (2, names(&["id", "", "ref"])));
        let (_, given, rows, returned) = insert("insert into orders default values returning *");
        assert_eq!((given, rows), (vec![], 1));
        assert_eq!(returned, names(&["id", "ref", "note"]));
        let (_, given, ..) = insert("insert into orders values (default, $1, 'x')");
        assert_eq!(given, names(&["ref", "note"]));
    }

    #[test]
    fn insert_that_does_nothing_on_conflict_may_lack_its_row() {
        for (clause, expected) in [
            ("ON CONFLICT DO NOTHING", true),
            ("on conflict (ref) do nothing", true),
            ("ON CONFLICT (ref) DO UPDATE SET note = 'x'", false),
            ("", false),
        ] {
            let sql = format!("INSERT INTO orders (ref) VALUES ($1) {clause} RETURNING id");
            match ResultShape::of(&sql, &KeyColumns::default()) {
                Some(ResultShape::Insert(shape)) => {
                    assert_eq!((shape.rows, shape.may_lack_row), (1, expected), "{sql}");
                }
                other => panic!("{sql}: {other:?}"),
            }
        }
    }

    #[test]
    fn insert_of_an_unknown_number_of_rows_has_an_unknown_shape() {
        let keys = KeyColumns::default();
        let unknown = |sql| {
            let table = "orders".to_owned();
            assert_eq!(
                ResultShape::of(sql, &keys),
                Some(ResultShape::Unknown { table }),
                "{sql}"
            );
        };
        unknown("insert into orders (note) select note from old");
        unknown("copy orders (note) from stdin");
        unknown("with a as (insert into orders (note) values (1) returning id) select * from a");
        unknown("insert into orders (note) values (1), (2) on conflict do nothing returning id");
        for sql in [
            "select 1",
            "insert into orders",
            "insert into orders default",
            "insert into orders overriding",
            "insert into orders (note) overriding system value",
        ] {
            assert_eq!(ResultShape::of(sql, &keys), None, "{sql}");
        }
        assert_eq!(
            ResultShape::of("select 1; select nextval('s')", &keys),
            None
        );
    }

    #[test]
    fn calls_of_sequences_are_recognised_if_they_are_alone() {
        let keys = KeyColumns::default();
        let shape = |sql| ResultShape::of(sql, &keys);
        let sequence = "orders_id_seq".to_owned();
        assert_eq!(
            shape("SELECT nextval('public.orders_id_seq'::regclass) AS id"),
            Some(ResultShape::NextValue {
                sequence: sequence.clone(),
                returned: names(&["id"]).into()
            })
        );
        assert_eq!(
            shape("select currval('orders_id_seq')"),
            Some(ResultShape::CurrentValue {
                sequence: Some(sequence),
                returned: names(&["currval"]).into()
            })
        );
        assert_eq!(
            shape("select lastval()"),
            Some(ResultShape::CurrentValue {
                sequence: None,
                returned: names(&["lastval"]).into()
            })
        );
        assert_eq!(shape("select nextval('s'), 1"), None);
        assert_eq!(shape("select nextval($1)"), None);
        assert_eq!(
            shape("select nextval('s') from generate_series(1, 9)"),
            None
        );
    }
}
