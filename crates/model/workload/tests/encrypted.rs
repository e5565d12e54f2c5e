//! A workload that is encrypted: nothing of it is ever on disk in plain text, and its key opens it.

use std::path::Path;

use workload::{
    ArchiveError, Event, EventKind, Identity, Keyring, NoRedaction, Outcome, Parameter, Provenance,
    Session, WorkloadReader, WorkloadWriter, WriterOptions, recover_with,
};

const START_US: i64 = 1_700_000_000_000_000;
const SESSIONS: u64 = 40;
const EVENTS: u64 = 60;

/// Sessions one after the other, each over the same time: nearly all events come late.
fn events() -> Vec<Event> {
    let event = |session: u64, sequence: u64| {
        let kind = match sequence {
            0 => EventKind::Connect {
                database: "shop".into(),
                user: "app".into(),
                application: "secret".into(),
            },
            _ => EventKind::Execute {
                statement: "".into(),
                portal: "".into(),
                sql: "SELECT * FROM secret WHERE a = $1".into(),
                parameters: vec![Some(Parameter::from(format!(
                    "secret {session} {sequence} {}",
                    "x".repeat(300)
                )))],
            },
        };
        Event {
            session,
            sequence,
            due_us: START_US + (sequence * SESSIONS + session) as i64 * 1000,
            kind,
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: 1,
            prelude: false,
            wire_details: None,
        }
    };
    (0..SESSIONS)
        .flat_map(|session| (0..EVENTS).map(move |sequence| event(session, sequence)))
        .collect()
}

fn session(id: u64) -> Session {
    Session {
        id,
        database: "shop".into(),
        user: "app".into(),
        application: "secret".into(),
        client: "".into(),
        start_us: START_US,
        end_us: START_US,
        start_seen: true,
        end_seen: false,
        statements: EVENTS - 1,
    }
}

const SMALL: WriterOptions = WriterOptions {
    memory_bytes: 64 << 10,
    keep_unfinished: true,
};

/// Every file but the manifest is one of age; how many there are.
fn all_are_sealed(directory: &Path) -> usize {
    let mut files = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        // A file may be gone, or renamed, since the directory was read.
        let Ok(content) = std::fs::read(&path) else {
            continue;
        };
        if path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("manifest.json"))
        {
            assert!(!String::from_utf8(content).unwrap().contains("secret"));
            continue;
        }
        assert!(
            content.is_empty() || content.starts_with(b"age-encryption.org/v1\n"),
            "{}",
            path.display()
        );
        files += 1;
    }
    files
}

fn read(path: &Path, keyring: &Keyring) -> Vec<Event> {
    let reader = WorkloadReader::open_with(path, keyring).unwrap();
    reader
        .events()
        .unwrap()
        .map(|event| event.unwrap().0)
        .collect()
}

#[test]
fn nothing_is_ever_on_disk_in_plain_text() {
    let directory = tempfile::tempdir().unwrap();
    let (sealed, plain) = (
        directory.path().join("a.workload"),
        directory.path().join("b.workload"),
    );
    let identity = Identity::generate();
    let mut writers = [
        WorkloadWriter::create_for(&sealed, SMALL, &[identity.to_public()], NoRedaction).unwrap(),
        WorkloadWriter::create(&plain, SMALL, NoRedaction).unwrap(),
    ];
    let mut files = 0;
    for (count, event) in events().iter().enumerate() {
        for writer in &mut writers {
            writer.event(&event.borrowed()).unwrap();
        }
        if count % 100 == 0 {
            writers[0].checkpoint(event.due_us).unwrap();
            files = files.max(all_are_sealed(&directory.path().join("a.workload.partial")));
        }
    }
    assert!(files > 6, "there are files that serve sorting: {files}");
    for mut writer in writers {
        for id in 0..SESSIONS {
            writer.session(session(id)).unwrap();
        }
        writer
            .finish(Provenance {
                source_kind: "secret".to_owned(),
                ..Provenance::default()
            })
            .unwrap();
    }
    assert!(all_are_sealed(&sealed) >= 4);
    let keyring = Keyring::new([identity.clone()]);
    let expected = read(&plain, &Keyring::default());
    assert_eq!(expected.len() as u64, SESSIONS * EVENTS);
    assert_eq!(read(&sealed, &keyring), expected);
    let reader = WorkloadReader::open_with(&sealed, &keyring).unwrap();
    reader.verify().unwrap();
    assert_eq!(reader.info().provenance.source_kind, "secret");
    assert_eq!(reader.recipients(), [identity.to_public()]);
    assert_eq!(reader.sessions().unwrap().count() as u64, SESSIONS);
    assert_eq!(reader.statements().unwrap().count(), 1);
}

#[test]
fn without_its_key_it_says_which_one_is_needed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let identity = Identity::generate();
    let writer =
        WorkloadWriter::create_for(&path, SMALL, &[identity.to_public()], NoRedaction).unwrap();
    writer.finish(Provenance::default()).unwrap();
    let other = Identity::generate();
    for (keyring, sentence) in [
        (
            Keyring::default(),
            "and no key was given; give the file".to_owned(),
        ),
        (
            Keyring::new([other.clone()]),
            format!(
                "and the key given is that of {}; give the file",
                other.to_public()
            ),
        ),
    ] {
        let refused = WorkloadReader::open_with(&path, &keyring).unwrap_err();
        assert!(matches!(refused, ArchiveError::Locked { .. }));
        let said = refused.to_string();
        assert!(
            said.contains(&sentence) && said.contains(&identity.to_public().to_string()),
            "{said}"
        );
    }
}

#[test]
fn an_altered_byte_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let identity = Identity::generate();
    let mut writer =
        WorkloadWriter::create_for(&path, SMALL, &[identity.to_public()], NoRedaction).unwrap();
    for event in events() {
        writer.event(&event.borrowed()).unwrap();
    }
    writer.finish(Provenance::default()).unwrap();
    let events = path.join("events-00000.parquet.age");
    let mut bytes = std::fs::read(&events).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&events, bytes).unwrap();
    let damage = WorkloadReader::open_with(&path, &Keyring::new([identity])).and_then(|reader| {
        assert!(reader.verify().is_err());
        reader.events()?.find_map(Result::err).map_or(Ok(()), Err)
    });
    assert!(
        matches!(damage, Err(ArchiveError::Damaged { .. })),
        "{damage:?}"
    );
}

#[test]
fn an_unfinished_one_is_recovered_with_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    let partial = directory.path().join("a.workload.partial");
    let identity = Identity::generate();
    let mut writer =
        WorkloadWriter::create_for(&path, SMALL, &[identity.to_public()], NoRedaction).unwrap();
    let all = events();
    for (count, event) in all.iter().enumerate() {
        writer.event(&event.borrowed()).unwrap();
        if count % 500 == 0 {
            writer.checkpoint(event.due_us).unwrap();
        }
    }
    // As after a kill, once all is written down: its files have no ends.
    drop(writer);
    assert!(all_are_sealed(&partial) > 1);
    let refused = workload::recover(&partial).unwrap_err();
    assert!(matches!(refused, ArchiveError::Locked { .. }), "{refused}");
    let keyring = Keyring::new([identity.clone()]);
    let (recovered, info) = recover_with(&partial, &keyring).unwrap();
    assert_eq!(info.events, all.len() as u64);
    assert!(all_are_sealed(&recovered) >= 4);
    let found = read(&recovered, &keyring);
    let mut keys: Vec<_> = found
        .iter()
        .map(|event| (event.session, event.sequence))
        .collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        all.iter()
            .map(|event| (event.session, event.sequence))
            .collect::<Vec<_>>()
    );
}
