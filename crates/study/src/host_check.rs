//! Finds what this machine has of what the commands use, and what will limit them.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use cpu_profile::{may_watch_all, paranoid};
use event_loop::{address_space_limit, raise_fd_limit};
use sandbox::{Dirs, Source};

/// Least free space, in bytes, that is not reported as a limit: a capture of some minutes fits.
const FREE_BYTES_MIN: u64 = 2 << 30;

/// Number of connections that are asked for. The limit of open files is reported if it allows less.
const CONNECTIONS_WANTED: u64 = 10_000;

/// State of one thing that commands use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostState {
    /// It works.
    Works,
    /// It works within a limit.
    Limited,
    /// It is not there. The commands that use it say so, and others work.
    Missing,
}

/// One thing that commands use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCheck {
    /// Name, in at most 20 characters.
    pub name: &'static str,
    /// Whether it works.
    pub state: HostState,
    /// Finding, a sentence without a full stop.
    pub found: String,
    /// Remedy, if it does not work.
    pub remedy: Option<String>,
}

/// Checks this machine. Nothing is changed but the limit of open files, which is raised as far as is allowed.
pub fn check_host() -> Vec<HostCheck> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let mut checks = servers();
    checks.extend([
        program(
            "psql, pgbench",
            &["psql", "pgbench", "pg_dump"],
            "No command needs them: they are convenient with a sandbox",
        ),
        perf(),
        packets(),
        open_files(),
        address_space(),
        processors(quota(read)),
        memory(read),
    ]);
    checks.extend(match cfg!(target_os = "linux") {
        true => vec![
            timer_slack(read("/proc/self/timerslack_ns")),
            pressure(Path::new("/proc/pressure/cpu").exists()),
        ],
        false => vec![other_system()],
    });
    checks.extend(free_space());
    checks
}

fn works(name: &'static str, found: String) -> HostCheck {
    HostCheck {
        name,
        state: HostState::Works,
        found,
        remedy: None,
    }
}

fn lacks(name: &'static str, state: HostState, found: String, remedy: &str) -> HostCheck {
    HostCheck {
        name,
        state,
        found,
        remedy: Some(remedy.to_owned()),
    }
}

fn servers() -> Vec<HostCheck> {
    const NAME: &str = "PostgreSQL";
    let places = match Dirs::from_environment() {
        Ok(places) => places,
        Err(error) => {
            let remedy = "Set HOME, or REHEARSE_CACHE_DIR and REHEARSE_STATE_DIR";
            return vec![lacks(NAME, HostState::Missing, error.to_string(), remedy)];
        }
    };
    let found = sandbox::installed(&places);
    if found.is_empty() {
        let text = "no server is installed".to_owned();
        let remedy = "A sandbox fetches one, about 12 MB, when it is first needed; or install the package postgresql";
        return vec![lacks(NAME, HostState::Limited, text, remedy)];
    }
    let described = found.iter().map(|server| {
        let origin = match server.source {
            Source::Cache => ", fetched",
            Source::Given | Source::Path | Source::System => "",
        };
        works(
            NAME,
            format!("{} in {}{origin}", server.version, server.bin_dir.display()),
        )
    });
    described.collect()
}

/// Returns the path of a program on the PATH.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

fn program(name: &'static str, programs: &[&str], remedy: &str) -> HostCheck {
    let missing: Vec<&str> = (programs.iter().copied())
        .filter(|program| find_program(program).is_none())
        .collect();
    match missing.is_empty() {
        true => works(name, "found".to_owned()),
        false => {
            let text = format!("not found: {}", missing.join(", "));
            lacks(name, HostState::Missing, text, remedy)
        }
    }
}

/// Source of the setting's meaning: `Documentation/admin-guide/sysctl/kernel.rst` of the kernel.
fn perf() -> HostCheck {
    const NAME: &str = "CPU profiles (perf)";
    if !cfg!(target_os = "linux") {
        let text = "perf records on Linux only".to_owned();
        return lacks(NAME, HostState::Missing, text, "Record on Linux");
    }
    if find_program("perf").is_none() {
        let remedy = "Install the package linux-perf (Debian) or linux-tools-generic (Ubuntu)";
        return lacks(
            NAME,
            HostState::Missing,
            "perf is not found".to_owned(),
            remedy,
        );
    }
    match paranoid() {
        None => {
            let text = "the kernel has no performance events".to_owned();
            let remedy = "Record on a machine whose kernel has them";
            lacks(NAME, HostState::Missing, text, remedy)
        }
        Some(level) if may_watch_all() || level <= 1 => works(
            NAME,
            format!("perf may record (perf_event_paranoid = {level})"),
        ),
        Some(level) => {
            let text =
                format!("perf may record only your own processes (perf_event_paranoid = {level})");
            let remedy = "Run it as root, or set sysctl kernel.perf_event_paranoid=1";
            lacks(NAME, HostState::Limited, text, remedy)
        }
    }
}

fn packets() -> HostCheck {
    const NAME: &str = "Packets (tcpdump)";
    match find_program("tcpdump") {
        Some(_) => works(
            NAME,
            "found; to listen it needs root or CAP_NET_RAW".to_owned(),
        ),
        None => {
            let text = "tcpdump is not found".to_owned();
            let remedy = "Install the package tcpdump where packets are recorded";
            lacks(NAME, HostState::Missing, text, remedy)
        }
    }
}

fn open_files() -> HostCheck {
    const NAME: &str = "Open files";
    match raise_fd_limit(CONNECTIONS_WANTED) {
        Ok(None) => works(
            NAME,
            format!("enough for {CONNECTIONS_WANTED} connections or more"),
        ),
        Ok(Some(connections)) => lacks(
            NAME,
            HostState::Limited,
            format!("enough for {connections} connections"),
            "Raise it with ulimit -Hn, or LimitNOFILE= of the service, if a workload has more sessions at once",
        ),
        Err(error) => lacks(
            NAME,
            HostState::Limited,
            format!("the limit cannot be read: {error}"),
            "Look at ulimit -n",
        ),
    }
}

fn address_space() -> HostCheck {
    const NAME: &str = "Address space";
    match address_space_limit() {
        Ok(Some(bytes)) => lacks(
            NAME,
            HostState::Limited,
            format!("limited to {} MiB", bytes >> 20),
            "Lift it with ulimit -v unlimited: a replay reserves more than it uses",
        ),
        Ok(None) | Err(_) => works(NAME, "not limited".to_owned()),
    }
}

/// Returns the quota of this process's control group, in processors; `None` without one. Source: `cpu.max` in
/// `Documentation/admin-guide/cgroup-v2.rst` of the kernel.
fn quota(read: impl Fn(&str) -> Option<String>) -> Option<f64> {
    let text = read(&own_group_file(&read, "cpu.max")?)?;
    let (quota, period) = text.trim().split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

/// Returns the path of a file of this process's control group, version 2.
fn own_group_file(read: impl Fn(&str) -> Option<String>, file: &str) -> Option<String> {
    let groups = read("/proc/self/cgroup")?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(format!(
        "/sys/fs/cgroup{}/{file}",
        path.trim_end_matches('/')
    ))
}

fn processors(quota: Option<f64>) -> HostCheck {
    const NAME: &str = "Processors";
    let count = available_parallelism().map_or(1, std::num::NonZero::get);
    match quota.filter(|quota| *quota < count as f64) {
        Some(quota) => lacks(
            NAME,
            HostState::Limited,
            format!("{count}, of which the control group may use {quota:.1}"),
            "Times are inconclusive while it is throttled: raise the CPU limit of the container or service",
        ),
        None if count < 2 => lacks(
            NAME,
            HostState::Limited,
            "1".to_owned(),
            "Replay from a machine other than the server's, or compare work instead of times",
        ),
        None => works(NAME, count.to_string()),
    }
}

fn memory(read: impl Fn(&str) -> Option<String>) -> HostCheck {
    const NAME: &str = "Memory";
    let limit = own_group_file(&read, "memory.max")
        .and_then(|file| read(&file))
        .and_then(|text| text.trim().parse::<u64>().ok());
    let available_kib = read("/proc/meminfo").and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    });
    let available = available_kib.map_or("unknown".to_owned(), |kib| {
        format!("{} MiB available", kib >> 10)
    });
    match limit {
        Some(bytes) => lacks(
            NAME,
            HostState::Limited,
            format!(
                "{available}, limited to {} MiB by the control group",
                bytes >> 20
            ),
            "A server in a sandbox counts as well; raise the memory limit if it is ended",
        ),
        None => works(NAME, available),
    }
}

fn other_system() -> HostCheck {
    lacks(
        "Operating system",
        HostState::Limited,
        format!(
            "{}: sockets are polled, and the load of the machine is not read",
            std::env::consts::OS
        ),
        "Replay from Linux if times matter",
    )
}

/// Source: `PR_SET_TIMERSLACK` in prctl(2); the default is 50 µs.
fn timer_slack(text: Option<String>) -> HostCheck {
    const NAME: &str = "Timer slack";
    let slack_ns = text.and_then(|text| text.trim().parse::<u64>().ok());
    match slack_ns {
        None => works(NAME, "set to 1 ns by each replay".to_owned()),
        Some(ns) => works(
            NAME,
            format!("{ns} ns here; each replay sets its own to 1 ns"),
        ),
    }
}

fn pressure(is_there: bool) -> HostCheck {
    const NAME: &str = "Pressure (PSI)";
    match is_there {
        true => works(
            NAME,
            "the kernel reports how long processes waited".to_owned(),
        ),
        false => lacks(
            NAME,
            HostState::Missing,
            "the kernel does not report how long processes waited".to_owned(),
            "Boot with psi=1; without it only the processors' load shows a busy machine",
        ),
    }
}

fn free_space() -> Vec<HostCheck> {
    const NAME: &str = "Disk";
    let mut dirs = vec![PathBuf::from(".")];
    dirs.extend(Dirs::from_environment().ok().map(|places| places.state));
    let existing = dirs
        .into_iter()
        .filter_map(|dir| dir.ancestors().find(|dir| dir.exists()).map(Path::to_owned));
    let checked = existing.filter_map(|dir| {
        let dir = dir.canonicalize().ok()?;
        let free = rustix::fs::statvfs(&dir).ok()?;
        let bytes = free.f_bavail * free.f_frsize;
        let text = format!(
            "{:.1} GiB free in {}",
            bytes as f64 / (1_u64 << 30) as f64,
            dir.display()
        );
        Some(match bytes < FREE_BYTES_MIN {
            true => lacks(
                NAME,
                HostState::Limited,
                text,
                "Free some, or work in another directory",
            ),
            false => works(NAME, text),
        })
    });
    checked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file<'f>(files: &'f [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'f {
        |path| {
            let found = files.iter().find(|(name, _)| *name == path);
            found.map(|(_, text)| (*text).to_owned())
        }
    }

    #[test]
    fn quota_is_that_of_the_own_control_group() {
        let group = ("/proc/self/cgroup", "0::/app/\n");
        let limited = [group, ("/sys/fs/cgroup/app/cpu.max", "150000 100000\n")];
        assert_eq!(quota(file(&limited)), Some(1.5));
        let unlimited = [group, ("/sys/fs/cgroup/app/cpu.max", "max 100000\n")];
        assert_eq!(quota(file(&unlimited)), None);
        assert_eq!(quota(file(&[])), None);
        let check = processors(Some(0.5));
        assert_eq!(check.state, HostState::Limited);
        assert!(check.found.contains("may use 0.5"), "{check:?}");
    }

    #[test]
    fn memory_limit_of_the_control_group_is_said() {
        let files = [
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/memory.max", "536870912\n"),
            (
                "/proc/meminfo",
                "MemTotal: 9 kB\nMemAvailable:    4194304 kB\n",
            ),
        ];
        let check = memory(file(&files));
        assert_eq!(check.state, HostState::Limited);
        assert_eq!(
            check.found,
            "4096 MiB available, limited to 512 MiB by the control group"
        );
        let unlimited = [files[0], ("/sys/fs/cgroup/memory.max", "max\n"), files[2]];
        assert_eq!(memory(file(&unlimited)).state, HostState::Works);
    }

    #[test]
    fn what_is_missing_has_a_remedy() {
        let absent = program("x", &["sh", "no-such-program-here"], "install it");
        assert_eq!(absent.state, HostState::Missing);
        assert_eq!(absent.found, "not found: no-such-program-here");
        assert!(
            check_host()
                .iter()
                .all(|check| (check.state == HostState::Works) == check.remedy.is_none())
        );
    }
}
