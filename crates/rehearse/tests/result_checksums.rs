//! Captures reads and writes through the proxy with checksums of results, and replays them
//! against the initial snapshot: every result is equal. With one row changed, the replay names
//! the statements that read it.

use std::path::Path;
use std::process::Command;

use sandbox::{Endpoint, Stop};
use serde_json::Value;
use test_support::{CaptureProxy, connect};

const SCHEMA: &str = "
    CREATE TABLE account (id serial PRIMARY KEY, owner text, cents bigint NOT NULL DEFAULT 0);
    INSERT INTO account (owner, cents) SELECT 'owner ' || n, n * 100 FROM generate_series(1, 200) n;
    CREATE TABLE transfer (id bigserial, source int, target int, cents bigint);";

/// Query that returns its rows in a different order each time.
const COPY_OUT: &str = "COPY (SELECT owner FROM account ORDER BY random()) TO STDOUT";

/// Two sessions by turns: transfers in transactions, in both protocols, rows that come back, COPY, a
/// both ways, a cursor, errors; numbers are generated alternately.
fn drive(endpoint: &Endpoint) {
    let mut sessions = [connect(endpoint), connect(endpoint)];
    for turn in 0..60i32 {
        let client = &mut sessions[turn as usize % 2];
        let (source, target) = (1 + turn % 20, 101 + turn % 30);
        let cents = i64::from(turn * 7);
        let mut transaction = client.transaction().unwrap();
        for (id, change) in [(source, -cents), (target, cents)] {
            let sql = "UPDATE account SET cents = cents + $2 WHERE id = $1 RETURNING cents";
            transaction.query_one(sql, &[&id, &change]).unwrap();
        }
        let sql = "INSERT INTO transfer (source, target, cents) VALUES ($1, $2, $3) RETURNING id";
        let made: i64 = transaction
            .query_one(sql, &[&source, &target, &cents])
            .unwrap()
            .get(0);
        transaction
            .query("SELECT * FROM transfer WHERE id = $1", &[&made])
            .unwrap();
        transaction.commit().unwrap();
        // A separate row: a replay may read a later write too early, but never an earlier one too late.
        let last = 3 + turn % 2;
        let sql =
            format!("SELECT owner, cents FROM account WHERE id % 10 = {last} ORDER BY random()");
        client.simple_query(&sql).unwrap();
        // The next session sees it committed.
        std::thread::sleep(std::time::Duration::from_millis(4));
    }
    let [mut one, other] = sessions;
    let mut copy = one
        .copy_in("COPY account (owner, cents) FROM STDIN")
        .unwrap();
    std::io::Write::write_all(&mut copy, b"ann\t1\nbob\t2\n").unwrap();
    assert_eq!(copy.finish().unwrap(), 2);
    let mut copied = String::new();
    let mut copy = one.copy_out(COPY_OUT).unwrap();
    std::io::Read::read_to_string(&mut copy, &mut copied).unwrap();
    drop(copy);
    assert_eq!(copied.lines().count(), 202);
    assert!(one.simple_query("SELECT 1 / 0").is_err());
    let mut transaction = one.transaction().unwrap();
    let portal = transaction
        .bind("SELECT id, cents FROM account ORDER BY id", &[])
        .unwrap();
    while !transaction.query_portal(&portal, 50).unwrap().is_empty() {}
    transaction.commit().unwrap();
    let total = "SELECT sum(cents), count(*) FROM account";
    one.simple_query(total).unwrap();
    one.close().unwrap();
    other.close().unwrap();
}

/// Returns the differences that a replay with checksums finds from the capture.
fn replayed(workload: &Path, endpoint: &Endpoint) -> Value {
    let run = workload.with_extension("run");
    let _ = std::fs::remove_dir_all(&run);
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .arg("replay")
        .arg(workload)
        .args([
            "--target",
            &endpoint.url("postgres"),
            "--checksum-results",
            "columns",
        ])
        // Its data are those from before the capture.
        .args([
            "--allow-captured-server",
            &format!("127.0.0.1:{}", endpoint.port),
        ])
        .args(["--order", "commit", "--json", "-o"])
        .arg(&run)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    summary["divergence"].clone()
}

fn right_answers(major: u16) {
    let mut server = test_support::server().major(major).tcp().create();
    connect(&server.start().unwrap())
        .batch_execute(SCHEMA)
        .unwrap();
    server.stop(Stop::Fast).unwrap();
    server.snapshot("before").unwrap();
    let endpoint = server.start().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("traffic.workload");
    let program = env!("CARGO_BIN_EXE_rehearse");
    let options = ["--checksum-results", "rows"];
    let proxy = CaptureProxy::start(program, &endpoint, &workload, &options);
    drive(&proxy.endpoint);
    proxy.interrupt();

    server.stop(Stop::Fast).unwrap();
    server.restore("before").unwrap();
    let same = replayed(&workload, &server.start().unwrap());
    assert_eq!(same["verdict"], "same", "{same:#}");
    assert_eq!(same["statements"], same["same"], "{same:#}");
    assert!(same["digests_compared"].as_u64() > Some(200), "{same:#}");

    server.stop(Stop::Fast).unwrap();
    server.restore("before").unwrap();
    let endpoint = server.start().unwrap();
    let change = "UPDATE account SET owner = 'somebody else' WHERE id = 33";
    connect(&endpoint).batch_execute(change).unwrap();
    let other = replayed(&workload, &endpoint);
    assert_eq!(other["verdict"], "differs", "{other:#}");
    // The row is read in every second turn, and copied once; its balance is as it was.
    assert_eq!(other["values_differ"], 31, "{other:#}");
    let differences = other["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 2, "{other:#}");
    let named = |words: &str| {
        let is_it = |one: &&Value| one["sql"].as_str().unwrap().starts_with(words);
        let found = differences.iter().find(is_it);
        found.unwrap_or_else(|| panic!("{words}: {other:#}"))
    };
    for words in [
        "select owner, cents from account where id %",
        "copy(select owner from account",
    ] {
        assert_eq!(named(words)["kind"], "values", "{other:#}");
    }
}

#[test]
fn version_13_answers_as_it_did() {
    if test_support::skip_in_fast_tier() {
        return;
    }
    right_answers(13);
}

#[test]
fn version_18_answers_as_it_did() {
    right_answers(18);
}
