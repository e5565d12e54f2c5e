//! Summary of a workload of synthetic events.

use std::collections::BTreeMap;
use std::sync::Arc;

use inspect::{Breakdown, Inspection};
use sql::{Fingerprint, StatementClass};
use workload::Literals;
use workload::{
    Event, EventKind, Outcome, Session, Sqlstate, StatementText, Unreplayable, WorkloadInfo,
};

fn event(session: u64, due_us: i64, kind: EventKind) -> Event {
    Event {
        session,
        sequence: 0,
        due_us,
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 0,
        prelude: false,
        wire_details: None,
    }
}

fn session(id: u64, database: &str, statements: u64) -> Session {
    Session {
        id,
        database: Arc::from(database),
        user: Arc::from("app"),
        application: Arc::from(""),
        client: Arc::from("[local]"),
        start_us: 0,
        end_us: 60_000_000,
        start_seen: id > 0,
        end_seen: true,
        statements,
    }
}

fn inspected() -> Inspection {
    let info = WorkloadInfo {
        span_us: 59_900_000,
        sessions_at_once: 2,
        ..WorkloadInfo::default()
    };
    let sql: Arc<str> = Arc::from("select 1");
    let connect = |database| EventKind::Connect {
        database: Arc::from(database),
        user: Arc::from("app"),
        application: Arc::from(""),
    };
    let mut events = vec![
        (event(0, 0, connect("shop")), None),
        (event(1, 0, connect("stock")), None),
    ];
    for number in 0..600i64 {
        let kind = if number % 3 == 0 {
            EventKind::Simple {
                sql: Arc::clone(&sql),
            }
        } else {
            EventKind::Execute {
                statement: Arc::from(""),
                portal: Arc::from(""),
                sql: Arc::clone(&sql),
                parameters: vec![],
            }
        };
        let mut event = event(number as u64 % 2, number * 100_000, kind);
        // Statement 1 is called twice as often; statement 2 takes ten times as long.
        let which = if number % 3 == 0 { 2 } else { 1 };
        event.outcome.duration_us =
            (number % 10 != 9).then_some(if which == 2 { 5_000 } else { 500 });
        if number == 7 {
            event.outcome.sqlstate = Sqlstate::parse("23505");
        }
        if number == 8 {
            event.unreplayable = Some(Unreplayable::ParametersMissing);
        }
        events.push((event, Some(Fingerprint(which))));
    }
    let text = |id, sql: &str, class| StatementText {
        fingerprint: Fingerprint(id),
        sql: sql.to_owned(),
        class,
    };
    Inspection::collect::<()>(
        &info,
        [],
        [session(0, "shop", 400), session(1, "stock", 200)].map(Ok),
        events.into_iter().map(Ok),
        [
            text(1, "select $1", StatementClass::Select),
            text(2, "insert into t values ($1)", StatementClass::Insert),
        ]
        .map(Ok),
        Literals::Hidden,
    )
    .unwrap()
}

#[test]
fn all_breakdowns_have_the_same_totals() {
    let inspection = inspected();
    assert_eq!(inspection.statements, 600);
    assert_eq!(inspection.kinds["simple"], 200);
    assert_eq!(inspection.kinds["execute"], 400);
    assert_eq!(
        inspection.classes,
        BTreeMap::from([(StatementClass::Select, 400), (StatementClass::Insert, 200)])
    );
    assert_eq!(inspection.arrivals.counts.iter().sum::<u64>(), 600);
    let calls: u64 = inspection.by_statement.iter().map(|one| one.calls).sum();
    assert_eq!(calls, 600);
    let statements = |breakdown: &Breakdown| -> Vec<(String, u64)> {
        let all = breakdown.names().into_iter();
        all.map(|one| (one.name, one.totals.statements)).collect()
    };
    assert_eq!(
        statements(&inspection.databases),
        [("shop".to_owned(), 300), ("stock".to_owned(), 300)]
    );
    assert_eq!(statements(&inspection.users), [("app".to_owned(), 600)]);
}

#[test]
fn sessions_errors_and_reasons_are_counted() {
    let inspection = inspected();
    assert_eq!(inspection.sessions.count, 2);
    assert_eq!(inspection.sessions.at_once, 2);
    assert_eq!(inspection.sessions.start_unseen, 1);
    assert_eq!(inspection.sessions.end_unseen, 0);
    let error = inspection.errors[&Sqlstate::parse("23505").unwrap()];
    assert_eq!((error.count, error.session, error.due_us), (1, 1, 700_000));
    assert_eq!(error.fingerprint, Some(Fingerprint(1)));
    assert_eq!(inspection.unreplayable[&Unreplayable::ParametersMissing], 1);
    assert_eq!(inspection.with_duration(), 540);
}

#[test]
fn most_expensive_statement_is_first() {
    let inspection = inspected();
    assert_eq!(inspection.arrivals.width_us, 1_000_000);
    assert_eq!(inspection.arrivals.rate_max(), 10.0);
    let [first, second] = &inspection.by_statement[..] else {
        panic!("{:?}", inspection.by_statement);
    };
    assert_eq!(first.sql.as_deref(), Some("insert into t values ($1)"));
    assert_eq!((first.calls, second.calls), (200, 400));
    assert_eq!((first.errors, second.errors), (0, 1));
    let captured = first.captured.unwrap();
    assert!((captured.p50_ns as f64 / 5e6 - 1.0).abs() < 0.01);
    assert_eq!(captured.max_ns, 5_000_000);
}
