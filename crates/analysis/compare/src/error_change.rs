//! Errors whose counts changed between two sides.
//!
//! An error that neither the runs before nor the capture had is a change, however rare. Errors that can come and go
//! between two runs of one server, and errors that were there before, are changes only if their count grew by more than
//! chance explains ([`ErrorCounts`]). Racy errors of a statement are also tested together, since one can take the
//! place of another: the row of a foreign key is missing, or its own key is there already. The errors of
//! all statements are tested together at the false discovery rate [`ERROR_TEST_LEVEL`]
//! ([`statistics::false_discovery_rate`]). With several runs on a side, each run after must also
//! have more errors than each run before.
//!
//! Failures that follow from an earlier one are counted there ([`crate::root_error`]). An error that the runs before did
//! not have is counted itself if its root was as frequent before.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::Sqlstate;

use crate::error_count::{Counts, ErrorCounts, ErrorDirection, dispersion, is_racy};
use crate::error_key::ErrorKey;
use crate::error_origin::{ErrorOrigin, origin};
use crate::run_stats::RunStats;
use crate::statement_stats::{FailureCount, OutcomeCounts};
use crate::targets::TargetsComparison;
use statistics::false_discovery_rate;
use workload::{Literals, redact_message};

/// Maximum expected share of chance among the errors called more or fewer.
pub const ERROR_TEST_LEVEL: f64 = 0.01;

/// Error of a statement, or of connecting, whose count changed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ErrorChange {
    /// The statement; `None` for connecting.
    pub fingerprint: Option<Fingerprint>,
    /// Normalised SQL of the statement, if the runs have it.
    pub sql: Option<String>,
    /// The error.
    pub sqlstate: Sqlstate,
    /// Direction of the change.
    pub direction: ErrorDirection,
    /// Number of occurrences before, without those that followed from other errors.
    pub before: u64,
    /// Number of occurrences after, without those that followed from other errors.
    pub after: u64,
    /// Number of captured occurrences, including errors whose code the source hid.
    pub captured: u64,
    /// Number of failures before that followed from this error.
    pub following_before: u64,
    /// Number of failures after that followed from this error.
    pub following_after: u64,
    /// The server's first message, redacted unless literals were requested; from the runs after if
    /// they have one.
    pub message: Option<String>,
    /// Origin of the error.
    pub origin: ErrorOrigin,
    /// Whether it makes the change a regression.
    pub regression: bool,
    /// Whether the counts alone make it a regression.
    #[serde(skip)]
    pub(crate) proven: bool,
}

impl ErrorChange {
    /// Whether it proves that the targets hold rows or sequences of different moments.
    pub(crate) fn proves_another_moment(&self) -> bool {
        self.proven && self.origin == ErrorOrigin::OtherMoment
    }
}

/// Finds the origins of errors by the facts about the targets, and judges with them.
pub(crate) fn judge_origins(errors: &mut [ErrorChange], targets: Option<&TargetsComparison>) {
    for change in errors.iter_mut().filter(|one| one.direction.is_worse()) {
        change.origin = origin(change.sqlstate, change.message.as_deref(), targets);
        change.regression = match change.origin {
            ErrorOrigin::NewConstraint => true,
            ErrorOrigin::OtherMoment => false,
            ErrorOrigin::Unknown | ErrorOrigin::OtherMomentOrConstraint => change.proven,
        };
    }
    sort(errors);
}

/// Returns all changed errors: regressions first, then by descending count after. Counts are summed
/// over the runs of a side.
pub(crate) fn changes(
    before: &[RunStats],
    after: &[RunStats],
    literals: Literals,
) -> Vec<ErrorChange> {
    let connects = |run: &RunStats| run.connects.outcomes.clone();
    let mut all = Vec::new();
    StatementOutcomes::new((before, after), &connects).add_changes(None, &mut all);
    let fingerprints: BTreeSet<Fingerprint> = before
        .iter()
        .chain(after)
        .flat_map(|run| run.statements.keys().copied())
        .collect();
    for fingerprint in fingerprints {
        let of = |run: &RunStats| {
            let stats = run.statements.get(&fingerprint);
            let mut outcomes = stats
                .map(|stats| stats.outcomes.clone())
                .unwrap_or_default();
            count_unexplained(&mut outcomes, fingerprint, before, after);
            outcomes
        };
        StatementOutcomes::new((before, after), &of).add_changes(Some(fingerprint), &mut all);
    }
    // More and fewer are two families of tests, each over every error.
    let level = |p: fn(&ErrorCounts) -> f64| {
        let p_values: Vec<f64> = all.iter().map(|(_, counts)| p(counts)).collect();
        false_discovery_rate::rejection_level(&p_values, (p_values.len(), 0), ERROR_TEST_LEVEL)
            .unwrap_or(0.0)
    };
    let levels = (level(ErrorCounts::more), level(ErrorCounts::fewer));
    let mut found: Vec<ErrorChange> = all
        .into_iter()
        .filter_map(|(mut change, counts)| {
            (change.direction, change.proven) = counts.judge(levels)?;
            change.regression = change.proven;
            let mut texts = after.iter().chain(before);
            let text = texts.find_map(|run| run.text(change.fingerprint?));
            change.sql = text.map(|text| text.sql.clone());
            Some(change)
        })
        .collect();
    sort(&mut found);
    for change in &mut found {
        let message = change.message.take();
        change.message = message.map(|text| redact_message(change.sqlstate, &text, literals));
    }
    found
}

/// Counts consequences of errors that were as frequent before as errors of their own, if the runs before did not have
/// them. A refused statement of a failed transaction (25P02) is always a consequence.
fn count_unexplained(
    outcomes: &mut OutcomeCounts,
    fingerprint: Fingerprint,
    before: &[RunStats],
    after: &[RunStats],
) {
    let find = |run: &RunStats, (fingerprint, code): ErrorKey, of: fn(&FailureCount) -> u64| {
        let statement = run.statements.get(&fingerprint);
        let failures = statement.and_then(|one| one.outcomes.errors.get(&code));
        failures.map_or(0, of)
    };
    let mean = |side: &[RunStats], root: ErrorKey| {
        let roots = side.iter().map(|run| find(run, root, FailureCount::roots));
        roots.sum::<u64>() as f64 / side.len().max(1) as f64
    };
    for (code, failures) in &mut outcomes.errors {
        let key = (fingerprint, *code);
        let is_known = || before.iter().any(|run| find(run, key, |one| one.count) > 0);
        if failures.causes.is_empty() || code.as_str() == "25P02" || is_known() {
            continue;
        }
        for (&root, count) in &failures.causes {
            if mean(before, root) >= mean(after, root) {
                failures.consequences -= count;
            }
        }
    }
}

/// Sorts errors: regressions first, then by descending count after.
fn sort(errors: &mut [ErrorChange]) {
    errors.sort_by(|a, b| {
        (b.regression, b.after, b.before, a.fingerprint, a.sqlstate).cmp(&(
            a.regression,
            a.after,
            a.before,
            b.fingerprint,
            b.sqlstate,
        ))
    });
}

/// Outcomes of one statement, or of connecting, on both sides.
struct StatementOutcomes {
    each_before: Vec<OutcomeCounts>,
    each_after: Vec<OutcomeCounts>,
    before: OutcomeCounts,
    after: OutcomeCounts,
}

impl StatementOutcomes {
    fn new(
        (before, after): (&[RunStats], &[RunStats]),
        outcomes: &dyn Fn(&RunStats) -> OutcomeCounts,
    ) -> Self {
        let outcomes_of =
            |side: &[RunStats]| side.iter().map(outcomes).collect::<Vec<OutcomeCounts>>();
        let sum = |side: &[OutcomeCounts]| {
            let mut sum = OutcomeCounts::default();
            for outcomes in side {
                sum.merge(outcomes);
            }
            sum
        };
        let (each_before, each_after) = (outcomes_of(before), outcomes_of(after));
        Self {
            before: sum(&each_before),
            after: sum(&each_after),
            each_before,
            each_after,
        }
    }

    /// Adds the counts of every error.
    fn add_changes(
        &self,
        fingerprint: Option<Fingerprint>,
        all: &mut Vec<(ErrorChange, ErrorCounts)>,
    ) {
        let (before, after) = (&self.before.errors, &self.after.errors);
        let codes: BTreeSet<Sqlstate> = before.keys().chain(after.keys()).copied().collect();
        let captured = self.captured().captured_errors.keys();
        let racy: BTreeSet<Sqlstate> = codes
            .iter()
            .chain(captured)
            .copied()
            .filter(|code| is_racy(*code))
            .collect();
        for &sqlstate in &codes {
            let own = self.counts(&BTreeSet::from([sqlstate]));
            if own.before + own.after == 0 {
                continue;
            }
            let pooled = match is_racy(sqlstate) {
                true => self.counts(&racy),
                false => own,
            };
            let following =
                |side: &OutcomeCounts| side.errors.get(&sqlstate).map_or(0, |one| one.following);
            let message = |side: &OutcomeCounts| side.errors.get(&sqlstate)?.message.clone();
            let change = ErrorChange {
                fingerprint,
                sql: None,
                sqlstate,
                direction: ErrorDirection::New,
                before: own.before,
                after: own.after,
                captured: own.captured,
                following_before: following(&self.before),
                following_after: following(&self.after),
                message: message(&self.after).or_else(|| message(&self.before)),
                origin: ErrorOrigin::Unknown,
                regression: false,
                proven: false,
            };
            let counts = ErrorCounts {
                sqlstate,
                own,
                pooled,
            };
            all.push((change, counts));
        }
    }

    /// Returns the side with the captured errors. Each run carries them; they are compared with the runs before.
    fn captured(&self) -> &OutcomeCounts {
        match self.before.calls() + self.before.skipped > 0 {
            true => &self.before,
            false => &self.after,
        }
    }

    /// Returns the counts of these errors together.
    fn counts(&self, codes: &BTreeSet<Sqlstate>) -> Counts {
        let sum = |side: &OutcomeCounts, of: fn(&FailureCount) -> u64| -> u64 {
            let counted = codes.iter().filter_map(|code| side.errors.get(code));
            counted.map(of).sum()
        };
        let each = |side: &[OutcomeCounts]| -> Vec<(u64, u64)> {
            let count = |one: &OutcomeCounts| (sum(one, FailureCount::roots), one.calls());
            side.iter().map(count).collect()
        };
        let (each_before, each_after) = (each(&self.each_before), each(&self.each_after));
        Counts {
            before: sum(&self.before, FailureCount::roots),
            after: sum(&self.after, FailureCount::roots),
            after_in_stalls: sum(&self.after, |one| one.in_stalls.min(one.roots())),
            captured: self.captured().captured_as(codes),
            calls_before: self.before.calls(),
            calls_after: self.after.calls(),
            apart: is_separated(&each_before, &each_after),
            dispersion: dispersion([&each_before, &each_after]),
        }
    }
}

/// Whether the rates (counts and calls) of one side are all on one side of those of the other.
fn is_separated(before: &[(u64, u64)], after: &[(u64, u64)]) -> bool {
    let rates = |runs: &[(u64, u64)]| -> Vec<f64> {
        let rate = |(count, calls): &(u64, u64)| *count as f64 / (*calls).max(1) as f64;
        runs.iter().map(rate).collect()
    };
    let least = |rates: &[f64]| rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
    let (before, after) = (rates(before), rates(after));
    least(&after) > most(&before) || least(&before) > most(&after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_within_a_side_are_no_change() {
        let rates = |of: &[u64]| of.iter().map(|one| (*one, 100)).collect::<Vec<_>>();
        let separated = |before: &[u64], after: &[u64]| is_separated(&rates(before), &rates(after));
        assert!(separated(&[10, 20], &[30, 40]));
        assert!(separated(&[30, 40], &[10, 20]));
        assert!(!separated(&[10, 35], &[30, 40]));
        assert!(!separated(&[20], &[20]));
    }
}
