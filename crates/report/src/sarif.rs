//! Findings on a migration file in the Static Analysis Results Interchange Format (SARIF 2.1.0).
//!
//! Source: OASIS, *SARIF Version 2.1.0* (<https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>); GitHub, *SARIF
//! support for code scanning*. Results have normalised statements and error codes, no values and no messages of the server.

use std::collections::BTreeSet;
use std::path::Path;

use compare::proof::Verdict;
use compare::{Comparison, Direction, ErrorChange, StatementComparison};
use serde_json::{Value, json};
use sql::{SqlStatement, split_statements};
use study::proof::{Change, ProofReport, ProofSide};

use crate::text::change_text::evidence_text;
use crate::text::compare_text::error_subject;
use crate::text::line::one_line;
use crate::text::proof_text::verdict_text;
use crate::text::times_text::{measured_change, name_of, ratio_text};
use crate::text::units::count;

/// Address of the schema, by which a file of this kind is recognised.
const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// First characters of every file.
pub(crate) const START: &str = "{\n  \"$schema\": \"https://json.schemastore.org/sarif-";
/// Maximum number of characters of a statement in a message.
const STATEMENT_MAX: usize = 300;

/// Rules: id, level, short description, and what to do.
const RULES: [(&str, &str, &str, &str); 4] = [
    (
        "slower-statement",
        "error",
        "A statement is slower with the migration",
        "Read its plan before and after. An index that the migration drops, or a type that it changes, is a frequent cause.",
    ),
    (
        "suspected-statement",
        "note",
        "A statement looks slower with the migration, which is not proven",
        "Replay more often, or on a machine that does nothing else.",
    ),
    (
        "new-error",
        "error",
        "Statements fail with the migration that did not fail before, or fail more often",
        "Deploy the application's change first, or keep what it uses until then.",
    ),
    (
        "goal-lost",
        "error",
        "The migration made the goal of the proof worse",
        "Read the report of the proof.",
    ),
];

/// SQL file of a migration.
#[derive(Debug, Clone, Copy)]
pub struct MigrationFile<'a> {
    /// Path, as the user gave it.
    pub path: &'a str,
    /// Content.
    pub text: &'a str,
}

/// Renders the findings of a proof on its changes by SQL files, each tested alone. `sides` are those that were proven.
pub fn proof_sarif(view: &ProofReport, sides: &[ProofSide]) -> String {
    let mut results = Vec::new();
    for side in &view.sides {
        let file = sides.iter().find(|one| one.name == side.name);
        let Some([Change::Sql { path, text }]) = file.map(|one| &one.changes[..]) else {
            continue;
        };
        let location = Locations::of(MigrationFile { path, text });
        if side.verdict == Verdict::Lost {
            let text = verdict_text(view, side);
            results.push(result("goal-lost", &text, location.first(), path));
        }
        let errors = side.errors.iter().filter(|one| one.regression);
        results.extend(errors.map(|one| of_error(one, &location)));
        let slower = side.slower.iter();
        results.extend(slower.map(|one| of_statement("slower-statement", one, &location)));
        let suspected = side.suspected.iter();
        results.extend(suspected.map(|one| of_statement("suspected-statement", one, &location)));
    }
    render(results)
}

/// Renders the findings of a comparison of which one side has the migration.
pub fn comparison_sarif(view: &Comparison, file: MigrationFile<'_>) -> String {
    let location = Locations::of(file);
    let errors = view.errors.iter().filter(|one| one.regression);
    let slower = view.causes(Direction::Slower);
    let suspected = view.statements.iter();
    let suspected = suspected.filter(|one| one.change.is_suspected());
    let results = errors
        .map(|one| of_error(one, &location))
        .chain(slower.map(|one| of_statement("slower-statement", one, &location)))
        .chain(suspected.map(|one| of_statement("suspected-statement", one, &location)));
    render(results.collect())
}

fn render(results: Vec<Value>) -> String {
    let rules = RULES.iter().map(|(id, level, short, help)| {
        json!({
            "id": id,
            "shortDescription": {"text": short},
            "fullDescription": {"text": format!("{short}, measured by a replay of the same traffic.")},
            "help": {"text": help},
            "defaultConfiguration": {"level": level},
        })
    });
    let document = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "rehearse",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.collect::<Vec<_>>(),
            }},
            "results": results,
        }],
    });
    crate::json::to_json(&document)
}

fn of_statement(rule: &str, one: &StatementComparison, locations: &Locations<'_>) -> Value {
    let name = name_of(one);
    let factor = ratio_text(&one.service, "x").map(|ratio| format!(" {ratio}"));
    let mut text = format!(
        "{}{}: {}; {}",
        if rule == "slower-statement" {
            "slower"
        } else {
            "looks slower"
        },
        factor.unwrap_or_default(),
        one_line(&name, STATEMENT_MAX),
        measured_change(&one.service)
    );
    let evidence = evidence_text(&one.change);
    if !evidence.is_empty() {
        text.push_str(&format!("; {evidence}"));
    }
    let found = locations.of_statement(one.sql.as_deref().unwrap_or_default());
    let id = one.fingerprint.to_string();
    result(rule, &text, found, &format!("{}:{id}", locations.file.path))
}

fn of_error(one: &ErrorChange, locations: &Locations<'_>) -> Value {
    let text = format!(
        "{} error {}, {} → {} times: {}",
        one.direction.name(),
        one.sqlstate,
        count(one.before),
        count(one.after),
        one_line(&error_subject(one), STATEMENT_MAX)
    );
    let found = locations.of_statement(one.sql.as_deref().unwrap_or_default());
    let path = locations.file.path;
    let subject = one
        .fingerprint
        .map_or_else(String::new, |one| one.to_string());
    let id = format!("{path}:{}:{subject}", one.sqlstate);
    result("new-error", &text, found, &id)
}

/// Returns a result. `identity` is the same in later runs for the same finding.
/// Escapes braces and brackets, which are placeholders and links in messages (SARIF 2.1.0, 3.11.5 and 3.11.6).
fn message_text(text: &str) -> String {
    text.replace('{', "{{")
        .replace('}', "}}")
        .replace('[', "\\[")
        .replace(']', "\\]")
}

fn result(rule: &str, text: &str, location: Value, identity: &str) -> Value {
    let index = RULES.iter().position(|(id, ..)| *id == rule);
    let index = index.expect("a rule of the table");
    json!({
        "ruleId": rule,
        "ruleIndex": index,
        "level": RULES[index].1,
        "message": {"text": message_text(text)},
        "locations": [location],
        "partialFingerprints": {"rehearseFinding/v1": format!("{rule}:{identity}")},
    })
}

/// Statements of a migration file with their lines.
struct Locations<'a> {
    file: MigrationFile<'a>,
    uri: String,
    statements: Vec<(SqlStatement<'a>, BTreeSet<String>)>,
}

impl<'a> Locations<'a> {
    fn of(file: MigrationFile<'a>) -> Self {
        let statements = split_statements(file.text).into_iter();
        let statements = statements.map(|one| {
            let names = names(&one);
            (one, names)
        });
        Locations {
            file,
            uri: file_uri(
                Path::new(file.path),
                std::env::current_dir().ok().as_deref(),
            ),
            statements: statements.collect(),
        }
    }

    /// Returns the place of the first statement.
    fn first(&self) -> Value {
        self.location(self.statements.first().map(|(one, _)| one))
    }

    /// Returns the place of the statement of the migration that has most names in common with a statement of the
    /// workload: of tables, columns and others. Without any, that of the first.
    fn of_statement(&self, workload_sql: &str) -> Value {
        let used: BTreeSet<String> = split_statements(workload_sql)
            .iter()
            .flat_map(names)
            .collect();
        let common = |names: &BTreeSet<String>| names.intersection(&used).count();
        let best = self
            .statements
            .iter()
            .rev()
            .max_by_key(|(_, names)| common(names));
        let best = best.filter(|(_, names)| common(names) > 0);
        self.location(best.or(self.statements.first()).map(|(one, _)| one))
    }

    fn location(&self, statement: Option<&SqlStatement<'a>>) -> Value {
        let line_at = |offset: usize| self.file.text[..offset].matches('\n').count() + 1;
        let region = match statement {
            None => json!({"startLine": 1}),
            Some(statement) => {
                // The text is a part of that of the file.
                let start = statement.text.as_ptr() as usize - self.file.text.as_ptr() as usize;
                let end = start + statement.text.len();
                json!({"startLine": line_at(start), "endLine": line_at(end)})
            }
        };
        json!({"physicalLocation": {
            "artifactLocation": {"uri": self.uri},
            "region": region,
        }})
    }
}

/// Words of SQL that many statements share and that name nothing.
const KEYWORDS: [&str; 40] = [
    "select",
    "from",
    "where",
    "and",
    "or",
    "not",
    "in",
    "is",
    "null",
    "on",
    "as",
    "by",
    "order",
    "group",
    "limit",
    "offset",
    "insert",
    "into",
    "values",
    "update",
    "set",
    "delete",
    "create",
    "alter",
    "drop",
    "table",
    "index",
    "column",
    "add",
    "if",
    "exists",
    "unique",
    "default",
    "using",
    "type",
    "constraint",
    "concurrently",
    "primary",
    "key",
    "returning",
];

/// Returns the names that a statement uses and their words between underscores, in lower case unless they are quoted. The
/// name of an index often consists of those of its table and columns.
fn names(statement: &SqlStatement<'_>) -> BTreeSet<String> {
    let names = statement.words.iter().filter_map(|word| word.name());
    let names = names.filter(|name| !KEYWORDS.contains(&name.as_str()));
    let mut all = BTreeSet::new();
    for name in names {
        all.extend(name.split('_').map(str::to_owned));
        all.insert(name);
    }
    all.remove("");
    all
}

/// Returns the reference of a file: relative to the working directory if it is within, since services resolve such
/// references in the repository.
fn file_uri(path: &Path, working_directory: Option<&Path>) -> String {
    let within = working_directory.and_then(|directory| path.strip_prefix(directory).ok());
    let path = within.unwrap_or(path);
    let shown = path.to_string_lossy();
    let relative = shown.trim_start_matches("./");
    let mut uri = match path.is_absolute() {
        true => "file://".to_owned(),
        false => String::new(),
    };
    for byte in relative.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(byte.into())
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIGRATION: &str = "-- why\nALTER TABLE customers\n  ADD note text;\n\nDROP INDEX\n  orders_customer;\n\
                             ALTER TABLE orders DROP COLUMN status;\n";

    #[test]
    fn place_is_the_statement_with_most_common_names() {
        let locations = Locations::of(MigrationFile {
            path: "db/a b.sql",
            text: MIGRATION,
        });
        let place = |sql: &str| {
            let found = locations.of_statement(sql);
            let found = &found["physicalLocation"];
            assert_eq!(found["artifactLocation"]["uri"], "db/a%20b.sql");
            let region = &found["region"];
            (
                region["startLine"].as_u64().unwrap(),
                region["endLine"].as_u64().unwrap(),
            )
        };
        assert_eq!(place("select note from customers where id = $1"), (2, 3));
        assert_eq!(place("select status from orders"), (7, 7));
        assert_eq!(
            place("select id from orders where customer_id = $1"),
            (5, 6)
        );
        assert_eq!(place("select 1"), (2, 3));
        assert_eq!(place(""), (2, 3));
    }

    #[test]
    fn reference_is_relative_within_the_working_directory() {
        let at = Some(Path::new("/home/ci/repo"));
        let uri = |path: &str| file_uri(Path::new(path), at);
        assert_eq!(uri("/home/ci/repo/db/1.sql"), "db/1.sql");
        assert_eq!(uri("./db/1.sql"), "db/1.sql");
        assert_eq!(uri("/tmp/1.sql"), "file:///tmp/1.sql");
    }
}
