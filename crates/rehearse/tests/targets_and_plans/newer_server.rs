//! Servers of a version that this program has never seen: a real server through a filter that changes its version, its
//! settings, wait events and plans, and sends messages that no version has.

use std::io::{Read, Write};
use std::net::TcpStream;

use protocol::backend::tag;
use protocol::frontend::startup;
use protocol::next_frame;
use sandbox::{Endpoint, Sandbox};
use serde_json::Value;
use test_support::CaptureProxy;

use super::observed::json;
use super::server_filter::{self, UNKNOWN_MESSAGE};
use super::{compared, rehearse, replay, run, succeeds};

/// Starts the newest server that is known here, which looks like version 20.
fn newer_server() -> (Sandbox, Endpoint, Endpoint) {
    let libraries = [("shared_preload_libraries", "pg_stat_statements")];
    let builder = test_support::server().major(18).settings(&libraries);
    let (sandbox, real) = builder.start();
    run(
        &real,
        "CREATE EXTENSION pg_stat_statements;
         CREATE TABLE t AS SELECT n FROM generate_series(1, 30000) n; ANALYZE t",
    );
    let show = |name: &str| -> String {
        let mut client = test_support::connect(&real);
        client
            .query_one(&format!("SHOW {name}"), &[])
            .unwrap()
            .get(0)
    };
    let version = show("server_version");
    let number = show("server_version_num");
    let newer = server_filter::start(
        &real,
        &[
            (&version, "20beta1 (Future 20~beta1-1)"),
            (&number, "200000"),
            ("Timeout", "Rest"),
            ("PgSleep", "NapAhead"),
            ("\"Seq Scan\"", "\"Tidal Scan\""),
            ("geqo_threshold", "geqo_limit"),
        ],
    );
    (sandbox, real, newer)
}

#[test]
fn replay_on_an_unknown_version_keeps_wait_events_plan_steps_and_settings_that_are_new() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let (_sandbox, real, newer) = newer_server();
    let log = directory.join("a.log").display().to_string();
    let lines = "2026-03-01 09:00:00.000 UTC [7] LOG:  connection authorized: user=postgres database=postgres\n\
         2026-03-01 09:00:00.100 UTC [7] LOG:  statement: SELECT count(*) FROM t\n\
         2026-03-01 09:00:00.150 UTC [7] LOG:  quantum state collapsed: 7 qubits\n\
         2026-03-01 09:00:00.200 UTC [7] LOG:  statement: SELECT pg_sleep(0.7)\n";
    std::fs::write(&log, lines).unwrap();
    let workload = directory.join("a.workload").display().to_string();
    succeeds(&[
        "capture", "log", &log, "--prefix", "%m [%p] ", "-o", &workload,
    ]);

    let before = replay(directory, &real, "before.run", &["--explain"]);
    let options = ["--explain", "--observe", "--sample-rate", "50"];
    let after = replay(directory, &newer, "after.run", &options);
    let view = json(&succeeds(&["show", &after, "--json"]));
    let version = view["server_version"].as_str().unwrap();
    assert!(version.starts_with("20beta1"), "{version}");
    let observed = &view["observed"];
    let waits = observed["waits"].to_string();
    assert!(
        waits.contains("Rest") && waits.contains("NapAhead"),
        "{observed:#}"
    );
    for probe in observed["probes"].as_array().unwrap() {
        let reason = probe["disabled_reason"].as_str().unwrap_or_default();
        assert!(!reason.contains("column"), "{probe:#}");
    }

    let comparison = compared(&before, &after, &[]);
    let changes = comparison["statements"].to_string();
    assert!(changes.contains("Tidal Scan"), "{comparison:#}");
    let targets = &comparison["targets"];
    assert_eq!(targets["settings_gone"], 1, "{targets:#}");
    assert_eq!(targets["settings_new"], 1, "{targets:#}");

    let diagnosis = rehearse(&["diagnose", &after, "--json"]);
    assert!(
        matches!(diagnosis.status.code(), Some(0 | 1)),
        "{diagnosis:?}"
    );
}

#[test]
fn upgrade_inspect_to_an_unknown_version_checks_what_19_refuses() {
    let (sandbox, old) = test_support::server().major(15).start();
    let hba = sandbox.data_dir().join("pg_hba.conf");
    let mut lines = std::fs::OpenOptions::new().append(true).open(hba).unwrap();
    let line = "host all all 10.0.0.0/8 radius radiusservers=\"10.0.0.1\" radiussecrets=\"x\"";
    writeln!(lines, "{line}").unwrap();
    run(
        &old,
        "CREATE ROLE \"a\nb\"; ALTER ROLE postgres SET standard_conforming_strings = off; SET standard_conforming_strings = on;
         CREATE DATABASE mule ENCODING 'MULE_INTERNAL' LOCALE 'C' TEMPLATE template0;
         CREATE EXTENSION btree_gist; CREATE TABLE hosts (address inet);
         CREATE INDEX by_address ON hosts USING gist (address)",
    );
    let (_newer_sandbox, _real, newer) = newer_server();
    let (from, target) = (old.url("postgres"), newer.url("postgres"));
    let inspect = |method: &str| -> Value {
        let options = [
            "upgrade", "inspect", "--from", &from, "--target", &target, "--method", method,
            "--json",
        ];
        json(&succeeds(&options))
    };
    let names = |view: &Value, check: &str| -> Vec<String> {
        let findings = view["findings"].as_array().unwrap();
        let found = findings.iter().filter(|one| one["check"] == check);
        let objects = found.flat_map(|one| one["objects"].as_array().unwrap().clone());
        let name = |one: Value| one["name"].as_str().unwrap().to_owned();
        objects.map(name).collect()
    };
    let view = inspect("pg_upgrade");
    assert!(
        view["to_version"].as_str().unwrap().starts_with("20beta1"),
        "{view:#}"
    );
    let mut refused = names(&view, "refused_objects");
    assert!(
        refused
            .iter()
            .any(|name| name.starts_with("pg_hba.conf, line ")),
        "{refused:?}"
    );
    refused.retain(|name| !name.starts_with("pg_hba.conf"));
    assert_eq!(refused, ["public.by_address", "U&\"a\\000ab\"", "mule"]);
    let values = names(&view, "refused_values");
    assert!(
        values.contains(&"standard_conforming_strings".to_owned()),
        "{values:?}"
    );

    let refused = names(&inspect("dump"), "refused_objects");
    assert!(
        !refused.contains(&"public.by_address".to_owned()),
        "{refused:?}"
    );
}

#[test]
fn capture_proxy_passes_what_a_later_protocol_sends_and_records_the_statement() {
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let (_sandbox, _real, newer) = newer_server();
    let proxy = CaptureProxy::start(env!("CARGO_BIN_EXE_rehearse"), &newer, &workload, &[]);
    let mut client = TcpStream::connect(("127.0.0.1", proxy.endpoint.port)).unwrap();
    let mut unread = Vec::new();
    let parameters: [(&[u8], &[u8]); 3] = [
        (b"user", b"postgres"),
        (b"database", b"postgres"),
        (b"_pq_.future", b"yes"),
    ];
    // Version 3.9999 and an unknown option, which a server answers with the latest that it knows.
    let mut out = Vec::new();
    startup::encode(3 << 16 | 9_999, parameters, &mut out).unwrap();
    client.write_all(&out).unwrap();
    let start = tags_until_ready(&mut client, &mut unread);
    assert!(
        start.contains(&tag::NEGOTIATE_PROTOCOL_VERSION),
        "{start:?}"
    );
    assert!(start.contains(&UNKNOWN_MESSAGE), "{start:?}");

    let sql = b"SELECT 42\0";
    let length = u32::try_from(sql.len() + 4).unwrap().to_be_bytes();
    client
        .write_all(&[&b"Q"[..], &length, sql].concat())
        .unwrap();
    let answer = tags_until_ready(&mut client, &mut unread);
    assert_eq!(answer, *b"TDCN~Z");
    client.write_all(b"X\0\0\0\x04").unwrap();
    drop(client);
    proxy.interrupt();

    let workload = workload.display().to_string();
    let view = json(&succeeds(&["inspect", &workload, "--json"]));
    let text = view.to_string().to_ascii_lowercase();
    assert!(text.contains("select $1"), "{view:#}");
}

/// Returns the types of the messages up to the one that reports that the server is ready.
fn tags_until_ready(client: &mut TcpStream, unread: &mut Vec<u8>) -> Vec<u8> {
    let mut tags = Vec::new();
    let mut buffer = [0; 4_096];
    loop {
        while let Some(frame) = next_frame(unread, 1 << 20).unwrap() {
            let (tag, taken) = (frame.tag, frame.message_bytes());
            unread.drain(..taken);
            tags.push(tag);
            if tag == tag::READY_FOR_QUERY {
                return tags;
            }
        }
        let read = client.read(&mut buffer).unwrap();
        assert_ne!(read, 0, "it ended after {tags:?}");
        unread.extend_from_slice(&buffer[..read]);
    }
}
