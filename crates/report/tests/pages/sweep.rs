//! Page of a sweep in a browser.

use compare::sweep::{Estimate, estimate_knee, estimates};
use report::sweep_page;
use serde_json::json;
use study::sweep::{Axis, LoadUnit, SweepCurve, SweepPoint, SweepReport};
use study::sweep::{Cell, Mode, Numbers, Pace, Record, Setting, Times, Trial, Variant};

use crate::tab::Tab;

const LEVELS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Returns throughputs that grow up to `most`, with three trials for each level.
fn throughputs(most: f64) -> Vec<(f64, Vec<f64>, Vec<f64>)> {
    let at = |level: u32| {
        let clients = f64::from(level);
        let mean = most * (1.0 - (-clients * 1_500.0 / most).exp());
        let trials: Vec<f64> = [0.985, 1.0, 1.02]
            .iter()
            .map(|factor| mean * factor)
            .collect();
        let responses = trials.iter().map(|per_s| clients / per_s * 1e6).collect();
        (clients, trials, responses)
    };
    LEVELS.into_iter().map(at).collect()
}

fn curve(variant: usize, name: &str, most: f64, plans: Option<u64>) -> SweepCurve {
    let given = throughputs(most);
    let per_s: Vec<Vec<f64>> = given.iter().map(|point| point.1.clone()).collect();
    let times: Vec<Vec<f64>> = given.iter().map(|point| point.2.clone()).collect();
    let (per_s, times) = (estimates(&per_s), estimates(&times));
    let points = given.iter().enumerate().map(|(place, point)| SweepPoint {
        level: point.0,
        trials: 3,
        per_s: per_s[place],
        mean_us: times[place],
        p50_us: times[place],
        p99_us: times[place].map(|one| Estimate {
            centre: one.centre * 4.0,
            interval: one.interval.map(|(low, high)| (low * 4.0, high * 4.0)),
            ..one
        }),
        server_cpu_us: times[place],
        client_cpu_us: None,
        machine_busy: Some(0.4),
        busy: point.0,
        failed: 0,
        calls: Some(40_000),
        plans,
        plan_share: plans.map(|_| 0.6),
    });
    SweepCurve {
        name: name.to_owned(),
        mode: Mode::Simple,
        variant,
        clients: None,
        pace: Some(Pace::Closed),
        points: points.collect(),
        bend: Some(estimate_knee(&given)),
    }
}

fn sweep() -> SweepReport {
    let trial = |number: u32| Trial {
        number,
        block: 1,
        cell: Cell {
            clients: Some(LEVELS[number as usize % 6]),
            pace: Pace::Closed,
            mode: Mode::Simple,
            variant: 1,
        },
    };
    let numbers = Numbers {
        window_s: 10.0,
        statements: 100_000,
        failed: [("40001".to_owned(), 3)].into(),
        transactions: 100_000,
        per_s: 10_000.0,
        each_second: vec![10_000; 10],
        response: Some(Times {
            count: 100_000,
            mean_us: 100.0,
            p50_us: 90.0,
            p95_us: 200.0,
            p99_us: 400.0,
            max_us: 9_000.0,
        }),
        busy: 7.9,
        tool_lag_p99_us: Some(20.0),
        client_cpu_us: Some(11.0),
        server_cpu_us: Some(31.0),
        machine_busy: Some(0.9),
        ..Numbers::default()
    };
    let record = |number: u32| Record {
        trial: trial(number),
        started_wall_us: i64::from(number) * 12_000_000,
        took_s: 12.0,
        failed: (number == 3)
            .then(|| "the server did not start: <script>alert(1)</script>".to_owned()),
        numbers: (number != 3).then(|| numbers.clone()),
    };
    let options = [("time", "10.0 s"), ("warm-up", "2.00 s")];
    let preload = Setting {
        name: "shared_preload_libraries".to_owned(),
        value: "pg_stat_statements".to_owned(),
    };
    SweepReport {
        schema: "rehearse/sweep/1",
        name: "planning.sweep".to_owned(),
        load: "select-only at scale 100".to_owned(),
        place: "a private PostgreSQL 17.2".to_owned(),
        started_wall_us: 0,
        seed: 42,
        repeat: 3,
        unit: LoadUnit::Transactions,
        statements_of_one: 1,
        options: options
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        variants: vec![
            Variant {
                name: "without".to_owned(),
                settings: Vec::new(),
            },
            Variant {
                name: "with <b>pgss</b>".to_owned(),
                settings: vec![preload],
            },
        ],
        trials_planned: 54,
        trials_done: 11,
        trials_failed: 1,
        not_done: vec![trial(12), trial(13)],
        why_not_done: Some("the time that it was given (--time-budget) was over".to_owned()),
        axis: Some(Axis::Clients),
        growth_min: 0.25,
        curves: vec![
            curve(0, "without", 60_000.0, None),
            curve(1, "with <b>pgss</b>", 12_000.0, Some(40_000)),
            curve(1, "planning", 7_000.0, Some(40_000)),
        ],
        trials: (1..12).map(record).collect(),
        notes: vec!["3 statements failed.".to_owned()],
    }
}

#[test]
fn sweep_page_shows_knees_curves_and_numbers() {
    let Some(mut tab) = Tab::open(&sweep_page::render_html(&sweep())) else {
        return;
    };
    let knees = tab.text("dl.knees");
    assert!(knees.contains("No knee within the range"), "{knees}");
    assert!(knees.contains("The knee is at 8 clients"), "{knees}");
    assert!(knees.contains("with <b>pgss</b>"), "{knees}");
    assert_eq!(
        tab.number("document.querySelectorAll('figure svg').length"),
        4
    );
    // Two curves have a knee: one ring each, in the first chart only.
    let rings = "[...document.querySelectorAll('figure')].map((one) => one.querySelectorAll('circle[r=\"8\"]').length)";
    assert_eq!(tab.eval(rings), json!([2, 0, 0, 0]));
    assert_eq!(
        tab.number("document.querySelectorAll('#numbers ~ .scroll tbody tr').length"),
        18 + 11
    );
    // By keyboard: the last level, with its interval.
    tab.eval("document.querySelector('.plot').focus(); 1");
    tab.press("ArrowLeft");
    let read = tab.text(".reading");
    assert!(
        read.starts_with("At 32: without 33,092 (32,371 – 33,829), with <b>pgss</b> 11,799"),
        "{read}"
    );
    tab.press("Escape");
    tab.assert_readable();
    tab.picture("sweep-light", true);
    tab.colours("dark");
    tab.assert_readable();
    tab.picture("sweep-dark", true);
    tab.colours("light");
    tab.size(390, 844);
    tab.assert_no_sideways_scrolling();
    tab.picture("sweep-narrow", true);
    assert!(tab.print("sweep").starts_with(b"%PDF"));
    tab.assert_clean();
}

#[test]
fn sweep_page_without_scripts_has_its_charts_as_text() {
    let Some(mut tab) = Tab::open(&sweep_page::render_html(&sweep())) else {
        return;
    };
    tab.without_scripts();
    let text = tab.text("#chart-list");
    assert!(
        text.contains("Throughput: without from 1,484 at 1 client to 33,092 at 32 clients"),
        "{text}"
    );
    tab.assert_readable();
}
