//! The server's processor time by the kernel's own counters of tasks, with `perf stat`.
//!
//! The time that `/proc` tells is the scheduler's, which may charge who is woken with what another did
//! ([`beside_kernel`](super::beside_kernel)). The event `task-clock` reads the clock at each switch from and to a process
//! that it counts (`task_clock_event_update` of `kernel/events/core.c`), and so is exact where switches are many; it costs
//! the server some tenths of a microsecond at each of them.
//!
//! Counted are the processes that are there, all that the postmaster makes from then on, and what those start
//! (`archive_command`). Where one comes while the counters are opened it might be missing, so they are opened anew. What the
//! hypervisor takes from a process that runs is in its time here, and not in the scheduler's.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::perf;
use crate::perf::{BEGUN, START_UP};
use crate::processes;

const EVENT: &str = "task-clock";
/// How often counters are opened until nobody comes or goes meanwhile.
const TRIES: u32 = 5;
/// What `perf` says of a process that is not there (`Problems finding threads of monitor`).
const GONE: &str = "finding threads";
/// How long `perf` may take to end, and how often it is looked at.
const ENDING: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Counters under way.
pub struct Counting {
    child: Child,
    stdin: Option<ChildStdin>,
    begun: Receiver<()>,
    complaint: Option<JoinHandle<String>>,
}

impl Counting {
    /// Begins to count what a server's processes use, and those that they make.
    ///
    /// # Errors
    /// With what `perf` says if it does not count, or where processes come and go all the time.
    pub fn start(perf: &str, postmaster: u32) -> Result<Self, String> {
        let needs = |reason| {
            format!(
                "{reason} (they need root, CAP_PERFMON or the server's own user, and a descriptor for each of its processes)"
            )
        };
        for _ in 0..TRIES {
            let family = processes::family(postmaster);
            let list: Vec<u32> = family.iter().copied().collect();
            // One that went meanwhile is enough for perf to refuse.
            match Self::of(perf, &list) {
                Ok(counting) if processes::family(postmaster).is_subset(&family) => {
                    return Ok(counting);
                }
                Ok(_) => {}
                Err(reason) if reason.contains(GONE) => {}
                Err(reason) => return Err(needs(reason)),
            }
        }
        Err("the server's processes come and go while counters are opened".to_owned())
    }

    fn of(perf: &str, processes: &[u32]) -> Result<Self, String> {
        let list: Vec<String> = processes.iter().map(u32::to_string).collect();
        let mut child = Command::new(perf)
            // A signal that is meant for this process ends the counting in order.
            .process_group(0)
            .env("LC_ALL", "C")
            .args(["stat", "-x", ";", "--log-fd", "1", "-e", EVENT, "-p"])
            .arg(list.join(","))
            // As a recording, it lasts until its input is closed.
            .args(["--", "sh", "-c"])
            .arg(format!("echo '{BEGUN}' >&2; exec cat"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("perf stat cannot be started: {error}"))?;
        let stderr = child.stderr.take().expect("it is piped");
        let (tell, begun) = channel();
        let mut counting = Counting {
            stdin: child.stdin.take(),
            complaint: Some(std::thread::spawn(move || perf::complaint(stderr, &tell))),
            begun,
            child,
        };
        match counting.begun.recv_timeout(START_UP) {
            Ok(()) => Ok(counting),
            Err(_) => Err(match counting.let_go() {
                Err(reason) => reason,
                Ok(_) => "perf stat did not begin to count".to_owned(),
            }),
        }
    }

    /// What they used until now, in nanoseconds.
    ///
    /// # Errors
    /// With what `perf` says if it did not count.
    pub fn end(mut self) -> Result<u64, String> {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return Err("perf stat ended before the profile did".to_owned());
        }
        self.let_go()
    }

    /// Without its input `cat` ends, and with it the counting.
    fn let_go(&mut self) -> Result<u64, String> {
        drop(self.stdin.take());
        let status = self.wait()?;
        let mut said = String::new();
        if let Some(mut output) = self.child.stdout.take() {
            output
                .read_to_string(&mut said)
                .map_err(|error| format!("perf stat was not understood: {error}"))?;
        }
        let complaint = self.complaint.take().and_then(|thread| thread.join().ok());
        match (status.success(), counted_ns(&said)) {
            (true, Some(ns)) => Ok(ns),
            (true, None) => Err(format!("perf stat counted nothing: {}", said.trim())),
            (false, _) => Err(perf::first_line(&complaint.unwrap_or_default())
                .unwrap_or_else(|| format!("perf stat ended with {status}"))),
        }
    }

    /// One that does not end is ended: nobody waits for it for ever.
    fn wait(&mut self) -> Result<ExitStatus, String> {
        for _ in 0..ENDING.as_millis() / LOOK_EVERY.as_millis() {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => std::thread::sleep(LOOK_EVERY),
                Err(error) => return Err(error.to_string()),
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        Err("perf stat did not end".to_owned())
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.wait();
    }
}

/// Of what `perf stat -x ';'` prints (`perf-stat(1)`, CSV format): value, unit, event.
fn counted_ns(said: &str) -> Option<u64> {
    said.lines().find_map(|line| {
        let mut fields = line.split(';');
        let value: f64 = fields.next()?.trim().parse().ok()?;
        let unit = fields.next()?;
        let event = fields.next()?;
        (unit == "msec" && event.starts_with(EVENT) && value >= 0.0)
            .then(|| (value * 1e6).round() as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_read_and_what_is_none_is_not() {
        let said =
            "# started on Sun\n\n11472.31;msec;task-clock;11472312456;100.00;1.434;CPUs utilized\n";
        assert_eq!(counted_ns(said), Some(11_472_310_000));
        let user = "3.5;msec;task-clock:u;1;100.00;;\n";
        assert_eq!(counted_ns(user), Some(3_500_000));
        for none in [
            "",
            "<not counted>;msec;task-clock;0;0.00;;\n",
            "<not supported>;;task-clock;0;100.00;;\n",
            "12;;context-switches;1;100.00;;\n",
            "-1;msec;task-clock;1;100.00;;\n",
        ] {
            assert_eq!(counted_ns(none), None, "{none}");
        }
    }

    #[test]
    fn without_perf_there_is_a_reason() {
        let refused = Counting::start("/nowhere/perf", std::process::id()).map(|_| ());
        assert!(refused.unwrap_err().contains("cannot be started"));
    }

    /// Stands in for a perf that is there and does not count.
    #[test]
    fn who_does_not_begin_or_does_not_count_is_no_count() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let perf = |text: &str| {
            let [written, path] = ["text", "perf"].map(|name| directory.path().join(name));
            std::fs::write(&written, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&written, std::fs::Permissions::from_mode(0o755)).unwrap();
            let _ = std::fs::remove_file(&path);
            // A copy that this process never had open: what one of its other threads starts meanwhile would hold it, and
            // what is open for writing cannot be run.
            let copied = Command::new("cp").args([&written, &path]).status().unwrap();
            assert!(copied.success());
            path.display().to_string()
        };
        let begun = format!("echo '{BEGUN}' >&2");
        let refusing = perf("echo 'Access is limited.' >&2; exit 255");
        let reason = Counting::of(&refusing, &[1]).map(|_| ()).unwrap_err();
        assert_eq!(reason, "Access is limited.");
        let early = perf(&begun);
        let mut counting = Counting::of(&early, &[1]).unwrap();
        while matches!(counting.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK_EVERY);
        }
        assert!(counting.end().unwrap_err().contains("before the profile"));
        let silent = perf(&format!("{begun}; cat"));
        let counting = Counting::of(&silent, &[1]).unwrap();
        assert!(counting.end().unwrap_err().contains("counted nothing"));
        let counts = perf(&format!(
            "{begun}; cat; echo '2.5;msec;task-clock;1;100.00;;'"
        ));
        assert_eq!(Counting::of(&counts, &[1]).unwrap().end(), Ok(2_500_000));
    }
}
