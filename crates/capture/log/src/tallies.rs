//! Counts that say what a log is good for, kept along the way: a few increments an event.
//! [`super::Fitness`] judges them.
//!
//! What is counted is what the log shows. Some of it can only be inferred from many statements:
//! that reads are logged at their start at all (`log_statement = all`, not `mod`), and that
//! transactions end which were not seen to begin, so that statements are missing.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::{EventRef, KindRef, ParameterRef, Sqlstate, Unreplayable};

/// What was counted of a log's events. It is part of the account, and is written and read with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Tallies {
    /// The `log_line_prefix`es of the stderr logs among the inputs.
    pub prefixes: BTreeSet<String>,
    /// Sessions.
    pub sessions: u64,
    /// Sessions whose beginning is in the log.
    pub begun: u64,
    /// Sessions whose end is in the log.
    pub ended: u64,
    /// Sessions of which both are.
    pub whole: u64,
    /// Sessions of which neither role nor database is known.
    pub nameless: u64,
    /// Statements.
    pub statements: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Failures whose SQLSTATE the log does not show.
    pub uncoded: u64,
    /// Errors within a session that name no statement and belong to none that is known.
    pub statementless: u64,
    /// Statements whose duration is known, of those that succeeded.
    pub timed: u64,
    /// The shortest of these durations, in microseconds.
    pub shortest_us: Option<u64>,
    /// A read or a transaction's beginning or end was logged when it started, so `log_statement`
    /// is `all`.
    pub reads_at_start: bool,
    /// Executions with parameters whose values are in the log, cut or not.
    pub with_values: u64,
    /// These values.
    pub values: u64,
    /// Values that were cut, or may have been.
    pub values_cut: u64,
    /// Statements with a cut value.
    pub cut: u64,
    /// Statements without the values of their parameters, of those that succeeded.
    pub valueless: u64,
    /// The same of those that failed.
    pub valueless_failed: u64,
    /// The same of those that were refused because their transaction had failed before.
    pub valueless_refused: u64,
    /// `COPY … FROM STDIN`.
    pub copies: u64,
    /// Further fetches from a portal.
    pub fetches: u64,
    /// Transactions' ends and beginnings.
    pub boundaries: u64,
    /// Ends without a beginning before them, and beginnings within a transaction.
    pub boundaries_unmatched: u64,
}

/// Refused since its transaction had failed.
const IN_FAILED_TRANSACTION: Sqlstate = Sqlstate(*b"25P02");

impl Tallies {
    /// Statements that can be replayed as they were.
    pub fn replayable(&self) -> u64 {
        let not = self.cut
            + self.valueless
            + self.valueless_failed
            + self.valueless_refused
            + self.copies
            + self.fetches;
        self.statements.saturating_sub(not)
    }

    /// Statements that did not fail.
    pub fn succeeded(&self) -> u64 {
        self.statements - self.failed
    }

    /// Counts an event. `transaction` is what is known of its session's.
    #[inline]
    pub(super) fn event(&mut self, event: &EventRef<'_>, transaction: &mut Transaction) {
        let Some(sql) = event.kind.sql() else { return };
        self.statements += 1;
        match (event.outcome.sqlstate, event.outcome.duration_us) {
            // A deferred constraint fails a statement that has its duration.
            (Some(code), _) => {
                self.failed += 1;
                self.uncoded += u64::from(code == Sqlstate::UNKNOWN);
            }
            (None, Some(duration_us)) => {
                self.timed += 1;
                self.shortest_us =
                    Some(self.shortest_us.map_or(duration_us, |s| s.min(duration_us)));
            }
            (None, None) => (),
        }
        if let KindRef::Execute { parameters, .. } = event.kind
            && !parameters.is_empty()
        {
            self.with_values += 1;
            self.values += parameters.len() as u64;
        }
        if let Some(reason) = event.unreplayable {
            self.lost(event, reason);
        }
        if !matches!(event.kind, KindRef::Prepare { .. }) {
            self.boundary(boundary(sql), transaction);
        }
    }

    #[cold]
    fn lost(&mut self, event: &EventRef<'_>, reason: Unreplayable) {
        match (reason, event.outcome.sqlstate) {
            (Unreplayable::ParametersCut, _) => {
                self.cut += 1;
                if let KindRef::Execute { parameters, .. } = event.kind {
                    let cut = parameters.iter().flatten().filter_map(ParameterRef::text);
                    let cut = cut.filter(|value| value.ends_with("..."));
                    self.values_cut += cut.count() as u64;
                }
            }
            (Unreplayable::ParametersMissing, None) => self.valueless += 1,
            (Unreplayable::ParametersMissing, Some(IN_FAILED_TRANSACTION)) => {
                self.valueless_refused += 1;
            }
            (Unreplayable::ParametersMissing, Some(_)) => self.valueless_failed += 1,
            (Unreplayable::CopyDataMissing, _) => self.copies += 1,
            (Unreplayable::PortalFetch, _) => self.fetches += 1,
            // What the wire cannot keep, and a log has or never had.
            (
                Unreplayable::StatementUnknown
                | Unreplayable::NotUtf8
                | Unreplayable::TooLong
                | Unreplayable::SecretRemoved,
                _,
            ) => (),
        }
    }

    fn boundary(&mut self, found: Boundary, transaction: &mut Transaction) {
        let before = *transaction;
        (self.boundaries, *transaction) = match found {
            Boundary::None => return,
            Boundary::Unclear => (self.boundaries, Transaction::Unknown),
            Boundary::Begin => (self.boundaries + 1, Transaction::Open),
            Boundary::End => (self.boundaries + 1, Transaction::None),
        };
        let unmatched = matches!(
            (found, before),
            (Boundary::Begin, Transaction::Open) | (Boundary::End, Transaction::None)
        );
        self.boundaries_unmatched += u64::from(unmatched);
    }

    /// A statement was logged when it started, and nothing but `log_statement` does that.
    #[inline]
    pub(super) fn at_start(&mut self, sql: &str) {
        self.reads_at_start = self.reads_at_start || is_read(sql);
    }

    /// Counts a session that is over.
    pub(super) fn session(&mut self, begun: bool, ended: bool, named: bool) {
        self.sessions += 1;
        self.begun += u64::from(begun);
        self.ended += u64::from(ended);
        self.whole += u64::from(begun && ended);
        self.nameless += u64::from(!named);
    }
}

/// What is known of a session's transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Transaction {
    #[default]
    Unknown,
    Open,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Boundary {
    None,
    Begin,
    End,
    /// It may be one, among other statements.
    Unclear,
}

fn starts_with_word(text: &str, word: &str) -> bool {
    let bytes = text.as_bytes();
    bytes
        .get(..word.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
        && !bytes
            .get(word.len())
            .is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'_')
}

/// How the words begin that begin or end a transaction.
const STARTS: [[u8; 2]; 7] = [*b"be", *b"st", *b"co", *b"en", *b"ro", *b"ab", *b"pr"];

/// Whether a statement begins or ends a transaction. Nearly all are told by two bytes.
#[inline]
fn boundary(sql: &str) -> Boundary {
    let &[first, second, ..] = sql.as_bytes() else {
        return Boundary::None;
    };
    // Compared one after the other: no processor foresees a jump to which of them it is.
    let start = [first | 0x20, second | 0x20];
    if STARTS.contains(&start) {
        return named_boundary(sql);
    }
    // A comment or a blank before the statement: rare, and not looked behind.
    match b"/- \n\t(".contains(&first) {
        true => Boundary::Unclear,
        false => Boundary::None,
    }
}

fn named_boundary(sql: &str) -> Boundary {
    // What nearly all of them are.
    let word = sql.strip_suffix(';').unwrap_or(sql);
    if word.eq_ignore_ascii_case("begin") {
        return Boundary::Begin;
    }
    if ["commit", "end", "rollback"]
        .iter()
        .any(|end| word.eq_ignore_ascii_case(end))
    {
        return Boundary::End;
    }
    other_boundary(sql)
}

#[inline(never)]
fn other_boundary(sql: &str) -> Boundary {
    let mut words = sql
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default().to_ascii_lowercase();
    let mut second = words.next().unwrap_or_default().to_ascii_lowercase();
    if matches!(second.as_str(), "work" | "transaction") && first != "prepare" && first != "start" {
        second = words.next().unwrap_or_default().to_ascii_lowercase();
    }
    let found = match (first.as_str(), second.as_str()) {
        ("begin", _) | ("start", "transaction") => Boundary::Begin,
        // Of a transaction that was prepared; or back to a savepoint; or at once in the next one.
        ("commit" | "rollback", "prepared") | ("rollback", "to") => return Boundary::None,
        ("commit" | "rollback" | "end" | "abort", "and") => return Boundary::Unclear,
        ("commit" | "rollback" | "end" | "abort", _) | ("prepare", "transaction") => Boundary::End,
        _ => return Boundary::None,
    };
    match sql.trim_end().trim_end_matches(';').contains(';') {
        true => Boundary::Unclear,
        false => found,
    }
}

/// A statement that only `log_statement = all` logs when it starts.
fn is_read(sql: &str) -> bool {
    ["select", "begin", "commit", "rollback", "set", "show"]
        .iter()
        .any(|word| starts_with_word(sql, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_transactions_begin_and_end() {
        for (sql, found) in [
            ("BEGIN", Boundary::Begin),
            ("begin;", Boundary::Begin),
            ("BEGIN ISOLATION LEVEL SERIALIZABLE", Boundary::Begin),
            ("start transaction read only", Boundary::Begin),
            ("COMMIT", Boundary::End),
            ("commit work", Boundary::End),
            ("END;", Boundary::End),
            ("ROLLBACK", Boundary::End),
            ("abort", Boundary::End),
            ("PREPARE TRANSACTION 'x'", Boundary::End),
            ("COMMIT PREPARED 'x'", Boundary::None),
            ("ROLLBACK TO SAVEPOINT a", Boundary::None),
            ("ROLLBACK WORK TO a", Boundary::None),
            ("PREPARE q AS SELECT 1", Boundary::None),
            ("COMMIT AND CHAIN", Boundary::Unclear),
            ("BEGIN; SELECT 1", Boundary::Unclear),
            ("/* page */ COMMIT", Boundary::Unclear),
            ("SELECT 1", Boundary::None),
            ("beginning", Boundary::None),
            ("", Boundary::None),
        ] {
            assert_eq!(boundary(sql), found, "{sql}");
        }
    }

    #[test]
    fn what_is_matched_needs_what_stood_before() {
        let mut tallies = Tallies::default();
        let mut transaction = Transaction::default();
        // A session that begins within a transaction is no sign of anything missing.
        for found in [Boundary::End, Boundary::Begin, Boundary::End] {
            tallies.boundary(found, &mut transaction);
        }
        assert_eq!((tallies.boundaries, tallies.boundaries_unmatched), (3, 0));
        for found in [Boundary::End, Boundary::Begin, Boundary::Begin] {
            tallies.boundary(found, &mut transaction);
        }
        assert_eq!((tallies.boundaries, tallies.boundaries_unmatched), (6, 2));
        tallies.boundary(Boundary::Unclear, &mut transaction);
        tallies.boundary(Boundary::Begin, &mut transaction);
        assert_eq!((tallies.boundaries, tallies.boundaries_unmatched), (7, 2));
    }

    #[test]
    fn only_log_statement_all_shows_reads_at_their_start() {
        assert!(is_read("select 1") && is_read("BEGIN") && is_read("SET x = 1"));
        for sql in [
            "insert into t values (1)",
            "settle",
            "drop table t",
            "selected",
        ] {
            assert!(!is_read(sql), "{sql}");
        }
    }
}
