//! Summary of a run of synthetic executions.

#[path = "../../compare/tests/made_up/mod.rs"]
mod made_up;

use inspect::Summary;
use made_up::{connect, done, failed, skipped};
use run::{Execution, SkipReason, StatementKind};
use workload::Literals;
use workload::{Sqlstate, Unreplayable};

fn code(text: &str) -> Sqlstate {
    Sqlstate::parse(text).unwrap()
}

fn summary(executions: Vec<Execution>) -> Summary {
    Summary::collect::<()>(executions.into_iter().map(Ok), Literals::Hidden).unwrap()
}

#[test]
fn every_statement_is_counted_once() {
    let mut executions = vec![connect(1, 0), failed(&connect(2, 0), "53300", 1e6)];
    for number in 0..100 {
        let one = done(1, number, number as i64 * 1_000_000, 1e6);
        executions.push(match number {
            10 | 11 => failed(&one, "23505", 1e6),
            20 => skipped(&one, SkipReason::Unreplayable(Unreplayable::ParametersCut)),
            30..=32 => skipped(&one, SkipReason::NoConnection),
            _ => one,
        });
    }
    let summary = summary(executions);
    assert_eq!(summary.statements, 100);
    assert_eq!(summary.done, 94);
    assert_eq!(summary.failed_total(), 2);
    assert_eq!(summary.skipped_total(), 4);
    assert_eq!(
        summary.done + summary.failed_total() + summary.skipped_total(),
        summary.statements
    );
    assert_eq!(
        (summary.connects, summary.connects_failed[&code("53300")]),
        (1, 1)
    );
    assert_eq!(summary.rows, 94);
    let codes: Vec<Sqlstate> = summary.examples.iter().map(|one| one.sqlstate).collect();
    assert_eq!(codes, [code("53300"), code("23505")]);
    assert_eq!(summary.examples[1].sequence, 10);
    assert_eq!(summary.elapsed_ns, 100_050_000);
    let throughput = summary.throughput_per_s().unwrap();
    assert!((throughput - 96.0 / 0.10005).abs() < 1e-6, "{throughput}");
}

#[test]
fn times_are_summarised_separately() {
    let mut late = done(1, 0, 0, 1e6);
    late.due_ns -= 20_000_000;
    late.session_lag_ns = 20_000_000;
    let summary = summary(vec![late.clone(), late]);
    let near = |value: u64, wanted: f64| (value as f64 / wanted - 1.0).abs() < 0.01;
    assert!(near(summary.service.unwrap().p50_ns, 1e6));
    assert!(near(summary.response.unwrap().p50_ns, 21_050_000.0));
    assert!(near(summary.session_lag.unwrap().p50_ns, 2e7));
    assert!(near(summary.tool_lag.unwrap().p50_ns, 50_000.0));
    assert_eq!(summary.sessions_held_up, 1);
}

#[test]
fn held_up_session_is_counted_once() {
    let mut held = done(1, 3, 0, 1e6);
    held.session_lag_ns = 11_000_000;
    let mut end = held.clone();
    end.kind = StatementKind::Disconnect;
    let mut other = held.clone();
    other.session += 1;
    assert_eq!(
        summary(vec![held.clone(), held, end, other]).sessions_held_up,
        2
    );
}

#[test]
fn errors_are_compared_with_captured_ones() {
    let captured = |execution: Execution, sqlstate: &str| {
        let mut execution = execution;
        execution.captured.sqlstate = Some(code(sqlstate));
        execution
    };
    let one = done(1, 0, 0, 1e6);
    let summary = summary(vec![
        captured(one.clone(), "42P01"),
        captured(failed(&one, "23505", 1.0), "23505"),
        captured(failed(&one, "23505", 1.0), "?????"),
        captured(failed(&one, "23505", 1.0), "40001"),
        failed(&one, "57014", 1.0),
        one,
    ]);
    let versus = summary.versus_capture.unwrap();
    assert_eq!(versus.same, 2);
    assert_eq!(versus.different[&code("23505")], 1);
    assert_eq!(versus.new[&code("57014")], 1);
    assert_eq!(versus.gone[&code("42P01")], 1);
}

#[test]
fn missing_capture_outcomes_are_not_success() {
    let mut one = failed(&done(1, 0, 0, 1e6), "57014", 1.0);
    one.captured.duration_us = None;
    assert_eq!(summary(vec![one]).versus_capture, None);
    assert_eq!(summary(vec![]).service, None);
    assert_eq!(summary(vec![]).throughput_per_s(), None);
}
