//! A replay that is stopped for a while. The server is the same in all runs, so no run is a regression.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

const STOPPED_MS: u64 = 1_500;

fn rehearse(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Creates ten sessions of 20 ms a tick, each with a statement of two milliseconds every 20 ms.
fn log(path: &Path, ticks: u64) {
    let mut log = String::new();
    for tick in 0..ticks {
        for session in 0..10 {
            let what = match tick {
                0 => "connection authorized: user=postgres database=postgres".to_owned(),
                tick => format!("statement: SELECT pg_sleep(0.002), {}", tick % 2),
            };
            let (time, pid) = (tick * 20 + session, 100 + session);
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

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status();
    assert!(status.unwrap().success());
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

struct Room {
    directory: tempfile::TempDir,
    url: String,
}

impl Room {
    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Replays while `disturb` has the process. Returns the summary.
    fn replay(&self, run: &str, disturb: impl Fn(&mut Child)) -> Value {
        let mut child = Command::new(env!("CARGO_BIN_EXE_rehearse"))
            .args(["replay", &self.path("a.workload"), "--target", &self.url])
            .args(["--no-facts", "--json", "-o", &self.path(run)])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        disturb(&mut child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn compare(&self, after: &str) -> Value {
        let (before, after) = (self.path("quiet.run"), self.path(after));
        let output = rehearse(&["compare", &before, &after, "--json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn stall_warning(comparison: &Value) -> &Value {
    let warnings = comparison["warnings"].as_array().unwrap();
    let is_stall = |one: &&Value| one["warning"] == "tool_stalled" && one["run"]["side"] == "after";
    let found = warnings.iter().find(is_stall);
    found.unwrap_or_else(|| panic!("{warnings:?}"))
}

#[test]
fn time_in_which_the_replay_was_stopped_is_tool_lag_and_no_regression() {
    let directory = tempfile::tempdir().unwrap();
    let (_sandbox, endpoint) = test_support::server().start();
    let room = Room {
        directory,
        url: endpoint.url("postgres"),
    };
    log(Path::new(&room.path("a.log")), 300);
    let (log, workload) = (room.path("a.log"), room.path("a.workload"));
    let arguments = [
        "capture", "log", &log, "--prefix", "%m [%p] ", "-o", &workload,
    ];
    assert_eq!(rehearse(&arguments).status.code(), Some(0));
    room.replay("quiet.run", |_| {});

    let stopped = room.replay("stopped.run", |child| {
        pause(4_000);
        signal(child, "-STOP");
        pause(STOPPED_MS);
        signal(child, "-CONT");
    });
    let stopped_ns = (STOPPED_MS - 100) * 1_000_000;
    let max_ns = |summary: &Value, what: &str| summary[what]["max_ns"].as_u64().unwrap();
    assert!(max_ns(&stopped, "service") < stopped_ns, "{stopped:#}");
    assert!(max_ns(&stopped, "tool_lag") > stopped_ns, "{stopped:#}");
    assert!(max_ns(&stopped, "session_lag") < stopped_ns, "{stopped:#}");
    assert!(max_ns(&stopped, "response") > stopped_ns, "{stopped:#}");
    let stalls = stopped["tool_stalls"].as_array().unwrap();
    let longest_ns = |one: &Value| one["longest_ns"].as_u64().unwrap();
    assert!(stalls.iter().any(|one| longest_ns(one) > stopped_ns));
    let comparison = room.compare("stopped.run");
    assert_ne!(comparison["verdict"]["verdict"], "regression");
    let warning = stall_warning(&comparison);
    assert!(longest_ns(warning) > stopped_ns, "{warning}");
    assert!(warning["statements"].as_u64().unwrap() > 0, "{warning}");

    // Of a replay that hardly runs, hardly anything is compared.
    room.replay("throttled.run", |child| {
        pause(1_000);
        while child.try_wait().unwrap().is_none() {
            signal(child, "-STOP");
            pause(250);
            signal(child, "-CONT");
            pause(5);
        }
    });
    let comparison = room.compare("throttled.run");
    assert_ne!(comparison["verdict"]["verdict"], "regression");
    let left_out = stall_warning(&comparison)["statements"].as_u64().unwrap();
    assert!(left_out > 1_495, "{left_out} of 2,990");
}

/// Performs a proof or a sweep. Its program is throttled from each line of its notes for which `disturbs` is true up to
/// the first for which it is false. Returns the notes and the report.
fn throttled_at(arguments: &[&str], mut disturbs: impl FnMut(&str) -> bool) -> (String, Value) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rehearse"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let printed = std::thread::spawn(move || std::io::read_to_string(stdout).unwrap());
    let notes = BufReader::new(child.stderr.take().unwrap());
    let (is_throttled, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut told = String::new();
    std::thread::scope(|scope| {
        let (child, is_over, is_throttled) = (&child, &is_over, &is_throttled);
        let throttle = scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                if is_throttled.load(Ordering::Relaxed) {
                    signal(child, "-STOP");
                    pause(200);
                    signal(child, "-CONT");
                }
                pause(60);
            }
        });
        for line in notes.lines() {
            let line = line.unwrap();
            is_throttled.store(disturbs(&line), Ordering::Relaxed);
            told += &line;
            told.push('\n');
        }
        is_over.store(true, Ordering::Relaxed);
        throttle.join().unwrap();
    });
    child.wait().unwrap();
    let report = serde_json::from_str(&printed.join().unwrap());
    let report = report.unwrap_or_else(|error| panic!("{error}: {told}"));
    (told, report)
}

/// Creates a server and the workload of two seconds.
fn short_room() -> (impl Sized, Room) {
    let directory = tempfile::tempdir().unwrap();
    let (sandbox, endpoint) = test_support::server().start();
    let room = Room {
        directory,
        url: endpoint.url("postgres"),
    };
    log(Path::new(&room.path("a.log")), 100);
    let (log, workload) = (room.path("a.log"), room.path("a.workload"));
    let arguments = [
        "capture", "log", &log, "--prefix", "%m [%p] ", "-o", &workload,
    ];
    assert_eq!(rehearse(&arguments).status.code(), Some(0));
    (sandbox, room)
}

/// Asserts that a trial was repeated until the tool did not stall, or as often as it may be. The machine may be busy.
fn assert_repeated(stalls: &Value, told: &str) {
    let (repeats, share) = (stalls["repeats"].as_u64(), stalls["share"].as_f64());
    assert!(repeats > Some(0), "{told}");
    assert!(share < Some(0.1) || repeats == Some(2), "{told}");
}

#[test]
fn throttled_trial_of_a_sweep_is_repeated() {
    let (_sandbox, room) = short_room();
    let (workload, output) = (room.path("a.workload"), room.path("a.sweep"));
    let arguments = [
        "sweep",
        &workload,
        "--target",
        &room.url,
        "--no-restore",
        "--speed",
        "1",
        "--trials",
        "2",
        "--warm-up",
        "500ms",
        "--json",
        "-o",
        &output,
    ];
    // The first trial begins after the checks.
    let (told, view) = throttled_at(&arguments, |line| line.contains("Checks of the target"));
    assert!(told.contains("Repeating it"), "{told}");
    assert_repeated(&view["trials"][0]["numbers"]["stalls"], &told);
}
