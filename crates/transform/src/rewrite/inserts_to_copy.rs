//! Converts rows of inserts to the data of a COPY (documentation, "COPY", text format).
//!
//! A COPY parses each value as its column's type does, and an insert parses a plain literal in the
//! same way. The column types are unknown here. So values that an insert would compute
//! (expressions, defaults within a row), or parse as another type first, are copied only if their
//! text is the same for both.

use std::borrow::Cow;

use super::insert::{Reason, SingleRowInsert};
use crate::mask::escape_text;
use sql::{Lexeme, Spelling, split_statements};
use workload::Parameter;

/// A type that a value is converted to before it is assigned to its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IntermediateType {
    Text,
    Whole,
    Truth,
    Date,
    /// Without a time zone.
    Timestamp,
    Uuid,
    Json,
    Bytes,
}

/// Type names, without modifiers, and the OIDs of `pg_type.dat`. Excluded are types with a time
/// zone, which columns without one parse differently; floats, which round; and `jsonb`, which
/// reformats its text.
const TYPES: [(&str, u32, IntermediateType); 16] = [
    ("text", 25, IntermediateType::Text),
    ("varchar", 1043, IntermediateType::Text),
    ("character varying", 1043, IntermediateType::Text),
    ("smallint", 21, IntermediateType::Whole),
    ("int2", 21, IntermediateType::Whole),
    ("int", 23, IntermediateType::Whole),
    ("integer", 23, IntermediateType::Whole),
    ("int4", 23, IntermediateType::Whole),
    ("bigint", 20, IntermediateType::Whole),
    ("int8", 20, IntermediateType::Whole),
    ("boolean", 16, IntermediateType::Truth),
    ("date", 1082, IntermediateType::Date),
    ("timestamp", 1114, IntermediateType::Timestamp),
    ("uuid", 2950, IntermediateType::Uuid),
    ("json", 114, IntermediateType::Json),
    ("bytea", 17, IntermediateType::Bytes),
];

impl IntermediateType {
    /// Returns whether a column parses this text in the same way as the type's output for it.
    fn preserves(self, text: &str) -> bool {
        let only = |allowed: &str| {
            text.chars()
                .all(|one| one.is_ascii_digit() || allowed.contains(one))
        };
        match self {
            IntermediateType::Text | IntermediateType::Json | IntermediateType::Bytes => true,
            IntermediateType::Whole => !text.contains('.') && check_number(text).is_ok(),
            IntermediateType::Truth => matches!(text, "true" | "false"),
            IntermediateType::Date => text.len() == 10 && only("-"),
            IntermediateType::Timestamp => {
                text.len() >= 19 && only("-:. T") && !text.starts_with('-')
            }
            IntermediateType::Uuid => {
                text.len() == 36
                    && text
                        .bytes()
                        .all(|one| matches!(one, b'0'..=b'9' | b'a'..=b'f' | b'-'))
            }
        }
    }
}

const OTHER_TYPE: Reason = "a value that is read as another type first";
const NO_VALUE: Reason = "an expression: a COPY takes values only";

/// Builds the COPY for rows of this insert; also returns its number of columns.
///
/// # Errors
/// Returns the reason if no COPY is equivalent.
pub(super) fn build_copy(cut: &SingleRowInsert<'_>) -> Result<(String, usize), Reason> {
    const UNKNOWN: Reason = "not understood";
    if !cut.tail.is_empty() {
        return Err("ON CONFLICT: a COPY has none");
    }
    let all = split_statements(cut.head);
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

/// An insert's parameter values, and the types that its client specified (0, and missing ones at
/// the end, are left to the server).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parameters<'a> {
    pub(super) values: &'a [Option<Parameter>],
    pub(super) types: &'a [u32],
}

/// Appends a row as a line.
///
/// # Errors
/// Returns the reason if a field is no value. Nothing is appended then.
pub(super) fn append_row(
    row: &str,
    columns: usize,
    parameters: Parameters<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Reason> {
    let all = split_statements(row);
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
        match parse_value(item, parameters) {
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

/// Parses a field; `None` for NULL.
fn parse_value<'a>(
    words: &[Lexeme<'a>],
    parameters: Parameters<'a>,
) -> Result<Option<Cow<'a, str>>, Reason> {
    let cast = words.iter().rposition(|word| word.is_symbol("::"));
    if let Some(at) = cast {
        let named: Vec<String> = words[at + 1..]
            .iter()
            .map(|word| word.text().to_lowercase())
            .collect();
        let named = named.join(" ");
        let found = TYPES.iter().find(|(name, _, _)| *name == named);
        let (_, _, via) = found.ok_or(OTHER_TYPE)?;
        return check_preserved(*via, parse_value(&words[..at], parameters)?);
    }
    match words {
        [word] if word.is("null") => Ok(None),
        [word] if word.is("default") => Err("DEFAULT within a row"),
        [word] if word.is("true") || word.is("false") => {
            Ok(Some(Cow::Owned(word.text().to_lowercase())))
        }
        [Lexeme::Value(text)] => match Spelling::of(text) {
            (Spelling::Placeholder, _) => parse_parameter(text, parameters),
            (Spelling::Number, _) => Ok(Some(Cow::Borrowed(check_number(text)?))),
            (spelling @ (Spelling::Plain("") | Spelling::Dollars(_)), inner) => {
                Ok(Some(spelling.read(inner)))
            }
            _ => Err("a value in a spelling of its own"),
        },
        [Lexeme::Symbol("-"), Lexeme::Value(text)]
            if matches!(Spelling::of(text).0, Spelling::Number) && !text.starts_with('-') =>
        {
            check_number(&format!("-{text}"))?;
            Ok(Some(Cow::Owned(format!("-{}", check_number(text)?))))
        }
        _ => Err(NO_VALUE),
    }
}

fn check_preserved(
    via: IntermediateType,
    value: Option<Cow<'_, str>>,
) -> Result<Option<Cow<'_, str>>, Reason> {
    match value.as_ref().is_none_or(|text| via.preserves(text)) {
        true => Ok(value),
        false => Err(OTHER_TYPE),
    }
}

/// Accepts a number that columns of numbers and of text parse as an insert does. The only exception
/// is a decimal point in a column of integers, which a COPY refuses.
fn check_number(text: &str) -> Result<&str, Reason> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.ends_with(|last: char| last.is_ascii_digit())
        && digits
            .bytes()
            .all(|one| one.is_ascii_digit() || one == b'.')
        && digits.bytes().filter(|one| *one == b'.').count() <= 1
        && !(digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0."))
        // Zero has a sign only in floats.
        && (digits.len() == text.len() || digits.bytes().any(|one| matches!(one, b'1'..=b'9')));
    match is_plain {
        true => Ok(text),
        false => Err("a number in a spelling of its own"),
    }
}

fn parse_parameter<'a>(
    text: &str,
    parameters: Parameters<'a>,
) -> Result<Option<Cow<'a, str>>, Reason> {
    const NONE: Reason = "a parameter without a value";
    let number = text.strip_prefix('$').and_then(|one| one.parse().ok());
    let place = number
        .and_then(|one: usize| one.checked_sub(1))
        .ok_or(NONE)?;
    let value = match parameters.values.get(place).ok_or(NONE)? {
        None => None,
        Some(Parameter::Text(text)) => Some(Cow::Borrowed(&**text)),
        Some(Parameter::Binary(_)) => return Err("values in binary form"),
    };
    match parameters.types.get(place) {
        None | Some(0) => Ok(value),
        Some(given) => {
            let found = TYPES.iter().find(|(_, oid, _)| oid == given);
            let (_, _, via) = found.ok_or(OTHER_TYPE)?;
            check_preserved(*via, value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::insert::split_insert;
    use super::*;

    fn copied(sql: &str, values: &[Option<&str>]) -> Result<(String, String), Reason> {
        let cut = split_insert(sql).unwrap()?;
        let (statement, columns) = build_copy(&cut)?;
        let values: Vec<Option<Parameter>> = values
            .iter()
            .map(|value| value.map(Parameter::from))
            .collect();
        let mut out = b"before\n".to_vec();
        let parameters = Parameters {
            values: &values,
            types: &[25],
        };
        let made = append_row(cut.row, columns, parameters, &mut out);
        let text = String::from_utf8(out).unwrap();
        let text = text.strip_prefix("before\n").unwrap().to_owned();
        assert!(made.is_ok() || text.is_empty(), "{text}");
        made.map(|()| (statement, text))
    }

    #[test]
    fn values_are_fields_of_a_line() {
        let sql = "insert into s.\"T\" (a, \"b c\", d, e, f, g) values \
            (-12, 'it''s a\ttab\\', NULL, true, '2026-01-01 10:00:00'::timestamp, $$x$$)";
        let (statement, line) = copied(sql, &[]).unwrap();
        assert_eq!(
            statement,
            "COPY s.\"T\" (a, \"b c\", d, e, f, g) FROM STDIN"
        );
        assert_eq!(
            line,
            "-12\tit's a\\ttab\\\\\t\\N\ttrue\t2026-01-01 10:00:00\tx\n"
        );
        let (_, line) = copied(
            "INSERT INTO t (a, b, c) VALUES ($2, $1::json, $3)",
            &[Some("{\"a\": \"\\n\"}"), None, Some("")],
        )
        .unwrap();
        assert_eq!(line, "\\N\t{\"a\": \"\\\\n\"}\t\n");
    }

    #[test]
    fn a_type_that_a_client_gave_counts_as_one_that_stands_in_the_text() {
        let of = |oid: u32, text: &str| {
            let parameters = Parameters {
                values: &[Some(Parameter::from(text))],
                types: &[oid],
            };
            append_row("($1)", 1, parameters, &mut Vec::new())
        };
        for (oid, text) in [
            (0, "1.5"),
            (23, "-15"),
            (16, "true"),
            (1082, "2026-01-01"),
            (25, "+x"),
        ] {
            assert_eq!(of(oid, text), Ok(()), "{oid} {text}");
        }
        for (oid, text) in [
            (23, "1.5"),
            (701, "0.1"),
            (1184, "2026-01-01 10:00+02"),
            (16, "t"),
        ] {
            assert_eq!(of(oid, text), Err(OTHER_TYPE), "{oid} {text}");
        }
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
            ("insert into t (a) values (- -5)", NO_VALUE),
            (
                "insert into t (a) values (-0.0)",
                "a number in a spelling of its own",
            ),
            ("insert into t (a) values (date '2026-01-01')", NO_VALUE),
            ("insert into t (a) values ('007'::int)", OTHER_TYPE),
            ("insert into t (a) values (1.5::int)", OTHER_TYPE),
            ("insert into t (a) values ('yes'::boolean)", OTHER_TYPE),
            (
                "insert into t (a) values ('2026-01-01 10:00'::date)",
                OTHER_TYPE,
            ),
            (
                "insert into t (a) values ('2026-01-01 10:00:00+02'::timestamp)",
                OTHER_TYPE,
            ),
            (
                "insert into t (a) values ('2026-01-01 10:00:00+02'::timestamptz)",
                OTHER_TYPE,
            ),
            ("insert into t (a) values (0.1::real)", OTHER_TYPE),
            ("insert into t (a) values ('{}'::jsonb)", OTHER_TYPE),
            ("insert into t (a) values ('red'::colour)", OTHER_TYPE),
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
