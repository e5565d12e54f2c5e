//! Time breakdowns of synthetic evidence with known times.

use std::collections::HashMap;

use proptest::prelude::*;
use run::{Activity, SampleWindow, StatementStatistics};
use sql::Fingerprint;

use super::*;

const SECOND: f64 = 1e9;

fn time_model(
    sums: &ResponseTotals,
    statistics: &[StatementStatistics],
    windows: &[SampleWindow],
    activity: &[Activity],
    stacks: &[ProcessorTime],
) -> TimeBreakdown {
    let seen = ServerObservations {
        windows,
        stacks,
        whole: &HashMap::new(),
    };
    let statistics = statistics.iter().cloned().map(Ok::<_, ()>);
    super::break_down_time(sums, seen, statistics, activity.iter().cloned().map(Ok)).unwrap()
}

fn sums(of: &[(u64, ResponseSums)]) -> ResponseTotals {
    let mut sums = ResponseTotals::default();
    for (fingerprint, one) in of {
        sums.by_statement.insert(Fingerprint(*fingerprint), *one);
        sums.all.calls += one.calls;
        sums.all.tool_lag_ns += one.tool_lag_ns;
        sums.all.session_lag_ns += one.session_lag_ns;
        sums.all.service_ns += one.service_ns;
        sums.all.unwatched_ns += one.unwatched_ns;
    }
    sums
}

fn seen(calls: u64, tool_s: f64, session_s: f64, service_s: f64) -> ResponseSums {
    ResponseSums {
        calls,
        tool_lag_ns: tool_s * SECOND,
        session_lag_ns: session_s * SECOND,
        service_ns: service_s * SECOND,
        unwatched_ns: 0.0,
    }
}

/// Ten seconds of twenty samples each.
fn windows() -> Vec<SampleWindow> {
    (0..10)
        .map(|second| SampleWindow {
            at_ns: second * 1_000_000_000,
            until_ns: (second + 1) * 1_000_000_000,
            samples: 20,
            missed: 0,
        })
        .collect()
}

fn activity(second: i64, fingerprint: u64, wait: Option<(&str, &str)>, count: u64) -> Activity {
    Activity {
        at_ns: second * 1_000_000_000,
        fingerprint: Some(Fingerprint(fingerprint)),
        backend: "client backend".to_owned(),
        state: "active".to_owned(),
        wait_type: wait.map(|(kind, _)| kind.to_owned()),
        wait: wait.map(|(_, event)| event.to_owned()),
        count,
        ..Activity::default()
    }
}

fn statistics(
    fingerprint: u64,
    calls: u64,
    plan_s: Option<f64>,
    exec_s: f64,
) -> StatementStatistics {
    StatementStatistics {
        fingerprint: Some(Fingerprint(fingerprint)),
        calls,
        plan_ns: plan_s.map(|seconds| (seconds * SECOND) as u64),
        exec_ns: (exec_s * SECOND) as u64,
        ..StatementStatistics::default()
    }
}

fn seconds(of: &StatementTime) -> Vec<(TimeCategory, f64, &'static str)> {
    let rounded = |part: &TimePart<TimeCategory>| (part.ns / SECOND * 1e3).round() / 1e3;
    let parts = of.parts.iter();
    parts
        .map(|part| (part.category.clone(), rounded(part), part.basis.name()))
        .collect()
}

fn lock() -> TimeCategory {
    TimeCategory::Wait {
        kind: "Lock".to_owned(),
        event: "transactionid".to_owned(),
    }
}

#[test]
fn response_time_parts_add_up() {
    let sums = sums(&[(1, seen(100, 0.1, 0.4, 3.0))]);
    let activity = [
        activity(0, 1, None, 20),
        activity(1, 1, Some(("Lock", "transactionid")), 20),
    ];
    let statistics = [statistics(1, 100, Some(0.25), 1.6)];
    let stacks = [
        ProcessorTime {
            fingerprint: Some(Fingerprint(1)),
            phase: "scan".to_owned(),
            is_planning: false,
            time: 3.0,
        },
        ProcessorTime {
            fingerprint: Some(Fingerprint(1)),
            phase: "wal".to_owned(),
            is_planning: false,
            time: 1.0,
        },
    ];
    let model = time_model(&sums, &statistics, &windows(), &activity, &stacks);
    let on = |phase: &str| TimeCategory::Processor(Some(phase.to_owned()));
    let expected = vec![
        (TimeCategory::ToolLag, 0.1, "measured"),
        (TimeCategory::SessionLag, 0.4, "measured"),
        (TimeCategory::OutsideServer, 1.0, "inferred"),
        (TimeCategory::Planning, 0.25, "measured"),
        (on("scan"), 0.563, "sampled"),
        (on("wal"), 0.188, "sampled"),
        (lock(), 1.0, "sampled"),
    ];
    assert_eq!(seconds(&model.statements[0]), expected);
    assert_eq!(seconds(&model.whole), expected);
    assert_eq!(model.remarks, []);
    assert!((model.whole.response_ns - 3.5 * SECOND).abs() < 1.0);
}

#[test]
fn unobserved_time_is_a_separate_part() {
    let sums = sums(&[(1, seen(10, 0.0, 0.0, 2.0)), (2, seen(1, 0.0, 0.0, 1.0))]);
    let model = time_model(&sums, &[statistics(1, 10, None, 1.5)], &[], &[], &[]);
    assert_eq!(
        seconds(&model.whole),
        [
            (TimeCategory::Execution, 1.5, "measured"),
            (TimeCategory::Unobserved, 1.5, "inferred")
        ]
    );
    assert_eq!(
        model.remarks,
        [TimeRemark::NotSampled, TimeRemark::PlanningUnknown]
    );
}

#[test]
fn other_statements_are_separate_and_hidden_ones_counted() {
    let sums = sums(&[(1, seen(10, 0.0, 0.0, 2.0))]);
    let mut hidden = activity(3, 1, None, 10);
    hidden.state = "hidden".to_owned();
    hidden.backend = "unknown".to_owned();
    hidden.fingerprint = None;
    let mut idle = activity(3, 1, Some(("Client", "ClientRead")), 15);
    idle.state = "idle in transaction".to_owned();
    let mut vacuum = activity(3, 1, None, 15);
    vacuum.backend = "autovacuum worker".to_owned();
    let all = [
        activity(0, 1, None, 20),
        activity(0, 7, None, 5),
        hidden,
        idle,
        vacuum,
    ];
    // Others sent it three times as often.
    let statistics = [statistics(1, 40, Some(2.0), 1.0)];
    let model = time_model(&sums, &statistics, &windows(), &all, &[]);
    assert_eq!(
        seconds(&model.whole),
        [
            (TimeCategory::OutsideServer, 1.0, "inferred"),
            (TimeCategory::Planning, 0.5, "measured"),
            (TimeCategory::Processor(None), 0.5, "sampled")
        ]
    );
    assert_eq!(model.others_ns, 0.25 * SECOND);
    assert_eq!(model.hidden_ns, 0.5 * SECOND);
    assert_eq!(model.remarks, [TimeRemark::OthersCalls { factor: 4.0 }]);
}

#[test]
fn unwatched_time_is_not_outside_the_server() {
    // Of three seconds, samples found one in the server, and 1.5 had no samples.
    let unwatched = |model: &TimeBreakdown| {
        model
            .remarks
            .contains(&TimeRemark::Unwatched { share: 0.5 })
    };
    let cut = ResponseSums {
        unwatched_ns: 1.5 * SECOND,
        ..seen(10, 0.0, 0.0, 3.0)
    };
    let all = [activity(0, 1, None, 20)];
    let model = time_model(&sums(&[(1, cut)]), &[], &windows(), &all, &[]);
    assert_eq!(
        seconds(&model.whole),
        [
            (TimeCategory::OutsideServer, 0.5, "inferred"),
            (TimeCategory::Processor(None), 1.0, "sampled"),
            (TimeCategory::Unobserved, 1.5, "inferred")
        ]
    );
    assert!(unwatched(&model), "{:?}", model.remarks);
    // The server's statistics cover the whole time.
    let counted = [statistics(1, 10, None, 2.5)];
    let model = time_model(&sums(&[(1, cut)]), &counted, &windows(), &all, &[]);
    assert_eq!(
        seconds(&model.whole),
        [
            (TimeCategory::Processor(None), 1.0, "sampled"),
            (TimeCategory::Execution, 1.5, "inferred"),
            (TimeCategory::Unobserved, 0.5, "inferred")
        ]
    );
}

#[test]
fn unsampled_time_with_hidden_sessions_is_unobserved() {
    let sums = sums(&[(1, seen(10, 0.0, 0.0, 2.0)), (2, seen(10, 0.0, 0.0, 1.0))]);
    let mut hidden = activity(3, 1, None, 10);
    hidden.state = "hidden".to_owned();
    hidden.backend = "unknown".to_owned();
    hidden.fingerprint = None;
    let all = [activity(0, 1, None, 20), hidden];
    let model = time_model(&sums, &[], &windows(), &all, &[]);
    assert_eq!(
        seconds(&model.whole),
        [
            (TimeCategory::OutsideServer, 1.0, "inferred"),
            (TimeCategory::Processor(None), 1.0, "sampled"),
            (TimeCategory::Unobserved, 1.0, "inferred")
        ]
    );
}

#[test]
fn excess_samples_are_scaled_down_with_a_remark() {
    let sums = sums(&[(1, seen(10, 0.0, 0.0, 0.5))]);
    let mut windows = windows();
    windows[3].missed = 40;
    let all = [
        activity(0, 1, None, 10),
        activity(0, 1, Some(("Lock", "transactionid")), 10),
    ];
    let model = time_model(&sums, &[], &windows, &all, &[]);
    assert_eq!(
        seconds(&model.whole),
        [
            (TimeCategory::Processor(None), 0.25, "sampled"),
            (lock(), 0.25, "sampled")
        ]
    );
    assert_eq!(
        model.remarks,
        [
            TimeRemark::PlanningUnknown,
            TimeRemark::MoreThanSeen { factor: 2.0 },
            TimeRemark::SamplesMissed {
                share: 40.0 / 240.0
            }
        ]
    );
    assert_eq!(
        model.whole.parts[0].basis.error(),
        Some(1.96 / 10f64.sqrt())
    );
}

#[test]
fn time_in_statistics_between_samples_is_in_the_server() {
    // A statement of a millisecond may fall between all samples.
    let sums = sums(&[(1, seen(100, 0.0, 0.0, 0.3))]);
    let statistics = [statistics(1, 100, Some(0.05), 0.15)];
    let model = time_model(&sums, &statistics, &windows(), &[], &[]);
    assert_eq!(
        seconds(&model.whole),
        [
            (TimeCategory::OutsideServer, 0.1, "inferred"),
            (TimeCategory::Execution, 0.2, "inferred")
        ]
    );
}

proptest! {
    #[test]
    fn parts_are_never_negative_and_add_up(
        times in prop::collection::vec((0.0..2.0f64, 0.0..2.0f64, 0.0..5.0f64), 1..6),
        samples in prop::collection::vec((0..10i64, 0..6u64, any::<bool>(), 0..50u64), 0..20),
        counts in prop::collection::vec((0..6u64, 0..40u64, prop::option::of(0.0..5.0f64), 0.0..5.0f64), 0..6),
        phases in prop::collection::vec((prop::option::of(0..6u64), 0..3u8, 0.0..5.0f64), 0..6),
    ) {
        let each: Vec<_> = times
            .iter()
            .enumerate()
            .map(|(at, (tool, session, service))| (at as u64, seen(10, *tool, *session, *service)))
            .collect();
        let sums = sums(&each);
        let activity: Vec<_> = samples
            .iter()
            .map(|(second, of, waits, count)| {
                activity(*second, *of, waits.then_some(("Lock", "transactionid")), *count)
            })
            .collect();
        let statistics: Vec<_> = counts
            .iter()
            .map(|(of, calls, plan, exec)| statistics(*of, *calls, *plan, *exec))
            .collect();
        let stacks: Vec<_> = phases
            .iter()
            .map(|(of, phase, time)| ProcessorTime {
                fingerprint: of.map(Fingerprint),
                phase: phase.to_string(),
                is_planning: *phase == 0,
                time: *time,
            })
            .collect();
        for windows in [windows(), Vec::new()] {
            let model = time_model(&sums, &statistics, &windows, &activity, &stacks);
            for one in model.statements.iter().chain([&model.whole]) {
                let total: f64 = one.parts.iter().map(|part| part.ns).sum();
                prop_assert!((total - one.response_ns).abs() <= 10.0 + 1e-9 * total, "{one:?}");
                prop_assert!(one.parts.iter().all(|part| part.ns > 0.0), "{one:?}");
            }
            prop_assert!((model.whole.response_ns - sums.all.response_ns()).abs() <= 100.0);
        }
    }
}
