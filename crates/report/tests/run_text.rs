//! Summary of a run as text.

#[path = "run_text/observed.rs"]
mod observed;
#[path = "../../analysis/compare/tests/made_up/mod.rs"]
mod synthetic_runs;

use inspect::{DivergenceFinder, Summary};
use report::{TextStyle, run_text, to_json};
use run::{RunStatus, SkipReason};
use study::run_summary::RunReport;
use synthetic_runs::{connect, done, failed, info, skipped, text};
use workload::Literals;
use workload::Unreplayable;

fn view() -> RunReport {
    let mut executions = vec![
        connect(1, 0),
        connect(2, 0),
        failed(&connect(3, 0), "53300", 1e6),
    ];
    for number in 0..1_000u64 {
        let mut one = done(
            1,
            number,
            number as i64 * 60_000_000,
            1e6 + number as f64 * 1e3,
        );
        if number == 500 {
            one.session_lag_ns = 40_000_000;
            one.due_ns -= 40_000_000;
        }
        executions.push(match number {
            10..=12 => failed(&one, "23505", 1e6),
            13 => failed(&one, "22P02", 1e6),
            20 => skipped(&one, SkipReason::Unreplayable(Unreplayable::ParametersCut)),
            30..=39 => skipped(&one, SkipReason::NoConnection),
            _ => one,
        });
    }
    let mut finder = DivergenceFinder::new(true);
    for execution in &executions {
        finder.add(execution);
    }
    let mut info = info();
    info.status = RunStatus::Stopped;
    let texts = [Ok(text(1, "insert into orders values ($1)"))];
    let divergence = finder.finish::<()>(texts, &info, Literals::Hidden).unwrap();
    let summary = Summary::collect::<()>(executions.into_iter().map(Ok), Literals::Hidden).unwrap();
    RunReport::new("before.run", &info, summary, divergence)
}

#[test]
fn run_text_accounts_for_every_statement() {
    let text = run_text::render_text(&view(), &TextStyle::default());
    assert_eq!(text, RUN);
}

#[test]
fn run_without_sent_statements_has_no_divergence() {
    let told = |executions: Vec<run::Execution>| {
        let mut finder = DivergenceFinder::new(true);
        executions
            .iter()
            .for_each(|execution| finder.add(execution));
        let divergence = finder.finish::<()>([], &info(), Literals::Hidden).unwrap();
        let summary =
            Summary::collect::<()>(executions.into_iter().map(Ok), Literals::Hidden).unwrap();
        let view = RunReport::new("none.run", &info(), summary, divergence);
        run_text::render_text(&view, &TextStyle::default())
    };
    let text = told(vec![connect(1, 0)]);
    assert!(text.contains("No statement was sent"), "{text}");
    assert!(!text.contains("the capture did not know any"), "{text}");
}

#[test]
fn json_has_the_same_content() {
    let json: serde_json::Value = serde_json::from_str(&to_json(&view())).unwrap();
    assert_eq!(json["schema"], "rehearse/run/1");
    assert_eq!(json["status"], "stopped");
    assert_eq!(json["failed"]["23505"], 3);
    assert_eq!(json["skipped"]["no_connection"], 10);
    assert_eq!(json["service"]["count"], 985);
    let divergence = &json["divergence"];
    let classes = [
        "same",
        "lost",
        "errors_new",
        "errors_other",
        "rows_differ",
        "errors_gone",
        "following",
        "following_gone",
        "unknown",
        "lost_unsent",
        "skipped",
    ];
    let sum: u64 = classes
        .map(|class| divergence[class].as_u64().unwrap())
        .into_iter()
        .sum();
    assert_eq!((sum, json["statements"].as_u64()), (6_000, Some(6_000)));
    assert_eq!(divergence["statements"], 6_000);
}

const RUN: &str = r#"before.run: partial, it was stopped. shop.workload at speed 1 against localhost:5432, PostgreSQL 17.2
  statements   6,000  in 59.9 s, 16.5 a second (due over 1 min 00 s)
  done           985  985 rows, 96.9 KiB
  failed           4  23505 × 3 · 22P02 × 1
  skipped      5,011
                   1  its parameters were cut in the log; set log_parameter_max_length = -1
                  10  its session had no connection
               5,000  the replay was stopped before its turn
  connections      2  opened; 1 failed: 53300 × 1

Times                                            p50      p95      p99      max
  service time (sent → done)                 1.50 ms  1.96 ms  1.99 ms  2.00 ms
  response time (due → done)                 1.56 ms  2.01 ms  2.04 ms  41.5 ms
  tool lag (ours)                            49.9 µs  49.9 µs  49.9 µs  50.0 µs
  session lag (previous statement not done)     0 ns     0 ns     0 ns  40.0 ms
  opening a connection                       2.00 ms  2.00 ms  2.00 ms  2.00 ms
  1 session was once more than 10.0 ms late, because the previous statement was not done

Compared with the capture
  The replay did not do all that the capture did: 985 of 6,000 statements the same, 10 statements
  lost with the connection, 4 new errors, 0 errors gone, 5,001 not sent.
  Errors were compared, numbers of rows were not: the capture did not know any (no log does).
  new 23505 × 3  insert into orders values ($1)
    first shop.log:20; it failed with #
  new 22P02 × 1  insert into orders values ($1)
    first shop.log:23; it failed with #P0#

First of each error
  53300 session 3, event 0 (connect): it failed with #
  23505 session 10, event 10 (execute): it failed with #
  22P02 session 13, event 13 (execute): it failed with #P0#
"#;
