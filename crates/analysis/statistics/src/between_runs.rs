//! How much runs of the same server differ, and the intervals that follow from it.
//!
//! With several runs on a side the run is the witness, not the statement: however many calls a run
//! has, a noisy neighbour, a cold cache or the layout of memory shifts all of them together (Mytkowicz
//! et al., "Producing Wrong Data Without Doing Anything Obviously Wrong!", ASPLOS 2009; Kalibera and
//! Jones, "Rigorous Benchmarking in Reasonable Time", ISMM 2013). What is known of a statement is then
//! one number a run (the logarithm of its median, say), and two or three numbers say little of their
//! own spread. So statements lend each other what they know:
//!
//! - what all statements of a run have in common (its middle deviation from its side's mean) is one
//!   component, with as many degrees of freedom as there are runs less two;
//! - what is left of a statement is the other. Its variance is expected to be that within the run plus
//!   one that all statements share, solved for as Paule and Mandel do (Journal of Research of the
//!   National Bureau of Standards 87, 1982); what is seen of a statement is moderated towards the
//!   expected by as many degrees of freedom as the statements' agreement deserves (Smyth, "Linear
//!   Models and Empirical Bayes Methods for Assessing Differential Expression", 2004, section 6.2).
//!
//! The two make a t interval with Satterthwaite's degrees of freedom (Biometrics Bulletin 2, 1946).
//! It takes the logarithms of run medians to be roughly normal: with so few runs nothing else can be
//! had. The test by exchange, which takes nothing for granted, must agree before a difference is
//! called one ([`compare::compare()`]).

use statrs::distribution::{ContinuousCDF, FisherSnedecor, StudentsT};
use statrs::function::gamma::digamma;

use crate::bootstrap::Interval;

/// Degrees of freedom beyond which a t distribution is normal.
const FREEDOM_MAX: f64 = 1e6;
/// A statement that varies more than others do this rarely is taken for itself (an F test).
const UNSTEADY_LEVEL: f64 = 0.05;
/// Logarithms that differ by less than a part in 10^12 are equal.
const VARIANCE_MIN: f64 = 1e-24;
/// Statements whose agreement can be judged.
const STATEMENTS_MIN: usize = 5;

/// One measure of one statement: the logarithm in each run, and the variance that it has from within
/// its run.
#[derive(Debug, Clone)]
pub struct Statement {
    /// One logarithm for each run before the change.
    pub before: Vec<f64>,
    /// One logarithm for each run after the change.
    pub after: Vec<f64>,
    /// Variance from within the runs, as resampling found it.
    pub variance_within: f64,
}

/// What runs of the same server were seen to differ by, in one measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Components {
    /// Runs before and after.
    runs: (f64, f64),
    /// What the statements of each run have in common.
    shifts: Vec<f64>,
    /// The variance of that.
    common: f64,
    /// The variance that all statements share beyond the one within their run.
    beyond: f64,
    /// What is seen of a statement beside what is expected, on average.
    scale: f64,
    /// Degrees of freedom that the statements lend each other.
    lent: f64,
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn middle(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let at = values.len() / 2;
    match values.len() {
        0 => 0.0,
        even if even % 2 == 0 => (values[at - 1] + values[at]) / 2.0,
        _ => values[at],
    }
}

impl Statement {
    /// Each run's deviation from its side's mean.
    fn deviations(&self) -> Vec<f64> {
        let mut found = Vec::new();
        for side in [&self.before, &self.after] {
            let middle = mean(side.iter().copied());
            found.extend(side.iter().map(|log| log - middle));
        }
        found
    }

    fn difference(&self) -> f64 {
        mean(self.after.iter().copied()) - mean(self.before.iter().copied())
    }
}

impl Components {
    /// Of statements that all have as many runs; `None` where a side pair has but one run each.
    pub fn estimate(statements: &[Statement]) -> Option<Components> {
        let first = statements.first()?;
        let runs = (first.before.len() as f64, first.after.len() as f64);
        let freedom = runs.0 + runs.1 - 2.0;
        if freedom < 1.0 {
            return None;
        }
        let deviations: Vec<Vec<f64>> = statements.iter().map(Statement::deviations).collect();
        let common: Vec<f64> = (0..deviations[0].len())
            .map(|run| middle(&mut deviations.iter().map(|one| one[run]).collect::<Vec<f64>>()))
            .collect();
        let seen: Vec<f64> = deviations
            .iter()
            .map(|one| {
                let left = one.iter().zip(&common).map(|(one, common)| one - common);
                left.map(|left| left * left).sum::<f64>() / freedom
            })
            .collect();
        let within: Vec<f64> = statements.iter().map(|one| one.variance_within).collect();
        let beyond = beyond(&seen, &within);
        let ratios: Vec<f64> = seen
            .iter()
            .zip(&within)
            .map(|(seen, within)| seen / (within + beyond).max(f64::MIN_POSITIVE))
            .collect();
        let (lent, scale) = lent(&ratios, freedom);
        Some(Components {
            runs,
            common: common.iter().map(|shift| shift * shift).sum::<f64>() / freedom,
            beyond,
            scale,
            lent,
            shifts: common,
        })
    }

    /// The standard error of a statement's difference, and its degrees of freedom.
    fn error(&self, statement: &Statement) -> (f64, f64) {
        let freedom = self.runs.0 + self.runs.1 - 2.0;
        let deviations = statement.deviations();
        let left = deviations
            .iter()
            .zip(&self.shifts)
            .map(|(one, shift)| one - shift);
        let own = left.map(|left| left * left).sum::<f64>() / freedom;
        let expected = self.scale * (statement.variance_within + self.beyond);
        let moderated = if self.lent >= FREEDOM_MAX {
            expected
        } else {
            (self.lent * expected + freedom * own) / (self.lent + freedom)
        };
        // One that differs from run to run by far more than the others (its plan flips, say) is no
        // case of what they have in common, and stands for itself.
        let (moderated, lent) =
            if self.lent > 0.0 && is_unsteady(own / expected, freedom, self.lent) {
                (own, 0.0)
            } else {
                (moderated, self.lent)
            };
        let each = 1.0 / self.runs.0 + 1.0 / self.runs.1;
        let (common, moderated) = (self.common * each, moderated * each);
        let variance = (common + moderated).max(VARIANCE_MIN);
        let parts = common * common / freedom + moderated * moderated / (lent + freedom);
        // Runs that agree to the last digit have no variance, and none to ask for.
        let satterthwaite = if parts > 0.0 {
            variance * variance / parts
        } else {
            freedom
        };
        (variance.sqrt(), satterthwaite.clamp(1.0, FREEDOM_MAX))
    }

    /// The interval of a statement's ratio that holds it with the chance `level` (0.95).
    pub fn interval(&self, statement: &Statement, level: f64) -> Interval {
        let (error, freedom) = self.error(statement);
        let difference = statement.difference();
        let reach = students_t(freedom).inverse_cdf(0.5 + level / 2.0) * error;
        Interval {
            low: (difference - reach).exp(),
            high: (difference + reach).exp(),
        }
    }

    /// The chance of a difference as great as a statement's, in either direction, if it were truly
    /// `margin` and no more.
    pub fn p_value(&self, statement: &Statement, margin: f64) -> f64 {
        let (error, freedom) = self.error(statement);
        let beyond = statement.difference().abs() - margin.ln_1p();
        (2.0 * students_t(freedom).sf(beyond / error)).min(1.0)
    }

    /// The share by which two runs of the same server differ in what all statements have in common,
    /// as one standard deviation.
    pub fn shift(&self) -> f64 {
        self.common.sqrt().exp_m1()
    }
}

/// Whether so great a ratio of variances is rarer than [`UNSTEADY_LEVEL`] among steady statements.
fn is_unsteady(ratio: f64, freedom: f64, lent: f64) -> bool {
    let lent = lent.min(FREEDOM_MAX);
    let distribution = FisherSnedecor::new(freedom, lent).expect("degrees of freedom are positive");
    ratio > 1.0 && distribution.sf(ratio) < UNSTEADY_LEVEL
}

/// Student's t distribution with these degrees of freedom, which are positive.
pub fn students_t(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("degrees of freedom are positive")
}

/// The variance beyond the one within that makes seen and expected agree on average.
fn beyond(seen: &[f64], within: &[f64]) -> f64 {
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

/// The degrees of freedom that ratios of variances deserve by how well they agree, and their scale
/// (Smyth 2004, section 6.2).
fn lent(ratios: &[f64], freedom: f64) -> (f64, f64) {
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

/// The derivative of digamma, by its recurrence and the asymptotic series (Abramowitz and Stegun,
/// 6.4.6 and 6.4.12).
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 8.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    sum + 1.0 / x + y / 2.0 + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y * (1.0 / 42.0 - y / 30.0)))
}

/// Where trigamma has this value: it falls from infinity to 0, so by halves.
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

    /// 200 statements in `runs` runs a side; the first is longer by the factor.
    fn statements(seed: u64, runs: usize, factor: f64) -> Vec<Statement> {
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
                Statement {
                    before,
                    after,
                    variance_within: within * within,
                }
            })
            .collect()
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        for runs in [2, 3, 5] {
            let (mut held, mut all) = (0, 0);
            for seed in 0..100 {
                let statements = statements(seed, runs, 1.0);
                let components = Components::estimate(&statements).unwrap();
                for one in &statements {
                    let interval = components.interval(one, 0.95);
                    held += u32::from(interval.low <= 1.0 && 1.0 <= interval.high);
                    all += 1;
                }
            }
            let share = f64::from(held) / f64::from(all);
            // The statements of a comparison share the shifts of its runs: a hundred independent
            // witnesses, whose standard error is 2 %.
            assert!((0.90..0.995).contains(&share), "{runs} runs: {share}");
        }
    }

    #[test]
    fn statements_lend_each_other_what_two_runs_cannot_know() {
        let statements = statements(7, 3, 1.5);
        let components = Components::estimate(&statements).unwrap();
        assert!(components.lent > 10.0, "{components:?}");
        assert!(
            (0.005..0.06).contains(&components.shift()),
            "{components:?}"
        );
        assert!(components.p_value(&statements[0], 0.1) < 0.05);
        assert!(components.p_value(&statements[2], 0.1) > 0.5);
    }

    #[test]
    fn one_run_a_side_knows_nothing_of_runs() {
        assert_eq!(Components::estimate(&statements(1, 1, 1.0)), None);
        assert_eq!(Components::estimate(&[]), None);
        let alone = &statements(1, 2, 1.0)[..1];
        let components = Components::estimate(alone).unwrap();
        assert_eq!(components.lent, 0.0);
    }

    #[test]
    fn runs_that_are_equal_have_an_interval() {
        let equal = Statement {
            before: vec![5.0, 5.0],
            after: vec![5.0, 5.0],
            variance_within: 0.0,
        };
        let all = vec![equal.clone(); 10];
        let components = Components::estimate(&all).unwrap();
        let interval = components.interval(&equal, 0.95);
        assert!((interval.low - 1.0).abs() < 1e-6 && (interval.high - 1.0).abs() < 1e-6);
        assert!(components.p_value(&equal, 0.0) > 0.99);
        assert!(components.p_value(&equal, 0.1) > 0.99);
    }

    #[test]
    fn trigamma_has_its_known_values() {
        let pi = std::f64::consts::PI;
        assert!((trigamma(1.0) - pi * pi / 6.0).abs() < 1e-10);
        assert!((trigamma(0.5) - pi * pi / 2.0).abs() < 1e-10);
        assert!((inverse_trigamma(trigamma(3.7)) - 3.7).abs() < 1e-6);
    }
}
