//! Two-phase commit: `PREPARE TRANSACTION`, and the command that ends the prepared transaction, possibly in another session.
//!
//! Source: PostgreSQL documentation, SQL commands `PREPARE TRANSACTION`, `COMMIT PREPARED`, `ROLLBACK PREPARED`.

use super::statement_splitter::{SqlStatement, split_statements};

/// Effect of a text on a prepared transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TwoPhaseCommit {
    /// `PREPARE TRANSACTION`: detaches the transaction from its session. Its writes are not visible yet.
    Prepare,
    /// `COMMIT PREPARED` or `ROLLBACK PREPARED`, by any session.
    Finish,
}

impl TwoPhaseCommit {
    /// Reads the effect from the words of a text; `None` if the text has no such command.
    pub fn of(sql: &str) -> Option<Self> {
        // All three commands have this word.
        let named = |word: &[u8]| word.eq_ignore_ascii_case(b"prepare");
        if !sql.as_bytes().windows(b"prepare".len()).any(named) {
            return None;
        }
        split_statements(sql).iter().find_map(Self::of_statement)
    }

    fn of_statement(statement: &SqlStatement<'_>) -> Option<Self> {
        let [first, second, ..] = &statement.words[..] else {
            return None;
        };
        if first.is("prepare") && second.is("transaction") {
            return Some(TwoPhaseCommit::Prepare);
        }
        let ends = (first.is("commit") || first.is("rollback")) && second.is("prepared");
        ends.then_some(TwoPhaseCommit::Finish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_phase_commands_are_recognised_by_their_first_words() {
        for (sql, expected) in [
            ("PREPARE TRANSACTION 'x'", Some(TwoPhaseCommit::Prepare)),
            (
                "begin; select 1; prepare transaction 'x'",
                Some(TwoPhaseCommit::Prepare),
            ),
            (
                "/* ours */ Commit -- so\n Prepared 'x';",
                Some(TwoPhaseCommit::Finish),
            ),
            ("ROLLBACK PREPARED 'x'", Some(TwoPhaseCommit::Finish)),
            ("PREPARE transaction_of AS SELECT 1", None),
            ("SELECT 'commit prepared'", None),
            ("COMMIT", None),
        ] {
            assert_eq!(TwoPhaseCommit::of(sql), expected, "{sql}");
        }
    }
}
