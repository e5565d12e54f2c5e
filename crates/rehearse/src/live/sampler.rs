//! Differences of what a replay counts: what it did since the last look, and in the last seconds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use replay::{LedgerTimes, Meter, Readings, Times};
use report::{LiveErrorView, LiveQuantilesView, LiveRates, LiveTimesView};

/// "Lately" is as many looks back: numbers of one look alone would flicker.
pub const LATELY_LOOKS: usize = 5;

/// What was seen at one look.
#[derive(Clone)]
pub struct Seen {
    /// What the meter counted.
    pub readings: Readings,
    /// The times so far.
    pub times: LedgerTimes,
}

/// Looks at a replay's meter again and again.
pub struct Sampler {
    meter: Arc<Meter>,
    is_timed: bool,
    /// The last looks, the latest last; never empty.
    seen: VecDeque<Seen>,
    looked: Instant,
}

/// What happened between two looks.
pub struct Between {
    /// Its end, in nanoseconds from the start.
    pub at_ns: i64,
    /// How long it is.
    pub seconds: f64,
    /// Statements that came due; `None` where no time decides.
    pub due: Option<u64>,
    /// Statements that were sent.
    pub sent: u64,
    /// Statements that were answered, failures among them.
    pub answered: u64,
    /// Failures of what was sent or not.
    pub failed: u64,
    /// Times of what ended.
    pub times: LedgerTimes,
}

impl Between {
    /// Returns rates and times.
    pub fn rates(&self) -> LiveRates {
        let per_s = |count: u64| match self.seconds > 0.0 {
            true => count as f64 / self.seconds,
            false => 0.0,
        };
        LiveRates {
            due_per_s: self.due.map(per_s),
            sent_per_s: per_s(self.sent),
            answered_per_s: per_s(self.answered),
            failed_per_s: per_s(self.failed),
            times: times_view(&self.times),
        }
    }
}

impl Sampler {
    /// Begins to look; the meter keeps a ledger from now on.
    pub fn new(meter: &Arc<Meter>, is_timed: bool) -> Self {
        meter.keep_ledger();
        let mut sampler = Sampler {
            meter: meter.clone(),
            is_timed,
            seen: VecDeque::new(),
            looked: Instant::now(),
        };
        let first = sampler.see();
        sampler.seen.push_back(first);
        sampler
    }

    fn see(&self) -> Seen {
        // Times first: they are behind the counts then, never before them.
        let times = self.meter.times().unwrap_or_default();
        Seen {
            readings: self.meter.read(),
            times,
        }
    }

    /// Looks again, and gives what happened since the last time. It took no time where the replay's time
    /// jumped: nothing can be said then of how much happened in a second.
    pub fn look(&mut self) -> Between {
        let now = self.see();
        let mut between = self.between(self.latest(), &now);
        let passed = self.looked.elapsed().as_secs_f64();
        self.looked = Instant::now();
        if between.seconds > passed * 2.0 + 1.0 {
            // A replay that goes on with another has that one's time from its first statement on.
            self.seen.clear();
            between.seconds = 0.0;
        }
        self.seen.push_back(now);
        while self.seen.len() > LATELY_LOOKS + 1 {
            self.seen.pop_front();
        }
        between
    }

    /// What was seen at the last look.
    pub fn latest(&self) -> &Seen {
        self.seen.back().expect("it begins with one")
    }

    fn earliest(&self) -> &Seen {
        self.seen.front().expect("it begins with one")
    }

    /// The last seconds.
    pub fn lately(&self) -> LiveRates {
        self.between(self.earliest(), self.latest()).rates()
    }

    /// Failures by SQLSTATE, the most first.
    pub fn errors(&self) -> Vec<LiveErrorView> {
        let before = &self.earliest().readings.failed_by;
        let now = &self.latest().readings.failed_by;
        let of = |(code, count): &(String, u64)| {
            let then = before.iter().find(|(other, _)| other == code);
            LiveErrorView::new(code, *count, count - then.map_or(0, |(_, then)| *then))
        };
        let mut errors: Vec<LiveErrorView> = now.iter().map(of).collect();
        errors.sort_by(|a, b| (b.count, &a.sqlstate).cmp(&(a.count, &b.sqlstate)));
        errors
    }

    fn between(&self, then: &Seen, now: &Seen) -> Between {
        let ended = |seen: &Seen| counted(&seen.readings, "statements_ended");
        let sent = |seen: &Seen| counted(&seen.readings, "statements_sent");
        let (before, after) = (&then.readings, &now.readings);
        let due = after.due.unwrap_or(0) - before.due.unwrap_or(0);
        Between {
            at_ns: after.elapsed_ns,
            seconds: (after.elapsed_ns - before.elapsed_ns) as f64 / 1e9,
            due: self.is_timed.then_some(due),
            sent: sent(now).saturating_sub(sent(then)),
            answered: ended(now).saturating_sub(ended(then)),
            failed: after.failed.saturating_sub(before.failed),
            times: LedgerTimes {
                response: now.times.response.since(&then.times.response),
                tool_lag: now.times.tool_lag.since(&then.times.tool_lag),
                session_lag: now.times.session_lag.since(&then.times.session_lag),
            },
        }
    }

    /// The meter that it looks at.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}

/// A count by its name.
pub fn counted(readings: &Readings, name: &str) -> u64 {
    let found = readings.counted.iter().find(|one| one.name == name);
    found.map_or(0, |one| one.value)
}

/// Quantiles of times.
pub fn times_view(times: &LedgerTimes) -> LiveTimesView {
    LiveTimesView {
        response: quantiles(&times.response),
        tool_lag: quantiles(&times.tool_lag),
        session_lag: quantiles(&times.session_lag),
    }
}

fn quantiles(times: &Times) -> Option<LiveQuantilesView> {
    let us = |part| Some(times.quantile(part)? as f64 / 1e3);
    Some(LiveQuantilesView {
        p50_us: us(0.5)?,
        p95_us: us(0.95)?,
        p99_us: us(0.99)?,
    })
}
