//! Rows of inserts as the data of a COPY (documentation, "COPY", text format).
//!
//! A COPY reads each value as its column's type does, and an insert reads a plain literal so as well. What type a column
//! has is not known here: what an insert would have worked out (expressions, defaults within a row), or read as another
//! type before it came to its column, is copied only where its text is the same for both.

use std::borrow::Cow;

use super::insert::{OneRow, Why};
use crate::mask::escape_text;
use sql::{Lexeme, Spelling, split_statements};
use workload::Parameter;

/// A type that a value is brought to before it comes to its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Via {
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

/// Their names, without modifiers, and the OIDs of `pg_type.dat`. Deliberately absent: types with a zone, which
/// columns without one read otherwise; floats, which round; `jsonb`, which writes its text anew.
const TYPES: [(&str, u32, Via); 16] = [
    ("text", 25, Via::Text),
    ("varchar", 1043, Via::Text),
    ("character varying", 1043, Via::Text),
    ("smallint", 21, Via::Whole),
    ("int2", 21, Via::Whole),
    ("int", 23, Via::Whole),
    ("integer", 23, Via::Whole),
    ("int4", 23, Via::Whole),
    ("bigint", 20, Via::Whole),
    ("int8", 20, Via::Whole),
    ("boolean", 16, Via::Truth),
    ("date", 1082, Via::Date),
    ("timestamp", 1114, Via::Timestamp),
    ("uuid", 2950, Via::Uuid),
    ("json", 114, Via::Json),
    ("bytea", 17, Via::Bytes),
];

impl Via {
    /// Whether a column reads this text as it reads what the type makes of it.
    fn keeps(self, text: &str) -> bool {
        let only = |allowed: &str| {
            text.chars()
                .all(|one| one.is_ascii_digit() || allowed.contains(one))
        };
        match self {
            Via::Text | Via::Json | Via::Bytes => true,
            Via::Whole => !text.contains('.') && number(text).is_ok(),
            Via::Truth => matches!(text, "true" | "false"),
            Via::Date => text.len() == 10 && only("-"),
            Via::Timestamp => text.len() >= 19 && only("-:. T") && !text.starts_with('-'),
            Via::Uuid => {
                text.len() == 36
                    && text
                        .bytes()
                        .all(|one| matches!(one, b'0'..=b'9' | b'a'..=b'f' | b'-'))
            }
        }
    }
}

const OTHER_TYPE: Why = "a value that is read as another type first";
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

/// What an insert came with: its values, and the types that its client gave them (0, and what is missing at the
/// end, were left to the server).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Parameters<'a> {
    pub(super) values: &'a [Option<Parameter>],
    pub(super) types: &'a [u32],
}

/// Puts a row behind the others, as a line.
///
/// # Errors
/// Where it has what is no value. Nothing of it is put there then.
pub(super) fn line(
    row: &str,
    columns: usize,
    parameters: Parameters<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Why> {
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
    parameters: Parameters<'a>,
) -> Result<Option<Cow<'a, str>>, Why> {
    let cast = words.iter().rposition(|word| word.is_symbol("::"));
    if let Some(at) = cast {
        let named: Vec<String> = words[at + 1..]
            .iter()
            .map(|word| word.text().to_lowercase())
            .collect();
        let named = named.join(" ");
        let found = TYPES.iter().find(|(name, _, _)| *name == named);
        let (_, _, via) = found.ok_or(OTHER_TYPE)?;
        return kept(*via, value(&words[..at], parameters)?);
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
            if matches!(Spelling::of(text).0, Spelling::Number) && !text.starts_with('-') =>
        {
            number(&format!("-{text}"))?;
            Ok(Some(Cow::Owned(format!("-{}", number(text)?))))
        }
        _ => Err(NO_VALUE),
    }
}

fn kept(via: Via, value: Option<Cow<'_, str>>) -> Result<Option<Cow<'_, str>>, Why> {
    match value.as_ref().is_none_or(|text| via.keeps(text)) {
        true => Ok(value),
        false => Err(OTHER_TYPE),
    }
}

/// A number that columns of numbers and of text read as an insert does, but for one: a point in a column of whole
/// numbers, which a COPY refuses.
fn number(text: &str) -> Result<&str, Why> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.ends_with(|last: char| last.is_ascii_digit())
        && digits
            .bytes()
            .all(|one| one.is_ascii_digit() || one == b'.')
        && digits.bytes().filter(|one| *one == b'.').count() <= 1
        && !(digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0."))
        // Zero has no sign but in floats.
        && (digits.len() == text.len() || digits.bytes().any(|one| matches!(one, b'1'..=b'9')));
    match is_plain {
        true => Ok(text),
        false => Err("a number in a spelling of its own"),
    }
}

fn parameter<'a>(text: &str, parameters: Parameters<'a>) -> Result<Option<Cow<'a, str>>, Why> {
    const NONE: Why = "a parameter without a value";
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
            kept(*via, value)
        }
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
        let parameters = Parameters {
            values: &values,
            types: &[25],
        };
        let made = line(cut.row, columns, parameters, &mut out);
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
            line("($1)", 1, parameters, &mut Vec::new())
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
