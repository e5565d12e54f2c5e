//! Errors that one run has and the other has not.
//!
//! An error that neither the run before nor the capture ever had is a change by itself, however
//! rare. For all others, and for those that depend on who comes first (SQLSTATE class 40:
//! deadlocks and serialisation failures come and go between any two runs), the count must have
//! grown by more than chance: given `n` errors in both runs together, each falls into the run
//! after with the probability of that run's share of the calls (the conditional test for two
//! Poisson rates; Przyborowski & Wilenski, Biometrika 31, 1940). Its tail is taken from above by
//! Chernoff's bound `exp(−n · KL(k/n ‖ p))` (1952), which is exact where one count is 0.

use std::collections::BTreeSet;

use workload::{Fingerprint, Sqlstate};

use crate::compare::account_of;
use crate::profile::RunProfile;
use crate::tracked::{Account, Failures};

/// Counts that chance makes this rarely are a change.
pub const ERROR_TEST_LEVEL: f64 = 0.01;

/// How an error's count changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorDirection {
    /// Never before, nor in the capture.
    New,
    /// More than chance explains.
    More,
    /// Fewer than chance explains.
    Fewer,
    /// Never after.
    Gone,
}

impl ErrorDirection {
    /// The name under which it is written.
    pub fn name(self) -> &'static str {
        match self {
            ErrorDirection::New => "new",
            ErrorDirection::More => "more",
            ErrorDirection::Fewer => "fewer",
            ErrorDirection::Gone => "gone",
        }
    }
}

/// An error of one statement, or of connecting, whose count changed.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorChange {
    /// The statement; `None` for connecting.
    pub fingerprint: Option<Fingerprint>,
    /// The statement's normalised SQL, where the runs know it.
    pub sql: Option<String>,
    /// The error.
    pub sqlstate: Sqlstate,
    /// How its count changed.
    pub direction: ErrorDirection,
    /// How often it came before.
    pub before: u64,
    /// How often it came after.
    pub after: u64,
    /// How often it, or an error whose code the source hid, was captured.
    pub captured: u64,
    /// The server's first message, of the run after where there is one. It may hold literals.
    pub message: Option<String>,
    /// It is a reason to call the change a regression.
    pub regression: bool,
}

/// All changed errors: regressions first, then those with the greatest count after. Counts of several
/// runs of a side are sums.
pub(crate) fn changes(before: &[RunProfile], after: &[RunProfile]) -> Vec<ErrorChange> {
    let mut found = Vec::new();
    let connects = |side: &[RunProfile]| account_of(side.iter().map(|run| &run.connects));
    of_one(None, &connects(before), &connects(after), &mut found);
    let fingerprints: BTreeSet<Fingerprint> = before
        .iter()
        .chain(after)
        .flat_map(|run| run.statements.keys().copied())
        .collect();
    for fingerprint in fingerprints {
        let of = |side: &[RunProfile]| {
            account_of(
                side.iter()
                    .filter_map(|run| run.statements.get(&fingerprint)),
            )
        };
        let from = found.len();
        of_one(Some(fingerprint), &of(before), &of(after), &mut found);
        for change in &mut found[from..] {
            let mut texts = after.iter().chain(before);
            let text = texts.find_map(|run| run.text(fingerprint));
            change.sql = text.map(|text| text.sql.clone());
        }
    }
    found.sort_by(|a, b| {
        (b.regression, b.after, b.before, a.fingerprint, a.sqlstate).cmp(&(
            a.regression,
            a.after,
            a.before,
            b.fingerprint,
            b.sqlstate,
        ))
    });
    found
}

fn of_one(
    fingerprint: Option<Fingerprint>,
    before: &Account,
    after: &Account,
    found: &mut Vec<ErrorChange>,
) {
    let mut codes: Vec<Sqlstate> = before
        .errors
        .keys()
        .chain(after.errors.keys())
        .copied()
        .collect();
    codes.sort_unstable();
    codes.dedup();
    for sqlstate in codes {
        let count = |side: &Account| {
            side.errors
                .get(&sqlstate)
                .map_or(0, |failures| failures.count)
        };
        let counts = Counts {
            before: count(before),
            after: count(after),
            // Each run carries what was captured; it is set against the runs before.
            captured: if before.calls() + before.skipped > 0 {
                before.captured_as(sqlstate)
            } else {
                after.captured_as(sqlstate)
            },
            calls_before: before.calls(),
            calls_after: after.calls(),
        };
        let Some((direction, regression)) = counts.judge(sqlstate) else {
            continue;
        };
        let message = |side: &Account| {
            let failures: &Failures = side.errors.get(&sqlstate)?;
            failures.message.clone()
        };
        found.push(ErrorChange {
            fingerprint,
            sql: None,
            sqlstate,
            direction,
            before: counts.before,
            after: counts.after,
            captured: counts.captured,
            message: message(after).or_else(|| message(before)),
            regression,
        });
    }
}

#[derive(Debug, Clone, Copy)]
struct Counts {
    before: u64,
    after: u64,
    captured: u64,
    calls_before: u64,
    calls_after: u64,
}

impl Counts {
    /// Which change it is, and whether it is a regression; `None` for none.
    fn judge(self, sqlstate: Sqlstate) -> Option<(ErrorDirection, bool)> {
        // What the capture had, the run after may have too.
        let known = self.before.max(self.captured);
        let more = improbable(self.after, known, self.calls_after, self.calls_before);
        let fewer = improbable(self.before, self.after, self.calls_before, self.calls_after);
        let by_timing = sqlstate.as_str().starts_with("40");
        if known == 0 && self.after > 0 {
            Some((ErrorDirection::New, more || !by_timing))
        } else if more {
            Some((ErrorDirection::More, true))
        } else if self.before > 0 && self.after == 0 {
            Some((ErrorDirection::Gone, false))
        } else {
            fewer.then_some((ErrorDirection::Fewer, false))
        }
    }
}

/// Whether `many` among `calls_many` is more than chance makes of `few` among `calls_few`.
fn improbable(many: u64, few: u64, calls_many: u64, calls_few: u64) -> bool {
    let all = (many + few) as f64;
    let calls = (calls_many + calls_few) as f64;
    if many == 0 || calls_few == 0 {
        return false;
    }
    let expected = calls_many as f64 / calls;
    let share = many as f64 / all;
    if share <= expected {
        return false;
    }
    let mut divergence = share * (share / expected).ln();
    if few > 0 {
        divergence += (1.0 - share) * ((1.0 - share) / (1.0 - expected)).ln();
    }
    (-all * divergence).exp() < ERROR_TEST_LEVEL
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(
        code: &str,
        before: u64,
        after: u64,
        captured: u64,
    ) -> Option<(ErrorDirection, bool)> {
        let counts = Counts {
            before,
            after,
            captured,
            calls_before: 1_000,
            calls_after: 1_000,
        };
        counts.judge(Sqlstate::parse(code).unwrap())
    }

    #[test]
    fn an_error_never_seen_is_a_regression_even_once() {
        assert_eq!(judged("42P01", 0, 1, 0), Some((ErrorDirection::New, true)));
        assert_eq!(judged("40P01", 0, 1, 0), Some((ErrorDirection::New, false)));
        assert_eq!(judged("40P01", 0, 9, 0), Some((ErrorDirection::New, true)));
    }

    #[test]
    fn an_error_that_was_there_must_grow_by_more_than_chance() {
        assert_eq!(judged("23505", 100, 104, 0), None);
        assert_eq!(
            judged("23505", 100, 170, 0),
            Some((ErrorDirection::More, true))
        );
        assert_eq!(judged("23505", 0, 40, 38), None);
        assert_eq!(
            judged("23505", 170, 100, 0),
            Some((ErrorDirection::Fewer, false))
        );
        assert_eq!(
            judged("23505", 3, 0, 0),
            Some((ErrorDirection::Gone, false))
        );
        assert_eq!(judged("23505", 5, 5, 5), None);
    }

    #[test]
    fn fewer_calls_before_explain_more_errors_after() {
        assert!(!improbable(20, 10, 2_000, 1_000));
        assert!(improbable(40, 10, 1_000, 1_000));
        // With a count of 0 the bound is exact: 2⁻⁷ is below the level, 2⁻⁶ is not.
        assert!(improbable(7, 0, 1, 1));
        assert!(!improbable(6, 0, 1, 1));
    }
}
