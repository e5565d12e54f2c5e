//! Judges whether the count of an error changed by more than chance explains.
//!
//! Given `n` errors in both sides together, each falls into the side after with the probability of that side's share of
//! the calls (the conditional test for two Poisson rates; Przyborowski & Wilenski, Biometrika 31, 1940). The tail
//! probability is bounded above by Chernoff's bound `exp(−n · KL(k/n ‖ p))` (1952), which is exact if one count is 0.
//! Failures come in clusters, so counts vary more than independent ones. The exponent is divided by the dispersion
//! ([`dispersion`]; quasi-likelihood: Wedderburn, Biometrika 61, 1974; McCullagh & Nelder, "Generalized Linear Models",
//! 1989, section 4.5).

use schemars::JsonSchema;
use serde::Serialize;
use workload::Sqlstate;

/// SQLSTATE prefixes of errors that depend on timing or load: lost connections, serialisation
/// failures and deadlocks, transactions that were idle for too long, too many connections, unavailable locks, cancelled statements (by a
/// time-out, for example), and shutdown or startup of the server.
const BY_TIMING: [&str; 7] = ["08", "25P03", "40", "53300", "55P03", "57014", "57P"];

/// SQLSTATE prefixes of errors that depend on the rows that other sessions wrote first: unique, foreign-key, restrict
/// and exclusion violations, missing rows, several rows instead of one, and exceptions that functions raise.
const BY_ROWS: [&str; 7] = ["23505", "23503", "23001", "23P01", "02", "21000", "P0"];

/// Dispersion of counts if no runs of one side tell it: the variance of a count is twice its mean.
const DISPERSION_ASSUMED: f64 = 2.0;

/// Weight of [`DISPERSION_ASSUMED`], in degrees of freedom, when runs of one side tell their own.
const ASSUMED_FREEDOM: f64 = 2.0;

/// Whether an error can come and go between two runs of one server.
pub(crate) fn is_racy(sqlstate: Sqlstate) -> bool {
    depends_on_timing(sqlstate) || depends_on_rows(sqlstate)
}

pub(crate) fn depends_on_rows(sqlstate: Sqlstate) -> bool {
    let mut codes = BY_ROWS.iter();
    codes.any(|code| sqlstate.as_str().starts_with(code))
}

fn depends_on_timing(sqlstate: Sqlstate) -> bool {
    let mut codes = BY_TIMING.iter();
    codes.any(|code| sqlstate.as_str().starts_with(code))
}

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

    /// Whether it is a change for the worse.
    pub(crate) fn is_worse(self) -> bool {
        matches!(self, ErrorDirection::New | ErrorDirection::More)
    }
}

/// Counts of an error of one statement, or of all errors that can take each other's place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// Number of those after within stalls of the tool.
    pub(crate) after_in_stalls: u64,
    pub(crate) captured: u64,
    pub(crate) calls_before: u64,
    pub(crate) calls_after: u64,
    /// Whether every run of one side has more of it than every run of the other.
    pub(crate) apart: bool,
    /// Variance of a count as a multiple of its mean.
    pub(crate) dispersion: f64,
}

impl Counts {
    /// Returns the count that the capture explains in the runs after.
    fn known(&self) -> u64 {
        self.before.max(self.captured)
    }

    /// Returns the probability that chance produces this many more errors.
    fn more(&self) -> f64 {
        self.tail(
            (self.after, self.calls_after),
            (self.known(), self.calls_before),
        )
    }

    /// Returns the probability that chance produces this many fewer errors.
    fn fewer(&self) -> f64 {
        self.tail(
            (self.before, self.calls_before),
            (self.after, self.calls_after),
        )
    }

    fn tail(&self, many: (u64, u64), few: (u64, u64)) -> f64 {
        tail_probability(many.0, few.0, many.1, few.1).powf(1.0 / self.dispersion)
    }
}

/// Counts of an error of one statement, and of all errors that can take its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorCounts {
    pub(crate) sqlstate: Sqlstate,
    pub(crate) own: Counts,
    /// Sums over the racy errors of the statement; equal to `own` for other errors.
    pub(crate) pooled: Counts,
}

impl ErrorCounts {
    /// Returns the probability that chance produces this many more errors, of this code and of those that it may have
    /// replaced.
    pub(crate) fn more(&self) -> f64 {
        self.own.more().max(self.pooled.more())
    }

    /// Returns the probability that chance produces this many fewer errors.
    pub(crate) fn fewer(&self) -> f64 {
        self.own.fewer().max(self.pooled.fewer())
    }

    /// Judges the change and whether it is a regression; `None` if there is no change. `levels` are
    /// the rejection levels for more and for fewer errors.
    pub(crate) fn judge(&self, levels: (f64, f64)) -> Option<(ErrorDirection, bool)> {
        let (direction, is_regression) = self.judge_all(levels)?;
        let may_come_from_stalls = self.own.after_in_stalls > 0 && depends_on_timing(self.sqlstate);
        if !is_regression || !may_come_from_stalls {
            return Some((direction, is_regression));
        }
        let outside = |counts: Counts| Counts {
            after: counts.after - counts.after_in_stalls,
            ..counts
        };
        let outside = ErrorCounts {
            sqlstate: self.sqlstate,
            own: outside(self.own),
            pooled: outside(self.pooled),
        };
        let is_regression = outside.judge_all(levels).is_some_and(|(_, is)| is);
        Some((direction, is_regression))
    }

    /// Judges the change without regard to stalls of the tool.
    fn judge_all(&self, levels: (f64, f64)) -> Option<(ErrorDirection, bool)> {
        let (own, pooled) = (&self.own, &self.pooled);
        let apart = own.apart && pooled.apart;
        let more = self.more() <= levels.0 && apart;
        let fewer = self.fewer() <= levels.1 && apart;
        if own.known() == 0 && own.after > 0 {
            // The statement failed as often in another way: the codes traded places.
            let traded = pooled.known() > 0 && !more;
            (!traded).then_some((ErrorDirection::New, more || !is_racy(self.sqlstate)))
        } else if more {
            Some((ErrorDirection::More, true))
        } else if own.before > 0 && own.after == 0 {
            let traded = pooled.after > 0 && !fewer;
            (!traded).then_some((ErrorDirection::Gone, false))
        } else {
            fewer.then_some((ErrorDirection::Fewer, false))
        }
    }
}

/// Estimates the dispersion from the counts and calls of the runs of each side: Pearson's statistic over its degrees of
/// freedom, moderated towards [`DISPERSION_ASSUMED`], at least 1.
pub(crate) fn dispersion(sides: [&[(u64, u64)]; 2]) -> f64 {
    let (mut pearson, mut freedom) = (0.0, 0.0);
    for runs in sides {
        let sum = |of: fn(&(u64, u64)) -> u64| runs.iter().map(of).sum::<u64>() as f64;
        let (count, calls) = (sum(|run| run.0), sum(|run| run.1));
        if count == 0.0 || calls == 0.0 {
            continue;
        }
        for run in runs {
            let expected = count * run.1 as f64 / calls;
            if expected > 0.0 {
                pearson += (run.0 as f64 - expected).powi(2) / expected;
            }
        }
        freedom += runs.len() as f64 - 1.0;
    }
    let moderated = pearson + DISPERSION_ASSUMED * ASSUMED_FREEDOM;
    (moderated / (freedom + ASSUMED_FREEDOM)).max(1.0)
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

    const ERROR_TEST_LEVEL: f64 = 0.01;
    const LEVELS: (f64, f64) = (ERROR_TEST_LEVEL, ERROR_TEST_LEVEL);

    fn counts(before: u64, after: u64, captured: u64) -> Counts {
        Counts {
            before,
            after,
            after_in_stalls: 0,
            captured,
            calls_before: 1_000,
            calls_after: 1_000,
            apart: true,
            dispersion: DISPERSION_ASSUMED,
        }
    }

    fn judged(
        code: &str,
        before: u64,
        after: u64,
        captured: u64,
    ) -> Option<(ErrorDirection, bool)> {
        let own = counts(before, after, captured);
        let sqlstate = Sqlstate::parse(code).unwrap();
        let pooled = own;
        ErrorCounts {
            sqlstate,
            own,
            pooled,
        }
        .judge(LEVELS)
    }

    #[test]
    fn new_error_is_a_regression_even_once_unless_it_can_come_by_race() {
        assert_eq!(judged("42P01", 0, 1, 0), Some((ErrorDirection::New, true)));
        for code in ["40P01", "23505", "23503", "P0002"] {
            assert_eq!(judged(code, 0, 1, 0), Some((ErrorDirection::New, false)));
            assert_eq!(judged(code, 0, 20, 0), Some((ErrorDirection::New, true)));
        }
    }

    #[test]
    fn codes_that_trade_places_are_no_change() {
        let sqlstate = Sqlstate::parse("23505").unwrap();
        let judge = |own, pooled| {
            let one = ErrorCounts {
                sqlstate,
                own,
                pooled,
            };
            one.judge(LEVELS)
        };
        assert_eq!(judge(counts(0, 9, 0), counts(30, 28, 0)), None);
        assert_eq!(judge(counts(30, 0, 0), counts(30, 28, 0)), None);
        assert_eq!(judge(counts(1, 29, 0), counts(30, 30, 0)), None);
        // The capture failed in the other way.
        assert_eq!(judge(counts(0, 30, 0), counts(0, 30, 25)), None);
        let more = Some((ErrorDirection::New, true));
        assert_eq!(judge(counts(0, 60, 0), counts(30, 88, 0)), more);
    }

    #[test]
    fn error_by_timing_within_a_stall_is_listed_but_no_regression() {
        let judged = |code: &str, in_stalls| {
            let own = Counts {
                after_in_stalls: in_stalls,
                ..counts(0, 20, 0)
            };
            let one = ErrorCounts {
                sqlstate: Sqlstate::parse(code).unwrap(),
                own,
                pooled: own,
            };
            one.judge(LEVELS)
        };
        assert_eq!(judged("25P03", 20), Some((ErrorDirection::New, false)));
        assert_eq!(judged("25P03", 0), Some((ErrorDirection::New, true)));
        assert_eq!(judged("42P01", 20), Some((ErrorDirection::New, true)));
    }

    #[test]
    fn known_error_must_grow_by_more_than_chance() {
        assert_eq!(judged("23505", 100, 104, 0), None);
        assert_eq!(judged("23505", 100, 150, 0), None);
        assert_eq!(
            judged("23505", 100, 190, 0),
            Some((ErrorDirection::More, true))
        );
        assert_eq!(judged("23505", 0, 40, 38), None);
        assert_eq!(
            judged("23505", 190, 100, 0),
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
    fn dispersion_follows_the_runs_of_a_side() {
        let assumed = dispersion([&[(30, 1_000)], &[(50, 1_000)]]);
        assert!((assumed - DISPERSION_ASSUMED).abs() < 1e-9);
        let calm = [(30, 1_000), (31, 1_000), (29, 1_000)];
        assert!(dispersion([&calm, &calm]) < 1.0 + 1e-9);
        let wild = [(5, 1_000), (60, 1_000), (25, 1_000)];
        assert!(dispersion([&wild, &wild]) > 15.0);
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
