//! Errors and interruptions: an error prints one sentence, has its exit code and leaves no files; an
//! interrupted replay leaves a readable run that is marked as stopped.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use run::{RunReader, RunStatus};
use test_support::server;

fn rehearse(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command.args(arguments);
    for variable in [
        "PGHOST",
        "PGPORT",
        "PGUSER",
        "PGPASSWORD",
        "PGDATABASE",
        "HOME",
    ] {
        command.env_remove(variable);
    }
    command
}

/// Directory with a log and its workload.
struct Room {
    directory: tempfile::TempDir,
}

impl Room {
    /// Creates a log of ten sessions, each with a statement every 100 ms for `seconds`.
    fn new(seconds: u32) -> Self {
        let room = Room {
            directory: tempfile::tempdir().unwrap(),
        };
        let mut log = String::new();
        for tick in 0..=seconds * 10 {
            for session in 0..10 {
                let pid = 100 + session;
                let time = format!(
                    "2026-03-01 09:{:02}:{:02}.{:03} UTC",
                    tick / 600,
                    tick / 10 % 60,
                    tick % 10 * 100 + session
                );
                if tick == 0 {
                    let who = "connection authorized: user=postgres database=postgres";
                    writeln!(log, "{time} [{pid}] LOG:  {who}").unwrap();
                }
                writeln!(log, "{time} [{pid}] LOG:  statement: SELECT {tick}").unwrap();
            }
        }
        std::fs::write(room.path("a.log"), log).unwrap();
        let capture = room.capture("a.log", "a.workload");
        assert_eq!(capture.status.code(), Some(0), "{capture:?}");
        room
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn capture(&self, log: &str, workload: &str) -> Output {
        rehearse(&[
            "capture",
            "log",
            &self.text(log),
            "-o",
            &self.text(workload),
        ])
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Checks for one sentence with these words, and the exit code.
#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let sentence = said
        .lines()
        .find(|line| line.starts_with("rehearse: ") || line.starts_with("error: "))
        .unwrap_or_else(|| panic!("nothing was said: {output:?}"));
    for word in words {
        assert!(sentence.contains(word), "'{word}' in: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(output.status.code(), Some(code), "{said}");
}

#[test]
fn settings_are_refused_where_they_cannot_be() {
    for (arguments, words) in [
        (
            ["--provider", "rds", "--format", "sql"],
            ["ALTER SYSTEM", "--provider self"],
        ),
        (
            ["--provider", "self", "--format", "command"],
            ["--format sql", "--provider rds"],
        ),
        (
            ["--provider", "self", "--version", "9"],
            ["PostgreSQL 9", "10 or later"],
        ),
        (
            ["--provider", "heroku", "--format", "sql"],
            ["heroku", "--provider"],
        ),
    ] {
        let output = rehearse(&[&["capture", "settings"], &arguments[..]].concat());
        refused(&output, 2, &words);
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

#[test]
fn what_is_no_log_is_refused_and_leaves_nothing() {
    let room = Room::new(1);
    std::fs::write(room.path("empty.log"), "").unwrap();
    std::fs::write(room.path("binary.log"), [0u8, 159, 146, 150, 10, 255]).unwrap();
    std::fs::write(room.path("passwd.log"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    std::fs::write(
        room.path("german.log"),
        "2026-03-01 09:00:00.000 UTC [1] LOG:  Anweisung: SELECT 1\n\
         2026-03-01 09:00:00.001 UTC [1] FEHLER:  Division durch Null\n\
         2026-03-01 09:00:00.002 UTC [1] ANWEISUNG:  SELECT 1/0\n",
    )
    .unwrap();
    let before = room.names();
    refused(
        &room.capture("empty.log", "x.workload"),
        3,
        &["empty.log", "is empty"],
    );
    refused(
        &room.capture("binary.log", "x.workload"),
        3,
        &["binary.log", "binary data"],
    );
    refused(
        &room.capture("passwd.log", "x.workload"),
        3,
        &["passwd.log", "log_line_prefix"],
    );
    refused(
        &room.capture("german.log", "x.workload"),
        3,
        &["german.log", "lc_messages"],
    );
    refused(&room.capture("none.log", "x.workload"), 2, &["none.log"]);
    refused(
        &room.capture("a.log", "a.workload"),
        2,
        &["is there already"],
    );
    refused(&room.capture("a.log", "x.parquet"), 2, &[".workload"]);
    let nowhere = room.capture("a.log", "nowhere/x.workload");
    refused(&nowhere, 2, &["no directory", "nowhere"]);
    let wrong_prefix = rehearse(&[
        "capture",
        "log",
        &room.text("a.log"),
        "--prefix",
        "%t|%u|%p|",
        "-o",
        &room.text("x.workload"),
    ]);
    refused(&wrong_prefix, 2, &["%t|%u|%p|", "look as if"]);
    refused(
        &room.capture("a.workload", "x.workload"),
        2,
        &["a.workload is no log", "rehearse inspect"],
    );
    let log = room.text("a.log");
    let forgotten = rehearse(&["capture", &log]);
    refused(&forgotten, 2, &["unrecognized"]);
    let text = String::from_utf8_lossy(&forgotten.stderr).into_owned();
    assert!(
        text.contains(&format!("rehearse capture log {log}")),
        "{text}"
    );
    assert_eq!(room.names(), before);
}

#[test]
fn log_without_statements_ends_with_the_next_step() {
    let room = Room::new(1);
    std::fs::write(
        room.path("none.log"),
        "2026-03-01 09:00:00.000 UTC [7] LOG:  checkpoint starting: time\n",
    )
    .unwrap();
    let output = room.capture("none.log", "none.workload");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("rehearse capture settings"), "{text}");
    let inspected = rehearse(&["inspect", &room.text("none.log")]);
    assert_eq!(inspected.status.code(), Some(1), "{inspected:?}");
    let text = String::from_utf8(inspected.stderr).unwrap();
    assert!(text.contains("rehearse capture settings"), "{text}");
}

#[test]
fn log_is_inspected_without_a_workload() {
    let room = Room::new(1);
    let before = room.names();
    let of_workload = rehearse(&["inspect", &room.text("a.workload"), "--json"]);
    let of_log = rehearse(&["inspect", &room.text("a.log"), "--json"]);
    assert_eq!(of_log.status.code(), Some(0), "{of_log:?}");
    let statements = |output: &Output| {
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        document["by_statement"].clone()
    };
    assert!(
        statements(&of_log)
            .as_array()
            .is_some_and(|all| !all.is_empty())
    );
    assert_eq!(statements(&of_log), statements(&of_workload));
    assert_eq!(room.names(), before);
}

#[test]
fn what_is_no_workload_is_refused() {
    let room = Room::new(1);
    let replay = |workload: &str| {
        rehearse(&[
            "replay",
            &room.text(workload),
            "--target",
            "postgres://h",
            "-o",
            &room.text("x.run"),
        ])
    };
    refused(&replay("none.workload"), 2, &["does not exist"]);
    refused(&replay("a.log"), 2, &["is a file", "rehearse capture log"]);
    std::fs::create_dir(room.path("foreign.workload")).unwrap();
    refused(&replay("foreign.workload"), 2, &["manifest.json"]);
    let events = room.path("a.workload/events-00000.parquet");
    let whole = std::fs::read(&events).unwrap();
    std::fs::write(&events, &whole[..whole.len() / 2]).unwrap();
    refused(
        &replay("a.workload"),
        3,
        &["events-00000.parquet", "damaged"],
    );
    let mut altered = whole;
    // A value at the beginning: opening reads only the footer at the end.
    altered[64] ^= 0xff;
    std::fs::write(&events, altered).unwrap();
    let inspect = rehearse(&["inspect", &room.text("a.workload"), "--verify"]);
    refused(&inspect, 3, &["checksum"]);
    let compare = rehearse(&[
        "compare",
        &room.text("a.workload"),
        &room.text("a.workload"),
    ]);
    refused(&compare, 2, &["is not a run"]);
}

#[test]
fn a_target_that_cannot_be_used_is_refused_before_anything_is_sent() {
    let room = Room::new(1);
    let (_server, endpoint) = server().password("right").start();
    let replay = |target: &str, more: &[&str]| {
        let (workload, run) = (room.text("a.workload"), room.text("x.run"));
        let mut arguments = vec!["replay", &workload, "--target", target, "-o", &run];
        arguments.extend(more);
        rehearse(&arguments)
    };
    let url = |password: &str, port: u16| {
        format!("postgres://postgres:{password}@127.0.0.1:{port}/postgres")
    };
    let good = url("right", endpoint.port);
    refused(
        &replay(&url("right", 1), &[]),
        3,
        &["127.0.0.1:1", "nothing listens there"],
    );
    let wrong = replay(&url("wrong", endpoint.port), &[]);
    refused(&wrong, 3, &["password authentication failed"]);
    assert!(!String::from_utf8_lossy(&wrong.stderr).contains("wrong"));
    let none = format!("postgres://127.0.0.1:{}", endpoint.port);
    refused(&replay(&none, &[]), 3, &["PGPASSWORD"]);
    refused(
        &replay(&good, &["--as-database", "shop"]),
        3,
        &["\"shop\" does not exist"],
    );
    refused(&replay(&good, &["--as-user", "nobody"]), 3, &["nobody"]);
    refused(&replay("mysql://h", &[]), 2, &["postgres://"]);
    refused(&replay(&good, &["--speed", "fast"]), 2, &["fast"]);
    refused(&replay(&good, &["--map-user", "x"]), 2, &["FROM=TO"]);
    assert_eq!(room.names(), ["a.log", "a.workload"]);
    let done = replay(&good, &["--speed", "max"]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(
        !std::fs::read_to_string(room.path("x.run/manifest.json"))
            .unwrap()
            .contains("right")
    );
}

#[test]
fn a_run_spans_the_capture_divided_by_the_speed() {
    let room = Room::new(3);
    let (_server, endpoint) = server().start();
    let workload = workload::WorkloadReader::open(&room.path("a.workload")).unwrap();
    let captured_ns = workload.info().span_us * 1_000;
    assert_eq!(captured_ns, 3_009_000_000);
    for (speed, factor) in [("0.5", 0.5), ("1", 1.0), ("1.5", 1.5), ("2", 2.0)] {
        let run = room.text("s.run");
        let done = rehearse(&[
            "replay",
            &room.text("a.workload"),
            "--target",
            &endpoint.url("postgres"),
            "-o",
            &run,
            "--speed",
            speed,
        ]);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        let reader = RunReader::open(Path::new(&run)).unwrap();
        let wanted = captured_ns as f64 / factor;
        let due = reader.info().span_due_ns as f64;
        assert!(
            (due / wanted - 1.0).abs() < 0.000_001,
            "{speed}: due over {due}"
        );
        // Sent is due and what this machine is late; nothing is early.
        assert!(reader.info().span_sent_ns as f64 >= due);
        std::fs::remove_dir_all(&run).unwrap();
    }
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn signal(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args([signal, &pid])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn a_stop_leaves_a_run_that_says_so_and_a_kill_one_that_can_be_recovered() {
    let room = Room::new(60);
    let (_server, endpoint) = server().start();
    let start = |run: &str| {
        let child = program(&[
            "replay",
            &room.text("a.workload"),
            "--target",
            &endpoint.url("postgres"),
            "-o",
            &room.text(run),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
        let partial = room.path(&format!("{run}.partial"));
        wait_for("the replay's beginning", || partial.is_dir());
        std::thread::sleep(Duration::from_secs(2));
        child
    };
    let mut stopped = start("stopped.run");
    signal(&stopped, "-INT");
    assert_eq!(stopped.wait().unwrap().code(), Some(1));
    let info = RunReader::open(&room.path("stopped.run"))
        .unwrap()
        .info()
        .clone();
    assert_eq!(info.status, RunStatus::Stopped);
    assert!(info.done > 0 && info.skipped["stopped"] > 0);
    assert_eq!(info.statements, info.workload.statements);
    assert_eq!(info.done + info.skipped["stopped"], info.statements);

    let mut killed = start("killed.run");
    signal(&killed, "-KILL");
    killed.wait().unwrap();
    let summary = rehearse(&["show", &room.text("killed.run")]);
    refused(&summary, 3, &["killed.run.partial", "rehearse recover"]);
    let again = rehearse(&[
        "replay",
        &room.text("a.workload"),
        "--target",
        &endpoint.url("postgres"),
        "-o",
        &room.text("killed.run"),
    ]);
    refused(&again, 3, &["killed.run.partial", "rehearse recover"]);
    let recovered = rehearse(&["recover", &room.text("killed.run.partial")]);
    assert_eq!(recovered.status.code(), Some(0), "{recovered:?}");
    let info = RunReader::open(&room.path("killed.run"))
        .unwrap()
        .info()
        .clone();
    assert_eq!(info.status, RunStatus::Recovered);
    refused(
        &rehearse(&["recover", &room.text("a.log")]),
        2,
        &["nothing to recover"],
    );
}

#[test]
fn a_regression_is_named_and_ends_in_exit_code_one() {
    let room = Room::new(4);
    let (_server, endpoint) = server().start();
    let replay = |run: &str| {
        let done = rehearse(&[
            "replay",
            &room.text("slow.workload"),
            "--target",
            &endpoint.url("postgres"),
            "-o",
            &room.text(run),
            "--speed",
            "2",
        ]);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
    };
    let log = std::fs::read_to_string(room.path("a.log")).unwrap();
    std::fs::write(
        room.path("slow.log"),
        log.replace("SELECT ", "SELECT price(1) + "),
    )
    .unwrap();
    room.capture("slow.log", "slow.workload");
    let mut client = postgres::Client::connect(&endpoint.url("postgres"), postgres::NoTls).unwrap();
    let price = "CREATE OR REPLACE FUNCTION price(int) RETURNS int LANGUAGE sql AS";
    client
        .batch_execute(&format!("{price} 'SELECT $1'"))
        .unwrap();
    replay("before.run");
    client
        .batch_execute(&format!("{price} 'SELECT $1 FROM pg_sleep(0.02)'"))
        .unwrap();
    replay("after.run");
    let compare = |before: &str, after: &str| {
        rehearse(&[
            "compare",
            &room.text(before),
            &room.text(after),
            "--fail-on",
            "regression",
        ])
    };
    let slower = compare("before.run", "after.run");
    let said = String::from_utf8_lossy(&slower.stdout).into_owned();
    assert_eq!(slower.status.code(), Some(1), "{said}");
    assert!(
        said.starts_with("REGRESSION") && said.contains("price("),
        "{said}"
    );
    // The other way round it is faster, which is none.
    let faster = compare("after.run", "before.run");
    assert_eq!(
        faster.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&faster.stdout)
    );
}

#[test]
fn argument_that_is_not_utf8_is_refused_with_a_sentence() {
    let odd = |text: &[u8]| std::ffi::OsStr::from_bytes(text).to_owned();
    for (arguments, code, words) in [
        (
            &[&b"--no-such-option=\xff"[..]][..],
            2,
            "unexpected argument",
        ),
        (
            &[b"replay", b"\xff.workload", b"--no-such"],
            2,
            "unexpected argument",
        ),
        (
            &[b"replay", b"a.workload", b"--speed", b"\xff"],
            2,
            "invalid UTF-8",
        ),
        (
            &[b"capture", b"log", b"/nowhere/\xff.log", b"--dry-run"],
            2,
            "/nowhere/",
        ),
        (&[b"inspect", b"/nowhere/\xff.workload"], 2, "/nowhere/"),
    ] {
        let mut command = program(&[]);
        command.args(arguments.iter().map(|argument| odd(argument)));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words) && !said.contains("panicked"), "{said}");
    }
}
