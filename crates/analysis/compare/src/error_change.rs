//! Errors that one run has and the other has not.
//!
//! An error that neither the run before nor the capture ever had is a change by itself, however
//! rare. For all others, and for those that depend on who comes first ([`BY_TIMING`]: deadlocks,
//! time-outs and lost connections come and go between any two runs), the count must have
//! grown by more than chance: given `n` errors in both runs together, each falls into the run
//! after with the probability of that run's share of the calls (the conditional test for two
//! Poisson rates; Przyborowski & Wilenski, Biometrika 31, 1940). Its tail is taken from above by
//! Chernoff's bound `exp(−n · KL(k/n ‖ p))` (1952), which is exact where one count is 0. Of all errors of
//! all statements, those are changes that keep the false discovery rate at [`ERROR_TEST_LEVEL`]
//! ([`statistics::discovery`]). Where a side has several runs, errors come in runs as times do: each run after
//! must have them more often than each run before.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::Sqlstate;

use crate::profile::RunProfile;
use crate::tracked::Account;
use statistics::discovery;
use workload::{Literals, redact_message};

/// Of errors called more or fewer, at most this share is expected to be chance.
pub const ERROR_TEST_LEVEL: f64 = 0.01;

/// Beginnings of the codes of errors that depend on who comes first, or on how busy the server is: lost
/// connections, serialisation failures and deadlocks, too many connections, locks not available, what
/// was cancelled (by a time-out, for one) and the server's going down and coming up.
const BY_TIMING: [&str; 6] = ["08", "40", "53300", "55P03", "57014", "57P"];

/// Direction in which an error's count changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
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
    /// Returns the direction in a word.
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
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
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
    /// The server's first message, redacted unless literals were asked for; of the run after if there
    /// is one.
    pub message: Option<String>,
    /// It is a reason to call the change a regression.
    pub regression: bool,
}

/// All changed errors: regressions first, then those with the greatest count after. Counts of several
/// runs of a side are sums.
pub(crate) fn changes(
    before: &[RunProfile],
    after: &[RunProfile],
    literals: Literals,
) -> Vec<ErrorChange> {
    let connects = |run: &RunProfile| run.connects.account.clone();
    let mut all = Vec::new();
    of_one(None, (before, after), &connects, &mut all);
    let fingerprints: BTreeSet<Fingerprint> = before
        .iter()
        .chain(after)
        .flat_map(|run| run.statements.keys().copied())
        .collect();
    for fingerprint in fingerprints {
        let of = |run: &RunProfile| {
            let tracked = run.statements.get(&fingerprint);
            tracked
                .map(|tracked| tracked.account.clone())
                .unwrap_or_default()
        };
        of_one(Some(fingerprint), (before, after), &of, &mut all);
    }
    // More and fewer are two questions, and each asks about every error.
    let level = |p: fn(&Counts) -> f64| {
        let p_values: Vec<f64> = all.iter().map(|(_, counts)| p(counts)).collect();
        discovery::level(&p_values, (p_values.len(), 0), ERROR_TEST_LEVEL).unwrap_or(0.0)
    };
    let levels = (level(Counts::more), level(Counts::fewer));
    let mut found: Vec<ErrorChange> = all
        .into_iter()
        .filter_map(|(mut change, counts)| {
            (change.direction, change.regression) = counts.judge(change.sqlstate, levels)?;
            let mut texts = after.iter().chain(before);
            let text = texts.find_map(|run| run.text(change.fingerprint?));
            change.sql = text.map(|text| text.sql.clone());
            change.message = change
                .message
                .map(|message| redact_message(change.sqlstate, &message, literals));
            Some(change)
        })
        .collect();
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

/// Every error of one statement, or of connecting, with what is to be judged.
fn of_one(
    fingerprint: Option<Fingerprint>,
    (before, after): (&[RunProfile], &[RunProfile]),
    account: &dyn Fn(&RunProfile) -> Account,
    all: &mut Vec<(ErrorChange, Counts)>,
) {
    let accounts = |side: &[RunProfile]| side.iter().map(account).collect::<Vec<Account>>();
    let (each_before, each_after) = (accounts(before), accounts(after));
    let sum = |side: &[Account]| {
        let mut sum = Account::default();
        for account in side {
            sum.absorb(account);
        }
        sum
    };
    let (before, after) = (sum(&each_before), sum(&each_after));
    let mut codes: Vec<Sqlstate> = before
        .errors
        .keys()
        .chain(after.errors.keys())
        .copied()
        .collect();
    codes.sort_unstable();
    codes.dedup();
    for sqlstate in codes {
        let count = |side: &Account| side.errors.get(&sqlstate).map_or(0, |one| one.count);
        let rates = |side: &[Account]| -> Vec<f64> {
            let rate = |one: &Account| count(one) as f64 / one.calls().max(1) as f64;
            side.iter().map(rate).collect()
        };
        let counts = Counts {
            before: count(&before),
            after: count(&after),
            // Each run carries what was captured; it is set against the runs before.
            captured: if before.calls() + before.skipped > 0 {
                before.captured_as(sqlstate)
            } else {
                after.captured_as(sqlstate)
            },
            calls_before: before.calls(),
            calls_after: after.calls(),
            apart: apart(&rates(&each_before), &rates(&each_after)),
        };
        let message = |side: &Account| side.errors.get(&sqlstate)?.message.clone();
        let change = ErrorChange {
            fingerprint,
            sql: None,
            sqlstate,
            direction: ErrorDirection::New,
            before: counts.before,
            after: counts.after,
            captured: counts.captured,
            message: message(&after).or_else(|| message(&before)),
            regression: false,
        };
        all.push((change, counts));
    }
}

/// Whether all runs of one side lie on one side of all runs of the other.
fn apart(before: &[f64], after: &[f64]) -> bool {
    let least = |rates: &[f64]| rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
    least(after) > most(before) || least(before) > most(after)
}

#[derive(Debug, Clone, Copy)]
struct Counts {
    before: u64,
    after: u64,
    captured: u64,
    calls_before: u64,
    calls_after: u64,
    /// Every run of one side has it more often than every run of the other.
    apart: bool,
}

impl Counts {
    /// What the capture had, the run after may have too.
    fn known(&self) -> u64 {
        self.before.max(self.captured)
    }

    /// How rarely chance makes more of it.
    fn more(&self) -> f64 {
        chance(
            self.after,
            self.known(),
            self.calls_after,
            self.calls_before,
        )
    }

    /// How rarely chance makes less of it.
    fn fewer(&self) -> f64 {
        chance(self.before, self.after, self.calls_before, self.calls_after)
    }

    /// Which change it is, and whether it is a regression; `None` for none. The levels are those up
    /// to which more, and fewer, are no chance.
    fn judge(self, sqlstate: Sqlstate, levels: (f64, f64)) -> Option<(ErrorDirection, bool)> {
        let more = self.more() <= levels.0 && self.apart;
        let fewer = self.fewer() <= levels.1 && self.apart;
        let by_timing = BY_TIMING
            .iter()
            .any(|code| sqlstate.as_str().starts_with(code));
        if self.known() == 0 && self.after > 0 {
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

/// How rarely chance makes `many` among `calls_many`, where there are `few` among `calls_few`; 1 where
/// that is no more than expected, or nothing is known.
fn chance(many: u64, few: u64, calls_many: u64, calls_few: u64) -> f64 {
    let all = (many + few) as f64;
    let calls = (calls_many + calls_few) as f64;
    if many == 0 || calls_few == 0 {
        return 1.0;
    }
    let expected = calls_many as f64 / calls;
    let share = many as f64 / all;
    if share <= expected {
        return 1.0;
    }
    let mut divergence = share * (share / expected).ln();
    if few > 0 {
        divergence += (1.0 - share) * ((1.0 - share) / (1.0 - expected)).ln();
    }
    (-all * divergence).exp()
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
            apart: true,
        };
        let level = ERROR_TEST_LEVEL;
        counts.judge(Sqlstate::parse(code).unwrap(), (level, level))
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
    fn what_depends_on_who_comes_first_must_be_more_than_chance() {
        for code in ["55P03", "57014", "53300", "08006"] {
            assert_eq!(judged(code, 0, 1, 0), Some((ErrorDirection::New, false)));
        }
    }

    #[test]
    fn runs_of_one_side_that_differ_as_much_are_no_change() {
        assert!(apart(&[0.1, 0.2], &[0.3, 0.4]));
        assert!(apart(&[0.3, 0.4], &[0.1, 0.2]));
        assert!(!apart(&[0.1, 0.35], &[0.3, 0.4]));
        assert!(!apart(&[0.2], &[0.2]));
    }

    #[test]
    fn fewer_calls_before_explain_more_errors_after() {
        assert!(chance(20, 10, 2_000, 1_000) > 0.99);
        assert!(chance(40, 10, 1_000, 1_000) < ERROR_TEST_LEVEL);
        // With a count of 0 the bound is exact.
        assert!((chance(7, 0, 1, 1) - 0.5f64.powi(7)).abs() < 1e-12);
        assert!((chance(6, 0, 1, 1) - 0.5f64.powi(6)).abs() < 1e-12);
    }
}
