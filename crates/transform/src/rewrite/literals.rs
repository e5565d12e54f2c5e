//! The literals of a statement that a client would have sent as parameters.
//!
//! Those are left alone that a parameter cannot stand for, or where it would mean something else: the value of a typed
//! literal (`interval '1 day'`), modifiers of types, places in ORDER BY and GROUP BY, spellings with escapes.

use std::sync::Arc;

use sql::{Lexer, StatementClass, Token, classify};

use super::insert::Why;

/// Words behind which a value is a value of its own.
const BEFORE_A_VALUE: [&str; 23] = [
    "where",
    "and",
    "or",
    "not",
    "in",
    "like",
    "ilike",
    "between",
    "then",
    "else",
    "when",
    "case",
    "select",
    "limit",
    "offset",
    "set",
    "having",
    "on",
    "distinct",
    "all",
    "any",
    "returning",
    "using",
];

/// Types that PostgreSQL gives a number in a statement's text: `integer` where it fits in 32 bits, else `bigint`
/// where it fits in 64, else `numeric`, as all with a point or an exponent (documentation, "Numeric
/// Constants", 4.1.2.6). OIDs of `pg_type.dat`.
const INT4: u32 = 23;
const INT8: u32 = 20;
const NUMERIC: u32 = 1700;

/// A literal that could be a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Literal {
    /// Where it stands in the text, in bytes.
    pub(super) start: usize,
    pub(super) end: usize,
    /// What it says.
    pub(super) value: Box<str>,
    /// The type that the server takes it for; 0 where the context says.
    pub(super) type_oid: u32,
}

/// The literals that could be parameters, in the order of the text.
///
/// `None` of what is not planned, and so never prepared.
///
/// # Errors
/// Where the statement cannot be prepared.
pub(super) fn literals(sql: &str) -> Option<Result<Vec<Literal>, Why>> {
    let is_planned = matches!(
        classify(sql),
        StatementClass::Select
            | StatementClass::Insert
            | StatementClass::Update
            | StatementClass::Delete
            | StatementClass::Merge
    );
    is_planned.then(|| find(sql))
}

fn find(sql: &str) -> Result<Vec<Literal>, Why> {
    let mut scan = Scan::default();
    let mut found = Vec::new();
    for token in Lexer::new(sql) {
        let text = &sql[token.start()..token.end()];
        match token {
            Token::Comment { .. } => continue,
            Token::Value { start, end } => {
                if text.starts_with('$') && text[1..].starts_with(|c: char| c.is_ascii_digit()) {
                    return Err("it has parameters already");
                }
                if scan.takes_a_parameter(text)
                    && let Some((value, type_oid)) = read(text)
                {
                    found.push(Literal {
                        start,
                        end,
                        value,
                        type_oid,
                    });
                }
                scan.previous = Previous::Value;
            }
            Token::Word { .. } => scan.word(text),
            Token::Quoted { .. } => scan.previous = Previous::Name,
            Token::Symbol { .. } => scan.symbol(text),
        }
        if scan.several {
            return Err("several statements in one text");
        }
    }
    Ok(found)
}

/// The text with parameters in the place of literals.
pub(super) fn with_parameters<'l>(
    sql: &str,
    literals: impl Iterator<Item = &'l Literal>,
) -> Arc<str> {
    let mut out = String::with_capacity(sql.len());
    let mut copied = 0;
    for (at, literal) in literals.enumerate() {
        out.push_str(&sql[copied..literal.start]);
        out.push('$');
        out.push_str(&(at + 1).to_string());
        copied = literal.end;
    }
    out.push_str(&sql[copied..]);
    out.into()
}

/// What a literal says, and the type it is of; `None` of a spelling that is left alone.
fn read(text: &str) -> Option<(Box<str>, u32)> {
    if let Some(inner) = text.strip_prefix('\'') {
        let inner = inner.strip_suffix('\'')?;
        // Where standard_conforming_strings is off, a backslash says something else.
        return (!inner.contains('\\')).then(|| (inner.replace("''", "'").into(), 0));
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let plain = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if plain(digits) {
        let oid = match digits.parse::<u64>() {
            Ok(number) if i32::try_from(number).is_ok() => INT4,
            Ok(number) if i64::try_from(number).is_ok() => INT8,
            _ => NUMERIC,
        };
        return Some((text.strip_prefix('+').unwrap_or(text).into(), oid));
    }
    let (whole, fraction) = digits.split_once('.')?;
    (plain(whole) && plain(fraction)).then(|| (text.into(), NUMERIC))
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Previous {
    /// Where a value may stand: an operator, a bracket that opens, a comma, a keyword.
    #[default]
    Place,
    Name,
    Value,
    /// `::`
    Cast,
    /// A bracket that closes.
    Close,
    /// AS, whose brackets hold types.
    As,
}

#[derive(Debug, Default)]
struct Frame {
    /// Modifiers of a type, or columns with their types.
    of_a_type: bool,
    /// ORDER BY or GROUP BY goes on.
    ordering: bool,
}

#[derive(Debug, Default)]
struct Scan {
    frames: Vec<Frame>,
    outermost: Frame,
    previous: Previous,
    /// A name of a type was passed: of `::varchar`, or behind AS.
    names_a_type: bool,
    before_by: bool,
    ended: bool,
    several: bool,
}

impl Scan {
    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().unwrap_or(&mut self.outermost)
    }

    fn takes_a_parameter(&mut self, text: &str) -> bool {
        let is_number = !text.starts_with('\'');
        let frame = self.frame();
        if frame.of_a_type || frame.ordering && is_number {
            return false;
        }
        self.previous == Previous::Place
    }

    fn word(&mut self, text: &str) {
        self.several |= self.ended;
        let lower = text.to_ascii_lowercase();
        let lower = lower.as_str();
        if std::mem::take(&mut self.before_by) && lower == "by" {
            self.frame().ordering = true;
            self.previous = Previous::Name;
            return;
        }
        self.before_by = matches!(lower, "order" | "group");
        if matches!(
            lower,
            "limit"
                | "offset"
                | "having"
                | "window"
                | "union"
                | "intersect"
                | "except"
                | "for"
                | "fetch"
                | "returning"
                | "select"
                | "where"
        ) {
            self.frame().ordering = false;
        }
        self.names_a_type = matches!(self.previous, Previous::Cast | Previous::As)
            || self.names_a_type && self.previous == Previous::Name;
        self.previous = match lower {
            "as" => Previous::As,
            _ if BEFORE_A_VALUE.contains(&lower) => Previous::Place,
            // INSERT … VALUES (…): its bracket holds rows.
            "values" => Previous::Place,
            _ => Previous::Name,
        };
    }

    fn symbol(&mut self, text: &str) {
        match text {
            ";" => self.ended = true,
            "(" | "[" => {
                let of_a_type =
                    self.names_a_type && self.previous == Previous::Name || self.frame().of_a_type;
                self.frames.push(Frame {
                    of_a_type,
                    ordering: false,
                });
                self.previous = Previous::Place;
            }
            ")" | "]" => {
                self.frames.pop();
                self.previous = Previous::Close;
            }
            "::" => self.previous = Previous::Cast,
            "." => self.previous = Previous::Name,
            _ => self.previous = Previous::Place,
        }
        self.names_a_type = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(sql: &str) -> String {
        match literals(sql) {
            Some(Ok(found)) => with_parameters(sql, found.iter()).to_string(),
            Some(Err(why)) => why.to_owned(),
            None => "not planned".to_owned(),
        }
    }

    #[test]
    fn values_become_parameters_and_what_is_part_of_the_syntax_does_not() {
        for (sql, expected) in [
            (
                "select a from t where id = 5 and name = 'it''s'",
                "select a from t where id = $1 and name = $2",
            ),
            (
                "insert into t (a, b) values (1, 'x'), (-2, null)",
                "insert into t (a, b) values ($1, $2), ($3, null)",
            ),
            (
                "update t set a = a + 1, b = 'y' where id in (1, 2) limit 3",
                "update t set a = a + $1, b = $2 where id in ($3, $4) limit $5",
            ),
            // Places of columns, typed literals, modifiers.
            (
                "select a, count(*) from t where at > now() - interval '36 hours' group by 1 order by 2, a limit 10",
                "select a, count(*) from t where at > now() - interval '36 hours' group by 1 order by 2, a limit $1",
            ),
            (
                "select '5'::numeric(10,2), cast('x' as varchar(3)), date '2020-01-01' from t where v = 7::bigint",
                "select $1::numeric(10,2), cast($2 as varchar(3)), date '2020-01-01' from t where v = $3::bigint",
            ),
            (
                "select * from f(1) as t(a varchar(5)) where a = 'b'",
                "select * from f($1) as t(a varchar(5)) where a = $2",
            ),
            // Spellings that are left alone.
            (
                r"select * from t where a = E'\n' and b = 'c:\d' and c = $$x$$ and d = 0x10 and e = 1e3",
                r"select * from t where a = E'\n' and b = 'c:\d' and c = $$x$$ and d = 0x10 and e = 1e3",
            ),
            (
                "select row_number() over (order by a rows 5 preceding) from t where b = 1 for update",
                "select row_number() over (order by a rows 5 preceding) from t where b = $1 for update",
            ),
            (
                "select a from t where at = 'x' at time zone 'UTC'",
                "select a from t where at = $1 at time zone 'UTC'",
            ),
            ("select 1; select 2", "several statements in one text"),
            ("begin", "not planned"),
            ("select $1", "it has parameters already"),
            ("select 1;", "select $1;"),
        ] {
            assert_eq!(prepared(sql), expected, "{sql}");
        }
    }

    #[test]
    fn numbers_are_of_the_type_that_the_server_takes_them_for() {
        let types: Vec<u32> =
            literals("select 1, 2147483647, 2147483648, 9223372036854775808, 1.5, -7, '1'")
                .unwrap()
                .unwrap()
                .iter()
                .map(|literal| literal.type_oid)
                .collect();
        assert_eq!(types, [INT4, INT4, INT8, NUMERIC, NUMERIC, INT4, 0]);
    }
}
