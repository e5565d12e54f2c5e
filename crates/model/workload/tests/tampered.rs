//! A workload whose manifest or files were altered is refused when it is opened.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use workload::{
    Event, EventKind, NoRedaction, Outcome, Provenance, WorkloadReader, WorkloadWriter,
    WriterOptions,
};

fn write(path: &Path) {
    let mut writer = WorkloadWriter::create(path, WriterOptions::default(), NoRedaction).unwrap();
    for sequence in 0..100 {
        let event = Event {
            session: 1,
            sequence,
            due_us: sequence as i64 * 1_000,
            kind: EventKind::Simple {
                sql: "select 1".into(),
            },
            outcome: Outcome::default(),
            unreplayable: None,
            source: 0,
            line: sequence + 1,
            prelude: false,
            wire_details: None,
        };
        writer.event(&event.borrowed()).unwrap();
    }
    writer.finish(Provenance::default()).unwrap();
}

/// Alters a fresh workload. Returns the refusal.
fn refusal(alter: impl FnOnce(&Path)) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.workload");
    write(&path);
    WorkloadReader::open(&path).unwrap();
    alter(&path);
    match WorkloadReader::open(&path) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    }
}

fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let manifest = path.join("manifest.json");
    let mut json = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    change(&mut json);
    fs::write(&manifest, json.to_string()).unwrap();
}

/// Changes the manifest, and makes its id fit.
fn edit_with_id(path: &Path, change: impl FnOnce(&mut Value)) {
    edit(path, |json| {
        change(json);
        let mut hash = Sha256::new();
        for file in json["files"].as_array().unwrap() {
            let text = |key: &str| file[key].as_str().unwrap().to_owned();
            hash.update(format!("{}\n{}\n", text("name"), text("sha256")));
        }
        json["id"] = format!("{:x}", hash.finalize())[..16].into();
    });
}

fn files(json: &mut Value) -> &mut Vec<Value> {
    json["files"].as_array_mut().unwrap()
}

fn events_file(json: &mut Value) -> &mut Value {
    let mut files = files(json).iter_mut();
    files.find(|file| file["table"] == "events").unwrap()
}

#[test]
fn manifest_with_other_rows_files_or_tables_is_refused() {
    for rows in [0, 1_100, u64::MAX] {
        let refused = refusal(|path| edit(path, |json| events_file(json)["rows"] = json!(rows)));
        assert!(
            refused.contains("100 rows") || refused.contains("counts 100"),
            "{refused}"
        );
    }
    let negative = refusal(|path| edit(path, |json| events_file(json)["rows"] = json!(-1)));
    assert!(negative.contains("cannot be read"), "{negative}");
    for bytes in [0, u64::MAX] {
        let refused = refusal(|path| edit(path, |json| events_file(json)["bytes"] = json!(bytes)));
        assert!(
            refused.contains("bytes, and its manifest says"),
            "{refused}"
        );
    }
    let none = refusal(|path| edit(path, |json| files(json).clear()));
    assert!(none.contains("the id does not belong"), "{none}");
    let none = refusal(|path| edit_with_id(path, |json| files(json).clear()));
    assert!(none.contains("0 rows of events"), "{none}");
    let twice = refusal(|path| {
        edit_with_id(path, |json| {
            let again = files(json).clone();
            files(json).extend(again);
        });
    });
    assert!(twice.contains("twice"), "{twice}");
    let order = refusal(|path| edit(path, |json| files(json).reverse()));
    assert!(order.contains("the id does not belong"), "{order}");
    let table = refusal(|path| edit(path, |json| events_file(json)["table"] = json!("nosuch")));
    assert!(table.contains("of the table \"nosuch\""), "{table}");
    let count = refusal(|path| edit(path, |json| json["body"]["events"] = json!(99)));
    assert!(count.contains("counts 99"), "{count}");
}

#[test]
fn file_name_that_is_no_table_is_refused_and_shown_harmlessly() {
    for name in [
        "..",
        "../../../etc/passwd",
        "/etc/passwd",
        "",
        "a\0b",
        "\u{1b}[2J",
        "..\\x",
        "manifest.json",
    ] {
        let refused = refusal(|path| {
            edit_with_id(path, |json| events_file(json)["name"] = json!(name));
        });
        assert!(refused.contains("which is no table's file"), "{refused}");
        assert!(!refused.contains(['\u{1b}', '\0']), "{refused}");
    }
}

#[test]
fn impossible_span_is_refused() {
    for span_us in [-5, i64::MAX] {
        let refused = refusal(|path| edit(path, |json| json["body"]["span_us"] = json!(span_us)));
        assert!(refused.contains("impossible"), "{refused}");
    }
}

#[test]
fn manifest_without_end_is_refused_at_once() {
    let manifest = |path: &Path| path.join("manifest.json");
    let large = refusal(|path| {
        let file = fs::File::create(manifest(path)).unwrap();
        file.set_len(3 << 30).unwrap();
    });
    assert!(large.contains("larger than"), "{large}");
    let device = refusal(|path| {
        fs::remove_file(manifest(path)).unwrap();
        symlink("/dev/zero", manifest(path)).unwrap();
    });
    assert!(device.contains("a device"), "{device}");
    let pipe = refusal(|path| {
        fs::remove_file(manifest(path)).unwrap();
        assert!(
            Command::new("mkfifo")
                .arg(manifest(path))
                .status()
                .unwrap()
                .success()
        );
    });
    assert!(pipe.contains("named pipe"), "{pipe}");
    let deep = refusal(|path| fs::write(manifest(path), "[".repeat(200_000)).unwrap());
    assert!(deep.contains("cannot be read"), "{deep}");
    let empty = refusal(|path| fs::write(manifest(path), "").unwrap());
    assert!(empty.contains("cannot be read"), "{empty}");
}

#[test]
fn table_that_is_a_pipe_or_device_is_refused_at_once() {
    let replace = |path: &Path, with: &dyn Fn(&Path)| {
        let events = path.join("events-00000.parquet");
        fs::remove_file(&events).unwrap();
        with(&events);
        edit(path, |json| events_file(json)["bytes"] = json!(0));
    };
    let pipe = refusal(|path| {
        replace(path, &|events| {
            assert!(
                Command::new("mkfifo")
                    .arg(events)
                    .status()
                    .unwrap()
                    .success()
            );
        });
    });
    assert!(pipe.contains("pipe or device"), "{pipe}");
    let device = refusal(|path| replace(path, &|events| symlink("/dev/zero", events).unwrap()));
    assert!(device.contains("pipe or device"), "{device}");
}

#[test]
fn cut_file_and_altered_footer_are_refused() {
    let content = |path: &Path| fs::read(path.join("events-00000.parquet")).unwrap();
    let store = |path: &Path, bytes: &[u8]| {
        fs::write(path.join("events-00000.parquet"), bytes).unwrap();
    };
    let cut = refusal(|path| store(path, &content(path)[..50]));
    assert!(cut.contains("damaged"), "{cut}");
    let footer = refusal(|path| {
        let mut bytes = content(path);
        let length_at = bytes.len() - 8;
        bytes[length_at..length_at + 4].fill(0xff);
        store(path, &bytes);
    });
    assert!(footer.contains("damaged"), "{footer}");
}
