//! CPU time used so far by this process, by a server's processes, and by the machine.

use std::fs;

use crate::proc;
use crate::profiling::server_cpu_ns;

/// CPU time used so far, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuUsage {
    /// This process, with all its threads.
    pub client_us: Option<u64>,
    /// The server's processes, including those that have ended.
    pub server_us: Option<u64>,
    /// All processors of the machine: used time and total time.
    pub machine_us: Option<(u64, u64)>,
}

impl CpuUsage {
    /// Reads the counters. `postmaster` is the server's first process, if it runs on this machine.
    pub fn now(postmaster: Option<i32>) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let postmaster = postmaster.and_then(|pid| u32::try_from(pid).ok());
        let own = proc::process(&read("/proc/self/stat"));
        CpuUsage {
            client_us: own.map(|own| (own.user_ns + own.system_ns) / 1_000),
            server_us: postmaster.and_then(server_cpu_ns).map(|ns| ns / 1_000),
            machine_us: machine_us(&read("/proc/stat")),
        }
    }
}

fn micros(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

fn machine_us(stat: &str) -> Option<(u64, u64)> {
    let modes = proc::processors(stat);
    let of = |names: &[&str]| -> f64 {
        let wanted = modes.iter().filter(|(name, _)| names.contains(name));
        wanted.map(|(_, seconds)| seconds).sum()
    };
    let (all, idle) = (of(&proc::MODES), of(&["idle", "iowait"]));
    (all > 0.0).then(|| (micros(all - idle), micros(all)))
}

/// Returns the postmaster of a backend, if the backend is a process of this machine: its title names its user
/// and its database.
pub fn postmaster_of(backend: i32, user: &str, database: &str) -> Option<i32> {
    let title = fs::read(format!("/proc/{backend}/cmdline")).ok()?;
    let title = String::from_utf8_lossy(&title);
    if proc::title(&title).is_none() || !title.contains(user) || !title.contains(database) {
        return None;
    }
    let stat = fs::read_to_string(format!("/proc/{backend}/stat")).ok()?;
    let parent = i32::try_from(proc::process(&stat)?.parent).ok()?;
    Some(parent).filter(|parent| *parent > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_waits_while_its_disk_works() {
        let text = "cpu  100 5 45 800 50 1 2 7 9 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(machine_us(text), Some((1_600_000, 10_100_000)));
        assert_eq!(machine_us("intr 1 2 3"), None);
    }

    #[test]
    fn this_process_uses_time() {
        let before = CpuUsage::now(Some(std::process::id() as i32));
        let mut number = 1u64;
        loop {
            for _ in 0..1_000_000 {
                number = std::hint::black_box(number.wrapping_mul(3));
            }
            let now = CpuUsage::now(Some(std::process::id() as i32));
            if now.client_us > before.client_us && now.server_us > before.server_us {
                assert!(now.machine_us.unwrap().0 >= before.machine_us.unwrap().0);
                return;
            }
        }
    }
}
