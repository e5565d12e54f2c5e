//! Finds failures that are consequences of an earlier failure, so that each is counted at its root.
//!
//! - After an error, a server refuses the other statements of the transaction (25P02).
//! - A statement that creates an object fails, and later ones miss that object: a table, column, function, cursor,
//!   savepoint or prepared statement.
//! - `currval` fails in a session whose insert failed. Temporary tables, cursors, savepoints and prepared statements are
//!   missing in their session only.

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
    /// Root of the last failure of each session.
    last: HashMap<u64, ErrorKey>,
    /// Last failed statement of each session that takes a value of a sequence, and the root of its failure, until the
    /// statement succeeds.
    no_value: HashMap<u64, (Fingerprint, ErrorKey)>,
    /// Objects that were not created, by their session if only it sees them, and lower-case name, with the failure that
    /// prevented it.
    missing: HashMap<(Option<u64>, String), ErrorKey>,
    /// Failures of each session by statement, for statements that were not prepared.
    failed: HashMap<u64, HashSet<ErrorKey>>,
    /// Objects that statements create.
    created: HashMap<Fingerprint, CreatedObject>,
    /// Statements that take a value of a sequence.
    takes_value: HashSet<Fingerprint>,
}

/// Object that a statement creates.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CreatedObject {
    /// Lower-case name, without its schema.
    name: String,
    /// Whether only its session sees it.
    is_of_session: bool,
}

impl CreatedObject {
    fn key(&self, session: u64) -> (Option<u64>, String) {
        (self.is_of_session.then_some(session), self.name.clone())
    }
}

impl RootFinder {
    /// Creates a finder for a run with these statement texts.
    pub(crate) fn new<'t>(texts: impl IntoIterator<Item = &'t StatementText>) -> Self {
        let mut finder = Self::default();
        for text in texts {
            if let Some(created) = created_object(&text.sql) {
                finder.created.insert(text.fingerprint, created);
            }
            if takes_value(&text.sql) {
                finder.takes_value.insert(text.fingerprint);
            }
        }
        finder
    }

    /// Adds an execution, and returns the failure that it follows from.
    pub(crate) fn add(&mut self, execution: &Execution) -> Option<ErrorKey> {
        if matches!(
            execution.kind,
            StatementKind::Connect | StatementKind::Disconnect
        ) {
            self.last.remove(&execution.session);
            self.no_value.remove(&execution.session);
            self.failed.remove(&execution.session);
            self.missing
                .retain(|(session, _), _| *session != Some(execution.session));
            return None;
        }
        let fingerprint = execution.fingerprint?;
        let Outcome::Failed(sqlstate) = execution.outcome else {
            if execution.outcome == Outcome::Done {
                self.forget(execution.session, fingerprint);
            }
            return None;
        };
        let root = self.find_root(execution, (fingerprint, sqlstate));
        if root.is_none() {
            let failed = self.failed.entry(execution.session).or_default();
            if failed.len() < MISSING_MAX {
                failed.insert((fingerprint, sqlstate));
            }
        }
        let cause = root.unwrap_or((fingerprint, sqlstate));
        self.last.insert(execution.session, cause);
        if self.takes_value.contains(&fingerprint) {
            self.no_value
                .insert(execution.session, (fingerprint, cause));
        }
        if !EXISTS.contains(&sqlstate.as_str())
            && self.missing.len() < MISSING_MAX
            && let Some(created) = self.created.get(&fingerprint)
        {
            let key = created.key(execution.session);
            self.missing.entry(key).or_insert(cause);
        }
        root
    }

    /// Forgets the failures of a statement that succeeded.
    fn forget(&mut self, session: u64, fingerprint: Fingerprint) {
        if let Some(created) = self.created.get(&fingerprint)
            && !self.missing.is_empty()
        {
            self.missing.remove(&created.key(session));
        }
        if self
            .no_value
            .get(&session)
            .is_some_and(|one| one.0 == fingerprint)
        {
            self.no_value.remove(&session);
        }
    }

    fn find_root(&self, execution: &Execution, (fingerprint, code): ErrorKey) -> Option<ErrorKey> {
        if code.as_str() == "25P02" {
            return self.last.get(&execution.session).copied();
        }
        let message = execution.message.as_deref().unwrap_or_default();
        if code.as_str() == "55000" && (message.contains("currval") || message.contains("lastval"))
        {
            let no_value = self.no_value.get(&execution.session);
            return no_value.map(|(_, root)| *root);
        }
        if !MISSING.contains(&code.as_str()) {
            return None;
        }
        let of_words = words(message).find_map(|word| {
            let of_session = (Some(execution.session), word);
            let found = self.missing.get(&of_session);
            found
                .or_else(|| self.missing.get(&(None, of_session.1)))
                .copied()
        });
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

/// Whether a text inserts rows or calls `nextval`.
fn takes_value(sql: &str) -> bool {
    split_statements(sql).iter().any(|statement| {
        let mut words = statement.words.iter();
        words.any(|word| word.is("insert") || word.is("nextval"))
    })
}

/// Returns the object that the first statement of a text creates.
fn created_object(sql: &str) -> Option<CreatedObject> {
    let statements = split_statements(sql);
    let words = &statements.first()?.words;
    let (verb, mut rest) = words.split_first()?;
    let is_any = |word: &Lexeme<'_>, of: &[&str]| of.iter().any(|one| word.is(one));
    if is_any(verb, &["declare", "prepare", "savepoint"]) {
        return name_at(rest).map(|name| CreatedObject {
            name,
            is_of_session: true,
        });
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
    let mut is_of_session = false;
    while let Some(word) = rest.first().filter(|word| is_any(word, &MODIFIERS)) {
        is_of_session |= is_any(word, &["temp", "temporary"]);
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
    is_of_session |= rest.first().is_some_and(|word| word.is("pg_temp"));
    name_at(rest).map(|name| CreatedObject {
        name,
        is_of_session,
    })
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
    use run::Captured;
    use sql::StatementClass;

    use super::*;

    #[test]
    fn created_object_is_named_without_schema_and_options() {
        for (sql, name, is_of_session) in [
            (
                "create temp table if not exists s.work (a int)",
                Some("work"),
                true,
            ),
            (
                "CREATE OR REPLACE FUNCTION f(a int) returns int",
                Some("f"),
                false,
            ),
            (
                "create unique index concurrently \"My Index\" on t (a)",
                Some("my index"),
                false,
            ),
            (
                "alter table only t add column if not exists c int",
                Some("c"),
                false,
            ),
            ("alter table t add constraint c check (a > $1)", None, false),
            ("declare cur cursor for select $1", Some("cur"), true),
            ("savepoint one", Some("one"), true),
            ("prepare p as select $1", Some("p"), true),
            ("create table pg_temp.work (a int)", Some("work"), true),
            ("create view public.v as select $1", Some("v"), false),
            ("insert into work values ($1)", None, false),
        ] {
            let wanted = name.map(|name| CreatedObject {
                name: name.to_owned(),
                is_of_session,
            });
            assert_eq!(created_object(sql), wanted, "{sql}");
        }
    }

    fn key(fingerprint: u64, code: &str) -> ErrorKey {
        (Fingerprint(fingerprint), Sqlstate::parse(code).unwrap())
    }

    fn execution(session: u64, fingerprint: u64, outcome: Outcome, message: &str) -> Execution {
        Execution {
            session,
            sequence: 0,
            fingerprint: Some(Fingerprint(fingerprint)),
            kind: StatementKind::Simple,
            outcome,
            due_ns: 0,
            sent_ns: Some(0),
            first_byte_ns: None,
            done_ns: Some(1),
            session_lag_ns: 0,
            stalled_ns: 0,
            rows: 0,
            bytes: 0,
            digest: None,
            message: Some(message.to_owned()),
            captured: Captured::default(),
        }
    }

    /// Adds executions of session, statement and code, of which an empty one is a success, and returns the roots.
    fn roots(sqls: &[&str], executions: &[(u64, u64, &str, &str)]) -> Vec<Option<ErrorKey>> {
        let texts = (0..).zip(sqls).map(|(number, sql)| StatementText {
            fingerprint: Fingerprint(number),
            sql: (*sql).to_owned(),
            class: StatementClass::Select,
        });
        let texts: Vec<StatementText> = texts.collect();
        let mut finder = RootFinder::new(&texts);
        let executions = executions.iter().map(|&(session, number, code, message)| {
            let outcome = Sqlstate::parse(code).map_or(Outcome::Done, Outcome::Failed);
            finder.add(&execution(session, number, outcome, message))
        });
        executions.collect()
    }

    #[test]
    fn currval_follows_from_a_failed_insert_that_did_not_succeed_later() {
        let sqls = [
            "insert into t values ($1)",
            "select currval($1)",
            "select a from t",
        ];
        let message = "currval of sequence \"s\" is not yet defined in this session";
        let (insert, currval) = ((1, 0, "42501", ""), (1, 1, "55000", message));
        let select = (1, 2, "42501", "");
        let root = Some(key(0, "42501"));
        assert_eq!(roots(&sqls, &[insert, currval]), [None, root]);
        assert_eq!(roots(&sqls, &[insert, select, currval]), [None, None, root]);
        assert_eq!(roots(&sqls, &[select, currval]), [None, None]);
        let done = (1, 0, "", "");
        assert_eq!(roots(&sqls, &[insert, done, currval]), [None, None, None]);
        let elsewhere = (2, 0, "", "");
        assert_eq!(
            roots(&sqls, &[insert, elsewhere, currval]),
            [None, None, root]
        );
    }

    #[test]
    fn aborted_transaction_follows_from_the_root_of_its_failure() {
        let sqls = [
            "create table work (a int)",
            "select a from work",
            "select $1",
        ];
        let missing = "relation \"work\" does not exist";
        let found = roots(
            &sqls,
            &[
                (1, 0, "42501", ""),
                (2, 2, "22012", ""),
                (2, 1, "42P01", missing),
                (2, 2, "25P02", ""),
            ],
        );
        let root = Some(key(0, "42501"));
        assert_eq!(found, [None, None, root, root]);
    }

    #[test]
    fn objects_of_a_session_are_missing_in_it_only() {
        for (sql, code, message) in [
            ("savepoint one", "3B001", "savepoint \"one\" does not exist"),
            (
                "declare one cursor for select $1",
                "34000",
                "cursor \"one\" does not exist",
            ),
            (
                "prepare one as select $1",
                "26000",
                "prepared statement \"one\" does not exist",
            ),
            (
                "create temp table one (a int)",
                "42P01",
                "relation \"one\" does not exist",
            ),
        ] {
            let sqls = [sql, "select $1 from one"];
            let executions = [
                (1, 0, "42501", ""),
                (2, 1, code, message),
                (2, 0, "", ""),
                (1, 1, code, message),
            ];
            let root = Some(key(0, "42501"));
            assert_eq!(roots(&sqls, &executions), [None, None, None, root], "{sql}");
        }
    }
}
