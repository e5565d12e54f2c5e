//! Session state that is carried from one part of a series to the next.

use std::collections::HashMap;
use std::sync::Arc;

use crate::sink::SessionStart;
use sql::may_have_effects;
use workload::series::RunningEvent;
use workload::session_state::{SessionStateTracker, analyze_statements};
use workload::{Event, EventKind, EventRef, KindRef, Session};

/// Maximum memory of the statements that restore the state of all sessions, in bytes. Beyond it, the session with the most
/// is carried without its state.
pub const CARRIED_BYTES_MAX: usize = 256 << 20;

/// A session that may have more events.
#[derive(Debug)]
pub(super) struct CarriedSession {
    /// Its first event. `None` if the source has no connection of it.
    connect: Option<Event>,
    state: SessionStateTracker,
    held_bytes: usize,
    /// Its state was dropped because of the limit of memory.
    is_state_dropped: bool,
    /// Number of the last part in which it has an event.
    pub(super) part: u64,
    /// Sequence number of its next event in that part.
    pub(super) sequence: u64,
    /// Its record in that part.
    pub(super) record: Session,
    /// Its last statement, if that has no duration so far.
    pub(super) unended: Option<RunningEvent>,
    /// As [`SessionStart::process`].
    process: u64,
}

/// Statements that begin a session in a part.
pub(super) struct Prelude {
    /// The connection, and the statements that restore the state. Their times and numbers are those of the past.
    pub(super) events: Vec<Event>,
    /// Statements are missing because of the limits of memory.
    pub(super) is_cut: bool,
}

/// Facts about a session that has no event yet.
#[derive(Debug)]
struct NextSession {
    id: u64,
    client: Arc<str>,
    start_seen: bool,
    process: u64,
}

/// The open sessions.
#[derive(Debug, Default)]
pub(super) struct CarriedSessions {
    by_number: HashMap<u64, CarriedSession>,
    /// Numbers of those whose server process is known.
    by_process: HashMap<u64, u64>,
    held_bytes: usize,
    /// Session that begins next.
    next: Option<NextSession>,
}

impl CarriedSessions {
    /// Returns the number of open sessions.
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Returns the memory of the statements that restore their state, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(super) fn get(&self, session: u64) -> Option<&CarriedSession> {
        self.by_number.get(&session)
    }

    pub(super) fn get_mut(&mut self, session: u64) -> Option<&mut CarriedSession> {
        self.by_number.get_mut(&session)
    }

    /// Returns the identity of the server process of a session; 0 if it is unknown.
    pub(super) fn process(&self, session: u64) -> u64 {
        let next = || self.next.as_ref().filter(|next| next.id == session);
        let begun = self.by_number.get(&session).map(|session| session.process);
        begun
            .or_else(|| next().map(|next| next.process))
            .unwrap_or(0)
    }

    /// Whether the source has the start of a session.
    pub(super) fn is_start_seen(&self, session: u64) -> bool {
        let next = || self.next.as_ref().filter(|next| next.id == session);
        match self.by_number.get(&session) {
            Some(begun) => begun.record.start_seen,
            None => next().is_none_or(|next| next.start_seen),
        }
    }

    /// Returns the session of a server process, with its number in the capture.
    pub(super) fn of_process(&self, process: u64) -> Option<(u64, &CarriedSession)> {
        let number = self.by_process.get(&process)?;
        Some((*number, self.by_number.get(number)?))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &CarriedSession> {
        self.by_number.values()
    }

    /// Notes what is known about the session that begins next.
    pub(super) fn expect(&mut self, start: SessionStart<'_>) {
        self.next = Some(NextSession {
            id: start.id,
            client: start.client.into(),
            start_seen: start.start_seen,
            process: start.process,
        });
    }

    /// Adds a session with its first event, which is in part `part`. `number` is its number in the series.
    pub(super) fn begin(&mut self, event: &EventRef<'_>, number: u64, part: u64) {
        let is_connect = matches!(event.kind, KindRef::Connect { .. });
        let connect = is_connect.then(|| event.to_event());
        let names = match connect.as_ref().map(|event| &event.kind) {
            Some(EventKind::Connect {
                database,
                user,
                application,
            }) => [database, user, application].map(Arc::clone),
            _ => Default::default(),
        };
        let [database, user, application] = names;
        let expected = self.next.take().filter(|next| next.id == event.session);
        let next = expected.unwrap_or_else(|| NextSession {
            id: event.session,
            client: "".into(),
            start_seen: is_connect,
            process: 0,
        });
        let session = CarriedSession {
            connect,
            state: SessionStateTracker::default(),
            held_bytes: 0,
            is_state_dropped: false,
            part,
            sequence: 0,
            unended: None,
            process: next.process,
            record: Session {
                id: number,
                database,
                user,
                application,
                client: next.client,
                start_us: event.due_us,
                end_us: event.due_us,
                start_seen: next.start_seen,
                end_seen: false,
                statements: 0,
            },
        };
        if session.process != 0 {
            self.by_process.insert(session.process, event.session);
        }
        self.by_number.insert(event.session, session);
    }

    /// Notes whether the last event of a session is a statement without a duration. It may still run.
    pub(super) fn note_unended(&mut self, event: &EventRef<'_>, times: RunningEvent) {
        let is_unended = event.kind.is_statement() && event.outcome.duration_us.is_none();
        if let Some(session) = self.by_number.get_mut(&event.session) {
            session.unended = is_unended.then_some(times);
        }
    }

    /// Follows the state of a session through its next event. Returns the number of sessions whose state was dropped.
    pub(super) fn follow(&mut self, event: &EventRef<'_>, limit_bytes: usize) -> u64 {
        let Some(session) = self.by_number.get_mut(&event.session) else {
            return 0;
        };
        if !session.follow(event) {
            return 0;
        }
        let now_bytes = session.state.held_bytes();
        self.held_bytes = self.held_bytes + now_bytes - session.held_bytes;
        session.held_bytes = now_bytes;
        let mut dropped = 0;
        while self.held_bytes > limit_bytes {
            let sessions = self.by_number.values_mut();
            let Some(largest) = sessions.max_by_key(|session| session.held_bytes) else {
                break;
            };
            self.held_bytes -= std::mem::take(&mut largest.held_bytes);
            largest.state = SessionStateTracker::default();
            largest.is_state_dropped = true;
            dropped += 1;
        }
        dropped
    }

    /// Removes a session that has no more events.
    pub(super) fn end(&mut self, session: u64) -> Option<CarriedSession> {
        let ended = self.by_number.remove(&session)?;
        if self.by_process.get(&ended.process) == Some(&session) {
            self.by_process.remove(&ended.process);
        }
        self.held_bytes -= ended.held_bytes;
        Some(ended)
    }
}

impl CarriedSession {
    /// Returns whether its state may have changed.
    fn follow(&mut self, event: &EventRef<'_>) -> bool {
        let Some(sql) = event.kind.sql() else {
            return false;
        };
        if let KindRef::Execute { statement, .. } = event.kind {
            // The execution carries the text.
            self.state.forget_message_prepared(statement);
        }
        let is_prepared = matches!(event.kind, KindRef::Prepare { .. });
        if !self.state.in_transaction() && !is_prepared && !may_have_effects(sql) {
            return false;
        }
        let event = event.to_event();
        let statements = analyze_statements(&event.kind, sql);
        // The next part repeats the whole of an open transaction.
        self.state.record(&event, &statements, |_| true);
        true
    }

    /// Returns what begins the session in the next part.
    pub(super) fn prelude(&self) -> Prelude {
        let restoring = self.state.clone().take_statements();
        Prelude {
            events: (self.connect.iter().cloned())
                .chain(restoring.events)
                .collect(),
            is_cut: self.is_state_dropped || restoring.is_truncated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::Outcome;

    fn event(session: u64, kind: EventKind) -> Event {
        Event {
            session,
            sequence: 0,
            due_us: 0,
            kind,
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            wire_details: None,
        }
    }

    fn simple(session: u64, sql: &str) -> Event {
        event(session, EventKind::Simple { sql: sql.into() })
    }

    fn numbered(sequence: u64, event: Event) -> Event {
        Event { sequence, ..event }
    }

    fn follow(sessions: &mut CarriedSessions, event: &Event, limit: usize) -> u64 {
        if sessions.get_mut(event.session).is_none() {
            sessions.begin(&event.borrowed(), event.session, 1);
        }
        sessions.follow(&event.borrowed(), limit)
    }

    fn texts(sessions: &mut CarriedSessions, session: u64) -> Vec<String> {
        let prelude = sessions.get_mut(session).unwrap().prelude();
        let texts = prelude.events.iter().filter_map(|event| event.kind.sql());
        texts.map(|sql| sql.to_string()).collect()
    }

    #[test]
    fn prelude_has_settings_and_the_open_transaction_and_can_be_made_again() {
        let mut sessions = CarriedSessions::default();
        let texts_of_7 = [
            "set work_mem = '8MB'",
            "select 1",
            "begin",
            "update t set a = 1",
        ];
        for (sequence, sql) in (0..).zip(texts_of_7) {
            follow(
                &mut sessions,
                &numbered(sequence, simple(7, sql)),
                usize::MAX,
            );
        }
        let expected = ["set work_mem = '8MB'", "begin", "update t set a = 1"];
        assert_eq!(texts(&mut sessions, 7), expected);
        assert_eq!(texts(&mut sessions, 7), expected);
        follow(&mut sessions, &numbered(9, simple(7, "commit")), usize::MAX);
        assert_eq!(texts(&mut sessions, 7), expected[..1]);
        sessions.end(7).unwrap();
        assert_eq!((sessions.len(), sessions.held_bytes()), (0, 0));
    }

    #[test]
    fn follow_beyond_the_limit_drops_the_state_of_the_largest_session() {
        let mut sessions = CarriedSessions::default();
        follow(
            &mut sessions,
            &simple(1, "set work_mem = '8MB'"),
            usize::MAX,
        );
        let limit = 3 * sessions.held_bytes();
        follow(&mut sessions, &simple(2, "begin"), limit);
        let mut dropped = 0;
        for _ in 0..50 {
            dropped += follow(&mut sessions, &simple(2, "update t set a = 1"), limit);
            assert!(sessions.held_bytes() <= limit);
        }
        assert_eq!(dropped, 1);
        assert!(sessions.get_mut(2).unwrap().prelude().is_cut);
        assert_eq!(texts(&mut sessions, 1), ["set work_mem = '8MB'"]);
    }
}
