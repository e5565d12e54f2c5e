//! Counts the statements that are due so far, to be compared with the number sent.
//!
//! The dispatcher reads about a second ahead. So it counts by tenths of a second, and each tenth is added to
//! the sum when it has passed.

use std::collections::VecDeque;
use std::sync::Mutex;

/// Time resolution.
const SLOT_NS: i64 = 100_000_000;

/// Counter of due statements. Used only in an open loop: at full speed and in a closed loop, no statement is
/// due before its session is free.
#[derive(Debug, Default)]
pub(crate) struct DueCounter(Mutex<Option<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    ahead: VecDeque<(i64, u64)>,
    passed: u64,
}

impl DueCounter {
    /// Starts counting.
    pub(crate) fn enable(&self) {
        self.inner().get_or_insert_default();
    }

    /// Counts a statement that is due at `due_ns`. Calls are in time order, or nearly so.
    pub(crate) fn add(&self, due_ns: i64) {
        if let Some(inner) = &mut *self.inner() {
            let slot = due_ns.div_euclid(SLOT_NS);
            match inner.ahead.back_mut() {
                Some((last, count)) if *last >= slot => *count += 1,
                _ => inner.ahead.push_back((slot, 1)),
            }
        }
    }

    /// Returns the number of statements due by now; `None` if they are not counted.
    pub(crate) fn due_by(&self, now_ns: i64) -> Option<u64> {
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
    fn due_counter_counts_statements_after_their_time() {
        let due = DueCounter::default();
        due.add(0);
        assert_eq!(due.due_by(1 << 40), None);
        due.enable();
        assert_eq!(due.due_by(0), Some(0));
        for at_ms in [0, 10, 99, 100, 250, 260, 240, 1_500] {
            due.add(at_ms * 1_000_000);
        }
        due.enable();
        let by = |ms: i64| due.due_by(ms * 1_000_000).unwrap();
        assert_eq!([by(-1), by(99), by(100), by(199), by(200)], [0, 0, 3, 3, 4]);
        assert_eq!([by(300), by(1_599), by(1_600), by(9_000)], [7, 7, 8, 8]);
    }
}
