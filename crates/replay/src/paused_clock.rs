//! Clock that is paused until it is set: no time passes while a resumed replay skips completed events.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use clock::Clock;

/// Value of [`PausedClock::ahead_ns`] while the clock is paused.
const PAUSED: i64 = i64::MIN;

/// Clock that starts paused.
pub(crate) struct PausedClock {
    inner: Arc<dyn Clock>,
    paused_at_ns: i64,
    /// Difference to the inner clock, or [`PAUSED`].
    ahead_ns: AtomicI64,
}

impl PausedClock {
    /// Creates a clock that is paused at the inner clock's time.
    pub(crate) fn new(inner: Arc<dyn Clock>) -> Self {
        PausedClock {
            paused_at_ns: inner.now_ns(),
            ahead_ns: AtomicI64::new(PAUSED),
            inner,
        }
    }

    /// Starts the clock at this time.
    pub(crate) fn resume_at(&self, now_ns: i64) {
        let ahead_ns = now_ns - self.inner.now_ns();
        self.ahead_ns.store(ahead_ns, Ordering::Release);
    }
}

impl Clock for PausedClock {
    fn now_ns(&self) -> i64 {
        match self.ahead_ns.load(Ordering::Acquire) {
            PAUSED => self.paused_at_ns,
            ahead_ns => self.inner.now_ns() + ahead_ns,
        }
    }

    fn wall_us(&self) -> i64 {
        self.inner.wall_us()
    }
}
