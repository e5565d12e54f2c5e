//! Finds the statement that made a temporary file.
//!
//! The server logs a temporary file when it is removed, with the statement that runs then. The files of a cursor
//! are removed when it is closed or its transaction ends, so their line names CLOSE, FETCH or COMMIT. The cause is
//! the cursor's DECLARE, which this module follows through the statements of a session. The same holds for a named
//! portal that is open in a transaction.
//!
//! A cause is given only if one cursor is possible. Otherwise (the DECLARE is not in the log, several cursors end at
//! once, a trigger ran at COMMIT) it is unknown.
//!
//! Source of the rules: PostgreSQL documentation, DECLARE, CLOSE, ROLLBACK TO SAVEPOINT; `portalmem.c`.

use std::sync::Arc;

use sql::{Lexeme, SqlStatement, split_statements};

use super::super::first_words::starts_with_word;

/// Maximum number of open cursors that are followed; with more, no cause is known.
const CURSORS_MAX: usize = 64;

#[derive(Debug, Clone)]
struct Cursor {
    name: String,
    sql: Arc<str>,
    /// It has outlived its transaction (WITH HOLD).
    is_held: bool,
    with_hold: bool,
    /// Number of savepoints at its declaration.
    depth: usize,
}

/// Cursors of a session that may be open, and the savepoints since the first.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenCursors {
    cursors: Vec<Cursor>,
    savepoints: Vec<String>,
    /// Too many cursors were open.
    is_incomplete: bool,
    /// Effect of the last text that was followed.
    last: TextEffect,
}

/// Statements of a text, as far as they concern cursors.
#[derive(Debug, Clone, Default)]
struct TextEffect {
    /// Texts of the cursors that it fetches from or ends.
    touched: Vec<Arc<str>>,
    /// It declares a cursor.
    declares: bool,
    /// It has statements that make temporary files of their own.
    has_others: bool,
    /// It has statements that fetch from cursors or end them.
    has_control: bool,
}

/// Statement that made a temporary file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileCause {
    /// The statement that the line names.
    Named,
    /// Another statement.
    Other(Arc<str>),
    Unknown,
}

/// Returns whether a text may declare a cursor.
pub(super) fn may_declare(sql: &str) -> bool {
    if starts_with_word(sql, "declare") {
        return true;
    }
    let bytes = sql.as_bytes();
    let Some(end) = memchr::memchr(b';', bytes) else {
        return false;
    };
    let rest = &bytes[end..];
    let mut starts = memchr::memchr2_iter(b'd', b'D', rest);
    starts.any(|at| {
        rest.get(at..at + 7)
            .is_some_and(|word| word.eq_ignore_ascii_case(b"declare"))
    })
}

impl OpenCursors {
    /// Follows a text that the session executed.
    pub(super) fn follow(&mut self, sql: &str) {
        self.last = TextEffect::default();
        for statement in split_statements(sql) {
            self.follow_statement(&statement);
        }
    }

    /// Returns whether the last text has only statements that neither concern cursors nor the transaction.
    pub(super) fn is_last_a_query(&self) -> bool {
        self.last.has_others && !self.last.has_control && !self.last.declares
    }

    /// Notes a named portal that was executed in a transaction block.
    pub(super) fn add_portal(&mut self, name: &str, sql: &str) {
        self.last = TextEffect {
            has_others: true,
            ..TextEffect::default()
        };
        self.open(name.to_owned(), sql.into(), false);
    }

    /// Notes that a statement failed: the cursors of its transaction, or since its last savepoint, are gone.
    pub(super) fn fail(&mut self) {
        let depth = self.savepoints.len();
        self.cursors.retain(|one| one.is_held || one.depth < depth);
    }

    /// Returns the cause of a temporary file whose line names `sql`. `is_followed` is set if the session's last text
    /// is this one, not an earlier one.
    pub(super) fn cause(&self, sql: &str, is_followed: bool) -> FileCause {
        let mut next;
        let after = match is_followed {
            true => self,
            false => {
                next = self.clone();
                next.follow(sql);
                &next
            }
        };
        let effect = &after.last;
        match &effect.touched[..] {
            _ if !effect.has_control || effect.declares => FileCause::Named,
            [] if effect.has_others => FileCause::Named,
            [cause] if !effect.has_others && !after.is_incomplete => {
                FileCause::Other(cause.clone())
            }
            _ => FileCause::Unknown,
        }
    }

    fn follow_statement(&mut self, statement: &SqlStatement<'_>) {
        let words = &statement.words;
        let is = |at: usize, keyword: &str| words.get(at).is_some_and(|word| word.is(keyword));
        let last_name = || words.last().and_then(Lexeme::name).unwrap_or_default();
        if is(0, "declare") {
            return self.declare(statement);
        }
        if is(0, "fetch") || is(0, "move") {
            let name = last_name();
            return self.touch(|one| one.name == name, |_| true);
        }
        if is(0, "close") && is(1, "all") || is(0, "discard") && is(1, "all") {
            return self.touch(|_| true, |_| false);
        }
        if is(0, "close") {
            let name = last_name();
            return self.touch(|one| one.name == name, |_| false);
        }
        if is(0, "savepoint") {
            // So each savepoint that is not in the list is outside those that are.
            if !self.cursors.is_empty() || !self.savepoints.is_empty() {
                self.savepoints.push(last_name());
            }
            return;
        }
        if is(0, "release") {
            return self.release(&last_name());
        }
        if is(0, "begin") || is(0, "start") {
            self.cursors.retain(|one| one.is_held);
            self.savepoints.clear();
            return;
        }
        let prepared = is(1, "prepared");
        if (is(0, "rollback") || is(0, "abort")) && !prepared {
            return match words.iter().any(|word| word.is("to")) {
                true => self.roll_back_to(&last_name()),
                false => self.end_transaction(false),
            };
        }
        let commits = (is(0, "commit") || is(0, "end")) && !prepared
            || is(0, "prepare") && is(1, "transaction");
        match commits {
            true => self.end_transaction(true),
            false => self.last.has_others = true,
        }
    }

    /// Follows `DECLARE name … CURSOR [WITH HOLD] FOR query`.
    fn declare(&mut self, statement: &SqlStatement<'_>) {
        let words = &statement.words;
        let Some(name) = words.get(1).and_then(Lexeme::name) else {
            return;
        };
        let options = words.iter().take_while(|word| !word.is("for"));
        let options: Vec<_> = options.skip(2).collect();
        let with_hold = options
            .windows(2)
            .any(|two| two[0].is("with") && two[1].is("hold"));
        self.last.declares = true;
        self.open(name, statement.text.into(), with_hold);
    }

    fn open(&mut self, name: String, sql: Arc<str>, with_hold: bool) {
        self.cursors.retain(|one| one.name != name);
        if self.cursors.len() >= CURSORS_MAX {
            self.is_incomplete = true;
            return;
        }
        self.cursors.push(Cursor {
            name,
            sql,
            is_held: false,
            with_hold,
            depth: self.savepoints.len(),
        });
    }

    /// Notes the cursors that a statement fetches from or ends; `keep` decides which of them stay open.
    fn touch(&mut self, touches: impl Fn(&Cursor) -> bool, keep: impl Fn(&Cursor) -> bool) {
        self.last.has_control = true;
        let touched = &mut self.last.touched;
        self.cursors.retain(|one| {
            let is_touched = touches(one);
            if is_touched && !touched.contains(&one.sql) {
                touched.push(one.sql.clone());
            }
            !is_touched || keep(one)
        });
    }

    fn end_transaction(&mut self, commits: bool) {
        self.touch(|one| !one.is_held, |one| commits && one.with_hold);
        for one in &mut self.cursors {
            (one.is_held, one.depth) = (true, 0);
        }
        self.savepoints.clear();
        self.is_incomplete = false;
    }

    /// Releases a savepoint and those in it. An unknown one contains all that are known.
    fn release(&mut self, name: &str) {
        let at = self.savepoints.iter().rposition(|known| known == name);
        let depth = at.unwrap_or(0);
        self.savepoints.truncate(depth);
        for one in &mut self.cursors {
            one.depth = one.depth.min(depth);
        }
    }

    /// Rolls back to a savepoint. An unknown one precedes all cursors of the transaction.
    fn roll_back_to(&mut self, name: &str) {
        let at = self.savepoints.iter().rposition(|known| known == name);
        let depth = at.map_or(0, |at| at + 1);
        self.savepoints.truncate(depth);
        self.touch(|one| !one.is_held && one.depth >= depth, |_| false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "DECLARE a CURSOR FOR select 1";
    const B: &str = "declare \"b b\" no scroll cursor with hold for select 2";

    #[track_caller]
    fn check(before: &[&str], named: &str, expected: &FileCause) {
        let mut cursors = OpenCursors::default();
        for sql in before {
            cursors.follow(sql);
        }
        assert_eq!(
            cursors.cause(named, false),
            *expected,
            "before: {before:?} {named}"
        );
        // If its line came first.
        cursors.follow(named);
        assert_eq!(
            cursors.cause(named, true),
            *expected,
            "after: {before:?} {named}"
        );
    }

    #[test]
    fn file_of_a_cursor_belongs_to_its_declare() {
        let cause = |sql: &str| FileCause::Other(sql.into());
        for end in [
            "COMMIT",
            "end;",
            "/* a */ Commit -- x",
            "ROLLBACK",
            "CLOSE a",
            "close all",
            "FETCH 10 FROM a",
            "move a",
            "discard all",
            "prepare transaction 'x'",
            "commit and chain",
        ] {
            check(&["BEGIN", A], end, &cause(A));
        }
        check(
            &["begin; /* DECLARE */ DECLARE a CURSOR FOR select 1"],
            "COMMIT",
            &cause(A),
        );
        check(&["BEGIN", A, B], "close \"b b\"", &cause(B));
        // Held: its query ends with the transaction, what it kept with CLOSE.
        check(&["BEGIN", B], "COMMIT", &cause(B));
        check(&["BEGIN", B, "COMMIT"], "CLOSE \"b b\"", &cause(B));
        // Savepoints, known and from before the cursor.
        check(&["BEGIN", A, "savepoint s", B], "rollback to s", &cause(B));
        check(
            &["BEGIN", "savepoint s", A],
            "ROLLBACK TO SAVEPOINT s",
            &cause(A),
        );
        check(
            &["BEGIN", A, "savepoint s", B, "rollback to s"],
            "commit",
            &cause(A),
        );
    }

    #[test]
    fn savepoint_before_the_first_cursor_contains_the_later_ones() {
        let begun = ["BEGIN", "savepoint outer", A, "savepoint inner"];
        let released = [&begun[..], &["release outer", B]].concat();
        // The inner one no longer exists: its name is that of an earlier one.
        check(&released, "rollback to inner", &FileCause::Unknown);
        let mut cursors = OpenCursors::default();
        released.iter().for_each(|sql| cursors.follow(sql));
        assert!(cursors.savepoints.is_empty(), "{cursors:?}");
        // Without open cursors, savepoints inside a known one are known too.
        let closed = ["BEGIN", A, "savepoint s", "close a", "savepoint t", B];
        let released = [&closed[..], &["release t", "declare c cursor for select 3"]].concat();
        check(
            &[&released[..], &["close c"]].concat(),
            "rollback to s",
            &FileCause::Other(B.into()),
        );
        let mut cursors = OpenCursors::default();
        released.iter().for_each(|sql| cursors.follow(sql));
        assert_eq!(cursors.savepoints, ["s"]);
    }

    #[test]
    fn unclear_cause_is_unknown() {
        for (before, named) in [
            (&[][..], "COMMIT"),
            (&["BEGIN"], "FETCH ALL FROM a"),
            (&["BEGIN", A, "CLOSE a"], "COMMIT"),
            (&["BEGIN", A, B], "COMMIT"),
            (&["BEGIN", A], "CLOSE b"),
            (&["BEGIN", A], "CLOSE a; select 1"),
            (&["BEGIN", B, "COMMIT", "BEGIN"], "COMMIT"),
            (&["BEGIN", A, "savepoint s", B, "release s"], "rollback"),
        ] {
            check(before, named, &FileCause::Unknown);
        }
        let mut failed = OpenCursors::default();
        failed.follow("BEGIN");
        failed.follow(A);
        failed.fail();
        assert_eq!(failed.cause("ROLLBACK", false), FileCause::Unknown);
    }

    #[test]
    fn other_statements_are_causes_themselves() {
        for named in [
            "select 1",
            "EXECUTE p(1)",
            "create index on t (a)",
            "commit prepared 'x'",
            "BEGIN; DECLARE a CURSOR FOR select 1; FETCH ALL FROM a; COMMIT",
            "begin; select 1; commit",
        ] {
            check(&[], named, &FileCause::Named);
        }
        check(&["BEGIN", A], "select 1", &FileCause::Named);
    }

    #[test]
    fn portals_are_cursors_and_too_many_are_unknown() {
        let mut cursors = OpenCursors::default();
        cursors.add_portal("C_1", "select 7");
        assert_eq!(
            cursors.cause("COMMIT", false),
            FileCause::Other("select 7".into())
        );
        for number in 0..CURSORS_MAX {
            cursors.add_portal(&format!("D_{number}"), "select 8");
        }
        assert_eq!(cursors.cause("CLOSE \"C_1\"", false), FileCause::Unknown);
    }

    #[test]
    fn declare_is_found_in_any_statement_of_a_text() {
        for sql in [A, "/* x */ declare", "begin;DECLARE a", "begin; dd declare"] {
            assert!(may_declare(sql), "{sql}");
        }
        for sql in ["select declare", "BEGIN; select 1", "declared;", ""] {
            assert!(!may_declare(sql), "{sql}");
        }
    }
}
