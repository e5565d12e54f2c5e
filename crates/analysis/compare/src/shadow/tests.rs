//! Tests of the shadow comparison on synthetic executions.

use run::{Captured, StatementKind};

use super::*;
use workload::Sqlstate;

mod outages;
mod read_only;

const SECOND_NS: i64 = 1_000_000_000;

/// Creates an execution that ended at `at_ns` and took 10 ms times `factor`, 10 ms in the capture.
fn execution(statement: u64, at_ns: i64, factor: f64) -> Execution {
    let service_ns = (10_000_000.0 * factor) as i64;
    Execution {
        session: 1,
        sequence: 1,
        fingerprint: Some(Fingerprint(statement)),
        kind: StatementKind::Simple,
        outcome: Outcome::Done,
        due_ns: at_ns - service_ns,
        sent_ns: Some(at_ns - service_ns),
        first_byte_ns: Some(at_ns),
        done_ns: Some(at_ns),
        session_lag_ns: 0,
        stalled_ns: 0,
        rows: 1,
        bytes: 10,
        digest: None,
        message: None,
        captured: Captured {
            duration_us: Some(10_000),
            rows: Some(1),
            ..Captured::default()
        },
    }
}

/// Adds an execution of three statements each second, and returns the names of the changed measures.
fn run_shadow(
    options: ShadowOptions,
    seconds: std::ops::Range<i64>,
    mut change: impl FnMut(u64, i64, &mut Execution),
) -> (Shadow, Vec<(u64, ShadowMeasure, bool)>) {
    let mut shadow = Shadow::new(options);
    let mut changes = Vec::new();
    for second in seconds {
        for statement in 1..=3 {
            let mut execution = execution(statement, second * SECOND_NS, 1.0);
            change(statement, second, &mut execution);
            shadow.add(&execution);
        }
        changes.extend(shadow.take_changes());
    }
    shadow.finish();
    changes.extend(shadow.take_changes());
    let changes = changes
        .into_iter()
        .map(|change| {
            let is_present = change.verdict.is_present();
            (change.statement.fingerprint.0, change.measure, is_present)
        })
        .collect();
    (shadow, changes)
}

fn slow(execution: &mut Execution, factor: f64) {
    let sent_ns = execution.sent_ns.unwrap();
    let service_ns = execution.done_ns.unwrap() - sent_ns;
    execution.sent_ns = Some(sent_ns + service_ns - (service_ns as f64 * factor) as i64);
}

#[test]
fn shadow_of_equal_sides_is_silent() {
    let (shadow, changes) = run_shadow(ShadowOptions::default(), 0..3_600, |_, second, one| {
        slow(one, 0.9 + (second * 7_919 % 100) as f64 / 500.0);
    });
    assert_eq!(changes, []);
    let report = shadow.report(10);
    assert_eq!((report.windows, report.replayed), (360, 10_800));
    assert_eq!(report.statements.len(), 3);
}

#[test]
fn shadow_with_a_slower_statement_names_it_and_its_begin() {
    let (shadow, changes) = run_shadow(
        ShadowOptions::default(),
        0..3_600,
        |statement, second, one| {
            if statement == 2 && second >= 1_800 {
                slow(one, 1.5);
            }
        },
    );
    assert_eq!(changes, [(2, ShadowMeasure::Slower, true)]);
    let report = shadow.report(0);
    let [statement] = &report.statements[..] else {
        panic!("{report:?}")
    };
    let ShadowVerdict::Present { since_ns, found_ns } = statement.tests[0].verdict else {
        panic!("{statement:?}")
    };
    assert_eq!(since_ns, 1_800 * SECOND_NS);
    assert!(found_ns <= 2_200 * SECOND_NS, "{found_ns}");
    assert!((1.45..1.55).contains(&statement.ratio));
}

#[test]
fn shadow_with_new_errors_names_the_statement() {
    let (_, changes) = run_shadow(
        ShadowOptions::default(),
        0..900,
        |statement, second, one| {
            if statement == 3 && second % 2 == 0 {
                one.outcome = Outcome::Failed(Sqlstate(*b"42883"));
            }
            // As many fail in the capture only as in the replay only.
            if statement == 1 && second % 4 == 1 {
                one.outcome = Outcome::Failed(Sqlstate(*b"23505"));
            }
            if statement == 1 && second % 4 == 3 {
                one.captured.sqlstate = Some(Sqlstate(*b"23505"));
            }
        },
    );
    assert_eq!(changes, [(3, ShadowMeasure::Errors, true)]);
}

#[test]
fn shadow_with_fewer_rows_names_the_statement() {
    let (_, changes) = run_shadow(ShadowOptions::default(), 0..900, |statement, _, one| {
        one.rows = if statement == 1 { 0 } else { 1 };
    });
    assert_eq!(changes, [(1, ShadowMeasure::FewerRows, true)]);
}

#[test]
fn shadow_excludes_windows_of_an_outage_and_after_it() {
    let (shadow, changes) = run_shadow(ShadowOptions::default(), 0..600, |_, second, one| {
        match second {
            // Down for 25 s, and slow for 20 s after it.
            305..330 => {
                one.outcome = Outcome::Skipped(SkipReason::NoConnection);
                (one.sent_ns, one.done_ns) = (None, None);
            }
            330..350 => slow(one, 20.0),
            _ => {}
        }
    });
    assert_eq!(changes, []);
    let report = shadow.report(10);
    let excluded = |reason| report.windows_excluded.get(&reason).copied();
    assert_eq!(excluded(WindowExclusion::Outage), Some(3));
    assert_eq!(excluded(WindowExclusion::Settling), Some(3));
    assert_eq!(report.windows, 54);
    assert_eq!(report.not_replayed["no_connection"], 75);
    let [gap] = &report.gaps[..] else {
        panic!("{report:?}")
    };
    assert_eq!(gap.not_replayed, 75);
    assert!(gap.until_ns - gap.from_ns < 26 * SECOND_NS);
}

/// A stop skips statements that are queued, with due times that the replay has not reached.
#[test]
fn shadow_with_statements_that_a_stop_skipped_holds_up_to_the_last_executed_one() {
    let (shadow, changes) = run_shadow(
        ShadowOptions::default(),
        0..600,
        |statement, second, one| {
            if statement == 1 && second < 300 {
                slow(one, 2.0);
            }
            if second >= 300 {
                one.outcome = Outcome::Skipped(SkipReason::Stopped);
                (one.sent_ns, one.done_ns) = (None, None);
            }
        },
    );
    // Nothing shows that it is no longer slower.
    assert_eq!(changes, [(1, ShadowMeasure::Slower, true)]);
    let report = shadow.report(10);
    assert_eq!(report.until_ns, 299 * SECOND_NS);
    assert_eq!((report.windows, report.replayed), (30, 900));
    assert!(report.windows_excluded.is_empty() && report.gaps.is_empty());
    assert_eq!(report.not_replayed["stopped"], 900);
}

#[test]
fn shadow_with_an_outage_in_the_baseline_measures_it_for_as_long_without_it() {
    let options = ShadowOptions {
        baseline_ns: Some(300 * SECOND_NS),
        allowance_ns: 0,
        ..ShadowOptions::default()
    };
    let with_outage = |_: u64, second: i64, one: &mut Execution| match second {
        10..250 => {
            one.outcome = Outcome::Skipped(SkipReason::NoConnection);
            (one.sent_ns, one.done_ns) = (None, None);
        }
        // What is cold after it is no baseline.
        250..280 => slow(one, 50.0),
        _ => slow(one, 2.0),
    };
    let (shadow, _) = run_shadow(options.clone(), 0..560, with_outage);
    assert!(shadow.report(10).statements[0].in_baseline);
    let (shadow, changes) = run_shadow(options, 0..1_200, with_outage);
    let statement = &shadow.report(10).statements[0];
    assert!(!statement.in_baseline && changes.is_empty());
    let reference = statement.reference.unwrap();
    assert!((1.99..2.01).contains(&reference), "{reference}");
}

#[test]
fn shadow_in_which_one_session_has_no_connection_still_judges_the_others() {
    let (shadow, changes) = run_shadow(
        ShadowOptions::default(),
        0..600,
        |statement, second, one| match statement {
            1 => {
                one.outcome = Outcome::Skipped(SkipReason::NoConnection);
                (one.sent_ns, one.done_ns) = (None, None);
            }
            2 if second >= 300 => slow(one, 2.0),
            _ => {}
        },
    );
    assert_eq!(changes, [(2, ShadowMeasure::Slower, true)]);
    assert_eq!(shadow.report(10).not_replayed["no_connection"], 600);
}

#[test]
fn shadow_with_new_protocol_violations_names_the_statement() {
    let (_, changes) = run_shadow(ShadowOptions::default(), 0..900, |statement, _, one| {
        if statement == 1 {
            one.outcome = Outcome::Failed(Sqlstate(*b"08P01"));
        }
    });
    assert_eq!(changes, [(1, ShadowMeasure::Errors, true)]);
}

/// A candidate that is so slow that its sessions skip statements is slower, and not excused.
#[test]
fn shadow_with_skipped_statements_names_the_slower_statement() {
    let (shadow, changes) = run_shadow(
        ShadowOptions::default(),
        0..600,
        |statement, second, one| {
            if second < 300 {
                return;
            }
            match second % 2 {
                0 if statement == 2 => slow(one, 20.0),
                0 => {}
                // The lag cut a transaction.
                _ if statement == 3 => {
                    one.outcome = Outcome::Skipped(SkipReason::TransactionLost);
                    (one.sent_ns, one.done_ns) = (None, None);
                }
                _ => {
                    one.outcome = Outcome::Skipped(SkipReason::LagLimit);
                    (one.sent_ns, one.done_ns) = (None, None);
                }
            }
        },
    );
    assert_eq!(changes, [(2, ShadowMeasure::Slower, true)]);
    assert!(shadow.report(10).windows_excluded.is_empty());
}

/// A candidate that is twice as slow from the beginning differs from the capture, and not from its baseline.
#[test]
fn shadow_with_a_baseline_reports_only_what_changes_after_it() {
    let twice = |_: u64, second: i64, one: &mut Execution| {
        slow(one, if second < 1_200 { 2.0 } else { 4.0 });
    };
    let (_, changes) = run_shadow(ShadowOptions::default(), 0..1_200, twice);
    assert_eq!(changes.len(), 3);
    let options = ShadowOptions {
        baseline_ns: Some(300 * SECOND_NS),
        allowance_ns: 0,
        ..ShadowOptions::default()
    };
    let (_, changes) = run_shadow(options.clone(), 0..1_200, twice);
    assert_eq!(changes, []);
    let (shadow, changes) = run_shadow(options, 0..2_000, twice);
    assert_eq!(changes.len(), 3);
    let reference = shadow.report(10).statements[0].reference.unwrap();
    assert!((1.99..2.01).contains(&reference), "{reference}");
}
