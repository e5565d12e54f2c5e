//! A normal form of events for comparisons: one line each, without properties that differ between
//! the formats of one log (lines) and between runs (absolute times).

use std::fmt::Write;

use capture_sink::EventCollector;
use workload::{Event, EventKind, Parameter};

/// Formats events by session and sequence, then the sessions.
pub fn normal_form(collected: &EventCollector) -> String {
    let mut events: Vec<&Event> = collected.events.iter().collect();
    events.sort_by_key(|event| (event.session, event.sequence));
    let mut text = String::new();
    for event in events {
        let Event {
            session, sequence, ..
        } = event;
        write!(text, "{session}.{sequence} {}", event.kind.name()).unwrap();
        match &event.kind {
            EventKind::Connect {
                database,
                user,
                application,
            } => {
                write!(text, " {database:?} {user:?} {application:?}").unwrap();
            }
            EventKind::Simple { sql } => write!(text, " {sql:?}").unwrap(),
            EventKind::Prepare { statement, sql } => {
                write!(text, " {statement:?} {sql:?}").unwrap()
            }
            EventKind::Fetch {
                statement,
                portal,
                sql,
            } => {
                write!(text, " {statement:?}/{portal:?} {sql:?}").unwrap();
            }
            EventKind::Execute {
                statement,
                portal,
                sql,
                parameters,
            } => {
                let parameters: Vec<Option<&str>> = parameters
                    .iter()
                    .map(|value| value.as_ref().and_then(Parameter::readable))
                    .collect();
                write!(text, " {statement:?}/{portal:?} {sql:?} {parameters:?}").unwrap();
            }
            // A log has none.
            EventKind::FunctionCall { .. } => (),
            EventKind::Cancel | EventKind::Disconnect => (),
        }
        if event.outcome.duration_us.is_some() {
            text.push_str(" timed");
        }
        if let Some(code) = event.outcome.sqlstate {
            write!(text, " failed {code}").unwrap();
        }
        if let Some(reason) = event.unreplayable {
            write!(text, " {}", reason.name()).unwrap();
        }
        text.push('\n');
    }
    let mut sessions = collected.sessions.clone();
    sessions.sort_by_key(|session| session.id);
    for session in &sessions {
        writeln!(
            text,
            "session {} {:?} {:?} {:?} start_seen={} end_seen={} statements={}",
            session.id,
            session.database,
            session.user,
            session.application,
            session.start_seen,
            session.end_seen,
            session.statements
        )
        .unwrap();
    }
    text
}

/// Panics if an invariant of workloads does not hold.
pub fn check_laws(collected: &EventCollector) {
    let mut events: Vec<&Event> = collected.events.iter().collect();
    events.sort_by_key(|event| (event.session, event.sequence));
    for (index, event) in events.iter().enumerate() {
        let before = index
            .checked_sub(1)
            .map(|index| events[index])
            .filter(|before| before.session == event.session);
        match before {
            None => {
                assert_eq!(event.sequence, 0);
                assert!(matches!(event.kind, EventKind::Connect { .. }), "{event:?}");
            }
            Some(before) => {
                assert_eq!(event.sequence, before.sequence + 1);
                assert!(event.due_us >= before.due_us);
                assert!(
                    !matches!(event.kind, EventKind::Connect { .. }),
                    "{event:?}"
                );
                assert!(before.kind != EventKind::Disconnect, "{event:?}");
            }
        }
    }
    let mut ids: Vec<u64> = collected
        .sessions
        .iter()
        .map(|session| session.id)
        .collect();
    ids.sort_unstable();
    assert!(
        ids.iter().copied().eq(0..ids.len() as u64),
        "sessions without a gap: {ids:?}"
    );
    for session in &collected.sessions {
        let statements = events
            .iter()
            .filter(|event| event.session == session.id && event.kind.is_statement());
        assert_eq!(session.statements, statements.count() as u64);
        assert!(session.start_us <= session.end_us);
    }
    assert!(
        events
            .iter()
            .all(|event| ids.binary_search(&event.session).is_ok())
    );
}
