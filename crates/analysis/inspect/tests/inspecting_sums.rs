//! Property tests: the totals of a workload agree in every breakdown, and server events are
//! attributed to statements, tables and time.

use std::convert::Infallible;
use std::sync::Arc;

use inspect::{Inspection, STATEMENT_STRETCHES, Totals};
use proptest::prelude::*;
use sql::{Fingerprint, StatementClass};
use workload::Literals;
use workload::{
    Event, EventKind, Outcome, ServerEvent, ServerEventKind, Session, Sqlstate, StatementText,
    WorkloadInfo,
};

/// Session, time, fingerprint, duration, failure and rows of a synthetic statement.
type Made = (u64, i64, u64, Option<u64>, Option<u8>, Option<u64>);

fn made() -> impl Strategy<Value = Made> {
    (
        0u64..6,
        0i64..5_000_000,
        0u64..8,
        prop::option::of(0u64..10_000_000_000),
        prop::option::weighted(0.2, 0u8..3),
        prop::option::of(0u64..1_000),
    )
}

fn server(kind: ServerEventKind, at_us: i64) -> ServerEvent {
    ServerEvent {
        at_us,
        kind,
        ..ServerEvent::default()
    }
}

fn inspect(
    mut made: Vec<Made>,
    server_events: Vec<(ServerEvent, Option<Fingerprint>)>,
    literals: Literals,
) -> Inspection {
    made.sort_by_key(|one| one.1);
    let event = |session, due_us, kind| Event {
        session,
        sequence: 0,
        due_us,
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 1,
        prelude: false,
        wire_details: None,
    };
    let mut events = Vec::new();
    for session in 0..6u64 {
        let kind = EventKind::Connect {
            database: Arc::from(["a", "b"][session as usize % 2]),
            user: Arc::from("app"),
            application: Arc::from(""),
        };
        events.push((event(session, 0, kind), None));
    }
    for (session, due_us, which, duration_us, failed, rows) in made {
        let sql = Arc::from(format!("select {due_us}"));
        let mut event = event(session, due_us, EventKind::Simple { sql });
        event.outcome = Outcome {
            duration_us,
            rows,
            sqlstate: failed.map(|code| Sqlstate([b'2', b'3', b'5', b'0', b'0' + code])),
            ..Outcome::default()
        };
        events.push((event, Some(Fingerprint(which))));
    }
    let times = || server_events.iter().map(|(event, _)| event.at_us);
    let info = WorkloadInfo {
        span_us: events.last().map_or(0, |(event, _)| event.due_us),
        server_from_us: times().min().unwrap_or(0),
        server_to_us: times().max().unwrap_or(0),
        ..WorkloadInfo::default()
    };
    let sessions = (0..6).map(|id| {
        Ok(Session {
            id,
            database: Arc::from(""),
            user: Arc::from(""),
            application: Arc::from(""),
            client: Arc::from(""),
            start_us: 0,
            end_us: info.span_us,
            start_seen: true,
            end_seen: false,
            statements: 0,
        })
    });
    let texts = (0..7).map(|which| {
        Ok(StatementText {
            fingerprint: Fingerprint(which),
            sql: format!("select ${which}"),
            class: StatementClass::Select,
        })
    });
    let events = events.into_iter().map(Ok::<_, Infallible>);
    let server_events = server_events.into_iter().map(Ok);
    Inspection::collect(&info, server_events, sessions, events, texts, literals).unwrap()
}

proptest! {
    #[test]
    fn every_breakdown_adds_up_to_the_total(made in prop::collection::vec(made(), 0..120)) {
        let count = made.len() as u64;
        let time: u64 = made.iter().filter_map(|one| one.3).sum();
        let timed = made.iter().filter(|one| one.3.is_some()).count() as u64;
        let failed = made.iter().filter(|one| one.4.is_some()).count() as u64;
        let rows: u64 = made.iter().filter_map(|one| one.5).sum();
        let slowest = made.iter().filter_map(|one| one.3).max();
        let found = inspect(made, Vec::new(), Literals::Hidden);

        prop_assert_eq!(found.statements, count);
        prop_assert_eq!(found.with_duration(), timed);
        let by = &found.by_statement;
        prop_assert_eq!(by.iter().map(|one| one.calls).sum::<u64>(), count);
        prop_assert_eq!(by.iter().map(|one| one.errors).sum::<u64>(), failed);
        prop_assert_eq!(by.iter().filter_map(|one| one.rows).sum::<u64>(), rows);
        let total: f64 = by.iter().map(|one| one.total_ns()).sum();
        prop_assert!((total - time as f64 * 1e3).abs() <= 1.0 + total * 1e-12);
        let most = by.iter().filter_map(|one| one.example.as_ref()?.duration_us).max();
        prop_assert_eq!(most, slowest);
        for one in by {
            let of_stretches: u64 = one.over_time.iter().map(|stretch| stretch.calls).sum();
            prop_assert_eq!(of_stretches, one.calls);
            prop_assert!(one.over_time.windows(2).all(|two| two[0].place < two[1].place));
            prop_assert!(one.over_time.iter().all(|at| usize::from(at.place) < STATEMENT_STRETCHES));
            prop_assert_eq!(one.error_codes.iter().map(|code| code.count).sum::<u64>(), one.errors);
            let slowest = one.captured.map(|captured| captured.max_ns);
            let example = one.example.as_ref().unwrap();
            prop_assert_eq!(example.duration_us.map(|us| us * 1_000), slowest);
            prop_assert_eq!(&example.literal, &None);
        }

        let bins = found.durations.bins();
        prop_assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), timed);
        prop_assert_eq!(bins.iter().map(|bin| bin.time_us).sum::<u64>(), time);
        let moments = &found.over_time.moments;
        prop_assert_eq!(moments.iter().map(|one| one.statements).sum::<u64>(), count);
        prop_assert_eq!(moments.iter().map(|one| one.time_us).sum::<u64>(), time);
        prop_assert_eq!(moments.iter().flat_map(|one| one.errors.values()).sum::<u64>(), failed);
        prop_assert_eq!(moments.iter().map(|one| one.opened).sum::<u64>(), 6);
        prop_assert!(moments.iter().all(|one| one.open_max == 6));
        prop_assert_eq!(found.errors.values().map(|one| one.count).sum::<u64>(), failed);
        for breakdown in [&found.databases, &found.users, &found.applications] {
            let mut sum = Totals::default();
            for one in breakdown.names() {
                let Totals { sessions, statements, errors, time_us } = one.totals;
                sum.sessions += sessions;
                sum.statements += statements;
                sum.errors += errors;
                sum.time_us += time_us;
            }
            let whole = Totals { sessions: 6, statements: count, errors: failed, time_us: time };
            prop_assert_eq!(sum, whole);
        }
        prop_assert_eq!(found.databases.names().len(), 2);
    }

    #[test]
    fn server_events_add_up(
        made in prop::collection::vec((0..ServerEventKind::ALL.len(), -3_000_000i64..9_000_000), 0..80),
    ) {
        let mut made = made;
        made.sort_by_key(|one| one.1);
        let events = made.iter().map(|(kind, at_us)| {
            let mut event = server(ServerEventKind::ALL[*kind], *at_us);
            event.bytes = Some(10);
            event.duration_us = Some(100);
            event.subject = Some("shop.public.t".into());
            (event, (at_us % 2 == 0).then_some(Fingerprint(1)))
        });
        let events: Vec<_> = events.collect();
        let of = |kind| events.iter().filter(|(event, _)| event.kind == kind).count() as u64;
        let found = inspect(vec![(0, 5, 1, None, None, None)], events.clone(), Literals::Hidden);
        // Messages and the ends of sessions have reports of their own.
        let elsewhere = of(ServerEventKind::Message) + of(ServerEventKind::SessionEnd);
        let counted = events.len() as u64 - elsewhere;
        prop_assert_eq!(found.server.count, counted);
        prop_assert_eq!(found.server.kinds.values().sum::<u64>(), counted);
        let moments = &found.over_time.moments;
        let files = of(ServerEventKind::TemporaryFile);
        prop_assert_eq!(moments.iter().map(|one| one.temporary_files).sum::<u64>(), files);
        prop_assert_eq!(found.server.temporary_bytes, files * 10);
        let waits = of(ServerEventKind::LockWait);
        prop_assert_eq!(moments.iter().map(|one| one.lock_waits).sum::<u64>(), waits);
        let in_moments: u64 = moments.iter().map(|one| {
            one.temporary_files + one.lock_waits + one.deadlocks + one.checkpoints
                + one.autovacuums + one.autoanalyzes + one.others
        }).sum();
        // Ended waits count as time waited; a checkpoint's start counts with its end.
        let not_counted = of(ServerEventKind::LockAcquired)
            + of(ServerEventKind::LockFailed) + of(ServerEventKind::CheckpointStarting);
        prop_assert_eq!(in_moments + not_counted, counted);
        let statement = found.by_statement.iter().find(|one| one.fingerprint == Fingerprint(1));
        let files_of = |(event, of): &&(ServerEvent, Option<Fingerprint>)| {
            event.kind == ServerEventKind::TemporaryFile && of.is_some()
        };
        let expected = events.iter().filter(files_of).count() as u64;
        prop_assert_eq!(statement.map_or(0, |one| one.temporary_files), expected);
        let table = found.server.tables.get("shop.public.t");
        let vacuums = table.map_or(0, |table| table.vacuums);
        prop_assert_eq!(vacuums, of(ServerEventKind::Autovacuum));
    }
}

#[test]
fn examples_have_literals_only_if_requested() {
    let made = vec![
        (0, 10, 1, Some(5), None, None),
        (1, 20, 1, Some(9), None, None),
        (2, 30, 1, Some(7), None, None),
    ];
    let found = inspect(made, Vec::new(), Literals::Shown);
    let example = found.by_statement[0].example.as_ref().unwrap();
    assert_eq!((example.session, example.duration_us), (1, Some(9)));
    assert_eq!(example.literal.as_ref().unwrap().sql, "select 20");
}

#[test]
fn statement_of_server_events_only_has_no_calls() {
    let file = server(ServerEventKind::TemporaryFile, 5);
    let found = inspect(
        Vec::new(),
        vec![(file, Some(Fingerprint(3)))],
        Literals::Hidden,
    );
    assert_eq!(found.statements, 0);
    assert!(found.classes.is_empty());
    let [only] = &found.by_statement[..] else {
        panic!("{:?}", found.by_statement);
    };
    assert_eq!((only.calls, only.temporary_files), (0, 1));
    assert_eq!(only.sql.as_deref(), Some("select $3"));
}
