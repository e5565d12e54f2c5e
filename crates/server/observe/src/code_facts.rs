//! Reads functions, triggers and the build of a target.

use connect::login::{QueryConnection, Row};
use run::{BuildFact, FactNote, Facts, FunctionFact, TriggerFact};
use workload::RowDigest;

use crate::catalogue;
use crate::facts::{note, query_in_transaction, refusal_message, text_at};

/// Maximum number of functions, and of triggers, to record of a database.
const OBJECTS_MAX: usize = 10_000;

/// Column with the total count of functions, and of triggers.
const TOTAL: usize = 5;

/// Reads the functions that no extension owns. Their sources are hashed here, since a server may refuse MD5 and versions
/// differ in what else they have.
pub(crate) fn read_functions(
    facts: &mut Facts,
    questions: &mut QueryConnection<'_>,
    database: &str,
    version: u32,
) {
    let question = |open| catalogue::functions(version, OBJECTS_MAX, open);
    let rows = match query_in_transaction(questions, &question(true)) {
        Ok(rows) => {
            note_left_out(facts, database, "functions", &rows);
            rows
        }
        // Another session may have locked a table that a body names.
        Err(error) => {
            let rows = read(facts, questions, database, "functions", &question(false));
            if !rows.is_empty() {
                let text = format!(
                    "the bodies of functions in standard SQL of the database {database} are not in the hashes: {}",
                    error.message
                );
                note(facts, "functions", Some(database), text);
            }
            rows
        }
    };
    facts.functions.extend(rows.iter().map(|row| FunctionFact {
        database: database.to_owned(),
        schema: text_at(row, 0),
        name: text_at(row, 1),
        arguments: text_at(row, 2),
        definition: text_at(row, 3),
        source_hash: format!("{:016x}", RowDigest::of(text_at(row, 4).as_bytes())),
    }));
}

/// Reads the triggers.
pub(crate) fn read_triggers(
    facts: &mut Facts,
    questions: &mut QueryConnection<'_>,
    database: &str,
    version: u32,
) {
    let question = catalogue::triggers(version, OBJECTS_MAX);
    let rows = read(facts, questions, database, "triggers", &question);
    facts.triggers.extend(rows.iter().map(|row| TriggerFact {
        database: database.to_owned(),
        schema: text_at(row, 0),
        table: text_at(row, 1),
        name: text_at(row, 2),
        definition: text_at(row, 3),
        state: text_at(row, 4),
    }));
}

fn read(
    facts: &mut Facts,
    questions: &mut QueryConnection<'_>,
    database: &str,
    what: &str,
    question: &str,
) -> Vec<Row> {
    match query_in_transaction(questions, question) {
        Ok(rows) => {
            note_left_out(facts, database, what, &rows);
            rows
        }
        Err(error) => {
            let text = refusal_message(database, what, &error);
            note(facts, what, Some(database), text);
            Vec::new()
        }
    }
}

fn note_left_out(facts: &mut Facts, database: &str, what: &str, rows: &[Row]) {
    let total: usize = rows
        .first()
        .map_or(0, |row| text_at(row, TOTAL).parse().unwrap_or(0));
    if total > rows.len() {
        facts.notes.push(FactNote {
            about: what.to_owned(),
            text: format!("the last {what} of the database {database} by name are left out"),
            count: Some((total - rows.len()) as u64),
            database: Some(database.to_owned()),
        });
    }
}

/// Reads how the server was built, as far as the role may see it.
pub(crate) fn read_build(facts: &mut Facts, questions: &mut QueryConnection<'_>, version: u32) {
    for question in [&catalogue::build(version)[..], catalogue::PG_CONFIG] {
        // Most roles may not read pg_config.
        let rows = query_in_transaction(questions, question).unwrap_or_default();
        facts.build.extend(rows.iter().map(|row| BuildFact {
            name: text_at(row, 0),
            value: text_at(row, 1),
        }));
    }
}
