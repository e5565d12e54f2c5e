//! Places of events within their sessions, without gaps.

use std::collections::HashMap;

use workload::Event;

/// Numbers each session's events anew.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    /// Of each session: the next place, and statements so far.
    sessions: HashMap<u64, (u64, u64)>,
}

impl Numbering {
    pub(super) fn number(&mut self, mut event: Event) -> Event {
        let (next, statements) = self.sessions.entry(event.session).or_default();
        event.sequence = *next;
        *next += 1;
        *statements += u64::from(event.kind.is_statement());
        event
    }

    pub(super) fn statements_of(&self, session: u64) -> u64 {
        self.sessions.get(&session).map_or(0, |(_, count)| *count)
    }
}
