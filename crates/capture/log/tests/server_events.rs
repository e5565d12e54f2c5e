//! Logs of real servers (13.23, 15.18, 18.6) that produced every kind of server event, each in its
//! formats at once. `fixtures/serverNN.server` is the result, which was compared with the log by
//! eye.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use capture_log::{Input, LogOptions, LogReport, SkipReason, capture};
use capture_sink::EventCollector;
use workload::{ServerEvent, ServerEventKind};

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
    let lines = std::fs::read(fixture(name)).unwrap();
    let lines = lines.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(account.lines, lines as u64);
    let activity = collected.server_events.iter();
    let activity = activity.filter(|event| event.kind.is_activity());
    assert_eq!(account.server_events, activity.count() as u64);
    (collected, report)
}

/// Formats one line for each event, without positions, which differ between the formats of one log.
fn normal_form(events: &[ServerEvent]) -> String {
    let mut text = String::new();
    let activity: Vec<_> = events
        .iter()
        .filter(|event| event.kind.is_activity())
        .collect();
    let first_us = activity.first().map_or(0, |event| event.at_us);
    for event in activity {
        let at_ms = (event.at_us - first_us) / 1_000;
        write!(text, "{at_ms} {}", event.kind.name()).unwrap();
        for (name, value) in [("subject", &event.subject), ("holders", &event.holders)] {
            if let Some(value) = value {
                write!(text, " {name}={value:?}").unwrap();
            }
        }
        for (name, value) in [
            ("session", event.session),
            ("duration_us", event.duration_us),
            ("write_us", event.write_us),
            ("sync_us", event.sync_us),
            ("bytes", event.bytes),
            ("buffers", event.buffers),
            ("index_scans", event.index_scans),
            ("removed", event.tuples_removed),
            ("remain", event.tuples_remain),
            ("dead", event.tuples_dead),
        ] {
            if let Some(value) = value {
                write!(text, " {name}={value}").unwrap();
            }
        }
        if let Some(sql) = &event.sql {
            write!(text, " sql={sql:?}").unwrap();
        }
        text.push('\n');
    }
    text
}

fn all_formats(version: &str, formats: &[&str]) -> EventCollector {
    let name = format!("server{version}");
    let expected = std::fs::read_to_string(fixture(&format!("{name}.server"))).unwrap_or_default();
    let mut last = EventCollector::default();
    for format in formats {
        let (collected, report) = read(&format!("{name}.{format}"));
        let found = normal_form(&collected.server_events);
        assert!(found == expected, "{name}.{format}: found\n{found}");
        // Only lines without a known event are left out.
        for reason in [
            SkipReason::Checkpoint,
            SkipReason::Autovacuum,
            SkipReason::LockWait,
            SkipReason::TemporaryFile,
        ] {
            assert!(!report.reconciliation.skipped.contains_key(&reason));
        }
        last = collected;
    }
    last
}

fn count(collected: &EventCollector, kind: ServerEventKind) -> usize {
    let events = collected.server_events.iter();
    events.filter(|event| event.kind == kind).count()
}

#[test]
fn version_13() {
    all_formats("13", &["log", "csv"]);
}

#[test]
fn version_15() {
    all_formats("15", &["log", "csv", "json"]);
}

#[test]
fn version_18() {
    let collected = all_formats("18", &["log", "csv", "json"]);
    for kind in [
        ServerEventKind::TemporaryFile,
        ServerEventKind::LockWait,
        ServerEventKind::LockAcquired,
        ServerEventKind::Deadlock,
        ServerEventKind::Checkpoint,
        ServerEventKind::CheckpointsTooFrequent,
        ServerEventKind::Autovacuum,
        ServerEventKind::Autoanalyze,
        ServerEventKind::AutovacuumCancelled,
        ServerEventKind::OutOfMemory,
        ServerEventKind::TooManyConnections,
        ServerEventKind::Crash,
        ServerEventKind::Recovery,
        ServerEventKind::Ready,
    ] {
        assert!(count(&collected, kind) > 0, "{}", kind.name());
    }
}

/// Checks that a deadlock's line, which is its statement's, is counted once.
#[test]
fn what_is_both_counts_once() {
    let log = "\
2026-01-01 10:00:00.000 UTC [7] 6b014650.7 1 40P01 app@shop web LOG:  statement: update t set v = 1\n\
2026-01-01 10:00:01.000 UTC [7] 6b014650.7 2 40P01 app@shop web ERROR:  deadlock detected\n\
2026-01-01 10:00:01.000 UTC [7] 6b014650.7 3 40P01 app@shop web STATEMENT:  update t set v = 1\n\
2026-01-01 10:00:02.000 UTC [9] 6b014650.9 1 00000 LOG:  checkpoint starting: time\n\
2026-01-01 10:00:03.000 UTC [9] 6b014650.9 2 00000 LOG:  nothing that is known\n";
    let mut collected = EventCollector::default();
    let prefix = Some("%m [%p] %c %l %e %q%u@%d %a ");
    let report = capture_log::capture_bytes(log, None, prefix, &mut collected).unwrap();
    let account = &report.reconciliation;
    assert!(account.adds_up(), "{account:?}");
    assert_eq!((account.lines, account.lines_in_events), (5, 4));
    assert_eq!((account.events, account.server_events), (2, 2));
    assert_eq!(collected.server_events[0].kind, ServerEventKind::Deadlock);
    assert_eq!(collected.server_events[0].session, Some(0));
    assert_eq!(
        collected.server_events[0].sql.as_deref(),
        Some("update t set v = 1")
    );
}
