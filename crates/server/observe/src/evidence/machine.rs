//! Records the machine on which this program runs. If the server is on it, also records the server's process
//! and disk. The sources are files of Linux (proc(5), sysfs(5), cgroups(7)).

use std::fs;
use std::path::{Path, PathBuf};

use run::Moment;

use super::ArtefactList;

/// Names and files to record once. If there are several files, the name of each is its heading.
const BEFORE: [(&str, &[&str]); 28] = [
    ("machine/processors", &["/proc/cpuinfo"]),
    (
        "machine/processors-online",
        &[
            "/sys/devices/system/cpu/online",
            "/sys/devices/system/cpu/possible",
            "/sys/devices/system/cpu/isolated",
            "/sys/devices/system/cpu/nohz_full",
        ],
    ),
    (
        "machine/processors-siblings",
        &[
            "/sys/devices/system/cpu/smt/active",
            "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list",
        ],
    ),
    (
        "machine/processors-frequency",
        &[
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
            "/sys/devices/system/cpu/intel_pstate/no_turbo",
            "/sys/devices/system/cpu/cpufreq/boost",
        ],
    ),
    (
        "machine/processors-idle-states",
        &[
            "/sys/devices/system/cpu/cpuidle/current_driver",
            "/sys/devices/system/cpu/cpuidle/current_governor",
        ],
    ),
    (
        "machine/processors-mitigations",
        &["/sys/devices/system/cpu/vulnerabilities"],
    ),
    (
        "machine/numa",
        &[
            "/sys/devices/system/node/online",
            "/proc/sys/kernel/numa_balancing",
            "/sys/devices/system/node/node0/meminfo",
        ],
    ),
    ("machine/kernel", &["/proc/version"]),
    ("machine/kernel-command-line", &["/proc/cmdline"]),
    ("machine/system", &["/etc/os-release"]),
    (
        "machine/hardware",
        &[
            "/sys/class/dmi/id/sys_vendor",
            "/sys/class/dmi/id/product_name",
            "/sys/class/dmi/id/bios_version",
        ],
    ),
    ("machine/hypervisor", &["/sys/hypervisor/type"]),
    (
        "machine/clock-source",
        &[
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            "/sys/devices/system/clocksource/clocksource0/available_clocksource",
        ],
    ),
    (
        "machine/kernel-scheduler",
        &[
            "/proc/sys/kernel/sched_autogroup_enabled",
            "/proc/sys/kernel/sched_rt_runtime_us",
            "/proc/sys/kernel/sched_cfs_bandwidth_slice_us",
            "/sys/kernel/debug/sched/base_slice_ns",
        ],
    ),
    (
        "machine/kernel-profiling",
        &[
            "/proc/sys/kernel/perf_event_paranoid",
            "/proc/sys/kernel/kptr_restrict",
        ],
    ),
    (
        "machine/kernel-processes",
        &[
            "/proc/sys/kernel/pid_max",
            "/proc/sys/kernel/threads-max",
            "/proc/sys/fs/file-max",
            "/proc/sys/fs/aio-max-nr",
        ],
    ),
    (
        "machine/memory-settings",
        &[
            "/proc/sys/vm/overcommit_memory",
            "/proc/sys/vm/overcommit_ratio",
            "/proc/sys/vm/swappiness",
            "/proc/sys/vm/zone_reclaim_mode",
            "/proc/sys/vm/min_free_kbytes",
            "/proc/sys/vm/vfs_cache_pressure",
        ],
    ),
    (
        "machine/memory-writeback-settings",
        &[
            "/proc/sys/vm/dirty_ratio",
            "/proc/sys/vm/dirty_bytes",
            "/proc/sys/vm/dirty_background_ratio",
            "/proc/sys/vm/dirty_background_bytes",
            "/proc/sys/vm/dirty_expire_centisecs",
            "/proc/sys/vm/dirty_writeback_centisecs",
        ],
    ),
    (
        "machine/huge-pages",
        &[
            "/proc/sys/vm/nr_hugepages",
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/kernel/mm/transparent_hugepage/defrag",
        ],
    ),
    (
        "machine/shared-memory-settings",
        &[
            "/proc/sys/kernel/shmmax",
            "/proc/sys/kernel/shmall",
            "/proc/sys/kernel/shmmni",
            "/proc/sys/kernel/sem",
        ],
    ),
    ("machine/swap", &["/proc/swaps"]),
    (
        "machine/network-settings",
        &[
            "/proc/sys/net/core/somaxconn",
            "/proc/sys/net/core/rmem_max",
            "/proc/sys/net/core/wmem_max",
            "/proc/sys/net/ipv4/tcp_congestion_control",
            "/proc/sys/net/ipv4/tcp_rmem",
            "/proc/sys/net/ipv4/tcp_wmem",
            "/proc/sys/net/ipv4/tcp_slow_start_after_idle",
            "/proc/sys/net/ipv4/ip_local_port_range",
        ],
    ),
    (
        "machine/limits-of-processors",
        &[
            "/sys/fs/cgroup/cpu.max",
            "/sys/fs/cgroup/cpu.weight",
            "/sys/fs/cgroup/cpuset.cpus.effective",
            "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
        ],
    ),
    (
        "machine/limits-of-memory",
        &[
            "/sys/fs/cgroup/memory.max",
            "/sys/fs/cgroup/memory.high",
            "/sys/fs/cgroup/memory.swap.max",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        ],
    ),
    (
        "machine/limits-of-disks",
        &["/sys/fs/cgroup/io.max", "/sys/fs/cgroup/io.weight"],
    ),
    ("machine/limits-of-processes", &["/sys/fs/cgroup/pids.max"]),
    ("machine/limits-of-this-program", &["/proc/self/limits"]),
    ("machine/time-zone", &["/etc/timezone"]),
];

/// Names and files with counters, to record before and after.
const BEFORE_AND_AFTER: [(&str, &[&str]); 13] = [
    ("machine/memory", &["/proc/meminfo"]),
    ("machine/memory-counters", &["/proc/vmstat"]),
    ("machine/processor-time", &["/proc/stat"]),
    ("machine/load", &["/proc/loadavg"]),
    ("machine/uptime", &["/proc/uptime"]),
    ("machine/pressure-processors", &["/proc/pressure/cpu"]),
    ("machine/pressure-memory", &["/proc/pressure/memory"]),
    ("machine/pressure-disks", &["/proc/pressure/io"]),
    ("machine/disks", &["/proc/diskstats"]),
    ("machine/network", &["/proc/net/dev"]),
    ("machine/network-counters", &["/proc/net/snmp"]),
    ("machine/interrupts", &["/proc/softirqs"]),
    (
        "machine/limits-reached",
        &[
            "/sys/fs/cgroup/cpu.stat",
            "/sys/fs/cgroup/memory.events",
            "/sys/fs/cgroup/memory.current",
        ],
    ),
];

/// Collects the files. `postmaster` is the process of the server, or the reason why it is not here.
pub(super) fn gather(
    artefacts: &mut ArtefactList,
    moment: Moment,
    postmaster: &Result<i32, String>,
) {
    if moment == Moment::Before {
        BEFORE
            .iter()
            .for_each(|(name, files)| add_files(artefacts, name, files));
        gather_server(artefacts, postmaster);
    }
    BEFORE_AND_AFTER
        .iter()
        .for_each(|(name, files)| add_files(artefacts, name, files));
}

/// Adds the text of those files that exist.
fn add_files(artefacts: &mut ArtefactList, name: &str, files: &[impl AsRef<Path>]) {
    let how: Vec<String> = files
        .iter()
        .map(|file| file.as_ref().display().to_string())
        .collect();
    let how = how.join(", ");
    let mut content = String::new();
    let mut why = None;
    for file in files {
        match read_text(file.as_ref()) {
            Ok(text) if files.len() == 1 => content = text,
            Ok(text) => {
                let file = file.as_ref().display();
                content.push_str(&format!(
                    "{file}: {}\n",
                    text.trim_end().replace('\n', "\n    ")
                ));
            }
            Err(error) => why = Some(error),
        }
    }
    match (content.is_empty(), why) {
        (true, Some(why)) => artefacts.add_missing(name, &how, why),
        _ => artefacts.add(name, &how, content),
    }
}

/// Returns the text of a file, or of the files in a directory.
fn read_text(path: &Path) -> Result<String, String> {
    let told = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{} is not there", path.display()),
        _ => format!("{}: {error}", path.display()),
    };
    if !path.is_dir() {
        return fs::read_to_string(path).map_err(told);
    }
    let mut files: Vec<PathBuf> = fs::read_dir(path)
        .map_err(told)?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let mut all = String::new();
    for file in files {
        if let (Some(name), Ok(text)) = (file.file_name(), fs::read_to_string(&file)) {
            all.push_str(&format!("{}: {}\n", name.display(), text.trim_end()));
        }
    }
    Ok(all)
}

/// Adds the postmaster's limits, and the file system and device of its data directory.
fn gather_server(artefacts: &mut ArtefactList, postmaster: &Result<i32, String>) {
    const NAMES: [&str; 6] = [
        "server/process-limits",
        "server/process-memory-killer",
        "server/process-control-group",
        "server/process-executable",
        "server/file-system",
        "server/disk",
    ];
    let pid = match postmaster {
        Ok(pid) => *pid,
        Err(why) => {
            for name in NAMES {
                artefacts.add_missing(name, "of the server's process and directory", why.clone());
            }
            return;
        }
    };
    let of = |file: &str| format!("/proc/{pid}/{file}");
    add_files(artefacts, NAMES[0], &[of("limits")]);
    add_files(artefacts, NAMES[1], &[of("oom_score_adj")]);
    add_files(artefacts, NAMES[2], &[of("cgroup")]);
    let executable = of("exe");
    match fs::read_link(&executable) {
        Ok(path) => {
            let bytes = fs::metadata(&executable).map_or(0, |data| data.len());
            artefacts.add(
                NAMES[3],
                &executable,
                format!("{} ({bytes} bytes)\n", path.display()),
            );
        }
        Err(error) => artefacts.add_missing(NAMES[3], &executable, error.to_string()),
    }
    // A postmaster's working directory is its data directory.
    let mounts = of("mountinfo");
    let found = fs::read_link(of("cwd"))
        .map_err(|error| error.to_string())
        .and_then(|data| {
            let mounts = fs::read_to_string(&mounts).map_err(|error| error.to_string())?;
            mount_of(&mounts, &data).ok_or_else(|| "no mount has its data directory".to_owned())
        });
    match found {
        Err(why) => {
            artefacts.add_missing(NAMES[4], &mounts, why.clone());
            artefacts.add_missing(NAMES[5], "of the data directory's device", why);
        }
        Ok(mount) => {
            artefacts.add(
                NAMES[4],
                &mounts,
                format!("{} {} {}\n", mount.kind, mount.options, mount.device),
            );
            let queue = format!("/sys/dev/block/{}/queue", mount.device);
            // A partition uses the queue of its disk.
            let queue = match Path::new(&queue).exists() {
                true => queue,
                false => format!("/sys/dev/block/{}/../queue", mount.device),
            };
            let files = [
                "scheduler",
                "nr_requests",
                "read_ahead_kb",
                "rotational",
                "write_cache",
                "logical_block_size",
            ]
            .map(|file| format!("{queue}/{file}"));
            add_files(artefacts, NAMES[5], &files);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// Options without values. An option of a network file system may hold a password.
    kind: String,
    /// Without values: an option of a network's file system may have a password.
    options: String,
    /// Major and minor number, as `259:1`.
    device: String,
}

/// Finds the mount of a path: the one with the longest mount point above it, the last of several
/// (`Documentation/filesystems/proc.rst`, 3.5).
fn mount_of(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mut best: Option<(usize, Mount)> = None;
    for line in mountinfo.lines() {
        let (before, fields_after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let fields_after: Vec<&str> = fields_after.split(' ').collect();
        let (Some(device), Some(place), Some(options), Some(kind)) = (
            before.get(2),
            before.get(4),
            before.get(5),
            fields_after.first(),
        ) else {
            continue;
        };
        let place = place.replace("\\040", " ");
        if path.starts_with(&place)
            && best
                .as_ref()
                .is_none_or(|(length, _)| *length <= place.len())
        {
            let names: Vec<&str> = options
                .split(',')
                .chain(
                    fields_after
                        .get(2)
                        .into_iter()
                        .flat_map(|more| more.split(',')),
                )
                .map(|option| option.split('=').next().unwrap_or_default())
                .collect();
            let mount = Mount {
                kind: (*kind).to_owned(),
                options: names.join(","),
                device: (*device).to_owned(),
            };
            best = Some((place.len(), mount));
        }
    }
    best.map(|(_, mount)| mount)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw,discard,errors=remount-ro
30 22 0:26 / /var rw - tmpfs tmpfs rw,size=1024k
31 22 0:27 / /var/lib/data\\040x rw,noatime - cifs //host/share rw,username=u,password=secret
";

    #[test]
    fn the_mount_above_a_path_is_found_and_no_value_of_its_options() {
        let of = |path: &str| mount_of(MOUNTS, Path::new(path)).unwrap();
        assert_eq!(of("/home/x").kind, "ext4");
        assert_eq!(of("/home/x").options, "rw,relatime,rw,discard,errors");
        assert_eq!(of("/var/lib/data").kind, "tmpfs");
        let shared = of("/var/lib/data x/pg");
        assert_eq!(shared.kind, "cifs");
        assert_eq!(shared.options, "rw,noatime,rw,username,password");
        assert_eq!(shared.device, "0:27");
    }

    #[test]
    fn missing_file_is_noted_unless_others_exist() {
        let mut artefacts = ArtefactList::default();
        add_files(&mut artefacts, "a", &["/proc/nothing-of-that-name"]);
        add_files(
            &mut artefacts,
            "b",
            &["/proc/nothing-of-that-name", "/proc/uptime"],
        );
        assert!(
            artefacts.all[0]
                .missing
                .as_ref()
                .unwrap()
                .ends_with("is not there")
        );
        assert!(
            artefacts.all[1]
                .content
                .as_ref()
                .unwrap()
                .starts_with("/proc/uptime: ")
        );
    }
}
