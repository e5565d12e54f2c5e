//! Synthetic workload: two minutes of a shop, with server events.

use std::convert::Infallible;
use std::sync::Arc;

use inspect::Inspection;
use sql::{Fingerprint, StatementClass};
use workload::Literals;
use workload::{
    Event, EventKind, Outcome, ServerEvent, ServerEventKind, Session, SourceFile, Sqlstate,
    StatementText, Unreplayable, WorkloadInfo,
};

/// Options of the workload.
#[derive(Debug, Clone)]
pub struct WorkloadOptions {
    /// Whether the log has durations.
    pub durations: bool,
    /// Whether examples keep their literals.
    pub literals: bool,
    /// Text of the statement with the most calls.
    pub sql: &'static str,
}

impl Default for WorkloadOptions {
    fn default() -> Self {
        Self {
            durations: true,
            literals: false,
            sql: "select * from customers where id = $1",
        }
    }
}

fn server_events() -> Vec<ServerEvent> {
    use ServerEventKind as Kind;
    let at = |at_us, kind, line| ServerEvent {
        at_us,
        kind,
        line,
        ..ServerEvent::default()
    };
    let mut events = vec![
        ServerEvent {
            subject: Some("time".into()),
            ..at(1_000_000, Kind::CheckpointStarting, 20)
        },
        ServerEvent {
            duration_us: Some(4_100_000),
            bytes: Some(64 << 20),
            ..at(5_000_000, Kind::Checkpoint, 30)
        },
        ServerEvent {
            subject: Some("ShareLock on transaction 7".into()),
            duration_us: Some(1_000_000),
            ..at(60_000_000, Kind::LockWait, 300)
        },
        ServerEvent {
            subject: Some("ShareLock on transaction 7".into()),
            duration_us: Some(2_500_000),
            ..at(61_500_000, Kind::LockAcquired, 310)
        },
        ServerEvent {
            subject: Some("shop.public.orders".into()),
            duration_us: Some(900_000),
            tuples_removed: Some(10),
            ..at(80_000_000, Kind::Autovacuum, 400)
        },
        ServerEvent {
            subject: Some("server process (PID 7) was terminated by signal 9: Killed".into()),
            ..at(119_000_000, Kind::Crash, 999)
        },
    ];
    events.extend([2u64, 1].map(|mib| ServerEvent {
        bytes: Some(mib << 20),
        ..at(90_000_000, Kind::TemporaryFile, 500)
    }));
    events.sort_by_key(|event| event.at_us);
    events
}

fn workload_info() -> WorkloadInfo {
    let mut info = WorkloadInfo {
        span_us: 119_960_000,
        server_to_us: 119_000_000,
        ..WorkloadInfo::default()
    };
    info.provenance.start_wall_us = 1_772_357_405_000_000;
    info.provenance.sources = vec![SourceFile {
        name: "logs/shop.log".to_owned(),
        ..SourceFile::default()
    }];
    info
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
        line: 1,
        prelude: false,
        wire_details: None,
    }
}

fn connect(session: u64) -> Event {
    let kind = EventKind::Connect {
        database: Arc::from(if session < 15 { "shop" } else { "stock" }),
        user: Arc::from("app"),
        application: Arc::from(if session.is_multiple_of(2) { "web" } else { "" }),
    };
    event(session, 0, 0, kind)
}

/// Returns the statement of this number, and which of the three texts it has.
fn statement(number: i64, durations: bool) -> (Event, Fingerprint) {
    let which = [1, 2, 1, 3, 1][number as usize % 5];
    let sql: Arc<str> = Arc::from("as sent, with 'secret'");
    let kind = if which == 3 {
        EventKind::Simple { sql }
    } else {
        EventKind::Execute {
            statement: Arc::from("s1"),
            portal: Arc::from(""),
            sql,
            parameters: vec![Some(format!("secret {number}").into())],
        }
    };
    let duration_us = [400, 1_500, 90_000][which as usize - 1] + number as u64 % 100;
    let count = number as u64;
    let event = Event {
        outcome: Outcome {
            duration_us: durations.then_some(duration_us),
            sqlstate: (number % 300 == 299).then_some(Sqlstate(*b"23505")),
            ..Outcome::default()
        },
        unreplayable: (number % 1_000 == 998).then_some(Unreplayable::ParametersMissing),
        line: 2 + count,
        ..event(count % 20, 1 + count / 20, number * 40_000, kind)
    };
    (event, Fingerprint(which))
}

fn session(id: u64) -> Session {
    Session {
        id,
        database: Arc::from(""),
        user: Arc::from(""),
        application: Arc::from(""),
        client: Arc::from("[local]"),
        start_us: 0,
        end_us: 1,
        start_seen: id > 2,
        end_seen: true,
        statements: 137,
    }
}

/// Returns the texts of the statements; the first one has the most calls.
fn statement_texts(first: &str) -> [StatementText; 3] {
    [
        (1, StatementClass::Select, first),
        (
            2,
            StatementClass::Insert,
            "insert into orders (customer_id, total) values ($1, $2)",
        ),
        (
            3,
            StatementClass::Select,
            "select date_trunc($1, placed_at), sum(total) from orders group by $2 order by $3",
        ),
    ]
    .map(|(id, class, sql)| StatementText {
        fingerprint: Fingerprint(id),
        sql: sql.to_owned(),
        class,
    })
}

/// Returns the inspection of the workload.
pub fn inspected(made: WorkloadOptions) -> Inspection {
    let connects = (0..20).map(|session| (connect(session), None));
    let statements = (0..3_000)
        .filter(|number| number % 600 > number / 60)
        .map(|number| statement(number, made.durations))
        .map(|(event, text)| (event, Some(text)));
    let server_events = server_events()
        .into_iter()
        .map(|event| (event, Some(Fingerprint(3))));
    let literals = match made.literals {
        true => Literals::Shown,
        false => Literals::Hidden,
    };
    let mut inspection = Inspection::collect::<Infallible>(
        &workload_info(),
        server_events.map(Ok),
        (0..20).map(session).map(Ok),
        connects.chain(statements).map(Ok),
        statement_texts(made.sql).map(Ok),
        literals,
    )
    .unwrap();
    inspection.workload = "shop.workload".to_owned();
    inspection
}
