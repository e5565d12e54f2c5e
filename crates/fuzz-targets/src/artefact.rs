//! Altered, cut and unfinished workloads.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use sha2::{Digest, Sha256};
use workload::{
    Event, EventKind, NoRedaction, Outcome, Provenance, WorkloadReader, WorkloadWriter,
    WriterOptions, recover,
};

/// Checks what follows the first byte, which chooses between edits of a complete workload, edits of an unfinished one,
/// a manifest, and a table file whose manifest belongs to it.
pub fn check(data: &[u8]) {
    let Some((mode, data)) = data.split_first() else {
        return;
    };
    let directory = crate::scratch_directory();
    match mode % 4 {
        0 => check_complete(directory.path(), |files| edit(files, data)),
        1 => check_unfinished(directory.path(), data),
        2 => check_complete(directory.path(), |files| {
            content_mut(files, "manifest.json").clone_from(&data.to_vec());
        }),
        _ => check_complete(directory.path(), |files| {
            content_mut(files, "events-00000.parquet").clone_from(&data.to_vec());
            sign(files);
        }),
    }
}

/// Names and contents of the files of a directory.
type Files = Vec<(String, Vec<u8>)>;

fn events() -> Vec<Event> {
    let kinds = (0..60).map(|sequence: u64| match sequence {
        0 => EventKind::Connect {
            database: "shop".into(),
            user: "app".into(),
            application: "".into(),
        },
        59 => EventKind::Disconnect,
        _ if sequence % 2 == 1 => EventKind::Simple {
            sql: format!("select {sequence}").into(),
        },
        _ => EventKind::Execute {
            statement: "s1".into(),
            portal: "".into(),
            sql: "select $1, $2".into(),
            parameters: vec![Some("it's".into()), None],
        },
    });
    let event = |(sequence, kind)| Event {
        session: 1,
        sequence: sequence as u64,
        due_us: sequence as i64 * 1_000,
        kind,
        outcome: Outcome::default(),
        unreplayable: None,
        source: 0,
        line: sequence as u64 + 1,
        prelude: false,
        wire_details: None,
    };
    kinds.enumerate().map(event).collect()
}

/// Writes the events. Returns the files of the workload, or of an unfinished one.
fn write(finish: bool) -> Files {
    let directory = crate::scratch_directory();
    let path = directory.path().join("a.workload");
    let options = WriterOptions {
        keep_unfinished: true,
        ..WriterOptions::default()
    };
    let mut writer = WorkloadWriter::create(&path, options, NoRedaction).expect("a scratch file");
    for event in events() {
        writer.event(&event.borrowed()).expect("a scratch file");
        if event.sequence % 20 == 19 {
            writer.checkpoint(event.due_us).expect("a scratch file");
        }
    }
    let path = match finish {
        true => {
            writer
                .finish(Provenance::default())
                .expect("a scratch file");
            path
        }
        false => {
            drop(writer);
            path.with_extension("workload.partial")
        }
    };
    let mut files: Files = fs::read_dir(&path)
        .expect("a directory")
        .map(|entry| {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a plain name");
            (name, fs::read(entry.path()).expect("a file"))
        })
        .collect();
    files.sort();
    files
}

fn store(directory: &Path, name: &str, files: &Files) -> PathBuf {
    let path = directory.join(name);
    fs::create_dir(&path).expect("a scratch directory");
    for (name, content) in files {
        fs::write(path.join(name), content).expect("a scratch file");
    }
    path
}

fn content_mut<'f>(files: &'f mut Files, name: &str) -> &'f mut Vec<u8> {
    let found = files.iter_mut().find(|(found, _)| found == name);
    &mut found.expect("a file of a workload").1
}

/// Applies edits of five bytes each: file, two bytes of an offset, operation, value. Returns whether all of them cut
/// or remove files.
fn edit(files: &mut Files, edits: &[u8]) -> bool {
    let mut only_cuts = true;
    for edit in edits.chunks_exact(5).take(16) {
        let [file, high, low, operation, value] = edit else {
            unreachable!("chunks have five bytes");
        };
        let count = files.len();
        if count == 0 {
            return only_cuts;
        }
        let content = &mut files[usize::from(*file) % count].1;
        let offset = usize::from(u16::from_be_bytes([*high, *low])) % (content.len() + 1);
        match operation % 4 {
            0 => content.truncate(offset),
            1 => {
                files.remove(usize::from(*file) % count);
            }
            2 if offset < content.len() => {
                content[offset] ^= value;
                only_cuts &= *value == 0;
            }
            _ => {
                content.insert(offset, *value);
                only_cuts = false;
            }
        }
    }
    only_cuts
}

/// Makes the manifest's sizes, checksums and id those of the files.
fn sign(files: &mut Files) {
    let contents = files.clone();
    let manifest = content_mut(files, "manifest.json");
    let mut json: serde_json::Value = serde_json::from_slice(manifest).expect("a manifest");
    let mut id = Sha256::new();
    for file in json["files"].as_array_mut().expect("a list") {
        let name = file["name"].as_str().expect("a name").to_owned();
        let (_, content) = contents
            .iter()
            .find(|(found, _)| *found == name)
            .expect("its file");
        let checksum = format!("{:x}", Sha256::digest(content));
        id.update(format!("{name}\n{checksum}\n"));
        file["bytes"] = content.len().into();
        file["sha256"] = checksum.into();
    }
    json["id"] = format!("{:x}", id.finalize())[..16].into();
    *manifest = json.to_string().into_bytes();
}

/// A workload that opens and whose checksums are right has its events. Any other is refused.
fn check_complete<T>(directory: &Path, alter: impl FnOnce(&mut Files) -> T) {
    static COMPLETE: LazyLock<Files> = LazyLock::new(|| write(true));
    let mut files = COMPLETE.clone();
    alter(&mut files);
    let path = store(directory, "a.workload", &files);
    let Ok(reader) = WorkloadReader::open(&path) else {
        return;
    };
    let read = read_all(&reader);
    let is_unaltered = files == *COMPLETE;
    if is_unaltered {
        assert_eq!(read.as_deref(), Some(&events()[..]));
    }
    if let Some(read) = read {
        let counted = reader.info().events;
        assert_eq!(
            read.len() as u64,
            counted,
            "the manifest counts other events"
        );
    }
    let _ = reader.verify();
}

/// Reads all tables; `None` if one of them is damaged.
fn read_all(reader: &WorkloadReader) -> Option<Vec<Event>> {
    let events: Result<Vec<Event>, _> = reader
        .events()
        .ok()?
        .map(|item| item.map(|(event, _)| event))
        .collect();
    let is_whole = reader.sessions().ok()?.all(|session| session.is_ok())
        && reader.statements().ok()?.all(|statement| statement.is_ok())
        && reader.server_events().ok()?.all(|event| event.is_ok());
    events.ok().filter(|_| is_whole)
}

/// Events that are recovered are the first of those that were written.
fn check_unfinished(directory: &Path, edits: &[u8]) {
    static UNFINISHED: LazyLock<Files> = LazyLock::new(|| write(false));
    let mut files = UNFINISHED.clone();
    let only_cuts = edit(&mut files, edits);
    let partial = store(directory, "a.workload.partial", &files);
    let Ok((path, info)) = recover(&partial) else {
        assert!(
            partial.exists(),
            "nothing is left of what cannot be recovered"
        );
        return;
    };
    let reader = WorkloadReader::open(&path).expect("a recovered workload is complete");
    reader.verify().expect("a recovered workload is whole");
    let read = read_all(&reader).expect("a recovered workload is readable");
    assert_eq!(read.len() as u64, info.events);
    if only_cuts {
        let written = events();
        assert!(written.starts_with(&read), "{} other events", read.len());
    }
    if files == *UNFINISHED {
        assert!(!read.is_empty(), "checkpoints are lost");
    }
}
