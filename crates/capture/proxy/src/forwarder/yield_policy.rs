//! Decides whether a forwarder calls `sched_yield` before it polls.
//!
//! The receivers of its recent sends may need the same processor. If the forwarder sleeps at once,
//! the first reply wakes it, and each reply costs a sleep and a wake-up. If it yields first
//! (including the return from the sending call), it finds the replies of all of them. But a thread
//! that yields is scheduled after all others: next to a busy process that can cost a whole time
//! slice, several milliseconds. So the benefit is measured each time, and yielding pauses while it
//! has none.

/// Maximum number of sends after which it yields; after more, replies arrive together anyway.
/// Chosen by experiment: with 64 clients on one processor, limits from 1 to 16 took 2 to 10 % less
/// CPU than no yielding, and 24 took 14 % more; with 8 clients, limits above 5 saved most.
const SENDS_MAX: usize = 12;
/// Duration in nanoseconds, including the sends, from which a yield was too long: another process
/// had the processor, or the statements are long. The first reply would wait for that time.
const LONG_NS_MIN: i64 = 1_000_000;
/// Minimum number of replies for a benefit: one reply costs one wake-up in either case.
const ANSWERS_MIN: usize = 2;
/// Number of consecutive yields without a benefit …
const USELESS_MAX: u32 = 8;
/// … after which yielding pauses for this time.
const USELESS_PAUSE_NS: i64 = 100_000_000;
/// Initial pause after a yield that was too long; each further one doubles it …
const LONG_PAUSE_NS: i64 = 50_000_000;
/// … up to this maximum.
const LONG_PAUSE_NS_MAX: i64 = 1024 * LONG_PAUSE_NS;
/// Number of beneficial yields after which the pause is reset: the proxy's own writer uses the
/// processor for some milliseconds twice a second.
const USEFUL_MIN: u32 = 500;

/// State of the yield policy.
#[derive(Debug)]
pub(super) struct YieldPolicy {
    not_before_ns: i64,
    vain: u32,
    good: u32,
    long_pause_ns: i64,
}

impl Default for YieldPolicy {
    fn default() -> Self {
        YieldPolicy {
            not_before_ns: i64::MIN,
            vain: 0,
            good: 0,
            long_pause_ns: LONG_PAUSE_NS,
        }
    }
}

impl YieldPolicy {
    /// Returns whether to yield now, with this number of sends.
    #[inline]
    pub(super) fn should_yield(&self, now_ns: i64, sends: usize) -> bool {
        (1..=SENDS_MAX).contains(&sends) && now_ns >= self.not_before_ns
    }

    /// Records a yield: the time of its end, its duration in nanoseconds, including the sends, and
    /// the number of replies then.
    pub(super) fn record_yield(&mut self, now_ns: i64, took_ns: i64, answers: usize) {
        if took_ns > LONG_NS_MIN {
            self.not_before_ns = now_ns + self.long_pause_ns;
            self.long_pause_ns = (self.long_pause_ns * 2).min(LONG_PAUSE_NS_MAX);
            (self.vain, self.good) = (0, 0);
        } else if answers < ANSWERS_MIN {
            self.vain += 1;
            if self.vain == USELESS_MAX {
                self.not_before_ns = now_ns + USELESS_PAUSE_NS;
                self.vain = 0;
            }
        } else {
            self.vain = 0;
            self.good += 1;
            if self.good == USEFUL_MIN {
                self.long_pause_ns = LONG_PAUSE_NS;
                self.good = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_long_as_it_is_good_for_something_it_goes_on() {
        let mut yield_policy = YieldPolicy::default();
        for turn in 0..1_000 {
            assert!(yield_policy.should_yield(turn * 200_000, 3));
            yield_policy.record_yield(turn * 200_000, 150_000, 6);
            // Without a benefit now and then.
            if turn % 3 == 0 {
                yield_policy.record_yield(turn * 200_000, 500, 1);
            }
        }
    }

    /// Number of yields within a second of 100 µs a turn, with equal results.
    fn tried_in_a_second(took_ns: i64, answers: usize) -> u32 {
        let mut yield_policy = YieldPolicy::default();
        let mut tried = 0;
        for turn in 0..10_000 {
            if yield_policy.should_yield(turn * 100_000, SENDS_MAX) {
                tried += 1;
                yield_policy.record_yield(turn * 100_000, took_ns, answers);
            }
        }
        tried
    }

    #[test]
    fn what_is_good_for_nothing_is_tried_now_and_then() {
        // One reply, or none.
        for answers in [0, 1] {
            assert!((8 * 9..=8 * 10).contains(&tried_in_a_second(40_000, answers)));
        }
        assert_eq!(tried_in_a_second(40_000, 2), 10_000);
        // Another process ran: tried after 50, 150, 350 and 750 ms.
        assert_eq!(tried_in_a_second(LONG_NS_MIN + 1, SENDS_MAX), 5);
        assert_eq!(tried_in_a_second(LONG_NS_MIN, SENDS_MAX), 10_000);
    }

    #[test]
    fn so_much_to_send_is_worth_a_look_of_its_own() {
        let yield_policy = YieldPolicy::default();
        let pays = |sends| yield_policy.should_yield(0, sends);
        assert!(!pays(0) && pays(1) && pays(SENDS_MAX) && !pays(SENDS_MAX + 1));
    }

    #[test]
    fn beside_somebody_who_computes_it_costs_a_slice_now_and_then() {
        let mut yield_policy = YieldPolicy::default();
        let mut tried = 0;
        for now_ms in 0..600_000 {
            if yield_policy.should_yield(now_ms * 1_000_000, 8) {
                tried += 1;
                yield_policy.record_yield(now_ms * 1_000_000, 3_000_000, 8);
            }
        }
        // Within ten minutes: eleven in the first, then one after each 51 seconds.
        assert_eq!(tried, 21);
        // After beneficial yields, the pause is short again.
        let mut now_ns = 700_000_000_000;
        for _ in 0..USEFUL_MIN {
            yield_policy.record_yield(now_ns, 150_000, 6);
            now_ns += 200_000;
        }
        yield_policy.record_yield(now_ns, 3_000_000, 8);
        assert!(!yield_policy.should_yield(now_ns + LONG_PAUSE_NS - 1, 8));
        assert!(yield_policy.should_yield(now_ns + LONG_PAUSE_NS, 8));
    }
}
