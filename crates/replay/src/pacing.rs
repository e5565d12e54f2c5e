//! Conversion of captured time to the replay's time: speed, ramp-up and cutting of idle time.
//! Pure and exact: it uses integers only, and keeps the order of times.

use clock::Speed;

/// Speed at the start of a ramp, in tenths of the whole speed.
const RAMP_FROM_TENTHS: u128 = 1;

/// Conversion of captured offsets to due times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeline {
    pub(crate) speed: Speed,
    /// Duration of the ramp. The speed grows linearly in the replay's time, from a tenth to the whole.
    pub(crate) ramp_up_ns: i64,
}

impl Timeline {
    /// Returns the due time of an event that was captured `offset_us` microseconds after the beginning, in
    /// nanoseconds from the replay's start. Zero at full speed.
    ///
    /// Let *x* be the due time at the whole speed and *T* the ramp. The speed at time *t* is 1/10 + 9/10 · t/T of
    /// the whole, so x = t/10 + 9/20 · t²/T. Solved for t: t = (√(T² + 180·T·x) − T) / 9 up to x = 11/20 · T, and
    /// x + 9/20 · T from there.
    pub(crate) fn due_ns(&self, offset_us: i64) -> i64 {
        let flat_ns = self.speed.due_ns(offset_us);
        if self.ramp_up_ns <= 0 || flat_ns <= 0 {
            return flat_ns;
        }
        let (ramp, flat) = (self.ramp_up_ns as u128, flat_ns as u128);
        // Weights of the formula above, from the start of the ramp.
        let (from, grows) = (RAMP_FROM_TENTHS, 10 - RAMP_FROM_TENTHS);
        if flat * 20 >= ramp * (10 + from) {
            return flat_ns.saturating_add((ramp * grows / 20) as i64);
        }
        // It saturates only at ramps of centuries.
        let under = (from * ramp)
            .saturating_mul(from * ramp)
            .saturating_add((20 * grows * ramp).saturating_mul(flat));
        ((under.isqrt() - from * ramp) / grows) as i64
    }
}

/// Cuts idle time: intervals without a statement sent or, as far as the capture shows, running.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Silence {
    limit_us: Option<i64>,
    /// End of the activity so far, in captured time.
    busy_until_us: i64,
    /// Idle time cut so far.
    cut_us: i64,
}

impl Silence {
    /// Creates a cutter that limits idle intervals to `limit_us`.
    pub(crate) fn new(limit_us: Option<i64>) -> Self {
        Silence {
            limit_us,
            ..Silence::default()
        }
    }

    /// Takes the next event in time order. Returns its time without the idle time that was cut.
    pub(crate) fn pass(&mut self, at_us: i64, duration_us: u64) -> i64 {
        let Some(limit_us) = self.limit_us else {
            return at_us;
        };
        let silent_us = at_us.saturating_sub(self.busy_until_us);
        if silent_us > limit_us {
            self.cut_us += silent_us - limit_us;
        }
        let until_us = at_us.saturating_add_unsigned(duration_us);
        self.busy_until_us = self.busy_until_us.max(until_us);
        at_us - self.cut_us
    }

    /// Returns the idle time cut so far, in microseconds of captured time.
    pub(crate) fn cut_us(&self) -> i64 {
        self.cut_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;
    const SECOND_US: i64 = 1_000_000;

    fn ramp(speed: &str, seconds: i64) -> Timeline {
        Timeline {
            speed: speed.parse().unwrap(),
            ramp_up_ns: seconds * SECOND_NS,
        }
    }

    #[test]
    fn timeline_without_ramp_divides_by_the_speed() {
        assert_eq!(ramp("2", 0).due_ns(3), 1_500);
        assert_eq!(ramp("max", 10).due_ns(SECOND_US), 0);
    }

    #[test]
    fn timeline_ramp_grows_from_a_tenth_to_the_whole_speed() {
        let ten = ramp("1", 10);
        assert_eq!(ten.due_ns(0), 0);
        // At a tenth, a millisecond takes nearly ten.
        let early = ten.due_ns(1_000);
        assert!((9_900_000..=10_000_000).contains(&early), "{early}");
        // Ten seconds of ramp take in 5.5 s of the capture; the formula at its own end.
        assert_eq!(ten.due_ns(5_500_000), 10 * SECOND_NS);
        assert_eq!(ten.due_ns(6_500_000), 11 * SECOND_NS);
        // Twice as fast: twice as much of the capture in the same ten seconds.
        assert_eq!(ramp("2", 10).due_ns(11 * SECOND_US), 10 * SECOND_NS);
        // Halfway, the speed is 0.55: x = 0.1 · 5 + 0.045 · 25 = 1.625 s.
        assert_eq!(ten.due_ns(1_625_000), 5 * SECOND_NS);
    }

    #[test]
    fn timeline_keeps_order_on_every_ramp() {
        for (speed, seconds) in [
            ("1", 1),
            ("0.3", 60),
            ("7.77", 3_600),
            ("1", 86_400 * 3_650),
        ] {
            let timeline = ramp(speed, seconds);
            let mut last = 0;
            let mut offset_us = 0;
            for step in 0..20_000i64 {
                let due_ns = timeline.due_ns(offset_us);
                assert!(due_ns >= last, "{speed} {seconds} at {offset_us}");
                last = due_ns;
                offset_us += 1 + step * step * seconds / 600;
            }
        }
        assert_eq!(ramp("0.000001", 10).due_ns(i64::MAX), i64::MAX);
    }

    #[test]
    fn idle_time_is_cut_to_the_limit() {
        let mut silence = Silence::new(Some(10 * SECOND_US));
        let s = SECOND_US;
        // 4 s of silence stay; 12 s become 10; what ran for 30 s was no silence.
        assert_eq!(silence.pass(4 * s, 0), 4 * s);
        assert_eq!(silence.pass(16 * s, 30 * s as u64), 14 * s);
        assert_eq!(silence.cut_us(), 2 * s);
        assert_eq!(silence.pass(50 * s, 0), 48 * s);
        // 10 s is not longer than 10 s.
        assert_eq!(silence.pass(60 * s, 0), 58 * s);
        assert_eq!(silence.pass(3_660 * s, 0), 68 * s);
        assert_eq!(silence.cut_us(), (2 + 3_590) * s);
        assert_eq!(Silence::new(None).pass(3_660 * s, 0), 3_660 * s);
    }

    #[test]
    fn idle_time_cut_keeps_order_and_shorter_intervals() {
        let mut silence = Silence::new(Some(1_000));
        let (mut at, mut last_at, mut last_passed) = (0i64, 0, 0);
        for step in 0..10_000i64 {
            at += (step * 7_919) % 2_500;
            let passed = silence.pass(at, 0);
            let (distance, was) = (passed - last_passed, at - last_at);
            assert_eq!(distance, was.min(1_000));
            (last_at, last_passed) = (at, passed);
        }
        assert_eq!(silence.cut_us(), at - last_passed);
    }
}
