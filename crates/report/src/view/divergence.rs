//! Where a replay did not do what the capture did.

use std::collections::BTreeMap;

use analyse::{Difference, DifferenceKind, Divergence, FirstSeen};
use run::{RunInfo, RunStatus, SkipReason};
use schemars::JsonSchema;
use serde::Serialize;
use workload::Sqlstate;

use crate::view::explanation::explanation;
use analyse::{Literals, redact_message};

/// What a run did beside what its capture did. `same` + `lost` + `errors_new` + `errors_other` +
/// `rows_differ` + `values_differ` + `errors_gone` + `following` + `following_gone` + `unknown` + `lost_unsent` +
/// `skipped` = `statements`.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DivergenceView {
    /// `same`, `differs`, or `unknown` where nothing could be set beside the capture.
    pub verdict: &'static str,
    /// Statements in the run.
    pub statements: u64,
    /// Done both times, with the same rows where those are known; or failed both times with the
    /// same error.
    pub same: u64,
    /// Of `same`, those that failed both times.
    pub same_failed: u64,
    /// The connection was lost under them.
    pub lost: u64,
    /// Failed here only.
    pub errors_new: u64,
    /// Failed both times, with different errors.
    pub errors_other: u64,
    /// Done both times, with different numbers of rows.
    pub rows_differ: u64,
    /// Done both times, with as many rows, and others.
    pub values_differ: u64,
    /// Failed in the capture only.
    pub errors_gone: u64,
    /// Refused (25P02) because of an earlier difference in their transaction.
    pub following: u64,
    /// Done, and refused in the capture (25P02) because of an earlier difference.
    pub following_gone: u64,
    /// Nothing says what became of them in the capture.
    pub unknown: u64,
    /// Never sent, since their session had no connection or their transaction went with one.
    pub lost_unsent: u64,
    /// Never sent for other reasons.
    pub skipped: u64,
    /// Statements of which both numbers of rows are known.
    pub rows_compared: u64,
    /// Statements of which both checksums of the rows are known (`--digest rows`).
    pub digests_compared: u64,
    /// What differs: by kind, then by count, the greatest first.
    pub differences: Vec<DifferenceView>,
    /// What may not be the server's doing: in words, with what to do.
    pub explanations: Vec<ExplainedView>,
}

/// One way in which a statement's executions differ.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DifferenceView {
    /// `lost`, `error_new`, `error_other`, `rows`, `values` or `error_gone`.
    pub kind: &'static str,
    /// 16 hexadecimal digits; `null` where it has none.
    pub fingerprint: Option<String>,
    /// Normalised SQL; empty where unknown.
    pub sql: String,
    /// The error here.
    pub sqlstate: Option<String>,
    /// The error in the capture.
    pub captured_sqlstate: Option<String>,
    /// How often.
    pub count: u64,
    /// Statements of the same transactions that only follow from it.
    pub following: u64,
    /// By how much the rows differ, where they do.
    pub rows: Option<RowsDifferenceView>,
    /// The first one.
    pub first: FirstSeenView,
}

/// Differences in numbers of rows, summed over a statement's executions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RowsDifferenceView {
    /// Executions with more rows here.
    pub more: u64,
    /// Executions with fewer.
    pub fewer: u64,
    /// Rows that came here in addition, over those with more.
    pub rows_more: u64,
    /// Rows that were missing here, over those with fewer.
    pub rows_fewer: u64,
    /// Of the execution that differs most, in the capture.
    pub largest_captured: u64,
    /// Of the same, here.
    pub largest_here: u64,
}

/// The first execution that differs.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct FirstSeenView {
    /// The session's number in the run.
    pub session: u64,
    /// The event's sequence in the session, from 0.
    pub sequence: u64,
    /// The source that the capture read it from, as the user named it; `null` where unknown.
    pub source: Option<String>,
    /// The line in it, from 1.
    pub line: Option<u64>,
    /// The server's message here; empty where there is none.
    pub message: String,
}

/// An error that may not be the server's doing.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ExplainedView {
    /// The error.
    pub sqlstate: String,
    /// How many statements differ by it.
    pub count: u64,
    /// Where it comes from, and what to do.
    pub explanation: &'static str,
}

impl DivergenceView {
    /// The view of what was found in a run with this manifest.
    pub fn new(found: &Divergence, info: &RunInfo, literals: Literals) -> Self {
        // What a stopped replay had not come to has no rows in the run, only its count.
        let unreached = match info.status {
            RunStatus::Stopped => info.statements.saturating_sub(found.statements),
            RunStatus::Complete | RunStatus::Recovered => 0,
        };
        let lost = [SkipReason::NoConnection, SkipReason::TransactionLost];
        let of = |reason| found.skipped.get(&reason).copied().unwrap_or_default();
        let lost_unsent: u64 = lost.map(of).into_iter().sum();
        Self {
            verdict: match (found.differing(), found.same) {
                (0, 0) => "unknown",
                (0, _) => "same",
                _ => "differs",
            },
            statements: found.statements + unreached,
            same: found.same,
            same_failed: found.same_failed,
            lost: found.lost,
            errors_new: found.errors_new,
            errors_other: found.errors_other,
            rows_differ: found.rows,
            values_differ: found.values,
            errors_gone: found.errors_gone,
            following: found.following,
            following_gone: found.following_gone,
            unknown: found.unknown,
            lost_unsent,
            skipped: found.skipped_total() - lost_unsent + unreached,
            rows_compared: found.rows_compared,
            digests_compared: found.digests_compared,
            differences: found
                .differences
                .iter()
                .map(|one| difference(one, info, literals))
                .collect(),
            explanations: explanations(found, info),
        }
    }
}

fn difference(one: &Difference, info: &RunInfo, literals: Literals) -> DifferenceView {
    let sqlstate = one.sqlstate.map(|code| code.to_string());
    DifferenceView {
        kind: one.kind.name(),
        fingerprint: one.fingerprint.map(|fingerprint| fingerprint.to_string()),
        sql: one.sql.clone().unwrap_or_default(),
        captured_sqlstate: one.captured.map(|code| code.to_string()),
        count: one.count,
        following: one.following,
        rows: one.rows.map(|rows| RowsDifferenceView {
            more: rows.more,
            fewer: rows.fewer,
            rows_more: rows.rows_more,
            rows_fewer: rows.rows_fewer,
            largest_captured: rows.largest.0,
            largest_here: rows.largest.1,
        }),
        first: FirstSeenView::new(&one.first, one.sqlstate, info, literals),
        sqlstate,
    }
}

impl FirstSeenView {
    pub(crate) fn new(
        first: &FirstSeen,
        sqlstate: Option<Sqlstate>,
        info: &RunInfo,
        literals: Literals,
    ) -> Self {
        let source = first.place.and_then(|place| {
            let name = info.workload.sources.get(place.source as usize)?;
            Some(name.clone())
        });
        let message = first.message.as_deref().unwrap_or_default();
        Self {
            session: first.session,
            sequence: first.sequence,
            source,
            line: first.place.map(|place| place.line),
            message: sqlstate.map_or_else(String::new, |sqlstate| {
                redact_message(sqlstate, message, literals)
            }),
        }
    }

    /// `file:line`, or the session and the place in it.
    pub(crate) fn place(&self) -> String {
        match (&self.source, self.line) {
            (Some(source), Some(line)) => format!("{source}:{line}"),
            _ => format!("session {}, event {}", self.session, self.sequence),
        }
    }
}

/// Of the errors that came here otherwise than in the capture, those with an explanation, the most
/// frequent first.
fn explanations(found: &Divergence, info: &RunInfo) -> Vec<ExplainedView> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for one in &found.differences {
        if let (Some(sqlstate), true) = (one.sqlstate, one.kind != DifferenceKind::Rows) {
            *counts.entry(sqlstate.to_string()).or_default() += one.count;
        }
    }
    let mut explained: Vec<ExplainedView> = counts
        .into_iter()
        .filter_map(|(sqlstate, count)| {
            let known = explanation(&sqlstate, |option| info.options.contains_key(option))?;
            Some(ExplainedView {
                sqlstate,
                count,
                explanation: known.text,
            })
        })
        .collect();
    explained.sort_by_key(|one| std::cmp::Reverse(one.count));
    explained
}
