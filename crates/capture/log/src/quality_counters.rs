//! Counts the properties by which a log's quality is judged, with a few increments an event.
//! [`super::LogQuality`] judges them.
//!
//! The counts are of what the log shows. Two facts are inferred from many statements: whether reads
//! are logged at their start (`log_statement = all`, not `mod`), and whether transactions end
//! without a beginning, so that statements are missing.

use std::collections::BTreeSet;

use crate::first_words::{skip_comments, starts_with_word};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use workload::{EventRef, KindRef, ParameterRef, Sqlstate, Unreplayable};

/// Counts of a log's events. They are part of the account, and are serialised with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct QualityCounters {
    /// The `log_line_prefix`es of the stderr logs among the inputs.
    pub prefixes: BTreeSet<String>,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of sessions whose beginning is in the log.
    pub begun: u64,
    /// Number of sessions whose end is in the log.
    pub ended: u64,
    /// Number of sessions with both.
    pub whole: u64,
    /// Number of sessions with unknown role and database.
    pub nameless: u64,
    /// Number of statements.
    pub statements: u64,
    /// Number of statements that failed.
    pub failed: u64,
    /// Number of failures whose SQLSTATE the log does not show.
    pub uncoded: u64,
    /// Number of successful statements with a known duration.
    pub timed: u64,
    /// The shortest of these durations, in microseconds.
    pub shortest_us: Option<u64>,
    /// A read or a transaction's beginning or end was logged at its start, so `log_statement` is
    /// `all`.
    pub reads_at_start: bool,
    /// Number of executions whose parameter values are in the log, truncated or not.
    pub with_values: u64,
    /// Number of these values.
    pub values: u64,
    /// Number of values that were or may have been truncated.
    pub values_cut: u64,
    /// Number of statements with a truncated value.
    pub cut: u64,
    /// Number of statements of which the log holds only a part.
    pub statements_cut: u64,
    /// Number of successful statements without the values of their parameters.
    pub valueless: u64,
    /// Number of failed statements without the values of their parameters.
    pub valueless_failed: u64,
    /// Number of such statements that were refused because their transaction had failed before.
    pub valueless_refused: u64,
    /// Number of failed statements whose Bind failed, so that no setting shows all values.
    pub bind_failed: u64,
    /// Number of errors within a session whose statement is not in the log, and of executions of a prepared statement
    /// of which pgAudit has the name alone.
    pub textless: u64,
    /// Number of statements that an error in their pipeline undid.
    pub rolled_back: u64,
    /// Number of statements that an error may have undone.
    pub fate_unknown: u64,
    /// Number of statements of pipelines that failed, and were too long to be held until then.
    pub fate_lost: u64,
    /// Number of statements that only pgAudit has logged.
    pub audited: u64,
    /// Number of statements of the same sessions that pgAudit has numbered and not logged.
    pub unaudited: u64,
    /// Number of `COPY … FROM STDIN`.
    pub copies: u64,
    /// Number of further fetches from a portal.
    pub fetches: u64,
    /// Number of Parse messages whose duration is in the log.
    pub parses: u64,
    /// Number of Bind messages whose duration is in the log.
    pub binds: u64,
    /// Number of Execute messages whose duration is in the log, apart from further fetches.
    pub executions: u64,
    /// Number of ends and beginnings of transactions.
    pub boundaries: u64,
    /// Number of ends without a beginning before them, and of beginnings within a transaction.
    pub boundaries_unmatched: u64,
}

/// SQLSTATE of a statement in a failed transaction.
const IN_FAILED_TRANSACTION: Sqlstate = Sqlstate(*b"25P02");

impl QualityCounters {
    /// Number of statements that can be replayed as they were.
    pub fn replayable(&self) -> u64 {
        let not = self.cut
            + self.statements_cut
            + self.valueless
            + self.valueless_failed
            + self.valueless_refused
            + self.bind_failed
            + self.textless
            + self.rolled_back
            + self.fate_unknown
            + self.fate_lost
            + self.copies
            + self.fetches;
        self.statements.saturating_sub(not)
    }

    /// Number of statements that did not fail.
    pub fn succeeded(&self) -> u64 {
        self.statements - self.failed
    }

    /// Counts an event. `transaction` is the state of its session's transaction.
    #[inline]
    pub(super) fn count_event(&mut self, event: &EventRef<'_>, transaction: &mut TransactionState) {
        let Some(sql) = event.kind.sql() else { return };
        self.statements += 1;
        match (event.outcome.sqlstate, event.outcome.duration_us) {
            // A deferred constraint fails a statement that has a duration.
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
            self.count_unreplayable(event, reason);
        }
        if !matches!(event.kind, KindRef::Prepare { .. }) {
            self.count_boundary(transaction_boundary(sql), transaction);
        }
    }

    #[cold]
    fn count_unreplayable(&mut self, event: &EventRef<'_>, reason: Unreplayable) {
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
            (Unreplayable::StatementCut, _) => self.statements_cut += 1,
            (Unreplayable::CopyDataMissing, _) => self.copies += 1,
            (Unreplayable::PortalFetch, _) => self.fetches += 1,
            (Unreplayable::RolledBack, _) => self.rolled_back += 1,
            (Unreplayable::FateUnknown, _) => self.fate_unknown += 1,
            (Unreplayable::BindFailed, _) => self.bind_failed += 1,
            (Unreplayable::TextMissing, _) => self.textless += 1,
            (Unreplayable::StatementUnknown, None) => self.textless += 1,
            // It fails in a replay as it did.
            (Unreplayable::StatementUnknown, Some(_)) => (),
            // Reasons of the wire, which a log does not have.
            (
                Unreplayable::FunctionUnknown
                | Unreplayable::NotUtf8
                | Unreplayable::TooLong
                | Unreplayable::SecretRemoved,
                _,
            ) => (),
        }
    }

    fn count_boundary(&mut self, found: TransactionBoundary, transaction: &mut TransactionState) {
        let before = *transaction;
        (self.boundaries, *transaction) = match found {
            TransactionBoundary::None => return,
            TransactionBoundary::Unclear => (self.boundaries, TransactionState::Unknown),
            TransactionBoundary::Begin => (self.boundaries + 1, TransactionState::Open),
            TransactionBoundary::End => (self.boundaries + 1, TransactionState::None),
        };
        let unmatched = matches!(
            (found, before),
            (TransactionBoundary::Begin, TransactionState::Open)
                | (TransactionBoundary::End, TransactionState::None)
        );
        self.boundaries_unmatched += u64::from(unmatched);
    }

    /// Notes that a statement was logged at its start, which only `log_statement` causes.
    #[inline]
    pub(super) fn count_start(&mut self, sql: &str) {
        self.reads_at_start = self.reads_at_start || is_read(sql);
    }

    /// Counts a finished session.
    pub(super) fn count_session(&mut self, begun: bool, ended: bool, named: bool) {
        self.sessions += 1;
        self.begun += u64::from(begun);
        self.ended += u64::from(ended);
        self.whole += u64::from(begun && ended);
        self.nameless += u64::from(!named);
    }
}

/// Known state of a session's transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum TransactionState {
    #[default]
    Unknown,
    Open,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionBoundary {
    None,
    Begin,
    End,
    /// It may be one, among other statements.
    Unclear,
}

/// First letters of the words that begin or end a transaction.
const BOUNDARY_STARTS: [[u8; 2]; 7] = [*b"be", *b"st", *b"co", *b"en", *b"ro", *b"ab", *b"pr"];

/// Returns whether a statement begins or ends a transaction. Two bytes decide nearly all cases.
#[inline]
pub(super) fn transaction_boundary(sql: &str) -> TransactionBoundary {
    let &[first, second, ..] = sql.as_bytes() else {
        return TransactionBoundary::None;
    };
    // Compared one after the other: no branch predictor foresees a jump to one of them.
    let start = [first | 0x20, second | 0x20];
    if BOUNDARY_STARTS.contains(&start) {
        return boundary_by_word(sql);
    }
    match b"/- \n\t\r".contains(&first) {
        true => boundary_by_words(skip_comments(sql)),
        false => TransactionBoundary::None,
    }
}

fn boundary_by_word(sql: &str) -> TransactionBoundary {
    // The usual form.
    let word = sql.strip_suffix(';').unwrap_or(sql);
    if word.eq_ignore_ascii_case("begin") {
        return TransactionBoundary::Begin;
    }
    if ["commit", "end", "rollback"]
        .iter()
        .any(|end| word.eq_ignore_ascii_case(end))
    {
        return TransactionBoundary::End;
    }
    boundary_by_words(sql)
}

#[inline(never)]
fn boundary_by_words(sql: &str) -> TransactionBoundary {
    let mut words = sql
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default().to_ascii_lowercase();
    let mut second = words.next().unwrap_or_default().to_ascii_lowercase();
    if matches!(second.as_str(), "work" | "transaction") && first != "prepare" && first != "start" {
        second = words.next().unwrap_or_default().to_ascii_lowercase();
    }
    let found = match (first.as_str(), second.as_str()) {
        ("begin", _) | ("start", "transaction") => TransactionBoundary::Begin,
        // Of a prepared transaction, or back to a savepoint, or directly into the next
        // transaction.
        ("commit" | "rollback", "prepared") | ("rollback", "to") => {
            return TransactionBoundary::None;
        }
        ("commit" | "rollback" | "end" | "abort", "and") => return TransactionBoundary::Unclear,
        ("commit" | "rollback" | "end" | "abort", _) | ("prepare", "transaction") => {
            TransactionBoundary::End
        }
        _ => return TransactionBoundary::None,
    };
    match sql.trim_end().trim_end_matches(';').contains(';') {
        true => TransactionBoundary::Unclear,
        false => found,
    }
}

/// Returns whether only `log_statement = all` logs a text at its start, as far as is easily seen. Of
/// several statements one may write, and `SELECT … INTO` does.
fn is_read(sql: &str) -> bool {
    ["select", "begin", "commit", "rollback", "set", "show"]
        .iter()
        .any(|word| starts_with_word(sql, word))
        && !sql.trim_end().trim_end_matches(';').contains(';')
        && !(starts_with_word(sql, "select") && sql.to_ascii_lowercase().contains("into"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_transactions_begin_and_end() {
        for (sql, found) in [
            ("BEGIN", TransactionBoundary::Begin),
            ("begin;", TransactionBoundary::Begin),
            (
                "BEGIN ISOLATION LEVEL SERIALIZABLE",
                TransactionBoundary::Begin,
            ),
            ("start transaction read only", TransactionBoundary::Begin),
            ("COMMIT", TransactionBoundary::End),
            ("commit work", TransactionBoundary::End),
            ("END;", TransactionBoundary::End),
            ("ROLLBACK", TransactionBoundary::End),
            ("abort", TransactionBoundary::End),
            ("PREPARE TRANSACTION 'x'", TransactionBoundary::End),
            ("COMMIT PREPARED 'x'", TransactionBoundary::None),
            ("ROLLBACK TO SAVEPOINT a", TransactionBoundary::None),
            ("ROLLBACK WORK TO a", TransactionBoundary::None),
            ("PREPARE q AS SELECT 1", TransactionBoundary::None),
            ("COMMIT AND CHAIN", TransactionBoundary::Unclear),
            ("BEGIN; SELECT 1", TransactionBoundary::Unclear),
            ("/* page */ COMMIT", TransactionBoundary::End),
            ("SELECT 1", TransactionBoundary::None),
            ("beginning", TransactionBoundary::None),
            ("", TransactionBoundary::None),
        ] {
            assert_eq!(transaction_boundary(sql), found, "{sql}");
        }
    }

    #[test]
    fn what_is_matched_needs_what_stood_before() {
        let mut tallies = QualityCounters::default();
        let mut transaction = TransactionState::default();
        // A session that begins within a transaction does not show that anything is missing.
        for found in [
            TransactionBoundary::End,
            TransactionBoundary::Begin,
            TransactionBoundary::End,
        ] {
            tallies.count_boundary(found, &mut transaction);
        }
        assert_eq!((tallies.boundaries, tallies.boundaries_unmatched), (3, 0));
        for found in [
            TransactionBoundary::End,
            TransactionBoundary::Begin,
            TransactionBoundary::Begin,
        ] {
            tallies.count_boundary(found, &mut transaction);
        }
        assert_eq!((tallies.boundaries, tallies.boundaries_unmatched), (6, 2));
        tallies.count_boundary(TransactionBoundary::Unclear, &mut transaction);
        tallies.count_boundary(TransactionBoundary::Begin, &mut transaction);
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
            "select 1; delete from t",
            "SELECT 1 AS a INTO t",
        ] {
            assert!(!is_read(sql), "{sql}");
        }
    }
}
