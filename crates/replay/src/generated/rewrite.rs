//! Replaces generated values in the messages of a statement: in the parameters of its Bind, and in the literals of its
//! text.

use std::ops::Range;

use protocol::frame::BODY_BYTES_MAX;
use protocol::frontend::{Bind, Parse, Query, bind, parse, tag};
use protocol::{Format, next_frame};
use sql::{Spelling, ValueToken};

use super::tracker::UsedValue;
use super::value::Value;

/// Messages with replaced values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub(crate) bytes: Vec<u8>,
    /// Number of replaced values.
    pub(crate) count: u64,
    /// Bytes by which the Parse is longer than before.
    pub(crate) parse_growth: i64,
}

/// Replaces values in messages; `None` if there are none to replace. The text of a named statement is replaced, too: all
/// its executions in a session have the same literals.
pub(crate) fn replace_values(bytes: &[u8], values: &[(&UsedValue, Value)]) -> Option<Replaced> {
    if values.is_empty() {
        return None;
    }
    let mut replaced = Replaced {
        bytes: Vec::with_capacity(bytes.len() + 64),
        count: 0,
        parse_growth: 0,
    };
    let mut rest = bytes;
    // The replay encoded them itself; bytes that cannot be decoded are sent unchanged.
    while let Ok(Some(frame)) = next_frame(rest, BODY_BYTES_MAX) {
        let (message, after) = rest.split_at(frame.message_bytes());
        rest = after;
        let before = replaced.bytes.len();
        let out = &mut replaced.bytes;
        let count = match frame.tag {
            tag::QUERY => replace_in_query(Query::decode(frame.body).ok()?, values, out),
            tag::PARSE => {
                let count = replace_in_parse(&Parse::decode(frame.body).ok()?, values, out);
                if count.is_some() {
                    replaced.parse_growth = (out.len() - before) as i64 - message.len() as i64;
                }
                count
            }
            tag::BIND => replace_parameters(&Bind::decode(frame.body).ok()?, values, out),
            _ => None,
        };
        match count {
            Some(count) => replaced.count += count,
            None => {
                out.truncate(before);
                out.extend_from_slice(message);
            }
        }
    }
    replaced.bytes.extend_from_slice(rest);
    (replaced.count > 0).then_some(replaced)
}

fn replace_in_query(
    query: Query<'_>,
    values: &[(&UsedValue, Value)],
    out: &mut Vec<u8>,
) -> Option<u64> {
    let (sql, count) = replace_literals(query.sql, values)?;
    Query { sql: &sql }.encode(out).ok()?;
    Some(count)
}

fn replace_in_parse(
    parse: &Parse<'_>,
    values: &[(&UsedValue, Value)],
    out: &mut Vec<u8>,
) -> Option<u64> {
    let (sql, count) = replace_literals(parse.sql, values)?;
    parse::encode(parse.statement, &sql, parse.parameter_types.iter(), out).ok()?;
    Some(count)
}

/// Returns a text with other literals, and their number.
fn replace_literals(sql: &[u8], values: &[(&UsedValue, Value)]) -> Option<(Vec<u8>, u64)> {
    let sql = std::str::from_utf8(sql).ok()?;
    let mut literals: Vec<(&Range<usize>, Value)> = Vec::new();
    for (used, value) in values {
        if let ValueToken::Literal(range) = &used.token {
            literals.push((range, *value));
        }
    }
    literals.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(sql.len() + 16);
    let (mut at, mut count) = (0, 0);
    for (range, value) in literals {
        let token = sql.get(range.clone())?;
        out.push_str(sql.get(at..range.start)?);
        let text = String::from_utf8(value.text()).ok()?;
        Spelling::of(token).0.write(&text, &mut out);
        at = range.end;
        count += 1;
    }
    out.push_str(&sql[at..]);
    (count > 0).then(|| (out.into_bytes(), count))
}

fn replace_parameters(
    bind: &Bind<'_>,
    values: &[(&UsedValue, Value)],
    out: &mut Vec<u8>,
) -> Option<u64> {
    let mut count = 0;
    let replaced: Vec<Option<Vec<u8>>> = bind
        .parameters
        .iter()
        .enumerate()
        .map(|(index, parameter)| {
            let is_here = |used: &UsedValue| used.token == ValueToken::Parameter(index);
            let mut here = values.iter().filter(|(used, _)| is_here(used)).peekable();
            let format = bind.parameter_formats.of(index)?;
            let (first, value) = here.peek()?;
            if first.part.is_some() {
                let (bytes, replaced) = replace_parts(parameter?, format, here);
                count += replaced;
                return (replaced > 0).then_some(bytes);
            }
            let replaced = match format {
                Format::Binary => value.binary(parameter?.len()),
                _ => Some(value.text()),
            }?;
            count += 1;
            Some(replaced)
        })
        .collect();
    if count == 0 {
        return None;
    }
    let parameters = replaced.iter().zip(bind.parameters);
    bind::encode(
        bind.portal,
        bind.statement,
        bind.parameter_formats.iter(),
        parameters.map(|(replaced, parameter)| replaced.as_deref().or(parameter)),
        bind.result_formats.iter(),
        out,
    )
    .ok()?;
    Some(count)
}

/// Replaces values within an array or a document. Returns the parameter, and the number of values that fitted.
fn replace_parts<'v>(
    parameter: &[u8],
    format: Format,
    values: impl Iterator<Item = &'v (&'v UsedValue, Value)>,
) -> (Vec<u8>, u64) {
    let mut parts: Vec<(&Range<usize>, Value)> = values
        .filter_map(|(used, value)| Some((used.part.as_ref()?, *value)))
        .collect();
    parts.sort_by_key(|(range, _)| range.start);
    let is_document = matches!(parameter, [1, b'{' | b'[', ..] | [b'{' | b'[', ..]);
    let mut bytes = Vec::with_capacity(parameter.len() + 16);
    let (mut at, mut count) = (0, 0);
    for (range, value) in parts {
        let Some(before) = parameter.get(at..range.start) else {
            continue;
        };
        let replaced = match format {
            // The length of an element stands before it.
            Format::Binary if !is_document => {
                let replaced = value.binary(range.len());
                replaced.filter(|replaced| replaced.len() == range.len())
            }
            _ => Some(value.text()),
        };
        let Some(replaced) = replaced else {
            continue;
        };
        bytes.extend_from_slice(before);
        bytes.extend_from_slice(&replaced);
        at = range.end;
        count += 1;
    }
    bytes.extend_from_slice(parameter.get(at..).unwrap_or_default());
    (bytes, count)
}
