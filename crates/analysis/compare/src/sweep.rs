//! Estimates the results of an experiment at several levels of load, with intervals, and finds the
//! knee.
//!
//! **Estimates.** Throughput and times are positive and vary by ratios, so logarithms are averaged:
//! the centre is a geometric mean. Two or three trials of a point determine their variance badly.
//! So the variance is pooled over the points of the curve, as in a one-way analysis of variance
//! (Montgomery, "Design and Analysis of Experiments", chapter 3), and the interval is Student's
//! with the pooled degrees of freedom. With one trial for each point there is no interval.
//!
//! **The knee** is the level beyond which more load brings little more throughput and longer
//! responses (Jain, "The Art of Computer Systems Performance Analysis", 1991, section 3.3: knee
//! capacity). Between two levels *growth* is the elasticity
//!
//! ```text
//! growth = ln(throughput₂ / throughput₁) / ln(level₂ / level₁)
//! ```
//!
//! It is 1 if twice the clients bring twice the throughput, and 0 if they bring none. In a closed
//! loop without think times, clients = throughput × response time (Little 1961), so response times
//! grow by 1 − growth. The knee is the smallest level from which every further step grows by less
//! than [`GROWTH_MIN`], provided that response times grow accordingly. If they do not, the server
//! does not limit throughput, and there is no knee. The threshold is this project's choice: beyond
//! it, three quarters of each added client wait.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Minimum growth of a worthwhile step.
pub const GROWTH_MIN: f64 = 0.25;
/// Confidence level of intervals.
const LEVEL: f64 = 0.95;

/// Estimate from the trials at one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// Geometric mean.
    pub centre: f64,
    /// 95 % interval, if there are enough trials.
    pub interval: Option<(f64, f64)>,
    /// Number of trials.
    pub trials: usize,
}

/// Logarithms of the points of a curve, with their pooled variance.
struct Logs {
    means: Vec<Option<(f64, usize)>>,
    /// Pooled standard deviation and its degrees of freedom.
    spread: Option<(f64, f64)>,
}

impl Logs {
    fn of(points: &[Vec<f64>]) -> Logs {
        let (mut squares, mut freedom) = (0.0, 0usize);
        let mut mean = |values: &Vec<f64>| {
            let logs: Vec<f64> = values
                .iter()
                .filter(|value| **value > 0.0 && value.is_finite())
                .map(|value| value.ln())
                .collect();
            let count = logs.len();
            if count == 0 {
                return None;
            }
            let mean = logs.iter().sum::<f64>() / count as f64;
            squares += logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            freedom += count - 1;
            Some((mean, count))
        };
        let means = points.iter().map(&mut mean).collect();
        let spread = (freedom > 0).then(|| ((squares / freedom as f64).sqrt(), freedom as f64));
        Logs { means, spread }
    }

    /// Returns the half width of the interval of a mean whose variance is the pooled one times
    /// `share`.
    fn half(&self, share: f64) -> Option<f64> {
        let (deviation, freedom) = self.spread?;
        let students_t = StudentsT::new(0.0, 1.0, freedom).ok()?;
        Some(students_t.inverse_cdf(0.5 + LEVEL / 2.0) * deviation * share.sqrt())
    }
}

/// Estimates the points of a curve, each with one value for each trial; `None` for a point with a
/// value that is not positive.
pub fn estimates(points: &[Vec<f64>]) -> Vec<Option<Estimate>> {
    let logs = Logs::of(points);
    let estimate = |mean: &Option<(f64, usize)>| {
        let (mean, trials) = (*mean)?;
        let half = logs.half(1.0 / trials as f64);
        Some(Estimate {
            centre: mean.exp(),
            interval: half.map(|half| ((mean - half).exp(), (mean + half).exp())),
            trials,
        })
    };
    logs.means.iter().map(estimate).collect()
}

/// Step from one level to the next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Step {
    /// The lower level.
    pub from: f64,
    /// The higher level.
    pub to: f64,
    /// Growth of throughput.
    pub growth: f64,
    /// 95 % interval, if there are enough trials.
    pub interval: Option<(f64, f64)>,
    /// Growth of the mean response time, by the same formula.
    pub response_growth: Option<f64>,
}

/// Growth of a curve by step, and its knee.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct KneeEstimate {
    /// Steps from level to level, ascending.
    pub steps: Vec<Step>,
    /// The knee.
    pub knee: Option<Knee>,
    /// The reason why there is no knee.
    pub no_knee: Option<NoKnee>,
    /// Level with the greatest throughput.
    pub peak: Option<f64>,
    /// Throughput at the highest level as a share of that at the peak, if the interval of their
    /// ratio shows that it is less.
    pub falls_to: Option<f64>,
}

/// The knee of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Knee {
    /// Level of the knee.
    pub level: f64,
    /// Lowest and highest level at which the knee may be, by the intervals of the steps. The second
    /// is `None` if the knee may be beyond the range. `None` without intervals.
    pub between: Option<(f64, Option<f64>)>,
    /// Whether it is the lowest level tried, so that the knee may be below it.
    pub is_lowest: bool,
}

/// Reason why a curve has no knee.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoKnee {
    /// Fewer than two levels have a result.
    OneLevel,
    /// Throughput still grows at the highest level.
    StillGrows,
    /// Neither throughput nor response times grow: the server does not receive more load.
    NotAsked,
    /// Some trial at a level above the others completed nothing: throughput does not level off but
    /// ends.
    Collapses {
        /// Lowest such level.
        level: f64,
    },
    /// By the intervals, the knee may be at any level, or at none.
    Unclear,
}

/// Finds the knee of a curve, given for each level the throughputs and mean response times of its
/// trials. Levels are positive, in any order.
pub fn estimate_knee(points: &[(f64, Vec<f64>, Vec<f64>)]) -> KneeEstimate {
    // Zero has no logarithm, so levels that completed nothing are handled separately.
    let ends_at = points
        .iter()
        .filter(|(level, values, _)| *level > 0.0 && values.contains(&0.0))
        .map(|(level, ..)| *level)
        .min_by(f64::total_cmp);
    let mut points: Vec<&(f64, Vec<f64>, Vec<f64>)> = points
        .iter()
        .filter(|(level, values, _)| *level > 0.0 && values.iter().any(|value| *value > 0.0))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let levels: Vec<f64> = points.iter().map(|point| point.0).collect();
    let throughputs: Vec<Vec<f64>> = points.iter().map(|point| point.1.clone()).collect();
    let responses: Vec<Vec<f64>> = points.iter().map(|point| point.2.clone()).collect();
    let (logs, response_logs) = (Logs::of(&throughputs), Logs::of(&responses));
    let mean = |logs: &Logs, place: usize| logs.means[place];
    let mut steps = Vec::new();
    for place in 1..levels.len() {
        let stride = (levels[place] / levels[place - 1]).ln();
        let (Some(low), Some(high)) = (mean(&logs, place - 1), mean(&logs, place)) else {
            continue;
        };
        let growth = (high.0 - low.0) / stride;
        let half = logs.half(1.0 / low.1 as f64 + 1.0 / high.1 as f64);
        let response = mean(&response_logs, place - 1).zip(mean(&response_logs, place));
        steps.push(Step {
            from: levels[place - 1],
            to: levels[place],
            growth,
            interval: half.map(|half| (growth - half / stride, growth + half / stride)),
            response_growth: response.map(|(low, high)| (high.0 - low.0) / stride),
        });
    }
    let best = (0..levels.len())
        .filter_map(|place| Some((place, mean(&logs, place)?)))
        .max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let falls_to = best.and_then(|(place, peak)| {
        let last = mean(&logs, levels.len().checked_sub(1)?)?;
        let half = logs.half(1.0 / last.1 as f64 + 1.0 / peak.1 as f64)?;
        let fall = last.0 - peak.0;
        (place + 1 < levels.len() && fall + half < 0.0).then(|| fall.exp())
    });
    let knee = match (knee(&steps), ends_at) {
        (Err(NoKnee::StillGrows | NoKnee::OneLevel), Some(level)) => {
            Err(NoKnee::Collapses { level })
        }
        (Ok(found), Some(level)) if found.level >= level => Err(NoKnee::Collapses { level }),
        (found, _) => found,
    };
    KneeEstimate {
        knee: knee.ok(),
        no_knee: knee.err(),
        steps,
        peak: best.map(|(place, _)| levels[place]),
        falls_to,
    }
}

fn knee(steps: &[Step]) -> Result<Knee, NoKnee> {
    if steps.is_empty() {
        return Err(NoKnee::OneLevel);
    }
    // Smallest level from which all steps are below the threshold, by one of their numbers.
    let first = |number: &dyn Fn(&Step) -> f64| {
        let below = steps.iter().rev();
        let count = below.take_while(|step| number(step) < GROWTH_MIN).count();
        steps.get(steps.len() - count).filter(|_| count > 0)
    };
    let found = first(&|step| step.growth).ok_or(NoKnee::StillGrows)?;
    // In a closed loop responses grow by more than 1 − GROWTH_MIN; half of it allows for noise.
    let waits = |growth: f64| growth > (1.0 - GROWTH_MIN) / 2.0;
    if found.response_growth.is_some_and(|growth| !waits(growth)) {
        return Err(NoKnee::NotAsked);
    }
    let bounded = steps.iter().all(|step| step.interval.is_some());
    let between = bounded.then(|| {
        let edge = |step: &Step, upper: bool| {
            let (low, high) = step.interval.expect("all have one");
            if upper { high } else { low }
        };
        let lowest = first(&|step| edge(step, false)).map_or(found.from, |step| step.from);
        let highest = first(&|step| edge(step, true)).map(|step| step.from);
        (lowest, highest)
    });
    if between == Some((steps[0].from, None)) {
        return Err(NoKnee::Unclear);
    }
    Ok(Knee {
        level: found.from,
        between,
        is_lowest: found.from == steps[0].from,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Closed loop: response times follow from the throughput.
    fn curve(points: &[(f64, &[f64])]) -> Vec<(f64, Vec<f64>, Vec<f64>)> {
        let point = |(level, throughputs): &(f64, &[f64])| {
            let responses = throughputs.iter().map(|one| level / one).collect();
            (*level, throughputs.to_vec(), responses)
        };
        points.iter().map(point).collect()
    }

    #[test]
    fn estimate_matches_textbook_interval() {
        // exp(0), exp(0.2); exp(1), exp(1.2): means 0.1 and 1.1, each with a sum of squares of 0.02;
        // pooled over 2 degrees of freedom s² = 0.02, so s = 0.141421, s/√2 = 0.1, t(2; 0.975) =
        // 4.302653.
        let points = [
            vec![1.0, 0.2f64.exp()],
            vec![1f64.exp(), 1.2f64.exp()],
            vec![0.0],
        ];
        let found = estimates(&points);
        let one = found[0].unwrap();
        let (low, high) = one.interval.unwrap();
        assert!((one.centre.ln() - 0.1).abs() < 1e-9);
        assert!((low.ln() - (0.1 - 0.430_265_3)).abs() < 1e-6, "{low}");
        assert!((high.ln() - (0.1 + 0.430_265_3)).abs() < 1e-6, "{high}");
        assert_eq!((one.trials, found[2]), (2, None));
        assert_eq!(estimates(&[vec![5.0]])[0].unwrap().interval, None);
    }

    #[test]
    fn knee_is_where_growth_ends() {
        let bend = estimate_knee(&curve(&[
            (1.0, &[100.0, 101.0]),
            (2.0, &[198.0, 200.0]),
            (4.0, &[390.0, 388.0]),
            (8.0, &[420.0, 421.0]),
            (16.0, &[415.0, 418.0]),
        ]));
        let knee = bend.knee.unwrap();
        assert_eq!(knee.level, 4.0);
        assert_eq!(knee.between, Some((4.0, Some(4.0))));
        assert!(!knee.is_lowest);
        assert_eq!(bend.peak, Some(8.0));
        assert!((bend.steps[0].growth - 0.985).abs() < 0.01);
        // By Little's law.
        for step in &bend.steps {
            let sum = step.growth + step.response_growth.unwrap();
            assert!((sum - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn level_without_completed_work_ends_growth() {
        let ends = |at: &[f64]| {
            estimate_knee(&curve(&[
                (1.0, &[100.0, 102.0]),
                (2.0, &[190.0, 195.0]),
                (4.0, at),
            ]))
            .no_knee
        };
        assert_eq!(ends(&[0.0, 0.0]), Some(NoKnee::Collapses { level: 4.0 }));
        assert_eq!(ends(&[370.0, 0.0]), Some(NoKnee::Collapses { level: 4.0 }));
        assert_eq!(ends(&[370.0, 372.0]), Some(NoKnee::StillGrows));
    }

    #[test]
    fn growing_curve_has_no_knee_and_noise_widens_its_range() {
        let grows = estimate_knee(&curve(&[(1.0, &[100.0]), (2.0, &[190.0]), (4.0, &[350.0])]));
        assert_eq!(grows.no_knee, Some(NoKnee::StillGrows));
        let single = estimate_knee(&curve(&[(4.0, &[100.0])]));
        assert_eq!(single.no_knee, Some(NoKnee::OneLevel));
        assert_eq!(estimate_knee(&[]).no_knee, Some(NoKnee::OneLevel));

        let noisy = estimate_knee(&curve(&[
            (1.0, &[80.0, 125.0]),
            (2.0, &[160.0, 240.0]),
            (4.0, &[170.0, 260.0]),
        ]));
        assert_eq!(noisy.no_knee, Some(NoKnee::Unclear));
        // With a single trial for each point there is a knee without an interval.
        let single = estimate_knee(&curve(&[(1.0, &[100.0]), (2.0, &[110.0])])).knee;
        let single = single.unwrap();
        assert_eq!(
            (single.level, single.between, single.is_lowest),
            (1.0, None, true)
        );
    }

    #[test]
    fn clear_fall_after_the_peak_is_reported() {
        let falls = |last: &[f64]| {
            estimate_knee(&curve(&[
                (10.0, &[500.0, 505.0]),
                (40.0, &[900.0, 910.0]),
                (80.0, last),
            ]))
        };
        let clear = falls(&[600.0, 610.0]);
        assert!((clear.falls_to.unwrap() - 0.6685).abs() < 0.001);
        assert_eq!(clear.peak, Some(40.0));
        assert_eq!(falls(&[899.0, 902.0]).falls_to, None);
    }

    #[test]
    fn idle_clients_make_no_knee() {
        // Throughput and response times stay constant: nobody sends more load.
        let points = vec![
            (1.0, vec![100.0, 100.0], vec![0.010, 0.010]),
            (2.0, vec![105.0, 105.0], vec![0.010, 0.010]),
        ];
        assert_eq!(estimate_knee(&points).no_knee, Some(NoKnee::NotAsked));
    }
}
