//! Counts the server's CPU time with the kernel's task counters, by `perf stat`.
//!
//! The time in `/proc` is the scheduler's, which may charge a woken process with time of another
//! ([`sample_coverage`](super::sample_coverage)). The event `task-clock` reads the clock at each switch from
//! and to a counted process (`task_clock_event_update` of `kernel/events/core.c`), so it is exact even if
//! switches are frequent. It costs the server a few tenths of a microsecond per switch.
//!
//! It counts the existing processes, all that the postmaster creates from then on, and their children
//! (`archive_command`). A process that is created while the counters are opened might be missed, so they are
//! then opened again. Time that the hypervisor takes from a running process is included here, but not in the
//! scheduler's count.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::perf;
use crate::perf::{BEGUN_MARK, START_UP};
use crate::processes;

const EVENT: &str = "task-clock";
/// Maximum number of attempts to open the counters without a process starting or ending meanwhile.
const ATTEMPTS: u32 = 5;
/// Message of `perf` for a process that does not exist (`Problems finding threads of monitor`).
const ENDED_PROCESS: &str = "finding threads";
/// Time limit for the end of `perf`, and the polling interval.
const END_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Running counters.
pub struct TaskClockCounter {
    child: Child,
    stdin: Option<ChildStdin>,
    begun: Receiver<()>,
    complaint: Option<JoinHandle<String>>,
}

impl TaskClockCounter {
    /// Starts to count the CPU time of a server's processes and of those that they create.
    ///
    /// # Errors
    /// The message of `perf` if it fails, or if processes start and end too frequently.
    pub fn start(perf: &str, postmaster: u32) -> Result<Self, String> {
        let needs = |reason| {
            format!(
                "{reason} (they need root, CAP_PERFMON or the server's own user, and a descriptor for each of its processes)"
            )
        };
        for _ in 0..ATTEMPTS {
            let family = processes::family(postmaster);
            let list: Vec<u32> = family.iter().copied().collect();
            // If one process has ended meanwhile, perf refuses all.
            match Self::open(perf, &list) {
                Ok(counting) if processes::family(postmaster).is_subset(&family) => {
                    return Ok(counting);
                }
                Ok(_) => {}
                Err(reason) if reason.contains(ENDED_PROCESS) => {}
                Err(reason) => return Err(needs(reason)),
            }
        }
        Err("the server's processes come and go while counters are opened".to_owned())
    }

    fn open(perf: &str, processes: &[u32]) -> Result<Self, String> {
        let list: Vec<String> = processes.iter().map(u32::to_string).collect();
        let mut child = Command::new(perf)
            // A signal to the process group of this process does not reach `perf`, so the counting ends in
            // order.
            .process_group(0)
            .env("LC_ALL", "C")
            .args(["stat", "-x", ";", "--log-fd", "1", "-e", EVENT, "-p"])
            .arg(list.join(","))
            // Like a recording, it lasts until its input is closed.
            .args(["--", "sh", "-c"])
            .arg(format!("echo '{BEGUN_MARK}' >&2; exec cat"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("perf stat cannot be started: {error}"))?;
        let stderr = child.stderr.take().expect("it is piped");
        let (tell, begun) = channel();
        let mut counting = TaskClockCounter {
            stdin: child.stdin.take(),
            complaint: Some(std::thread::spawn(move || {
                perf::read_complaint(stderr, &tell)
            })),
            begun,
            child,
        };
        match counting.begun.recv_timeout(START_UP) {
            Ok(()) => Ok(counting),
            Err(_) => Err(match counting.close() {
                Err(reason) => reason,
                Ok(_) => "perf stat did not begin to count".to_owned(),
            }),
        }
    }

    /// Ends the counting, and returns the CPU time in nanoseconds.
    ///
    /// # Errors
    /// The message of `perf` if it did not count.
    pub fn end(mut self) -> Result<u64, String> {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return Err("perf stat ended before the profile did".to_owned());
        }
        self.close()
    }

    /// Closes the input, which ends `cat`, and with it the counting.
    fn close(&mut self) -> Result<u64, String> {
        drop(self.stdin.take());
        let status = self.wait()?;
        let mut said = String::new();
        if let Some(mut output) = self.child.stdout.take() {
            output
                .read_to_string(&mut said)
                .map_err(|error| format!("perf stat was not understood: {error}"))?;
        }
        let complaint = self.complaint.take().and_then(|thread| thread.join().ok());
        match (status.success(), parse_count_ns(&said)) {
            (true, Some(ns)) => Ok(ns),
            (true, None) => Err(format!("perf stat counted nothing: {}", said.trim())),
            (false, _) => Err(perf::first_line(&complaint.unwrap_or_default())
                .unwrap_or_else(|| format!("perf stat ended with {status}"))),
        }
    }

    /// Waits with a time limit, after which the process is killed.
    fn wait(&mut self) -> Result<ExitStatus, String> {
        for _ in 0..END_TIMEOUT.as_millis() / POLL_INTERVAL.as_millis() {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => std::thread::sleep(POLL_INTERVAL),
                Err(error) => return Err(error.to_string()),
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        Err("perf stat did not end".to_owned())
    }
}

impl Drop for TaskClockCounter {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.wait();
    }
}

/// Parses the output of `perf stat -x ';'` (`perf-stat(1)`, CSV format): value, unit, event.
fn parse_count_ns(said: &str) -> Option<u64> {
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
    fn task_clock_output_is_parsed() {
        let said =
            "# started on Sun\n\n11472.31;msec;task-clock;11472312456;100.00;1.434;CPUs utilized\n";
        assert_eq!(parse_count_ns(said), Some(11_472_310_000));
        let user = "3.5;msec;task-clock:u;1;100.00;;\n";
        assert_eq!(parse_count_ns(user), Some(3_500_000));
        for none in [
            "",
            "<not counted>;msec;task-clock;0;0.00;;\n",
            "<not supported>;;task-clock;0;100.00;;\n",
            "12;;context-switches;1;100.00;;\n",
            "-1;msec;task-clock;1;100.00;;\n",
        ] {
            assert_eq!(parse_count_ns(none), None, "{none}");
        }
    }

    #[test]
    fn without_perf_there_is_a_reason() {
        let refused = TaskClockCounter::start("/nowhere/perf", std::process::id()).map(|_| ());
        assert!(refused.unwrap_err().contains("cannot be started"));
    }

    /// Replaces perf by a program that exists and does not count.
    #[test]
    fn perf_that_does_not_count_is_an_error() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let perf = |text: &str| {
            let [written, path] = ["text", "perf"].map(|name| directory.path().join(name));
            std::fs::write(&written, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&written, std::fs::Permissions::from_mode(0o755)).unwrap();
            let _ = std::fs::remove_file(&path);
            // The copy was never open in this process. A child of another thread could otherwise inherit an
            // open descriptor, and a file that is open for writing cannot be executed.
            let copied = Command::new("cp").args([&written, &path]).status().unwrap();
            assert!(copied.success());
            path.display().to_string()
        };
        let begun = format!("echo '{BEGUN_MARK}' >&2");
        let refusing = perf("echo 'Access is limited.' >&2; exit 255");
        let reason = TaskClockCounter::open(&refusing, &[1])
            .map(|_| ())
            .unwrap_err();
        assert_eq!(reason, "Access is limited.");
        let early = perf(&begun);
        let mut counting = TaskClockCounter::open(&early, &[1]).unwrap();
        while matches!(counting.child.try_wait(), Ok(None)) {
            std::thread::sleep(POLL_INTERVAL);
        }
        assert!(counting.end().unwrap_err().contains("before the profile"));
        let silent = perf(&format!("{begun}; cat"));
        let counting = TaskClockCounter::open(&silent, &[1]).unwrap();
        assert!(counting.end().unwrap_err().contains("counted nothing"));
        let counts = perf(&format!(
            "{begun}; cat; echo '2.5;msec;task-clock;1;100.00;;'"
        ));
        assert_eq!(
            TaskClockCounter::open(&counts, &[1]).unwrap().end(),
            Ok(2_500_000)
        );
    }
}
