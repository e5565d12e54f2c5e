//! A live shadow of a real server: a series that is being captured, `replay --follow`, and `compare --follow`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use capture_sink::EventSink;
use capture_sink::series::{SeriesOptions, SeriesRecorder, SeriesWatch};
use serde_json::Value;
use workload::series::Retention;
use workload::{Event, EventKind, Outcome, Provenance};

use super::Follower;

const SESSIONS: u64 = 3;
/// Interval of the statements of a session, in microseconds.
const INTERVAL_US: i64 = 20_000;
const TABLE: &str =
    "CREATE TABLE items AS SELECT id, 'item ' || id AS name FROM generate_series(1, 200000) AS id;
    CREATE INDEX by_id ON items (id); ANALYZE items";

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_micros()).unwrap()
}

/// Returns the kind of a session's event, and the rows that the capture had. Its setting must survive restarts.
fn statement(sequence: u64) -> (EventKind, u64) {
    let text = |sql: String| EventKind::Simple { sql: sql.into() };
    match sequence {
        0 => {
            let name = "postgres".into();
            let connect = EventKind::Connect {
                database: name,
                user: "postgres".into(),
                application: "".into(),
            };
            (connect, 0)
        }
        1 => (text("SET work_mem = '5MB'".to_owned()), 0),
        number if number % 2 == 0 => {
            let sql = format!(
                "SELECT name FROM items WHERE id = {}",
                number * 37 % 200_000 + 1
            );
            (text(sql), 1)
        }
        _ => {
            let sql = "SELECT 1 WHERE current_setting('work_mem') = '5MB'".to_owned();
            (text(sql), 1)
        }
    }
}

/// Captures three sessions into a series, in real time, until `ends`. Each statement took 2 ms.
fn capture(path: &Path, ends: &AtomicBool) {
    let provenance = Provenance {
        source_kind: "proxy".to_owned(),
        ..Provenance::default()
    };
    let mut recorder = SeriesRecorder::create(SeriesOptions {
        path: path.to_owned(),
        roll: Duration::from_secs(1),
        retention: Retention::default(),
        append: false,
        is_live: true,
        is_pipe: false,
        recipients: Vec::new(),
        mask: None,
        provenance: provenance.clone(),
        starting_point: None,
        watch: SeriesWatch::default(),
        on_note: Arc::new(|_| {}),
    })
    .unwrap();
    let start_us = now_us();
    for sequence in 0.. {
        let due_us = start_us + i64::try_from(sequence).unwrap() * INTERVAL_US;
        while now_us() < due_us {
            thread::sleep(Duration::from_millis(2));
        }
        for session in 1..=SESSIONS {
            let (kind, rows) = statement(sequence);
            let is_statement = kind.is_statement();
            let event = Event {
                session,
                sequence,
                due_us,
                kind,
                outcome: Outcome {
                    duration_us: is_statement.then_some(2_000),
                    rows: is_statement.then_some(rows),
                    ..Outcome::default()
                },
                unreplayable: None,
                source: 0,
                line: 0,
                prelude: false,
                wire_details: None,
            };
            recorder.event(&event.borrowed()).unwrap();
        }
        recorder.advance(due_us).unwrap();
        if ends.load(Ordering::Relaxed) {
            break;
        }
    }
    recorder.finish(provenance).unwrap();
}

fn replay(series: &Path, url: &str, run: &Path, more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .arg("replay")
        .arg(series)
        .args([
            "--follow",
            "--read-only",
            "--checkpoint",
            "250ms",
            "--max-lag",
            "1s",
        ])
        .args(["--no-facts", "--target", url, "-o"])
        .arg(run)
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn wait_for(path: &Path) {
    for _ in 0..600 {
        if path.exists() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("no {}", path.display());
}

/// Returns the statements with a proven difference.
fn findings(report: &Value) -> Vec<&str> {
    report["statements"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|statement| {
            let tests = statement["tests"].as_array().unwrap();
            tests.iter().any(|test| test["verdict"] != "none")
        })
        .map(|statement| statement["sql"].as_str().unwrap())
        .collect()
}

#[test]
fn shadow_of_a_candidate_survives_its_restart_and_names_what_gets_slower() {
    let directory = tempfile::tempdir().unwrap();
    let (series, run) = (
        directory.path().join("prod.series"),
        directory.path().join("shadow.run"),
    );
    let (mut sandbox, endpoint) = test_support::server().tcp().start();
    test_support::connect(&endpoint)
        .batch_execute(TABLE)
        .unwrap();
    let ends = Arc::new(AtomicBool::new(false));
    let capturing = {
        let (series, ends) = (series.clone(), ends.clone());
        thread::spawn(move || capture(&series, &ends))
    };
    wait_for(&series.join("series.json"));
    let replaying = replay(&series, &endpoint.url("postgres"), &run, &[]);
    let partial = directory.path().join("shadow.run.partial");
    wait_for(&partial.join("executions-00000.parquet.footer"));
    let mut comparing = Follower::start(
        [&series, &run],
        &[
            "--json",
            "--window",
            "250ms",
            "--interval",
            "1h",
            "--fail-on",
            "slower",
        ],
    );
    assert_eq!(comparing.event()["event"], "progress");
    thread::sleep(Duration::from_secs(2));
    let restarted = sandbox.restart().unwrap();
    assert_eq!(restarted.port, endpoint.port);
    thread::sleep(Duration::from_secs(3));
    test_support::connect(&endpoint)
        .batch_execute("DROP INDEX by_id")
        .unwrap();
    // Until here it was silent.
    let verdict = comparing.event();
    assert_eq!(verdict["change"]["measure"], "slower", "{verdict}");
    assert_eq!(
        verdict["change"]["statement"]["sql"],
        "select name from items where id = $1"
    );
    ends.store(true, Ordering::Relaxed);
    capturing.join().unwrap();
    // The replay ends with the series, and the comparison with the run.
    let replayed = replaying.wait_with_output().unwrap();
    assert_eq!(replayed.status.code(), Some(0), "{replayed:?}");
    let (code, rest, complaint) = comparing.end();
    assert_eq!(code, Some(1), "{rest}{complaint}");
    let end: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    let result = &end["result"];
    assert_eq!(result["state"], "complete");
    let report = &result["report"];
    // The restart excludes windows, even if it cut idle connections only.
    assert!(
        report["windows_excluded"]["outage"].as_u64() > Some(0),
        "{report}"
    );
    assert!(
        report["gaps"][0]["connections_lost"].as_u64() > Some(0),
        "{report}"
    );
    assert_eq!(
        findings(report),
        ["select name from items where id = $1"],
        "{report}"
    );
    let reader = run::RunReader::open(&run).unwrap();
    let info = reader.info();
    assert!(
        reader.lost_connections().unwrap().count() > 0 && info.connections_reopened > 0,
        "{info:?}"
    );
    // Every captured statement is in the run, done or with the reason why not.
    let skipped: u64 = info.skipped.values().sum();
    let failed: u64 = info.failed.values().sum();
    assert_eq!(info.done + failed + skipped, info.statements);
    assert_eq!(info.workload.statements, info.statements);
    let recorded = workload::WorkloadReader::open(&series)
        .unwrap()
        .info()
        .statements;
    assert!(
        info.statements > recorded / 2 && info.statements <= recorded,
        "{info:?}"
    );
}

/// The test takes the lock of a retention that removes a part.
#[test]
fn replay_follow_locks_no_part_before_it_is_due_and_names_one_that_it_waits_for() {
    let directory = tempfile::tempdir().unwrap();
    let (series, run) = (
        directory.path().join("prod.series"),
        directory.path().join("shadow.run"),
    );
    let (_sandbox, endpoint) = test_support::server().tcp().start();
    let ends = Arc::new(AtomicBool::new(false));
    let capturing = {
        let (series, ends) = (series.clone(), ends.clone());
        thread::spawn(move || capture(&series, &ends))
    };
    let first = loop {
        let parts = workload::series::Series::open(&series).map(|series| series.parts);
        if let Ok([first, ..]) = parts.as_deref() {
            break first.path.clone();
        }
        thread::sleep(Duration::from_millis(50));
    };
    let url = endpoint.url("postgres");
    let mut replaying = replay(&series, &url, &run, &["--delay", "14s"]);
    let mut stderr = BufReader::new(replaying.stderr.take().unwrap());
    let mut read_to = |text: &str| {
        let mut all = String::new();
        while !all.contains(text) {
            let read = stderr.read_line(&mut all).unwrap();
            assert!(read > 0, "no '{text}' in {all}");
        }
    };
    read_to("after the capture");
    let lock = || workload::DirectoryLock::try_exclusive(&first).unwrap();
    for _ in 0..20 {
        assert!(lock().is_some(), "it is locked long before it is due");
        thread::sleep(Duration::from_millis(100));
    }
    let removing = lock().unwrap();
    read_to("another process has locked it");
    drop(removing);
    thread::sleep(Duration::from_secs(1));
    let id = replaying.id().to_string();
    let stopped = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(stopped.success());
    assert_eq!(replaying.wait().unwrap().code(), Some(0));
    ends.store(true, Ordering::Relaxed);
    capturing.join().unwrap();
    let reader = run::RunReader::open(&run).unwrap();
    let info = reader.info();
    assert!(info.options["series_notes"].contains("Waiting for "));
    assert!(info.statements > 0, "{info:?}");
}

#[test]
fn replay_follow_refuses_what_it_cannot_follow() {
    let directory = tempfile::tempdir().unwrap();
    let series = directory.path().join("prod.series");
    let ends = AtomicBool::new(true);
    capture(&series, &ends);
    let refused = |workload: &Path, options: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
            .arg("replay")
            .arg(workload)
            .args(["--follow", "--target", "postgres://127.0.0.1:1", "-o"])
            .arg(directory.path().join("a.run"))
            .args(options)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&series, &[]).contains("is complete, so nothing follows in it"));
    let short = refused(&series, &["--delay", "2s"]);
    assert!(
        short.contains("--delay 2.00 s is too short") && short.contains("--delay 3s"),
        "{short}"
    );
    assert!(refused(&series, &["--kind", "read"]).contains("--kind has no effect with --follow"));
    let plain = super::workload(directory.path());
    assert!(refused(&plain, &[]).contains("--follow needs a series"));
}
