//! Finds the literals of a statement that a client could have sent as parameters.
//!
//! A literal is left alone if a parameter cannot replace it, or would change the meaning: the value
//! of a typed literal (`interval '1 day'`), modifiers of types, column positions in ORDER BY and
//! GROUP BY, spellings with escapes.

use std::sync::Arc;

use sql::{Lexer, Token, classify};

use super::insert::Reason;

/// Words after which a value is an expression of its own.
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

/// OIDs (`pg_type.dat`) of the types that PostgreSQL gives a number in a statement's text:
/// `integer` if it fits in 32 bits, else `bigint` if it fits in 64, else `numeric`, as for all
/// numbers with a point or an exponent (documentation, "Numeric Constants", 4.1.2.6).
const INT4: u32 = 23;
const INT8: u32 = 20;
const NUMERIC: u32 = 1700;

/// A literal that can become a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Literal {
    /// Start of the literal in the text, in bytes.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Value of the literal.
    pub(super) value: Box<str>,
    /// OID of the type that the server infers; 0 if the context decides.
    pub(super) type_oid: u32,
}

/// Finds the literals that can become parameters, in the order of the text.
///
/// Returns `None` for a statement without a plan, which is never prepared.
///
/// # Errors
/// Returns the reason if the statement cannot be prepared.
pub(super) fn parameterisable_literals(sql: &str) -> Option<Result<Vec<Literal>, Reason>> {
    classify(sql).is_planned().then(|| find_literals(sql))
}

fn find_literals(sql: &str) -> Result<Vec<Literal>, Reason> {
    let mut scanner = LiteralScanner::default();
    let mut found = Vec::new();
    for token in Lexer::new(sql) {
        let text = &sql[token.start()..token.end()];
        match token {
            Token::Comment { .. } => continue,
            Token::Value { start, end } => {
                if text.starts_with('$') && text[1..].starts_with(|c: char| c.is_ascii_digit()) {
                    return Err("it has parameters already");
                }
                if scanner.can_be_parameter(text)
                    && let Some((value, type_oid)) = parse_literal(text)
                {
                    found.push(Literal {
                        start,
                        end,
                        value,
                        type_oid,
                    });
                }
                scanner.previous = Previous::Value;
            }
            Token::Word { .. } => scanner.handle_word(text),
            Token::Quoted { .. } => scanner.previous = Previous::Name,
            Token::Symbol { .. } => scanner.handle_symbol(text),
        }
        if scanner.statements == StatementCount::Several {
            return Err("several statements in one text");
        }
    }
    Ok(found)
}

/// Replaces literals by parameters.
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

/// Parses a literal into its value and type; `None` for a spelling that is left alone.
fn parse_literal(text: &str) -> Option<(Box<str>, u32)> {
    if let Some(inner) = text.strip_prefix('\'') {
        let inner = inner.strip_suffix('\'')?;
        // If standard_conforming_strings is off, a backslash has another meaning.
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
    /// A position for a value: after an operator, an opening bracket, a comma, a keyword.
    #[default]
    Place,
    Name,
    Value,
    /// `::`
    Cast,
    /// A closing bracket.
    Close,
    /// AS, whose brackets contain types.
    As,
}

#[derive(Debug, Default)]
struct Frame {
    /// The bracket contains modifiers of a type, or columns with their types.
    of_a_type: bool,
    /// ORDER BY or GROUP BY continues.
    ordering: bool,
}

#[derive(Debug, Default)]
struct LiteralScanner {
    frames: Vec<Frame>,
    outermost: Frame,
    previous: Previous,
    /// A type name precedes: in `::varchar`, or after AS.
    names_a_type: bool,
    before_by: bool,
    statements: StatementCount,
}

/// Number of statements in a text so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum StatementCount {
    #[default]
    One,
    /// The first statement has ended with a semicolon.
    Ended,
    Several,
}

impl LiteralScanner {
    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().unwrap_or(&mut self.outermost)
    }

    fn can_be_parameter(&mut self, text: &str) -> bool {
        let is_number = !text.starts_with('\'');
        let frame = self.frame();
        if frame.of_a_type || frame.ordering && is_number {
            return false;
        }
        self.previous == Previous::Place
    }

    fn handle_word(&mut self, text: &str) {
        if self.statements == StatementCount::Ended {
            self.statements = StatementCount::Several;
        }
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
            // INSERT … VALUES (…): its bracket contains rows.
            "values" => Previous::Place,
            _ => Previous::Name,
        };
    }

    fn handle_symbol(&mut self, text: &str) {
        match text {
            ";" if self.statements == StatementCount::One => {
                self.statements = StatementCount::Ended;
            }
            ";" => {}
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
        match parameterisable_literals(sql) {
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
            // Column positions, typed literals, modifiers.
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
        let types: Vec<u32> = parameterisable_literals(
            "select 1, 2147483647, 2147483648, 9223372036854775808, 1.5, -7, '1'",
        )
        .unwrap()
        .unwrap()
        .iter()
        .map(|literal| literal.type_oid)
        .collect();
        assert_eq!(types, [INT4, INT4, INT8, NUMERIC, NUMERIC, INT4, 0]);
    }
}
