//! Meeting of the workers among which a replay is divided.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;

/// Way in which workers meet.
pub trait Meeting: Send + Sync {
    /// Waits until all workers are ready. Returns the common start on the clock, in nanoseconds.
    ///
    /// # Errors
    /// If the replay cannot start; the error says why.
    fn await_start(&self, clock: &dyn Clock) -> Result<i64, String>;

    /// Meets the other workers after the last statement. Returns the shards whose workers are not done, as far as this
    /// worker waits for them.
    fn end(&self) -> Vec<u64>;
}

/// Meeting of the workers of a replay, before its first statement and after its last.
#[derive(Clone)]
pub struct WorkerMeeting(Arc<dyn Meeting>);

impl WorkerMeeting {
    /// Creates the meeting.
    pub fn new(meeting: impl Meeting + 'static) -> Self {
        WorkerMeeting(Arc::new(meeting))
    }

    /// Waits until `lead_ns` before the common start. Returns the start.
    ///
    /// # Errors
    /// If the replay cannot start.
    pub(crate) fn await_start(&self, clock: &dyn Clock, lead_ns: i64) -> Result<i64, String> {
        let start_ns = self.0.await_start(clock)?;
        let wait_ns = start_ns - lead_ns - clock.now_ns();
        std::thread::sleep(Duration::from_nanos(wait_ns.max(0).unsigned_abs()));
        Ok(start_ns)
    }

    /// Meets the other workers after the last statement. Returns the shards whose workers are not done.
    pub(crate) fn end(&self) -> Vec<u64> {
        self.0.end()
    }
}

impl fmt::Debug for WorkerMeeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerMeeting").finish_non_exhaustive()
    }
}

impl PartialEq for WorkerMeeting {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for WorkerMeeting {}
