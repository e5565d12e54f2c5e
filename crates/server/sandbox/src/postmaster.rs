//! Finds the running server of a data directory, and verifies its identity.
//!
//! `postmaster.pid` may be left over from a crash, and its process id may belong to another process by now.
//! No process is signalled before its identity is verified.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Polling interval while waiting for a process.
pub(crate) const POLL: Duration = Duration::from_millis(10);

/// Identity of a process, which differs from that of a later one with the same process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) pid: i32,
    /// Start time in the kernel's ticks since boot, if available.
    pub(crate) started: Option<u64>,
}

impl Identity {
    /// Returns the identity of the process that has this id now.
    pub(crate) fn of(pid: i32) -> Self {
        Self {
            pid,
            started: stat(pid).map(|stat| stat.started),
        }
    }

    /// Whether the process still exists and is not a zombie.
    pub(crate) fn is_alive(self) -> bool {
        match stat(self.pid) {
            Some(stat) => Some(stat.started) == self.started && stat.state != 'Z',
            // SAFETY: signal 0 only checks. Without /proc no more information is available.
            None => !cfg!(target_os = "linux") && unsafe { libc::kill(self.pid, 0) == 0 },
        }
    }

    pub(crate) fn signal(self, signal: libc::c_int) {
        if self.is_alive() {
            // SAFETY: kill has no memory preconditions. A failure means that the process has just ended.
            unsafe { libc::kill(self.pid, signal) };
        }
    }

    /// Waits for its end. Returns `false` if it is still alive after this time.
    pub(crate) fn wait_for_end(self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while self.is_alive() {
            if Instant::now() > deadline {
                return false;
            }
            sleep(POLL);
        }
        true
    }
}

/// Contents of `postmaster.pid`.
pub(crate) struct PidFile {
    pub(crate) pid: i32,
    pub(crate) ready: bool,
    data: String,
}

impl PidFile {
    pub(crate) fn read(data: &Path) -> Option<Self> {
        let text = fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let lines: Vec<&str> = text.lines().collect();
        Some(Self {
            pid: lines.first()?.trim().parse().ok().filter(|&pid| pid > 1)?,
            data: (*lines.get(1)?).to_owned(),
            // The eighth line is the state, for which pg_ctl waits, too.
            ready: lines.get(7).is_some_and(|state| state.trim() == "ready"),
        })
    }
}

/// Returns the postmaster of a data directory, if it runs and is verified: the file names this directory, and
/// the process was started on it and is called `postgres`. If its start was recorded, its start time must be
/// the same.
pub(crate) fn find(data: &Path, recorded: Option<Identity>) -> Option<Identity> {
    let file = PidFile::read(data)?;
    let real = data.canonicalize().ok()?;
    let found = Identity::of(file.pid);
    let same_start = recorded.is_none_or(|r| r.pid != found.pid || r == found);
    let here = Path::new(&file.data).canonicalize().ok()? == real;
    (here && same_start && found.is_alive() && was_started_on(file.pid, &real)).then_some(found)
}

/// Checks the command line rather than the working directory, which is hidden from root in a container
/// without the right to trace.
#[cfg(target_os = "linux")]
fn was_started_on(pid: i32, data: &Path) -> bool {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut arguments = arguments.split(|&byte| byte == 0);
    stat(pid).is_some_and(|stat| stat.name == "postgres")
        && arguments.any(|argument| argument == data.as_os_str().as_encoded_bytes())
}

#[cfg(not(target_os = "linux"))]
fn was_started_on(_pid: i32, _data: &Path) -> bool {
    true
}

struct Stat {
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    name: String,
    state: char,
    started: u64,
}

/// Parses the kernel's line about a process: `pid (name) state …`, with the start as the 22nd field.
fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(line: &str) -> Option<Stat> {
    // The name may contain spaces and parentheses.
    let (before, after) = line.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    Some(Stat {
        name: before.split_once('(')?.1.to_owned(),
        state: fields.next()?.chars().next()?,
        started: fields.nth(18)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn process_identity_includes_its_start_time() {
        let line = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";
        let stat = parse_stat(line).unwrap();
        assert_eq!(
            (stat.name.as_str(), stat.state, stat.started),
            ("a) b (c", 'S', 777)
        );
    }

    #[test]
    fn a_process_that_is_no_postmaster_of_the_directory_is_none() {
        let data = tempfile::tempdir().unwrap();
        let mut bystander = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = bystander.id() as i32;
        let path = data.path().canonicalize().unwrap();
        let text = format!(
            "{pid}\n{}\n0\n0\n\n127.0.0.1\n0 0\nready   \n",
            path.display()
        );
        fs::write(data.path().join("postmaster.pid"), text).unwrap();
        assert!(PidFile::read(data.path()).unwrap().ready);
        let found = find(data.path(), None);
        bystander.kill().unwrap();
        bystander.wait().unwrap();
        assert_eq!(found, None);
    }

    #[test]
    fn the_end_of_a_process_is_seen() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let identity = Identity::of(child.id() as i32);
        assert!(identity.is_alive());
        assert!(
            !Identity {
                started: Some(1),
                ..identity
            }
            .is_alive()
        );
        identity.signal(libc::SIGKILL);
        assert!(identity.wait_for_end(Duration::from_secs(60)));
        child.wait().unwrap();
    }
}
