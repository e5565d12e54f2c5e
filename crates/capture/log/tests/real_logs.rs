//! Logs that a real server wrote of known traffic, under several settings, each in three formats at
//! once. `fixtures/NAME.events` describes the traffic.

mod normal;

use std::path::{Path, PathBuf};

use capture_log::{Input, LogOptions, LogReport, SkipReason, capture};
use capture_sink::EventCollector;
use normal::{check_laws, normal_form};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn read(name: &str) -> (EventCollector, LogReport) {
    let mut collected = EventCollector::default();
    let options = LogOptions {
        inputs: vec![Input::Path(fixture(name))],
        ..LogOptions::default()
    };
    let report = capture(options, &mut collected).unwrap_or_else(|error| panic!("{name}: {error}"));
    let account = &report.reconciliation;
    assert!(account.adds_up(), "{name}: {account:?}");
    assert_eq!(account.unreadable.lines, 0, "{name}: {account:?}");
    let lines = std::fs::read(fixture(name))
        .unwrap()
        .iter()
        .filter(|byte| **byte == b'\n')
        .count();
    assert_eq!(account.lines, lines as u64);
    assert_eq!(account.events, collected.events.len() as u64);
    check_laws(&collected);
    (collected, report)
}

fn events_are(name: &str, collected: &EventCollector) {
    let expected = std::fs::read_to_string(fixture(&format!("{name}.events"))).unwrap_or_default();
    let found = normal_form(collected);
    assert!(found == expected, "{name}: found\n{found}");
}

/// The same events, due within a millisecond, and the same durations.
fn same(name: &str, one: &EventCollector, other: &EventCollector) {
    assert_eq!(normal_form(one), normal_form(other), "{name}");
    for (a, b) in one.events.iter().zip(&other.events) {
        assert_eq!((a.session, a.sequence), (b.session, b.sequence));
        assert!((a.due_us - b.due_us).abs() <= 1_000, "{name}: {a:?} {b:?}");
        assert_eq!(a.outcome, b.outcome);
    }
}

fn three_formats(name: &str) -> (EventCollector, LogReport) {
    let (stderr, report) = read(&format!("{name}.log"));
    let (csv, _) = read(&format!("{name}.csv"));
    let (json, _) = read(&format!("{name}.json"));
    events_are(name, &json);
    same(name, &csv, &json);
    same(name, &stderr, &json);
    (stderr, report)
}

#[test]
fn fact_02_started_and_ended_lines_make_one_event_each() {
    let (_, report) = three_formats("both");
    assert_eq!(report.reconciliation.skipped[&SkipReason::Forged].lines, 6);
}

#[test]
fn fact_01_statements_logged_at_their_start_have_no_durations() {
    three_formats("started");
}

#[test]
fn fact_03_durations_only() {
    three_formats("ended");
}

#[test]
fn fact_03_log_duration_beside_log_statement() {
    three_formats("logduration");
}

#[test]
fn fact_09_cut_parameters_are_flagged() {
    three_formats("cut");
}

#[test]
fn fact_09_missing_parameters_are_flagged() {
    three_formats("noparams");
}

#[test]
fn fact_14_verbose_lines_and_whole_seconds() {
    let (json, _) = read("verbose.json");
    let (csv, _) = read("verbose.csv");
    let (stderr, report) = read("verbose.log");
    events_are("verbose", &json);
    same("verbose", &csv, &json);
    // %t has whole seconds, so only the times differ, by less than one.
    assert_eq!(normal_form(&stderr), normal_form(&json));
    for (a, b) in stderr.events.iter().zip(&json.events) {
        assert!((a.due_us - b.due_us).abs() <= 1_001_000, "{a:?} {b:?}");
    }
    assert_eq!(
        report.sources[0].prefix.as_deref(),
        Some("%t:%r:%u@%d:[%p]:")
    );
}
