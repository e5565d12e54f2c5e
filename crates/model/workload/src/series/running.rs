//! Events that were in progress at the time up to which a series has everything.

use serde::{Deserialize, Serialize};

use crate::event::Event;

/// An event of a part that ended after the time up to which the series has everything. A log that is read again has it,
/// too, with the same times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunningEvent {
    /// Time at which it was sent, in microseconds since 1970-01-01 UTC.
    pub due_us: i64,
    /// Time at which it ended.
    pub ended_us: i64,
}

/// Events that ended after the last event was sent. Holds about twice the events in progress at any time.
#[derive(Debug, Default)]
pub(crate) struct RunningEvents {
    last_due_us: Option<i64>,
    events: Vec<RunningEvent>,
    prune_at: usize,
}

impl RunningEvents {
    /// Adds an event with its wall time, unless it is of a prelude.
    pub(crate) fn add(&mut self, event: &Event) {
        if !event.prelude {
            self.add_times(event.due_us, event.outcome.duration_us);
        }
    }

    fn add_times(&mut self, due_us: i64, duration_us: Option<u64>) {
        self.last_due_us = self.last_due_us.max(Some(due_us));
        let ended_us = due_us.saturating_add_unsigned(duration_us.unwrap_or(0));
        if Some(ended_us) <= self.last_due_us {
            return;
        }
        self.events.push(RunningEvent { due_us, ended_us });
        if self.events.len() > self.prune_at {
            self.prune();
            self.prune_at = 1024 + self.events.len() * 2;
        }
    }

    fn prune(&mut self) {
        let last_due_us = self.last_due_us;
        self.events
            .retain(|event| Some(event.ended_us) > last_due_us);
    }

    /// Returns the time at which the last event was sent, and the events that ended later. `None` without an event.
    pub(crate) fn finish(mut self) -> Option<(i64, Vec<RunningEvent>)> {
        self.prune();
        Some((self.last_due_us?, self.events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_end_after_the_last_was_sent_are_returned() {
        let mut running = RunningEvents::default();
        for due_us in 0..5000 {
            let duration_us = match due_us % 1000 {
                0 => 10_000,
                _ => 1,
            };
            running.add_times(due_us, Some(duration_us));
        }
        running.add_times(4_000, None);
        let (last_due_us, events) = running.finish().unwrap();
        let dues: Vec<i64> = events.iter().map(|event| event.due_us).collect();
        assert_eq!(last_due_us, 4_999);
        assert_eq!(dues, [0, 1000, 2000, 3000, 4000, 4999]);
        assert_eq!(RunningEvents::default().finish(), None);
    }
}
