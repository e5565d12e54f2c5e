//! Offset of a target's clock from this machine's, measured by the shortest of several round trips.
//!
//! A server reads its clock between the sending of a question and the arrival of the answer. So the offset is known up to
//! half of the round trip, and best from the shortest one (Cristian, "Probabilistic clock synchronization", 1989).

use std::time::Duration;

use clock::Clock;
use connect::login::{Dialer, Login};
use replay::Target;

/// Time of the server, in microseconds since 1970-01-01 UTC.
const TIME_SQL: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
/// Most samples.
const SAMPLES_MAX: u32 = 50;
/// Time after which no further sample is taken, in nanoseconds.
const TIME_MAX_NS: i64 = 1_000_000_000;

/// Measured offset of a target's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TargetOffset {
    /// The target's time minus the clock's, in nanoseconds.
    pub(crate) offset_ns: i64,
    /// Half of the shortest round trip, in nanoseconds.
    pub(crate) uncertainty_ns: i64,
}

impl TargetOffset {
    /// Measures the offset of a target's clock from `clock`.
    ///
    /// # Errors
    /// If the target does not answer, or its time is known less exactly than `tolerance`.
    pub(crate) fn measure(
        target: &Target,
        login: &Login,
        clock: &dyn Clock,
        tolerance: Duration,
    ) -> Result<Self, String> {
        let unknown = |reason: &dyn std::fmt::Display| {
            format!(
                "the clock of {} cannot be measured ({reason}); check the target",
                target.address()
            )
        };
        let dialer = Dialer::new(target).map_err(|error| unknown(&error))?;
        let mut connection =
            (dialer.open_query_connection(login)).map_err(|error| unknown(&error))?;
        let begun_ns = clock.now_ns();
        let mut best: Option<TargetOffset> = None;
        for _ in 0..SAMPLES_MAX {
            let sent_ns = clock.now_ns();
            let rows = connection
                .query(TIME_SQL)
                .map_err(|error| unknown(&error))?;
            let received_ns = clock.now_ns();
            let value = rows.first().and_then(|row| row.first()?.as_deref());
            let time_us: i64 = (value.and_then(|value| value.parse().ok()))
                .ok_or_else(|| unknown(&"the answer is no time"))?;
            let sample = TargetOffset::of_sample(sent_ns, received_ns, time_us);
            if best.is_none_or(|best| sample.uncertainty_ns < best.uncertainty_ns) {
                best = Some(sample);
            }
            if received_ns - begun_ns > TIME_MAX_NS {
                break;
            }
        }
        let best = best.ok_or_else(|| unknown(&"no sample was taken"))?;
        let tolerance_ns = i64::try_from(tolerance.as_nanos()).unwrap_or(i64::MAX);
        match best.uncertainty_ns <= tolerance_ns {
            true => Ok(best),
            false => Err(format!(
                "the clock of {} is known to ± {} only, half of the shortest round trip, and --clock-tolerance allows ± {}; run the worker nearer to the target, or give a larger tolerance: statements of different workers are shifted by up to that time",
                target.address(),
                clock::duration_text(best.uncertainty_ns),
                clock::duration_text(tolerance_ns)
            )),
        }
    }

    fn of_sample(sent_ns: i64, received_ns: i64, time_us: i64) -> Self {
        let half_ns = (received_ns - sent_ns) / 2;
        TargetOffset {
            offset_ns: time_us * 1_000 - (sent_ns + half_ns),
            uncertainty_ns: half_ns,
        }
    }

    /// Returns the target's time in microseconds since 1970-01-01 UTC.
    pub(crate) fn target_us(&self, clock_ns: i64) -> i64 {
        (clock_ns + self.offset_ns) / 1_000
    }

    /// Returns the time of the clock in nanoseconds when the target's is `target_us`.
    pub(crate) fn clock_ns(&self, target_us: i64) -> i64 {
        target_us * 1_000 - self.offset_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_is_exact_up_to_half_of_the_round_trip() {
        // The target is 7 s ahead, and read its clock 100 µs after the question of a round trip of 600 µs.
        let offset = TargetOffset::of_sample(1_000_000, 1_600_000, 7_001_100);
        assert_eq!(offset.uncertainty_ns, 300_000);
        assert!((offset.offset_ns - 7_000_000_000).abs() <= offset.uncertainty_ns);
        let at_ns = 5_000_000_000;
        assert_eq!(offset.clock_ns(offset.target_us(at_ns)), at_ns);
    }
}
