//! Everything on one time axis: statements, errors, connections and what the server did.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use workload::{ServerEvent, ServerEventKind, Sqlstate};

use statistics::width_us;

/// The most stretches of time that are told apart: as many as a wide chart shows.
pub const MOMENTS_MAX: usize = 240;

/// What happened in one stretch of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Moment {
    /// Statements sent.
    pub statements: u64,
    /// The server's own time for them, where known, in microseconds; all of it counts where the
    /// statement was sent.
    pub time_us: u64,
    /// Failures of statements that were sent in it.
    pub errors: BTreeMap<Sqlstate, u64>,
    /// Sessions opened.
    pub opened: u64,
    /// Sessions whose end was seen.
    pub closed: u64,
    /// The most sessions open at one time. One whose end the source does not show counts until
    /// the stretch in which it was last seen.
    pub open_max: u64,
    /// Temporary files removed.
    pub temporary_files: u64,
    /// Their bytes.
    pub temporary_bytes: u64,
    /// Waits for locks that lasted longer than `deadlock_timeout`.
    pub lock_waits: u64,
    /// The time waited in those that ended in it, in microseconds.
    pub lock_waited_us: u64,
    /// Deadlocks.
    pub deadlocks: u64,
    /// Checkpoints and restartpoints completed.
    pub checkpoints: u64,
    /// Tables vacuumed by autovacuum.
    pub autovacuums: u64,
    /// Tables analyzed by autovacuum.
    pub autoanalyzes: u64,
    /// All else that the server did, beginnings of checkpoints left out.
    pub others: u64,
}

impl Moment {
    /// Counts the failures of statements that were sent in it.
    pub fn errors(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// Everything on one time axis.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OverTime {
    /// Where the axis begins, in microseconds from the workload's start; negative where the server
    /// did something before its first client.
    pub start_us: i64,
    /// How much time one moment covers, in microseconds.
    pub width_us: i64,
    /// The moments, without a gap; at most [`MOMENTS_MAX`].
    pub moments: Vec<Moment>,
    #[serde(skip)]
    counting: Counting,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Counting {
    /// Sessions that were last seen in each moment, whose end is not shown.
    lost: Vec<u64>,
    /// Sessions open now.
    open: u64,
    /// The moment that is now.
    at: usize,
}

impl OverTime {
    /// An axis that holds all from `from_us` to `to_us`.
    pub(crate) fn new(from_us: i64, to_us: i64) -> Self {
        let mut width = width_us(to_us.saturating_sub(from_us), MOMENTS_MAX);
        let begin = |width: i64| from_us.div_euclid(width) * width;
        // A start on a multiple of the width may need one moment more.
        while (to_us - begin(width)) / width >= MOMENTS_MAX as i64 {
            width *= 2;
        }
        let start_us = begin(width);
        let count = ((to_us - start_us).max(0) / width) as usize + 1;
        Self {
            start_us,
            width_us: width,
            moments: vec![Moment::default(); count],
            counting: Counting {
                lost: vec![0; count],
                ..Counting::default()
            },
        }
    }

    fn place(&self, at_us: i64) -> usize {
        let at = (at_us - self.start_us).max(0) / self.width_us;
        (at as usize).min(self.moments.len() - 1)
    }

    /// The moment that holds `at_us`.
    pub(crate) fn at(&mut self, at_us: i64) -> &mut Moment {
        let place = self.place(at_us);
        &mut self.moments[place]
    }

    /// A session whose end is not shown was last seen. To be told before [`Self::opened`].
    pub(crate) fn lost(&mut self, at_us: i64) {
        let place = self.place(at_us);
        self.counting.lost[place] += 1;
    }

    /// A session opens. Openings and closings come in the order of time.
    pub(crate) fn opened(&mut self, at_us: i64) {
        self.pass(self.place(at_us));
        self.counting.open += 1;
        let moment = &mut self.moments[self.counting.at];
        moment.opened += 1;
        moment.open_max = moment.open_max.max(self.counting.open);
    }

    /// A session closes.
    pub(crate) fn closed(&mut self, at_us: i64) {
        self.pass(self.place(at_us));
        self.counting.open = self.counting.open.saturating_sub(1);
        self.moments[self.counting.at].closed += 1;
    }

    fn pass(&mut self, to: usize) {
        while self.counting.at < to {
            let lost = self.counting.lost[self.counting.at];
            self.counting.open = self.counting.open.saturating_sub(lost);
            self.counting.at += 1;
            self.moments[self.counting.at].open_max = self.counting.open;
        }
    }

    /// Nothing more comes.
    pub(crate) fn finish(&mut self) {
        self.pass(self.moments.len() - 1);
        self.counting = Counting::default();
    }

    pub(crate) fn server(&mut self, event: &ServerEvent) {
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
            Kind::CheckpointStarting => (),
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
    fn the_axis_holds_what_it_was_made_for() {
        for (from_us, to_us) in [
            (0, 0),
            (-1, 0),
            (-7_000_000, 239_999_999),
            (-1, 240_000_000),
            (0, i64::MAX / 4),
        ] {
            let over_time = OverTime::new(from_us, to_us);
            let width = over_time.width_us;
            assert!(over_time.moments.len() <= MOMENTS_MAX);
            assert!(over_time.start_us <= from_us && from_us - over_time.start_us < width);
            let end_us = over_time.start_us + width * over_time.moments.len() as i64;
            assert!(
                to_us < end_us && end_us - to_us <= width,
                "{from_us} {to_us}"
            );
        }
    }

    #[test]
    fn open_sessions_are_carried_on_until_they_end_or_are_lost() {
        // 10 moments of 1 ms.
        let mut over_time = OverTime::new(0, 9_999);
        assert_eq!((over_time.width_us, over_time.moments.len()), (1_000, 10));
        over_time.lost(6_500);
        over_time.opened(1_000);
        over_time.opened(1_500);
        over_time.opened(2_000);
        over_time.closed(2_100);
        over_time.closed(4_999);
        over_time.finish();
        let open: Vec<u64> = over_time.moments.iter().map(|one| one.open_max).collect();
        assert_eq!(open, [0, 2, 3, 2, 2, 1, 1, 0, 0, 0]);
    }
}
