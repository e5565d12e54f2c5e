//! Where a replay did not do what the capture did.
//!
//! Every statement of a run falls into exactly one class ([`Divergence`] has a count for each), and
//! what differs is kept by statement and error, with its first place.
//!
//! Two rules need a word. *Success*: a source that names every failure (a log) says by its silence
//! that a statement succeeded; of other sources it is known where they gave a duration or rows. *What
//! only follows*: a server refuses every statement of a transaction that has failed (25P02). Where the
//! transaction failed in one of the two only, its refused statements are no differences of their own:
//! they are counted with the one that broke it.

use std::collections::{BTreeMap, HashMap};

use run::{Execution, Outcome, Place, RunInfo, RunStatus, SkipReason, StatementKind};
use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::{Sqlstate, StatementText};

use crate::explanation::explanation;
use workload::{Literals, redact_message};

/// `in_failed_sql_transaction`.
const REFUSED: Sqlstate = Sqlstate(*b"25P02");

/// The server ended the session: `admin_shutdown`, `crash_shutdown`, `cannot_connect_now`,
/// `database_dropped`, `idle_session_timeout`, `idle_in_transaction_session_timeout`.
const ENDED: [&[u8; 5]; 6] = [b"57P01", b"57P02", b"57P03", b"57P04", b"57P05", b"25P03"];

/// Whether this error comes with the end of the connection: class 08, but for 08P01, which a server
/// also gives for a Bind with too few parameters and goes on.
fn ends_connection(code: Sqlstate) -> bool {
    ENDED.contains(&&code.0) || code.0.starts_with(b"08") && &code.0 != b"08P01"
}

/// How a statement differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// The connection was lost under it.
    Lost,
    /// It failed here only.
    ErrorNew,
    /// It failed both times, with different errors.
    ErrorOther,
    /// It was done both times, with different numbers of rows.
    Rows,
    /// It was done both times, with as many rows, and others.
    Values,
    /// It failed in the capture only.
    ErrorGone,
}

/// Whether a run did what its capture did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DivergenceVerdict {
    /// All that could be compared is the same.
    Same,
    /// Something differs.
    Differs,
    /// Nothing could be compared.
    #[default]
    Unknown,
}

/// A run compared with its capture. The counts add up:
/// `same` + `lost` + `errors_new` + `errors_other` + `rows_differ` + `values_differ` + `errors_gone` +
/// `following` + `following_gone` + `unknown` + `lost_unsent` + `skipped` = `statements`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Divergence {
    /// The verdict.
    pub verdict: DivergenceVerdict,
    /// Statements in the run, with those that a stopped replay did not come to.
    pub statements: u64,
    /// As in the capture, as far as it knew: done both times, with the same rows where those are
    /// known; or failed both times with the same error.
    pub same: u64,
    /// Of `same`, those that failed both times.
    pub same_failed: u64,
    /// Statements under which the connection was lost.
    pub lost: u64,
    /// Statements that failed here only.
    pub errors_new: u64,
    /// Statements that failed both times, with different errors.
    pub errors_other: u64,
    /// Statements done both times, with different numbers of rows.
    pub rows_differ: u64,
    /// Statements done both times, with as many rows, and others.
    pub values_differ: u64,
    /// Statements that failed in the capture only.
    pub errors_gone: u64,
    /// Refused, because an earlier statement of the transaction had failed here otherwise than in
    /// the capture.
    pub following: u64,
    /// Done, and refused in the capture, because an earlier statement of the transaction had failed
    /// there otherwise than here.
    pub following_gone: u64,
    /// Done here, and nothing says what became of it in the capture; or failed here, likewise.
    pub unknown: u64,
    /// Statements that were never sent, since their session had no connection or their transaction went
    /// with one.
    pub lost_unsent: u64,
    /// Statements that were never sent for other reasons.
    pub skipped: u64,
    /// Statements of which both numbers of rows are known.
    pub rows_compared: u64,
    /// Statements of which both checksums of the rows are known.
    pub digests_compared: u64,
    /// What differs: by kind, then by count, the greatest first.
    pub differences: Vec<Difference>,
    /// Errors that may not be the server's doing, the most frequent first.
    pub explanations: Vec<ErrorExplanation>,
}

/// An error that may not be the server's doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorExplanation {
    /// The error.
    pub sqlstate: Sqlstate,
    /// Number of statements that differ by it.
    pub count: u64,
    /// Where it comes from, and what to do.
    pub explanation: &'static str,
}

/// One way in which a statement's executions differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// The kind of difference.
    pub kind: DifferenceKind,
    /// The statement.
    pub fingerprint: Option<Fingerprint>,
    /// Its normalised SQL, where the run knows it.
    pub sql: Option<String>,
    /// The error here; `None` where it was done.
    pub sqlstate: Option<Sqlstate>,
    /// The error in the capture; `None` where it was done.
    pub captured_sqlstate: Option<Sqlstate>,
    /// How often.
    pub count: u64,
    /// Statements of the same transactions that only follow from it.
    pub following: u64,
    /// By how much the rows differ, where they do.
    pub rows: Option<RowsDifference>,
    /// The first, in the order in which things were done.
    pub first: FirstSeen,
}

/// Differences in numbers of rows, summed over a statement's executions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RowsDifference {
    /// Executions with more rows here.
    pub more: u64,
    /// Executions with fewer.
    pub fewer: u64,
    /// Rows that came here in addition, over those with more.
    pub rows_more: u64,
    /// Rows that were missing here, over those with fewer.
    pub rows_fewer: u64,
    /// Rows of the execution that differs most, in the capture.
    pub largest_captured: u64,
    /// Rows of the same execution, here.
    pub largest_replayed: u64,
}

/// The first execution that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FirstSeen {
    /// The session's number in the run.
    pub session: u64,
    /// The event's sequence within the session.
    pub sequence: u64,
    /// The source that the capture read it from, as the user named it; `null` if unknown.
    pub source: Option<String>,
    /// The line in it, from 1.
    pub line: Option<u64>,
    /// Where the capture read it, until the source is named.
    #[serde(skip)]
    place: Option<Place>,
    /// The server's message here, redacted unless literals were asked for.
    pub message: Option<String>,
}

impl FirstSeen {
    pub(crate) fn of(execution: &Execution) -> Self {
        Self {
            session: execution.session,
            sequence: execution.sequence,
            source: None,
            line: execution.captured.place.map(|place| place.line),
            place: execution.captured.place,
            message: execution.message.clone(),
        }
    }

    fn finish(&mut self, sqlstate: Option<Sqlstate>, info: &RunInfo, literals: Literals) {
        let source = |place: Place| info.workload.sources.get(place.source as usize).cloned();
        self.source = self.place.and_then(source);
        self.message = sqlstate
            .zip(self.message.take())
            .map(|(sqlstate, message)| redact_message(sqlstate, &message, literals));
    }
}

impl Divergence {
    /// Statements that did otherwise than in the capture, with those that only follow.
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

type Key = (
    DifferenceKind,
    Option<Fingerprint>,
    Option<Sqlstate>,
    Option<Sqlstate>,
);

/// What became of one statement beside its capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Same,
    Unknown,
    Skipped(SkipReason),
    Differs(Key),
    /// It follows from what broke the transaction here.
    Follows(Key),
    /// It was refused in the capture, and follows from what broke the transaction there.
    FollowsGone(Key),
}

/// What broke a session's open transaction, where that is a difference: here, and in the capture.
#[derive(Debug, Clone, Copy, Default)]
struct Broken {
    here: Option<Key>,
    captured: Option<Key>,
}

/// Takes a run's executions one by one. Holds what differs, by statement and error, and two keys for
/// each live session whose transaction is broken.
#[derive(Debug)]
pub struct DivergenceFinder {
    failures_named: bool,
    found: Divergence,
    differences: HashMap<Key, Difference>,
    broken: HashMap<u64, Broken>,
}

impl DivergenceFinder {
    /// `failures_named`: the source of the capture names every failure, so that its silence is
    /// success ([`run::WorkloadRef::failures_named`]).
    pub fn new(failures_named: bool) -> Self {
        Self {
            failures_named,
            found: Divergence::default(),
            differences: HashMap::new(),
            broken: HashMap::new(),
        }
    }

    /// Takes one execution; those of a session in their order.
    pub fn add(&mut self, execution: &Execution) {
        if matches!(
            execution.kind,
            StatementKind::Connect | StatementKind::Disconnect
        ) {
            self.broken.remove(&execution.session);
        }
        if !execution.is_statement() {
            return;
        }
        let before = self.broken.get(&execution.session).copied();
        let before = before.unwrap_or_default();
        let class = self.class(execution, before);
        self.count(execution, class);
        let after = broken_after(execution, class, before);
        if after.here.is_some() || after.captured.is_some() {
            self.broken.insert(execution.session, after);
        } else {
            self.broken.remove(&execution.session);
        }
    }

    fn class(&self, execution: &Execution, broken: Broken) -> Class {
        let captured = &execution.captured;
        let succeeded =
            self.failures_named || captured.duration_us.is_some() || captured.rows.is_some();
        let differs = |kind, here| {
            let key = (kind, execution.fingerprint, here, captured.sqlstate);
            Class::Differs(key)
        };
        match (execution.outcome, captured.sqlstate) {
            (Outcome::Skipped(reason), _) => Class::Skipped(reason),
            (Outcome::Done, None) => match captured.rows {
                Some(rows) if rows != execution.rows => differs(DifferenceKind::Rows, None),
                _ if execution.has_other_values() => differs(DifferenceKind::Values, None),
                None if !succeeded => Class::Unknown,
                _ => Class::Same,
            },
            (Outcome::Done, Some(there)) => match broken.captured {
                Some(breaker) if there == REFUSED => Class::FollowsGone(breaker),
                _ => differs(DifferenceKind::ErrorGone, None),
            },
            (Outcome::Failed(here), Some(there)) if matches(here, there) => Class::Same,
            (Outcome::Failed(here), there) => match (broken.here, there) {
                (Some(breaker), _) if here == REFUSED => Class::Follows(breaker),
                _ if ends_connection(here) => differs(DifferenceKind::Lost, Some(here)),
                (_, Some(_)) => differs(DifferenceKind::ErrorOther, Some(here)),
                (_, None) if succeeded => differs(DifferenceKind::ErrorNew, Some(here)),
                (_, None) => Class::Unknown,
            },
        }
    }

    fn count(&mut self, execution: &Execution, class: Class) {
        let found = &mut self.found;
        found.statements += 1;
        let is_done = execution.outcome == Outcome::Done && execution.captured.sqlstate.is_none();
        found.rows_compared += u64::from(is_done && execution.captured.rows.is_some());
        let has_digests = execution.digest.is_some() && execution.captured.digest.is_some();
        found.digests_compared += u64::from(is_done && has_digests);
        match class {
            Class::Same => {
                found.same += 1;
                found.same_failed += u64::from(execution.outcome != Outcome::Done);
            }
            Class::Unknown => found.unknown += 1,
            Class::Skipped(SkipReason::NoConnection | SkipReason::TransactionLost) => {
                found.lost_unsent += 1;
            }
            Class::Skipped(_) => found.skipped += 1,
            Class::Follows(key) => {
                found.following += 1;
                self.follow(key);
            }
            Class::FollowsGone(key) => {
                found.following_gone += 1;
                self.follow(key);
            }
            Class::Differs(key) => {
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
                    first: FirstSeen::of(execution),
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

    /// Returns what was found. `statements` are the run's texts; the iterator's first error is handed back.
    pub fn finish<E>(
        self,
        statements: impl IntoIterator<Item = Result<StatementText, E>>,
        info: &RunInfo,
        literals: Literals,
    ) -> Result<Divergence, E> {
        let mut found = self.found;
        // What a stopped replay had not come to has no rows in the run, only its count.
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

/// Explains the errors that came here otherwise than in the capture.
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

/// Whether both are the same error, as far as is known. Two ends of a connection are: who is told
/// what depends on who looks first.
fn matches(here: Sqlstate, there: Sqlstate) -> bool {
    here == there || there == Sqlstate::UNKNOWN || ends_connection(here) && ends_connection(there)
}

/// What has broken the transaction once this statement is over. A transaction that is broken lets
/// nothing be done but its end (or a return to a savepoint), so that what is done ends the break.
fn broken_after(execution: &Execution, class: Class, before: Broken) -> Broken {
    let own = match class {
        Class::Differs(key) => Some(key),
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
    Broken { here, captured }
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
