//! `rehearse inspect` on the log of a real server that contains every kind of event.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn rehearse(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .current_dir(directory)
        .args(arguments)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn captured(directory: &Path) {
    let log =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/log/tests/fixtures/server18.log");
    let log: PathBuf = log.canonicalize().unwrap();
    let captured = rehearse(
        directory,
        &["capture", "log", log.to_str().unwrap(), "-o", "a.workload"],
    );
    let text = said(&captured);
    assert!(text.contains("of the server's own"), "{text}");
}

#[test]
fn the_report_in_all_its_forms() {
    let room = tempfile::tempdir().unwrap();
    let directory = room.path();
    captured(directory);

    let text = said(&rehearse(directory, &["inspect", "a.workload"]));
    for told in [
        "By slowest call",
        "temporary files  11, 8.87 MiB in all",
        "ShareLock on transaction",
        "deadlocks        1",
        "shop.public.big",
        "server18.log:",
        "40P01 deadlock_detected",
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(!text.contains("||'z'"), "{text}");
    let text = said(&rehearse(
        directory,
        &["inspect", "a.workload", "--show-literals"],
    ));
    assert!(text.contains("update big set v=v||'z'"), "{text}");
    let arguments = ["inspect", "a.workload", "--sort", "mean", "--top", "2"];
    let text = said(&rehearse(directory, &arguments));
    assert!(text.contains("By mean, 2 of 27 statements"), "{text}");
    assert!(!text.contains("By slowest call"), "{text}");

    let json = said(&rehearse(directory, &["inspect", "a.workload", "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["server"]["kinds"]["crash"], 1);
    assert_eq!(json["server"]["kinds"]["lock_wait"], 4);
    let calls = json["by_statement"].as_array().unwrap().iter();
    let calls: u64 = calls.map(|one| one["calls"].as_u64().unwrap()).sum();
    assert_eq!(json["statements"], calls);

    let page = ["inspect", "a.workload", "--html", "a.html"];
    let output = rehearse(directory, &page);
    assert!(said(&output).is_empty(), "{output:?}");
    let html = std::fs::read_to_string(directory.join("a.html")).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("statement-table"));
    assert!(!html.contains("||'z'"));
    let table = [
        "inspect",
        "a.workload",
        "--csv",
        "a.csv",
        "--top",
        "5",
        "--sort",
        "calls",
    ];
    assert!(said(&rehearse(directory, &table)).is_empty());
    let mut reader = csv::Reader::from_path(directory.join("a.csv")).unwrap();
    let head = reader.headers().unwrap().clone();
    let of = head.iter().position(|one| one == "calls").unwrap();
    let rows = reader.records().map(Result::unwrap);
    let listed: Vec<u64> = rows.map(|row| row[of].parse().unwrap()).collect();
    let mut all: Vec<u64> = json["by_statement"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["calls"].as_u64().unwrap())
        .collect();
    all.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(listed, all[..5]);
    // Written over without a question: it is made of a workload that is still there.
    said(&rehearse(directory, &page));
}

#[test]
fn what_cannot_be_done_is_one_sentence() {
    let room = tempfile::tempdir().unwrap();
    captured(room.path());
    let refused = |arguments: &[&str], code: i32, word: &str| {
        let output = rehearse(room.path(), arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(word), "{error}");
    };
    let nowhere = ["inspect", "a.workload", "--html", "nowhere/a.html"];
    refused(&nowhere, 3, "cannot be written");
    refused(&["inspect", "a.workload", "--top", "0"], 2, "--top");
    let both = ["inspect", "a.workload", "--html", "a.html", "--json"];
    refused(&both, 2, "cannot be used with");
    let both = ["inspect", "a.workload", "--by", "route", "--sort", "calls"];
    refused(&both, 2, "--sort has no effect with --by");
}

/// Lines of a real server of version 15 with its default prefix.
const CURSORS: &str = "\
2026-11-28 06:26:47.000 UTC [58] LOG:  duration: 0.067 ms  statement: BEGIN;
2026-11-28 06:26:47.001 UTC [58] LOG:  duration: 0.210 ms  statement: DECLARE \"My Cur\" CURSOR FOR select * from t order by v;
2026-11-28 06:26:47.024 UTC [58] LOG:  duration: 22.301 ms  statement: FETCH 10 FROM \"My Cur\";
2026-11-28 06:26:47.025 UTC [58] LOG:  temporary file: path \"base/pgsql_tmp/pgsql_tmp58.1\", size 2433024
2026-11-28 06:26:47.025 UTC [58] STATEMENT:  COMMIT;
2026-11-28 06:26:47.025 UTC [58] LOG:  duration: 0.419 ms  statement: COMMIT;
2026-11-28 06:26:47.125 UTC [58] LOG:  temporary file: path \"base/pgsql_tmp/pgsql_tmp58.2\", size 1000
2026-11-28 06:26:47.125 UTC [58] STATEMENT:  COMMIT;
2026-11-28 06:26:47.125 UTC [58] LOG:  duration: 0.419 ms  statement: COMMIT;
2026-11-28 06:26:47.200 UTC [58] ERROR:  relation \"nosuch\" does not exist at character 15
2026-11-28 06:26:47.200 UTC [58] STATEMENT:  select * from nosuch;
";

#[test]
fn inspect_of_a_directory_of_logs_equals_that_of_its_log() {
    let room = tempfile::tempdir().unwrap();
    std::fs::create_dir(room.path().join("logs")).unwrap();
    std::fs::write(room.path().join("logs/a.log"), CURSORS).unwrap();
    let of_directory = said(&rehearse(room.path(), &["inspect", "logs"]));
    let of_log = said(&rehearse(room.path(), &["inspect", "logs/a.log"]));
    let below_the_name = |text: &str| text.split_once(':').unwrap().1.to_owned();
    assert_eq!(below_the_name(&of_directory), below_the_name(&of_log));

    std::fs::create_dir(room.path().join("b.workload")).unwrap();
    let output = rehearse(room.path(), &["inspect", "b.workload"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("it has no manifest.json"), "{error}");
}

#[test]
fn inspect_of_cached_logs_names_messages_and_declares() {
    let room = tempfile::tempdir().unwrap();
    std::fs::create_dir(room.path().join("logs")).unwrap();
    std::fs::write(room.path().join("logs/a.log"), CURSORS).unwrap();
    for kept in ["0 of 1 logs", "1 of 1 logs"] {
        let output = rehearse(room.path(), &["inspect", "logs", "--cache", "cache"]);
        let notes = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(notes.contains(kept), "{notes}");
        let text = said(&output);
        for expected in [
            "2.32 MiB  declare \"My Cur\" cursor",
            "1000 B  (unknown)",
            "1  ERROR  relation \"…\" does not exist",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("?????"), "{text}");
    }
}
