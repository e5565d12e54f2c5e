//! Properties of a recorded series: its parts together are the recording of one workload, and each part has the state of
//! its sessions.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use workload::series::{Retention, Series};
use workload::{
    Event, EventKind, Outcome, ServerEvent, ServerEventKind, Session, Sqlstate, WorkloadInfo,
    WorkloadReader,
};

use super::*;
use crate::sink::SessionStart;
use session_model::SessionModel;

mod continued;
mod gaps;
pub(super) mod gate;
mod lifecycle;
pub(super) mod repeated;
mod session_model;

const SECOND_US: i64 = 1_000_000;
/// A time range of parts begins here.
const START_US: i64 = 1_772_357_400 * SECOND_US;

/// Delivery of a source.
#[derive(Debug, Clone)]
enum Delivery {
    Event(Event),
    Session(Session),
    Server(ServerEvent),
}

fn event(session: u64, sequence: u64, due_us: i64, kind: EventKind) -> Event {
    Event {
        session,
        sequence,
        due_us,
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 1 + sequence,
        prelude: false,
        wire_details: None,
    }
}

fn server_event(at_us: i64) -> ServerEvent {
    ServerEvent {
        at_us,
        kind: ServerEventKind::Checkpoint,
        session: Some(1),
        ..ServerEvent::default()
    }
}

const TEXTS: [&str; 14] = [
    "select 1",
    "select count(*) from t",
    "update t set a = 1",
    "set work_mem = '8MB'",
    "set search_path = s",
    "reset work_mem",
    "begin",
    "commit",
    "rollback",
    "savepoint s",
    "rollback to s",
    "prepare p as select 1",
    "deallocate p",
    "create temp table x (a int)",
];

/// A statement: text, pause before it, duration (both in ms), and whether it fails.
type Step = (usize, i64, u64, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let duration = prop_oneof![8 => 0_u64..300, 2 => 300_u64..8_000, 1 => 8_000_u64..70_000];
    let pause = prop_oneof![6 => 0_i64..1_500, 2 => 1_500_i64..20_000, 1 => 20_000_i64..60_000];
    prop::collection::vec(
        (0..TEXTS.len(), pause, duration, prop::bool::weighted(0.1)),
        0..16,
    )
}

/// Makes the deliveries of sessions: each event when it ends.
fn deliveries(sessions: &[(i64, Vec<Step>, bool)], server: &[i64]) -> Vec<Delivery> {
    let mut all: Vec<(i64, u64, u64, Delivery)> = Vec::new();
    let mut last = Vec::new();
    for (id, (start_ms, steps, ends)) in sessions.iter().enumerate() {
        let id = id as u64;
        let start_us = START_US + start_ms * 1000;
        let connect = EventKind::Connect {
            database: "shop".into(),
            user: "app".into(),
            application: format!("a{id}").into(),
        };
        let mut events = vec![event(id, 0, start_us, connect)];
        let mut now_us = start_us;
        for (text, pause_ms, duration_ms, fails) in steps {
            now_us += pause_ms * 1000;
            let sql = TEXTS[*text].into();
            let mut next = event(id, events.len() as u64, now_us, EventKind::Simple { sql });
            next.outcome.duration_us = Some(duration_ms * 1000);
            next.outcome.sqlstate = fails.then_some(Sqlstate(*b"42P01"));
            events.push(next);
            now_us += *duration_ms as i64 * 1000;
        }
        if *ends {
            now_us += 1000;
            events.push(event(
                id,
                events.len() as u64,
                now_us,
                EventKind::Disconnect,
            ));
        }
        let record = Session {
            id,
            database: "shop".into(),
            user: "app".into(),
            application: format!("a{id}").into(),
            client: "10.0.0.1".into(),
            start_us,
            end_us: events.last().unwrap().due_us,
            start_seen: id.is_multiple_of(2),
            end_seen: *ends,
            statements: steps.len() as u64,
        };
        let order = events.len() as u64;
        for one in events {
            let end_us = one.due_us + one.outcome.duration_us.unwrap_or(0) as i64;
            all.push((end_us, id, one.sequence, Delivery::Event(one)));
        }
        match ends {
            true => all.push((now_us, id, order, Delivery::Session(record))),
            false => last.push(Delivery::Session(record)),
        }
    }
    for at_ms in server {
        let at_us = START_US + at_ms * 1000;
        all.push((at_us, u64::MAX, 0, Delivery::Server(server_event(at_us))));
    }
    all.sort_by_key(|(at_us, id, order, _)| (*at_us, *id, *order));
    all.into_iter().map(|(.., one)| one).chain(last).collect()
}

fn deliver(sink: &mut impl EventSink, deliveries: &[Delivery]) {
    for one in deliveries {
        match one.clone() {
            Delivery::Event(event) => {
                let start = SessionStart {
                    id: event.session,
                    client: "10.0.0.1",
                    start_seen: event.session.is_multiple_of(2),
                    process: 1000 + event.session,
                };
                let begun = match event.sequence {
                    0 => sink.session_begins(start),
                    _ => Ok(()),
                };
                begun.and_then(|()| sink.event(&event.borrowed()))
            }
            Delivery::Session(session) => sink.session(session),
            Delivery::Server(event) => sink.server_event(event),
        }
        .unwrap();
    }
}

fn options(path: &Path, roll_s: u64) -> SeriesOptions {
    SeriesOptions {
        path: path.to_owned(),
        roll: Duration::from_secs(roll_s),
        retention: Retention::default(),
        append: false,
        is_live: false,
        is_pipe: false,
        recipients: Vec::new(),
        mask: None,
        provenance: Provenance {
            source_kind: "log".to_owned(),
            ..Provenance::default()
        },
        starting_point: None,
        watch: SeriesWatch::default(),
        on_note: Arc::new(|_| {}),
    }
}

fn record_series(options: SeriesOptions, deliveries: &[Delivery]) -> SeriesStatus {
    let mut recorder = SeriesRecorder::create(options).unwrap();
    deliver(&mut recorder, deliveries);
    let provenance = recorder.provenance.clone();
    recorder.finish(provenance).unwrap()
}

fn record_one(path: &Path, deliveries: &[Delivery]) -> WorkloadReader {
    let mut writer =
        WorkloadWriter::create(path, WriterOptions::default(), SecretRedactor::default()).unwrap();
    deliver(&mut writer, deliveries);
    writer.finish(Provenance::default()).unwrap();
    WorkloadReader::open(path).unwrap()
}

/// Events with wall times.
fn events(reader: &WorkloadReader) -> Vec<Event> {
    let start_us = reader.info().provenance.start_wall_us;
    let events = reader.events().unwrap().map(|item| item.unwrap().0);
    let at_wall = events.map(|mut event| {
        event.due_us += start_us;
        event
    });
    at_wall.collect()
}

/// Sessions by number, with wall times.
fn sessions(reader: &WorkloadReader) -> BTreeMap<u64, Session> {
    let start_us = reader.info().provenance.start_wall_us;
    let sessions = reader.sessions().unwrap().map(Result::unwrap);
    let by_number = sessions.map(|mut session| {
        session.start_us += start_us;
        session.end_us += start_us;
        (session.id, session)
    });
    by_number.collect()
}

/// Counts of a manifest, which the events must have.
fn counts(info: &WorkloadInfo) -> [u64; 5] {
    [
        info.sessions,
        info.events,
        info.statements,
        info.with_duration,
        info.writes,
    ]
}

fn counted(events: &[Event]) -> [u64; 5] {
    let count =
        |is: &dyn Fn(&Event) -> bool| events.iter().filter(|event| is(event)).count() as u64;
    [
        count(&|event| matches!(event.kind, EventKind::Connect { .. })),
        events.len() as u64,
        count(&|event| event.kind.is_statement()),
        count(&|event| event.kind.is_statement() && event.outcome.duration_us.is_some()),
        count(&|event| {
            event
                .kind
                .sql()
                .is_some_and(|sql| workload::classify(sql).may_write())
        }),
    ]
}

/// Returns the state of each session after these events.
fn states(events: &[Event]) -> BTreeMap<u64, SessionModel> {
    let mut sessions: BTreeMap<u64, SessionModel> = BTreeMap::new();
    for event in events {
        sessions.entry(event.session).or_default().execute(event);
    }
    sessions
}

/// Checks the parts of a series alone, and the readers of all parts from each one on.
fn check_parts(path: &Path, whole: &[Event]) {
    let series = Series::open(path).unwrap();
    for (index, part) in series.parts.iter().enumerate() {
        assert_eq!(part.member.number, 1 + index as u64);
        let alone = WorkloadReader::open(&part.path).unwrap();
        alone.verify().unwrap();
        let read = events(&alone);
        assert_eq!(counts(alone.info()), counted(&read), "{part:?}");
        assert_eq!(sessions(&alone).len() as u64, alone.info().sessions);
        let mut next: BTreeMap<u64, u64> = BTreeMap::new();
        for event in &read {
            let next = next.entry(event.session).or_default();
            assert_eq!(event.sequence, *next, "{event:?}");
            assert!(*next > 0 || matches!(event.kind, EventKind::Connect { .. }));
            *next += 1;
        }
        // A session's state after this part is that of all its events until then.
        for (session, state) in states(&read) {
            let last = read.iter().rfind(|event| event.session == session).unwrap();
            let is_earlier = |event: &&Event| event.session == session && event.line <= last.line;
            let until: Vec<Event> = whole.iter().filter(is_earlier).cloned().collect();
            assert_eq!(
                Some(&state),
                states(&until).get(&session),
                "{session} in {part:?}"
            );
        }
        let all = WorkloadReader::open(path).unwrap();
        let rest = all.within(part.member.from_us, i64::MAX).unwrap();
        let read = events(&rest);
        assert_eq!(counts(rest.info()), counted(&read), "from {part:?}");
        let keys = |event: &Event| (event.due_us, event.session, event.sequence);
        assert!(read.is_sorted_by(|one, other| keys(one) < keys(other)));
        let is_within = |event: &&Event| event.due_us >= part.member.from_us && !event.prelude;
        let lines = |events: &[Event]| -> Vec<(u64, u64)> {
            let within = events.iter().filter(is_within);
            within.map(|event| (event.session, event.line)).collect()
        };
        assert_eq!(lines(&read), lines(whole));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn series_read_as_one_is_the_recording_of_one_workload(
        given in prop::collection::vec((0_i64..90_000, steps(), any::<bool>()), 1..5),
        server in prop::collection::vec(0_i64..120_000, 0..4),
        roll_s in 10_u64..40,
    ) {
        let room = tempfile::tempdir().unwrap();
        let deliveries = deliveries(&given, &server);
        let one = record_one(&room.path().join("one.workload"), &deliveries);
        let path = room.path().join("all.series");
        let status = record_series(options(&path, roll_s), &deliveries);
        let series = WorkloadReader::open(&path).unwrap();
        prop_assert_eq!(series.parts(), Some(status.parts_written as usize));
        let whole = events(&one);
        prop_assert_eq!(&events(&series), &whole);
        prop_assert_eq!(sessions(&series), sessions(&one));
        let server_events = |reader: &WorkloadReader| -> Vec<_> {
            reader.server_events().unwrap().map(Result::unwrap).collect()
        };
        prop_assert_eq!(server_events(&series), server_events(&one));
        let statements = |reader: &WorkloadReader| {
            let statements = reader.statements().unwrap().map(|one| one.unwrap().sql);
            statements.collect::<std::collections::BTreeSet<_>>()
        };
        prop_assert_eq!(statements(&series), statements(&one));
        prop_assert_eq!(counts(series.info()), counts(one.info()));
        prop_assert_eq!(status.statements, one.info().statements);
        prop_assert_eq!(series.info().span_us, one.info().span_us);
        let server_span = |info: &WorkloadInfo| {
            (info.server_events, info.server_from_us, info.server_to_us)
        };
        prop_assert_eq!(server_span(series.info()), server_span(one.info()));
        check_parts(&path, &whole);
    }
}
