//! Finds failures that are consequences of an earlier failure, so that each is counted at its root.
//!
//! - After an error, a server refuses the other statements of the transaction (25P02).
//! - A statement that creates an object fails, and later ones miss that object: a table, column, function, cursor,
//!   savepoint or prepared statement.
//! - `currval` fails in a session whose insert failed. Temporary tables, cursors, savepoints and prepared statements are
//!   missing in their session only.
//!
//! A statement that a read-only replay withholds has the effects of one that the server refuses.

use std::collections::HashMap;

use run::{Execution, Outcome, SkipReason, StatementKind};
use sql::Fingerprint;
use workload::Sqlstate;

use crate::created_object::StatementEffects;
use crate::error_key::ErrorKey;
use crate::missing_object::{MissingObjects, missing_kind};
use crate::read_only_refusals::REFUSED_WRITE;

/// Codes with which a statement that creates an object finds it there already: table, schema, function, column, cursor,
/// prepared statement, other objects.
const EXISTS: [&str; 7] = [
    "42P07", "42P06", "42723", "42701", "42P03", "42P05", "42710",
];

/// SQLSTATEs of a statement that the server refuses before it looks for the object: a write in a read-only transaction, and
/// `insufficient_privilege`.
const REFUSALS: [Sqlstate; 2] = [REFUSED_WRITE, Sqlstate(*b"42501")];

/// Maximum number of failures that are remembered of a session.
const FAILED_MAX: usize = 1_000;

/// Finds the roots of failures. Executions of a session must come in order.
#[derive(Debug, Default)]
pub(crate) struct RootFinder {
    /// Root of the last failure of each session.
    last: HashMap<u64, ErrorKey>,
    /// Last failed statement of each session that takes a value of a sequence, and the root of its failure, until the
    /// statement succeeds.
    no_value: HashMap<u64, (Fingerprint, ErrorKey)>,
    /// Objects that were not created.
    missing: MissingObjects,
    /// Failures of each session by statement, with their roots, for statements that were not prepared.
    failed: HashMap<u64, HashMap<ErrorKey, ErrorKey>>,
    /// Statements that create objects or take a value of a sequence.
    effects: HashMap<Fingerprint, StatementEffects>,
}

impl RootFinder {
    /// Sets the text of a statement, before its executions.
    pub(crate) fn set_text(&mut self, fingerprint: Fingerprint, sql: &str) {
        let effects = StatementEffects::of(sql);
        if effects != StatementEffects::default() {
            self.effects.insert(fingerprint, effects);
        }
    }

    /// Adds an execution, and returns the failure that it follows from. `sql` is the text of its statement, if it is known.
    pub(crate) fn add(&mut self, execution: &Execution, sql: Option<&str>) -> Option<ErrorKey> {
        if matches!(
            execution.kind,
            StatementKind::Connect | StatementKind::Disconnect
        ) {
            self.last.remove(&execution.session);
            self.no_value.remove(&execution.session);
            self.failed.remove(&execution.session);
            self.missing.end_session(execution.session);
            return None;
        }
        let fingerprint = execution.fingerprint?;
        let sqlstate = match execution.outcome {
            Outcome::Failed(sqlstate) => sqlstate,
            Outcome::Done => {
                self.forget(execution.session, fingerprint);
                return None;
            }
            Outcome::Skipped(SkipReason::ReadOnly) => {
                let cause = (fingerprint, REFUSED_WRITE);
                self.miss_effects(execution.session, fingerprint, cause);
                return None;
            }
            Outcome::Skipped(_) => return None,
        };
        let root = self.find_root(execution, (fingerprint, sqlstate), sql);
        let cause = root.unwrap_or((fingerprint, sqlstate));
        let failed = self.failed.entry(execution.session).or_default();
        if failed.len() < FAILED_MAX {
            failed.insert((fingerprint, sqlstate), cause);
        }
        self.last.insert(execution.session, cause);
        if !EXISTS.contains(&sqlstate.as_str()) {
            self.miss_effects(execution.session, fingerprint, cause);
        }
        root
    }

    /// Remembers that a statement had no effect, with the failure that prevented it.
    fn miss_effects(&mut self, session: u64, fingerprint: Fingerprint, cause: ErrorKey) {
        let Some(effects) = self.effects.get(&fingerprint) else {
            return;
        };
        if effects.takes_value {
            self.no_value.insert(session, (fingerprint, cause));
        }
        // A refusal does not depend on whether the object exists.
        let is_refusal = REFUSALS.contains(&cause.1);
        for created in &effects.created {
            if !(is_refusal && created.may_exist && !created.is_of_session) {
                self.missing.add(created, session, cause);
            }
        }
    }

    /// Whether the message of a failure is that of `currval` or `lastval` in a session without a value of a sequence.
    pub(crate) fn needs_value(execution: &Execution) -> bool {
        let message = execution.message.as_deref().unwrap_or_default();
        message.contains("currval") || message.contains("lastval")
    }

    /// Forgets the failures of a statement that succeeded.
    fn forget(&mut self, session: u64, fingerprint: Fingerprint) {
        if let Some(effects) = self.effects.get(&fingerprint) {
            for created in &effects.created {
                self.missing.remove(created, session);
            }
        }
        if self
            .no_value
            .get(&session)
            .is_some_and(|one| one.0 == fingerprint)
        {
            self.no_value.remove(&session);
        }
    }

    fn find_root(
        &self,
        execution: &Execution,
        (fingerprint, code): ErrorKey,
        sql: Option<&str>,
    ) -> Option<ErrorKey> {
        if code.as_str() == "25P02" {
            return self.last.get(&execution.session).copied();
        }
        if code.as_str() == "55000" && Self::needs_value(execution) {
            let no_value = self.no_value.get(&execution.session);
            return no_value.map(|(_, root)| *root);
        }
        missing_kind(code)?;
        let message = execution.message.as_deref().unwrap_or_default();
        let session = execution.session;
        let not_created = self.missing.cause(session, code, message, sql);
        let not_prepared = || {
            let failed = self.failed.get(&execution.session)?;
            let mut same = failed.iter().filter(|(one, _)| one.0 == fingerprint);
            let other = same.find(|(one, _)| one.1 != code)?;
            Some(*other.1)
        };
        let root = match code.as_str() {
            "26000" | "34000" => not_created.or_else(not_prepared),
            _ => not_created,
        };
        // A statement that fails twice in the same way is no consequence of itself.
        root.filter(|root| *root != (fingerprint, code))
    }
}

#[cfg(test)]
mod tests {
    use run::Captured;

    use super::*;

    fn failure(fingerprint: u64, code: &str) -> ErrorKey {
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
        let mut finder = RootFinder::default();
        (0..)
            .zip(sqls)
            .for_each(|(number, sql)| finder.set_text(Fingerprint(number), sql));
        let executions = executions.iter().map(|&(session, number, code, message)| {
            let outcome = Sqlstate::parse(code).map_or(Outcome::Done, Outcome::Failed);
            let sql = sqls.get(number as usize).copied();
            finder.add(&execution(session, number, outcome, message), sql)
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
        let root = Some(failure(0, "42501"));
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
        let root = Some(failure(0, "42501"));
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
            let root = Some(failure(0, "42501"));
            assert_eq!(roots(&sqls, &executions), [None, None, None, root], "{sql}");
        }
    }

    const COLUMN: &str = "column \"a\" does not exist";

    /// Refused statement, text, code and message of a later failure, and whether it follows.
    const AFTER_REFUSALS: [(&str, &str, &str, &str, bool); 20] = [
        (
            "create table w (a int)",
            "",
            "42P01",
            "relation \"w\" does not exist",
            true,
        ),
        (
            "create table s.w (a int)",
            "",
            "42P01",
            "relation \"s.w\" does not exist",
            true,
        ),
        (
            "create table s.w (a int)",
            "",
            "42P01",
            "relation \"o.w\" does not exist",
            false,
        ),
        (
            "create table w (a int)",
            "",
            "42703",
            "column w.a does not exist",
            false,
        ),
        (
            "create table w (a int)",
            "",
            "42P01",
            "missing FROM-clause entry for table \"w\"",
            false,
        ),
        (
            "create schema s",
            "",
            "42P01",
            "relation \"s.w\" does not exist",
            true,
        ),
        (
            "create function f() ...",
            "",
            "42883",
            "function f() does not exist",
            true,
        ),
        (
            "create or replace function f() ...",
            "",
            "42883",
            "function f() does not exist",
            false,
        ),
        (
            "create table if not exists w (a int)",
            "",
            "42P01",
            "relation \"w\" does not exist",
            false,
        ),
        (
            "create temp table if not exists w (a int)",
            "",
            "42P01",
            "relation \"w\" does not exist",
            true,
        ),
        (
            "create extension if not exists pg_stat_statements",
            "select total_time from pg_stat_statements",
            "42703",
            "column pg_stat_statements.total_time does not exist",
            false,
        ),
        (
            "create extension pg_stat_statements",
            "",
            "42703",
            "column pg_stat_statements.total_time does not exist",
            false,
        ),
        (
            "alter table t add column type text",
            "",
            "42704",
            "type \"mood\" does not exist",
            false,
        ),
        (
            "alter table t add column text text",
            "",
            "42883",
            "operator does not exist: text = integer",
            false,
        ),
        (
            "create type mood as enum ()",
            "",
            "42704",
            "type \"mood\" does not exist",
            true,
        ),
        (
            "alter table t add column a int",
            "select a from t",
            "42703",
            COLUMN,
            true,
        ),
        (
            "alter table t add column a int",
            "select x.a from t x",
            "42703",
            "column x.a does not exist",
            true,
        ),
        (
            "alter table t add column a int",
            "select a from other",
            "42703",
            COLUMN,
            false,
        ),
        (
            "alter table t add column a int",
            "",
            "42703",
            "column \"a\" of relation \"other\" does not exist",
            false,
        ),
        (
            "alter table t add column if not exists a int",
            "select a from t",
            "42703",
            COLUMN,
            false,
        ),
    ];

    #[test]
    fn missing_objects_are_matched_by_kind_name_and_parent() {
        for (sql, later, code, message, follows) in AFTER_REFUSALS {
            let executions = [(1, 0, "25006", ""), (1, 1, code, message)];
            let root = follows.then(|| failure(0, "25006"));
            assert_eq!(
                roots(&[sql, later], &executions),
                [None, root],
                "{sql}: {message}"
            );
        }
        // A statement that fails for another reason found no object.
        let message = "function f() does not exist";
        let executions = [(1, 0, "42601", ""), (1, 1, "42883", message)];
        let found = roots(&["create or replace function f() ...", ""], &executions);
        assert_eq!(found, [None, Some(failure(0, "42601"))]);
    }
}
