//! Comparison as text.

#[path = "../../analysis/compare/tests/made_up/mod.rs"]
mod synthetic_runs;

use compare::{CompareOptions, Comparison, RunStats, Runs, compare};
use report::{TextStyle, compare_text, to_document};
use run::{Execution, RunStatus, SkipReason};
use synthetic_runs::{Chance, connect, counted, done, failed, info, skipped, text};

fn traffic(seed: u64, factors: [f64; 3]) -> Vec<Execution> {
    let mut chance = Chance::new(seed);
    let mut executions: Vec<Execution> = (0..30)
        .map(|session| connect(session, session as i64))
        .collect();
    for number in 0..6_000u64 {
        let which = (number % 3) as usize;
        let service_ns = [1e6, 2e5, 5e6][which] * factors[which] * chance.skewed();
        executions.push(done(
            which as u64 + 1,
            number,
            number as i64 * 10_000_000,
            service_ns,
        ));
    }
    executions
}

fn profile(name: &str, executions: Vec<Execution>, status: RunStatus) -> RunStats {
    let texts = [
        text(1, "select * from customers where id = $1"),
        text(
            2,
            "select o.id, o.total, o.placed_at from orders o where o.customer_id = $1 and o.placed_at > $2 order by o.placed_at desc limit $3",
        ),
        text(3, "insert into orders (customer_id, total) values ($1, $2)"),
    ];
    let mut info = info();
    info.status = status;
    let statistics = counted(&executions);
    let executions = executions.into_iter().map(Ok);
    let mut profile = RunStats::collect::<()>(info, executions, texts.map(Ok)).unwrap();
    profile.add_statistics(statistics).unwrap();
    profile.name = name.to_owned();
    profile
}

fn compared(
    names: [&str; 2],
    before: Vec<Execution>,
    after: Vec<Execution>,
    status: RunStatus,
) -> Comparison {
    let runs = Runs {
        before: vec![profile(names[0], before, RunStatus::Complete)],
        after: vec![profile(names[1], after, status)],
        noise: Vec::new(),
    };
    compare(runs, CompareOptions::default())
}

fn regressed() -> Comparison {
    let mut after = traffic(2, [1.0, 4.0, 0.5]);
    after[132] = failed(&after[132], "22P02", 1e5);
    after[132].message = Some("invalid input syntax for type integer: \"jane\"".to_owned());
    after[133] = skipped(&after[133], SkipReason::Stopped);
    let names = ["before.run", "after.run"];
    compared(names, traffic(1, [1.0; 3]), after, RunStatus::Stopped)
}

#[test]
fn regression_is_first_and_named() {
    let text = compare_text::render_text(&regressed(), &TextStyle::default());
    assert_eq!(text, REGRESSED);
}

#[test]
fn equal_runs_have_no_regression() {
    let comparison = compared(
        ["a.run", "b.run"],
        traffic(1, [1.0; 3]),
        traffic(2, [1.0; 3]),
        RunStatus::Complete,
    );
    let text = compare_text::render_text(&comparison, &TextStyle::default());
    assert_eq!(text, THE_SAME);
}

#[test]
fn empty_runs_are_insufficient_data() {
    let comparison = compared(["a.run", "b.run"], vec![], vec![], RunStatus::Complete);
    let text = compare_text::render_text(&comparison, &TextStyle::default());
    assert!(
        text.starts_with("Inconclusive: there is not enough data to say anything.\n"),
        "{text}"
    );
    assert!(text.contains("! only 0 statements to compare"), "{text}");
}

#[test]
fn colours_are_optional_and_never_alone() {
    let view = regressed();
    let plain = compare_text::render_text(&view, &TextStyle::default());
    let style = TextStyle {
        colour: true,
        ..TextStyle::default()
    };
    let coloured = compare_text::render_text(&view, &style);
    assert!(!plain.contains('\x1b'));
    assert!(coloured.contains("\x1b[1;31mREGRESSION"));
    let mut stripped = String::new();
    for piece in coloured.split('\x1b') {
        let text = piece
            .split_once('m')
            .filter(|_| piece.starts_with('['))
            .map_or(piece, |(_, text)| text);
        stripped.push_str(text);
    }
    assert_eq!(stripped, plain);
}

#[test]
fn narrow_terminal_shortens_only_statements() {
    let style = TextStyle {
        width: 60,
        colour: false,
    };
    let text = compare_text::render_text(&regressed(), &style);
    let line = text
        .lines()
        .find(|line| line.contains("select o.id"))
        .unwrap();
    assert!(line.ends_with('…') && line.chars().count() <= 60, "{line}");
}

#[test]
fn comparison_has_about_forty_lines() {
    let mut view = regressed();
    let lines = |view: &Comparison| {
        let text = compare_text::render_text(view, &TextStyle::default());
        text.lines().count()
    };
    assert!(lines(&view) <= 40);
    // With more of everything, statements are left out and the most important stay.
    let slower = view.statements[0].clone();
    view.statements.extend(vec![slower; 20]);
    assert!((36..=42).contains(&lines(&view)), "{}", lines(&view));
    let error = view.errors[0].clone();
    view.errors.extend(vec![error; 20]);
    assert!(lines(&view) <= 48, "{}", lines(&view));
    let text = compare_text::render_text(&view, &TextStyle::default());
    assert!(text.contains("more statements"), "{text}");
}

#[test]
fn json_has_the_same_content() {
    let json: serde_json::Value = serde_json::from_str(&to_document(&regressed())).unwrap();
    assert_eq!(json["schema"], "rehearse/compare/3");
    assert_eq!(json["verdict"]["verdict"], "regression");
    assert_eq!(json["verdict"]["causes"], 1);
    assert_eq!(json["statements"][0]["fingerprint"], "0000000000000002");
    assert_eq!(json["statements"][0]["service"]["finding"], "slower");
    assert_eq!(json["statements"][0]["service"]["before"]["count"], 2_000);
    assert!(
        json["statements"][0]["service"]["median_ratio"]["interval"]["low"]
            .as_f64()
            .unwrap()
            > 3.5
    );
    assert_eq!(json["statements"][0]["service"]["measure"], "median");
    assert_eq!(json["warnings"][0]["warning"], "partial");
    assert_eq!(json["warnings"][0]["status"], "stopped");
    assert_eq!(json["literals"], "hidden");
    let message = json["errors"][0]["message"].as_str().unwrap();
    assert_eq!(message, "invalid input syntax for type integer: \"…\"");
}

const REGRESSED: &str = r#"REGRESSION: 1 statement got slower independently; 1 error is new or more frequent (1 time).
  slower: select o.id, o.total, o.placed_at from orders o where o.customer_id = $1 and o.placed_at…
    blocks a call 20.5 → 83.9; execution time × 4.02 relative to the others; +1.27 s in all
  faster: insert into orders (customer_id, total) values ($1, $2)
    blocks a call 525 → 262; execution time × 0.50 relative to the others; −5.26 s in all

  before  before.run  6,000 done, 0 failed, 0 skipped, in 60.0 s, 100 a second, PostgreSQL 17.2
  after   after.run   5,998 done, 1 failed, 1 skipped, in 60.0 s, 100 a second, PostgreSQL 17.2

Read with care:
  ! the run after is partial: it was stopped before its end
  ! 0 statements before and 1 after were skipped

Service time (sent → done), before → after; what adds most time first
finding          ratio [95 %]        statement
       added          calls               p50               p95               p99  captured p50
faster (mean)    0.69 [0.68 – 0.70]  ALL STATEMENTS
     −4.00 s  6,000 → 5,998  993 µs → 1.11 ms    6.95 → 3.46 ms    8.82 → 4.45 ms        700 µs
not enough data  –                   CONNECTING
       +0 ns             30    2.00 → 2.00 ms    2.00 → 2.00 ms    2.00 → 2.00 ms             –
slower           4.07 [3.96 – 4.15]  select o.id, o.total, o.placed_at from orders o where o.custom…
     +1.27 s  2,000 → 1,999      201 → 817 µs  330 µs → 1.33 ms  393 µs → 1.57 ms        700 µs
faster           0.49 [0.48 – 0.51]  insert into orders (customer_id, total) values ($1, $2)
     −5.26 s          2,000    5.04 → 2.49 ms    8.29 → 4.16 ms    10.1 → 5.01 ms        700 µs
same             1.00 [0.98 – 1.03]  select * from customers where id = $1
    −10.7 ms          2,000      993 → 996 µs    1.63 → 1.60 ms    1.99 → 1.94 ms        700 µs

Errors that changed, before → after
new  22P02  0 → 1  invalid input syntax for type integer: "…": select * from customers where id =…
Some executions of 2 statements could not be compared, and no other rows were found in the rest.

Response time (due → done): p50 1.04 → 1.16 ms, p99 8.87 → 4.50 ms. Tool lag p99 49.9 → 49.9 µs.
added     difference of the mean times the calls of a run before: what the change costs in all
ratio     after / before of the median (or of what the finding names), with its 95 % interval
finding   slower, faster: independently; with the others: the same work, as they did; looks: not proven; same: ±10 %
captured  another machine, another day; server time only
Failed and skipped statements are in no time. One run on each side: how much two runs of
the same server differ is not in the intervals (--before A.run B.run --after …, or --noise).
"#;
const THE_SAME: &str = r#"No regression was found.

  before  a.run  6,000 done, 0 failed, 0 skipped, in 60.0 s, 100 a second, PostgreSQL 17.2
  after   b.run  6,000 done, 0 failed, 0 skipped, in 60.0 s, 100 a second, PostgreSQL 17.2

Service time (sent → done), before → after; what adds most time first
finding          ratio [95 %]        statement
       added  calls             p50             p95             p99  captured p50
same             1.00 [0.98 – 1.03]  ALL STATEMENTS
    −6.99 ms  6,000    993 → 996 µs  6.95 → 6.91 ms  8.82 → 8.87 ms        700 µs
not enough data  –                   CONNECTING
       +0 ns     30  2.00 → 2.00 ms  2.00 → 2.00 ms  2.00 → 2.00 ms             –
same             1.02 [0.99 – 1.04]  select o.id, o.total, o.placed_at from orders o where o.custom…
    +2.46 ms  2,000    201 → 204 µs    330 → 331 µs    393 → 391 µs        700 µs
same             0.99 [0.97 – 1.01]  insert into orders (customer_id, total) values ($1, $2)
    +1.39 ms  2,000  5.04 → 4.99 ms  8.29 → 8.31 ms  10.1 → 10.0 ms        700 µs
same             1.00 [0.98 – 1.03]  select * from customers where id = $1
    −10.8 ms  2,000    993 → 996 µs  1.63 → 1.60 ms  1.99 → 1.93 ms        700 µs

Response time (due → done): p50 1.04 → 1.05 ms, p99 8.87 → 8.92 ms. Tool lag p99 49.9 → 49.9 µs.
added     difference of the mean times the calls of a run before: what the change costs in all
ratio     after / before of the median (or of what the finding names), with its 95 % interval
finding   slower, faster: independently; with the others: the same work, as they did; looks: not proven; same: ±10 %
captured  another machine, another day; server time only
Failed and skipped statements are in no time. One run on each side: how much two runs of
the same server differ is not in the intervals (--before A.run B.run --after …, or --noise).
"#;
