//! Clocks: the machine's, and one that is set manually.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A source of time. Monotonic time orders and measures; wall time only labels.
pub trait Clock: Send + Sync {
    /// Nanoseconds since the clock was created. Never decreases.
    fn now_ns(&self) -> i64;

    /// Microseconds since 1970-01-01 UTC. May jump; for labels only.
    fn wall_us(&self) -> i64;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts at zero now.
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now_ns(&self) -> i64 {
        // 2^63 ns are 292 years.
        self.origin.elapsed().as_nanos() as i64
    }

    fn wall_us(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_micros() as i64,
            Err(before) => -(before.duration().as_micros() as i64),
        }
    }
}

/// Returns the machine's monotonic time (`CLOCK_MONOTONIC`) in nanoseconds, for time stamps of other
/// programs. [`SystemClock`] counts the same time from its own start.
pub fn monotonic_ns() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec as i64
}

/// A clock for tests that stands still until it is advanced. Clones show the same time.
#[derive(Debug, Clone, Default)]
pub struct ManualClock {
    now_ns: Arc<AtomicI64>,
    wall_us: Arc<AtomicI64>,
}

impl ManualClock {
    /// Advances both times.
    pub fn advance_ns(&self, by_ns: i64) {
        assert!(by_ns >= 0, "monotonic time never goes back");
        self.now_ns.fetch_add(by_ns, Ordering::Relaxed);
        self.wall_us.fetch_add(by_ns / 1_000, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> i64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn wall_us(&self) -> i64 {
        self.wall_us.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_stands_still_until_advanced() {
        let clock = ManualClock::default();
        let other = clock.clone();
        assert_eq!(clock.now_ns(), 0);
        clock.advance_ns(2_500);
        assert_eq!(other.now_ns(), 2_500);
        assert_eq!(other.wall_us(), 2);
    }

    #[test]
    fn the_system_clock_never_goes_back() {
        let clock = SystemClock::start();
        let mut last = clock.now_ns();
        for _ in 0..1_000 {
            let now = clock.now_ns();
            assert!(now >= last);
            last = now;
        }
    }
}
