//! Replays by several workers into one run.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use run::{Execution, RunReader, RunStatus};
use serde_json::Value;
use tempfile::TempDir;

/// Directory with a workload, and a server.
struct Room {
    directory: TempDir,
    url: String,
    sandbox: ::sandbox::Sandbox,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Room {
    /// Captures a log of these sessions, each with a connection and its end. A statement is a time in milliseconds and a
    /// text.
    fn new(sessions: &[Vec<(u32, String)>]) -> Self {
        let (sandbox, endpoint) = test_support::server().start();
        let room = Room {
            directory: tempfile::tempdir().unwrap(),
            url: endpoint.url("postgres"),
            sandbox,
        };
        let log = room.directory.path().join("a.log");
        std::fs::write(log, log_of(sessions)).unwrap();
        room.done(&["capture", "log", "a.log", "-o", "a.workload"]);
        room
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rehearse"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env_remove("JOB_COMPLETION_INDEX")
            .env_remove("PGDATABASE");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        text(&output.stdout)
    }

    /// Runs a command that fails. Returns its message.
    fn failed(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {output:?}"
        );
        text(&output.stderr)
    }

    fn replay<'a>(&'a self, run: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let replay = ["replay", "a.workload", "--target", &self.url, "-o", run];
        [&replay, more].concat()
    }

    fn start_worker(&self, run: &str, more: &[&str]) -> Child {
        let mut command = self.command(&self.replay(run, more));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Replays with workers of all shards.
    fn replay_divided(&self, run: &str, count: u64, more: &[&str]) {
        let workers: Vec<Child> = (0..count)
            .map(|number| {
                let shard = format!("{number}/{count}");
                self.start_worker(run, &[&["--shard", &shard], more].concat())
            })
            .collect();
        for worker in workers {
            let output = worker.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        }
    }

    fn open(&self, run: &str) -> RunReader {
        RunReader::open(&self.directory.path().join(run)).unwrap()
    }

    fn show(&self, run: &str) -> Value {
        serde_json::from_str(&self.done(&["show", run, "--json"])).unwrap()
    }
}

/// Writes the log of sessions, in the order of times.
pub(super) fn log_of(sessions: &[Vec<(u32, String)>]) -> String {
    let mut lines = Vec::new();
    for (session, statements) in sessions.iter().enumerate() {
        let mut add = |at_ms: u32, message: String| {
            let (minute, second, ms) = (at_ms / 60_000, at_ms / 1_000 % 60, at_ms % 1_000);
            let pid = 100 + session;
            let mut line = String::new();
            write!(
                line,
                "2026-03-01 09:{minute:02}:{second:02}.{ms:03} UTC [{pid}] LOG:  {message}"
            )
            .unwrap();
            lines.push((at_ms, line));
        };
        let first_ms = statements.first().map_or(0, |(at_ms, _)| *at_ms);
        let last_ms = statements.last().map_or(0, |(at_ms, _)| *at_ms);
        add(
            first_ms,
            "connection authorized: user=postgres database=postgres".to_owned(),
        );
        for (at_ms, statement) in statements {
            let message = format!("duration: 0.100 ms  statement: {statement}");
            add(at_ms + 1, message);
        }
        let end =
            "disconnection: session time: 0:00:01.000 user=postgres database=postgres host=[local]";
        add(last_ms + 2, end.to_owned());
    }
    lines.sort_by_key(|(at_ms, _)| *at_ms);
    lines.into_iter().map(|(_, line)| line + "\n").collect()
}

/// Creates sessions with a read each 100 ms, for this long.
pub(super) fn readers(sessions: u32, ticks: u32) -> Vec<Vec<(u32, String)>> {
    let of = |session| {
        let statement = |tick| (tick * 100 + session, format!("SELECT {tick}"));
        (0..ticks).map(statement).collect()
    };
    (0..sessions).map(of).collect()
}

fn ids(run: &RunReader) -> Vec<(u64, u64)> {
    let executions: Result<Vec<Execution>, _> = run.executions().unwrap().collect();
    let ids = executions.unwrap().into_iter();
    ids.map(|one| (one.session, one.sequence)).collect()
}

#[test]
fn workers_write_one_run_that_every_command_reads() {
    let room = Room::new(&readers(24, 10));
    room.done(&room.replay("one.run", &[]));
    room.replay_divided("four.run", 4, &[]);
    let (one, four) = (room.open("one.run"), room.open("four.run"));
    assert_eq!(four.info().status, RunStatus::Complete);
    assert_eq!(
        (four.info().statements, four.info().done),
        (one.info().statements, one.info().done)
    );
    let (all, mut divided) = (ids(&one), ids(&four));
    assert_eq!(all.len(), divided.len());
    let unique: BTreeSet<(u64, u64)> = divided.drain(..).collect();
    assert_eq!(unique, all.into_iter().collect());
    let ends: Vec<i64> = (four.executions().unwrap())
        .filter_map(|execution| execution.unwrap().done_ns)
        .collect();
    assert!(ends.is_sorted(), "the parts are merged by time");
    // The time of the start is that of the statements, not of the wait for the others.
    let start_us = run::read_shard_plan(four.path()).unwrap().unwrap().start_us;
    assert_eq!(four.info().started_wall_us, start_us);
    let part = room.open("four.run/part-3");
    let early_us = start_us - part.info().started_wall_us;
    assert!(early_us < 1_000_000, "{early_us} µs before the start");
    // Each part has some sessions, and due times are those of the whole.
    assert_eq!(four.info().span_due_ns, one.info().span_due_ns);
    let shown = room.show("four.run");
    let shards = shown["shards"]["shards"].as_array().unwrap();
    assert_eq!(shards.len(), 4);
    for shard in shards {
        assert_eq!(shard["state"], "complete");
        assert!(shard["sessions"].as_u64().unwrap() > 0, "{shard}");
        assert_eq!(shard["incomplete_sessions"], 0);
    }
    let text = room.done(&["show", "four.run"]);
    assert!(
        text.contains("4 workers, sessions divided by a hash"),
        "{text}"
    );
    for arguments in [
        &["compare", "one.run", "four.run"][..],
        &["compare", "one.run", "four.run", "--json"],
        &["diagnose", "four.run"],
        &["export-evidence", "four.run", "--dry-run"],
        &["export-evidence", "four.run", "--with-run"],
    ] {
        let output = room.run(arguments);
        // 1: findings.
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{arguments:?}: {output:?}"
        );
    }
    // Facts of the server are collected once.
    assert!(four.facts().unwrap().is_some());
    let message = room.failed(&room.replay("four.run", &["--shard", "1/4"]), 2);
    assert!(message.contains("has begun already"), "{message}");
}

#[test]
fn killed_worker_leaves_an_incomplete_run_that_its_shard_completes() {
    let mut sessions = readers(24, 80);
    sessions[0][0].1 = "SELECT count(*) FROM orders".to_owned();
    let room = Room::new(&sessions);
    let execute = |sql: &str| {
        let mut client = test_support::connect(&room.sandbox.endpoint());
        client.batch_execute(sql).unwrap();
    };
    execute("CREATE TABLE orders ()");
    let part = |number: u64| room.directory.path().join(format!("a.run/part-{number}"));
    let options = ["--checkpoint", "1s"];
    let mut workers: Vec<Child> = (0..3)
        .map(|number| {
            let shard = format!("{number}/3");
            room.start_worker("a.run", &[&["--shard", &shard], &options[..]].concat())
        })
        .collect();
    let begun = Instant::now();
    let start = room.directory.path().join("a.run/shards.json");
    while !start.exists() {
        assert!(begun.elapsed() < Duration::from_secs(120), "no start");
        std::thread::sleep(Duration::from_millis(50));
    }
    // The replay starts 5 s later, and lasts 8 s.
    std::thread::sleep(Duration::from_secs(9));
    workers[1].kill().unwrap();
    for worker in workers {
        worker.wait_with_output().unwrap();
    }
    assert!(part(0).is_dir() && !part(1).exists() && part(2).is_dir());
    let shown = room.show("a.run");
    assert_eq!(shown["status"], "incomplete");
    let shard = &shown["shards"]["shards"][1];
    assert_eq!(shard["state"], "unfinished");
    assert_eq!(shard["incomplete_sessions"], shard["sessions"]);
    assert_eq!(shown["missing"], shard["statements"]);
    let first = shard["first_incomplete_sessions"][0].as_u64().unwrap();
    let text = room.done(&["show", "a.run"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("shard 1 was killed"), "{text}");
    assert!(text.contains(&format!("({first}, ")), "{text}");
    assert!(text.contains("--shard 1/3 --resume a.run"), "{text}");
    let compared = room.done(&["compare", "a.run/part-0", "a.run"]);
    assert!(compared.contains("shards 1 of 3"), "{compared}");

    let message = room.failed(
        &room.replay("a.run", &["--shard", "1/2", "--resume", "a.run"]),
        2,
    );
    assert!(message.contains("has 3 shards"), "{message}");
    // The target is checked again, since it may not be as it was.
    execute("DROP TABLE orders");
    let resume = ["--shard", "1/3", "--resume", "a.run", "--checkpoint", "1s"];
    let output = room.run(&room.replay("a.run", &resume));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(notes.contains("orders"), "{notes}");
    let resumed = room.open("a.run");
    assert_eq!(resumed.info().status, RunStatus::Complete);
    assert_eq!(resumed.info().statements, 24 * 80);
    let ids = ids(&resumed);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
    // What was recovered was not repeated.
    assert!(room.open("a.run/part-1").info().statements > 0);
    let part = room.open("a.run/part-1-resumed-1");
    assert_eq!(part.info().options["resumed"], "a.run/part-1");
}

#[test]
fn workers_that_are_missing_or_differ_are_named_and_nothing_is_sent() {
    let room = Room::new(&readers(8, 3));
    let options = ["--shard", "0/3", "--start-timeout", "2s"];
    let message = room.failed(&room.replay("a.run", &options), 3);
    assert!(message.contains("sent nothing"), "{message}");
    assert!(
        message.contains("not ready after 2.00 s: 1, 2;"),
        "{message}"
    );
    assert!(!room.directory.path().join("a.run/part-0.partial").exists());
    let absent = room.failed(&["show", "a.run"], 2);
    assert!(absent.contains("not a run"), "{absent}");

    let other = room.start_worker("b.run", &["--shard", "0/2", "--speed", "2"]);
    let message = room.failed(&room.replay("b.run", &["--shard", "1/2"]), 3);
    assert!(
        message.contains("speed is \"2\" there and \"1\" here"),
        "{message}"
    );
    let output = other.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");

    let options = ["--shard", "0/1", "--clock-tolerance", "1ns"];
    let message = room.failed(&room.replay("c.run", &options), 3);
    assert!(
        message.contains("--clock-tolerance allows ± 1 ns"),
        "{message}"
    );
}

#[test]
fn sessions_that_depend_on_each_other_are_in_one_shard() {
    let update = |row: u32| format!("UPDATE counters SET value = value + 1 WHERE id = {row}");
    let sessions = |rows: &dyn Fn(u32) -> u32| -> Vec<Vec<(u32, String)>> {
        let of = |session: u32| {
            (0..5)
                .map(|tick| (tick * 50 + session, update(rows(session))))
                .collect()
        };
        (0..24).map(of).collect()
    };
    let room = Room::new(&sessions(&|session| session % 8));
    let prepare = "CREATE TABLE counters (id int PRIMARY KEY, value int); INSERT INTO counters SELECT i, 0 FROM generate_series(0, 30) i";
    let mut client = test_support::connect(&room.sandbox.endpoint());
    client.batch_execute(prepare).unwrap();
    room.replay_divided("a.run", 4, &["--order", "dependencies"]);
    let shown = room.show("a.run");
    assert_eq!(shown["shards"]["division"]["by"], "dependencies");
    assert_eq!(shown["shards"]["division"]["groups"], 8);
    let run = room.open("a.run");
    assert_eq!((run.info().done, run.info().failed.len()), (120, 0));
    let total: i64 = client
        .query_one("SELECT sum(value) FROM counters", &[])
        .unwrap()
        .get(0);
    assert_eq!(total, 120);

    let all = Room::new(&sessions(&|_| 1));
    let mut client = test_support::connect(&all.sandbox.endpoint());
    client.batch_execute(prepare).unwrap();
    let divided = ["--shard", "0/2", "--dry-run", "--order", "dependencies"];
    let message = all.failed(&all.replay("a.run", &divided), 2);
    assert!(message.contains("has 100 % of the statements"), "{message}");
    assert!(message.contains("--order session"), "{message}");
    let message = all.failed(
        &all.replay("a.run", &["--shard", "0/2", "--order", "commit"]),
        2,
    );
    assert!(message.contains("with --order commit"), "{message}");
    assert!(!Path::new("a.run").exists());
}

#[test]
fn options_that_several_workers_cannot_have_are_refused() {
    let room = Room::new(&readers(2, 2));
    for (options, reason) in [
        (&["--shard", "8/8"][..], "numbered from 0, to 7"),
        (&["--shard", "/8"], "JOB_COMPLETION_INDEX is not set"),
        (
            &["--shard", "0/2", "--profile"],
            "--profile has no effect with --shard",
        ),
        (&["--shard", "0/2", "--to", "+1s"], "rehearse slice"),
        (
            &["--shard", "0/2", "--loops", "2", "--speed", "max"],
            "leave out --loops",
        ),
        (&["--shard", "0/2", "--restore", "true"], "--restore"),
        (&["--start-timeout", "5s"], "without --shard"),
        (
            &["--shard", "0/2", "--calibrate"],
            "cannot be used with '--calibrate'",
        ),
    ] {
        let message = room.failed(&room.replay("a.run", options), 2);
        assert!(message.contains(reason), "{options:?}: {message}");
    }
}
