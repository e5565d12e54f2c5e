//! Places of events in a log. Its lines are in the order in which the server wrote them, more exactly than their times.

use std::collections::HashMap;

use workload::Event;

/// Place of an event's first line among the lines of all files. Later lines have greater ones.
pub(super) type LogPosition = u64;

/// Bits of a line's number in a position.
const LINE_BITS: u32 = 40;

/// Finds positions, and whether the files of the log follow one another.
#[derive(Debug, Default)]
pub(super) struct LogPositions {
    /// Files in the order of their first events.
    files: HashMap<u32, usize>,
    times: Vec<FileTimes>,
    has_unplaced: bool,
}

/// Latest beginning and earliest end of the events of a file, in microseconds of captured time.
#[derive(Debug, Clone, Copy)]
struct FileTimes {
    last_due_us: i64,
    first_end_us: i64,
}

impl LogPositions {
    /// Returns the position of an event. Events are given in time order.
    pub(super) fn of(&mut self, event: &Event) -> LogPosition {
        let duration_us = event.outcome.duration_us.unwrap_or(0);
        let end_us = event.due_us.saturating_add_unsigned(duration_us);
        let count = self.files.len();
        let file = *self.files.entry(event.source).or_insert(count);
        if file == count {
            self.times.push(FileTimes {
                last_due_us: event.due_us,
                first_end_us: end_us,
            });
        }
        let times = &mut self.times[file];
        times.last_due_us = times.last_due_us.max(event.due_us);
        times.first_end_us = times.first_end_us.min(end_us);
        self.has_unplaced |= event.line == 0;
        ((file as u64) << LINE_BITS) | event.line
    }

    /// Whether positions show the order: each event has one, and the files of the log follow one another.
    pub(super) fn tell_order(&self, tolerance_us: i64) -> bool {
        let follow = |pair: &[FileTimes]| {
            pair[0].last_due_us <= pair[1].first_end_us.saturating_add(tolerance_us)
        };
        !self.has_unplaced && self.times.windows(2).all(follow)
    }
}
