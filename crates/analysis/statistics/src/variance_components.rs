//! Variance components between runs of the same server, and the intervals that follow from them.
//!
//! With several runs on a side, the run is the unit of observation, not the call: a noisy
//! neighbour, a cold cache or the memory layout shifts all calls of a run together (Mytkowicz et
//! al., "Producing Wrong Data Without Doing Anything Obviously Wrong!", ASPLOS 2009; Kalibera and
//! Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013). Each statement then contributes
//! one number for each run (such as the logarithm of its median), and two or three numbers
//! determine their own variance badly. Therefore the variance is estimated from all statements
//! together, as two components:
//!
//! - The shift that all statements of a run have in common (the median of their deviations from
//!   their side's mean). It has as many degrees of freedom as there are runs less two.
//! - The residual of each statement. Its expected variance is the variance within the run plus a
//!   between-run variance that all statements share, solved for as by Paule and Mandel (Journal of
//!   Research of the National Bureau of Standards 87, 1982). The observed variance of a statement
//!   is moderated towards the expected one. The prior degrees of freedom follow from how well the
//!   statements agree (Smyth, "Linear Models and Empirical Bayes Methods for Assessing Differential
//!   Expression", 2004, section 6.2).
//!
//! If the runs were made in pairs (one of either side, one directly after the other), the pair is the unit: its number is
//! the difference of its runs, so that a course of the machine's load longer than a pair cancels (the paired t test;
//! Student, "The Probable Error of a Mean", Biometrika 6, 1908). The common shift then has as many degrees of freedom as
//! there are pairs less one.
//!
//! Both components give a t interval with Satterthwaite's degrees of freedom (Biometrics Bulletin
//! 2, 1946). It assumes that the logarithms of run medians are roughly normal, which a few runs
//! cannot verify. The permutation test, which assumes no distribution, must agree before a
//! difference becomes a finding (`compare::compare`).

use statrs::distribution::{ContinuousCDF, FisherSnedecor, StudentsT};
use statrs::function::gamma::digamma;

use crate::bootstrap::Interval;

/// Degrees of freedom beyond which a t distribution is treated as normal.
const FREEDOM_MAX: f64 = 1e6;
/// Level of the F test above which a statement is unsteady and only its own variance is used.
const UNSTEADY_LEVEL: f64 = 0.05;
/// Minimum variance: logarithms that differ by less than one part in 10^12 are equal.
const VARIANCE_MIN: f64 = 1e-24;
/// Minimum number of statements for judging their agreement.
const STATEMENTS_MIN: usize = 5;

/// Logarithms of one measure of one statement in each run, with the variance within the runs.
#[derive(Debug, Clone)]
pub struct RunLogarithms {
    /// Logarithm for each run before the change.
    pub before: Vec<f64>,
    /// Logarithm for each run after the change.
    pub after: Vec<f64>,
    /// Variance within the runs, from resampling.
    pub variance_within: f64,
    /// Whether the runs are pairs: each run before belongs to the run after at the same place.
    pub is_paired: bool,
}

/// Variance components of one measure, estimated from runs of the same server.
#[derive(Debug, Clone, PartialEq)]
pub struct VarianceComponents {
    /// Numbers of runs before and after.
    runs: (f64, f64),
    /// Whether the pair is the unit.
    is_paired: bool,
    /// Common shift of the statements of each run, or of each pair's difference.
    shifts: Vec<f64>,
    /// Variance of the common shift.
    shift_variance: f64,
    /// Variance between runs that all statements share, in addition to the variance within a run.
    between_variance: f64,
    /// Mean ratio of observed to expected variance.
    scale: f64,
    /// Prior degrees of freedom that each statement gains from the others.
    prior_freedom: f64,
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = values.len() / 2;
    match values.len() {
        0 => 0.0,
        even if even % 2 == 0 => (values[at - 1] + values[at]) / 2.0,
        _ => values[at],
    }
}

impl RunLogarithms {
    /// Returns each run's deviation from its side's mean, or that of each pair's difference from their mean.
    fn deviations(&self) -> Vec<f64> {
        if self.is_paired {
            let pairs = self.before.iter().zip(&self.after);
            let middle = self.difference();
            return pairs.map(|(one, other)| other - one - middle).collect();
        }
        let mut found = Vec::new();
        for side in [&self.before, &self.after] {
            let middle = mean(side.iter().copied());
            found.extend(side.iter().map(|log| log - middle));
        }
        found
    }

    /// Returns the variance within a unit, which is a run or the difference of two.
    fn variance_within_unit(&self) -> f64 {
        match self.is_paired {
            true => 2.0 * self.variance_within,
            false => self.variance_within,
        }
    }

    fn difference(&self) -> f64 {
        mean(self.after.iter().copied()) - mean(self.before.iter().copied())
    }
}

impl VarianceComponents {
    /// Estimates the components from statements with equal numbers of runs; `None` if both sides
    /// have only one run.
    pub fn estimate(statements: &[RunLogarithms]) -> Option<VarianceComponents> {
        let first = statements.first()?;
        let runs = (first.before.len() as f64, first.after.len() as f64);
        let is_paired = first.is_paired;
        let freedom = degrees_of_freedom(runs, is_paired);
        if freedom < 1.0 {
            return None;
        }
        let deviations: Vec<Vec<f64>> = statements.iter().map(RunLogarithms::deviations).collect();
        let common: Vec<f64> = (0..deviations[0].len())
            .map(|run| median(&mut deviations.iter().map(|one| one[run]).collect::<Vec<f64>>()))
            .collect();
        let seen: Vec<f64> = deviations
            .iter()
            .map(|one| {
                let left = one.iter().zip(&common).map(|(one, common)| one - common);
                left.map(|left| left * left).sum::<f64>() / freedom
            })
            .collect();
        let within: Vec<f64> = statements
            .iter()
            .map(RunLogarithms::variance_within_unit)
            .collect();
        let beyond = estimate_between_variance(&seen, &within);
        let ratios: Vec<f64> = seen
            .iter()
            .zip(&within)
            .map(|(seen, within)| seen / (within + beyond).max(f64::MIN_POSITIVE))
            .collect();
        let (lent, scale) = estimate_prior(&ratios, freedom);
        Some(VarianceComponents {
            runs,
            is_paired,
            shift_variance: common.iter().map(|shift| shift * shift).sum::<f64>() / freedom,
            between_variance: beyond,
            scale,
            prior_freedom: lent,
            shifts: common,
        })
    }

    /// Returns the standard error of a statement's difference, and its degrees of freedom.
    fn standard_error(&self, statement: &RunLogarithms) -> (f64, f64) {
        let freedom = degrees_of_freedom(self.runs, self.is_paired);
        let deviations = statement.deviations();
        let left = deviations
            .iter()
            .zip(&self.shifts)
            .map(|(one, shift)| one - shift);
        let own = left.map(|left| left * left).sum::<f64>() / freedom;
        let expected = self.scale * (statement.variance_within_unit() + self.between_variance);
        let moderated = if self.prior_freedom >= FREEDOM_MAX {
            expected
        } else {
            (self.prior_freedom * expected + freedom * own) / (self.prior_freedom + freedom)
        };
        // A statement that varies far more than the others (its plan flips, for example) is judged
        // by its own variance alone.
        let (moderated, lent) = if self.prior_freedom > 0.0
            && is_unsteady(own / expected, freedom, self.prior_freedom)
        {
            (own, 0.0)
        } else {
            (moderated, self.prior_freedom)
        };
        let each = match self.is_paired {
            true => 1.0 / self.runs.0,
            false => 1.0 / self.runs.0 + 1.0 / self.runs.1,
        };
        let (common, moderated) = (self.shift_variance * each, moderated * each);
        let variance = (common + moderated).max(VARIANCE_MIN);
        let parts = common * common / freedom + moderated * moderated / (lent + freedom);
        // Runs that agree to the last digit have zero variance, for which the formula is undefined.
        let satterthwaite = if parts > 0.0 {
            variance * variance / parts
        } else {
            freedom
        };
        (variance.sqrt(), satterthwaite.clamp(1.0, FREEDOM_MAX))
    }

    /// Returns the confidence interval of a statement's ratio at `level` (0.95).
    pub fn interval(&self, statement: &RunLogarithms, level: f64) -> Interval {
        let (error, freedom) = self.standard_error(statement);
        let difference = statement.difference();
        let reach = students_t(freedom).inverse_cdf(0.5 + level / 2.0) * error;
        Interval {
            low: (difference - reach).exp(),
            high: (difference + reach).exp(),
        }
    }

    /// Returns the two-sided p-value of a statement's difference under the hypothesis that the true
    /// difference is exactly `margin`.
    pub fn p_value(&self, statement: &RunLogarithms, margin: f64) -> f64 {
        let (error, freedom) = self.standard_error(statement);
        let beyond = statement.difference().abs() - margin.ln_1p();
        (2.0 * students_t(freedom).sf(beyond / error)).min(1.0)
    }

    /// Returns the standard deviation of the common shift of a run, as a share.
    pub fn shift(&self) -> f64 {
        // A difference of two runs varies twice as much as a run.
        let of_run = match self.is_paired {
            true => self.shift_variance / 2.0,
            false => self.shift_variance,
        };
        of_run.sqrt().exp_m1()
    }
}

/// Returns the degrees of freedom that the numbers of a statement leave for its variance.
fn degrees_of_freedom(runs: (f64, f64), is_paired: bool) -> f64 {
    match is_paired {
        true => runs.0 - 1.0,
        false => runs.0 + runs.1 - 2.0,
    }
}

/// Whether a ratio of variances this large is rarer than [`UNSTEADY_LEVEL`] among steady
/// statements.
fn is_unsteady(ratio: f64, freedom: f64, lent: f64) -> bool {
    let lent = lent.min(FREEDOM_MAX);
    let distribution = FisherSnedecor::new(freedom, lent).expect("degrees of freedom are positive");
    ratio > 1.0 && distribution.sf(ratio) < UNSTEADY_LEVEL
}

/// Returns Student's t distribution with these degrees of freedom, which must be positive.
pub fn students_t(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("degrees of freedom are positive")
}

/// Estimates the between-run variance for which observed and expected variances agree on average.
fn estimate_between_variance(seen: &[f64], within: &[f64]) -> f64 {
    let agreement = |beyond: f64| {
        let pairs = seen.iter().zip(within);
        pairs
            .map(|(seen, within)| seen / (within + beyond).max(f64::MIN_POSITIVE))
            .sum::<f64>()
            / seen.len() as f64
    };
    if agreement(0.0) <= 1.0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, seen.iter().copied().fold(0.0, f64::max));
    for _ in 0..60 {
        let half = f64::midpoint(low, high);
        if agreement(half) > 1.0 {
            low = half;
        } else {
            high = half;
        }
    }
    high
}

/// Estimates the prior degrees of freedom and the scale from ratios of variances (Smyth 2004,
/// section 6.2).
fn estimate_prior(ratios: &[f64], freedom: f64) -> (f64, f64) {
    let logs: Vec<f64> = ratios
        .iter()
        .filter(|ratio| **ratio > 0.0)
        .map(|ratio| ratio.ln() - digamma(freedom / 2.0) + (freedom / 2.0).ln())
        .collect();
    if logs.len() < STATEMENTS_MIN {
        return (0.0, 1.0);
    }
    let count = logs.len() as f64;
    let middle = mean(logs.iter().copied());
    let spread = logs.iter().map(|log| (log - middle).powi(2)).sum::<f64>() / (count - 1.0);
    let left = spread - trigamma(freedom / 2.0);
    if left <= 0.0 {
        return (FREEDOM_MAX, middle.exp());
    }
    let half = inverse_trigamma(left);
    let scale = (middle + digamma(half) - half.ln()).exp();
    ((2.0 * half).min(FREEDOM_MAX), scale)
}

/// Trigamma, the derivative of digamma, by its recurrence and asymptotic series (Abramowitz and
/// Stegun, 6.4.6 and 6.4.12).
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 8.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + 1.0 / x + y / 2.0 + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)))
}

/// Inverts trigamma by bisection; it decreases from infinity to 0.
fn inverse_trigamma(value: f64) -> f64 {
    let (mut low, mut high) = (1e-6_f64, 1e8_f64);
    for _ in 0..100 {
        let half = (low * high).sqrt();
        if trigamma(half) > value {
            low = half;
        } else {
            high = half;
        }
    }
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    struct Normal(SplitMix64);

    impl Normal {
        fn next(&mut self) -> f64 {
            let mut uniform = || (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            (0..12).map(|_| uniform()).sum::<f64>() - 6.0
        }
    }

    /// Creates 200 statements in `runs` runs a side; the first is longer by the factor.
    fn statements(seed: u64, runs: usize, factor: f64) -> Vec<RunLogarithms> {
        let mut normal = Normal(SplitMix64::new(seed));
        let shifts: Vec<f64> = (0..2 * runs).map(|_| 0.03 * normal.next()).collect();
        (0..200)
            .map(|number| {
                let within: f64 = if number % 2 == 0 { 0.01 } else { 0.1 };
                let own: f64 = 0.02;
                let mut log = |run: usize| {
                    let spread = (within * within + own * own).sqrt();
                    5.0 + shifts[run] + spread * normal.next()
                };
                let before = (0..runs).map(&mut log).collect();
                let longer = if number == 0 { factor.ln() } else { 0.0 };
                let after = (runs..2 * runs).map(|run| log(run) + longer).collect();
                RunLogarithms {
                    before,
                    after,
                    variance_within: within * within,
                    is_paired: false,
                }
            })
            .collect()
    }

    #[test]
    fn intervals_have_the_stated_coverage() {
        for runs in [2, 3, 5] {
            let (mut held, mut all) = (0, 0);
            for seed in 0..100 {
                let statements = statements(seed, runs, 1.0);
                let components = VarianceComponents::estimate(&statements).unwrap();
                for one in &statements {
                    let interval = components.interval(one, 0.95);
                    held += u32::from(interval.low <= 1.0 && 1.0 <= interval.high);
                    all += 1;
                }
            }
            let share = f64::from(held) / f64::from(all);
            // The statements of a comparison share the shifts of its runs, so there are only a
            // hundred independent observations, whose standard error is 2 %.
            assert!((0.90..0.995).contains(&share), "{runs} runs: {share}");
        }
    }

    #[test]
    fn pooling_statements_narrows_intervals_of_two_runs() {
        let statements = statements(7, 3, 1.5);
        let components = VarianceComponents::estimate(&statements).unwrap();
        assert!(components.prior_freedom > 10.0, "{components:?}");
        assert!(
            (0.005..0.06).contains(&components.shift()),
            "{components:?}"
        );
        assert!(components.p_value(&statements[0], 0.1) < 0.05);
        assert!(components.p_value(&statements[2], 0.1) > 0.5);
    }

    #[test]
    fn single_runs_have_no_components() {
        assert_eq!(VarianceComponents::estimate(&statements(1, 1, 1.0)), None);
        assert_eq!(VarianceComponents::estimate(&[]), None);
        let alone = &statements(1, 2, 1.0)[..1];
        let components = VarianceComponents::estimate(alone).unwrap();
        assert_eq!(components.prior_freedom, 0.0);
    }

    #[test]
    fn equal_runs_have_an_interval() {
        let equal = RunLogarithms {
            before: vec![5.0, 5.0],
            after: vec![5.0, 5.0],
            variance_within: 0.0,
            is_paired: false,
        };
        let all = vec![equal.clone(); 10];
        let components = VarianceComponents::estimate(&all).unwrap();
        let interval = components.interval(&equal, 0.95);
        assert!((interval.low - 1.0).abs() < 1e-6 && (interval.high - 1.0).abs() < 1e-6);
        assert!(components.p_value(&equal, 0.0) > 0.99);
        assert!(components.p_value(&equal, 0.1) > 0.99);
    }

    #[test]
    fn pairs_cancel_what_both_runs_of_a_pair_share() {
        // The machine's load changes from pair to pair by half, and within a pair by a twentieth.
        let (mut held, mut all, mut found) = (0, 0, [0; 2]);
        for seed in 0..100 {
            let mut normal = Normal(SplitMix64::new(seed));
            let loads: Vec<f64> = (0..4).map(|_| 0.4 * normal.next()).collect();
            let shifts: Vec<f64> = loads
                .iter()
                .flat_map(|load| [load + 0.03 * normal.next(), load + 0.03 * normal.next()])
                .collect();
            let statements: Vec<RunLogarithms> = (0..50)
                .map(|number| {
                    let mut side = |which: usize| -> Vec<f64> {
                        let longer = if number == 0 && which == 1 {
                            1.5f64.ln()
                        } else {
                            0.0
                        };
                        let pairs = (0..loads.len()).map(|pair| shifts[2 * pair + which]);
                        pairs
                            .map(|shift| 5.0 + longer + shift + 0.02 * normal.next())
                            .collect()
                    };
                    RunLogarithms {
                        before: side(0),
                        after: side(1),
                        variance_within: 2e-4,
                        is_paired: true,
                    }
                })
                .collect();
            let paired = VarianceComponents::estimate(&statements).unwrap();
            for one in &statements[1..] {
                let interval = paired.interval(one, 0.95);
                held += u32::from(interval.low <= 1.0 && 1.0 <= interval.high);
                all += 1;
            }
            let by_run: Vec<RunLogarithms> = statements
                .iter()
                .map(|one| RunLogarithms {
                    is_paired: false,
                    ..one.clone()
                })
                .collect();
            let unpaired = VarianceComponents::estimate(&by_run).unwrap();
            found[0] += u32::from(paired.p_value(&statements[0], 0.1) < 0.05);
            found[1] += u32::from(unpaired.p_value(&by_run[0], 0.1) < 0.05);
        }
        let share = f64::from(held) / f64::from(all);
        assert!((0.90..0.995).contains(&share), "{share}");
        assert!(found[0] >= 95 && found[1] <= 20, "{found:?}");
    }

    #[test]
    fn trigamma_matches_known_values() {
        let pi = std::f64::consts::PI;
        assert!((trigamma(1.0) - pi * pi / 6.0).abs() < 1e-10);
        assert!((trigamma(0.5) - pi * pi / 2.0).abs() < 1e-10);
        assert!((inverse_trigamma(trigamma(3.7)) - 3.7).abs() < 1e-6);
    }
}
