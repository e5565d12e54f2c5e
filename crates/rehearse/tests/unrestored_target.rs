//! Replays on a real server that was, or was not, restored since an earlier replay.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use sandbox::Endpoint;
use serde_json::Value;

const SCHEMA: &str = "
    DROP TABLE IF EXISTS orders, customer;
    CREATE TABLE customer (id int PRIMARY KEY, orders int);
    INSERT INTO customer SELECT n, 0 FROM generate_series(1, 20) n;
    CREATE TABLE orders (id int PRIMARY KEY, customer int)";

fn rehearse(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    let output = command.args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    output
}

/// Writes a workload of one session that inserts orders and counts them.
fn workload(directory: &Path) -> String {
    let mut log = String::new();
    let mut line = |at: u32, text: &str| {
        let prefix = format!("2026-03-01 09:00:00.{at:03} UTC [100]");
        writeln!(log, "{prefix} LOG:  {text}").unwrap();
    };
    line(0, "connection authorized: user=postgres database=postgres");
    for id in 1..=20 {
        line(
            2 * id,
            &format!("statement: INSERT INTO orders VALUES ({id}, {id})"),
        );
        let update = format!("statement: UPDATE customer SET orders = orders + 1 WHERE id = {id}");
        line(2 * id + 1, &update);
    }
    let [from, workload] =
        ["a.log", "a.workload"].map(|name| directory.join(name).display().to_string());
    std::fs::write(&from, log).unwrap();
    rehearse(&[
        "capture", "log", &from, "--prefix", "%m [%p] ", "-o", &workload,
    ]);
    workload
}

fn execute(endpoint: &Endpoint, sql: &str) {
    test_support::connect(endpoint).batch_execute(sql).unwrap();
}

/// Replays, and returns the path of the run and the notes.
fn replay(workload: &str, endpoint: &Endpoint, name: &str) -> (String, String) {
    let run = Path::new(workload)
        .with_file_name(name)
        .display()
        .to_string();
    let url = endpoint.url("postgres");
    let output = rehearse(&[
        "replay", workload, "--target", &url, "--speed", "max", "-o", &run,
    ]);
    (run, String::from_utf8(output.stderr).unwrap())
}

const WORDS: &str = "was not restored since";

/// Returns the warnings of a comparison that name a target that was not restored.
fn warnings(before: &str, after: &str) -> Vec<Value> {
    let output = rehearse(&["compare", before, after, "--json"]);
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    let warnings = comparison["warnings"].as_array().unwrap().iter();
    let is_it = |one: &&Value| one["warning"] == "target_not_restored";
    warnings.filter(is_it).cloned().collect()
}

fn writes_are_named_until_the_target_is_restored(major: u16) {
    let directory = tempfile::tempdir().unwrap();
    let workload = workload(directory.path());
    let (_sandbox, endpoint) = test_support::server().major(major).start();
    execute(&endpoint, SCHEMA);
    let (first, notes) = replay(&workload, &endpoint, "first.run");
    assert!(!notes.contains(WORDS), "{notes}");

    let (second, notes) = replay(&workload, &endpoint, "second.run");
    let names = format!("{WORDS} the replay {first}, which wrote to public.");
    assert!(notes.contains(&names), "{notes}");
    let found = warnings(&first, &second);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0]["run"]["side"], "after");
    assert_eq!(found[0]["earlier"], first);
    assert_eq!(found[0]["changed"], 2);
    let text = rehearse(&["compare", &first, &second]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("the target of the run after was not restored"),
        "{text}"
    );

    // Of several workers, that of shard 0 looks next to their run, not in it.
    let url = endpoint.url("postgres");
    let third = directory.path().join("third.run").display().to_string();
    let output = rehearse(&[
        "replay", &workload, "--target", &url, "--speed", "max", "-o", &third, "--shard", "0/1",
    ]);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains(WORDS), "{notes}");

    // Each way to restore is followed by a replay that is not accused.
    let ways = [
        (
            "rows.run",
            "DELETE FROM orders; UPDATE customer SET orders = 0",
        ),
        (
            "truncated.run",
            "TRUNCATE orders, customer; INSERT INTO customer SELECT n, 0 FROM generate_series(1, 20) n",
        ),
        ("new_tables.run", SCHEMA),
    ];
    for (name, restore) in ways {
        execute(&endpoint, restore);
        let (run, notes) = replay(&workload, &endpoint, name);
        assert!(!notes.contains(WORDS), "{name}: {notes}");
        assert!(warnings(&first, &run).is_empty(), "{name}");
    }
}

#[test]
fn target_of_15_with_writes_of_an_earlier_replay_is_named_until_it_is_restored() {
    writes_are_named_until_the_target_is_restored(15);
}

#[test]
fn target_of_18_with_writes_of_an_earlier_replay_is_named_until_it_is_restored() {
    writes_are_named_until_the_target_is_restored(18);
}

#[test]
fn target_of_13_with_writes_of_an_earlier_replay_is_named_until_it_is_restored() {
    writes_are_named_until_the_target_is_restored(13);
}
