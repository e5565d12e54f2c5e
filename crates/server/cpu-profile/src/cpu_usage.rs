//! CPU time used so far by this process, by a server's processes, and by the machine.

use std::fs;

use run::MachineLoad;

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
    /// Time of the processors that the hypervisor stole; part of the used time.
    pub stolen_us: u64,
    /// Number of processors.
    pub processors: u64,
    /// Time in which some process waited for a processor (PSI).
    pub waited_us: Option<u64>,
    /// Time in which this process's control group was throttled.
    pub throttled_us: Option<u64>,
}

impl CpuUsage {
    /// Reads the counters. `postmaster` is the server's first process, if it runs on this machine.
    pub fn now(postmaster: Option<i32>) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let postmaster = postmaster.and_then(|pid| u32::try_from(pid).ok());
        let own = proc::process(&read("/proc/self/stat"));
        let stat = read("/proc/stat");
        let modes = proc::processors(&stat);
        let value = |series: &proc::Series, wanted: &str| {
            let found = series.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| *value)
        };
        let pressure = proc::pressure(&read("/proc/pressure/cpu"));
        CpuUsage {
            client_us: own.map(|own| (own.user_ns + own.system_ns) / 1_000),
            server_us: postmaster.and_then(server_cpu_ns).map(|ns| ns / 1_000),
            machine_us: machine_us(&stat),
            stolen_us: value(&modes, "steal").map_or(0, micros),
            processors: value(&modes, "processors").map_or(0, |count| count as u64),
            waited_us: value(&pressure, "some_seconds").map(micros),
            throttled_us: throttled_us(&read("/proc/self/cgroup"), read),
        }
    }

    /// Returns the load of the machine between an earlier reading and this one; `None` if it is unknown.
    pub fn load_since(&self, begun: &CpuUsage) -> Option<MachineLoad> {
        let (used_before, all_before) = begun.machine_us?;
        let (used_now, all_now) = self.machine_us?;
        let all_us = all_now.checked_sub(all_before).filter(|us| *us > 0)? as f64;
        let elapsed_us = all_us / self.processors.max(1) as f64;
        let used =
            |before: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(before?) as f64);
        let share = |us: f64, of_us: f64| (us / of_us).clamp(0.0, 1.0);
        let server_us = used(begun.server_us, self.server_us);
        let own_us = server_us.zip(used(begun.client_us, self.client_us));
        let used_us = used_now.saturating_sub(used_before) as f64;
        Some(MachineLoad {
            others: own_us.map(|(server, client)| share(used_us - server - client, all_us)),
            stolen: share(
                self.stolen_us.saturating_sub(begun.stolen_us) as f64,
                all_us,
            ),
            waited: used(begun.waited_us, self.waited_us).map(|us| share(us, elapsed_us)),
            throttled: used(begun.throttled_us, self.throttled_us).map(|us| share(us, elapsed_us)),
        })
    }
}

/// Returns the time in which the control group was throttled: `throttled_usec` of version 2, `throttled_time` of
/// version 1 (the kernel's `Documentation/admin-guide/cgroup-v2.rst` and `scheduler/sched-bwc.rst`).
fn throttled_us(groups: &str, read: impl Fn(&str) -> String) -> Option<u64> {
    let mut files = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_end_matches('/'));
        let is_cpu = controllers.split(',').any(|one| one == "cpu");
        match controllers {
            "" => Some(format!("/sys/fs/cgroup{path}/cpu.stat")),
            _ if is_cpu => Some(format!("/sys/fs/cgroup/{controllers}{path}/cpu.stat")),
            _ => None,
        }
    });
    files.find_map(|file| {
        read(&file).lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            let value: u64 = value.trim().parse().ok()?;
            match name {
                "throttled_usec" => Some(value),
                "throttled_time" => Some(value / 1_000),
                _ => None,
            }
        })
    })
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
    fn load_is_what_others_used_and_waited_for() {
        let begun = CpuUsage::default();
        let begun = CpuUsage {
            client_us: Some(0),
            server_us: Some(0),
            machine_us: Some((0, 0)),
            waited_us: Some(0),
            ..begun
        };
        let now = CpuUsage {
            client_us: Some(100_000),
            server_us: Some(500_000),
            machine_us: Some((1_600_000, 2_000_000)),
            stolen_us: 200_000,
            processors: 2,
            waited_us: Some(300_000),
            throttled_us: None,
        };
        let load = now.load_since(&begun).unwrap();
        let close = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
        assert!(close(load.others.unwrap(), 0.5), "{load:?}");
        assert!(close(load.stolen, 0.1), "{load:?}");
        assert!(close(load.waited.unwrap(), 0.3), "{load:?}");
        assert_eq!(load.throttled, None);
        let unseen = CpuUsage {
            server_us: None,
            ..now
        };
        assert_eq!(unseen.load_since(&begun).unwrap().others, None);
    }

    #[test]
    fn throttling_is_read_from_either_version_of_control_groups() {
        let read = |path: &str| match path {
            "/sys/fs/cgroup/a/cpu.stat" => "usage_usec 5\nthrottled_usec 70\n".to_owned(),
            "/sys/fs/cgroup/cpu,cpuacct/b/cpu.stat" => {
                "nr_throttled 1\nthrottled_time 9000\n".to_owned()
            }
            _ => String::new(),
        };
        assert_eq!(throttled_us("0::/a\n", read), Some(70));
        let old = "3:memory:/b\n2:cpu,cpuacct:/b\n0::/\n";
        assert_eq!(throttled_us(old, read), Some(9));
        assert_eq!(throttled_us("0::/\n", read), None);
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
