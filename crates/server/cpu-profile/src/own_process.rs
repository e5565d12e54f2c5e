//! Linux process statistics for the metrics that Prometheus defines for all programs.
//!
//! Source: proc(5).

use std::fs;

use crate::proc;

/// Statistics of this process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnProcess {
    /// User and system time of all threads, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// Address space, in bytes.
    pub virtual_bytes: u64,
    /// Start time, in seconds since 1970.
    pub start_seconds: f64,
    /// Open file descriptors, including sockets.
    pub open_fds: u64,
    /// Limit of open file descriptors.
    pub max_fds: u64,
    /// Number of threads.
    pub threads: u64,
}

/// Reads the statistics; `None` without `/proc`.
pub fn read() -> Option<OwnProcess> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let open_fds = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    parse(&status, &stat, &limits, &boot, open_fds)
}

fn parse(status: &str, stat: &str, limits: &str, boot: &str, open_fds: u64) -> Option<OwnProcess> {
    let process = proc::process(stat)?;
    let of = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let booted: f64 = boot
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()?;
    let max_fds = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?
        .split_whitespace()
        .next()?;
    Some(OwnProcess {
        cpu_seconds: (process.user_ns + process.system_ns) as f64 / 1e9,
        resident_bytes: of("VmRSS:")? * 1024,
        virtual_bytes: of("VmSize:")? * 1024,
        start_seconds: booted + process.started_ns as f64 / 1e9,
        open_fds,
        max_fds: max_fds.parse().unwrap_or(u64::MAX),
        threads: of("Threads:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proc_says_is_read() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 900 0 0 0 150 50 0 0 20 0 5 0 12345 1 1";
        let status = "Name:\ta\nVmSize:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t5\n";
        let limits = "Limit  Soft  Hard  Units\nMax open files            1024                 4096                 files\n";
        let process = parse(status, stat, limits, "cpu 1 2\nbtime 1000\n", 9).unwrap();
        let expected = OwnProcess {
            cpu_seconds: 2.0,
            resident_bytes: 1 << 20,
            virtual_bytes: 2 << 20,
            start_seconds: 1123.45,
            open_fds: 9,
            max_fds: 1024,
            threads: 5,
        };
        assert_eq!(process, expected);
    }

    #[test]
    fn this_process_has_memory_and_a_start() {
        let process = read().unwrap();
        assert!(process.resident_bytes > 1 << 20 && process.virtual_bytes > process.resident_bytes);
        assert!(process.open_fds >= 3 && process.max_fds >= process.open_fds);
        assert!(process.start_seconds > 1.6e9);
    }
}
