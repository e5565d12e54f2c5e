//! The page of a sweep.

use analyse::sweep::{bend, estimates};
use report::{
    SweepCurveView, SweepEstimateView, SweepNumbersView, SweepPointView, SweepTrialNameView,
    SweepTrialView, SweepVariantView, SweepView, sweep_page,
};
use serde_json::json;

use crate::tab::Tab;

const LEVELS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Throughput that grows up to `most`, three trials a level.
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

fn curve(name: &str, most: f64, plans: Option<u64>) -> SweepCurveView {
    let given = throughputs(most);
    let view = |values: Vec<Vec<f64>>| -> Vec<Option<SweepEstimateView>> {
        estimates(&values)
            .into_iter()
            .map(|one| one.map(SweepEstimateView::from))
            .collect()
    };
    let per_s = view(given.iter().map(|point| point.1.clone()).collect());
    let times = view(given.iter().map(|point| point.2.clone()).collect());
    let points = given
        .iter()
        .enumerate()
        .map(|(place, point)| SweepPointView {
            level: point.0,
            trials: 3,
            per_s: per_s[place],
            mean_us: times[place],
            p50_us: times[place],
            p99_us: times[place].map(|one| SweepEstimateView {
                centre: one.centre * 4.0,
                low: one.low.map(|low| low * 4.0),
                high: one.high.map(|high| high * 4.0),
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
    let mut curve = SweepCurveView {
        name: name.to_owned(),
        mode: "simple".to_owned(),
        variant: name.to_owned(),
        clients: None,
        pace: Some("closed loop".to_owned()),
        points: points.collect(),
        steps: Vec::new(),
        knee: None,
        no_knee: None,
        peak: None,
        falls_to: None,
    };
    curve.bends(&bend(&given));
    curve
}

fn sweep() -> SweepView {
    let name = |number: u32| SweepTrialNameView {
        number,
        block: 1,
        clients: Some(LEVELS[number as usize % 6]),
        pace: "closed loop".to_owned(),
        mode: "simple".to_owned(),
        variant: "with <b>pgss</b>".to_owned(),
    };
    let numbers = SweepNumbersView {
        window_s: 10.0,
        statements: 100_000,
        done: 100_000,
        failed: [("40001".to_owned(), 3)].into(),
        skipped: Default::default(),
        per_s: 10_000.0,
        each_second: vec![10_000; 10],
        mean_us: Some(100.0),
        p50_us: Some(90.0),
        p95_us: Some(200.0),
        p99_us: Some(400.0),
        max_us: Some(9_000.0),
        busy: 7.9,
        tool_lag_p99_us: Some(20.0),
        client_cpu_us: Some(11.0),
        server_cpu_us: Some(31.0),
        machine_busy: Some(0.9),
        calls: None,
        plans: None,
        plan_ms: None,
        exec_ms: None,
        missing: Default::default(),
        connections_failed: 0,
    };
    let trial = |number: u32| SweepTrialView {
        name: name(number),
        started_wall_us: i64::from(number) * 12_000_000,
        took_s: 12.0,
        failed: (number == 3)
            .then(|| "the server did not start: <script>alert(1)</script>".to_owned()),
        numbers: (number != 3).then(|| numbers.clone()),
    };
    let settings = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect()
    };
    SweepView {
        schema: "rehearse/sweep/1",
        name: "planning.sweep".to_owned(),
        load: "select-only at scale 100".to_owned(),
        place: "a private PostgreSQL 17.2".to_owned(),
        started_wall_us: 0,
        seed: 42,
        repeat: 3,
        unit: "transactions",
        statements_of_one: 1,
        options: settings(&[("time", "10.0 s"), ("warm-up", "2.00 s")]),
        variants: vec![
            SweepVariantView {
                name: "without".to_owned(),
                settings: settings(&[]),
            },
            SweepVariantView {
                name: "with <b>pgss</b>".to_owned(),
                settings: settings(&[("shared_preload_libraries", "pg_stat_statements")]),
            },
        ],
        trials_planned: 54,
        trials_done: 11,
        trials_failed: 1,
        not_done: vec![name(12), name(13)],
        why_not_done: Some("the time that it was given (--within) was over".to_owned()),
        axis: Some("clients"),
        growth_min: 0.25,
        curves: vec![
            curve("without", 60_000.0, None),
            curve("with <b>pgss</b>", 12_000.0, Some(40_000)),
            curve("planning", 7_000.0, Some(40_000)),
        ],
        trials: (1..12).map(trial).collect(),
        notes: vec!["3 statements failed.".to_owned()],
    }
}

#[test]
fn its_knees_curves_and_numbers_are_there_without_a_script() {
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
    // Two curves have a knee: a ring each, in the first chart only.
    let rings = "[...document.querySelectorAll('figure')].map((one) => one.querySelectorAll('circle[r=\"8\"]').length)";
    assert_eq!(tab.eval(rings), json!([2, 0, 0, 0]));
    assert_eq!(
        tab.number("document.querySelectorAll('#numbers ~ .scroll tbody tr').length"),
        18 + 11
    );
    assert!(tab.is("getComputedStyle(document.querySelector('figure polyline[stroke=\"#000022\"]')).stroke !== 'rgb(0, 0, 34)'"));
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
