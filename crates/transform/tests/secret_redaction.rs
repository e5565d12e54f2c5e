//! Checks that a workload writer writes no secret: neither in an event nor in a server event.

use std::path::Path;
use std::sync::Arc;

use transform::SecretRedactor;
use workload::{
    Event, EventKind, Outcome, Parameter, Provenance, ServerEvent, ServerEventKind, Unreplayable,
    WireDetails, WorkloadReader, WorkloadWriter, WriterOptions,
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

/// Number of events: enough for several batches, row groups and late runs in little memory.
const EVENTS: u64 = 2_000;

/// Returns an event with the secret `S3cret`: in a text, in a parameter, or in a setting of a connection. Every
/// seventh event is so late that it goes to a late run.
fn event_with_a_secret(number: u64) -> Event {
    let settings = WireDetails {
        settings: vec![("app.password".into(), "S3cret".into())],
        ..WireDetails::default()
    };
    let kind = match number % 3 {
        0 => EventKind::Simple {
            sql: format!("alter role app{number} password 'S3cret'").into(),
        },
        1 => EventKind::Execute {
            statement: "".into(),
            portal: "".into(),
            sql: "select set_config($1, $2, false)".into(),
            parameters: ["app.password", "S3cret"]
                .map(|value| Some(Parameter::from(value)))
                .into(),
        },
        _ => EventKind::Connect {
            database: "d".into(),
            user: "u".into(),
            application: "".into(),
        },
    };
    let is_connect = matches!(kind, EventKind::Connect { .. });
    let late_us = if number % 7 == 6 { 1_500 } else { 0 };
    Event {
        session: number,
        sequence: 0,
        due_us: 1_700_000_000_000_000 + number as i64 - late_us,
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: number,
        prelude: false,
        wire_details: is_connect.then(|| Arc::new(settings)),
    }
}

/// Writes the events with a checkpoint after each hundred, and leaves the writer unfinished.
fn written_with_secrets(path: &Path) -> WorkloadWriter {
    let options = WriterOptions {
        memory_bytes: 32 << 10,
        keep_unfinished: true,
    };
    let mut writer = WorkloadWriter::create(path, options, SecretRedactor::default()).unwrap();
    for number in 0..EVENTS {
        let event = event_with_a_secret(number);
        writer.event(&event.borrowed()).unwrap();
        if number % 100 == 99 {
            writer.checkpoint(event.due_us - 20).unwrap();
        }
    }
    writer
}

/// Checks that all events are in the workload, each with its secret redacted.
fn assert_all_are_redacted(path: &Path) {
    let events = WorkloadReader::open(path).unwrap().events().unwrap();
    let mut numbers = Vec::new();
    for item in events {
        let event = item.unwrap().0;
        let text = format!("{event:?}");
        assert!(!text.contains("S3cret"), "{text}");
        assert!(text.contains("********"), "{text}");
        let is_connect = matches!(event.kind, EventKind::Connect { .. });
        let mark = (!is_connect).then_some(Unreplayable::SecretRemoved);
        assert_eq!(event.unreplayable, mark, "{text}");
        numbers.push(event.session);
    }
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..EVENTS));
}

#[test]
fn secrets_of_late_events_are_redacted_in_the_finished_workload() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let writer = written_with_secrets(&path);
    writer.finish(Provenance::default()).unwrap();
    assert_all_are_redacted(&path);
}

#[test]
fn secrets_are_redacted_in_late_runs_and_parts_of_an_unfinished_workload() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    drop(written_with_secrets(&path));
    let partial = directory.path().join("a.workload.partial");
    let files = std::fs::read_dir(&partial).unwrap();
    let names: Vec<_> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    for table in ["late-", "events-"] {
        let count = names.iter().filter(|name| name.starts_with(table)).count();
        assert!(count > 0, "{table} is not in {names:?}");
    }
    // A recovery redacts nothing: it shows what the files contain.
    let (recovered, _) = workload::recover(&partial).unwrap();
    assert_all_are_redacted(&recovered);
}

#[test]
fn message_about_a_statement_with_a_password_has_no_word_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let options = WriterOptions::default();
    let mut writer = WorkloadWriter::create(&path, options, SecretRedactor::default()).unwrap();
    let cases = [
        ("password hunter2 is too short", None),
        ("password HUNTER-9 is too short", None),
        (
            "password \"hunter2\" is short",
            Some("password \"…\" is short"),
        ),
        ("role \"app\" is reserved", Some("role \"…\" is reserved")),
    ];
    for (number, (text, _)) in cases.iter().enumerate() {
        for kind in [ServerEventKind::Message, ServerEventKind::OutOfMemory] {
            let is_message = kind == ServerEventKind::Message;
            let event = ServerEvent {
                at_us: number as i64,
                kind,
                sql: Some("alter role app password 'hunter2'".into()),
                message: is_message.then(|| (*text).into()),
                subject: (!is_message).then(|| (*text).into()),
                ..ServerEvent::default()
            };
            writer.server_event(event).unwrap();
        }
    }
    writer.finish(Provenance::default()).unwrap();
    let reader = WorkloadReader::open(&path).unwrap();
    for item in reader.server_events().unwrap() {
        let (event, _) = item.unwrap();
        let (text, wanted) = cases[event.at_us as usize];
        let kept = event.message.or(event.subject);
        assert_eq!(kept.as_deref(), wanted, "{:?}: {text}", event.kind);
    }
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
