use std::sync::Arc;

use clock::{Clock, ManualClock};
use run::{Captured, Execution, LostConnection, Outcome, SkipReason, StatementKind};
use workload::Sqlstate;

use crate::connection_events::{ConnectionEvent, QUEUED_EVENTS_MAX};

use super::histogram::{BOUNDS_NS, Cells, Histogram};
use super::*;

fn metrics(workers: usize) -> (Metrics, ManualClock, Arc<ConnectionEvents>) {
    let hand = ManualClock::default();
    let clock: Arc<dyn Clock> = Arc::new(hand.clone());
    let events = Arc::new(ConnectionEvents::default());
    let counters = Arc::new(Counters::default());
    let metrics = Metrics::new(workers, &counters, &events, &clock, 1_000, 7);
    (metrics, hand, events)
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
        stalled_ns: 0,
        rows: 3,
        bytes: 50,
        digest: None,
        message: None,
        captured: Captured::default(),
    }
}

#[test]
fn metrics_of_all_workers_add_up() {
    let (metrics, hand, _) = metrics(3);
    let sent = Some(100_000 + 30_000 + 15_000);
    let failed = |code: &[u8; 5]| Outcome::Failed(Sqlstate(*code));
    for worker in 0..3 {
        metrics.add(worker, Count::Sent, 2);
        let simple = |outcome, sent| execution(StatementKind::Simple, outcome, sent);
        metrics.record(worker, &simple(Outcome::Done, sent));
        metrics.record(worker, &simple(failed(b"23505"), sent));
        metrics.record(worker, &simple(Outcome::Skipped(SkipReason::Stopped), None));
        let connect = |outcome| execution(StatementKind::Connect, outcome, sent);
        metrics.record(worker, &connect(failed(b"28P01")));
        metrics.record(worker, &connect(Outcome::Done));
    }
    metrics.record(
        1,
        &execution(StatementKind::Execute, failed(b"08006"), None),
    );
    for _ in 0..10 {
        metrics.written();
    }
    metrics.set_spilled(0, 4);
    metrics.set_spilled(2, 5);
    hand.advance_ns(5_000);
    let readings = metrics.read();
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
        let found = readings
            .counters
            .iter()
            .find(|counted| counted.name == name);
        found.unwrap().value
    };
    assert_eq!(
        (value("statements_sent"), value("statements_ended")),
        (6, 6)
    );
    assert_eq!((value("rows_received"), value("bytes_received")), (18, 300));

    metrics.stop();
    hand.advance_ns(5_000);
    let readings = metrics.read();
    assert_eq!((readings.elapsed_ns, readings.running), (4_000, false));
}

#[test]
fn metrics_in_progress_is_begun_minus_ended() {
    let (metrics, _, _) = metrics(2);
    metrics.add(0, Count::Sent, 3);
    metrics.add(1, Count::Sent, 1);
    metrics.add(1, Count::OpensAsked, 5);
    metrics.add(1, Count::OpensAnswered, 2);
    metrics.record(0, &execution(StatementKind::Simple, Outcome::Done, Some(1)));
    let readings = metrics.read();
    assert_eq!(readings.sessions_waiting, 3);
    assert_eq!(readings.sessions_connecting, 3);
}

#[test]
fn histogram_bound_belongs_to_its_cell() {
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
fn labels_beyond_the_limit_count_as_other() {
    let (metrics, _, _) = metrics(1);
    let mut all = 0;
    for number in 0..300u32 {
        let text = format!("{number:05}");
        let code = Sqlstate(text.as_bytes().try_into().unwrap());
        let failure = execution(StatementKind::Simple, Outcome::Failed(code), Some(1));
        for _ in 0..=number % 3 {
            metrics.record(0, &failure);
            all += 1;
        }
    }
    // A code that is no valid label.
    let odd = Outcome::Failed(Sqlstate(*b"a\"\n{}"));
    metrics.record(0, &execution(StatementKind::Simple, odd, Some(1)));
    let failed_by = metrics.read().failed_by;
    assert_eq!(failed_by.len(), 129);
    assert_eq!(failed_by.last().unwrap().0, "other");
    let sum: u64 = failed_by.iter().map(|(_, count)| count).sum();
    assert_eq!(sum, all + 1);
    assert_eq!(failed_by[0], ("00000".to_owned(), 1));
    assert_eq!(failed_by[2], ("00002".to_owned(), 3));
}

#[test]
fn event_queue_counts_events_beyond_its_limit() {
    let (_, _, events) = metrics(1);
    for _ in 0..QUEUED_EVENTS_MAX + 10 {
        events.cancel_failed();
    }
    let (happenings, left_out) = events.queue.take();
    assert_eq!((happenings.len(), left_out), (QUEUED_EVENTS_MAX, 10));
    assert_eq!(happenings[0], ConnectionEvent::CancelFailed);
    events.lost(LostConnection {
        at_ns: 0,
        session: 1,
        sqlstate: Sqlstate(*b"57P01"),
        connections_open: 1,
    });
    let lost = ConnectionEvent::ConnectionLost {
        sqlstate: Sqlstate(*b"57P01"),
    };
    assert_eq!(events.queue.take(), (vec![lost], 0));
    assert_eq!(events.counted()[3].value, QUEUED_EVENTS_MAX as u64 + 10);
    assert_eq!(events.lost_by(), [("57P01".to_owned(), 1)]);
}
