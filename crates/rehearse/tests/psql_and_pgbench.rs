//! Captures psql and pgbench through the proxy and from the server's log, and replays both workloads onto a
//! copy on another server: all of what they sent, the same outcomes, and equal tables.
//!
//! `clients/run.sh` does the same with many more clients, whose libraries it fetches.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use postgres::{Client, NoTls};
use run::{Outcome, RunReader, SkipReason};
use sandbox::{Endpoint, Sandbox, Stop};
use test_support::{CaptureProxy, server};
use workload::{EventKind, WorkloadReader};

/// Clients of each pgbench, and their transactions.
const CLIENTS: usize = 3;
const TRANSACTIONS: usize = 10;

const PREFIX: &str = "%m|%u|%d|%a|%c|%v|%e|";

/// A session of psql: what it sends is known from the script.
const SCRIPT: &str = "
CREATE TABLE notes (id int PRIMARY KEY, note text, written timestamptz DEFAULT now());
BEGIN;
INSERT INTO notes VALUES (1, 'kept ''ü''');
INSERT INTO notes VALUES (1, 'refused');
COMMIT;
BEGIN;
DELETE FROM notes;
ROLLBACK;
PREPARE more (int, text) AS INSERT INTO notes VALUES ($1, $2);
EXECUTE more (2, 'prepared');
INSERT INTO notes VALUES (3, 'first') \\; INSERT INTO notes VALUES (4, 'second');
INSERT INTO notes VALUES (5, 'undone') \\; INSERT INTO notes VALUES (2, 'refused');
SELECT 1 / 0;
UPDATE notes SET note = note || id;
";

/// Selects the columns that both sides must have: none that the server fills with its time.
const TABLES: [&str; 5] = [
    "SELECT aid || ' ' || abalance FROM pgbench_accounts ORDER BY aid",
    "SELECT tid || ' ' || tbalance FROM pgbench_tellers ORDER BY tid",
    "SELECT bid || ' ' || bbalance FROM pgbench_branches ORDER BY bid",
    "SELECT concat_ws(' ', tid, bid, aid, delta) FROM pgbench_history ORDER BY 1",
    "SELECT concat_ws(' ', id, note) FROM notes ORDER BY id",
];

/// Starts a server with pgbench's tables.
fn start(major: u16) -> (Sandbox, Endpoint) {
    let settings = [
        ("fsync", "off"),
        ("log_min_duration_statement", "0"),
        ("log_connections", "on"),
        ("log_disconnections", "on"),
        ("log_line_prefix", PREFIX),
    ];
    let (server, endpoint) = server().major(major).tcp().settings(&settings).start();
    // Without COPY, whose data no log has.
    client(&endpoint, "pgbench", &["-i", "-I", "dtGp", "-q"], "");
    (server, endpoint)
}

/// Runs a client to its end, which must be good.
#[track_caller]
fn client(server: &Endpoint, program: &str, arguments: &[&str], input: &str) {
    let mut child = Command::new(program)
        .args(arguments)
        .arg(server.url("postgres"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

/// Runs the clients, one after another.
fn traffic(server: &Endpoint) {
    let (clients, transactions) = (CLIENTS.to_string(), TRANSACTIONS.to_string());
    for mode in ["simple", "extended", "prepared"] {
        let load = ["-n", "-c", &clients, "-t", &transactions, "-M", mode];
        client(server, "pgbench", &load, "");
    }
    let options = ["-X", "-q", "-v", "ON_ERROR_ROLLBACK=on", "-d"];
    client(server, "psql", &options, SCRIPT);
}

fn rehearse(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

fn tables(server: &Endpoint) -> Vec<Vec<String>> {
    let mut client = Client::connect(&server.url("postgres"), NoTls).unwrap();
    TABLES
        .iter()
        .map(|sql| {
            let rows = client.query(*sql, &[]).unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        })
        .collect()
}

/// Counts a workload's statements by their first two words. A log has a Parse with its first execution.
fn statements(workload: &Path) -> BTreeMap<String, usize> {
    let reader = WorkloadReader::open(workload).unwrap();
    let mut counts = BTreeMap::new();
    for item in reader.events().unwrap() {
        let (event, _) = item.unwrap();
        let sql = event.kind.sql().map_or("", |sql| &**sql);
        let words: Vec<&str> = sql.split_whitespace().take(2).collect();
        if !words.is_empty() && !matches!(event.kind, EventKind::Prepare { .. }) {
            *counts.entry(words.join(" ")).or_default() += 1;
        }
    }
    counts
}

/// Checks that a workload has what the clients sent, no more and no less.
fn assert_holds_what_was_sent(workload: &Path) {
    let found = statements(workload);
    let load = 3 * CLIENTS * TRANSACTIONS;
    let expected = [
        // Each pgbench looks for its tables and their size once. In a transaction psql sets a savepoint before each statement.
        ("select o.n,", 3),
        ("select count(*)", 3),
        ("BEGIN;", load + 2),
        ("END;", load),
        ("UPDATE pgbench_accounts", load),
        ("SELECT abalance", load),
        ("UPDATE pgbench_tellers", load),
        ("UPDATE pgbench_branches", load),
        ("INSERT INTO", load + 4),
        ("SAVEPOINT pg_psql_temporary_savepoint", 5),
        ("RELEASE pg_psql_temporary_savepoint", 2),
        ("ROLLBACK TO", 1),
        ("CREATE TABLE", 1),
        ("COMMIT;", 1),
        ("DELETE FROM", 1),
        ("ROLLBACK;", 1),
        ("PREPARE more", 1),
        ("EXECUTE more", 1),
        ("SELECT 1", 1),
        ("UPDATE notes", 1),
    ];
    let expected: BTreeMap<String, usize> = expected
        .iter()
        .map(|(words, count)| ((*words).to_owned(), *count))
        .collect();
    assert_eq!(found, expected);
}

/// Replays a workload onto a new server with the state before it, and returns the tables.
fn replay(workload: &Path, major: u16, run: PathBuf) -> Vec<Vec<String>> {
    let (_copy, endpoint) = start(major);
    rehearse(&[
        "replay",
        workload.to_str().unwrap(),
        "--target",
        &endpoint.url("postgres"),
        "--order",
        "commit",
        "--speed",
        "max",
        "-o",
        run.to_str().unwrap(),
    ]);
    for execution in RunReader::open(&run).unwrap().executions().unwrap() {
        let execution = execution.unwrap();
        let captured = execution.captured.sqlstate;
        let is_same = match execution.outcome {
            Outcome::Done => captured.is_none(),
            Outcome::Failed(sqlstate) => captured == Some(sqlstate),
            Outcome::Skipped(reason) => reason == SkipReason::PipelineAborted,
        };
        assert!(is_same || !execution.is_statement(), "{execution:?}");
    }
    tables(&endpoint)
}

fn clients_are_captured_and_replayed(major: u16) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let (mut server, endpoint) = start(major);
    // What made the tables is no part of the traffic.
    std::fs::write(server.log(), "").unwrap();
    let proxied = path("proxied.workload");
    let program = env!("CARGO_BIN_EXE_rehearse");
    let proxy = CaptureProxy::start(program, &endpoint, &proxied, &[]);
    traffic(&proxy.endpoint);
    proxy.interrupt();
    let captured = tables(&endpoint);
    assert_eq!(captured[3].len(), 3 * CLIENTS * TRANSACTIONS);
    assert_eq!(captured[4].len(), 4);
    assert_holds_what_was_sent(&proxied);
    assert_eq!(replay(&proxied, major, path("proxied.run")), captured);

    server.stop(Stop::Fast).unwrap();
    let logged = path("logged.workload");
    let (log, output) = (server.log(), logged.to_str().unwrap());
    rehearse(&[
        "capture",
        "log",
        log.to_str().unwrap(),
        "--prefix",
        PREFIX,
        "--application",
        "pgbench",
        "--application",
        "psql",
        "-o",
        output,
    ]);
    assert_holds_what_was_sent(&logged);
    assert_eq!(replay(&logged, major, path("logged.run")), captured);
}

#[test]
fn version_13_psql_and_pgbench() {
    if !test_support::skip_in_fast_tier() {
        clients_are_captured_and_replayed(13);
    }
}

#[test]
fn version_15_psql_and_pgbench() {
    if !test_support::skip_in_fast_tier() {
        clients_are_captured_and_replayed(15);
    }
}

#[test]
fn version_17_psql_and_pgbench() {
    if !test_support::skip_in_fast_tier() {
        clients_are_captured_and_replayed(17);
    }
}

#[test]
fn version_18_psql_and_pgbench() {
    if !test_support::skip_in_fast_tier() {
        clients_are_captured_and_replayed(18);
    }
}
