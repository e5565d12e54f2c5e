//! Checks that events are possible: their times are within a lifetime of the workload's start, and they are in order.

use crate::event::Event;

/// Farthest time from a workload's start, in microseconds: a hundred years.
const TIME_US_MAX: i64 = 100 * 366 * 86_400 * 1_000_000;

/// Whether a time or a duration, in microseconds from a workload's start, is possible.
pub(crate) fn is_possible_us(us: i64) -> bool {
    us.unsigned_abs() <= TIME_US_MAX.unsigned_abs()
}

/// Check of the events of one workload, one after the other.
#[derive(Debug, Default)]
pub(crate) struct EventCheck {
    /// Due time, session and sequence of the last event.
    last: Option<(i64, u64, u64)>,
    /// Whether events must be in order. Those of a recovered workload may not be.
    is_ordered: bool,
}

impl EventCheck {
    pub(crate) fn new(is_ordered: bool) -> Self {
        EventCheck {
            last: None,
            is_ordered,
        }
    }

    /// Checks the next event. An error describes what is wrong.
    pub(crate) fn check(&mut self, event: &Event) -> Result<(), String> {
        let (session, sequence) = (event.session, event.sequence);
        let refuse = |what: &str| Err(format!("event {sequence} of session {session} {what}"));
        if !is_possible_us(event.due_us) {
            return refuse("is more than a hundred years from the start");
        }
        let duration_us = event.outcome.duration_us.unwrap_or(0);
        if !i64::try_from(duration_us).is_ok_and(is_possible_us) {
            return refuse("took more than a hundred years");
        }
        let key = (event.due_us, session, sequence);
        if self.is_ordered && self.last.is_some_and(|last| last >= key) {
            return refuse("is not after the event before it");
        }
        self.last = Some(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, Outcome};

    fn event(session: u64, sequence: u64, due_us: i64) -> Event {
        Event {
            session,
            sequence,
            due_us,
            kind: EventKind::Cancel,
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 1,
            prelude: false,
            wire_details: None,
        }
    }

    fn refusal(events: &[Event]) -> Option<String> {
        let mut check = EventCheck::new(true);
        events.iter().find_map(|event| check.check(event).err())
    }

    #[test]
    fn events_in_order_are_possible() {
        let events = [
            event(1, 0, -5),
            event(1, 1, -5),
            event(2, 0, -5),
            event(0, 0, 9),
        ];
        assert_eq!(refusal(&events), None);
    }

    #[test]
    fn impossible_times_repeated_and_unordered_events_are_refused() {
        for due_us in [i64::MIN, i64::MAX] {
            assert!(
                refusal(&[event(1, 2, due_us)])
                    .unwrap()
                    .contains("hundred years")
            );
        }
        let mut long = event(1, 2, 0);
        long.outcome.duration_us = Some(u64::MAX);
        assert!(refusal(&[long]).unwrap().contains("took more"));
        for events in [
            [event(1, 2, 3), event(1, 2, 3)],
            [event(1, 2, 3), event(1, 3, 2)],
        ] {
            assert!(refusal(&events).unwrap().contains("not after"));
        }
        let mut recovered = EventCheck::new(false);
        assert_eq!(recovered.check(&event(1, 2, 3)), Ok(()));
        assert_eq!(recovered.check(&event(1, 2, 2)), Ok(()));
    }
}
