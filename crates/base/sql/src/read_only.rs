//! Decides how a text is sent in a replay that must not write.
//!
//! The server forbids most writing: `default_transaction_read_only` is on for each session, and is set again
//! if the session turned it off. This module handles the rest, which a server cannot forbid: a text that
//! makes *its own* transaction read-write before the setting can be restored, and commands and functions that
//! PostgreSQL allows in read-only transactions. Such a text is rewritten if only the mode of a transaction changes
//! by it. Otherwise it is not sent. Texts are sent by the extended protocol, so that the server refuses several
//! statements in one. If a text has two readings that differ in this, it is not sent.
//!
//! Sources: PostgreSQL documentation, `SET TRANSACTION` (a transaction cannot become read-write after its
//! first query, so no function that a query calls can do it); `check_transaction_read_only` in `variable.c`;
//! `ClassifyUtilityCommandAsReadOnly` in `utility.c`. Large objects could be written in read-only
//! transactions before 16 (release notes of 16).

use std::sync::Arc;

use super::fingerprint::lexer::LexicalRules;
use super::fingerprint::{StatementClass, classify};
use super::statement_splitter::{Lexeme, SqlStatement, split_statements_with};
use super::used_names::{UnrestrictedNames, UsedNames, readings};

/// Treatment of a text in a replay that must not write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadOnlyTreatment {
    /// It is sent unchanged. The server refuses any write in it.
    Unchanged,
    /// This text is sent instead: `READ WRITE` became `READ ONLY`, and `PREPARE TRANSACTION` became `ROLLBACK`.
    Rewritten(Arc<str>),
    /// It is not sent.
    Withheld,
}

/// First words of commands that PostgreSQL runs in a read-only transaction, and that may end it and begin one that
/// writes (a procedure, a block), write files, or load code.
const UNRESTRICTED_COMMANDS: [&str; 10] = [
    "call",
    "do",
    "load",
    "vacuum",
    "analyze",
    "analyse",
    "reindex",
    "cluster",
    "repack",
    "checkpoint",
];

/// Setting that a session could turn off. The name of its default contains this name.
const SETTING: &str = "transaction_read_only";

/// Decisions about a text, whatever its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOnlyText {
    treatment: ReadOnlyTreatment,
    /// Treatment if a parameter names the setting.
    treatment_if_named: ReadOnlyTreatment,
    /// Whether it has a statement that ends a transaction.
    pub ends_transaction: bool,
}

impl ReadOnlyText {
    /// Decides about a text. `unrestricted` are the names of the target whose use the setting does not hold back.
    pub fn of(sql: &str, unrestricted: &UnrestrictedNames) -> Self {
        let is_withheld = unrestricted.are_in(&UsedNames::of(sql));
        let treat = |sets_by_parameter| match is_withheld {
            true => ReadOnlyTreatment::Withheld,
            false => read_only(sql, sets_by_parameter),
        };
        ReadOnlyText {
            treatment: treat(false),
            treatment_if_named: treat(true),
            ends_transaction: ends_transaction(sql),
        }
    }

    /// Returns the treatment with these readable parameters.
    pub fn treatment<'p>(
        &self,
        mut parameters: impl Iterator<Item = &'p str>,
    ) -> &ReadOnlyTreatment {
        match self.treatment != self.treatment_if_named && parameters.any(names_setting) {
            true => &self.treatment_if_named,
            false => &self.treatment,
        }
    }
}

fn read_only(sql: &str, sets_by_parameter: bool) -> ReadOnlyTreatment {
    let mut treatment = None;
    for rules in readings(sql) {
        let read = read_only_by(sql, sets_by_parameter, rules);
        match treatment {
            None => treatment = Some(read),
            Some(before) if before == read => treatment = Some(before),
            // The readings differ.
            Some(_) => return ReadOnlyTreatment::Withheld,
        }
    }
    treatment.unwrap_or(ReadOnlyTreatment::Unchanged)
}

fn read_only_by(sql: &str, sets_by_parameter: bool, rules: LexicalRules) -> ReadOnlyTreatment {
    let statements = split_statements_with(sql, rules);
    if (statements.iter()).any(|statement| is_withheld(statement, sets_by_parameter)) {
        return ReadOnlyTreatment::Withheld;
    }
    let opens = |statement: &SqlStatement<'_>| {
        let begins = ["begin", "start", "set"]
            .iter()
            .any(|word| first(statement, word));
        begins && statement.words.windows(2).any(is_read_write)
    };
    match &statements[..] {
        [only] if opens(only) => ReadOnlyTreatment::Rewritten(make_read_only(only).into()),
        // A prepared transaction stays after the replay: it keeps its locks, and its rows from VACUUM.
        [only] if prepares_transaction(only) => ReadOnlyTreatment::Rewritten("ROLLBACK".into()),
        // The server refuses several in one text.
        _ => ReadOnlyTreatment::Unchanged,
    }
}

/// Whether a text has a statement that ends a transaction.
fn ends_transaction(sql: &str) -> bool {
    readings(sql).any(|rules| {
        split_statements_with(sql, rules)
            .iter()
            .any(ends_own_transaction)
    })
}

fn prepares_transaction(statement: &SqlStatement<'_>) -> bool {
    first(statement, "prepare") && second(statement, "transaction")
}

fn ends_own_transaction(statement: &SqlStatement<'_>) -> bool {
    let ends = ["commit", "end", "rollback", "abort"]
        .iter()
        .any(|word| first(statement, word));
    // A rollback to a savepoint does not end the transaction.
    prepares_transaction(statement) || ends && !statement.words.iter().any(|word| word.is("to"))
}

fn first(statement: &SqlStatement<'_>, word: &str) -> bool {
    statement.words.first().is_some_and(|first| first.is(word))
}

fn second(statement: &SqlStatement<'_>, word: &str) -> bool {
    statement.words.get(1).is_some_and(|second| second.is(word))
}

fn is_read_write(pair: &[Lexeme<'_>]) -> bool {
    pair[0].is("read") && pair[1].is("write")
}

fn names_setting(text: &str) -> bool {
    text.to_ascii_lowercase().contains(SETTING)
}

fn is_withheld(statement: &SqlStatement<'_>, sets_by_parameter: bool) -> bool {
    if UNRESTRICTED_COMMANDS
        .iter()
        .any(|word| first(statement, word))
        || is_unknown_command(statement)
    {
        return true;
    }
    let follows = |before: &str, after: &str| first(statement, before) && second(statement, after);
    if follows("commit", "prepared")
        || follows("rollback", "prepared")
        || follows("alter", "system")
    {
        return true;
    }
    if first(statement, "copy") && reaches_outside(statement) {
        return true;
    }
    let sets_by_name = statement.words.iter().any(|word| {
        let name = word.name();
        name.is_some_and(|name| name == "set_config" || name == "pg_settings")
    });
    if sets_by_name && (names_setting(statement.text) || sets_by_parameter) {
        return true;
    }
    // Reading the setting is harmless. A query's own functions cannot change it for this transaction.
    let asks = ["show", "select"].iter().any(|word| first(statement, word));
    if names_setting(statement.text) && !asks {
        return true;
    }
    // An escaped name of a setting has no use but to hide it.
    let escaped = |pair: &[Lexeme<'_>]| {
        (pair[0].is("u") && pair[1].is_symbol("&"))
            || matches!(pair[0], Lexeme::Value(text) | Lexeme::Quoted(text)
                if text.as_bytes().get(..2).is_some_and(|start| start.eq_ignore_ascii_case(b"u&")))
    };
    let has_escapes = statement.words.windows(2).any(escaped)
        || statement.text.to_ascii_lowercase().contains("u&\"");
    let changes_settings = ["set", "reset"].iter().any(|word| first(statement, word));
    changes_settings && has_escapes
}

/// Whether the first word is no command that is known here. A later version may run it in a read-only transaction, as
/// PostgreSQL 19 runs `REPACK`.
fn is_unknown_command(statement: &SqlStatement<'_>) -> bool {
    let word = statement.words.first().and_then(Lexeme::name);
    word.is_some_and(|word| classify(&word) == StatementClass::Other)
}

/// Whether a `COPY` has another end than a table and the client: a program, or a file to write to.
fn reaches_outside(statement: &SqlStatement<'_>) -> bool {
    let mut brackets = 0_u32;
    for pair in statement.words.windows(2) {
        if pair[0].is_symbol("(") {
            brackets += 1;
        } else if pair[0].is_symbol(")") {
            brackets = brackets.saturating_sub(1);
        } else if brackets == 0 && (pair[0].is("to") || pair[0].is("from")) {
            return pair[1].is("program") || pair[0].is("to") && !pair[1].is("stdout");
        }
    }
    false
}

/// Returns the statement with each `READ WRITE` replaced by `READ ONLY`.
fn make_read_only(statement: &SqlStatement<'_>) -> String {
    let mut words: Vec<&str> = statement.words.iter().map(Lexeme::text).collect();
    for (second, pair) in words.iter_mut().skip(1).zip(statement.words.windows(2)) {
        if is_read_write(pair) {
            *second = "ONLY";
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_parameters(
        sql: &str,
        parameters: &[&str],
        unrestricted: &UnrestrictedNames,
    ) -> ReadOnlyTreatment {
        let text = ReadOnlyText::of(sql, unrestricted);
        text.treatment(parameters.iter().copied()).clone()
    }

    fn alone(sql: &str) -> ReadOnlyTreatment {
        let mut unrestricted = UnrestrictedNames::default();
        unrestricted.add_called("lo_create");
        unrestricted.add_called("dblink_exec");
        with_parameters(sql, &[], &unrestricted)
    }

    #[test]
    fn read_only_text_that_the_server_refuses_is_unchanged() {
        for sql in [
            "SELECT 1",
            "INSERT INTO t VALUES (1)",
            "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
            "BEGIN",
            "BEGIN; INSERT INTO t VALUES (1); COMMIT",
            "SELECT nextval('s')",
            "COPY t FROM STDIN",
            "COPY t TO STDOUT",
            "COPY (SELECT a FROM t) TO STDOUT (FORMAT csv)",
            "SET search_path TO x",
            "RESET ALL",
            "DISCARD ALL",
            "SHOW transaction_read_only",
            "SELECT current_setting('transaction_read_only')",
            "SELECT 'read write'",
            "SELECT \"Ärger\", 'Ä'",
            "SELECT set_config('app.tenant', '7', false)",
            "COPY t FROM '/tmp/x'",
            // The server refuses several statements.
            "BEGIN READ WRITE; INSERT INTO t VALUES (1); COMMIT",
            "SELECT f(); COMMIT; INSERT INTO t VALUES (1)",
            "ROLLBACK TO SAVEPOINT a; SELECT 1",
            "",
        ] {
            assert_eq!(alone(sql), ReadOnlyTreatment::Unchanged, "{sql}");
        }
    }

    #[test]
    fn read_only_mode_of_a_transaction_is_rewritten() {
        for (sql, instead) in [
            ("BEGIN READ WRITE", "BEGIN READ ONLY"),
            ("begin read /* x */ write;", "begin read ONLY"),
            (
                "START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ WRITE",
                "START TRANSACTION ISOLATION LEVEL SERIALIZABLE , READ ONLY",
            ),
            ("SET TRANSACTION READ WRITE", "SET TRANSACTION READ ONLY"),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            ),
            ("prepare /* x */ transaction 'x'", "ROLLBACK"),
        ] {
            assert_eq!(
                alone(sql),
                ReadOnlyTreatment::Rewritten(instead.into()),
                "{sql}"
            );
        }
    }

    #[test]
    fn read_only_text_that_no_setting_forbids_is_withheld() {
        for sql in [
            "SET default_transaction_read_only = off",
            "SET LOCAL transaction_read_only TO off",
            "set \"transaction_read_only\" to off",
            "RESET transaction_read_only",
            "SET U&\"transaction\\005fread_only\" = off",
            "SELECT set_config('default_transaction_read_only', 'off', false)",
            "UPDATE pg_settings SET setting = 'off' WHERE name = 'transaction_read_only'",
            "CALL p()",
            "LOAD 'auto_explain'",
            "VACUUM t",
            "REPACK t",
            "FROBNICATE t",
            "DO $$ BEGIN COMMIT; SET TRANSACTION READ WRITE; DELETE FROM t; END $$",
            "COMMIT PREPARED 'x'",
            "ALTER SYSTEM SET work_mem = '1GB'",
            "COPY t TO '/tmp/x'",
            "COPY t TO PROGRAM 'rm x'",
            "COPY t FROM PROGRAM 'rm x'",
            "COPY (SELECT '\\') TO STDOUT --') TO PROGRAM 'rm x'",
            "SELECT lo_create(7)",
            "SELECT public.dblink_exec('dbname=x', 'DELETE FROM t')",
        ] {
            assert_eq!(alone(sql), ReadOnlyTreatment::Withheld, "{sql}");
        }
        let parameters = ["Default_Transaction_Read_Only", "off"];
        let sql = "SELECT set_config($1, $2, false)";
        let by_parameter = with_parameters(sql, &parameters, &UnrestrictedNames::default());
        assert_eq!(by_parameter, ReadOnlyTreatment::Withheld);
    }
}
