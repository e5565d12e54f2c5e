//! Stall detector: finds the time in which a worker did not run, although it had to.

/// Shortest silence, in nanoseconds, that is a stall. Shorter ones are part of every turn on a busy machine.
const STALL_NS_MIN: i64 = 5_000_000;

/// Detector of one worker's stalls. The worker passes each time that it reads. If two of them are too far apart, it
/// was stopped, starved, throttled or paused in between, or it did something else for too long.
#[derive(Debug, Default)]
pub(crate) struct StallDetector {
    /// Last time at which the worker ran, once it has begun.
    ran_ns: Option<i64>,
    /// Time that it asked to sleep since then.
    sleep_ns: i64,
    /// Last stall: beginning and end.
    last: Option<(i64, i64)>,
    /// Stalls that were not yet taken.
    found: Vec<(i64, i64)>,
}

impl StallDetector {
    /// Takes a time at which the worker runs.
    #[inline]
    pub(crate) fn run(&mut self, now_ns: i64) {
        let ran_ns = self.ran_ns.replace(now_ns).unwrap_or(now_ns);
        let sleep_ns = std::mem::take(&mut self.sleep_ns);
        // The stall may have begun at once, so the sleep is part of it.
        if now_ns - ran_ns > sleep_ns + STALL_NS_MIN {
            self.last = Some((ran_ns, now_ns));
            self.found.push((ran_ns, now_ns));
        }
    }

    /// Announces a sleep of at most this many nanoseconds.
    #[inline]
    pub(crate) fn sleep(&mut self, sleep_ns: i64) {
        self.sleep_ns = sleep_ns;
    }

    /// Returns the part of a statement's time in which its answer may have waited for the worker: that of the last
    /// stall, if the answer was read after it and no later than the stall was long. An answer that comes still later
    /// was not there during the stall.
    #[inline]
    pub(crate) fn stalled_ns(&self, sent_ns: i64, done_ns: i64) -> u64 {
        let Some((from_ns, until_ns)) = self.last else {
            return 0;
        };
        if done_ns < until_ns || done_ns - until_ns > until_ns - from_ns {
            return 0;
        }
        u64::try_from(until_ns - from_ns.max(sent_ns)).unwrap_or(0)
    }

    /// Takes the time at which a statement is sent that was due at `due_ns`, and whose session was free from `free_ns` on.
    /// Returns the part of the delay that counts as a stall.
    #[inline]
    pub(crate) fn send(&mut self, due_ns: i64, free_ns: i64, sent_ns: i64) -> u64 {
        self.run(sent_ns);
        let late_ns = sent_ns - due_ns.max(free_ns);
        if late_ns > STALL_NS_MIN {
            late_ns as u64
        } else {
            0
        }
    }

    /// Takes the stalls found since the last call.
    pub(crate) fn take(&mut self) -> Vec<(i64, i64)> {
        std::mem::take(&mut self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn silence_longer_than_the_sleep_is_a_stall() {
        let mut detector = StallDetector::default();
        detector.run(-3_000 * MS);
        detector.sleep(10 * MS);
        detector.run(-2_988 * MS);
        assert!(detector.take().is_empty());
        detector.sleep(10 * MS);
        detector.run(-988 * MS);
        detector.run(-987 * MS);
        detector.run(-950 * MS);
        let stalls = [(-2_988 * MS, -988 * MS), (-987 * MS, -950 * MS)];
        assert_eq!(detector.take(), stalls);
    }

    #[test]
    fn answer_that_waited_for_the_worker_is_stalled_and_a_later_one_is_not() {
        let mut detector = StallDetector::default();
        detector.run(0);
        detector.run(100 * MS);
        assert_eq!(detector.stalled_ns(-5 * MS, 101 * MS), 100 * MS as u64);
        assert_eq!(detector.stalled_ns(60 * MS, 150 * MS), 40 * MS as u64);
        assert_eq!(detector.stalled_ns(101 * MS, 102 * MS), 0);
        assert_eq!(detector.stalled_ns(-5 * MS, 500 * MS), 0);
    }
}
