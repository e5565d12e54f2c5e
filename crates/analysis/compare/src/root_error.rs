//! Finds failures that are consequences of an earlier failure, so that each is counted at its root.
//!
//! - After an error, a server refuses the other statements of the transaction (25P02).
//! - A statement that creates an object fails, and later ones miss that object: a table, column, function, cursor,
//!   savepoint or prepared statement.
//! - `currval` fails in a session whose insert failed.

use std::collections::{HashMap, HashSet};

use run::{Execution, Outcome, StatementKind};
use sql::{Fingerprint, Lexeme, split_statements};
use workload::{Sqlstate, StatementText};

/// Statement and code of an error.
pub(crate) type ErrorKey = (Fingerprint, Sqlstate);

/// Codes of missing objects: table, column, function, other objects, schema, cursor, savepoint, prepared statement.
const MISSING: [&str; 8] = [
    "42P01", "42703", "42883", "42704", "3F000", "34000", "3B001", "26000",
];

/// Codes with which a statement that creates an object finds it there already: table, schema, function, column, cursor,
/// prepared statement, other objects.
const EXISTS: [&str; 7] = [
    "42P07", "42P06", "42723", "42701", "42P03", "42P05", "42710",
];

/// Maximum number of objects that are remembered as missing.
const MISSING_MAX: usize = 1_000;

/// Finds the roots of failures. Executions of a session must come in order.
#[derive(Debug, Default)]
pub(crate) struct RootFinder {
    /// Last failure of each session that is no consequence.
    last: HashMap<u64, ErrorKey>,
    /// Objects that were not created, by lower-case name, with the failure that prevented it.
    missing: HashMap<String, ErrorKey>,
    /// Failures of each session by statement, for statements that were not prepared.
    failed: HashMap<u64, HashSet<ErrorKey>>,
    /// Objects that statements create.
    created: HashMap<Fingerprint, String>,
}

impl RootFinder {
    /// Creates a finder for a run with these statement texts.
    pub(crate) fn new<'t>(texts: impl IntoIterator<Item = &'t StatementText>) -> Self {
        let created = texts
            .into_iter()
            .filter_map(|text| Some((text.fingerprint, created_object(&text.sql)?)));
        Self {
            created: created.collect(),
            ..Self::default()
        }
    }

    /// Adds an execution, and returns the failure that it follows from.
    pub(crate) fn add(&mut self, execution: &Execution) -> Option<ErrorKey> {
        if matches!(
            execution.kind,
            StatementKind::Connect | StatementKind::Disconnect
        ) {
            self.last.remove(&execution.session);
            self.failed.remove(&execution.session);
            return None;
        }
        let fingerprint = execution.fingerprint?;
        let Outcome::Failed(sqlstate) = execution.outcome else {
            if execution.outcome == Outcome::Done && !self.missing.is_empty() {
                self.forget_missing(fingerprint);
            }
            return None;
        };
        let root = self.find_root(execution, (fingerprint, sqlstate));
        if root.is_none() {
            self.last.insert(execution.session, (fingerprint, sqlstate));
            let failed = self.failed.entry(execution.session).or_default();
            if failed.len() < MISSING_MAX {
                failed.insert((fingerprint, sqlstate));
            }
        }
        let cause = root.unwrap_or((fingerprint, sqlstate));
        if !EXISTS.contains(&sqlstate.as_str())
            && self.missing.len() < MISSING_MAX
            && let Some(name) = self.created.get(&fingerprint).cloned()
        {
            self.missing.entry(name).or_insert(cause);
        }
        root
    }

    fn forget_missing(&mut self, fingerprint: Fingerprint) {
        if let Some(name) = self.created.get(&fingerprint) {
            self.missing.remove(name);
        }
    }

    fn find_root(&self, execution: &Execution, (fingerprint, code): ErrorKey) -> Option<ErrorKey> {
        let last = || self.last.get(&execution.session).copied();
        if code.as_str() == "25P02" {
            return last();
        }
        let message = execution.message.as_deref().unwrap_or_default();
        if code.as_str() == "55000" && (message.contains("currval") || message.contains("lastval"))
        {
            return last();
        }
        if !MISSING.contains(&code.as_str()) {
            return None;
        }
        let of_words = words(message).find_map(|word| self.missing.get(&word).copied());
        let not_prepared = || {
            let failed = self.failed.get(&execution.session)?;
            let mut same = failed.iter().filter(|one| one.0 == fingerprint);
            same.find(|one| one.1 != code).copied()
        };
        let root = match code.as_str() {
            "26000" | "34000" => of_words.or_else(not_prepared),
            _ => of_words,
        };
        // A statement that fails twice in the same way is no consequence of itself.
        root.filter(|root| *root != (fingerprint, code))
    }
}

/// Returns the words of a message that may be names, in lower case.
fn words(message: &str) -> impl Iterator<Item = String> + '_ {
    let is_name = |one: char| one.is_alphanumeric() || one == '_' || one == '$';
    let words = message.split(move |one| !is_name(one));
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Returns the name of the object that the first statement of a text creates, in lower case, without its schema.
fn created_object(sql: &str) -> Option<String> {
    let statements = split_statements(sql);
    let words = &statements.first()?.words;
    let (verb, mut rest) = words.split_first()?;
    let is_any = |word: &Lexeme<'_>, of: &[&str]| of.iter().any(|one| word.is(one));
    if is_any(verb, &["declare", "prepare", "savepoint"]) {
        return name_at(rest);
    }
    if verb.is("alter") {
        let add = rest.iter().position(|word| word.is("add"))?;
        rest = &rest[add + 1..];
        if !rest.first().is_some_and(|word| word.is("column")) {
            return None;
        }
    } else if !verb.is("create") {
        return None;
    }
    const MODIFIERS: [&str; 14] = [
        "or",
        "replace",
        "temp",
        "temporary",
        "global",
        "local",
        "unlogged",
        "unique",
        "materialized",
        "recursive",
        "trusted",
        "procedural",
        "constraint",
        "foreign",
    ];
    while rest.first().is_some_and(|word| is_any(word, &MODIFIERS)) {
        rest = &rest[1..];
    }
    const KINDS: [&str; 14] = [
        "table",
        "view",
        "index",
        "sequence",
        "function",
        "procedure",
        "aggregate",
        "type",
        "domain",
        "schema",
        "extension",
        "collation",
        "operator",
        "column",
    ];
    let (kind, mut rest) = rest.split_first()?;
    if !is_any(kind, &KINDS) {
        return None;
    }
    while rest
        .first()
        .is_some_and(|word| is_any(word, &["concurrently", "if", "not", "exists"]))
    {
        rest = &rest[1..];
    }
    name_at(rest)
}

/// Returns the name at the beginning, without its schema.
fn name_at(mut words: &[Lexeme<'_>]) -> Option<String> {
    while words.get(1).is_some_and(|word| word.is_symbol(".")) {
        words = &words[2..];
    }
    words.first()?.name().map(|name| name.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_object_is_named_without_schema_and_options() {
        for (sql, name) in [
            (
                "create temp table if not exists s.work (a int)",
                Some("work"),
            ),
            ("CREATE OR REPLACE FUNCTION f(a int) returns int", Some("f")),
            (
                "create unique index concurrently \"My Index\" on t (a)",
                Some("my index"),
            ),
            (
                "alter table only t add column if not exists c int",
                Some("c"),
            ),
            ("alter table t add constraint c check (a > $1)", None),
            ("declare cur cursor for select $1", Some("cur")),
            ("savepoint one", Some("one")),
            ("prepare p as select $1", Some("p")),
            ("create view public.v as select $1", Some("v")),
            ("insert into work values ($1)", None),
        ] {
            assert_eq!(created_object(sql).as_deref(), name, "{sql}");
        }
    }
}
