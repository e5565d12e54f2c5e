//! Conversion of clock times to the run's time.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Start of the run's time, on the clocks that are read here.
#[derive(Default)]
pub(crate) struct RunOrigin {
    /// Difference of the machine's monotonic time and the clock's time.
    pub(crate) machine_ns: AtomicI64,
    /// Time of the clock at which the run's time is zero.
    pub(crate) clock_ns: AtomicI64,
    /// Whether the start is known.
    pub(crate) known: AtomicBool,
}

impl RunOrigin {
    /// Converts a time of the clock.
    pub(crate) fn of_clock(&self, clock_ns: i64) -> i64 {
        clock_ns - self.clock_ns.load(Ordering::Acquire)
    }

    /// Converts a time of the machine's monotonic clock.
    pub(crate) fn of_machine(&self, machine_ns: i64) -> i64 {
        self.of_clock(machine_ns - self.machine_ns.load(Ordering::Acquire))
    }
}
