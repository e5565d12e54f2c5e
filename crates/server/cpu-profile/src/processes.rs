//! Reads the server's processes on this machine from `/proc` (`proc(5)`).

use std::collections::BTreeSet;
use std::fs;

use crate::proc;
use crate::proc::Process;

/// Maximum number of attempts to read a server's processes without one ending meanwhile.
const ATTEMPTS_MAX: u32 = 50;

/// Reads a process; `None` if there is none.
pub fn process(pid: u32) -> Option<Process> {
    proc::process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns the start time of a process, in seconds since 1970.
pub fn started_s(process: &Process) -> Option<f64> {
    Some(booted_s()? as f64 + process.started_ns as f64 / 1e9)
}

/// Returns the start time of the machine, in seconds since 1970.
fn booted_s() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

/// Returns the live children of `parent`.
pub fn children(parent: u32) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse::<u32>().ok()?;
            process(pid)
        })
        .filter(|process| process.parent == parent)
        .collect()
}

/// Returns the CPU time of a server's processes since its start, in nanoseconds: the postmaster's, that of
/// its children, and of those that have ended. `kernel` includes time in the kernel.
pub fn cpu_ns(postmaster: u32, kernel: bool) -> Option<u64> {
    // A process that ends between the two reads would be counted twice or not at all, so both are repeated.
    let mut own = process(postmaster)?;
    let mut alive = children(postmaster);
    for _ in 0..ATTEMPTS_MAX {
        let again = process(postmaster)?;
        let ended = |one: &Process| (one.children_user_ns, one.children_system_ns);
        let is_steady = ended(&again) == ended(&own);
        own = again;
        if is_steady {
            break;
        }
        alive = children(postmaster);
    }
    let of = |process: &Process| process.user_ns + if kernel { process.system_ns } else { 0 };
    let ended = own.children_user_ns + if kernel { own.children_system_ns } else { 0 };
    Some(of(&own) + ended + alive.iter().map(of).sum::<u64>())
}

/// Returns the process ids of a server, including the postmaster's.
pub fn family(postmaster: u32) -> BTreeSet<u32> {
    let mut family: BTreeSet<u32> = children(postmaster).iter().map(|one| one.pid).collect();
    family.insert(postmaster);
    family
}

/// Returns the effective user of a process.
pub fn user_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Whether this process may record all others (`CAP_PERFMON`, or `CAP_SYS_ADMIN`; `capabilities(7)`).
pub fn may_watch_all() -> bool {
    const SYS_ADMIN: u32 = 21;
    const PERFMON: u32 = 38;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok());
    bits.is_some_and(|bits| bits & (1 << SYS_ADMIN | 1 << PERFMON) != 0)
}

/// Returns `kernel.perf_event_paranoid`; `None` if the setting does not exist.
pub fn paranoid() -> Option<i64> {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of an ended process is neither lost nor counted twice, whenever it ends: 24 processes work
    /// briefly and end while their family is read repeatedly.
    #[test]
    fn the_time_of_a_family_never_goes_back_while_its_members_end() {
        use std::io::Read;
        use std::process::{Command, Stdio};
        use std::sync::atomic::{AtomicBool, Ordering};

        let mut parent = Command::new("sh")
            .arg("-c")
            .arg(
                "for round in 1 2 3 4 5 6; do \
                   for one in 1 2 3 4; do \
                     (i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done) & \
                   done; \
                   wait; \
                 done; echo over; read line",
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = parent.id();
        let over = AtomicBool::new(false);
        let readings = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut readings = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    readings.push(cpu_ns(pid, true).unwrap());
                }
                readings
            });
            let said = parent.stdout.as_mut().unwrap().read(&mut [0; 8]).unwrap();
            assert!(said > 0);
            over.store(true, Ordering::Relaxed);
            reader.join().unwrap()
        });
        let shell = process(pid).unwrap();
        drop(parent.stdin.take());
        parent.wait().unwrap();
        let at_end =
            shell.user_ns + shell.system_ns + shell.children_user_ns + shell.children_system_ns;
        assert!(readings.is_sorted(), "{readings:?}");
        assert!(readings.last().is_some_and(|last| *last <= at_end));
        assert!(at_end > readings[0], "{readings:?}");
    }
}
