//! All activity on one time axis: statements, errors, connections and server events.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use workload::{ServerEvent, ServerEventKind, Sqlstate};

use statistics::width_us;

/// Maximum number of time buckets: as many as a wide chart shows.
pub const TIME_BUCKETS_MAX: usize = 240;

/// Activity in one time bucket.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct TimeBucket {
    /// Statements sent.
    pub statements: u64,
    /// The server's own execution time for these statements, if known, in microseconds. It is
    /// attributed to the bucket in which the statement was sent.
    pub time_us: u64,
    /// Failures of statements that were sent in this bucket.
    pub errors: BTreeMap<Sqlstate, u64>,
    /// Sessions opened.
    pub opened: u64,
    /// Sessions that ended, if the source shows their end.
    pub closed: u64,
    /// Maximum number of sessions open at one time. A session whose end is not in the source counts
    /// until the bucket in which it was last seen.
    pub open_max: u64,
    /// Temporary files removed.
    pub temporary_files: u64,
    /// Total bytes of these files.
    pub temporary_bytes: u64,
    /// Waits for locks that lasted longer than `deadlock_timeout`.
    pub lock_waits: u64,
    /// Time waited for locks by the waits that ended in this bucket, in microseconds.
    pub lock_waited_us: u64,
    /// Deadlocks.
    pub deadlocks: u64,
    /// Checkpoints and restartpoints completed.
    pub checkpoints: u64,
    /// Tables vacuumed by autovacuum.
    pub autovacuums: u64,
    /// Tables analyzed by autovacuum.
    pub autoanalyzes: u64,
    /// All other server events, except starts of checkpoints.
    pub others: u64,
}

impl TimeBucket {
    /// Counts the failures of statements that were sent in this bucket.
    pub fn errors(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// All activity on one time axis.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OverTime {
    /// Start of the axis, in microseconds from the workload's start; negative if there are server
    /// events before the first client.
    pub start_us: i64,
    /// Width of a bucket, in microseconds.
    pub width_us: i64,
    /// Consecutive buckets, at most [`TIME_BUCKETS_MAX`].
    pub moments: Vec<TimeBucket>,
    #[serde(skip)]
    counting: SessionCounter,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct SessionCounter {
    /// Number of sessions without a known end that were last seen in each bucket.
    lost: Vec<u64>,
    /// Sessions open at the current bucket.
    open: u64,
    /// Index of the current bucket.
    at: usize,
}

impl OverTime {
    /// Creates an axis that covers `from_us` to `to_us`.
    pub(crate) fn new(from_us: i64, to_us: i64) -> Self {
        let mut width = width_us(to_us.saturating_sub(from_us), TIME_BUCKETS_MAX);
        let begin = |width: i64| from_us.div_euclid(width) * width;
        // Aligning the start to a multiple of the width may need one more bucket.
        while (to_us - begin(width)) / width >= TIME_BUCKETS_MAX as i64 {
            width *= 2;
        }
        let start_us = begin(width);
        let count = ((to_us - start_us).max(0) / width) as usize + 1;
        Self {
            start_us,
            width_us: width,
            moments: vec![TimeBucket::default(); count],
            counting: SessionCounter {
                lost: vec![0; count],
                ..SessionCounter::default()
            },
        }
    }

    fn place(&self, at_us: i64) -> usize {
        let at = (at_us - self.start_us).max(0) / self.width_us;
        (at as usize).min(self.moments.len() - 1)
    }

    /// Returns the bucket that contains `at_us`.
    pub(crate) fn at(&mut self, at_us: i64) -> &mut TimeBucket {
        let place = self.place(at_us);
        &mut self.moments[place]
    }

    /// Records when a session without a known end was last seen. Call it before
    /// [`Self::add_opened`].
    pub(crate) fn add_last_seen(&mut self, at_us: i64) {
        let place = self.place(at_us);
        self.counting.lost[place] += 1;
    }

    /// Records that a session opened. Calls must come in order of time.
    pub(crate) fn add_opened(&mut self, at_us: i64) {
        self.advance_to(self.place(at_us));
        self.counting.open += 1;
        let moment = &mut self.moments[self.counting.at];
        moment.opened += 1;
        moment.open_max = moment.open_max.max(self.counting.open);
    }

    /// Records that a session closed. Calls must come in order of time.
    pub(crate) fn add_closed(&mut self, at_us: i64) {
        self.advance_to(self.place(at_us));
        self.counting.open = self.counting.open.saturating_sub(1);
        self.moments[self.counting.at].closed += 1;
    }

    fn advance_to(&mut self, to: usize) {
        while self.counting.at < to {
            let lost = self.counting.lost[self.counting.at];
            self.counting.open = self.counting.open.saturating_sub(lost);
            self.counting.at += 1;
            self.moments[self.counting.at].open_max = self.counting.open;
        }
    }

    /// Ends the counting of open sessions.
    pub(crate) fn finish(&mut self) {
        self.advance_to(self.moments.len() - 1);
        self.counting = SessionCounter::default();
    }

    pub(crate) fn add_server_event(&mut self, event: &ServerEvent) {
        use ServerEventKind as Kind;
        let moment = self.at(event.at_us);
        let duration_us = event.duration_us.unwrap_or(0);
        match event.kind {
            Kind::TemporaryFile => {
                moment.temporary_files += 1;
                moment.temporary_bytes += event.bytes.unwrap_or(0);
            }
            Kind::LockWait => moment.lock_waits += 1,
            Kind::LockAcquired | Kind::LockFailed => moment.lock_waited_us += duration_us,
            Kind::Deadlock => moment.deadlocks += 1,
            Kind::Checkpoint => moment.checkpoints += 1,
            Kind::CheckpointStarting | Kind::Message | Kind::SessionEnd => (),
            Kind::Autovacuum => moment.autovacuums += 1,
            Kind::Autoanalyze => moment.autoanalyzes += 1,
            _ => moment.others += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_covers_its_span() {
        for (from_us, to_us) in [
            (0, 0),
            (-1, 0),
            (-7_000_000, 239_999_999),
            (-1, 240_000_000),
            (0, i64::MAX / 4),
        ] {
            let over_time = OverTime::new(from_us, to_us);
            let width = over_time.width_us;
            assert!(over_time.moments.len() <= TIME_BUCKETS_MAX);
            assert!(over_time.start_us <= from_us && from_us - over_time.start_us < width);
            let end_us = over_time.start_us + width * over_time.moments.len() as i64;
            assert!(
                to_us < end_us && end_us - to_us <= width,
                "{from_us} {to_us}"
            );
        }
    }

    #[test]
    fn open_sessions_count_until_they_end_or_are_last_seen() {
        // 10 buckets of 1 ms.
        let mut over_time = OverTime::new(0, 9_999);
        assert_eq!((over_time.width_us, over_time.moments.len()), (1_000, 10));
        over_time.add_last_seen(6_500);
        over_time.add_opened(1_000);
        over_time.add_opened(1_500);
        over_time.add_opened(2_000);
        over_time.add_closed(2_100);
        over_time.add_closed(4_999);
        over_time.finish();
        let open: Vec<u64> = over_time.moments.iter().map(|one| one.open_max).collect();
        assert_eq!(open, [0, 2, 3, 2, 2, 1, 1, 0, 0, 0]);
    }
}
