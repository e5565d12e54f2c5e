//! Finds where a replay diverged from its capture.
//!
//! Every statement of a run falls into exactly one class ([`Divergence`] has a count for each).
//! Differences are grouped by statement and error, each group with its first occurrence.
//!
//! Two rules decide the class:
//!
//! - *Success.* If the source names every failure (a log), a statement without an error succeeded.
//!   For other sources, a captured duration or row count shows that it succeeded.
//! - *Consequences.* A server refuses every statement of a failed transaction (25P02). If the
//!   transaction failed on one side only, its refused statements are not differences of their own.
//!   They are counted with the error that broke it.

use std::collections::{BTreeMap, HashMap};

use run::{Execution, Outcome, RunInfo, RunStatus, SkipReason, SourceLocation, StatementKind};
use schemars::JsonSchema;
use serde::Serialize;
use sql::{Fingerprint, UnrepeatableCall};
use workload::{Sqlstate, StatementText};

use crate::divergence_roots::{FOREIGN_KEY, SessionVotes, link_roots};
use crate::explanation::explanation;
use workload::{Literals, redact_message};

/// `in_failed_sql_transaction`.
const REFUSED: Sqlstate = Sqlstate(*b"25P02");

/// SQLSTATEs with which the server ends a session: `admin_shutdown`, `crash_shutdown`,
/// `cannot_connect_now`, `database_dropped`, `idle_session_timeout`,
/// `idle_in_transaction_session_timeout`.
const ENDED: [&[u8; 5]; 6] = [b"57P01", b"57P02", b"57P03", b"57P04", b"57P05", b"25P03"];

/// Whether the connection ends with this error. This is class 08 except 08P01, which a server also
/// reports for a Bind message with too few parameters and then continues.
fn ends_connection(code: Sqlstate) -> bool {
    ENDED.contains(&&code.0) || code.0.starts_with(b"08") && &code.0 != b"08P01"
}

/// Kind of divergence of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// The connection was lost during the statement.
    Lost,
    /// The statement failed in the replay only.
    ErrorNew,
    /// The statement failed both times, with different errors.
    ErrorOther,
    /// The statement succeeded both times, with different numbers of rows.
    Rows,
    /// The statement succeeded both times, with equally many rows but different values.
    Values,
    /// The statement failed in the capture only.
    ErrorGone,
}

/// Verdict on whether a run matches its capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DivergenceVerdict {
    /// Everything that could be compared is the same.
    Same,
    /// Something differs.
    Differs,
    /// Nothing could be compared.
    #[default]
    Unknown,
}

/// Comparison of a run with its capture. The counts add up: `same` + `lost` + `errors_new` +
/// `errors_other` + `rows_differ` + `values_differ` + `errors_gone` + `following` +
/// `following_gone` + `unknown` + `lost_unsent` + `skipped` = `statements`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Divergence {
    /// The verdict.
    pub verdict: DivergenceVerdict,
    /// Statements in the run, including those that a stopped replay did not reach.
    pub statements: u64,
    /// Statements that match the capture as far as it is known: they succeeded both times with the
    /// same rows, or failed both times with the same error.
    pub same: u64,
    /// Number of statements in `same` that failed both times.
    pub same_failed: u64,
    /// Statements during which the connection was lost.
    pub lost: u64,
    /// Statements that failed in the replay only.
    pub errors_new: u64,
    /// Statements that failed both times, with different errors.
    pub errors_other: u64,
    /// Statements that succeeded both times, with different numbers of rows.
    pub rows_differ: u64,
    /// Statements that succeeded both times, with equally many rows but different values.
    pub values_differ: u64,
    /// Statements that failed in the capture only.
    pub errors_gone: u64,
    /// Statements that were refused because an earlier statement of the transaction failed in the
    /// replay but not in the same way in the capture.
    pub following: u64,
    /// Statements that succeeded although the capture refused them, because an earlier statement of
    /// the transaction had failed in the capture but not in the same way in the replay.
    pub following_gone: u64,
    /// Statements whose outcome in the capture is unknown.
    pub unknown: u64,
    /// Statements that were never sent because their session had no connection, or their
    /// transaction was lost with its connection.
    pub lost_unsent: u64,
    /// Statements that were never sent for other reasons.
    pub skipped: u64,
    /// Statements for which both row counts are known.
    pub rows_compared: u64,
    /// Statements for which both row checksums are known.
    pub digests_compared: u64,
    /// Differences by kind, then by count in descending order.
    pub differences: Vec<Difference>,
    /// Errors that may be caused by the replay and not by the server, the most frequent first.
    pub explanations: Vec<ErrorExplanation>,
}

/// Error that may be caused by the replay and not by the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorExplanation {
    /// The error.
    pub sqlstate: Sqlstate,
    /// Number of diverging statements with this error.
    pub count: u64,
    /// Cause of the error, and the remedy.
    pub explanation: &'static str,
}

/// Group of executions of a statement that differ in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// The kind of difference.
    pub kind: DifferenceKind,
    /// The statement.
    pub fingerprint: Option<Fingerprint>,
    /// Normalised SQL, if the run has it.
    pub sql: Option<String>,
    /// Error in the replay; `None` if the statement succeeded.
    pub sqlstate: Option<Sqlstate>,
    /// Error in the capture; `None` if the statement succeeded.
    pub captured_sqlstate: Option<Sqlstate>,
    /// Number of executions.
    pub count: u64,
    /// Statements of the same transactions that differ only as a consequence.
    pub following: u64,
    /// Difference of the row counts, if they differ.
    pub rows: Option<RowsDifference>,
    /// First occurrence, in order of completion.
    pub first: FirstDifference,
    /// Calls in its conditions whose results depend on the time, on chance or on the server. A literal such as `'today'` is
    /// not in the run's texts.
    pub unrepeatable: Vec<UnrepeatableCall>,
    /// Position in `differences` of the first difference from which this one followed; `null` if it is a root itself.
    pub root: Option<usize>,
    /// Number of the first occurrence, in order of completion.
    #[serde(skip)]
    pub(crate) order: u64,
}

impl Difference {
    pub(crate) fn key(&self) -> Key {
        (
            self.kind,
            self.fingerprint,
            self.sqlstate,
            self.captured_sqlstate,
        )
    }
}

/// Differences of row counts, summed over a statement's executions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RowsDifference {
    /// Executions with more rows in the replay.
    pub more: u64,
    /// Executions with fewer rows in the replay.
    pub fewer: u64,
    /// Additional rows in the replay, summed over the executions with more.
    pub rows_more: u64,
    /// Missing rows in the replay, summed over the executions with fewer.
    pub rows_fewer: u64,
    /// Captured rows of the execution that differs most.
    pub largest_captured: u64,
    /// Replayed rows of the same execution.
    pub largest_replayed: u64,
}

/// First execution that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FirstDifference {
    /// Number of the session in the run.
    pub session: u64,
    /// Sequence of the event within the session.
    pub sequence: u64,
    /// Source that the capture read it from, as the user named it; `null` if unknown.
    pub source: Option<String>,
    /// Line in the source, from 1.
    pub line: Option<u64>,
    /// Position in the capture's source, until the source is named.
    #[serde(skip)]
    place: Option<SourceLocation>,
    /// The server's message in the replay, redacted unless literals were requested.
    pub message: Option<String>,
}

impl FirstDifference {
    pub(crate) fn of(execution: &Execution) -> Self {
        Self {
            session: execution.session,
            sequence: execution.sequence,
            source: None,
            line: execution.captured.location.map(|place| place.line),
            place: execution.captured.location,
            message: execution.message.clone(),
        }
    }

    #[cfg(test)]
    pub(crate) fn with_message(message: Option<&str>) -> Self {
        Self {
            session: 0,
            sequence: 0,
            source: None,
            line: None,
            place: None,
            message: message.map(str::to_owned),
        }
    }

    fn finish(&mut self, sqlstate: Option<Sqlstate>, info: &RunInfo, literals: Literals) {
        let source =
            |place: SourceLocation| info.workload.sources.get(place.source as usize).cloned();
        self.source = self.place.and_then(source);
        self.message = sqlstate
            .zip(self.message.take())
            .map(|(sqlstate, message)| redact_message(sqlstate, &message, literals));
    }
}

impl Divergence {
    /// Counts the statements that diverged, including those that diverged only as a consequence.
    pub fn differing(&self) -> u64 {
        self.lost
            + self.errors_new
            + self.errors_other
            + self.rows_differ
            + self.values_differ
            + self.errors_gone
            + self.following
            + self.following_gone
    }
}

pub(crate) type Key = (
    DifferenceKind,
    Option<Fingerprint>,
    Option<Sqlstate>,
    Option<Sqlstate>,
);

/// Classification of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StatementClassification {
    Same,
    Unknown,
    Skipped(SkipReason),
    Differs(Key),
    /// It was refused as a consequence of the statement that broke the transaction in the replay.
    Follows(Key),
    /// It was refused in the capture as a consequence of the statement that broke the transaction
    /// there.
    FollowsGone(Key),
}

/// Keys of the statements that broke a session's open transaction, in the replay and in the
/// capture, if that is a difference.
#[derive(Debug, Clone, Copy, Default)]
struct FailedTransaction {
    here: Option<Key>,
    captured: Option<Key>,
}

/// Collects divergences from a run's executions one by one. Memory is bounded by the number of
/// different statements and errors, and two keys for each live session with a broken transaction.
#[derive(Debug)]
pub struct DivergenceFinder {
    failures_named: bool,
    found: Divergence,
    differences: HashMap<Key, Difference>,
    broken: HashMap<u64, FailedTransaction>,
    /// First difference of each live session.
    first_of_session: HashMap<u64, Key>,
    votes: SessionVotes,
}

impl DivergenceFinder {
    /// Creates a finder. `failures_named` says that the source of the capture names every failure,
    /// so that a statement without an error succeeded ([`run::WorkloadRef::failures_named`]).
    pub fn new(failures_named: bool) -> Self {
        Self {
            failures_named,
            found: Divergence::default(),
            differences: HashMap::new(),
            broken: HashMap::new(),
            first_of_session: HashMap::new(),
            votes: SessionVotes::new(),
        }
    }

    /// Adds an execution. Executions of a session must come in order.
    pub fn add(&mut self, execution: &Execution) {
        if matches!(
            execution.kind,
            StatementKind::Connect | StatementKind::Disconnect
        ) {
            self.broken.remove(&execution.session);
            self.first_of_session.remove(&execution.session);
        }
        if !execution.is_statement() {
            return;
        }
        let before = self.broken.get(&execution.session).copied();
        let before = before.unwrap_or_default();
        let class = self.class(execution, before);
        self.count(execution, class);
        if let StatementClassification::Differs(key) = class {
            let first = *self
                .first_of_session
                .entry(execution.session)
                .or_insert(key);
            if key.2 == Some(FOREIGN_KEY) && first != key {
                *self.votes.entry((key, first)).or_default() += 1;
            }
        }
        let after = broken_after(execution, class, before);
        if after.here.is_some() || after.captured.is_some() {
            self.broken.insert(execution.session, after);
        } else {
            self.broken.remove(&execution.session);
        }
    }

    fn class(&self, execution: &Execution, broken: FailedTransaction) -> StatementClassification {
        let captured = &execution.captured;
        let succeeded =
            self.failures_named || captured.duration_us.is_some() || captured.rows.is_some();
        let differs = |kind, here| {
            let key = (kind, execution.fingerprint, here, captured.sqlstate);
            StatementClassification::Differs(key)
        };
        match (execution.outcome, captured.sqlstate) {
            (Outcome::Skipped(reason), _) => StatementClassification::Skipped(reason),
            (Outcome::Done, None) => match captured.rows {
                Some(rows) if rows != execution.rows => differs(DifferenceKind::Rows, None),
                _ if execution.differs_in_values() => differs(DifferenceKind::Values, None),
                None if !succeeded => StatementClassification::Unknown,
                _ => StatementClassification::Same,
            },
            (Outcome::Done, Some(there)) => match broken.captured {
                Some(breaker) if there == REFUSED => StatementClassification::FollowsGone(breaker),
                _ => differs(DifferenceKind::ErrorGone, None),
            },
            (Outcome::Failed(here), Some(there)) if matches(here, there) => {
                StatementClassification::Same
            }
            (Outcome::Failed(here), there) => match (broken.here, there) {
                (Some(breaker), _) if here == REFUSED => StatementClassification::Follows(breaker),
                _ if ends_connection(here) => differs(DifferenceKind::Lost, Some(here)),
                (_, Some(_)) => differs(DifferenceKind::ErrorOther, Some(here)),
                (_, None) if succeeded => differs(DifferenceKind::ErrorNew, Some(here)),
                (_, None) => StatementClassification::Unknown,
            },
        }
    }

    fn count(&mut self, execution: &Execution, class: StatementClassification) {
        let found = &mut self.found;
        found.statements += 1;
        let is_done = execution.outcome == Outcome::Done && execution.captured.sqlstate.is_none();
        found.rows_compared += u64::from(is_done && execution.captured.rows.is_some());
        let has_digests = execution.digest.is_some() && execution.captured.digest.is_some();
        found.digests_compared += u64::from(is_done && has_digests);
        match class {
            StatementClassification::Same => {
                found.same += 1;
                found.same_failed += u64::from(execution.outcome != Outcome::Done);
            }
            StatementClassification::Unknown => found.unknown += 1,
            StatementClassification::Skipped(
                SkipReason::NoConnection | SkipReason::TransactionLost,
            ) => {
                found.lost_unsent += 1;
            }
            StatementClassification::Skipped(_) => found.skipped += 1,
            StatementClassification::Follows(key) => {
                found.following += 1;
                self.follow(key);
            }
            StatementClassification::FollowsGone(key) => {
                found.following_gone += 1;
                self.follow(key);
            }
            StatementClassification::Differs(key) => {
                *match key.0 {
                    DifferenceKind::Lost => &mut found.lost,
                    DifferenceKind::ErrorNew => &mut found.errors_new,
                    DifferenceKind::ErrorOther => &mut found.errors_other,
                    DifferenceKind::Rows => &mut found.rows_differ,
                    DifferenceKind::Values => &mut found.values_differ,
                    DifferenceKind::ErrorGone => &mut found.errors_gone,
                } += 1;
                let difference = self.differences.entry(key).or_insert_with(|| Difference {
                    kind: key.0,
                    fingerprint: key.1,
                    sql: None,
                    sqlstate: key.2,
                    captured_sqlstate: key.3,
                    count: 0,
                    following: 0,
                    rows: None,
                    first: FirstDifference::of(execution),
                    unrepeatable: Vec::new(),
                    root: None,
                    order: found.statements,
                });
                difference.count += 1;
                if let (DifferenceKind::Rows, Some(there)) = (key.0, execution.captured.rows) {
                    difference
                        .rows
                        .get_or_insert_default()
                        .add(there, execution.rows);
                }
            }
        }
    }

    fn follow(&mut self, breaker: Key) {
        if let Some(difference) = self.differences.get_mut(&breaker) {
            difference.following += 1;
        }
    }

    /// Returns the divergence. `statements` are the run's texts.
    ///
    /// # Errors
    /// If the iterator fails; the first error is returned.
    pub fn finish<E>(
        self,
        statements: impl IntoIterator<Item = Result<StatementText, E>>,
        info: &RunInfo,
        literals: Literals,
    ) -> Result<Divergence, E> {
        let mut found = self.found;
        // Statements that a stopped replay did not reach have no rows in the run, only a count.
        if info.status == RunStatus::Stopped {
            let unreached = info.statements.saturating_sub(found.statements);
            found.statements += unreached;
            found.skipped += unreached;
        }
        let mut differences: Vec<Difference> = self.differences.into_values().collect();
        let mut of: HashMap<Fingerprint, Vec<usize>> = HashMap::new();
        for (at, difference) in differences.iter().enumerate() {
            if let Some(fingerprint) = difference.fingerprint {
                of.entry(fingerprint).or_default().push(at);
            }
        }
        for text in statements {
            let text = text?;
            for &at in of.get(&text.fingerprint).into_iter().flatten() {
                differences[at].sql = Some(text.sql.clone());
                differences[at].unrepeatable = UnrepeatableCall::find_in_conditions(&text.sql);
            }
        }
        for one in &mut differences {
            one.first.finish(one.sqlstate, info, literals);
        }
        differences.sort_by(|a, b| {
            let rest = |one: &Difference| (one.fingerprint, one.sqlstate, one.captured_sqlstate);
            let by_count = (b.count, b.following).cmp(&(a.count, a.following));
            let by_kind = a.kind.cmp(&b.kind);
            by_kind.then(by_count).then(rest(a).cmp(&rest(b)))
        });
        link_roots(&mut differences, &self.votes);
        Ok(Divergence {
            verdict: match (found.differing(), found.same) {
                (0, 0) => DivergenceVerdict::Unknown,
                (0, _) => DivergenceVerdict::Same,
                _ => DivergenceVerdict::Differs,
            },
            explanations: explanations(&differences, info),
            differences,
            ..found
        })
    }
}

/// Explains the errors that differ from the capture.
fn explanations(differences: &[Difference], info: &RunInfo) -> Vec<ErrorExplanation> {
    let mut counts: BTreeMap<Sqlstate, u64> = BTreeMap::new();
    for one in differences {
        if let Some(sqlstate) = one.sqlstate {
            *counts.entry(sqlstate).or_default() += one.count;
        }
    }
    let has_option = |option: &str| info.options.contains_key(option);
    let mut explained: Vec<ErrorExplanation> = counts
        .into_iter()
        .filter_map(|(sqlstate, count)| {
            Some(ErrorExplanation {
                sqlstate,
                count,
                explanation: explanation(sqlstate.as_str(), has_option)?,
            })
        })
        .collect();
    explained.sort_by_key(|one| std::cmp::Reverse(one.count));
    explained
}

/// Whether two errors are equal as far as is known. Two lost connections are equal, because the
/// code depends on which end notices first.
fn matches(here: Sqlstate, there: Sqlstate) -> bool {
    here == there || there == Sqlstate::UNKNOWN || ends_connection(here) && ends_connection(there)
}

/// Returns the cause of a broken transaction after this statement. A broken transaction only
/// accepts its end or a return to a savepoint, so a statement that succeeds ends the break.
fn broken_after(
    execution: &Execution,
    class: StatementClassification,
    before: FailedTransaction,
) -> FailedTransaction {
    let own = match class {
        StatementClassification::Differs(key) => Some(key),
        _ => None,
    };
    let here = match execution.outcome {
        Outcome::Done => None,
        Outcome::Failed(REFUSED) | Outcome::Skipped(_) => before.here,
        Outcome::Failed(code) if ends_connection(code) => None,
        Outcome::Failed(_) => own,
    };
    let captured = match execution.captured.sqlstate {
        None => None,
        Some(REFUSED) => before.captured,
        Some(_) => own,
    };
    FailedTransaction { here, captured }
}

impl RowsDifference {
    fn add(&mut self, there: u64, here: u64) {
        if here > there {
            self.more += 1;
            self.rows_more = self.rows_more.saturating_add(here - there);
        } else {
            self.fewer += 1;
            self.rows_fewer = self.rows_fewer.saturating_add(there - here);
        }
        if here.abs_diff(there) > self.largest_captured.abs_diff(self.largest_replayed) {
            (self.largest_captured, self.largest_replayed) = (there, here);
        }
    }
}
