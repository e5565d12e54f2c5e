//! Tests of sessions.

use super::*;
use crate::in_flight::Protocol;
use crate::job::NamedStatement;
use run::{Captured, StatementKind};

fn session_in_flight(named: Option<NamedStatement>) -> Session {
    let mut session = Session::new(1, ResultChecksums::None);
    fly(&mut session, named);
    session
}

fn fly(session: &mut Session, named: Option<NamedStatement>) {
    let job = Job {
        session: 1,
        sequence: 0,
        due_ns: 0,
        captured_us: 0,
        think_ns: None,
        kind: StatementKind::Execute,
        fingerprint: None,
        captured: Captured::default(),
        commits_before: 0,
        dependencies: Box::default(),
        transaction_failed: false,
        session_effect: Default::default(),
        awaited: true,
        boundary: workload::Boundary::Sync,
        expected: None,
        used: Box::default(),
        action: crate::job::Action::Disconnect,
    };
    let mut flight = InFlight::new(job, 0, 0, Protocol::Extended);
    flight.named = named;
    session.in_flight = Some(Box::new(flight));
}

fn tagged(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut message = vec![tag];
    message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    message.extend_from_slice(body);
    message
}

const NAMED: NamedStatement = NamedStatement { name: 1, sql: 10 };
const CHANGED: NamedStatement = NamedStatement { name: 1, sql: 11 };

fn messages(named: NamedStatement) -> Messages {
    Messages {
        bytes: b"CloseParseBind".to_vec(),
        close_bytes: 5,
        parse_bytes: 5,
        named: Some(named),
        reparses: false,
        extended: true,
        copy: None,
    }
}

#[test]
fn session_answer_split_anywhere_gives_the_same_result() {
    let mut answer = tagged(b'2', b"");
    answer.extend(tagged(b'D', b"\0\x01\0\0\0\x01x"));
    answer.extend(tagged(b'C', b"SELECT 1\0"));
    answer.extend(tagged(b'C', b"UPDATE 5\0"));
    answer.extend(tagged(b'Z', b"I"));
    for cut in 0..answer.len() {
        let mut session = session_in_flight(None);
        let mut heard = Vec::new();
        for mut part in [&answer[..cut], &answer[cut..]] {
            heard.push(session.on_bytes(&mut part, 7).unwrap());
            assert!(part.is_empty());
        }
        assert_eq!(heard, [SessionEvent::Nothing, SessionEvent::StatementDone]);
        let flight = session.in_flight.unwrap();
        assert_eq!((flight.rows, flight.bytes), (6, answer.len() as u64));
        assert_eq!(flight.first_byte_ns, Some(7));
    }
}

#[test]
fn session_prepares_a_name_once_and_again_when_its_sql_changes() {
    let mut session = Session::new(1, ResultChecksums::None);
    assert_eq!(session.required_messages(&messages(NAMED)), b"ParseBind");
    let hear = |session: &mut Session, named, bytes: &[u8]| {
        fly(session, named);
        session.on_bytes(&mut &bytes[..], 0).unwrap();
        session.in_flight = None;
    };
    fly(&mut session, Some(NAMED));
    // The statement in flight prepares it.
    assert_eq!(session.required_messages(&messages(NAMED)), b"Bind");
    assert_eq!(
        session.required_messages(&messages(CHANGED)),
        b"CloseParseBind"
    );
    hear(&mut session, Some(NAMED), &tagged(b'1', b""));
    assert_eq!(session.required_messages(&messages(NAMED)), b"Bind");
    assert_eq!(
        session.required_messages(&messages(CHANGED)),
        b"CloseParseBind"
    );
    let closed_and_parsed = [tagged(b'3', b""), tagged(b'1', b"")].concat();
    hear(&mut session, Some(CHANGED), &closed_and_parsed);
    assert_eq!(session.required_messages(&messages(CHANGED)), b"Bind");
    let again = Messages {
        reparses: true,
        ..messages(CHANGED)
    };
    assert_eq!(session.required_messages(&again), b"CloseParseBind");
    hear(&mut session, None, &tagged(b'C', b"DEALLOCATE\0"));
    assert_eq!(
        session.required_messages(&messages(CHANGED)),
        b"CloseParseBind"
    );
    hear(&mut session, None, &tagged(b'C', b"DISCARD ALL\0"));
    assert_eq!(session.required_messages(&messages(CHANGED)), b"ParseBind");
}

#[test]
fn session_failed_parse_prepares_nothing() {
    let mut session = session_in_flight(Some(NAMED));
    let error = tagged(b'E', b"SERROR\0C42P01\0Mno such table\0\0");
    session.on_bytes(&mut &error[..], 0).unwrap();
    let flight = session.in_flight.take().unwrap();
    assert_eq!(session.required_messages(&messages(NAMED)), b"ParseBind");
    assert_eq!(
        flight.error,
        Some((Sqlstate(*b"42P01"), "no such table".to_owned()))
    );
    assert_eq!(session.fatal_error, None);
}

#[test]
fn session_keeps_a_fatal_error_when_nothing_is_in_flight() {
    let mut session = Session::new(1, ResultChecksums::None);
    let error = tagged(b'E', b"SFATAL\0VFATAL\0C57P01\0Mterminating\0\0");
    assert_eq!(
        session.on_bytes(&mut &error[..], 0).unwrap(),
        SessionEvent::Nothing
    );
    assert_eq!(session.fatal_error.unwrap().0, Sqlstate(*b"57P01"));
}
