use std::sync::Arc;

use clock::{Clock, HandClock};
use run::{Captured, Execution, Outcome, SkipReason, StatementKind};
use workload::Sqlstate;

use super::histogram::{BOUNDS_NS, Cells, Histogram};
use super::*;

fn meter(workers: usize) -> (Meter, HandClock, Arc<Incidents>) {
    let hand = HandClock::default();
    let clock: Arc<dyn Clock> = Arc::new(hand.clone());
    let incidents = Arc::new(Incidents::default());
    let counters = Arc::new(Counters::default());
    let meter = Meter::new(workers, &counters, &incidents, &clock, 1_000, 7);
    (meter, hand, incidents)
}

fn execution(kind: StatementKind, outcome: Outcome, sent_ns: Option<i64>) -> Execution {
    Execution {
        session: 1,
        sequence: 0,
        fingerprint: None,
        kind,
        outcome,
        due_ns: 100_000,
        sent_ns,
        first_byte_ns: None,
        done_ns: sent_ns.map(|sent_ns| sent_ns + 2_000_000),
        session_lag_ns: 30_000,
        rows: 3,
        bytes: 50,
        digest: None,
        message: None,
        captured: Captured::default(),
    }
}

#[test]
fn what_workers_count_adds_up() {
    let (meter, hand, _) = meter(3);
    let sent = Some(100_000 + 30_000 + 15_000);
    let failed = |code: &[u8; 5]| Outcome::Failed(Sqlstate(*code));
    for worker in 0..3 {
        meter.add(worker, Count::Sent, 2);
        let simple = |outcome, sent| execution(StatementKind::Simple, outcome, sent);
        meter.record(worker, &simple(Outcome::Done, sent));
        meter.record(worker, &simple(failed(b"23505"), sent));
        meter.record(worker, &simple(Outcome::Skipped(SkipReason::Stopped), None));
        let connect = |outcome| execution(StatementKind::Connect, outcome, sent);
        meter.record(worker, &connect(failed(b"28P01")));
        meter.record(worker, &connect(Outcome::Done));
    }
    meter.record(
        1,
        &execution(StatementKind::Execute, failed(b"08006"), None),
    );
    for _ in 0..10 {
        meter.written();
    }
    meter.spilled(0, 4);
    meter.spilled(2, 5);
    hand.advance_ns(5_000);
    let readings = meter.read();
    assert_eq!(
        (readings.done, readings.failed, readings.skipped),
        (3, 4, 3)
    );
    let by = |named: &[(&str, u64)]| -> Vec<(String, u64)> {
        let owned = named
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        owned.collect()
    };
    assert_eq!(readings.failed_by, by(&[("08006", 1), ("23505", 3)]));
    assert_eq!(readings.skipped_by, by(&[("stopped", 3)]));
    assert_eq!(readings.connections_failed, by(&[("28P01", 3)]));
    for histogram in [
        &readings.tool_lag,
        &readings.session_lag,
        &readings.service,
        &readings.response,
        &readings.connect,
    ] {
        assert_eq!(histogram.count(), 6);
    }
    // 15 µs are more than 10 µs and at most 20 µs.
    assert_eq!(readings.tool_lag.cells[1], 6);
    assert_eq!(readings.tool_lag.sum_ns, 6 * 15_000);
    assert_eq!(readings.service.sum_ns, 6 * 2_000_000);
    assert_eq!(readings.response.sum_ns, 6 * 2_045_000);
    assert_eq!(readings.recorder_backlog, 16 - 10);
    assert_eq!((readings.jobs_spilled, readings.sessions_waiting), (9, 0));
    assert_eq!((readings.elapsed_ns, readings.statements), (4_000, 7));
    assert!(readings.running);
    let value = |name: &str| {
        let found = readings.counted.iter().find(|counted| counted.name == name);
        found.unwrap().value
    };
    assert_eq!(
        (value("statements_sent"), value("statements_ended")),
        (6, 6)
    );
    assert_eq!((value("rows_received"), value("bytes_received")), (18, 300));

    meter.over();
    hand.advance_ns(5_000);
    let readings = meter.read();
    assert_eq!((readings.elapsed_ns, readings.running), (4_000, false));
}

#[test]
fn what_is_under_way_is_what_began_and_did_not_end() {
    let (meter, _, _) = meter(2);
    meter.add(0, Count::Sent, 3);
    meter.add(1, Count::Sent, 1);
    meter.add(1, Count::OpensAsked, 5);
    meter.add(1, Count::OpensAnswered, 2);
    meter.record(0, &execution(StatementKind::Simple, Outcome::Done, Some(1)));
    let readings = meter.read();
    assert_eq!(readings.sessions_waiting, 3);
    assert_eq!(readings.sessions_connecting, 3);
}

#[test]
fn a_bound_belongs_to_its_bucket() {
    let cells = Cells::default();
    let times = [
        -5,
        0,
        10_000,
        10_001,
        20_000,
        100_000_000_000,
        100_000_000_001,
    ];
    times.into_iter().for_each(|ns| cells.count(ns));
    let histogram = Histogram::sum([&cells].into_iter());
    assert_eq!(histogram.cells[0], 3);
    assert_eq!(histogram.cells[1], 2);
    assert_eq!(histogram.cells[BOUNDS_NS.len() - 1], 1);
    assert_eq!(histogram.cells[BOUNDS_NS.len()], 1);
    assert_eq!(histogram.count(), times.len() as u64);
    assert!(BOUNDS_NS.is_sorted());
}

#[test]
fn different_codes_are_bounded_and_none_is_lost() {
    let (meter, _, _) = meter(1);
    let mut all = 0;
    for number in 0..300u32 {
        let text = format!("{number:05}");
        let code = Sqlstate(text.as_bytes().try_into().unwrap());
        let failure = execution(StatementKind::Simple, Outcome::Failed(code), Some(1));
        for _ in 0..=number % 3 {
            meter.record(0, &failure);
            all += 1;
        }
    }
    // What a label must not hold.
    let odd = Outcome::Failed(Sqlstate(*b"a\"\n{}"));
    meter.record(0, &execution(StatementKind::Simple, odd, Some(1)));
    let failed_by = meter.read().failed_by;
    assert_eq!(failed_by.len(), 129);
    assert_eq!(failed_by.last().unwrap().0, "other");
    let sum: u64 = failed_by.iter().map(|(_, count)| count).sum();
    assert_eq!(sum, all + 1);
    assert_eq!(failed_by[0], ("00000".to_owned(), 1));
    assert_eq!(failed_by[2], ("00002".to_owned(), 3));
}

#[test]
fn happenings_wait_for_the_observer_up_to_a_number() {
    let (_, _, incidents) = meter(1);
    for _ in 0..HAPPENINGS_MAX + 10 {
        incidents.cancel_failed();
    }
    let (happenings, left_out) = incidents.happenings.take();
    assert_eq!((happenings.len(), left_out), (HAPPENINGS_MAX, 10));
    assert_eq!(happenings[0], Happening::CancelFailed);
    incidents.lost(Sqlstate(*b"57P01"));
    let lost = Happening::ConnectionLost {
        sqlstate: Sqlstate(*b"57P01"),
    };
    assert_eq!(incidents.happenings.take(), (vec![lost], 0));
    assert_eq!(incidents.counted()[3].value, HAPPENINGS_MAX as u64 + 10);
    assert_eq!(incidents.lost_by(), [("57P01".to_owned(), 1)]);
}
