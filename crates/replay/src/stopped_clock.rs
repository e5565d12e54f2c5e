//! A clock that stands still until it is told what time it is: while a replay that goes on passes over
//! what was done, no time goes by.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use clock::Clock;

/// It stands still.
const STILL: i64 = i64::MIN;

/// A clock that stands still at first.
pub(crate) struct StoppedClock {
    inner: Arc<dyn Clock>,
    stands_at_ns: i64,
    /// How much it is ahead of the inner one, or [`STILL`].
    ahead_ns: AtomicI64,
}

impl StoppedClock {
    /// Stands still at the inner clock's time.
    pub(crate) fn new(inner: Arc<dyn Clock>) -> Self {
        StoppedClock {
            stands_at_ns: inner.now_ns(),
            ahead_ns: AtomicI64::new(STILL),
            inner,
        }
    }

    /// From now on it goes, from this time on.
    pub(crate) fn go_from(&self, now_ns: i64) {
        let ahead_ns = now_ns - self.inner.now_ns();
        self.ahead_ns.store(ahead_ns, Ordering::Release);
    }
}

impl Clock for StoppedClock {
    fn now_ns(&self) -> i64 {
        match self.ahead_ns.load(Ordering::Acquire) {
            STILL => self.stands_at_ns,
            ahead_ns => self.inner.now_ns() + ahead_ns,
        }
    }

    fn wall_us(&self) -> i64 {
        self.inner.wall_us()
    }
}
