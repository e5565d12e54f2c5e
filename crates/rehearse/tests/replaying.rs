//! Options of a replay on the command line: refusals, dry runs, selections and copies.

mod object_stores;
mod sharding;

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

fn rehearse(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command.args(arguments);
    for variable in ["PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE"] {
        command.env_remove(variable);
    }
    command.output().unwrap()
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = rehearse(arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = rehearse(arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Creates ten sessions of one second, each with ten reads and a write.
fn log(path: &Path) {
    let mut log = String::new();
    for tick in 0..=11 {
        for session in 0..10 {
            let what = match tick {
                0 => "connection authorized: user=postgres database=postgres".to_owned(),
                11 => "statement: INSERT INTO nowhere VALUES (1)".to_owned(),
                tick => format!("statement: SELECT {tick}"),
            };
            let (time, pid) = (tick * 90 + session, 100 + session);
            writeln!(
                log,
                "2026-03-01 09:00:{:02}.{:03} UTC [{pid}] LOG:  {what}",
                time / 1_000,
                time % 1_000
            )
            .unwrap();
        }
    }
    std::fs::write(path, log).unwrap();
}

#[test]
fn a_replay_says_before_it_does_and_does_what_it_said() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (_sandbox, endpoint) = test_support::server().tcp().start();
    let url = endpoint.url("postgres");
    let data = data_directory(&url);
    // The log lies where the server keeps its own.
    let of_server = Path::new(&data).join("today.log");
    log(&of_server);
    log(Path::new(&path("copied.log")));
    for (from, to) in [
        (of_server.display().to_string(), "server.workload"),
        (path("copied.log"), "copied.workload"),
    ] {
        let workload = path(to);
        let arguments = [
            "capture", "log", &from, "--prefix", "%m [%p] ", "-o", &workload,
        ];
        let output = rehearse(&arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    let run = path("a.run");

    // The captured server must be named twice.
    let captured = path("server.workload");
    let once = ["replay", &captured, "--target", &url, "-o", &run];
    let said = refused(&once);
    assert!(
        said.contains("--allow-captured-server 127.0.0.1:"),
        "{said}"
    );
    let wrong = [&once[..], &["--allow-captured-server", "elsewhere:5432"]].concat();
    assert!(refused(&wrong).contains("names elsewhere:5432"));
    assert!(!Path::new(&run).exists());
    let address = said.rsplit(' ').next().unwrap().trim();
    let twice = [
        &once[..],
        &["--allow-captured-server", address, "--dry-run"],
    ]
    .concat();
    assert_eq!(rehearse(&twice).status.code(), Some(0));

    // A dry run leaves nothing, and foresees what the replay then does.
    let copied = path("copied.workload");
    let shaping = [
        "replay",
        &copied,
        "--target",
        &url,
        "--speed",
        "max",
        "--json",
        "--loops",
        "2",
        "--copies",
        "1.5x",
        "--read-only",
        "--from",
        "+400ms",
        "--not-kind",
        "ddl",
    ];
    let foreseen = json(&[&shaping[..], &["--dry-run"]].concat());
    assert!(!Path::new(&run).exists());
    assert_eq!(foreseen["options"]["from"], "400 ms from the start");
    let done = json(&[&shaping[..], &["-o", &run]].concat());
    assert_eq!(done["statements"], foreseen["statements"], "{done:#}");
    assert_eq!(
        done["failed"]["25006"].as_u64(),
        None,
        "there is no such table"
    );
    assert_eq!(done["failed"]["42P01"], foreseen["writes"]);
    assert_eq!(done["options"]["scale"], "1.5");
    assert_eq!(done["workload"], copied);
    let statements = done["statements"].as_u64().unwrap();
    // Of the eleven, those from 400 ms on are seven; each session is there twice or four times.
    assert_eq!(statements % 14, 0);
    assert!((140..=280).contains(&statements), "{statements}");
    // The part is gone with the replay.
    let left: Vec<_> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("part"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

fn data_directory(url: &str) -> String {
    let mut client = postgres::Client::connect(url, postgres::NoTls).unwrap();
    client.query_one("SHOW data_directory", &[]).unwrap().get(0)
}

#[test]
fn options_that_make_no_sense_are_refused_with_what_does() {
    let replay = [
        "replay",
        "x.workload",
        "--target",
        "postgres://h/x",
        "-o",
        "x.run",
    ];
    for (more, says) in [
        (
            &["--speed", "max", "--think-time", "keep"][..],
            "waits for nothing",
        ),
        (
            &["--speed", "max", "--max-idle", "1s"],
            "--max-idle has nothing",
        ),
        (&["--think-time", "long"], "keep, drop, or a factor"),
        (&["--copies", "0x"], "above 0"),
        (&["--copies", "101"], "up to 100"),
        (&["--loops", "0"], "1..=10000"),
        (&["--ramp-up", "200h"], "at most 7 days"),
        (&["--statement-timeout", "10"], "30s"),
    ] {
        let said = refused(&[&replay[..], more].concat());
        assert!(said.contains(says), "{more:?}: {said}");
    }
    let said = refused(&["replay", "x.workload", "--target", "postgres://h/x"]);
    assert!(said.contains("--output"), "{said}");
}

/// Creates ten sessions of about five seconds, each inserting its number and the time.
fn slow_log(path: &Path) {
    let mut log = String::new();
    for tick in 0..=101 {
        for session in 0..10 {
            let what = match tick {
                0 => "connection authorized: user=postgres database=postgres".to_owned(),
                tick => format!("statement: INSERT INTO entry VALUES ({session}, {tick})"),
            };
            let (time, pid) = (tick * 50 + session, 100 + session);
            writeln!(
                log,
                "2026-03-01 09:00:{:02}.{:03} UTC [{pid}] LOG:  {what}",
                time / 1_000,
                time % 1_000
            )
            .unwrap();
        }
    }
    std::fs::write(path, log).unwrap();
}

#[test]
fn a_replay_that_was_killed_goes_on_from_its_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (_sandbox, endpoint) = test_support::server().start();
    let url = endpoint.url("postgres");
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    client
        .batch_execute("CREATE TABLE entry (session int, n int)")
        .unwrap();
    slow_log(Path::new(&path("slow.log")));
    let workload = path("slow.workload");
    let arguments = [
        "capture",
        "log",
        &path("slow.log"),
        "--prefix",
        "%m [%p] ",
        "-o",
        &workload,
    ];
    assert_eq!(rehearse(&arguments).status.code(), Some(0));

    let (first, whole) = (path("first.run"), path("whole.run"));
    let replay = |run: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
        command
            .args(["replay", &workload, "--target", &url, "-o", run, "--json"])
            .args(["--checkpoint", "100ms"])
            .args(more)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let mut child = replay(&first, &[]);
    let mut inserted = || -> i64 {
        let row = client.query_one("SELECT count(*) FROM entry", &[]);
        row.unwrap().get(0)
    };
    while inserted() < 300 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = inserted();
    assert!(Path::new(&format!("{first}.partial")).exists());

    let output = replay(&whole, &["--resume", &first])
        .wait_with_output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("a replay that was killed"), "{said}");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // The whole is in the run, once.
    assert_eq!(summary["statements"], 1_010, "{summary:#}");
    assert_eq!(summary["done"], 1_010, "{summary:#}");
    assert_eq!(summary["status"], "complete");
    // On the server, statements after the last checkpoint were executed twice.
    let twice = inserted() - 1_010;
    assert!((0..before).contains(&twice), "{twice} of {before}");
    let missing: i64 = client
        .query_one(
            "SELECT 1010 - count(*) FROM (SELECT DISTINCT session, n FROM entry) e",
            &[],
        )
        .unwrap()
        .get(0);
    assert_eq!(missing, 0);

    // What reached its end, or was shaped otherwise, is not gone on with.
    let third = path("third.run");
    let again = [
        "replay", &workload, "--target", &url, "-o", &third, "--resume",
    ];
    let said = refused(&[&again[..], &[&whole]].concat());
    assert!(said.contains("it reached its end"), "{said}");
    let said = refused(&[&again[..], &[&first, "--speed", "2"]].concat());
    assert!(said.contains("speed = 1"), "{said}");
}

/// Creates ten sessions, each with 500 statements that fail with different messages, so that the
/// run grows.
fn failing_log(path: &Path) {
    let mut log = String::new();
    for tick in 0..=500u64 {
        for session in 0..10u64 {
            let noise = (tick * 10 + session + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let what = match tick {
                0 => "connection authorized: user=postgres database=postgres".to_owned(),
                _ => format!(
                    "statement: SELECT 'x{noise:x}{:x}'::int",
                    noise.rotate_left(29)
                ),
            };
            let (time, pid) = (tick * 5 + session / 2, 100 + session);
            writeln!(
                log,
                "2026-03-01 09:00:{:02}.{:03} UTC [{pid}] LOG:  {what}",
                time / 1_000,
                time % 1_000
            )
            .unwrap();
        }
    }
    std::fs::write(path, log).unwrap();
}

#[test]
fn a_disk_that_is_full_ends_the_replay_and_what_was_written_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (_sandbox, endpoint) = test_support::server().start();
    failing_log(Path::new(&path("a.log")));
    let (log, workload, run) = (path("a.log"), path("a.workload"), path("a.run"));
    let capture = [
        "capture", "log", &log, "--prefix", "%m [%p] ", "-o", &workload,
    ];
    assert_eq!(rehearse(&capture).status.code(), Some(0));
    // A limit on the size of files is what a full disk is to a process, for any user.
    let output = Command::new("sh")
        .arg("-c")
        .arg("trap '' XFSZ; ulimit -f 60; exec \"$0\" \"$@\"")
        .arg(env!("CARGO_BIN_EXE_rehearse"))
        .args(["replay", &workload, "--target", &endpoint.url("postgres")])
        .args(["-o", &run, "--checkpoint", "100ms"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("cannot write") && said.contains("a.run.partial"),
        "{said}"
    );
    assert!(!Path::new(&run).exists());

    // What was made safe before is there, and says that it is not all.
    let partial = format!("{run}.partial");
    let recovered = rehearse(&["recover", &partial]);
    assert_eq!(recovered.status.code(), Some(0), "{recovered:?}");
    let summary = json(&["show", &run, "--json"]);
    assert_eq!(summary["status"], "recovered");
    let failed: u64 = summary["failed"].as_object().map_or_else(
        || summary["failed"].as_u64().unwrap(),
        |codes| codes.values().map(|count| count.as_u64().unwrap()).sum(),
    );
    assert!((1..5_000).contains(&failed), "{summary:#}");
    assert_eq!(summary["statements"].as_u64(), Some(failed), "{summary:#}");
}

#[test]
fn a_second_interrupt_says_what_is_left_and_nothing_is_written_into_a_workload() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (_sandbox, endpoint) = test_support::server().start();
    let url = endpoint.url("postgres");
    let log = "2026-03-01 09:00:00.000 UTC [7] LOG:  connection authorized: user=postgres database=postgres\n\
               2026-03-01 09:00:00.010 UTC [7] LOG:  statement: SELECT 1\n\
               2026-03-01 09:00:00.020 UTC [7] LOG:  statement: SELECT pg_sleep(60)\n";
    std::fs::write(path("a.log"), log).unwrap();
    let workload = path("a.workload");
    let arguments = ["capture", "log", &path("a.log"), "-o", &workload];
    let output = rehearse(&[&arguments[..], &["--prefix", "%m [%p] "]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");

    let within = format!("{workload}/a.run");
    let said = refused(&["replay", &workload, "--target", &url, "-o", &within]);
    assert!(said.contains("is within the workload"), "{said}");
    assert!(!Path::new(&format!("{within}.partial")).exists());

    let run = path("a.run");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
    command.args(["replay", &workload, "--target", &url, "-o", &run]);
    command.stderr(std::process::Stdio::piped());
    let replay = command.spawn().unwrap();
    let sleeps = "SELECT FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)'";
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    while client.query(sleeps, &[]).unwrap().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // Once it is asked to end, what runs has three seconds.
    let pid = replay.id();
    let twice = format!("kill -INT {pid}; sleep 0.5; kill -INT {pid}");
    let sent = Command::new("sh").args(["-c", &twice]).status().unwrap();
    assert!(sent.success());
    let output = replay.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let next = format!("rehearse recover {run}.partial");
    assert!(said.contains(&next), "{said}");
    let output = rehearse(&["recover", &format!("{run}.partial")]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_database_in_another_encoding_is_announced() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (_sandbox, endpoint) = test_support::server().start();
    let url = endpoint.url("postgres");
    postgres::Client::connect(&url, postgres::NoTls)
        .unwrap()
        .simple_query("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
        .unwrap();
    log(Path::new(&path("a.log")));
    let workload = path("a.workload");
    let arguments = ["capture", "log", &path("a.log"), "-o", &workload];
    let output = rehearse(&[&arguments[..], &["--prefix", "%m [%p] "]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for (database, announced) in [("latin", true), ("postgres", false)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
        command.args(["replay", &workload, "--target", &url, "--speed", "max"]);
        command.args([
            "--as-database",
            database,
            "-o",
            &path(&format!("{database}.run")),
        ]);
        let output = command.env("PGCLIENTENCODING", "LATIN1").output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let note = "Database \"latin\" has the encoding LATIN1: statements are sent as UTF-8";
        assert_eq!(said.contains(note), announced, "{said}");
    }
}
