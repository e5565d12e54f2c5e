//! Recognises statements with identifiers that only the captured server knew: of another session's process, and of
//! an exported snapshot.
//!
//! Source: PostgreSQL documentation, 9.28.2 (server signaling functions) and SET TRANSACTION.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::statement_splitter::{Lexeme, SqlStatement, split_statements};

const FUNCTIONS: [&str; 2] = ["pg_terminate_backend", "pg_cancel_backend"];

/// Words of which each such text has one.
static MENTIONS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(["pg_terminate_backend", "pg_cancel_backend", "snapshot"])
        .expect("a few short words")
});

/// Identifier of the captured server that a text uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapturedIdentifier {
    /// A process, which `pg_terminate_backend` or `pg_cancel_backend` is called with, other than the session's own
    /// (`pg_backend_pid()`). A call within a function of the database is not found.
    Process,
    /// A snapshot, which another session exported.
    Snapshot,
}

impl CapturedIdentifier {
    /// Finds the identifier in a text, if there is one.
    pub fn find(sql: &str) -> Option<Self> {
        if !MENTIONS.is_match(sql) {
            return None;
        }
        let statements = split_statements(sql);
        if statements.iter().any(signals) {
            return Some(CapturedIdentifier::Process);
        }
        let imports = |statement: &SqlStatement<'_>| {
            matches!(&statement.words[..], [set, transaction, snapshot, _, ..]
                if set.is("set") && transaction.is("transaction") && snapshot.is("snapshot"))
        };
        let imports_one = statements.iter().any(imports);
        imports_one.then_some(CapturedIdentifier::Snapshot)
    }
}

fn signals(statement: &SqlStatement<'_>) -> bool {
    // The body of a block is one literal.
    let is_block = statement.words.first().is_some_and(|word| word.is("do"));
    let in_block =
        |word: &Lexeme<'_>| matches!(word, Lexeme::Value(text) if contains_function(text));
    let mut words = statement.words.iter().enumerate();
    words.any(|(place, word)| {
        let calls = (word.name()).is_some_and(|name| FUNCTIONS.contains(&name.as_str()))
            && !has_own_process(&statement.words[place + 1..]);
        calls || is_block && in_block(word)
    })
}

/// Whether the words after a function's name are not a call, or call it with `pg_backend_pid()` alone.
fn has_own_process(after: &[Lexeme<'_>]) -> bool {
    let Some((open, arguments)) = after.split_first() else {
        return true;
    };
    if !open.is_symbol("(") {
        return true;
    }
    matches!(arguments, [function, open, close, end, ..]
        if function.name().as_deref() == Some("pg_backend_pid")
            && open.is_symbol("(") && close.is_symbol(")") && end.is_symbol(")"))
}

fn contains_function(text: &str) -> bool {
    MENTIONS
        .find_iter(text)
        .any(|found| found.pattern().as_usize() < FUNCTIONS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sql: &str) -> Option<CapturedIdentifier> {
        CapturedIdentifier::find(sql)
    }

    #[test]
    fn process_signal_is_found_in_calls() {
        for sql in [
            "SELECT pg_terminate_backend(4711)",
            "select PG_CANCEL_BACKEND ($1)",
            "SELECT 1; SELECT pg_catalog.\"pg_terminate_backend\"/* now */(4711, 1000)",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
            "SELECT pg_cancel_backend(pg_backend_pid() + 1)",
            "DO $$ BEGIN PERFORM pg_terminate_backend(4711); END $$",
        ] {
            assert_eq!(found(sql), Some(CapturedIdentifier::Process), "{sql}");
        }
    }

    #[test]
    fn snapshot_import_is_found() {
        assert_eq!(
            found("SET TRANSACTION SNAPSHOT '00000003-0000001B-1'"),
            Some(CapturedIdentifier::Snapshot)
        );
        for sql in [
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "SELECT 'set transaction snapshot'",
            "SELECT pg_export_snapshot()",
        ] {
            assert_eq!(found(sql), None, "{sql}");
        }
    }

    #[test]
    fn process_signal_is_not_found_in_literals_names_and_own_process() {
        for sql in [
            "SELECT 'pg_terminate_backend(4711)'",
            "SELECT 1 -- pg_cancel_backend(4711)",
            "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA a TO pg_terminate_backend",
            "SELECT pg_terminate_backend(pg_backend_pid())",
            "SELECT my_pg_terminate_backend(1)",
            "SELECT 1",
        ] {
            assert_eq!(found(sql), None, "{sql}");
        }
    }
}
