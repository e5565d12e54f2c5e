//! Round trip of server events.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use workload::{
    Event, EventKind, MessageSeverity, NoRedaction, Outcome, Provenance, ServerEvent,
    ServerEventKind, Sqlstate, WorkloadReader, WorkloadWriter, WriterOptions,
};

fn server_event(at_us: i64, kind: ServerEventKind) -> ServerEvent {
    ServerEvent {
        at_us,
        kind,
        pid: Some(7),
        session: Some(0),
        subject: Some("shop.public.t".into()),
        sql: Some(Arc::from("select 1")),
        duration_us: Some(1),
        write_us: Some(2),
        sync_us: Some(3),
        bytes: Some(4),
        buffers: Some(5),
        index_scans: Some(6),
        tuples_removed: Some(7),
        tuples_remain: Some(8),
        tuples_dead: Some(9),
        holders: Some("1, 2".into()),
        severity: Some(MessageSeverity::Warning),
        sqlstate: Some(Sqlstate(*b"01000")),
        message: Some("no \"t\"".into()),
        source: 10,
        line: 11,
    }
}

fn connect(due_us: i64) -> Event {
    Event {
        session: 0,
        sequence: 0,
        due_us,
        kind: EventKind::Connect {
            database: "shop".into(),
            user: "app".into(),
            application: "".into(),
        },
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 1,
        prelude: false,
        wire_details: None,
    }
}

#[test]
fn they_come_back_in_time_order_from_the_workloads_start() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let mut writer = WorkloadWriter::create(&path, WriterOptions::default(), NoRedaction).unwrap();
    writer.event(&connect(1_000).borrowed()).unwrap();
    let all = ServerEventKind::ALL;
    for (number, kind) in all.iter().enumerate().rev() {
        let at_us = 900 + 10 * number as i64;
        writer.server_event(server_event(at_us, *kind)).unwrap();
    }
    let bare = ServerEvent {
        at_us: 100_000,
        ..ServerEvent::default()
    };
    writer.server_event(bare).unwrap();
    let info = writer.finish(Provenance::default()).unwrap();
    assert_eq!(info.server_events, all.len() as u64 + 1);
    assert_eq!(info.provenance.start_wall_us, 1_000);
    assert_eq!((info.server_from_us, info.server_to_us), (-100, 99_000));

    let reader = WorkloadReader::open(&path).unwrap();
    reader.verify().unwrap();
    assert_eq!(reader.info().server_events, info.server_events);
    let read: Vec<_> = reader
        .server_events()
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read.len(), all.len() + 1);
    for (number, kind) in all.iter().enumerate() {
        // Before the first client's event times are negative.
        let expected = server_event(-100 + 10 * number as i64, *kind);
        assert_eq!(read[number].0, expected);
    }
    let (bare, fingerprint) = read.last().unwrap();
    assert_eq!((bare.at_us, *fingerprint), (99_000, None));
    // Their statements can be looked up, like those of events.
    let statements: Vec<_> = reader.statements().unwrap().map(Result::unwrap).collect();
    assert_eq!(statements.len(), 1);
    assert_eq!(read[0].1, Some(statements[0].fingerprint));
}

#[test]
fn without_clients_time_begins_with_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let mut writer = WorkloadWriter::create(&path, WriterOptions::default(), NoRedaction).unwrap();
    for at_us in [7_000, 5_000] {
        let event = server_event(at_us, ServerEventKind::Checkpoint);
        writer.server_event(event).unwrap();
    }
    let info = writer.finish(Provenance::default()).unwrap();
    assert_eq!(info.provenance.start_wall_us, 5_000);
    let reader = WorkloadReader::open(&path).unwrap();
    let times = reader
        .server_events()
        .unwrap()
        .map(|one| one.unwrap().0.at_us);
    assert_eq!(times.collect::<Vec<_>>(), [0, 2_000]);
}

/// A workload that an earlier version wrote has no such table, and no count of it.
#[test]
fn an_earlier_workload_is_still_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let mut writer = WorkloadWriter::create(&path, WriterOptions::default(), NoRedaction).unwrap();
    writer.event(&connect(1_000).borrowed()).unwrap();
    writer.finish(Provenance::default()).unwrap();
    std::fs::remove_file(path.join("server-events.parquet")).unwrap();
    let manifest = path.join("manifest.json");
    let mut json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&manifest).unwrap()).unwrap();
    let files = json["files"].as_array_mut().unwrap();
    files.retain(|file| file["table"] != "server-events");
    let body = json["body"].as_object_mut().unwrap();
    body.remove("server_events").unwrap();
    let mut hash = Sha256::new();
    for file in json["files"].as_array().unwrap() {
        let text = |key: &str| file[key].as_str().unwrap().to_owned();
        hash.update(format!("{}\n{}\n", text("name"), text("sha256")));
    }
    json["id"] = format!("{:x}", hash.finalize())[..16].into();
    std::fs::write(&manifest, json.to_string()).unwrap();

    let reader = WorkloadReader::open(&path).unwrap();
    assert_eq!(reader.info().server_events, 0);
    assert_eq!(reader.server_events().unwrap().count(), 0);
    assert_eq!(reader.events().unwrap().count(), 1);
}
