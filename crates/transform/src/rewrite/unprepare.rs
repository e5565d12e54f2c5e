//! Turns prepared statements into simple ones with the values in the text.

use std::sync::Arc;

use super::insert::Reason;
use sql::{Lexer, Token};
use workload::{
    Boundary, Event, EventKind, MessageSet, Parameter, WireDetails, binary_value_text, type_name,
};

/// Builds the simple statement; `None` if the event is no execution.
///
/// # Errors
/// Returns the reason if the statement stays unchanged.
pub(super) fn unprepare(event: &Event) -> Option<Result<Event, Reason>> {
    let (sql, portal, parameters) = match &event.kind {
        EventKind::Execute {
            sql,
            portal,
            parameters,
            ..
        } => (sql, portal, parameters),
        EventKind::Fetch { .. } => return Some(Err("it fetches from an open portal")),
        EventKind::FunctionCall { .. } => return Some(Err("it calls a function by its OID")),
        EventKind::Prepare { .. } => return Some(Err("it only prepares")),
        _ => return None,
    };
    let particulars = event.wire_details.as_deref();
    if event.prelude {
        return Some(Err("what a slice kept from before"));
    }
    if event.unreplayable.is_some() {
        return Some(Err("it cannot be replayed"));
    }
    if particulars.is_some_and(|one| one.messages != MessageSet::Complete) {
        return Some(Err("it was refused before it was executed"));
    }
    if !portal.is_empty() || particulars.is_some_and(|one| one.rows_max.is_some_and(|max| max > 0))
    {
        return Some(Err("it fetches its rows in parts"));
    }
    if !particulars.is_none_or(|one| one.awaited && one.boundary == Boundary::Sync) {
        return Some(Err("part of a pipeline"));
    }
    let types = particulars.map_or(&[][..], |one| &one.parameter_types);
    let text = match insert_values(sql, parameters, types) {
        Ok(text) => text,
        Err(why) => return Some(Err(why)),
    };
    let particulars = particulars.map(|one| {
        Arc::new(WireDetails {
            parameter_types: Vec::new(),
            parsed: false,
            result_formats: Vec::new(),
            // The digest may be of results in binary form.
            result_digest: one
                .result_formats
                .is_empty()
                .then_some(one.result_digest)
                .flatten(),
            first_rows: one
                .result_formats
                .is_empty()
                .then(|| one.first_rows.clone())
                .flatten(),
            ..one.clone()
        })
    });
    Some(Ok(Event {
        kind: EventKind::Simple { sql: text },
        wire_details: particulars,
        ..event.clone()
    }))
}

fn insert_values(
    sql: &str,
    parameters: &[Option<Parameter>],
    types: &[u32],
) -> Result<Arc<str>, Reason> {
    let mut out = String::with_capacity(sql.len() + parameters.len() * 8);
    let mut copied = 0;
    for token in Lexer::new(sql) {
        let Token::Value { start, end } = token else {
            continue;
        };
        let Some(number) = sql[start..end]
            .strip_prefix('$')
            .and_then(|digits| digits.parse::<usize>().ok())
        else {
            continue;
        };
        let place = number
            .checked_sub(1)
            .ok_or("it names a parameter that is none")?;
        let value = parameters.get(place).ok_or("its values are not known")?;
        out.push_str(&sql[copied..start]);
        copied = end;
        write_literal(
            value.as_ref(),
            types.get(place).copied().unwrap_or(0),
            &mut out,
        )?;
    }
    out.push_str(&sql[copied..]);
    Ok(out.into())
}

/// Writes a value as a literal of its type.
fn write_literal(value: Option<&Parameter>, type_oid: u32, out: &mut String) -> Result<(), Reason> {
    let name = type_name(type_oid);
    match value {
        None => out.push_str("NULL"),
        Some(Parameter::Text(text)) => write_quoted(text, out)?,
        Some(Parameter::Binary(bytes)) => {
            let text = binary_value_text(type_oid, bytes).ok_or("a value in binary form")?;
            write_quoted(&text, out)?;
        }
    }
    if let Some(name) = name {
        out.push_str("::");
        out.push_str(name);
    }
    Ok(())
}

fn write_quoted(text: &str, out: &mut String) -> Result<(), Reason> {
    if text.contains('\0') {
        return Err("a value in binary form");
    }
    // With an E prefix, a backslash means the same whatever standard_conforming_strings is.
    let escapes = text.contains('\\');
    if escapes {
        out.push_str(" E");
    }
    out.push('\'');
    for character in text.chars() {
        if character == '\'' || escapes && character == '\\' {
            out.push(character);
        }
        out.push(character);
    }
    out.push('\'');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(sql: &str, parameters: &[Option<Parameter>], types: &[u32]) -> String {
        match insert_values(sql, parameters, types) {
            Ok(text) => text.to_string(),
            Err(why) => why.to_owned(),
        }
    }

    #[test]
    fn values_are_written_as_literals_of_their_types() {
        let some = |text: &str| Some(Parameter::from(text));
        let binary = |bytes: &[u8]| Some(Parameter::from(bytes));
        assert_eq!(
            written(
                "select $2, '$1', $1 -- $3",
                &[some("it's"), some("-5")],
                &[0, 23]
            ),
            "select '-5'::int4, '$1', 'it''s' -- $3"
        );
        assert_eq!(written("select $1", &[None], &[23]), "select NULL::int4");
        assert_eq!(
            written("select $1", &[some(r"c:\d")], &[]),
            r"select  E'c:\\d'"
        );
        assert_eq!(
            written(
                "select $1, $2",
                &[binary(&7_i64.to_be_bytes()), binary(&[0xab, 0])],
                &[20, 17]
            ),
            r"select '7'::int8,  E'\\xab00'::bytea"
        );
        // A value without a text form is left alone.
        assert_eq!(
            written("select $1", &[binary(&[1, 2])], &[0]),
            "a value in binary form"
        );
        assert_eq!(
            written("select $2", &[some("1")], &[]),
            "its values are not known"
        );
    }
}
