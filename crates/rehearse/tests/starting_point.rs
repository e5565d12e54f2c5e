//! The starting point of a capture: with few rights, without a server, and of a log that is captured later.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use test_support::{CaptureProxy, connect, server};
use workload::WorkloadReader;

fn rehearse(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Captures the log of [`write_log`].
const CAPTURE: [&str; 7] = [
    "capture",
    "log",
    "a.log",
    "--prefix",
    "%m [%p] %c %l %e %q%r ",
    "-o",
    "a.workload",
];

/// Writes a log of one statement.
fn write_log(directory: &Path, statement: &str) {
    let line = format!(
        "2026-03-01 09:30:05.250 UTC [100] a.64 1 00000 ::1(5000) LOG:  duration: 0.5 ms  statement: {statement}\n"
    );
    std::fs::write(directory.join("a.log"), line).unwrap();
}

#[test]
fn capture_log_takes_a_starting_point_that_a_role_without_rights_noted() {
    let (_server, endpoint) = server().password("point").start();
    let mut admin = connect(&endpoint);
    let setup = "CREATE ROLE plain LOGIN PASSWORD 'plain'; CREATE SEQUENCE hidden; CREATE SEQUENCE seen START 41;
        GRANT SELECT ON seen TO plain; SELECT nextval('seen'); CREATE TABLE small AS SELECT 1; GRANT SELECT ON small TO plain";
    admin.batch_execute(setup).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let url = format!(
        "postgres://plain:plain@127.0.0.1:{}/postgres",
        endpoint.port
    );
    let noted = [
        "capture",
        "starting-point",
        "--server",
        &url,
        "-o",
        "start.json",
    ];
    let output = rehearse(directory.path(), &noted);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    // Without the right to create a restore point, recovery ends before the record at the position.
    assert!(
        text.contains("not noted: restore point: permission denied"),
        "{text}"
    );
    assert!(text.contains("recovery_target_inclusive = off"), "{text}");
    assert!(
        text.contains("not noted: 1 sequences of database postgres"),
        "{text}"
    );
    assert!(!text.contains("plain:plain"), "{text}");
    let file = std::fs::read(directory.path().join("start.json")).unwrap();
    let point: Value = serde_json::from_slice(&file).unwrap();
    assert!(point["lsn"].as_str().unwrap().contains('/'), "{point}");
    assert_eq!(point["timeline"], 1);
    let sequences = &point["databases"][0]["sequences"];
    assert_eq!(sequences[0]["last_value"], 41, "{sequences}");
    assert_eq!(point["databases"][0]["small_tables"][0]["rows"], 1);

    write_log(directory.path(), "SELECT 1");
    let output = rehearse(
        directory.path(),
        &[&CAPTURE[..], &["--starting-point", "start.json"]].concat(),
    );
    assert!(output.status.success(), "{}", said(&output));
    let reader = WorkloadReader::open(&directory.path().join("a.workload")).unwrap();
    let stored = reader.info().provenance.starting_point.clone().unwrap();
    assert_eq!(serde_json::to_value(&stored).unwrap(), point);
    let shown = rehearse(directory.path(), &["inspect", "a.workload", "--sequences"]);
    let sql = String::from_utf8(shown.stdout).unwrap();
    assert!(
        sql.contains("setval('\"public\".\"seen\"', 41, true)"),
        "{sql}"
    );
    // A slice keeps it.
    let sliced = rehearse(
        directory.path(),
        &[
            "slice",
            "a.workload",
            "--from",
            "2026-03-01T09:30:05Z",
            "-o",
            "b.workload",
        ],
    );
    assert!(sliced.status.success(), "{}", said(&sliced));
    let slice = WorkloadReader::open(&directory.path().join("b.workload")).unwrap();
    assert_eq!(slice.info().provenance.starting_point, Some(stored));
}

#[test]
fn capture_proxy_continues_if_no_starting_point_can_be_noted() {
    let (_server, endpoint) = server().password("point").start();
    let directory = tempfile::tempdir().unwrap();
    let workload = directory.path().join("a.workload");
    let unreachable = "postgres://postgres@127.0.0.1:1/postgres";
    let options = ["--starting-point", unreachable];
    let program = env!("CARGO_BIN_EXE_rehearse");
    let proxy = CaptureProxy::start(program, &endpoint, &workload, &options);
    connect(&proxy.endpoint).batch_execute("SELECT 1").unwrap();
    proxy.interrupt();
    let reader = WorkloadReader::open(&workload).unwrap();
    assert_eq!(reader.info().statements, 1);
    assert_eq!(reader.info().provenance.starting_point, None);
    let output = rehearse(
        directory.path(),
        &["inspect", "a.workload", "--copy-commands"],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("--starting-point URL"),
        "{}",
        said(&output)
    );
}

#[test]
fn starting_point_of_a_file_that_is_none_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("a.json"), "[]").unwrap();
    std::fs::write(directory.path().join("a.log"), "").unwrap();
    for file in ["a.json", "none.json"] {
        let arguments = [
            "capture",
            "log",
            "a.log",
            "-o",
            "a.workload",
            "--starting-point",
            file,
        ];
        let output = rehearse(directory.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(
            said(&output).contains("cannot read the starting point"),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn replay_runs_the_restore_command_first_and_sends_nothing_if_it_fails() {
    let (_server, endpoint) = server().password("point").start();
    let directory = tempfile::tempdir().unwrap();
    write_log(directory.path(), "CREATE TABLE made ()");
    assert!(rehearse(directory.path(), &CAPTURE).status.success());
    let target = endpoint.url("postgres");
    let replay = |command: &str, run: &str| {
        let arguments = ["replay", "a.workload", "--target", &target, "-o", run];
        rehearse(
            directory.path(),
            &[&arguments[..], &["--restore-command", command]].concat(),
        )
    };
    let refused = replay("echo it is not there >&2; exit 7", "a.run");
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    assert!(
        said(&refused).contains("it is not there"),
        "{}",
        said(&refused)
    );
    let mut client = connect(&endpoint);
    let made = "SELECT count(*) FROM pg_class WHERE relname = 'made'";
    assert_eq!(client.query_one(made, &[]).unwrap().get::<_, i64>(0), 0);
    let replayed = replay("echo \"$PGPORT\" > restored", "b.run");
    assert!(replayed.status.success(), "{}", said(&replayed));
    let port = std::fs::read_to_string(directory.path().join("restored")).unwrap();
    assert_eq!(port.trim(), endpoint.port.to_string());
    assert_eq!(client.query_one(made, &[]).unwrap().get::<_, i64>(0), 1);
}
