//! The rate limiter behind the claim: what exceeds the target rate is put off by up to a minute (the
//! *snowplow*). The target follows the rate of errors: who fails is asked less.

use std::collections::VecDeque;
use std::time::Instant;

/// What puts off links that were claimed and are too much for now: the suspect.
pub const PUT_OFF: &str = "UPDATE image_links SET download_after = now() + random() * interval '1 min', queued_at = NULL \
     WHERE id = ANY($1)";

/// Attempts that the rate of errors is of.
const WINDOW: usize = 10;
/// The target is no less than this share of the most.
const LEAST: f64 = 0.05;
/// So many times the rate of errors is taken off.
const STEEPNESS: f64 = 3.0;
/// So many seconds of the target are let through at once.
const BURST_S: f64 = 0.1;

/// A bucket of tokens that fills at the target rate. Times are given, so that it can be turned by hand.
#[derive(Debug)]
pub struct Limiter {
    most_per_s: f64,
    tokens: f64,
    filled: Instant,
    attempts: VecDeque<bool>,
}

impl Limiter {
    /// Lets through so many a second at most.
    pub fn new(most_per_s: f64, now: Instant) -> Self {
        Limiter {
            most_per_s,
            tokens: (most_per_s * BURST_S).max(1.0),
            filled: now,
            attempts: VecDeque::with_capacity(WINDOW),
        }
    }

    /// How many a second are let through now: next to none where a third of the attempts fails.
    pub fn target_per_s(&self) -> f64 {
        let failed = self.attempts.iter().filter(|failed| **failed).count();
        let errors = match self.attempts.len() {
            WINDOW => failed as f64 / WINDOW as f64,
            _ => 0.0,
        };
        self.most_per_s * (1.0 - STEEPNESS * errors).max(LEAST)
    }

    /// An attempt is over.
    pub fn record(&mut self, failed: bool) {
        if self.attempts.len() == WINDOW {
            self.attempts.pop_front();
        }
        self.attempts.push_back(failed);
    }

    /// How many of `wanted` are let through now.
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
    fn what_is_too_much_is_not_let_through_and_errors_lower_the_rate() {
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
