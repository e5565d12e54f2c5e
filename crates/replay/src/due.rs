//! How many statements' time has come, while a replay runs: what the sent ones are to be held
//! against.
//!
//! The planner reads a second or so ahead, so it counts by tenths of a second, and a tenth is taken
//! into the sum when it has passed.

use std::collections::VecDeque;
use std::sync::Mutex;

/// What is told apart of time.
const SLOT_NS: i64 = 100_000_000;

/// Counts statements by the time at which they are due. Only where time decides: at full speed and
/// in a closed loop nothing is due before its session is free.
#[derive(Debug, Default)]
pub(crate) struct DueCounts(Mutex<Option<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    ahead: VecDeque<(i64, u64)>,
    passed: u64,
}

impl DueCounts {
    /// Counts from now on.
    pub(crate) fn keep(&self) {
        self.inner().get_or_insert_default();
    }

    /// A statement is due then; in the order of time, or nearly.
    pub(crate) fn planned(&self, due_ns: i64) {
        if let Some(inner) = &mut *self.inner() {
            let slot = due_ns.div_euclid(SLOT_NS);
            match inner.ahead.back_mut() {
                Some((last, count)) if *last >= slot => *count += 1,
                _ => inner.ahead.push_back((slot, 1)),
            }
        }
    }

    /// How many were due by now; `None` where it is not counted.
    pub(crate) fn by(&self, now_ns: i64) -> Option<u64> {
        let mut inner = self.inner();
        let inner = inner.as_mut()?;
        while let Some(&(slot, count)) = inner.ahead.front()
            && (slot + 1) * SLOT_NS <= now_ns
        {
            inner.passed += count;
            inner.ahead.pop_front();
        }
        Some(inner.passed)
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Option<Inner>> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_counted_when_its_time_has_passed() {
        let due = DueCounts::default();
        due.planned(0);
        assert_eq!(due.by(1 << 40), None);
        due.keep();
        assert_eq!(due.by(0), Some(0));
        for at_ms in [0, 10, 99, 100, 250, 260, 240, 1_500] {
            due.planned(at_ms * 1_000_000);
        }
        due.keep();
        let by = |ms: i64| due.by(ms * 1_000_000).unwrap();
        assert_eq!([by(-1), by(99), by(100), by(199), by(200)], [0, 0, 3, 3, 4]);
        assert_eq!([by(300), by(1_599), by(1_600), by(9_000)], [7, 7, 8, 8]);
    }
}
