//! A wall clock for the times of recorded traffic.

use clock::{Clock, SystemClock, monotonic_ns};

/// A monotonic wall clock: the system's time at the start, and the time elapsed since.
pub struct WallClock {
    clock: SystemClock,
    start_us: i64,
    /// `CLOCK_MONOTONIC` at the start.
    start_ns: i64,
}

impl WallClock {
    /// Starts the clock.
    pub fn start() -> Self {
        let clock = SystemClock::start();
        WallClock {
            start_us: clock.wall_us(),
            start_ns: monotonic_ns(),
            clock,
        }
    }

    /// Current time in microseconds since 1970-01-01 UTC.
    #[inline]
    pub fn now_us(&self) -> i64 {
        self.start_us + self.clock.now_ns() / 1_000
    }

    /// Converts a time of `CLOCK_MONOTONIC` in nanoseconds to microseconds since 1970-01-01 UTC.
    pub fn at_monotonic_ns(&self, at_ns: i64) -> i64 {
        self.start_us + at_ns.saturating_sub(self.start_ns) / 1_000
    }

    /// Nanoseconds since the start.
    pub fn now_ns(&self) -> i64 {
        self.clock.now_ns()
    }
}
