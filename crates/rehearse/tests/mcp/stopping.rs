//! Calls that are stopped, and what they leave.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::PATIENCE;
use super::*;

/// Statements of a log that a call reads for seconds.
const MANY: usize = 400_000;

/// Waits until a condition holds.
#[track_caller]
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the workers of servers with this directory for temporary files.
fn workers(temporary: &Path) -> usize {
    let variable = format!("TMPDIR={}\0", temporary.display());
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_worker = |process: &PathBuf| {
        let read = |name| std::fs::read(process.join(name)).unwrap_or_default();
        let has = |name, text: &str| String::from_utf8_lossy(&read(name)).contains(text);
        has("environ", &variable) && has("cmdline", "--worker")
    };
    processes
        .map(|entry| entry.path())
        .filter(is_worker)
        .count()
}

/// Returns the directories of calls in progress that have a part of a workload.
fn captures(room: &Room) -> usize {
    let calls = room
        .leftovers()
        .into_iter()
        .filter_map(|one| std::fs::read_dir(one).ok());
    let calls = calls.flatten().flatten().map(|entry| entry.path());
    let is_capture = |call: &PathBuf| call.join("log.workload.partial").exists();
    calls.filter(is_capture).count()
}

fn begin_long_call(room: &Room, client: &mut Client) -> u64 {
    let id = client.begin_call("inspect", json!({ "path": "many.log" }));
    wait_until("a capture begins", || captures(room) == 1);
    id
}

#[test]
fn mcp_call_that_is_cancelled_ends_with_its_files_and_the_server_continues() {
    let room = Room::new();
    room.write_log("many.log", MANY);
    let mut client = room.connect(&[]);
    let id = begin_long_call(&room, &mut client);
    client.send(&json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": { "requestId": id },
    }));
    wait_until("the worker ends", || workers(&room.temporary()) == 0);
    wait_until("its files are removed", || captures(&room) == 0);
    assert_eq!(client.content("list", json!({}))["is_complete"], true);
    let (code, messages) = client.close();
    assert_eq!(code, Some(0));
    assert!(
        messages.contains("`inspect` was cancelled by the client"),
        "{messages}"
    );
    assert_eq!(room.leftovers(), Vec::<PathBuf>::new());
}

#[test]
fn mcp_call_over_its_time_limit_ends_with_a_message_and_without_files() {
    let room = Room::new();
    room.write_log("many.log", MANY);
    let mut client = room.connect(&["--time-limit", "1s"]);
    let refusal = client.refusal("inspect", json!({ "path": "many.log" }));
    assert!(
        refusal.starts_with("`inspect` timed out after 1.00 s, "),
        "{refusal}"
    );
    assert_eq!(workers(&room.temporary()), 0);
    assert_eq!(captures(&room), 0);
    assert_eq!(client.content("list", json!({}))["is_complete"], true);
}

#[test]
fn mcp_server_that_is_killed_leaves_no_worker_and_the_next_one_removes_its_directory() {
    let room = Room::new();
    room.write_log("many.log", MANY);
    let mut client = room.connect(&[]);
    begin_long_call(&room, &mut client);
    client.child.kill().unwrap();
    client.child.wait().unwrap();
    wait_until("the worker ends", || workers(&room.temporary()) == 0);
    assert_eq!(captures(&room), 0);
    let left = room.leftovers();
    assert_eq!(left.len(), 1);
    let next = room.connect(&[]);
    assert!(!left[0].exists(), "{left:?}");
    assert_eq!(next.close().0, Some(0));
    assert_eq!(room.leftovers(), Vec::<PathBuf>::new());
}

#[test]
fn mcp_server_whose_input_ends_or_that_is_signalled_stops_its_calls() {
    for signal in [None, Some("TERM")] {
        let room = Room::new();
        room.write_log("many.log", MANY);
        let mut client = room.connect(&[]);
        begin_long_call(&room, &mut client);
        if let Some(signal) = signal {
            let pid = client.child.id().to_string();
            let kill = std::process::Command::new("kill")
                .args(["-s", signal, &pid])
                .status();
            assert!(kill.unwrap().success());
            assert_eq!(client.child.wait().unwrap().code(), Some(0));
        } else {
            assert_eq!(client.close().0, Some(0));
        }
        assert_eq!(workers(&room.temporary()), 0);
        assert_eq!(room.leftovers(), Vec::<PathBuf>::new());
    }
}
