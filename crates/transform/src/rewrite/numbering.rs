//! Renumbers events within their sessions, without gaps.

use std::collections::HashMap;

use workload::Event;

/// Renumbers each session's events.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    /// For each session: the next number, and the number of statements so far.
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
