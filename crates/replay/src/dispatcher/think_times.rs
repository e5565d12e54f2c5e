//! Think times of a closed loop.

use std::collections::HashMap;

use clock::Factor;
use workload::{Event, EventKind};

/// Captured think times of a closed loop: from the server's answer to the client's next statement.
pub(super) struct ThinkTimes {
    factor: Factor,
    /// End of each open session's previous event, in captured time.
    over_us: HashMap<u64, i64>,
}

impl ThinkTimes {
    pub(super) fn new(factor: Factor) -> Self {
        ThinkTimes {
            factor,
            over_us: HashMap::new(),
        }
    }

    /// Returns the think time before this event; `None` for the session's first event, which has its own due
    /// time. The duration of a statement that the capture does not have counts as think time.
    pub(super) fn before(&mut self, event: &Event) -> Option<i64> {
        let duration_us = event.outcome.duration_us.unwrap_or(0);
        let over_us = event.due_us.saturating_add_unsigned(duration_us);
        let before_us = match event.kind {
            EventKind::Disconnect => self.over_us.remove(&event.session),
            _ => self.over_us.insert(event.session, over_us),
        };
        // A client that did not wait for the answer has no think time.
        let think_us = (event.due_us - before_us?).max(0);
        Some(self.factor.of(think_us.saturating_mul(1_000)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Outcome;

    #[test]
    fn think_time_starts_at_the_end_of_the_answer() {
        let event = |session, due_us, duration_us| Event {
            session,
            sequence: 0,
            due_us,
            kind: EventKind::Simple { sql: "".into() },
            outcome: Outcome {
                duration_us,
                ..Outcome::default()
            },
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            wire_details: None,
        };
        let mut half = ThinkTimes::new("0.5".parse().unwrap());
        assert_eq!(half.before(&event(1, 100, Some(40))), None);
        assert_eq!(half.before(&event(2, 110, None)), None);
        assert_eq!(half.before(&event(1, 200, Some(500))), Some(30_000));
        assert_eq!(half.before(&event(2, 200, None)), Some(45_000));
        // Sent before the answer arrived, as far as the capture shows.
        assert_eq!(half.before(&event(1, 300, None)), Some(0));
        let end = Event {
            kind: EventKind::Disconnect,
            ..event(2, 202, None)
        };
        assert_eq!(half.before(&end), Some(1_000));
        assert!(!half.over_us.contains_key(&2));
        let mut none = ThinkTimes::new(Factor::ZERO);
        none.before(&event(1, 0, None));
        assert_eq!(none.before(&event(1, 1_000_000, None)), Some(0));
    }
}
