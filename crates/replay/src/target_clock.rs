//! Clock of the target, which is set to the captured time when a replay starts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;

/// Sets the offset of the target's clock from the machine's, in microseconds. The error says why it was not set.
type SetOffset = dyn Fn(i64) -> Result<(), String> + Send + Sync;

/// Clock of a target that can be set.
#[derive(Clone)]
pub struct TargetClock {
    set_offset: Arc<SetOffset>,
    /// Longest time until the target uses a new offset.
    delay: Duration,
}

impl TargetClock {
    /// Creates the clock. `delay` is the longest time until the target uses a new offset.
    pub fn new(
        set_offset: impl Fn(i64) -> Result<(), String> + Send + Sync + 'static,
        delay: Duration,
    ) -> Self {
        TargetClock {
            set_offset: Arc::new(set_offset),
            delay,
        }
    }

    /// Sets the clock so that it is `captured_us` on return, in microseconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// If it cannot be set.
    pub(crate) fn start_at(&self, captured_us: i64, clock: &dyn Clock) -> Result<(), String> {
        let delay_us = i64::try_from(self.delay.as_micros()).unwrap_or(i64::MAX);
        let start_us = clock.wall_us().saturating_add(delay_us);
        (self.set_offset)(captured_us - start_us)?;
        let wait_us = start_us - clock.wall_us();
        std::thread::sleep(Duration::from_micros(wait_us.max(0).unsigned_abs()));
        Ok(())
    }
}

impl fmt::Debug for TargetClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetClock")
            .field("delay", &self.delay)
            .finish_non_exhaustive()
    }
}

impl PartialEq for TargetClock {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.set_offset, &other.set_offset)
    }
}

impl Eq for TargetClock {}
