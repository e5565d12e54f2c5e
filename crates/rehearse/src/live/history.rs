//! What was, as points of time; where there are too many, two neighbours become one.

use replay::{LedgerTimes, Times};
use report::LivePointView;

use super::sampler::Between;

/// Points are kept up to this number: a chart has no room for more.
const POINTS_MAX: usize = 720;

/// A stretch of time, with what is needed to make one of two.
#[derive(Debug, Clone)]
struct Stretch {
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

/// What is known of the target in a stretch of time, by name.
#[derive(Debug, Clone, Default)]
pub struct OfTarget {
    /// Backends in each wait, on average.
    pub waits: Vec<(String, f64)>,
    /// Processors busy with each phase, on average.
    pub phases: Vec<(String, f64)>,
}

impl Stretch {
    fn new(between: &Between, in_flight: u64, of_target: OfTarget) -> Self {
        Stretch {
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
            response: between.times.response.packed(),
            tool_lag: between.times.tool_lag.packed(),
            session_lag: between.times.session_lag.packed(),
        }
    }

    /// One of two neighbours.
    fn joined(&self, next: &Stretch) -> Stretch {
        let both = |a: &[(u16, u64)], b: &[(u16, u64)]| {
            let mut times = Times::unpacked(a);
            times.add(&Times::unpacked(b));
            times
        };
        let (first, second) = (self.seconds, next.seconds);
        let seconds = first + second;
        let joined = Between {
            at_ns: (next.view.at_s * 1e9) as i64,
            seconds,
            due: self.due.zip(next.due).map(|(a, b)| a + b),
            sent: self.sent + next.sent,
            answered: self.answered + next.answered,
            failed: self.failed + next.failed,
            times: LedgerTimes {
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
        let of_target = OfTarget {
            waits: mean(&self.view.waits, &next.view.waits),
            phases: mean(&self.view.phases, &next.view.phases),
        };
        Stretch::new(&joined, next.view.in_flight, of_target)
    }
}

/// All that was so far.
#[derive(Debug, Default)]
pub struct History {
    stretches: Vec<Stretch>,
    /// As many looks make a point, but for the last.
    looks: usize,
    /// Looks in the last point.
    in_last: usize,
    /// How often points were changed that viewers have.
    changed: u64,
}

impl History {
    /// Adds what was seen since the last look; `alone` says that it is long enough for a point of its
    /// own.
    pub fn add(&mut self, between: &Between, in_flight: u64, of_target: OfTarget, alone: bool) {
        let new = Stretch::new(between, in_flight, of_target);
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

    /// Grows when points are changed that viewers have: those that they have are right no longer.
    pub fn generation(&self) -> u64 {
        self.changed
    }

    /// How many looks a point covers.
    pub fn looks_a_point(&self) -> usize {
        self.looks.max(1)
    }

    /// How many points will not change any more.
    pub fn complete(&self) -> usize {
        let last_is_whole = self.in_last >= self.looks_a_point();
        self.stretches.len() - usize::from(!last_is_whole && !self.stretches.is_empty())
    }

    /// Points that will not change any more, from this one on; and the last, which may.
    pub fn points(&self, from: usize) -> Vec<LivePointView> {
        let kept = self.stretches.get(from..).unwrap_or_default();
        kept.iter().map(|stretch| stretch.view.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(second: i64) -> Between {
        let mut times = LedgerTimes::default();
        times.response.count((second + 1) * 1_000_000);
        Between {
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
            let of_target = OfTarget {
                waits,
                ..OfTarget::default()
            };
            history.add(&between(second), second as u64, of_target, true);
            assert!(history.stretches.len() <= POINTS_MAX);
            assert!(history.complete() + 1 >= history.stretches.len());
            if history.generation() > before {
                thinned_at.push(second);
            }
        }
        assert_eq!(thinned_at, [720, 1_440, 2_880]);
        assert_eq!(history.looks_a_point(), 8);
        assert_eq!(history.points(0).len(), 625);
        assert_eq!(history.complete(), 625);
        let sum = |of: fn(&Stretch) -> u64| history.stretches.iter().map(of).sum::<u64>();
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
            history.add(&between(second), 1, OfTarget::default(), true);
        }
        assert_eq!(history.points(7).len(), 3);
        assert_eq!(history.points(10).len(), 0);
        assert_eq!(history.points(99).len(), 0);
        assert_eq!(history.complete(), 10);
        // What is too short for rates of its own goes to the point before it.
        let before = history.generation();
        let rest = Between {
            seconds: 0.1,
            ..between(10)
        };
        history.add(&rest, 1, OfTarget::default(), false);
        assert_eq!(history.points(0).len(), 10);
        assert_eq!(history.generation(), before + 1);
        let last = &history.points(9)[0];
        assert_eq!((last.at_s, last.rates.answered_per_s), (11.0, 16.0 / 1.1));
    }
}
