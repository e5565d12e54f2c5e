//! `rehearse history` with runs whose times are known.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use run::{RunStatus, RunWriter};
use serde_json::Value;

#[path = "../../analysis/compare/tests/made_up/mod.rs"]
mod made_up;
mod recipes;

use made_up::{Chance, done, info, text};

/// Writes a run of two statements, the second of which takes this many times its usual time.
fn write(path: &Path, seed: u64, factor: f64, workload: &str) {
    write_with(path, seed, factor, workload, RunStatus::Complete);
}

fn write_with(path: &Path, seed: u64, factor: f64, workload: &str, status: RunStatus) {
    let mut chance = Chance::new(seed);
    let texts = (1..=2).map(|id| Ok(text(id, &format!("select {id} from t where id = $1"))));
    let mut info = info();
    info.started_wall_us = seed as i64 * 86_400_000_000;
    info.workload.id = workload.to_owned();
    info.status = status;
    let mut writer = RunWriter::create(path, &info, texts).unwrap();
    for number in 0..200u64 {
        let which = number % 2;
        let service_ns = [1e6, 2e6 * factor][which as usize] * chance.skewed();
        let due_ns = number as i64 * 20_000_000;
        writer
            .execution(&done(which + 1, number, due_ns, service_ns))
            .unwrap();
    }
    writer.finish(info, 0).unwrap();
}

fn history(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .arg("history")
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

fn first_entry(history: &Path) -> PathBuf {
    let mut entries = std::fs::read_dir(history).unwrap();
    entries.next().unwrap().unwrap().path()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn runs_are_added_once_and_a_slower_statement_is_shown() {
    let room = tempfile::tempdir().unwrap();
    for number in 1..=4 {
        let factor = if number == 4 { 5.0 } else { 1.0 };
        write(
            &room.path().join(format!("{number}.run")),
            number,
            factor,
            "w",
        );
    }
    // The order of additions does not matter.
    let added = history(
        room.path(),
        &["add", "h", "4.run", "2.run", "--label", "a, b"],
    );
    assert_eq!(added.status.code(), Some(0), "{}", said(&added));
    let added = history(room.path(), &["add", "h", "1.run", "2.run", "3.run"]);
    assert!(
        said(&added).contains("2.run: h has it already"),
        "{}",
        said(&added)
    );
    // What a killed addition leaves does not count, and does not hinder.
    let entry = first_entry(&room.path().join("h"));
    std::fs::rename(&entry, format!("{}.partial", entry.display())).unwrap();
    let all = ["add", "h", "1.run", "2.run", "3.run", "4.run"];
    assert_eq!(history(room.path(), &all).status.code(), Some(0));

    let shown = history(room.path(), &["show", "h", "--json"]);
    let json: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(json["schema"], "rehearse/history/1");
    let started: Vec<i64> = json["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["started_us"].as_i64().unwrap())
        .collect();
    assert_eq!(started, [1, 2, 3, 4].map(|day| day * 86_400_000_000));
    let trends = json["trends"].as_array().unwrap();
    let notable: Vec<&str> = trends
        .iter()
        .filter(|trend| trend["is_notable"] == true)
        .map(|trend| trend["sql"].as_str().unwrap())
        .collect();
    assert_eq!(notable, ["", "select 2 from t where id = $1"]);

    let text = history(room.path(), &["show", "h"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.starts_with("h: 4 runs of "), "{text}");
    let line_of = |sql: &str| text.lines().find(|line| line.ends_with(sql)).unwrap();
    assert!(
        line_of("select 2 from t where id = $1").starts_with('!'),
        "{text}"
    );
    assert!(
        line_of("select 1 from t where id = $1").starts_with(' '),
        "{text}"
    );

    let csv = history(room.path(), &["export", "h"]);
    let csv = String::from_utf8(csv.stdout).unwrap();
    assert_eq!(csv.lines().count(), 5);
    let columns: Vec<usize> = csv
        .lines()
        .map(|line| line.replace("a, b", "").matches(',').count())
        .collect();
    assert!(columns.iter().all(|count| *count == columns[0]), "{csv}");
}

#[test]
fn what_is_no_history_or_of_another_workload_is_refused() {
    let room = tempfile::tempdir().unwrap();
    write(&room.path().join("1.run"), 1, 1.0, "w");
    write(&room.path().join("2.run"), 2, 1.0, "other");
    let refused = |arguments: &[&str], words: &str| {
        let output = history(room.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(words), "{}", said(&output));
    };
    refused(&["show", "h"], "the history h does not exist");
    let stopped = room.path().join("stopped.run");
    write_with(&stopped, 3, 1.0, "w", RunStatus::Stopped);
    refused(&["add", "h", "stopped.run"], "did not reach its end");
    assert_eq!(
        history(room.path(), &["add", "h", "1.run"]).status.code(),
        Some(0)
    );
    refused(&["add", "h", "2.run"], "give each its own history");
    refused(&["add", "1.run", "2.run"], "1.run is a run, not a history");
    std::fs::create_dir(room.path().join("other")).unwrap();
    std::fs::write(room.path().join("other/notes.txt"), "").unwrap();
    refused(
        &["show", "other"],
        "other is no history: it contains notes.txt",
    );
    refused(
        &["add", "new", "1.run", "none.run"],
        "none.run does not exist",
    );
    assert!(!room.path().join("new").exists());
    // A cut table is an error, not an empty history.
    let entry = first_entry(&room.path().join("h"));
    let table = entry.join("numbers.parquet");
    let bytes = std::fs::read(&table).unwrap();
    std::fs::write(&table, &bytes[..bytes.len() / 2]).unwrap();
    let output = history(room.path(), &["show", "h"]);
    assert!(
        output.status.code().is_some_and(|code| code >= 2),
        "{}",
        said(&output)
    );
    assert!(
        said(&output).contains("numbers.parquet"),
        "{}",
        said(&output)
    );
}
