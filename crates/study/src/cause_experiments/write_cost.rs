//! Measures what a new index costs the statements that write its table.

use std::collections::HashMap;

use diagnose::{Evidence, Form, WriteTrial};
use observe::Example;
use plans::MeasuredTimes;
use sql::Fingerprint;

use super::intervention::Intervention;
use super::screen::make_change;
use super::statement_trial::{PlanningMode, TrialConnection, is_executable};
use super::trial_place::TrialPlace;

/// Largest number of statements that are measured.
const WRITES_MAX: usize = 2;
/// Executions without and with the index. The fastest counts.
const EXECUTIONS: usize = 3;

/// Measures the writing statements of the table with and without the indexes that a change creates. Those that cannot be
/// executed are left out, and so is the statement for which the change was tried.
pub(super) fn measure_writes(
    connection: &mut TrialConnection<'_>,
    evidence: &Evidence,
    (intervention, tried): (&Intervention, Fingerprint),
    examples: &HashMap<Fingerprint, Vec<Example>>,
    place: &mut TrialPlace<'_>,
) -> Vec<WriteTrial> {
    let (Form::Sql(text), Some(setup)) = (&intervention.change.form, intervention.setup()) else {
        return Vec::new();
    };
    let writes = evidence.statements.iter().filter(|one| {
        if one.fingerprint == tried {
            return false;
        }
        let table = evidence.written_by(one);
        table.is_some_and(|table| {
            text.contains(&diagnose::qualified_name(&table.schema, &table.name))
        })
    });
    let mut measured = Vec::new();
    for one in writes {
        let example = examples.get(&one.fingerprint).and_then(|sets| sets.first());
        let example = example.filter(|one| is_executable(one));
        let Some(example) = example else { continue };
        if place.enter(connection, example).is_err() {
            continue;
        }
        let times = connection
            .begin()
            .and_then(|()| measure(connection, example, &setup));
        // A connection that cannot roll back is closed, and replaced.
        let _ = connection.roll_back();
        if let Ok((before_ms, after_ms)) = times {
            measured.push(WriteTrial {
                sql: one.sql.clone(),
                before_ms,
                after_ms,
            });
        }
        if measured.len() == WRITES_MAX {
            break;
        }
    }
    measured
}

fn measure(
    connection: &mut TrialConnection<'_>,
    example: &Example,
    setup: &[String],
) -> Result<(f64, f64), String> {
    let before_ms = fastest(connection, example)?;
    make_change(connection, setup)?;
    Ok((before_ms, fastest(connection, example)?))
}

fn fastest(connection: &mut TrialConnection<'_>, example: &Example) -> Result<f64, String> {
    let mut times: Vec<MeasuredTimes> = Vec::new();
    for _ in 0..EXECUTIONS {
        times.push(connection.execute(example, PlanningMode::Custom)?);
    }
    let times = times.iter().map(MeasuredTimes::total_ms);
    Ok(times.fold(f64::INFINITY, f64::min))
}
