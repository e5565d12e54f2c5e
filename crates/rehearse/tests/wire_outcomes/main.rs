//! Captures sessions whose outcomes only the wire shows, and replays them onto a copy: the same
//! outcomes, and equal tables, on servers of four versions.
//!
//! A client of this test sends the messages through the proxy and keeps the bytes of both sides.
//! Packets made of them are a second source, and probes in the server a third one.

#[path = "../../../capture/wire/tests/packets/mod.rs"]
#[allow(dead_code)]
mod made;
mod raw;
mod scripts;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use postgres::{Client, NoTls};
use run::{Outcome, RunReader};
use sandbox::{Endpoint, Sandbox};
use tempfile::TempDir;
use test_support::{CaptureAttach, CaptureProxy, server};
use workload::{Event, WorkloadReader};

use raw::Raw;

/// Bytes of both sides of a session.
type Turns = Vec<(bool, Vec<u8>)>;

/// Runs the program, and returns what it printed.
#[track_caller]
fn rehearse(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A server with the captured database and copies of it.
struct Room {
    directory: TempDir,
    endpoint: Endpoint,
    _server: Sandbox,
}

impl Room {
    fn new(major: u16) -> Room {
        let builder = server().major(major).password(raw::PASSWORD);
        let mut server = builder.settings(&[("fsync", "off")]).create();
        // The raw client knows this way only.
        let hba = "local all all trust\nhost all all 127.0.0.1/32 password\n";
        std::fs::write(server.data_dir().join("pg_hba.conf"), hba).unwrap();
        let endpoint = server.start().unwrap();
        let room = Room {
            directory: tempfile::tempdir().unwrap(),
            endpoint,
            _server: server,
        };
        room.create("captured");
        room
    }

    /// Creates a database with the schema. Its types have other OIDs than those of the others.
    fn create(&self, database: &str) {
        self.client("postgres")
            .batch_execute(&format!("CREATE DATABASE {database}"))
            .unwrap();
        self.client(database)
            .batch_execute(scripts::SCHEMA)
            .unwrap();
    }

    fn client(&self, database: &str) -> Client {
        Client::connect(&self.endpoint.url(database), NoTls).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn tables(&self, database: &str) -> Vec<Vec<String>> {
        let mut client = self.client(database);
        let all = scripts::TABLES.iter();
        all.map(|sql| {
            let rows = client.query(*sql, &[]).unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        })
        .collect()
    }

    /// Replays a workload onto a new copy, and returns it.
    fn replay(&self, workload: &Path, database: &str) -> RunReader {
        self.create(database);
        let run = self.path(&format!("{database}.run"));
        rehearse(&[
            "replay",
            workload.to_str().unwrap(),
            "--target",
            &self.endpoint.url("postgres"),
            "--map-database",
            &format!("captured={database}"),
            "--allow-captured-server",
            &format!("127.0.0.1:{}", self.endpoint.port),
            "--speed",
            "max",
            "--checksum-results",
            "rows",
            "-o",
            run.to_str().unwrap(),
        ]);
        RunReader::open(&run).unwrap()
    }
}

/// Checks that each statement had the captured outcome, or was skipped by the server as captured.
#[track_caller]
fn assert_same_outcomes(run: &RunReader) -> usize {
    let mut wrong = Vec::new();
    let mut count = 0;
    for execution in run.executions().unwrap() {
        let execution = execution.unwrap();
        if !execution.is_statement() {
            continue;
        }
        count += 1;
        let captured = execution.captured.sqlstate;
        let is_same = match execution.outcome {
            Outcome::Done => captured.is_none(),
            Outcome::Failed(sqlstate) => captured == Some(sqlstate),
            Outcome::Skipped(reason) => reason == run::SkipReason::PipelineAborted,
        };
        if !is_same {
            wrong.push(format!("{execution:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    count
}

/// Returns a session's events without what differs between two sources of the same bytes.
fn events(path: &Path) -> BTreeMap<u64, Vec<Event>> {
    let reader = WorkloadReader::open(path).unwrap();
    let mut sessions: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    for item in reader.events().unwrap() {
        let (mut event, _) = item.unwrap();
        (event.due_us, event.line) = (0, 0);
        event.outcome.duration_us = None;
        sessions.entry(event.session).or_default().push(event);
    }
    sessions
}

/// Writes the sessions' bytes as packets, and captures them.
fn capture_packets(room: &Room, sessions: &[Turns]) -> PathBuf {
    let server: SocketAddr = "10.0.0.2:5432".parse().unwrap();
    let mut packets = Vec::new();
    for (number, turns) in sessions.iter().enumerate() {
        let client = SocketAddr::from(([10, 0, 0, 1], 40_000 + number as u16));
        let turns: Vec<made::Turn<'_>> =
            turns.iter().map(|(by, bytes)| (*by, &bytes[..])).collect();
        packets.extend(made::talk(client, server, [7, 9], &turns, 1_400));
    }
    let records = made::records(&packets, 1_700_000_000_000_000);
    let (file, workload) = (room.path("made.pcap"), room.path("packets.workload"));
    std::fs::write(&file, made::file(made::CONTAINERS[0], 1, &records)).unwrap();
    let (from, to) = (file.to_str().unwrap(), workload.to_str().unwrap());
    rehearse(&[
        "capture",
        "pcap",
        from,
        "--checksum-results",
        "rows",
        "-o",
        to,
    ]);
    workload
}

fn outcomes_are_replayed(major: u16) {
    let room = Room::new(major);
    let workload = room.path("proxied.workload");
    let program = env!("CARGO_BIN_EXE_rehearse");
    let options = ["--checksum-results", "rows"];
    let attached = room.path("attached.workload");
    let mut command = Command::new(program);
    command.args(["capture", "attach"]).args(options);
    let port = room.endpoint.port.to_string();
    command.args(["--port", &port, "-o"]).arg(&attached);
    let attach = CaptureAttach::start(&mut command);
    let proxy = CaptureProxy::start(program, &room.endpoint, &workload, &options);
    let mut sessions: Vec<Turns> = Vec::new();
    for (name, script) in scripts::ALL {
        let mut raw = Raw::connect(proxy.endpoint.port, "captured", name);
        script(&mut raw);
        sessions.push(raw.end());
    }
    proxy.interrupt();
    let attached = attach.map(|attach| {
        let (code, account) = attach.interrupt();
        assert_eq!(code, Some(0), "{account}");
        attached
    });
    let captured = room.tables("captured");
    let run = room.replay(&workload, "copy");
    assert!(assert_same_outcomes(&run) > 100);
    assert_eq!(room.tables("copy"), captured);
    let packets = capture_packets(&room, &sessions);
    assert_eq!(events(&packets), events(&workload));
    let run = room.replay(&packets, "another");
    assert_same_outcomes(&run);
    assert_eq!(room.tables("another"), captured);
    if let Some(attached) = attached {
        assert_eq!(events(&attached), events(&workload));
        let run = room.replay(&attached, "third");
        assert_same_outcomes(&run);
        assert_eq!(room.tables("third"), captured);
    }
}

#[test]
fn version_13_replays_outcomes_of_the_wire() {
    if !test_support::skip_in_fast_tier() {
        outcomes_are_replayed(13);
    }
}

#[test]
fn version_15_replays_outcomes_of_the_wire() {
    if !test_support::skip_in_fast_tier() {
        outcomes_are_replayed(15);
    }
}

#[test]
fn version_17_replays_outcomes_of_the_wire() {
    if !test_support::skip_in_fast_tier() {
        outcomes_are_replayed(17);
    }
}

#[test]
fn version_18_replays_outcomes_of_the_wire() {
    outcomes_are_replayed(18);
}
