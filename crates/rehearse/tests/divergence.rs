//! Replays a log of known traffic against a database with known changes. The report must find
//! these changes, with the right lines of the log.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use run::RunReader;
use sandbox::Stop;
use serde_json::{Value, json};
use test_support::{connect, server};
use workload::{NoRedaction, WorkloadReader, WorkloadWriter, WriterOptions};

fn rehearse(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .env_remove("PGHOST")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

const TABLES: &str = "CREATE TABLE item (id int PRIMARY KEY, name text, price int);
     INSERT INTO item SELECT n, 'item ' || n, n FROM generate_series(1, 5) n;
     CREATE TABLE stock (id int CONSTRAINT one_stock UNIQUE, n int);
     INSERT INTO stock VALUES (1, 1)";

/// Changes to the database: a column removed, a row added, a constraint removed.
const CHANGE: &str = "ALTER TABLE item DROP COLUMN price;
     INSERT INTO item VALUES (6, 'item 6');
     ALTER TABLE stock DROP CONSTRAINT one_stock";

/// Statements of the only session.
const TRAFFIC: [&str; 13] = [
    "SELECT id FROM item ORDER BY id",
    "SELECT price FROM item WHERE id = 2",
    "BEGIN",
    "INSERT INTO stock VALUES (7, 1)",
    "SELECT price FROM item WHERE id = 1",
    "SELECT count(*) FROM stock",
    "ROLLBACK",
    "INSERT INTO stock VALUES (1, 5)",
    "BEGIN",
    "INSERT INTO stock VALUES (1, 6)",
    "SELECT sum(n) FROM stock",
    "ROLLBACK",
    "SELECT 1/0",
];

/// Sends the traffic to a server that logs it, and copies the log to `log`.
fn capture(log: &Path) {
    let mut server = server().major(15).create();
    connect(&server.start().unwrap())
        .batch_execute(TABLES)
        .unwrap();
    server.stop(Stop::Fast).unwrap();
    let logging = [
        ("logging_collector", "on"),
        ("log_destination", "stderr"),
        ("log_line_prefix", "%m [%p] %c %e %q%u@%d/%a "),
        ("log_min_duration_statement", "0"),
        ("log_connections", "on"),
        ("log_disconnections", "on"),
        ("log_directory", "log"),
        ("log_filename", "postgresql.log"),
    ];
    let logging = logging.map(|(name, value)| (name.to_owned(), value.to_owned()));
    server.set(logging.into()).unwrap();
    let mut client = connect(&server.start().unwrap());
    for sql in TRAFFIC {
        let _ = client.simple_query(sql);
    }
    client.close().unwrap();
    server.stop(Stop::Fast).unwrap();
    std::fs::copy(server.data_dir().join("log/postgresql.log"), log).unwrap();
}

/// Creates the workload with the row counts of a replay, as a source that knows them would have
/// captured it.
fn with_rows(workload: &Path, run: &Path, output: &Path) {
    let rows: HashMap<(u64, u64), u64> = RunReader::open(run)
        .unwrap()
        .executions()
        .unwrap()
        .map(Result::unwrap)
        .filter(|one| one.is_statement() && one.outcome == run::Outcome::Done)
        .map(|one| ((one.session, one.sequence), one.rows))
        .collect();
    let reader = WorkloadReader::open(workload).unwrap();
    let mut writer = WorkloadWriter::create(output, WriterOptions::default(), NoRedaction).unwrap();
    for item in reader.events().unwrap() {
        let (mut event, _) = item.unwrap();
        event.outcome.rows = rows.get(&(event.session, event.sequence)).copied();
        writer.event(&event.borrowed()).unwrap();
    }
    writer.finish(reader.info().provenance.clone()).unwrap();
}

/// Returns the differences in short form: kind, codes, count, consequences, and log line.
fn differences(summary: &Value) -> Vec<Value> {
    let all = summary["divergence"]["differences"].as_array().unwrap();
    let short = |one: &Value| {
        json!([
            one["kind"],
            one["sqlstate"],
            one["captured_sqlstate"],
            one["count"],
            one["following"],
            one["first"]["line"]
        ])
    };
    all.iter().map(short).collect()
}

/// Captured traffic with its log, and the runs of its replays.
struct Room {
    directory: tempfile::TempDir,
    log: String,
}

impl Room {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("shop.log");
        capture(&log);
        let log = std::fs::read_to_string(log).unwrap();
        let room = Room { directory, log };
        rehearse(&[
            "capture",
            "log",
            &room.name("shop.log"),
            "-o",
            &room.name("shop.workload"),
        ]);
        room
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Returns the number of the first line of the log with these words.
    fn line(&self, words: &[&str]) -> u64 {
        let has = |line: &str| words.iter().all(|word| line.contains(word));
        let at = self.log.lines().position(has);
        at.unwrap_or_else(|| panic!("no {words:?} in {}", self.log)) as u64 + 1
    }

    /// Replays a workload onto a new server with this change, and returns the summary.
    fn replay(&self, workload: &str, run: &str, change: &str) -> Value {
        let mut target = server().major(15).create();
        let endpoint = target.start().unwrap();
        let mut client = connect(&endpoint);
        client.batch_execute(TABLES).unwrap();
        client.batch_execute(change).unwrap();
        let told = rehearse(&[
            "replay",
            &self.name(workload),
            "--target",
            &endpoint.url("postgres"),
            "-o",
            &self.name(run),
            "--speed",
            "max",
            "--json",
        ]);
        serde_json::from_str(&told).unwrap()
    }
}

#[test]
fn what_was_changed_is_what_is_found_with_its_line_of_the_log() {
    let room = Room::new();
    let same = room.replay("shop.workload", "same.run", "");
    let divergence = &same["divergence"];
    assert_eq!(divergence["verdict"], "same", "{divergence:#}");
    assert_eq!(divergence["statements"], TRAFFIC.len());
    assert_eq!(divergence["same"], TRAFFIC.len());
    // Two duplicate keys, the statement refused after one of them, and a division by zero.
    assert_eq!(divergence["same_failed"], 4);

    let price = room.line(&["SELECT price FROM item WHERE id = 2"]);
    let unique = room.line(&["ERROR", "one_stock"]);
    let new = json!(["error_new", "42703", null, 2, 1, price]);
    // The statement after it fails here as well: the replay rolls back what the capture rolled back.
    let gone = json!(["error_gone", null, "23505", 2, 0, unique]);
    let changed = room.replay("shop.workload", "changed.run", CHANGE);
    let divergence = &changed["divergence"];
    assert_eq!(
        differences(&changed),
        [new.clone(), gone.clone()],
        "{divergence:#}"
    );
    assert_eq!(
        (&divergence["verdict"], &divergence["rows_compared"]),
        (&json!("differs"), &json!(0))
    );
    assert_eq!(divergence["same"], TRAFFIC.len() - 5);
    let first = &divergence["differences"][0]["first"];
    assert_eq!(first["source"], room.name("shop.log"));
    assert_eq!(first["message"], "column \"price\" does not exist");
    comparison_finds_the_row(&room);

    // With what a source that knows rows would have said, the row more is found as well.
    with_rows(
        &room.path("shop.workload"),
        &room.path("same.run"),
        &room.path("rows.workload"),
    );
    let changed = room.replay("rows.workload", "rows.run", CHANGE);
    let line = room.line(&["SELECT id FROM item"]);
    let rows = json!(["rows", null, null, 1, 0, line]);
    assert_eq!(differences(&changed), [new, rows, gone]);
    let rows = &changed["divergence"]["differences"][1]["rows"];
    assert_eq!((&rows["more"], &rows["rows_more"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&rows["largest_captured"], &rows["largest_replayed"]),
        (&json!(5), &json!(6))
    );
    text_has_the_same_facts(&room, price);
}

fn comparison_finds_the_row(room: &Room) {
    let (same, changed) = (room.name("same.run"), room.name("changed.run"));
    let compared = rehearse(&["compare", &same, &changed, "--json"]);
    let compared: Value = serde_json::from_str(&compared).unwrap();
    let rows = compared["rows"]["changes"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{rows:#?}");
    assert_eq!(rows[0]["sql"], "select id from item order by id");
    assert_eq!(
        (&rows[0]["before"], &rows[0]["after"]),
        (&json!(5), &json!(6))
    );
}

/// The text has the same facts, without access to the workload.
fn text_has_the_same_facts(room: &Room, price: u64) {
    std::fs::remove_dir_all(room.path("rows.workload")).unwrap();
    let text = rehearse(&["show", &room.name("rows.run")]);
    for words in [
        "The replay did not do all that the capture did: 7 of 13 statements the same".to_owned(),
        format!("shop.log:{price}"),
        "new 42703 × 2".to_owned(),
        "gone 23505 × 2".to_owned(),
    ] {
        assert!(text.contains(&words), "'{words}' in {text}");
    }
}
