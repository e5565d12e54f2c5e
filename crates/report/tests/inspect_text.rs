//! A workload as a reader sees it.

use std::sync::Arc;

use analyse::Inspection;
use report::{InspectView, TextStyle, inspect_text, to_json};
use workload::{
    Event, EventKind, Fingerprint, Outcome, Session, Sqlstate, StatementClass, StatementText,
    Unreplayable, WorkloadInfo,
};

fn inspected(with_durations: bool) -> InspectView {
    let mut info = WorkloadInfo {
        span_us: 119_960_000,
        sessions_at_once: 12,
        ..WorkloadInfo::default()
    };
    info.provenance.start_wall_us = 1_772_357_405_000_000;
    let events = (0..3_000i64)
        .filter(|number| number % 600 > number / 60)
        .map(|number| {
            let which = [1, 2, 1, 3, 1][number as usize % 5];
            let sql: Arc<str> = Arc::from("as sent");
            let kind = if which == 3 {
                EventKind::Simple { sql }
            } else {
                EventKind::Execute {
                    statement: Arc::from("s1"),
                    portal: Arc::from(""),
                    sql,
                    parameters: vec![],
                }
            };
            let duration_us = [400, 1_500, 90_000][which as usize - 1] + number as u64 % 100;
            let event = Event {
                session: number as u64 % 20,
                sequence: number as u64 / 20,
                due_us: number * 40_000,
                kind,
                outcome: Outcome {
                    duration_us: with_durations.then_some(duration_us),
                    sqlstate: (number % 300 == 299).then_some(Sqlstate(*b"23505")),
                    ..Outcome::default()
                },
                unreplayable: (number % 1_000 == 998).then_some(Unreplayable::ParametersMissing),
                source: 0,
                line: 0,
                prelude: false,
            };
            Ok((event, Some(Fingerprint(which))))
        });
    let sessions = (0..20).map(|id| {
        Ok(Session {
            id,
            database: Arc::from(if id < 15 { "shop" } else { "stock" }),
            user: Arc::from("app"),
            application: Arc::from(if id % 2 == 0 { "web" } else { "" }),
            client: Arc::from("[local]"),
            start_us: 0,
            end_us: 1,
            start_seen: id > 2,
            end_seen: true,
            statements: 137,
        })
    });
    let texts = [
        (
            1,
            StatementClass::Select,
            "select * from customers where id = $1",
        ),
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
    ];
    let texts = texts.map(|(id, class, sql)| {
        Ok::<_, ()>(StatementText {
            fingerprint: Fingerprint(id),
            sql: sql.to_owned(),
            class,
        })
    });
    let inspection = Inspection::collect(&info, events, sessions, texts).unwrap();
    InspectView::new("shop.workload", &inspection)
}

#[test]
fn a_workload_tells_what_is_in_it() {
    let text = inspect_text::render_text(&inspected(true), &TextStyle::default());
    assert_eq!(text, INSPECTED);
    assert!(text.lines().count() <= 40);
}

#[test]
fn without_durations_calls_are_what_is_known() {
    let text = inspect_text::render_text(&inspected(false), &TextStyle::default());
    assert!(
        text.contains("durations       known of 0.0 % of the statements"),
        "{text}"
    );
    assert!(
        text.contains("Statements by calls, 3 of 3 statements"),
        "{text}"
    );
    assert!(!text.contains("total time"), "{text}");
}

#[test]
fn an_empty_workload_is_no_error() {
    let nothing = Inspection::collect::<()>(&WorkloadInfo::default(), [], [], []).unwrap();
    let text = inspect_text::render_text(
        &InspectView::new("e.workload", &nothing),
        &TextStyle::default(),
    );
    assert!(text.contains("statements  0; – may write"), "{text}");
}

#[test]
fn machines_are_told_the_same() {
    let json: serde_json::Value = serde_json::from_str(&to_json(&inspected(true))).unwrap();
    assert_eq!(json["schema"], "rehearse/inspect/1");
    assert_eq!(json["sessions"], 20);
    assert_eq!(json["by_statement"][0]["fingerprint"], "0000000000000003");
    assert_eq!(json["by_statement"][0]["captured"]["max_us"], 90_098.0);
}

const INSPECTED: &str = r#"shop.workload: 1 min 59 s from 2026-03-01 09:30:05 UTC
  sessions        20, at most 12 at once; 3 began before the capture
  statements      2,895, 24.1 a second; 20.0 % may write
  classes         select 2,315 · insert 580
  sent as         execute 2,315 · simple 580
  databases       shop 2,055 · stock 685
  users           app 2,740
  applications    (none) 1,370 · web 1,370
  durations       known of 100 % of the statements
  errors          23505 × 10
  not replayable  3: its parameters are not in the log; set log_parameter_max_length and log_parameter_max_length_on_error to -1

Statements a second over time (a column is 2.00 s)
  25.0 ┤████████████▃███████████ ███████████ ███████████ ███████████
       ┤████████████████████████▆███████████▂███████████ ███████████
       ┤████████████████████████████████████████████████▅███████████
     0 └────────────────────────────────────────────────────────────
        0                                                 2 min 00 s

Statements by total time (captured, the server's own), 3 of 3 statements
   share  calls   total      p50      p95      p99      max  statement
  96.9 %    580  52.2 s  89.7 ms  89.7 ms  89.7 ms  90.1 ms  select date_trunc($1, placed_at), sum(…
   1.7 %    580  899 ms  1.55 ms  1.60 ms  1.60 ms  1.60 ms  insert into orders (customer_id, total…
   1.5 %  1,735  782 ms   453 µs   494 µs   498 µs   499 µs  select * from customers where id = $1
"#;
