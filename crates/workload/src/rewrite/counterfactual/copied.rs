//! Rows of inserts as the data of a COPY (documentation, "COPY", text format).
//!
//! A COPY reads each value as its column's type does, and an insert reads a literal or a parameter so as well. What
//! an insert would have worked out (expressions, defaults within a row) or brought to another type first is no value for a
//! COPY.

use std::borrow::Cow;

use super::insert::{OneRow, Why};
use crate::parameter::Parameter;
use crate::rewrite::mask::{Spelling, escape_text};
use crate::rewrite::parts::{Lexeme, parts};

/// Names of types without modifiers. A value that is brought to one of them is read by its column's type as if it was
/// not: the column is of that type, or of one that reads the same text.
const TYPES: [&str; 26] = [
    "text",
    "varchar",
    "character varying",
    "smallint",
    "int2",
    "int",
    "integer",
    "int4",
    "bigint",
    "int8",
    "numeric",
    "real",
    "float4",
    "float8",
    "double precision",
    "bool",
    "boolean",
    "uuid",
    "json",
    "jsonb",
    "date",
    "timestamp",
    "timestamp without time zone",
    "timestamptz",
    "timestamp with time zone",
    "bytea",
];
const NO_VALUE: Why = "an expression: a COPY takes values only";

/// The COPY for rows of this insert, and how many columns it has.
///
/// # Errors
/// Where none does the same.
pub(super) fn statement(cut: &OneRow<'_>) -> Result<(String, usize), Why> {
    const UNKNOWN: Why = "not understood";
    if !cut.tail.is_empty() {
        return Err("ON CONFLICT: a COPY has none");
    }
    let all = parts(cut.head);
    let words = &all.first().ok_or(UNKNOWN)?.words;
    let open = words.iter().position(|word| word.is_symbol("("));
    let open = open.ok_or("no list of columns: a COPY would need all")?;
    let close = words.len().checked_sub(2).ok_or(UNKNOWN)?;
    let is_name = |word: &Lexeme<'_>| matches!(word, Lexeme::Word(_) | Lexeme::Quoted(_));
    let is_list = |words: &[Lexeme<'_>], separator: &str| {
        words.len() % 2 == 1
            && words.iter().enumerate().all(|(at, word)| match at % 2 {
                0 => is_name(word),
                _ => word.is_symbol(separator),
            })
    };
    let is_understood = words.get(1).is_some_and(|word| word.is("into"))
        && words[close].is_symbol(")")
        && open > 2
        && is_list(&words[2..open], ".")
        && close > open
        && is_list(&words[open + 1..close], ",");
    if !is_understood {
        return Err(UNKNOWN);
    }
    let at = |word: &Lexeme<'_>| word.text().as_ptr() as usize - cut.head.as_ptr() as usize;
    let table = &cut.head[at(&words[2])..=at(&words[close])];
    Ok((format!("COPY {table} FROM STDIN"), (close - open) / 2))
}

/// Puts a row behind the others, as a line.
///
/// # Errors
/// Where it has what is no value. Nothing of it is put there then.
pub(super) fn line(
    row: &str,
    columns: usize,
    parameters: &[Option<Parameter>],
    out: &mut Vec<u8>,
) -> Result<(), Why> {
    let all = parts(row);
    let words = all.first().map_or(&[][..], |part| &part.words);
    let Some([_, within @ .., _]) = words.get(..) else {
        return Err(NO_VALUE);
    };
    if within
        .iter()
        .any(|word| word.is_symbol("(") || word.is_symbol("["))
    {
        return Err(NO_VALUE);
    }
    let begun = out.len();
    let mut count = 0;
    for item in within.split(|word| word.is_symbol(",")) {
        if count > 0 {
            out.push(b'\t');
        }
        count += 1;
        match value(item, parameters) {
            Ok(Some(value)) => escape_text(value.as_bytes(), out),
            Ok(None) => out.extend_from_slice(b"\\N"),
            Err(why) => {
                out.truncate(begun);
                return Err(why);
            }
        }
    }
    if count != columns {
        out.truncate(begun);
        return Err("not a value for each column");
    }
    out.push(b'\n');
    Ok(())
}

/// What stands there; `None` for NULL.
fn value<'a>(
    words: &[Lexeme<'a>],
    parameters: &'a [Option<Parameter>],
) -> Result<Option<Cow<'a, str>>, Why> {
    let cast = words.iter().rposition(|word| word.is_symbol("::"));
    if let Some(at) = cast {
        let named: Vec<String> = words[at + 1..]
            .iter()
            .map(|word| word.text().to_lowercase())
            .collect();
        return match TYPES.contains(&named.join(" ").as_str()) {
            true => value(&words[..at], parameters),
            false => Err("a value of another type than a plain one"),
        };
    }
    match words {
        [word] if word.is("null") => Ok(None),
        [word] if word.is("default") => Err("DEFAULT within a row"),
        [word] if word.is("true") || word.is("false") => {
            Ok(Some(Cow::Owned(word.text().to_lowercase())))
        }
        [Lexeme::Value(text)] => match Spelling::of(text) {
            (Spelling::Placeholder, _) => parameter(text, parameters),
            (Spelling::Number, _) => Ok(Some(Cow::Borrowed(number(text)?))),
            (spelling @ (Spelling::Plain("") | Spelling::Dollars(_)), inner) => {
                Ok(Some(spelling.read(inner, '\\')))
            }
            _ => Err("a value in a spelling of its own"),
        },
        [Lexeme::Symbol("-"), Lexeme::Value(text)]
            if matches!(Spelling::of(text).0, Spelling::Number) =>
        {
            Ok(Some(Cow::Owned(format!("-{}", number(text)?))))
        }
        _ => Err(NO_VALUE),
    }
}

/// A number whose digits are its value, in whatever column.
fn number(text: &str) -> Result<&str, Why> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.ends_with(|last: char| last.is_ascii_digit())
        && digits
            .bytes()
            .all(|one| one.is_ascii_digit() || one == b'.')
        && digits.bytes().filter(|one| *one == b'.').count() <= 1
        && !(digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0."));
    match is_plain {
        true => Ok(text),
        false => Err("a number in a spelling of its own"),
    }
}

fn parameter<'a>(
    text: &str,
    parameters: &'a [Option<Parameter>],
) -> Result<Option<Cow<'a, str>>, Why> {
    let at = text.strip_prefix('$').and_then(|one| one.parse().ok());
    let found = at.and_then(|at: usize| parameters.get(at.checked_sub(1)?));
    match found {
        None => Err("a parameter without a value"),
        Some(None) => Ok(None),
        Some(Some(Parameter::Text(text))) => Ok(Some(Cow::Borrowed(text))),
        Some(Some(Parameter::Binary(_))) => Err("values in binary form"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::insert::one_row;
    use super::*;

    fn copied(sql: &str, values: &[Option<&str>]) -> Result<(String, String), Why> {
        let cut = one_row(sql).unwrap()?;
        let (statement, columns) = statement(&cut)?;
        let values: Vec<Option<Parameter>> = values
            .iter()
            .map(|value| value.map(Parameter::from))
            .collect();
        let mut out = b"before\n".to_vec();
        let made = line(cut.row, columns, &values, &mut out);
        let text = String::from_utf8(out).unwrap();
        let text = text.strip_prefix("before\n").unwrap().to_owned();
        assert!(made.is_ok() || text.is_empty(), "{text}");
        made.map(|()| (statement, text))
    }

    #[test]
    fn values_are_fields_of_a_line() {
        let sql = "insert into s.\"T\" (a, \"b c\", d, e, f, g) values \
            (-12, 'it''s a\ttab\\', NULL, true, '2026-01-01 10:00'::timestamptz, $$x$$)";
        let (statement, line) = copied(sql, &[]).unwrap();
        assert_eq!(
            statement,
            "COPY s.\"T\" (a, \"b c\", d, e, f, g) FROM STDIN"
        );
        assert_eq!(
            line,
            "-12\tit's a\\ttab\\\\\t\\N\ttrue\t2026-01-01 10:00\tx\n"
        );
        let (_, line) = copied(
            "INSERT INTO t (a, b, c) VALUES ($2, $1::jsonb, $3)",
            &[Some("{\"a\": \"\\n\"}"), None, Some("")],
        )
        .unwrap();
        assert_eq!(line, "\\N\t{\"a\": \"\\\\n\"}\t\n");
    }

    #[test]
    fn what_is_no_value_is_left_alone_with_its_reason() {
        for (sql, why) in [
            (
                "insert into t values (1)",
                "no list of columns: a COPY would need all",
            ),
            ("insert into t (a) values (now())", NO_VALUE),
            ("insert into t (a) values (1 + 2)", NO_VALUE),
            ("insert into t (a) values (array[1])", NO_VALUE),
            ("insert into t (a) values (current_date)", NO_VALUE),
            ("insert into t (a) values (default)", "DEFAULT within a row"),
            (
                "insert into t (a) values ($1)",
                "a parameter without a value",
            ),
            (
                "insert into t (a) values (E'a')",
                "a value in a spelling of its own",
            ),
            (
                "insert into t (a) values (1e3)",
                "a number in a spelling of its own",
            ),
            (
                "insert into t (a) values (007)",
                "a number in a spelling of its own",
            ),
            ("insert into t (a) values ('abc'::char(2))", NO_VALUE),
            (
                "insert into t (a) values ('red'::colour)",
                "a value of another type than a plain one",
            ),
            (
                "insert into t (a, b) values (1)",
                "not a value for each column",
            ),
            ("insert into t (a[1]) values (1)", "not understood"),
            ("insert into t as x (a) values (1)", "not understood"),
            (
                "insert into t (a) overriding system value values (1)",
                "not understood",
            ),
            (
                "insert into t (a) values (1) on conflict do nothing",
                "ON CONFLICT: a COPY has none",
            ),
        ] {
            assert_eq!(copied(sql, &[]), Err(why), "{sql}");
        }
    }
}
