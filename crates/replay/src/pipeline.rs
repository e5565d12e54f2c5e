//! Pipeline of a session: statements sent before the previous ones were answered.
//!
//! A group of messages ends in a Sync, and ReadyForQuery answers the group. The answer to the last statement of
//! a group ends there; the answer to another one ends with its own last message. If a statement fails, the server
//! skips everything up to the Sync (PostgreSQL documentation, 54.2.3 and 54.2.4).

use std::collections::VecDeque;

use crate::in_flight::InFlight;
use crate::job::NamedStatement;

/// Statements in flight after the one that is answered next.
#[derive(Default)]
pub(crate) struct Pipeline {
    flights: VecDeque<Box<InFlight>>,
    /// Whether a statement failed, so that the server skips all messages up to the next Sync.
    pub(crate) aborting: bool,
    /// Whether the last statement sent did not end its group.
    pub(crate) group_is_open: bool,
    /// Whether the last statement sent, or a message after it, was a Flush.
    pub(crate) flush_sent: bool,
}

impl Pipeline {
    pub(crate) fn push(&mut self, flight: Box<InFlight>) {
        self.flights.push_back(flight);
    }

    pub(crate) fn pop(&mut self) -> Option<Box<InFlight>> {
        self.flights.pop_front()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &InFlight> {
        self.flights.iter().map(|flight| &**flight)
    }

    pub(crate) fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut InFlight> {
        self.flights.iter_mut().map(|flight| &mut **flight)
    }

    /// Whether the server will skip the next statement, since another one of its group has failed.
    pub(crate) fn aborts_next(&self) -> bool {
        self.aborting && self.group_is_open
    }

    /// Returns the last statement in flight that prepares this name.
    pub(crate) fn pending_name(
        &self,
        first: Option<&InFlight>,
        name: u64,
    ) -> Option<NamedStatement> {
        let later = self.flights.iter().map(|flight| &**flight);
        let named = first.into_iter().chain(later);
        named
            .filter_map(|flight| flight.named)
            .rfind(|named| named.name == name)
    }
}
