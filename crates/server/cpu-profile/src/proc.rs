//! Parses files of `/proc` (proc(5); the kernel's `Documentation/filesystems/proc.rst`,
//! `Documentation/accounting/psi.rst`).

/// `USER_HZ`: unit of CPU time in `/proc`, the same on all machines that PostgreSQL runs on
/// (`include/asm-generic/param.h`).
const TICKS_A_SECOND: f64 = 100.0;
/// Nanoseconds in one of these units.
const NS_IN_TICK: u64 = 10_000_000;
const SECTOR_BYTES: f64 = 512.0;

/// Names with their values.
pub type Series = Vec<(&'static str, f64)>;

/// Modes of processors, in the order of `/proc/stat`. Guest time is included in `user`.
pub const MODES: [&str; 8] = [
    "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal",
];

/// Returns the seconds of all processors by mode, from `/proc/stat`.
pub fn processors(stat: &str) -> Series {
    let mut series: Series = Vec::new();
    for line in stat.lines() {
        let mut fields = line.split_ascii_whitespace();
        match fields.next() {
            Some("cpu") => {
                let ticks = fields.map(|field| field.parse::<f64>().unwrap_or(0.0));
                series.extend(
                    MODES
                        .into_iter()
                        .zip(ticks.map(|ticks| ticks / TICKS_A_SECOND)),
                );
            }
            Some("ctxt") => series.extend(first("context_switches", fields.next())),
            _ => {}
        }
    }
    let count = stat
        .lines()
        .filter(|line| {
            let name = line.split_ascii_whitespace().next().unwrap_or_default();
            name.len() > 3 && name.starts_with("cpu")
        })
        .count();
    series.push(("processors", count as f64));
    series
}

fn first(name: &'static str, field: Option<&str>) -> Option<(&'static str, f64)> {
    Some((name, field?.parse().ok()?))
}

/// Returns bytes, from `/proc/meminfo`.
pub fn memory(meminfo: &str) -> Series {
    const WANTED: [(&str, &str); 6] = [
        ("MemTotal", "total"),
        ("MemAvailable", "available"),
        ("Cached", "cached"),
        ("Dirty", "dirty"),
        ("Writeback", "writeback"),
        ("SwapFree", "swap_free"),
    ];
    let mut series = Vec::new();
    for line in meminfo.lines() {
        let Some((name, rest)) = line.split_once(':') else {
            continue;
        };
        let Some((_, ours)) = WANTED.iter().find(|(wanted, _)| *wanted == name) else {
            continue;
        };
        let kib = rest.trim().trim_end_matches("kB").trim().parse::<f64>();
        if let Ok(kib) = kib {
            series.push((*ours, kib * 1024.0));
        }
    }
    series
}

/// Returns the counters of each device, from `/proc/diskstats`.
pub fn disks(diskstats: &str) -> Vec<(&str, Series)> {
    let mut all = Vec::new();
    for line in diskstats.lines() {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |place: usize| {
            fields
                .get(place)
                .and_then(|field| field.parse::<f64>().ok())
        };
        let Some(name) = fields.get(2) else { continue };
        let places = [
            ("reads", 3, 1.0),
            ("read_bytes", 5, SECTOR_BYTES),
            ("read_seconds", 6, 1e-3),
            ("writes", 7, 1.0),
            ("written_bytes", 9, SECTOR_BYTES),
            ("write_seconds", 10, 1e-3),
            ("busy_seconds", 12, 1e-3),
        ];
        let series: Series = places
            .into_iter()
            .filter_map(|(ours, place, unit)| Some((ours, number(place)? * unit)))
            .collect();
        if series.iter().any(|(_, value)| *value > 0.0) {
            all.push((*name, series));
        }
    }
    all
}

/// Returns the counters of each interface, from `/proc/net/dev`.
pub fn network(dev: &str) -> Vec<(&str, Series)> {
    let mut all = Vec::new();
    for line in dev.lines() {
        let Some((name, rest)) = line.split_once(':') else {
            continue;
        };
        let fields: Vec<f64> = rest
            .split_ascii_whitespace()
            .map(|field| field.parse().unwrap_or(0.0))
            .collect();
        if fields.len() < 12 {
            continue;
        }
        let series = vec![
            ("received_bytes", fields[0]),
            ("received_packets", fields[1]),
            ("receive_dropped", fields[3]),
            ("sent_bytes", fields[8]),
            ("sent_packets", fields[9]),
            ("send_dropped", fields[11]),
        ];
        all.push((name.trim(), series));
    }
    all
}

/// Returns the seconds in which some or all tasks waited for a resource, from `/proc/pressure/…`.
pub fn pressure(text: &str) -> Series {
    let mut series = Vec::new();
    for line in text.lines() {
        let name = match line.split_ascii_whitespace().next() {
            Some("some") => "some_seconds",
            Some("full") => "full_seconds",
            _ => continue,
        };
        let total = line.split("total=").nth(1);
        if let Some(micros) = total.and_then(|total| total.trim().parse::<f64>().ok()) {
            series.push((name, micros / 1e6));
        }
    }
    series
}

/// A process, from `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Name.
    pub name: String,
    /// Process id of its parent.
    pub parent: u32,
    /// CPU time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// CPU time in user mode of children that have ended and been waited for, with their children, in nanoseconds.
    pub children_user_ns: u64,
    /// CPU time in the kernel of these children, in nanoseconds.
    pub children_system_ns: u64,
    /// Time from the machine's start to that of the process, in nanoseconds.
    pub started_ns: u64,
}

/// Parses `/proc/PID/stat`. The name is in parentheses and may contain any, so fields count from the last
/// one.
pub fn process(stat: &str) -> Option<Process> {
    let (head, rest) = stat.rsplit_once(')')?;
    let (pid, name) = head.split_once('(')?;
    // From the third field on: state, parent …
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let ns = |field: usize| Some(number(field)? * NS_IN_TICK);
    Some(Process {
        pid: pid.trim().parse().ok()?,
        name: name.to_owned(),
        parent: u32::try_from(number(4)?).ok()?,
        user_ns: ns(14)?,
        system_ns: ns(15)?,
        children_user_ns: ns(16)?,
        children_system_ns: ns(17)?,
        started_ns: ns(22)?,
    })
}

/// Returns the kind of a server process by its title: `client` for a session, otherwise the name in the
/// title.
pub fn title(cmdline: &str) -> Option<String> {
    let title = cmdline
        .trim_end_matches(['\0', ' '])
        .strip_prefix("postgres: ")?;
    const OWN: [&str; 13] = [
        "checkpointer",
        "background writer",
        "walwriter",
        "autovacuum launcher",
        "autovacuum worker",
        "logical replication",
        "parallel worker",
        "archiver",
        "stats collector",
        "startup",
        "walreceiver",
        "walsender",
        "io worker",
    ];
    let own = OWN.iter().find(|own| title.contains(*own));
    Some(own.map_or_else(|| "client".to_owned(), |own| (*own).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'s>(all: &'s [(&str, Series)], name: &str) -> &'s Series {
        &all.iter().find(|(known, _)| *known == name).unwrap().1
    }

    fn value(series: &Series, name: &str) -> f64 {
        series.iter().find(|(known, _)| *known == name).unwrap().1
    }

    #[test]
    fn times_of_processors_are_seconds() {
        let stat = "cpu  150 2 300 4000 50 6 7 8 9 10\ncpu0 1 2\ncpu1 1 2\nintr 5\nctxt 77\n";
        let series = processors(stat);
        assert_eq!(value(&series, "user"), 1.5);
        assert_eq!(value(&series, "steal"), 0.08);
        assert_eq!(value(&series, "processors"), 2.0);
        assert_eq!(value(&series, "context_switches"), 77.0);
    }

    #[test]
    fn memory_is_bytes() {
        let series = memory("MemTotal:    1000 kB\nOther: 3 kB\nDirty:  2 kB\n");
        assert_eq!(series, [("total", 1_024_000.0), ("dirty", 2048.0)]);
    }

    #[test]
    fn devices_and_interfaces_are_separate() {
        let all = disks(
            " 254 0 vda 10 1 16 2000 20 2 32 4000 0 500 6000\n 7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n",
        );
        assert_eq!(all.len(), 1);
        let vda = of(&all, "vda");
        assert_eq!(value(vda, "read_bytes"), 8192.0);
        assert_eq!(value(vda, "busy_seconds"), 0.5);
        let net = network(
            "Inter-| Receive\n face |bytes\n  lo: 5 1 0 2 0 0 0 0 7 3 0 4 0 0 0 0\neth0:1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n",
        );
        assert_eq!(value(of(&net, "lo"), "sent_bytes"), 7.0);
        assert_eq!(value(of(&net, "lo"), "send_dropped"), 4.0);
    }

    #[test]
    fn a_process_may_have_any_name() {
        let stat = "12 (a) b) S 7 1 1 0 -1 0 0 0 0 0 150 50 300 400 20 0 1 0 5";
        let process = process(stat).unwrap();
        assert_eq!((process.pid, process.parent), (12, 7));
        assert_eq!(process.name, "a) b");
        assert_eq!(
            (process.user_ns, process.system_ns),
            (1_500_000_000, 500_000_000)
        );
        assert_eq!(process.children_user_ns, 3_000_000_000);
        assert_eq!(process.children_system_ns, 4_000_000_000);
        assert_eq!(process.started_ns, 50_000_000);
        assert_eq!(super::process("12 (a"), None);
    }

    #[test]
    fn process_title_has_the_kind() {
        let is = |title: &str| super::title(title);
        assert_eq!(
            is("postgres: checkpointer \0\0").as_deref(),
            Some("checkpointer")
        );
        assert_eq!(
            is("postgres: main: app shop 127.0.0.1(5) idle\0").as_deref(),
            Some("client")
        );
        assert_eq!(is("/usr/bin/bash\0"), None);
    }

    #[test]
    fn pressure_is_seconds() {
        let text =
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=5\n";
        assert_eq!(
            pressure(text),
            [("some_seconds", 1.5), ("full_seconds", 5e-6)]
        );
    }
}
