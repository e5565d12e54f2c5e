//! Checks that a workload writer writes no secret: neither in an event nor in a server event.

use std::path::Path;

use transform::SecretRedactor;
use workload::{
    Event, EventKind, Outcome, Provenance, ServerEvent, Unreplayable, WorkloadReader,
    WorkloadWriter, WriterOptions,
};

#[test]
fn workload_writer_with_a_secret_redactor_writes_no_password() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let options = WriterOptions::default();
    let mut writer = WorkloadWriter::create(&path, options, SecretRedactor::default()).unwrap();
    let mut event = Event {
        session: 0,
        sequence: 0,
        due_us: 1_700_000_000_000_000,
        kind: EventKind::Simple {
            sql: "ALTER ROLE app PASSWORD 'hunter2'".into(),
        },
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: 0,
        prelude: false,
        wire_details: None,
    };
    writer.event(&event.borrowed()).unwrap();
    let server_event = ServerEvent {
        at_us: event.due_us,
        sql: Some("alter role app password 'hunter2'".into()),
        ..ServerEvent::default()
    };
    writer.server_event(server_event).unwrap();
    writer.finish(Provenance::default()).unwrap();

    event.due_us = 0;
    event.kind = EventKind::Simple {
        sql: "ALTER ROLE app PASSWORD '********'".into(),
    };
    event.unreplayable = Some(Unreplayable::SecretRemoved);
    let reader = WorkloadReader::open(&path).unwrap();
    let events = reader.events().unwrap();
    let events: Vec<Event> = events.map(|item| item.unwrap().0).collect();
    assert_eq!(events, [event]);
    let server_events = reader.server_events().unwrap();
    let texts: Vec<_> = server_events.map(|item| item.unwrap().0.sql).collect();
    assert_eq!(texts, [Some("alter role app password '********'".into())]);
}

/// Files that may write a workload without redaction: of generated events, or of events that were
/// redacted before.
const UNREDACTED_FILES: [&str; 4] = [
    "model/workload/src/lib.rs",
    "model/workload/src/recovery.rs",
    "model/workload/src/redactor.rs",
    "study/src/sweep/script.rs",
];

#[test]
fn no_redaction_is_named_in_few_files_that_are_shipped() {
    let mut ancestors = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let root = ancestors.find(|path| path.join("Cargo.lock").exists());
    let crates = root.unwrap().join("crates");
    let mut directories = vec![crates.clone()];
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(&crates).unwrap();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && name.iter().any(|part| part == "src")
                && !name.starts_with("fuzz-targets")
                && std::fs::read_to_string(&path)
                    .unwrap()
                    .contains("NoRedaction")
            {
                found.push(name.to_str().unwrap().to_owned());
            }
        }
    }
    found.sort_unstable();
    assert_eq!(found, UNREDACTED_FILES);
}
