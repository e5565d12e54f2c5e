//! Checks that faults of the capture do not affect connections, and are reported.

use std::sync::atomic::Ordering;

use super::recordings::{PATIENCE, RecordingStore, Running, Wish, server, until};
use capture_proxy::RecordingState;

/// Runs statements through the proxy, all of which must succeed.
fn goes_on(proxy: &Running, times: i32) {
    let mut client = proxy.client();
    for number in 0..times {
        let row = client.query_one("SELECT $1::int", &[&number]).unwrap();
        assert_eq!(row.get::<_, i32>(0), number);
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_nothing_else() {
    let kept = RecordingStore::default();
    let proxy = Wish::to(&server(18).url("postgres")).start(kept.opening());
    proxy.record();
    let mut there_before = proxy.client();
    goes_on(&proxy, 10);
    kept.full.store(true, Ordering::SeqCst);
    goes_on(&proxy, 200);
    until("it is told", || {
        !proxy.proxy().status().capture.finished.is_empty()
    });
    there_before.batch_execute("SELECT 'still'").unwrap();
    // There is space again.
    kept.full.store(false, Ordering::SeqCst);
    let control = proxy.proxy().control();
    assert_eq!(control.start_recording().unwrap(), "2.workload");
    there_before.batch_execute("SELECT 'again'").unwrap();
    assert_eq!(control.stop_recording().unwrap(), "2.workload");
    assert!(kept.statements().contains(&"SELECT 'again'".to_owned()));
    let status = proxy.end();
    let [failed, complete] = status.capture.finished.as_slice() else {
        panic!("{:?}", status.capture.finished)
    };
    assert_eq!(
        (failed.state, complete.state),
        (RecordingState::Partial, RecordingState::Complete)
    );
    let failure = failed.account.failure.as_deref();
    assert_eq!(failure, Some("No space left on device"));
}

#[test]
fn a_disk_that_hangs_costs_copies_and_no_traffic() {
    let kept = RecordingStore::default();
    let mut wish = Wish::to(&server(18).url("postgres"));
    wish.buffer_bytes = 1 << 20;
    let proxy = wish.start(kept.opening());
    proxy.record();
    let mut there_before = proxy.client();
    there_before.batch_execute("SELECT 'before'").unwrap();
    until("it is recorded", || kept.statements().len() == 1);
    kept.stuck.store(true, Ordering::SeqCst);
    let mut gone_meanwhile = proxy.client();
    while proxy.proxy().status().lost_bytes < 5 << 20 {
        let rows = there_before
            .query(
                "SELECT repeat('x', 1000) FROM generate_series(1, 1000)",
                &[],
            )
            .unwrap();
        assert_eq!(rows.len(), 1000);
        gone_meanwhile.batch_execute("SELECT 'meanwhile'").unwrap();
    }
    drop(gone_meanwhile);
    let mut come_meanwhile = proxy.client();
    come_meanwhile.batch_execute("SELECT 'come'").unwrap();
    until("it is gone", || proxy.proxy().status().connections == 2);
    kept.stuck.store(false, Ordering::SeqCst);
    // After some time everything is recorded again, of old and new connections.
    let mut number = 0;
    until("it is recorded again", || {
        number += 1;
        let (old, new) = (
            format!("SELECT 'old {number}'"),
            format!("SELECT 'new {number}'"),
        );
        there_before.batch_execute(&old).unwrap();
        come_meanwhile.batch_execute(&new).unwrap();
        let statements = kept.statements();
        let has = |sql: &str| {
            statements
                .iter()
                .any(|statement| statement.starts_with(sql))
        };
        has("SELECT 'old") && has("SELECT 'new")
    });
    drop((there_before, come_meanwhile));
    until("all are gone", || proxy.proxy().status().connections == 0);
    let status = proxy.end();
    let account = &status.capture.finished[0].account;
    assert!(account.lost_bytes >= 5 << 20);
    let told: u64 = account.incomplete.iter().map(|stretch| stretch.bytes).sum();
    assert_eq!(told, account.lost_bytes);
    for stretch in &account.incomplete {
        assert!(account.from_us < stretch.from_us && stretch.from_us <= stretch.to_us);
        assert!(stretch.to_us < account.to_us);
    }
}

#[test]
fn a_capture_that_breaks_down_leaves_the_traffic_alone() {
    let kept = RecordingStore::default();
    let proxy = Wish::to(&server(18).url("postgres")).start(kept.opening());
    proxy.record();
    let mut there_before = proxy.client();
    goes_on(&proxy, 10);
    kept.broken.store(true, Ordering::SeqCst);
    goes_on(&proxy, 10);
    until("it is told", || {
        proxy.proxy().status().capture.broken_down.is_some()
    });
    goes_on(&proxy, 100);
    there_before.batch_execute("SELECT 'still'").unwrap();
    let begun = std::time::Instant::now();
    let error = proxy.proxy().control().start_recording().unwrap_err();
    assert!(error.contains("broken down"), "{error}");
    assert!(begun.elapsed() < PATIENCE);
    let status = proxy.end();
    assert_eq!(
        status.capture.broken_down.as_deref(),
        Some("a panic that a test asked for")
    );
}
