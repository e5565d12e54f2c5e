//! Differences of a replay's counters: since the last sample, and over the last seconds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use replay::{LatencyHistogram, LatencyHistograms, Metrics, MetricsReading};
use report::{LiveErrorView, LiveQuantilesView, LiveRates, LiveTimesView};

/// Number of samples that "lately" covers. Numbers of a single sample would flicker.
pub const LATELY_LOOKS: usize = 5;

/// Values of one sample.
#[derive(Clone)]
pub struct Sample {
    /// Counters of the meter.
    pub readings: MetricsReading,
    /// Accumulated times.
    pub times: LatencyHistograms,
}

/// Repeated sampler of a replay's meter.
pub struct Sampler {
    meter: Arc<Metrics>,
    is_timed: bool,
    /// Last samples, the latest last; never empty.
    seen: VecDeque<Sample>,
    looked: Instant,
}

/// Differences between two samples.
pub struct SampleDifference {
    /// End of the interval, in nanoseconds from the start.
    pub at_ns: i64,
    /// Length of the interval.
    pub seconds: f64,
    /// Statements that became due; `None` if the replay is not timed.
    pub due: Option<u64>,
    /// Statements that were sent.
    pub sent: u64,
    /// Statements that were answered, including failures.
    pub answered: u64,
    /// Failures, including those of statements that were not sent.
    pub failed: u64,
    /// Times of statements that ended.
    pub times: LatencyHistograms,
}

impl SampleDifference {
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
    /// Starts sampling. The meter keeps a ledger from now on.
    pub fn new(meter: &Arc<Metrics>, is_timed: bool) -> Self {
        meter.enable_live_stats();
        let mut sampler = Sampler {
            meter: meter.clone(),
            is_timed,
            seen: VecDeque::new(),
            looked: Instant::now(),
        };
        let first = sampler.sample();
        sampler.seen.push_back(first);
        sampler
    }

    fn sample(&self) -> Sample {
        // Times are read first, so that they never include more statements than the counts.
        let times = self.meter.latencies().unwrap_or_default();
        Sample {
            readings: self.meter.read(),
            times,
        }
    }

    /// Takes a sample, and returns the differences from the last one. Their length is zero if
    /// the replay's time jumped, since no rate is known then.
    pub fn look(&mut self) -> SampleDifference {
        let now = self.sample();
        let mut between = self.between(self.latest(), &now);
        let passed = self.looked.elapsed().as_secs_f64();
        self.looked = Instant::now();
        if between.seconds > passed * 2.0 + 1.0 {
            // A resumed replay has the previous run's time from its first statement on.
            self.seen.clear();
            between.seconds = 0.0;
        }
        self.seen.push_back(now);
        while self.seen.len() > LATELY_LOOKS + 1 {
            self.seen.pop_front();
        }
        between
    }

    /// Returns the last sample.
    pub fn latest(&self) -> &Sample {
        self.seen.back().expect("it begins with one")
    }

    fn earliest(&self) -> &Sample {
        self.seen.front().expect("it begins with one")
    }

    /// Returns the rates of the last seconds.
    pub fn lately(&self) -> LiveRates {
        self.between(self.earliest(), self.latest()).rates()
    }

    /// Returns failures by SQLSTATE, the most frequent first.
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

    fn between(&self, then: &Sample, now: &Sample) -> SampleDifference {
        let ended = |seen: &Sample| counted(&seen.readings, "statements_ended");
        let sent = |seen: &Sample| counted(&seen.readings, "statements_sent");
        let (before, after) = (&then.readings, &now.readings);
        let due = after.due.unwrap_or(0) - before.due.unwrap_or(0);
        SampleDifference {
            at_ns: after.elapsed_ns,
            seconds: (after.elapsed_ns - before.elapsed_ns) as f64 / 1e9,
            due: self.is_timed.then_some(due),
            sent: sent(now).saturating_sub(sent(then)),
            answered: ended(now).saturating_sub(ended(then)),
            failed: after.failed.saturating_sub(before.failed),
            times: LatencyHistograms {
                response: now.times.response.since(&then.times.response),
                tool_lag: now.times.tool_lag.since(&then.times.tool_lag),
                session_lag: now.times.session_lag.since(&then.times.session_lag),
            },
        }
    }

    /// Returns the meter.
    pub fn meter(&self) -> &Metrics {
        &self.meter
    }
}

/// Returns a counter by its name.
pub fn counted(readings: &MetricsReading, name: &str) -> u64 {
    let found = readings.counters.iter().find(|one| one.name == name);
    found.map_or(0, |one| one.value)
}

/// Returns quantiles of times.
pub fn times_view(times: &LatencyHistograms) -> LiveTimesView {
    LiveTimesView {
        response: quantiles(&times.response),
        tool_lag: quantiles(&times.tool_lag),
        session_lag: quantiles(&times.session_lag),
    }
}

fn quantiles(times: &LatencyHistogram) -> Option<LiveQuantilesView> {
    let us = |part| Some(times.quantile(part)? as f64 / 1e3);
    Some(LiveQuantilesView {
        p50_us: us(0.5)?,
        p95_us: us(0.95)?,
        p99_us: us(0.99)?,
    })
}
