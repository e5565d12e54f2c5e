//! History of a replay as points in time. When there are too many, each pair of neighbours is
//! merged.

use replay::{LatencyHistogram, LatencyHistograms};
use report::LivePointView;

use super::sampler::SampleDifference;

/// Largest number of points. A chart can show no more.
const POINTS_MAX: usize = 720;

/// Time interval, with the data that merging two intervals needs.
#[derive(Debug, Clone)]
struct Interval {
    view: LivePointView,
    seconds: f64,
    due: Option<u64>,
    sent: u64,
    answered: u64,
    failed: u64,
    response: Vec<(u16, u64)>,
    tool_lag: Vec<(u16, u64)>,
    session_lag: Vec<(u16, u64)>,
}

/// Averages of the target in a time interval, by name.
#[derive(Debug, Clone, Default)]
pub struct TargetAverages {
    /// Average number of backends in each wait.
    pub waits: Vec<(String, f64)>,
    /// Average number of CPUs busy with each phase.
    pub phases: Vec<(String, f64)>,
}

impl Interval {
    fn new(between: &SampleDifference, in_flight: u64, of_target: TargetAverages) -> Self {
        Interval {
            view: LivePointView {
                at_s: between.at_ns as f64 / 1e9,
                rates: between.rates(),
                in_flight,
                waits: of_target.waits,
                phases: of_target.phases,
            },
            seconds: between.seconds,
            due: between.due,
            sent: between.sent,
            answered: between.answered,
            failed: between.failed,
            response: between.times.response.to_sparse(),
            tool_lag: between.times.tool_lag.to_sparse(),
            session_lag: between.times.session_lag.to_sparse(),
        }
    }

    /// Merges the interval with the next one.
    fn joined(&self, next: &Interval) -> Interval {
        let both = |a: &[(u16, u64)], b: &[(u16, u64)]| {
            let mut times = LatencyHistogram::from_sparse(a);
            times.add(&LatencyHistogram::from_sparse(b));
            times
        };
        let (first, second) = (self.seconds, next.seconds);
        let seconds = first + second;
        let joined = SampleDifference {
            at_ns: (next.view.at_s * 1e9) as i64,
            seconds,
            due: self.due.zip(next.due).map(|(a, b)| a + b),
            sent: self.sent + next.sent,
            answered: self.answered + next.answered,
            failed: self.failed + next.failed,
            times: LatencyHistograms {
                response: both(&self.response, &next.response),
                tool_lag: both(&self.tool_lag, &next.tool_lag),
                session_lag: both(&self.session_lag, &next.session_lag),
            },
        };
        let mean = |a: &[(String, f64)], b: &[(String, f64)]| {
            let mut out: Vec<(String, f64)> = Vec::new();
            for (values, part) in [(a, first / seconds), (b, second / seconds)] {
                for (name, value) in values {
                    match out.iter_mut().find(|(other, _)| other == name) {
                        Some((_, sum)) => *sum += value * part,
                        None => out.push((name.clone(), value * part)),
                    }
                }
            }
            out
        };
        let of_target = TargetAverages {
            waits: mean(&self.view.waits, &next.view.waits),
            phases: mean(&self.view.phases, &next.view.phases),
        };
        Interval::new(&joined, next.view.in_flight, of_target)
    }
}

/// All points so far.
#[derive(Debug, Default)]
pub struct History {
    stretches: Vec<Interval>,
    /// Samples per point, except for the last.
    looks: usize,
    /// Samples in the last point.
    in_last: usize,
    /// Number of times that points already sent to viewers have changed.
    changed: u64,
}

impl History {
    /// Adds the data since the last sample. `alone` tells that the interval is long enough for a
    /// separate point.
    pub fn add(
        &mut self,
        between: &SampleDifference,
        in_flight: u64,
        of_target: TargetAverages,
        alone: bool,
    ) {
        let new = Interval::new(between, in_flight, of_target);
        let looks = self.looks.max(1);
        match self.stretches.last_mut() {
            Some(last) if self.in_last < looks || !alone => {
                *last = last.joined(&new);
                self.in_last += 1;
                if self.in_last > looks {
                    // Viewers have it already, as it was.
                    self.changed += 1;
                }
            }
            _ => {
                self.thin();
                self.stretches.push(new);
                self.in_last = 1;
            }
        }
    }

    fn thin(&mut self) {
        if self.stretches.len() < POINTS_MAX {
            return;
        }
        let pairs = self.stretches.chunks(2);
        self.stretches = pairs
            .map(|pair| match pair {
                [first, second] => first.joined(second),
                one => one[0].clone(),
            })
            .collect();
        self.looks = self.looks.max(1) * 2;
        self.changed += 1;
    }

    /// Returns a number that grows when points already sent to viewers change.
    pub fn generation(&self) -> u64 {
        self.changed
    }

    /// Returns the number of samples per point.
    pub fn samples_per_point(&self) -> usize {
        self.looks.max(1)
    }

    /// Returns the number of points that are final.
    pub fn complete(&self) -> usize {
        let last_is_whole = self.in_last >= self.samples_per_point();
        self.stretches.len() - usize::from(!last_is_whole && !self.stretches.is_empty())
    }

    /// Returns the final points from this index on, followed by the last point, which may still
    /// change.
    pub fn points(&self, from: usize) -> Vec<LivePointView> {
        let kept = self.stretches.get(from..).unwrap_or_default();
        kept.iter().map(|stretch| stretch.view.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(second: i64) -> SampleDifference {
        let mut times = LatencyHistograms::default();
        times.response.count((second + 1) * 1_000_000);
        SampleDifference {
            at_ns: (second + 1) * 1_000_000_000,
            seconds: 1.0,
            due: Some(10),
            sent: 9,
            answered: 8,
            failed: 1,
            times,
        }
    }

    #[test]
    fn a_long_replay_keeps_few_points_that_add_up() {
        let mut history = History::default();
        let (mut thinned_at, looks) = (Vec::new(), 5_000);
        for second in 0..looks {
            let before = history.generation();
            let waits = vec![("Lock".to_owned(), f64::from(second as u32 % 2))];
            let of_target = TargetAverages {
                waits,
                ..TargetAverages::default()
            };
            history.add(&between(second), second as u64, of_target, true);
            assert!(history.stretches.len() <= POINTS_MAX);
            assert!(history.complete() + 1 >= history.stretches.len());
            if history.generation() > before {
                thinned_at.push(second);
            }
        }
        assert_eq!(thinned_at, [720, 1_440, 2_880]);
        assert_eq!(history.samples_per_point(), 8);
        assert_eq!(history.points(0).len(), 625);
        assert_eq!(history.complete(), 625);
        let sum = |of: fn(&Interval) -> u64| history.stretches.iter().map(of).sum::<u64>();
        assert_eq!(sum(|one| one.answered), 8 * looks as u64);
        assert_eq!(sum(|one| one.due.unwrap()), 10 * looks as u64);
        let points = history.points(0);
        for (at, point) in points.iter().enumerate() {
            assert_eq!(point.at_s, 8.0 * (at + 1) as f64);
            assert_eq!(point.rates.answered_per_s, 8.0);
            assert!((point.waits[0].1 - 0.5).abs() < 1e-9);
        }
        // A quantile of two is that of all their times, not of their quantiles.
        let last = points.last().unwrap().rates.times.response.unwrap();
        assert!((4.9e6..5.4e6).contains(&last.p99_us), "{last:?}");
        assert!((4.6e6..5.4e6).contains(&last.p50_us), "{last:?}");
    }

    #[test]
    fn a_viewer_that_has_some_gets_the_rest() {
        let mut history = History::default();
        for second in 0..10 {
            history.add(&between(second), 1, TargetAverages::default(), true);
        }
        assert_eq!(history.points(7).len(), 3);
        assert_eq!(history.points(10).len(), 0);
        assert_eq!(history.points(99).len(), 0);
        assert_eq!(history.complete(), 10);
        // What is too short for rates of its own goes to the point before it.
        let before = history.generation();
        let rest = SampleDifference {
            seconds: 0.1,
            ..between(10)
        };
        history.add(&rest, 1, TargetAverages::default(), false);
        assert_eq!(history.points(0).len(), 10);
        assert_eq!(history.generation(), before + 1);
        let last = &history.points(9)[0];
        assert_eq!((last.at_s, last.rates.answered_per_s), (11.0, 16.0 / 1.1));
    }
}
