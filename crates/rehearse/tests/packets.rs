//! The same traffic from tcpdump's file, from the interface itself and from the server's log: the
//! same statements, in the same order within each session.
//!
//! Capturing packets needs rights that not everybody who runs tests has. Where REHEARSE_TEST_PACKETS
//! is set, as in CI, having none is a failure; elsewhere what needs them is left out, and said.

#[path = "../../capture/tests/packets/mod.rs"]
#[allow(dead_code)]
mod made;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use sandbox::{Endpoint, Options, Places, Sandbox, Wanted};
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
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/tests/recorded");
    folder.join(name).to_str().unwrap().to_owned()
}

/// Statements of each session, the sessions in the order of their first. What was only prepared is
/// left out: a log tells that with the first execution.
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
    let checked = json(&["capture", "pcap", &lo, "--check", "--json"]);
    assert_eq!(checked["schema"], "rehearse/capture-pcap/1");
    assert_eq!(checked["statements"], 18);
    assert_eq!(checked["payload_bytes"], checked["delivered_bytes"]);
    assert_eq!(checked["workload"], "");
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
    assert_eq!(sliced["slice"]["events"], checked["events"]);
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
        &["capture", "live", "--interface", "nosuch0", "-o", output],
        3,
        &["nosuch0", "ip link"],
    );
    assert!(!Path::new(output).exists());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    // A file that was cut is read, and the exit code says that something was found.
    let bytes = std::fs::read(&lo).unwrap();
    let cut = directory.path().join("cut.pcap");
    std::fs::write(&cut, &bytes[..bytes.len() - 7]).unwrap();
    let cut = cut.to_str().unwrap();
    let said = done(&["capture", "pcap", cut, "--check", "--port", "24839"], 1);
    assert!(
        said.contains("ends within a packet, behind packet 91"),
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
        "; 2 connections are encrypted with TLS",
        "nothing in it could be read: 1 connection does not speak PostgreSQL's protocol",
    ];
    refused(&["capture", "pcap", &all, "-o", &output], 3, &reasons);
    refused(&["capture", "pcap", &all, "--check", "--json"], 3, &reasons);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
    let said = done(&["capture", "pcap", &some, "-o", &output], 0);
    assert!(said.contains("1 statement of 1 session"), "{said}");
    assert!(
        said.contains("1 connection is encrypted with TLS"),
        "{said}"
    );
}

/// A program that is ended with the test.
struct Running(Child);

impl Running {
    fn interrupt(mut self) -> i32 {
        let pid = self.0.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(sent.success());
        self.0.wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A server that logs every statement, and its log.
fn server() -> (Sandbox, Endpoint, PathBuf) {
    let places = Places::from_environment().unwrap();
    let found = sandbox::find(&Wanted::major(15), &places, &mut |_| ()).unwrap();
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
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let options = Options {
        settings: settings.into(),
        ..Options::default()
    };
    let mut sandbox = Sandbox::create(&found, options, &places).unwrap();
    let endpoint = sandbox.start().unwrap();
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
    // Its own user could not write where we may.
    let dumping = Command::new("tcpdump")
        .args([
            "-i", "lo", "-s", "0", "-U", "-Z", "root", "-w", &pcap, "tcp", "port", &port,
        ])
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
        return;
    };
    let said = std::fs::File::create(path("live.said")).unwrap();
    let arguments = [
        "capture",
        "live",
        "--interface",
        "lo",
        "--port",
        &port,
        "-o",
        &live,
    ];
    let listening = Running(
        program(&arguments)
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .unwrap(),
    );
    until("it listens", || {
        std::fs::read_to_string(path("live.said"))
            .unwrap()
            .contains("listening")
    });
    drive(&endpoint);
    // Both are given packets by the second or sooner.
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(dumping.interrupt(), 0);
    assert_eq!(listening.interrupt(), 0);

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
