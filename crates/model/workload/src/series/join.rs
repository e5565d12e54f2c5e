//! Joins the sessions of several parts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::event::{Event, EventKind, Outcome};

/// Joins the events of several parts of a series into those of one workload: leaves out the preludes of sessions that
/// were read before, and numbers the events of each session from 0 without gaps. Memory is bounded by the open sessions.
#[derive(Debug, Clone, Default)]
pub struct SessionJoiner {
    sessions: HashMap<u64, JoinedSession>,
}

#[derive(Debug, Clone)]
struct JoinedSession {
    /// Number of the part in which its first event was read. The prelude of this part is kept.
    first_part: u64,
    /// Sequence number of its next event.
    next_sequence: u64,
}

impl SessionJoiner {
    /// Returns the next event of part `number` as it is in the whole, or `None` if it is the prelude of a session that was
    /// read before. The events of each session come in their order.
    pub fn join(&mut self, number: u64, mut event: Event) -> Option<Event> {
        let session = match self.sessions.entry(event.session) {
            Entry::Occupied(session) => {
                let session = session.into_mut();
                if event.prelude && session.first_part != number {
                    return None;
                }
                session
            }
            Entry::Vacant(session) => session.insert(JoinedSession {
                first_part: number,
                next_sequence: 0,
            }),
        };
        event.sequence = session.next_sequence;
        session.next_sequence += 1;
        if event.kind == EventKind::Disconnect {
            self.sessions.remove(&event.session);
        }
        Some(event)
    }

    /// Ends the sessions before `first`, which were cut off by a gap. Returns their ends, in ascending order of sessions.
    pub(crate) fn disconnect_sessions_before(&mut self, first: u64, due_us: i64) -> Vec<Event> {
        let cut_off = self.sessions.extract_if(|session, _| *session < first);
        let ends = cut_off.map(|(session, joined)| Event {
            session,
            sequence: joined.next_sequence,
            due_us,
            kind: EventKind::Disconnect,
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            wire_details: None,
        });
        let mut ends: Vec<Event> = ends.collect();
        ends.sort_unstable_by_key(|event| event.session);
        ends
    }

    /// Returns the number of open sessions.
    pub fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Forgets the sessions before `first`, which were cut off by a gap. Returns their numbers in ascending order.
    pub fn end_sessions_before(&mut self, first: u64) -> Vec<u64> {
        let cut_off = self.sessions.extract_if(|session, _| *session < first);
        let mut cut_off: Vec<u64> = cut_off.map(|(session, _)| session).collect();
        cut_off.sort_unstable();
        cut_off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(session: u64, prelude: bool, kind: EventKind) -> Event {
        Event {
            session,
            sequence: 90,
            due_us: 0,
            kind,
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 0,
            prelude,
            wire_details: None,
        }
    }

    #[test]
    fn join_preludes_are_kept_in_the_first_part_of_each_session_only() {
        let mut joiner = SessionJoiner::default();
        let mut join = |part, session, prelude, kind| {
            let joined = joiner.join(part, event(session, prelude, kind));
            joined.map(|event| event.sequence)
        };
        let (set, end) = (|| EventKind::Cancel, || EventKind::Disconnect);
        assert_eq!(join(3, 1, true, set()), Some(0));
        assert_eq!(join(3, 1, true, set()), Some(1));
        assert_eq!(join(3, 1, false, set()), Some(2));
        assert_eq!(join(4, 1, true, set()), None);
        assert_eq!(join(4, 2, true, set()), Some(0));
        assert_eq!(join(4, 1, false, end()), Some(3));
        assert_eq!(joiner.open_sessions(), 1);
        assert_eq!(joiner.end_sessions_before(9), [2]);
    }
}
