//! CPU time, as the kernel counts it (Linux, proc(5)): of this process, of a server's processes, and
//! of the machine.

use std::fs;

/// `/proc` counts in these: USER_HZ is 100 on every architecture that Linux has today.
const TICK_US: u64 = 10_000;

/// What was used so far, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// By this process, all of its threads.
    pub(crate) client_us: Option<u64>,
    /// By the server's processes, ended ones too.
    pub(crate) server_us: Option<u64>,
    /// By everything on the machine, over all its cores, and how much there was.
    pub(crate) machine_us: Option<(u64, u64)>,
}

impl Used {
    /// Reads it now. `postmaster`: the server's first process, if it is one of this machine.
    pub(crate) fn now(postmaster: Option<i32>) -> Used {
        let own = fs::read_to_string("/proc/self/stat").ok();
        Used {
            client_us: own.and_then(|text| Some(Stat::read(&text)?.own_us())),
            server_us: postmaster.and_then(server_us),
            machine_us: fs::read_to_string("/proc/stat")
                .ok()
                .and_then(|text| machine_us(&text)),
        }
    }
}

/// A process, as `/proc/PID/stat` tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: i32,
    own: u64,
}

impl Stat {
    fn read(text: &str) -> Option<Stat> {
        // The name stands in parentheses and may hold some.
        let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
        // Field 3 of proc(5) is the first here: 4 ppid, 14 utime, 15 stime.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Stat {
            parent: fields.get(1)?.parse().ok()?,
            own: number(14)? + number(15)?,
        })
    }

    fn own_us(&self) -> u64 {
        self.own * TICK_US
    }
}

/// What a server and its processes have used, those that ended among them.
fn server_us(postmaster: i32) -> Option<u64> {
    Some(observe::profile::server_cpu_ns(u32::try_from(postmaster).ok()?)? / 1_000)
}

/// Used and in all, from the first line of `/proc/stat`.
fn machine_us(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .map_while(|one| one.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guest times are within user and nice.
    let all: u64 = fields.get(..8)?.iter().sum();
    let idle = fields[3] + fields[4];
    Some(((all - idle) * TICK_US, all * TICK_US))
}

/// The first process of the server that has this backend, if the backend is a process of this machine:
/// its title says what the server says of it.
pub(crate) fn postmaster_of(backend: i32, user: &str, database: &str) -> Option<i32> {
    let title = fs::read(format!("/proc/{backend}/cmdline")).ok()?;
    let title = String::from_utf8_lossy(&title);
    if !title.starts_with("postgres: ") || !title.contains(user) || !title.contains(database) {
        return None;
    }
    let stat = fs::read_to_string(format!("/proc/{backend}/stat")).ok()?;
    Some(Stat::read(&stat)?.parent).filter(|parent| *parent > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_whatever_the_process_is_called() {
        let text =
            "4242 (post) (gres) S 17 4242 4242 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 99 1 2";
        let stat = Stat {
            parent: 17,
            own: 200,
        };
        assert_eq!(Stat::read(text), Some(stat));
        assert_eq!(stat.own_us(), 2_000_000);
        assert_eq!(Stat::read("no parenthesis"), None);
    }

    #[test]
    fn a_machine_waits_while_its_disk_works() {
        let text = "cpu  100 5 45 800 50 1 2 7 9 9\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(machine_us(text), Some((1_600_000, 10_100_000)));
        assert_eq!(machine_us("intr 1 2 3"), None);
    }

    #[test]
    fn this_process_uses_time() {
        let before = Used::now(Some(std::process::id() as i32));
        let mut number = 1u64;
        loop {
            for _ in 0..1_000_000 {
                number = std::hint::black_box(number.wrapping_mul(3));
            }
            let now = Used::now(Some(std::process::id() as i32));
            if now.client_us > before.client_us && now.server_us > before.server_us {
                assert!(now.machine_us.unwrap().0 >= before.machine_us.unwrap().0);
                return;
            }
        }
    }
}
