//! A stop while the command of `--restore` runs, in sweeps and in paired replays.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::super::{PATIENCE, command, proving, trials};

/// Address that refuses connections. The command runs first.
const TARGET: &str = "postgres://nobody@127.0.0.1:1/nothing";
const OTHER_TARGET: &str = "postgres://nobody@127.0.0.1:1/other";

/// A directory with a workload that writes.
struct Room(tempfile::TempDir);

impl Room {
    fn new() -> Self {
        let room = Room(tempfile::tempdir().unwrap());
        let log = "2026-03-01 09:00:00.000 UTC [1] LOG:  statement: INSERT INTO t VALUES (1)\n";
        proving::captured(&|name| room.at(name), log);
        room
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Returns a command of `--restore` that runs until it is ended, and writes the process of its program.
    fn restore(&self, setup: &str) -> String {
        format!(
            "{setup} sleep 600 & echo $! >{0}.new; mv {0}.new {0}; wait",
            self.at("process")
        )
    }

    /// Starts the program, and waits until its restore runs.
    fn start(&self, arguments: &[&str]) -> Child {
        let mut program = command(arguments);
        program.stdout(Stdio::null()).stderr(Stdio::piped());
        let child = program.spawn().unwrap();
        wait_for(|| Path::new(&self.at("process")).exists());
        child
    }

    /// Starts a sweep with a restore, and waits until that runs.
    fn start_sweep(&self, restore: &str) -> Child {
        let (workload, sweep) = (self.at("a.workload"), self.at("a.sweep"));
        let given = ["--target", TARGET, "--restore", restore, "-o", &sweep];
        self.start(&[&["sweep", &workload], &given[..]].concat())
    }

    /// Returns whether the program of the restore has ended.
    fn is_restore_over(&self) -> bool {
        let process = std::fs::read_to_string(self.at("process")).unwrap();
        let stat = format!("/proc/{}/stat", process.trim());
        let stat = std::fs::read_to_string(stat).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z")
    }
}

fn wait_for(holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn send(child: &Child, signal: &str) {
    let process = child.id().to_string();
    let sent = Command::new("kill").args([signal, &process]).status();
    assert!(sent.unwrap().success());
}

/// Returns the exit code and the messages. Kills a program that does not end.
fn end(mut child: Child) -> (Option<i32>, String) {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    let messages = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), messages)
}

#[test]
fn restore_of_a_sweep_ends_at_the_first_signal_and_the_trial_is_not_recorded() {
    let room = Room::new();
    let restore = room.restore("");
    let child = room.start_sweep(&restore);
    send(&child, "-INT");
    let (code, messages) = end(child);
    assert_eq!(code, Some(3), "{messages}");
    assert!(
        messages.contains("was ended, since a stop was requested"),
        "{messages}"
    );
    assert!(room.is_restore_over());
    assert!(trials(Path::new(&room.at("a.sweep"))).is_empty());
}

#[test]
fn restore_of_paired_replays_ends_at_the_first_signal() {
    let room = Room::new();
    let (workload, output, restore) = (room.at("a.workload"), room.at("pairs"), room.restore(""));
    let child = room.start(&[
        "replay",
        &workload,
        "--target",
        TARGET,
        "--against",
        OTHER_TARGET,
        "--restore",
        &restore,
        "-o",
        &output,
    ]);
    send(&child, "-INT");
    let (code, messages) = end(child);
    assert_eq!(code, Some(3), "{messages}");
    assert!(
        messages.contains("was ended, since a stop was requested"),
        "{messages}"
    );
    assert!(room.is_restore_over());
}

#[test]
fn restore_that_ignores_a_stop_is_killed_and_named_at_the_second_signal() {
    let room = Room::new();
    let restore = room.restore("trap '' TERM;");
    let child = room.start_sweep(&restore);
    // Two different signals, since the system may merge two of a kind.
    send(&child, "-INT");
    send(&child, "-TERM");
    let (code, messages) = end(child);
    assert_eq!(code, Some(3), "{messages}");
    assert!(
        messages.contains("The command of --restore was killed"),
        "{messages}"
    );
    wait_for(|| room.is_restore_over());
}
