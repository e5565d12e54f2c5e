//! Shared helpers of the tests: servers, directories, and a separate process.
#![allow(dead_code, missing_docs)]

use sandbox::{Dirs, Installation, ServerRequirements};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A server of this major version: installed, or fetched once into the usual cache.
pub fn server(major: u16) -> Installation {
    let places = Dirs::from_environment().unwrap();
    sandbox::find(&ServerRequirements::major(major), &places, &mut |_| ()).unwrap()
}

/// Places that nobody else uses, and that the user that runs the server can reach.
pub fn places() -> (TempDir, Dirs) {
    let top = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(top.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let places = places_in(top.path());
    (top, places)
}

pub fn places_in(top: &Path) -> Dirs {
    Dirs {
        cache: top.join("cache"),
        state: top.join("state"),
    }
}

pub fn connect(url: &str) -> postgres::Client {
    postgres::Client::connect(url, postgres::NoTls).unwrap()
}

pub fn ask(client: &mut postgres::Client, sql: &str) -> String {
    client.query_one(sql, &[]).unwrap().get(0)
}

/// A separate process that works with sandboxes (`tests/support/process.rs`).
pub fn other_process(action: &str, top: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandbox-test-process"));
    command.arg(action).arg(top);
    command
}

/// Waits for what must come about, however slow the machine is.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "never came about: {what}");
        sleep(Duration::from_millis(20));
    }
}

/// Whether a process is there, and no zombie.
pub fn is_alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
}
