//! Errors whose counts changed between two sides.
//!
//! An error that neither the run before nor the capture had is a change, however rare. All other
//! errors, and those that depend on timing ([`BY_TIMING`]: deadlocks, time-outs and lost
//! connections come and go between any two runs), are changes only if the count grew by more than
//! chance explains. Given `n` errors in both runs together, each falls into the run after with the
//! probability of that run's share of the calls (the conditional test for two Poisson rates;
//! Przyborowski & Wilenski, Biometrika 31, 1940). The tail probability is bounded above by
//! Chernoff's bound `exp(−n · KL(k/n ‖ p))` (1952), which is exact if one count is 0. The errors of
//! all statements are tested together at the false discovery rate [`ERROR_TEST_LEVEL`]
//! ([`statistics::false_discovery_rate`]). With several runs on a side, each run after must also
//! have more errors than each run before.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use sql::Fingerprint;
use workload::Sqlstate;

use crate::run_stats::RunStats;
use crate::statement_stats::OutcomeCounts;
use statistics::false_discovery_rate;
use workload::{Literals, redact_message};

/// Maximum expected share of chance among the errors called more or fewer.
pub const ERROR_TEST_LEVEL: f64 = 0.01;

/// SQLSTATE prefixes of errors that depend on timing or load: lost connections, serialisation
/// failures and deadlocks, transactions that were idle for too long, too many connections, unavailable locks, cancelled statements (by a
/// time-out, for example), and shutdown or startup of the server.
const BY_TIMING: [&str; 7] = ["08", "25P03", "40", "53300", "55P03", "57014", "57P"];

/// Direction in which the count of an error changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorDirection {
    /// The error is neither in the runs before nor in the capture.
    New,
    /// The count grew by more than chance explains.
    More,
    /// The count shrank by more than chance explains.
    Fewer,
    /// The error is not in the runs after.
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
    /// Number of occurrences before.
    pub before: u64,
    /// Number of occurrences after.
    pub after: u64,
    /// Number of captured occurrences, including errors whose code the source hid.
    pub captured: u64,
    /// The server's first message, redacted unless literals were requested; from the runs after if
    /// they have one.
    pub message: Option<String>,
    /// Whether it makes the change a regression.
    pub regression: bool,
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
    changes_of_statement(None, (before, after), &connects, &mut all);
    let fingerprints: BTreeSet<Fingerprint> = before
        .iter()
        .chain(after)
        .flat_map(|run| run.statements.keys().copied())
        .collect();
    for fingerprint in fingerprints {
        let of = |run: &RunStats| {
            let stats = run.statements.get(&fingerprint);
            stats
                .map(|stats| stats.outcomes.clone())
                .unwrap_or_default()
        };
        changes_of_statement(Some(fingerprint), (before, after), &of, &mut all);
    }
    // More and fewer are two families of tests, each over every error.
    let level = |p: fn(&Counts) -> f64| {
        let p_values: Vec<f64> = all.iter().map(|(_, counts)| p(counts)).collect();
        false_discovery_rate::rejection_level(&p_values, (p_values.len(), 0), ERROR_TEST_LEVEL)
            .unwrap_or(0.0)
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

/// Returns the counts of every error of one statement, or of connecting.
fn changes_of_statement(
    fingerprint: Option<Fingerprint>,
    (before, after): (&[RunStats], &[RunStats]),
    outcomes: &dyn Fn(&RunStats) -> OutcomeCounts,
    all: &mut Vec<(ErrorChange, Counts)>,
) {
    let outcomes_of = |side: &[RunStats]| side.iter().map(outcomes).collect::<Vec<OutcomeCounts>>();
    let (each_before, each_after) = (outcomes_of(before), outcomes_of(after));
    let sum = |side: &[OutcomeCounts]| {
        let mut sum = OutcomeCounts::default();
        for outcomes in side {
            sum.merge(outcomes);
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
        let count = |side: &OutcomeCounts| side.errors.get(&sqlstate).map_or(0, |one| one.count);
        let rates = |side: &[OutcomeCounts]| -> Vec<f64> {
            let rate = |one: &OutcomeCounts| count(one) as f64 / one.calls().max(1) as f64;
            side.iter().map(rate).collect()
        };
        let counts = Counts {
            before: count(&before),
            after: count(&after),
            after_in_stalls: after.errors.get(&sqlstate).map_or(0, |one| one.in_stalls),
            // Each run carries the captured errors; they are compared with the runs before.
            captured: if before.calls() + before.skipped > 0 {
                before.captured_as(sqlstate)
            } else {
                after.captured_as(sqlstate)
            },
            calls_before: before.calls(),
            calls_after: after.calls(),
            apart: is_separated(&rates(&each_before), &rates(&each_after)),
        };
        let message = |side: &OutcomeCounts| side.errors.get(&sqlstate)?.message.clone();
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

/// Whether all values of one side are on one side of all values of the other.
fn is_separated(before: &[f64], after: &[f64]) -> bool {
    let least = |rates: &[f64]| rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |rates: &[f64]| rates.iter().copied().fold(0.0, f64::max);
    least(after) > most(before) || least(before) > most(after)
}

#[derive(Debug, Clone, Copy)]
struct Counts {
    before: u64,
    after: u64,
    /// Number of those after within stalls of the tool.
    after_in_stalls: u64,
    captured: u64,
    calls_before: u64,
    calls_after: u64,
    /// Whether every run of one side has more of it than every run of the other.
    apart: bool,
}

impl Counts {
    /// Returns the count that the capture explains in the runs after.
    fn known(&self) -> u64 {
        self.before.max(self.captured)
    }

    /// Returns the probability that chance produces this many more errors.
    fn more(&self) -> f64 {
        tail_probability(
            self.after,
            self.known(),
            self.calls_after,
            self.calls_before,
        )
    }

    /// Returns the probability that chance produces this many fewer errors.
    fn fewer(&self) -> f64 {
        tail_probability(self.before, self.after, self.calls_before, self.calls_after)
    }

    /// Judges the change and whether it is a regression; `None` if there is no change. `levels` are
    /// the rejection levels for more and for fewer errors.
    fn judge(self, sqlstate: Sqlstate, levels: (f64, f64)) -> Option<(ErrorDirection, bool)> {
        let (direction, is_regression) = self.judge_all(sqlstate, levels)?;
        let may_come_from_stalls = self.after_in_stalls > 0 && depends_on_timing(sqlstate);
        if !is_regression || !may_come_from_stalls {
            return Some((direction, is_regression));
        }
        let outside = Counts {
            after: self.after - self.after_in_stalls,
            ..self
        };
        let is_regression = outside
            .judge_all(sqlstate, levels)
            .is_some_and(|(_, is)| is);
        Some((direction, is_regression))
    }

    /// Judges the change without regard to stalls of the tool.
    fn judge_all(self, sqlstate: Sqlstate, levels: (f64, f64)) -> Option<(ErrorDirection, bool)> {
        let more = self.more() <= levels.0 && self.apart;
        let fewer = self.fewer() <= levels.1 && self.apart;
        let by_timing = depends_on_timing(sqlstate);
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

fn depends_on_timing(sqlstate: Sqlstate) -> bool {
    BY_TIMING
        .iter()
        .any(|code| sqlstate.as_str().starts_with(code))
}

/// Returns the probability that chance produces `many` errors in `calls_many` calls, given `few` in
/// `calls_few`. It is 1 if the count is not above expectation, or nothing is known.
fn tail_probability(many: u64, few: u64, calls_many: u64, calls_few: u64) -> f64 {
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
            after_in_stalls: 0,
            captured,
            calls_before: 1_000,
            calls_after: 1_000,
            apart: true,
        };
        let level = ERROR_TEST_LEVEL;
        counts.judge(Sqlstate::parse(code).unwrap(), (level, level))
    }

    #[test]
    fn new_error_is_a_regression_even_once() {
        assert_eq!(judged("42P01", 0, 1, 0), Some((ErrorDirection::New, true)));
        assert_eq!(judged("40P01", 0, 1, 0), Some((ErrorDirection::New, false)));
        assert_eq!(judged("40P01", 0, 9, 0), Some((ErrorDirection::New, true)));
    }

    #[test]
    fn error_by_timing_within_a_stall_is_listed_but_no_regression() {
        let counts = |after_in_stalls| Counts {
            before: 0,
            after: 9,
            after_in_stalls,
            captured: 0,
            calls_before: 1_000,
            calls_after: 1_000,
            apart: true,
        };
        let judged = |code: &str, in_stalls| {
            let level = (ERROR_TEST_LEVEL, ERROR_TEST_LEVEL);
            counts(in_stalls).judge(Sqlstate::parse(code).unwrap(), level)
        };
        assert_eq!(judged("25P03", 9), Some((ErrorDirection::New, false)));
        assert_eq!(judged("25P03", 0), Some((ErrorDirection::New, true)));
        assert_eq!(judged("42P01", 9), Some((ErrorDirection::New, true)));
    }

    #[test]
    fn known_error_must_grow_by_more_than_chance() {
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
    fn timing_dependent_error_must_exceed_chance() {
        for code in ["55P03", "57014", "53300", "08006"] {
            assert_eq!(judged(code, 0, 1, 0), Some((ErrorDirection::New, false)));
        }
    }

    #[test]
    fn differences_within_a_side_are_no_change() {
        assert!(is_separated(&[0.1, 0.2], &[0.3, 0.4]));
        assert!(is_separated(&[0.3, 0.4], &[0.1, 0.2]));
        assert!(!is_separated(&[0.1, 0.35], &[0.3, 0.4]));
        assert!(!is_separated(&[0.2], &[0.2]));
    }

    #[test]
    fn fewer_calls_before_explain_more_errors_after() {
        assert!(tail_probability(20, 10, 2_000, 1_000) > 0.99);
        assert!(tail_probability(40, 10, 1_000, 1_000) < ERROR_TEST_LEVEL);
        // With a count of 0 the bound is exact.
        assert!((tail_probability(7, 0, 1, 1) - 0.5f64.powi(7)).abs() < 1e-12);
        assert!((tail_probability(6, 0, 1, 1) - 0.5f64.powi(6)).abs() < 1e-12);
    }
}
