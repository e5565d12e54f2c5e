//! Captures the same traffic from a tcpdump file, from a running tcpdump, and from the server's
//! log: the same statements, in the same order within each session.
//!
//! Capturing packets needs privileges. If REHEARSE_TEST_PACKETS is set, as in CI, missing
//! privileges are a failure; otherwise the test is skipped.

mod attaching;
#[path = "../../capture/wire/tests/packets/mod.rs"]
#[allow(dead_code)]
mod made;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use sandbox::{Endpoint, Sandbox};
use serde_json::Value;
use workload::{EventKind, WorkloadReader};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command.args(arguments).env("COLUMNS", "200");
    command
}

fn rehearse(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn done(arguments: &[&str], code: i32) -> String {
    let output = rehearse(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    text(&output.stdout)
}

#[track_caller]
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let output = rehearse(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    for word in words {
        assert!(said.contains(word), "{said}");
    }
}

fn recorded(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/wire/tests/recorded");
    folder.join(name).to_str().unwrap().to_owned()
}

/// Returns the statements of each session, in the order of the sessions' first statements.
/// Statements that were only prepared are excluded, since a log shows them with their first
/// execution.
fn sessions(workload: &str) -> Vec<Vec<String>> {
    let reader = WorkloadReader::open(Path::new(workload)).unwrap();
    let mut sessions: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for event in reader.events().unwrap() {
        let (event, _) = event.unwrap();
        if event.kind.is_statement() && !matches!(event.kind, EventKind::Prepare { .. }) {
            let sql = event.kind.sql().map_or("", |sql| sql).trim();
            sessions
                .entry(event.session)
                .or_default()
                .push(sql.to_owned());
        }
    }
    let mut sessions: Vec<_> = sessions.into_values().collect();
    sessions.sort();
    sessions
}

#[test]
fn a_recorded_file_becomes_a_workload() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (any, lo) = (
        recorded("psql-and-pgbench-any.pcap"),
        recorded("psql-and-pgbench-lo.pcap"),
    );
    let workload = path("any.workload");
    let port = ["--port", "24839"];
    let mut arguments = vec!["capture", "pcap", &any, "-o", &workload];
    arguments.extend(port);
    let said = done(&arguments, 0);
    assert!(said.contains("18 statements of 4 sessions"), "{said}");
    assert!(said.contains("4 connections that said something"), "{said}");
    let manifest = std::fs::read(directory.path().join("any.workload/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    let provenance = &manifest["body"]["provenance"];
    assert_eq!(provenance["source_kind"], "pcap", "{manifest}");
    assert_eq!(provenance["sources"][0]["format"], "pcap");
    assert_eq!(provenance["options"]["port"], "24839");
    let size = std::fs::metadata(&any).unwrap().len();
    assert_eq!(provenance["sources"][0]["bytes"], size);
    assert_eq!(provenance["reconciliation"]["packets"], 92);

    let json = |arguments: &[&str]| -> Value {
        serde_json::from_str(&done(&[arguments, &port].concat(), 0)).unwrap()
    };
    let checked = json(&["capture", "pcap", &lo, "--dry-run", "--json"]);
    assert_eq!(checked["schema"], "rehearse/capture-pcap/1");
    assert_eq!(checked["statements"], 18);
    assert_eq!(checked["payload_bytes"], checked["delivered_bytes"]);
    assert!(checked["workload"].is_null());
    // A part of it, and what it says of the whole.
    let part = path("part.workload");
    let arguments = [
        "capture",
        "pcap",
        &lo,
        "-o",
        &part,
        "--json",
        "--application",
        "pgbench",
    ];
    let sliced = json(&arguments);
    assert_eq!(sliced["statements"], 8);
    assert_eq!(sliced["slice"]["events"], checked["conversation"]["events"]);
    assert!(
        sessions(&part)
            .iter()
            .flatten()
            .all(|sql| sql.contains("as more"))
    );
}

#[test]
fn what_cannot_be_captured_is_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("x.workload");
    let output = output.to_str().unwrap();
    let lo = recorded("psql-and-pgbench-lo.pcap");
    let arguments = ["capture", "pcap", &lo, "-o", output];
    refused(&arguments, 2, &["TCP port 5432", "give --port 24839"]);
    let cargo = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    refused(
        &["capture", "pcap", cargo, "-o", output],
        3,
        &["no packet file"],
    );
    refused(
        &["capture", "pcap", "/nowhere", "-o", output],
        2,
        &["/nowhere"],
    );
    refused(
        &["capture", "pcap", "-", "-", "-o", output],
        2,
        &["given twice"],
    );
    assert!(!Path::new(output).exists());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    // A file that was cut is read, and the exit code says that something was found.
    let bytes = std::fs::read(&lo).unwrap();
    let cut = directory.path().join("cut.pcap");
    std::fs::write(&cut, &bytes[..bytes.len() - 7]).unwrap();
    let cut = cut.to_str().unwrap();
    let said = done(&["capture", "pcap", cut, "--dry-run", "--port", "24839"], 1);
    assert!(
        said.contains("ends within a packet, after packet 91"),
        "{said}"
    );
}

#[test]
fn where_nothing_can_be_read_nothing_is_captured() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let server = "10.0.0.2:5432".parse().unwrap();
    let talk = |port: u16, turns: &[made::Turn<'_>]| {
        let client = std::net::SocketAddr::from(([10, 0, 0, 1], port));
        made::talk(client, server, [7, 9], turns, 1_400)
    };
    let ask_for_tls = [0, 0, 0, 8, 4, 0xd2, 0x16, 0x2f];
    let handshake = [0x16, 3, 1, 0, 1, 1];
    let tls = [
        (true, &ask_for_tls[..]),
        (false, &b"S"[..]),
        (true, &handshake[..]),
    ];
    let http = [(true, &b"GET / HTTP/1.1\r\n\r\n"[..])];
    let plain = [
        (true, &b"\0\0\0\x11\0\x03\0\0user\0me\0\0"[..]),
        (false, &b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"[..]),
        (true, &b"Q\0\0\0\x0dSELECT 1\0"[..]),
        (false, &b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I"[..]),
    ];
    let write = |name: &str, packets: Vec<made::Tcp>| {
        let records = made::records(&packets, 1_700_000_000_000_000);
        std::fs::write(path(name), made::file(made::CONTAINERS[0], 1, &records)).unwrap();
        path(name)
    };
    let all = write(
        "all.pcap",
        [talk(1, &tls), talk(2, &tls), talk(3, &http)].concat(),
    );
    let some = write("some.pcap", [talk(1, &tls), talk(2, &plain)].concat());
    let output = path("x.workload");
    let reasons = [
        "nothing in it could be read: 2 connections are encrypted with TLS",
        "; 1 connection does not speak PostgreSQL's protocol",
    ];
    refused(&["capture", "pcap", &all, "-o", &output], 3, &reasons);
    refused(
        &["capture", "pcap", &all, "--dry-run", "--json"],
        3,
        &reasons,
    );
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    let said = done(&["capture", "pcap", &some, "-o", &output], 0);
    assert!(said.contains("1 statement of 1 session"), "{said}");
    assert!(
        said.contains("1 connection is encrypted with TLS"),
        "{said}"
    );
}

/// Process that is killed with the test.
struct Running(Child);

impl Running {
    fn signal(&self, signal: &str) {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    fn end(mut self) -> i32 {
        self.0.wait().unwrap().code().unwrap_or(-1)
    }

    fn interrupt(self) -> i32 {
        self.signal("-INT");
        self.end()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `rehearse capture pcap -` and waits until it reads.
fn start_stream(arguments: &[&str]) -> (Running, ChildStdin) {
    let mut child = program(&["capture", "pcap", "-", "--port", "24839"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = said.next().unwrap().unwrap();
    assert!(line.contains("reading standard input"), "{line}");
    // What it prints later must have somewhere to go.
    std::thread::spawn(move || said.for_each(drop));
    (Running(child), input)
}

/// Waits for the end of a capture, and returns its report and exit code.
fn account(mut running: Running) -> (Value, i32) {
    let mut said = String::new();
    let stdout = running.0.stdout.as_mut().unwrap();
    stdout.read_to_string(&mut said).unwrap();
    (serde_json::from_str(&said).unwrap(), running.end())
}

#[test]
fn capture_pcap_stream_that_ends_gives_the_same_workload_as_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let file = recorded("psql-and-pgbench-lo.pcap");
    let bytes = std::fs::read(&file).unwrap();
    let from_file = path("file.workload");
    let arguments = [
        "capture", "pcap", &file, "--port", "24839", "-o", &from_file, "--json",
    ];
    let of_file: Value = serde_json::from_str(&done(&arguments, 0)).unwrap();

    let from_stream = path("stream.workload");
    let (running, mut input) = start_stream(&["-o", &from_stream, "--json"]);
    // Neither the header nor a packet comes as a whole.
    for piece in bytes.chunks(1_009).flat_map(|piece| {
        piece
            .chunks(10)
            .take(2)
            .chain([&piece[piece.len().min(20)..]])
    }) {
        input.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(input);
    let (of_stream, code) = account(running);
    assert_eq!(code, 0, "{of_stream}");
    for field in [
        "packets",
        "delivered_bytes",
        "statements",
        "events",
        "open_at_the_end",
    ] {
        assert_eq!(of_stream[field], of_file[field], "{field}");
    }
    assert_eq!(of_stream["sources"][0]["name"], "-");
    assert_eq!(sessions(&from_stream), sessions(&from_file));
}

#[test]
fn capture_pcap_stream_that_is_interrupted_keeps_every_packet() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("x.workload");
    let output = output.to_str().unwrap();
    let bytes = std::fs::read(recorded("psql-and-pgbench-lo.pcap")).unwrap();
    for (left_out, packets) in [(0, 92), (7, 91)] {
        let (running, mut input) = start_stream(&["-o", output, "--json"]);
        input.write_all(&bytes[..bytes.len() - left_out]).unwrap();
        running.signal("-INT");
        // The writer stays: the capture ends without it, and a packet that it has not finished is no damage.
        let (account, code) = account(running);
        assert_eq!(code, 0, "{account}");
        assert_eq!(account["packets"], packets);
        assert_eq!(account["sources"][0]["damage"], Value::Null);
        assert_eq!(account["statements"], 18);
        // Two of them are only prepared.
        assert_eq!(sessions(output).concat().len(), 16);
        std::fs::remove_dir_all(output).unwrap();
        drop(input);
    }
}

#[test]
fn capture_pcap_stream_that_is_interrupted_ends_although_its_writer_goes_on() {
    let bytes = std::fs::read(recorded("psql-and-pgbench-lo.pcap")).unwrap();
    let (running, mut input) = start_stream(&["--dry-run", "--json"]);
    input.write_all(&bytes).unwrap();
    running.signal("-INT");
    let writer = std::thread::spawn(move || {
        // The packets again, without the file's header, until nobody reads them.
        while input.write_all(&bytes[24..]).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let (account, code) = account(running);
    assert_eq!(code, 0, "{account}");
    assert!(account["packets"].as_u64() > Some(92), "{account}");
    writer.join().unwrap();
}

#[test]
fn capture_pcap_stream_that_is_killed_can_be_recovered() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let question = (true, &b"Q\0\0\0\x0dSELECT 1\0"[..]);
    let answer = (false, &b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I"[..]);
    let mut turns = vec![
        (true, &b"\0\0\0\x11\0\x03\0\0user\0me\0\0"[..]),
        (false, &b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"[..]),
    ];
    turns.extend([question, answer].repeat(20));
    let (client, server) = ("10.0.0.1:40001", "10.0.0.2:24839");
    let packets = made::talk(
        client.parse().unwrap(),
        server.parse().unwrap(),
        [7, 9],
        &turns,
        1_400,
    );
    let mut records = made::records(&packets, 1_700_000_000_000_000);
    for (at, record) in records.iter_mut().enumerate() {
        record.at_us += 500_000 * at as i64;
    }
    let bytes = made::file(made::CONTAINERS[0], 1, &records);
    let (running, mut input) = start_stream(&["-o", &path("x.workload")]);
    // A checkpoint is due with the first packet that comes a second after the last one.
    for piece in bytes.chunks(bytes.len() / 3) {
        input.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(1_500));
    }
    running.signal("-KILL");
    running.end();
    done(&["recover", &path("x.workload.partial")], 0);
    let recovered = sessions(&path("x.workload")).concat().len();
    assert!((5..=20).contains(&recovered), "{recovered}");
}

/// Server that logs every statement, and its log.
fn server() -> (Sandbox, Endpoint, PathBuf) {
    let settings = [
        ("logging_collector", "on"),
        ("log_destination", "stderr"),
        ("log_line_prefix", "%m [%p] %c %e %q%u@%d/%a "),
        ("log_min_duration_statement", "0"),
        ("log_connections", "on"),
        ("log_disconnections", "on"),
        ("log_directory", "log"),
        ("log_filename", "postgresql.log"),
    ];
    let (sandbox, endpoint) = test_support::server()
        .major(15)
        .tcp()
        .settings(&settings)
        .start();
    let log = sandbox.data_dir().join("log/postgresql.log");
    (sandbox, endpoint, log)
}

fn drive(endpoint: &Endpoint) {
    let sessions: Vec<_> = (0..3)
        .map(|session| {
            let url = endpoint.url("postgres");
            std::thread::spawn(move || {
                let mut client = Client::connect(&url, NoTls).unwrap();
                let table = format!("t{session}");
                client
                    .simple_query(&format!("CREATE TABLE {table} (id int, name text)"))
                    .unwrap();
                let insert = client
                    .prepare(&format!("INSERT INTO {table} VALUES ($1, $2)"))
                    .unwrap();
                for id in 0..20 {
                    let name = "n".repeat(1 + 977 * id as usize);
                    client.execute(&insert, &[&id, &name]).unwrap();
                }
                let mut transaction = client.transaction().unwrap();
                let select = format!("SELECT * FROM {table} WHERE id >= $1 ORDER BY id");
                let rows = transaction.query(&select, &[&4]).unwrap();
                assert_eq!(rows.len(), 16);
                assert!(transaction.simple_query("SELECT 1/0").is_err());
                transaction.rollback().unwrap();
                client.close().unwrap();
            })
        })
        .collect();
    for session in sessions {
        session.join().unwrap();
    }
}

#[test]
fn packets_and_log_tell_the_same() {
    let needed = std::env::var_os("REHEARSE_TEST_PACKETS").is_some();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (sandbox, endpoint, log) = server();
    let port = endpoint.port.to_string();
    let (pcap, live) = (path("lo.pcap"), path("live.workload"));
    let filter = ["tcp", "port", &port];
    // Its own user could not write where we may.
    let dumping = Command::new("tcpdump")
        .args(["-i", "lo", "-s", "0", "-U", "-Z", "root", "-w", &pcap])
        .args(filter)
        .stderr(Stdio::null())
        .spawn();
    let begun = Instant::now();
    let written = |name: &str| std::fs::metadata(name).map_or(0, |file| file.len());
    let dumping = dumping.map(Running).ok().and_then(|mut running| {
        while running.0.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(60) {
            // It listens before it writes the file's header.
            if written(&pcap) >= 24 {
                return Some(running);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    });
    let Some(dumping) = dumping else {
        assert!(!needed, "tcpdump is missing, or may not listen to lo");
        test_support::report_skipped("tcpdump is missing, or may not listen to lo");
        return;
    };
    let mut streaming = Command::new("tcpdump")
        .args(["-i", "lo", "-s", "0", "-U", "-w", "-"])
        .args(filter)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stream = streaming.stdout.take().unwrap();
    let mut said = BufReader::new(streaming.stderr.take().unwrap()).lines();
    let streaming = Running(streaming);
    let reading = Running(
        program(&["capture", "pcap", "-", "--port", &port, "-o", &live])
            .stdin(stream)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let listens = said.any(|line| line.unwrap().contains("listening on lo"));
    assert!(listens, "tcpdump may not listen to lo");
    drive(&endpoint);
    // The kernel hands packets on within a second.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(dumping.interrupt(), 0);
    // As Ctrl-C in a terminal: both get it.
    reading.signal("-INT");
    assert_eq!(streaming.interrupt(), 0);
    assert_eq!(reading.end(), 0);

    let (from_packets, from_log) = (path("packets.workload"), path("log.workload"));
    let arguments = [
        "capture",
        "pcap",
        &pcap,
        "--port",
        &port,
        "-o",
        &from_packets,
        "--json",
    ];
    let account: Value = serde_json::from_str(&done(&arguments, 0)).unwrap();
    assert_eq!(
        (&account["lost_bytes"], &account["connections"]),
        (&0.into(), &3.into())
    );
    done(
        &["capture", "log", log.to_str().unwrap(), "-o", &from_log],
        0,
    );
    drop(sandbox);
    let packets = sessions(&from_packets);
    assert_eq!(packets.len(), 3);
    assert!(
        packets.iter().all(|session| session.len() >= 25),
        "{packets:?}"
    );
    assert_eq!(packets, sessions(&from_log));
    assert_eq!(packets, sessions(&live));
}
