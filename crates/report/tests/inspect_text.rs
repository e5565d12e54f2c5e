//! Workload as text.

mod synthetic;

use inspect::{Inspection, StatementOrder};
use report::inspect_text;
use report::inspect_text::InspectTextOptions;
use report::{TextStyle, to_document};
use synthetic::{WorkloadOptions, inspected};
use workload::Literals;
use workload::WorkloadInfo;

fn text(view: &Inspection, options: InspectTextOptions) -> String {
    inspect_text::render_text(view, options, &TextStyle::default())
}

#[test]
fn workload_text_lists_its_content() {
    let text = text(
        &inspected(WorkloadOptions::default()),
        InspectTextOptions::default(),
    );
    assert_eq!(text, INSPECTED);
    assert!(text.lines().count() <= 72);
    assert!(
        text.lines()
            .all(|line| line.chars().count() <= 100 || line.contains("not replayable"))
    );
}

#[test]
fn order_and_number_of_statements_can_be_chosen() {
    let options = InspectTextOptions {
        by: None,
        order: Some(StatementOrder::Calls),
        top: Some(1),
    };
    let text = text(&inspected(WorkloadOptions::default()), options);
    assert!(text.contains("By calls, 1 of 3 statements"), "{text}");
    assert!(!text.contains("by total time"), "{text}");
    assert!(text.contains("  1.5 %  1,735  782 ms"), "{text}");
    assert!(!text.contains("insert into orders"), "{text}");
}

#[test]
fn values_are_shown_only_if_requested() {
    let hidden = text(
        &inspected(WorkloadOptions::default()),
        InspectTextOptions::default(),
    );
    assert!(!hidden.contains("secret"), "{hidden}");
    let made = WorkloadOptions {
        literals: true,
        ..WorkloadOptions::default()
    };
    let shown = text(&inspected(made), InspectTextOptions::default());
    assert!(
        shown.contains("$1 = 'secret 7'") || shown.contains("'secret"),
        "{shown}"
    );
}

#[test]
fn without_durations_calls_are_listed() {
    let made = WorkloadOptions {
        durations: false,
        ..WorkloadOptions::default()
    };
    let view = inspected(made);
    let text = text(&view, InspectTextOptions::default());
    assert!(
        text.contains("none in the log, so no times are known"),
        "{text}"
    );
    assert!(
        text.contains("Statements by calls, 3 of 3 statements"),
        "{text}"
    );
    assert!(
        !text.contains("total time") && !text.contains("0 ns"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&to_document(&view)).unwrap();
    assert!(json["captured"].is_null() && json["by_statement"][0]["captured"].is_null());
}

#[test]
fn empty_workload_is_rendered() {
    let info = WorkloadInfo::default();
    let nothing = Inspection::collect::<()>(&info, [], [], [], [], Literals::Hidden).unwrap();
    let text = text(&nothing, InspectTextOptions::default());
    assert!(text.contains("statements  0; – may write"), "{text}");
    assert!(
        !text.contains("The server") && !text.contains("Errors"),
        "{text}"
    );
}

#[test]
fn json_has_the_same_content() {
    let view = inspected(WorkloadOptions::default());
    let json: serde_json::Value = serde_json::from_str(&to_document(&view)).unwrap();
    assert_eq!(json["schema"], "rehearse/inspect/1");
    assert_eq!(json["sessions"]["count"], 20);
    assert_eq!(json["by_statement"][0]["fingerprint"], "0000000000000003");
    assert_eq!(json["by_statement"][0]["captured"]["max_ns"], 90_098_000);
    let example = &json["by_statement"][0]["example"];
    let source = example["place"]["source"].as_u64().unwrap() as usize;
    assert_eq!(json["sources"][source], "logs/shop.log");
    assert!(example["literal"].is_null());
    assert_eq!(json["errors"]["23505"]["place"]["line"], 301);
    assert_eq!(json["classes"]["insert"], 580);
    assert_eq!(json["databases"][0]["name"], "shop");
    assert_eq!(json["server"]["temporary_bytes"], 3 << 20);
    let moments = json["over_time"]["moments"].as_array().unwrap();
    let sum = |number: &dyn Fn(&serde_json::Value) -> Option<u64>| -> u64 {
        moments.iter().filter_map(number).sum()
    };
    assert_eq!(sum(&|one| one["statements"].as_u64()), 2_895);
    assert_eq!(json["statements"], 2_895);
    assert_eq!(sum(&|one| one["errors"]["23505"].as_u64()), 10);
    assert_eq!(json["errors"]["23505"]["count"], 10);
    assert_eq!(sum(&|one| one["opened"].as_u64()), 20);
    let statements = json["by_statement"].as_array().unwrap().iter();
    let all: f64 = statements
        .filter_map(|one| one["captured"]["total_ns"].as_f64())
        .sum();
    assert!((all / json["captured"]["total_ns"].as_f64().unwrap() - 1.0).abs() < 1e-9);
}

/// A shorter page keeps the first statements of every order.
#[test]
fn kept_statements_are_first_in_some_order() {
    let mut view = inspected(WorkloadOptions::default());
    view.keep(1);
    let kept: Vec<&str> = view
        .by_statement
        .iter()
        .map(|one| one.sql.as_deref().unwrap())
        .collect();
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert_eq!(view.fingerprints, 3);
}

const INSPECTED: &str = r#"shop.workload: 1 min 59 s from 2026-03-01 09:30:05 UTC
  sessions        20, at most 20 at once; 3 began before the capture
  statements      2,895, 24.1 a second; 20.0 % may write
  classes         select 2,315 · insert 580
  sent as         execute 2,315 · simple 580
  databases       shop 2,165 · stock 730
  users           app 2,895
  applications    (none) 1,450 · web 1,445
  hosts           [local] 2,740
  session times   mean 1.00 µs: under 1.00 ms 17
  durations       known of 100 %: 53.9 s in all; p50 485 µs, p95 89.7 ms, p99 89.7 ms, max 90.1 ms
  errors          23505 × 10
  not replayable  3: its parameters are not in the log; set log_parameter_max_length and log_parameter_max_length_on_error to -1

Statements a second over time (a column is 2.00 s)
                      25.0 ┤████████████▃███████████ ███████████ ███████████ ███████████
                           ┤████████████████████████▆███████████▂███████████ ███████████
                           ┤████████████████████████████████████████████████▅███████████
                         0 └────────────────────────────────────────────────────────────
  sessions open         20 ┤████████████████████████████████████████████████████████████
  errors                 1 ┤     █     █     █     █     █     █     █     █     █     █
  temporary files 3.00 MiB ┤                                             █
  lock waits             1 ┤                              █
  checkpoints            1 ┤  █
  autovacuum             1 ┤                                        █
                            0                                                 2 min 00 s

How long statements took, and their part of the time
   under 500 µs  1,735  59.9 %   1.5 %  ████████████████████████████████████████
  under 1.00 ms      0   0.0 %   0.0 %
  under 2.00 ms    580  20.0 %   1.7 %  █████████████
  under 5.00 ms      0   0.0 %   0.0 %
  under 10.0 ms      0   0.0 %   0.0 %
  under 20.0 ms      0   0.0 %   0.0 %
  under 50.0 ms      0   0.0 %   0.0 %
   under 100 ms    580  20.0 %  96.9 %  █████████████

Statements by total time (captured, the server's own), 3 of 3 statements
   share  calls   total      p50      p95      p99      max  failed  statement
  96.9 %    580  52.2 s  89.7 ms  89.7 ms  89.7 ms  90.1 ms       0  select date_trunc($1, placed_a…
   1.7 %    580  899 ms  1.55 ms  1.60 ms  1.60 ms  1.60 ms       0  insert into orders (customer_i…
   1.5 %  1,735  782 ms   453 µs   494 µs   498 µs   499 µs      10  select * from customers where…

By slowest call, 3 of 3 statements
      max  calls   share      p50      p95      p99  failed  statement
  90.1 ms    580  96.9 %  89.7 ms  89.7 ms  89.7 ms       0  select date_trunc($1, placed_at), sum(…
    the slowest: 3.92 s after the start, session 18, shop.log:100
  1.60 ms    580   1.7 %  1.55 ms  1.60 ms  1.60 ms       0  insert into orders (customer_id, total…
    the slowest: 3.84 s after the start, session 16, shop.log:98
   499 µs  1,735   1.5 %   453 µs   494 µs   498 µs      10  select * from customers where id = $1
    the slowest: 3.96 s after the start, session 19, shop.log:101

Errors, 10 with 1 code
  10  23505 unique_violation  first at shop.log:301: select * from customers where id = $1

Waits for locks, longer than deadlock_timeout
  waits   total  longest  lock
      1  2.50 s   2.50 s  ShareLock on transaction
      2.50 s for ShareLock on transaction 7 from 2026-03-01 09:31:05: select date_trunc($1, placed_…

Temporary files, by the statement that made them
  files     total   largest  statement
      2  3.00 MiB  2.00 MiB  select date_trunc($1, placed_at), sum(total) from orders group by $2 o…

The server
  temporary files  2, 3.00 MiB in all, the largest 2.00 MiB; most (3.00 MiB) by select date_trunc(…
  lock waits       1, 2.50 s in those that ended; the longest 2.50 s for ShareLock on transaction…
  checkpoints      1 (time 1); 4.10 s in all, the longest 4.10 s; 64.0 MiB of WAL
  autovacuum       1 vacuum, 0 analyzes of 1 table, 900 ms; most for shop.public.orders: 900 ms
  also             crash 1
"#;
