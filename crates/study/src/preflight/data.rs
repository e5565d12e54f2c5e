//! Data and properties of the target's databases, compared with the starting point of the capture.

use std::collections::BTreeMap;

use connect::login::Dialer;
use workload::{DatabaseState, SequenceValue, StartingPoint, TableRows};

use super::logins::LoginUse;
use super::{CheckedPart, Context, Preflight, Severity};
use crate::cache_warming::own_login;

pub(super) fn check(
    context: &Context<'_>,
    dialer: &Dialer,
    accepted: &[LoginUse],
    result: &mut Preflight,
) {
    let Some(point) = context.point else {
        return;
    };
    count_before_start(context, point, result);
    for captured in &point.databases {
        let is_of = |used: &&LoginUse| used.captured_database == captured.name;
        let Some(used) = accepted.iter().find(is_of) else {
            continue;
        };
        // The role of --target may read more than that of a session.
        let own = own_login(context.target, &used.login);
        let state = observe::database_state(dialer, &own)
            .or_else(|_| observe::database_state(dialer, &used.login));
        if let Ok(found) = state {
            compare(
                captured,
                &found,
                &context.reader.path().display().to_string(),
                result,
            );
        }
    }
}

/// Most events that are read before a replay to count those before the starting point.
const BEFORE_START_EVENTS_MAX: usize = 100_000;

/// Finds statements of a log that were sent before the starting point. A copy already has what they wrote. Both times are
/// of the server's clock.
fn count_before_start(context: &Context<'_>, point: &StartingPoint, result: &mut Preflight) {
    let provenance = &context.reader.info().provenance;
    let start_us = point.server_time_us - provenance.start_wall_us;
    if provenance.source_kind != "log" || start_us <= 0 {
        return;
    }
    let Ok(events) = context.reader.events() else {
        return;
    };
    let events_max = match context.part {
        CheckedPart::Beginning => BEFORE_START_EVENTS_MAX,
        CheckedPart::Whole => usize::MAX,
    };
    let mut read = 0;
    let before = events
        .take(events_max)
        .map_while(Result::ok)
        .take_while(|(event, _)| event.due_us < start_us)
        .inspect(|_| read += 1)
        .filter(|(event, _)| event.kind.is_statement() && !event.prelude)
        .count() as u64;
    let more = match read < events_max {
        true => "",
        false => ", and perhaps more",
    };
    if before > 0 {
        result.add(
            Severity::OtherData,
            before,
            format!(
                "they{more} were sent before the starting point: a copy of it has what they wrote"
            ),
            format!(
                "replay with --from {}",
                clock::rfc3339_text(point.server_time_us)
            ),
        );
    }
}

/// Compares a database of the target with the captured one.
fn compare(
    captured: &DatabaseState,
    found: &DatabaseState,
    workload: &str,
    result: &mut Preflight,
) {
    let name = &captured.name;
    compare_extensions(captured, found, result);
    compare_sequences(captured, found, workload, result);
    compare_rows(captured, found, workload, result);
    let described = |state: &DatabaseState| {
        format!(
            "{}, LC_COLLATE {}, LC_CTYPE {}",
            state.encoding, state.collate, state.ctype
        )
    };
    if described(captured) != described(found) {
        result.add(
            Severity::MayDiffer,
            0,
            format!("database {name} has {}; the capture's had {}", described(found), described(captured)),
            "text sorts and compares otherwise, so ORDER BY, LIMIT and ranges may give other rows: create the database with the captured encoding and locale".to_owned(),
        );
    }
}

fn compare_extensions(captured: &DatabaseState, found: &DatabaseState, result: &mut Preflight) {
    let missing: Vec<&str> = captured
        .extensions
        .keys()
        .filter(|name| !found.extensions.contains_key(*name))
        .map(String::as_str)
        .collect();
    if !missing.is_empty() {
        let names = missing.join(", ");
        result.add(
            Severity::MayDiffer,
            0,
            format!(
                "database {} lacks extensions of the capture's: {names}",
                captured.name
            ),
            "CREATE EXTENSION them, if a statement or a trigger uses them".to_owned(),
        );
    }
}

fn compare_sequences(
    captured: &DatabaseState,
    found: &DatabaseState,
    workload: &str,
    result: &mut Preflight,
) {
    let key = |one: &SequenceValue| (one.schema.clone(), one.name.clone());
    let values: BTreeMap<_, &SequenceValue> =
        found.sequences.iter().map(|one| (key(one), one)).collect();
    let pairs = captured
        .sequences
        .iter()
        .filter_map(|was| Some((was, *values.get(&key(was))?)));
    let differing: Vec<(&SequenceValue, &SequenceValue)> =
        pairs.filter(|(was, is)| next(was) != next(is)).collect();
    let farthest = differing
        .iter()
        .max_by_key(|(was, is)| was.last_value.abs_diff(is.last_value));
    if let Some((was, is)) = farthest {
        result.add(
            Severity::OtherData,
            0,
            format!(
                "{} of {} sequences of database {} differ from the starting point, such as {}.{}: {} here, {} there",
                differing.len(),
                captured.sequences.len(),
                captured.name,
                was.schema,
                was.name,
                is.last_value,
                was.last_value
            ),
            format!("rehearse inspect {workload} --sequences | psql -d TARGET"),
        );
    }
}

/// Returns what decides the next value.
fn next(sequence: &SequenceValue) -> (i64, bool) {
    (sequence.last_value, sequence.is_called)
}

fn compare_rows(
    captured: &DatabaseState,
    found: &DatabaseState,
    workload: &str,
    result: &mut Preflight,
) {
    let key = |one: &TableRows| (one.schema.clone(), one.name.clone());
    let rows: BTreeMap<_, u64> = found
        .small_tables
        .iter()
        .map(|one| (key(one), one.rows))
        .collect();
    let pairs = captured
        .small_tables
        .iter()
        .filter_map(|was| Some((was, *rows.get(&key(was))?)));
    let differing: Vec<(&TableRows, u64)> = pairs.filter(|(was, is)| was.rows != *is).collect();
    let Some((was, is)) = differing
        .iter()
        .max_by_key(|(was, is)| was.rows.abs_diff(*is))
    else {
        return;
    };
    result.add(
        Severity::OtherData,
        0,
        format!(
            "{} of {} small tables of database {} have another number of rows than at the starting point, such as {}.{}: {is} here, {} there",
            differing.len(),
            captured.small_tables.len(),
            captured.name,
            was.schema,
            was.name,
            was.rows
        ),
        format!("bring the copy to the starting point: rehearse inspect {workload} --copy-commands"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(value: i64, rows: u64, locale: &str, extension: &str) -> DatabaseState {
        DatabaseState {
            name: "shop".to_owned(),
            encoding: "UTF8".to_owned(),
            collate: locale.to_owned(),
            extensions: [(extension.to_owned(), "1".to_owned())].into(),
            sequences: vec![SequenceValue {
                name: "ids".to_owned(),
                last_value: value,
                is_called: true,
                ..SequenceValue::default()
            }],
            small_tables: vec![TableRows {
                name: "settings".to_owned(),
                rows,
                ..TableRows::default()
            }],
            ..DatabaseState::default()
        }
    }

    #[test]
    fn each_difference_is_a_finding_and_equal_databases_have_none() {
        let captured = state(7, 12, "C", "hstore");
        let mut result = Preflight::default();
        compare(&captured, &captured, "a.workload", &mut result);
        assert_eq!(result.findings, []);
        compare(
            &captured,
            &state(40, 0, "de_DE", "citext"),
            "a.workload",
            &mut result,
        );
        let text = format!("{:?}", result.findings);
        for part in [
            "ids: 40 here, 7 there",
            "settings: 0 here, 12 there",
            "LC_COLLATE de_DE",
            "hstore",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(result.findings.len(), 4);
    }
}
