//! Commits in two phases: `PREPARE TRANSACTION`, and what ends that, maybe in another session.
//!
//! Source: PostgreSQL documentation, SQL commands `PREPARE TRANSACTION`, `COMMIT PREPARED`, `ROLLBACK PREPARED`.

use super::parts::{Part, parts};

/// What a text does to a transaction that is committed in two phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TwoPhases {
    /// `PREPARE TRANSACTION`: its session has done with it, and nobody sees yet what it wrote.
    Prepares,
    /// `COMMIT PREPARED` or `ROLLBACK PREPARED`, by whoever knows its name.
    Ends,
}

impl TwoPhases {
    /// Reads it from the words of a text; `None` for nearly all of them.
    pub fn of(sql: &str) -> Option<Self> {
        // Of three words one tells by a glance that a text has none of it.
        let named = |word: &[u8]| word.eq_ignore_ascii_case(b"prepare");
        if !sql.as_bytes().windows(b"prepare".len()).any(named) {
            return None;
        }
        parts(sql).iter().find_map(Self::of_part)
    }

    fn of_part(part: &Part<'_>) -> Option<Self> {
        let [first, second, ..] = &part.words[..] else {
            return None;
        };
        if first.is("prepare") && second.is("transaction") {
            return Some(TwoPhases::Prepares);
        }
        let ends = (first.is("commit") || first.is("rollback")) && second.is("prepared");
        ends.then_some(TwoPhases::Ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_words_tell() {
        for (sql, expected) in [
            ("PREPARE TRANSACTION 'x'", Some(TwoPhases::Prepares)),
            (
                "begin; select 1; prepare transaction 'x'",
                Some(TwoPhases::Prepares),
            ),
            (
                "/* ours */ Commit -- so\n Prepared 'x';",
                Some(TwoPhases::Ends),
            ),
            ("ROLLBACK PREPARED 'x'", Some(TwoPhases::Ends)),
            ("PREPARE transaction_of AS SELECT 1", None),
            ("SELECT 'commit prepared'", None),
            ("COMMIT", None),
        ] {
            assert_eq!(TwoPhases::of(sql), expected, "{sql}");
        }
    }
}
