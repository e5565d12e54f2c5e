//! Reads `/proc` of the server's machine, if it is this one: CPU time by mode and by server process, memory,
//! disks, network, and pressure (PSI).
//!
//! An address does not prove that the machine is this one. The process that the server reports for our
//! connection must exist and name our connection in its title. In another container's namespace it does not.
//!
//! The CPU time of the server is that of its live processes and of those that have ended. The postmaster has
//! waited for those, so the kernel has added their time to its own.

use std::collections::HashMap;
use std::fs;

use run::{Counter, ProbeNote, ProbeState};

use crate::observation_log::ObservationLog;
use crate::probe::{Probe, SampleContext};
use crate::probe_connection::{ProbeConnection, ProbeError, ServerInfo};
use cpu_profile::proc;
use cpu_profile::proc::Series;

/// Reads `/proc`.
#[derive(Default)]
pub(crate) struct MachineProbe {
    postmaster: i32,
    /// Server process of our connection.
    pid: i32,
    last: HashMap<(String, String, &'static str), f64>,
    titles: HashMap<i32, String>,
}

/// Maximum number of attempts to read the server's processes without one ending meanwhile.
const LOOKS_MAX: u32 = 5;

/// Values that rise and fall. The others are cumulative.
const GAUGES: [&str; 7] = [
    "processors",
    "total",
    "available",
    "cached",
    "dirty",
    "writeback",
    "swap_free",
];

impl MachineProbe {
    fn write(&mut self, log: &ObservationLog, source: &str, object: &str, series: Series) {
        let at_ns = log.now_ns();
        for (name, value) in series {
            let key = (source.to_owned(), object.to_owned(), name);
            if self.last.insert(key, value) == Some(value) {
                continue;
            }
            log.add_counter(Counter {
                at_ns,
                source: source.to_owned(),
                object: object.to_owned(),
                name: name.to_owned(),
                value,
                gauge: source == "memory" || GAUGES.contains(&name),
            });
        }
    }

    /// Returns the processes of the server, without the postmaster.
    fn children(&self) -> Vec<i32> {
        let pid = self.postmaster;
        if let Ok(list) = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
            return list
                .split_ascii_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect();
        }
        // Older kernels do not have that file.
        let Ok(all) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        all.flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|child| process_of(*child).is_some_and(|process| process.parent as i32 == pid))
            .collect()
    }

    fn server(&mut self, log: &ObservationLog) {
        let Some(mut postmaster) = process_of(self.postmaster) else {
            return;
        };
        let alive = |probe: &Self| -> Vec<(i32, proc::Process)> {
            let children = probe.children().into_iter();
            children
                .filter_map(|pid| Some((pid, process_of(pid)?)))
                .collect()
        };
        let mut processes = alive(self);
        // A process that ends between the two reads would be counted twice or not at all, so both are
        // repeated.
        for _ in 0..LOOKS_MAX {
            let Some(again) = process_of(self.postmaster) else {
                return;
            };
            let ended = |one: &proc::Process| (one.children_user_ns, one.children_system_ns);
            let is_steady = ended(&again) == ended(&postmaster);
            postmaster = again;
            if is_steady {
                break;
            }
            processes = alive(self);
        }
        let mut user_ns = postmaster.user_ns + postmaster.children_user_ns;
        let mut system_ns = postmaster.system_ns + postmaster.children_system_ns;
        let children: Vec<i32> = processes.iter().map(|(pid, _)| *pid).collect();
        for (pid, process) in processes {
            user_ns += process.user_ns;
            system_ns += process.system_ns;
            // A new process has no title yet.
            let known = self.titles.get(&pid).cloned().or_else(|| title_of(pid));
            let Some(title) = known else { continue };
            self.titles.insert(pid, title.clone());
            let series = vec![
                ("user_seconds", seconds(process.user_ns)),
                ("system_seconds", seconds(process.system_ns)),
            ];
            self.write(log, "process", &format!("{title} {pid}"), series);
        }
        // Titles of ended processes are dropped.
        if self.titles.len() > children.len() {
            let gone: Vec<i32> = self
                .titles
                .keys()
                .filter(|pid| !children.contains(pid))
                .copied()
                .collect();
            for pid in gone {
                if let Some(title) = self.titles.remove(&pid) {
                    let object = format!("{title} {pid}");
                    self.last
                        .retain(|(source, known, _), _| source != "process" || *known != object);
                }
            }
        }
        let series = vec![
            ("user_seconds", seconds(user_ns)),
            ("system_seconds", seconds(system_ns)),
            ("processes", children.len() as f64),
        ];
        self.write(log, "server", "", series);
    }
}

impl Probe for MachineProbe {
    fn name(&self) -> &'static str {
        "machine"
    }

    fn interval_ns(&self) -> i64 {
        1_000_000_000
    }

    fn begin(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
    ) -> Result<(), ProbeError> {
        if !cfg!(target_os = "linux") {
            let why = "counters of the machine are read from /proc, which only Linux has";
            return Err(ProbeError::unsupported(why, "run this on Linux"));
        }
        let known = connection.server();
        self.postmaster = postmaster_here(known)
            .map_err(|why| ProbeError::unsupported(why, "run this on the server's machine"))?;
        self.pid = known.pid;
        if fs::read_to_string("/proc/pressure/cpu").is_err() {
            log.add_note(ProbeNote {
                probe: self.name().to_owned(),
                state: ProbeState::Unseen,
                text: "pressure (PSI): this kernel does not tell".to_owned(),
                remedy: Some("psi=1 on the kernel's command line".to_owned()),
                ..ProbeNote::default()
            });
        }
        Ok(())
    }

    fn sample(
        &mut self,
        connection: &mut ProbeConnection<'_>,
        log: &ObservationLog,
        _: SampleContext,
    ) -> Result<(), ProbeError> {
        // After a lost connection the server may be another one.
        if connection.server().pid != self.pid {
            self.begin(connection, log)?;
        }
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = read("/proc/stat");
        if stat.is_empty() {
            return Err(ProbeError::Failed("/proc/stat cannot be read".to_owned()));
        }
        self.write(log, "cpu", "", proc::processors(&stat));
        self.server(log);
        self.write(log, "memory", "", proc::memory(&read("/proc/meminfo")));
        for (device, series) in proc::disks(&read("/proc/diskstats")) {
            if is_a_disk(device) {
                self.write(log, "disk", device, series);
            }
        }
        let interfaces = read("/proc/net/dev");
        let interfaces = proc::network(&interfaces);
        // Bridges and bonds repeat the traffic of devices. If there is no device (in a container), all
        // interfaces count.
        let is_device = |name: &str| fs::metadata(format!("/sys/class/net/{name}/device")).is_ok();
        let has_devices = interfaces.iter().any(|(name, _)| is_device(name));
        for (interface, series) in interfaces {
            if has_devices && !is_device(interface) && interface != "lo" {
                continue;
            }
            self.write(log, "network", interface, series);
        }
        for what in ["cpu", "memory", "io"] {
            let series = proc::pressure(&read(&format!("/proc/pressure/{what}")));
            self.write(log, "pressure", what, series);
        }
        // CPU time of this program.
        if let Some(own) = proc::process(&read("/proc/self/stat")) {
            let series = vec![
                ("user_seconds", seconds(own.user_ns)),
                ("system_seconds", seconds(own.system_ns)),
            ];
            self.write(log, "rehearse", "", series);
        }
        Ok(())
    }
}

/// Returns the server's postmaster, if it is on this machine; otherwise the reason why it is not found.
pub(crate) fn postmaster_here(known: &ServerInfo) -> Result<i32, String> {
    let elsewhere = |why: &str| {
        format!("{why}: the server is on another machine, or in a container of its own")
    };
    let Ok(cmdline) = fs::read_to_string(format!("/proc/{}/cmdline", known.pid)) else {
        return Err(elsewhere(
            "the server's process of our connection is not here",
        ));
    };
    let end = match known.client_port {
        Some(port) => format!("({port})"),
        None => "[local]".to_owned(),
    };
    let parts = [known.user.as_str(), known.database.as_str(), end.as_str()];
    if proc::title(&cmdline).is_none() || !parts.iter().all(|part| cmdline.contains(part)) {
        return Err(elsewhere(
            "the process with the number of our connection's is another",
        ));
    }
    match process_of(known.pid) {
        Some(process) => Ok(process.parent as i32),
        None => Err(elsewhere("the server's process cannot be looked at")),
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn process_of(pid: i32) -> Option<proc::Process> {
    proc::process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether it is a physical disk. Partitions are counted with their disk, devices made of disks (LVM, RAID) with those
/// disks. Memory and loop devices are none.
fn is_a_disk(device: &str) -> bool {
    let at = format!("/sys/block/{device}");
    let in_memory = ["loop", "ram", "zram"];
    let mut parts = fs::read_dir(format!("{at}/slaves")).into_iter().flatten();
    fs::metadata(&at).is_ok()
        && parts.next().is_none()
        && !in_memory.iter().any(|kind| device.starts_with(kind))
}

fn title_of(pid: i32) -> Option<String> {
    proc::title(&fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?)
}
