//! The rate limiter after the claim. Links above the target rate are postponed by up to a minute (the *snowplow*).
//! The target rate falls when the error rate rises.

use std::collections::VecDeque;
use std::time::Instant;

/// Postpones links that were claimed and exceed the rate: the suspected statement.
pub const POSTPONE: &str = "UPDATE image_links SET download_after = now() + random() * interval '1 min', queued_at = NULL \
     WHERE id = ANY($1)";

/// Number of attempts over which the error rate is computed.
const WINDOW: usize = 10;
/// Minimum target, as a share of the maximum rate.
const MIN_SHARE: f64 = 0.05;
/// Factor by which the error rate reduces the target.
const STEEPNESS: f64 = 3.0;
/// Burst size, in seconds of the target rate.
const BURST_S: f64 = 0.1;

/// A token bucket that refills at the target rate. Times are parameters, so that tests control them.
#[derive(Debug)]
pub struct Limiter {
    most_per_s: f64,
    tokens: f64,
    filled: Instant,
    attempts: VecDeque<bool>,
}

impl Limiter {
    /// Creates a limiter with a maximum rate.
    pub fn new(most_per_s: f64, now: Instant) -> Self {
        Limiter {
            most_per_s,
            tokens: (most_per_s * BURST_S).max(1.0),
            filled: now,
            attempts: VecDeque::with_capacity(WINDOW),
        }
    }

    /// Returns the present target rate. It is at its minimum if a third of the attempts fails.
    pub fn target_per_s(&self) -> f64 {
        let failed = self.attempts.iter().filter(|failed| **failed).count();
        let errors = match self.attempts.len() {
            WINDOW => failed as f64 / WINDOW as f64,
            _ => 0.0,
        };
        self.most_per_s * (1.0 - STEEPNESS * errors).max(MIN_SHARE)
    }

    /// Records the result of an attempt.
    pub fn record(&mut self, failed: bool) {
        if self.attempts.len() == WINDOW {
            self.attempts.pop_front();
        }
        self.attempts.push_back(failed);
    }

    /// Returns how many of `wanted` may pass now.
    pub fn take(&mut self, wanted: usize, now: Instant) -> usize {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.filled = now;
        let target_per_s = self.target_per_s();
        let room = (target_per_s * BURST_S).max(1.0);
        self.tokens = (self.tokens + passed * target_per_s).min(room);
        let taken = (self.tokens as usize).min(wanted);
        self.tokens -= taken as f64;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn take_limits_the_rate_and_errors_lower_it() {
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut limiter = Limiter::new(100.0, begun);
        assert_eq!(limiter.take(50, at(0)), 10);
        assert_eq!(limiter.take(50, at(0)), 0);
        assert_eq!(limiter.take(50, at(50)), 5);
        for attempt in 0..WINDOW {
            limiter.record(attempt % 10 == 0);
        }
        assert!((limiter.target_per_s() - 70.0).abs() < 1e-9);
        assert_eq!(limiter.take(50, at(150)), 7);
        for _ in 0..WINDOW {
            limiter.record(true);
        }
        assert!((limiter.target_per_s() - 5.0).abs() < 1e-9);
        assert_eq!(limiter.take(50, at(1_150)), 1);
        for _ in 0..WINDOW {
            limiter.record(false);
        }
        assert!((limiter.target_per_s() - 100.0).abs() < 1e-9);
    }
}
