//! Counters: by how much each moved, and what those of the machine say together.

use std::collections::HashMap;

use run::Counter;
use schemars::JsonSchema;
use serde::Serialize;

/// Sources of the machine, and of our own.
const MACHINE: [&str; 9] = [
    "cpu",
    "memory",
    "disk",
    "network",
    "pressure",
    "server",
    "process",
    "rehearse",
    "connections",
];
const QUEUE: &str = "queue";

/// The machine while it was watched. Seconds and bytes of all the time together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Machine {
    /// How many processors it has.
    pub processors: f64,
    /// The share of their time in which they did something, from 0 to 1; waiting for disks is none.
    pub busy: f64,
    /// The share in which they had nothing to do because of a disk.
    pub waiting_for_disk: f64,
    /// The share that another machine on the same host took.
    pub stolen: f64,
    /// Processor time of the server's processes in user mode, in seconds.
    pub server_user_s: f64,
    /// Processor time of the server's processes in the kernel, in seconds.
    pub server_system_s: f64,
    /// The time over which that was counted, in seconds.
    pub over_s: f64,
    /// Processor time that watching and replaying took here, in seconds.
    pub own_s: f64,
    /// Memory in all, in bytes.
    pub memory_bytes: f64,
    /// The least memory that was available, in bytes.
    pub memory_available_min_bytes: f64,
    /// Bytes read from disks.
    pub disk_read_bytes: f64,
    /// Bytes written to disks.
    pub disk_written_bytes: f64,
    /// Bytes received over interfaces, without the loopback interface.
    pub network_received_bytes: f64,
    /// Bytes sent over interfaces, without the loopback interface.
    pub network_sent_bytes: f64,
    /// Pressure stall information; `null` unless the kernel has it.
    pub pressure: Option<Pressure>,
}

/// The share of the time in which something stood still for want of a resource, from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Pressure {
    /// A processor.
    pub cpu: f64,
    /// Memory.
    pub memory: f64,
    /// A disk.
    pub io: f64,
}

/// A counter that changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct CounterChange {
    /// The server's view that it is from.
    pub source: String,
    /// The object that it counts for; empty if there is only one.
    pub object: String,
    /// Its name in the view. Times are in the unit of the view.
    pub name: String,
    /// First value.
    pub first: f64,
    /// Last value.
    pub last: f64,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
    /// Increase, with what it lost at resets added; of a gauge, last less first.
    pub delta: f64,
    /// Whether it goes up and down; others only grow.
    pub gauge: bool,
}

/// A series of the user's query.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct QueueSeries {
    /// The row's texts.
    pub object: String,
    /// The column.
    pub name: String,
    /// Number of values.
    pub values: u64,
    /// Number of values that were 0.
    pub zeros: u64,
    /// First value.
    pub first: f64,
    /// Last value.
    pub last: f64,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
    /// Mean.
    pub mean: f64,
}

struct Series {
    moved: CounterChange,
    first_ns: i64,
    last_ns: i64,
    values: u64,
    zeros: u64,
    sum: f64,
}

/// Sums up; memory by the number of counters.
#[derive(Default)]
pub(super) struct Counters {
    series: HashMap<(String, String, String), Series>,
}

impl Counters {
    pub(super) fn add(&mut self, row: &Counter) {
        let key = (row.source.clone(), row.object.clone(), row.name.clone());
        let series = self.series.entry(key).or_insert_with(|| Series {
            moved: CounterChange {
                source: row.source.clone(),
                object: row.object.clone(),
                name: row.name.clone(),
                first: row.value,
                last: row.value,
                min: row.value,
                max: row.value,
                delta: 0.0,
                gauge: row.gauge,
            },
            first_ns: row.at_ns,
            last_ns: row.at_ns,
            values: 0,
            zeros: 0,
            sum: 0.0,
        });
        let moved = &mut series.moved;
        let of_the_machine = MACHINE.contains(&row.source.as_str());
        moved.delta += match row.value - moved.last {
            step if step >= 0.0 || row.gauge => step,
            // The kernel's times go back by a hair now and then (`iowait`, a process that ends between two
            // looks), and begin anew with the machine alone.
            _ if of_the_machine => 0.0,
            // It began anew, and has grown to this since.
            _ => row.value,
        };
        moved.last = row.value;
        moved.min = moved.min.min(row.value);
        moved.max = moved.max.max(row.value);
        series.last_ns = row.at_ns;
        series.values += 1;
        series.zeros += u64::from(row.value == 0.0);
        series.sum += row.value;
    }

    pub(super) fn finish(self) -> (Option<Machine>, Vec<CounterChange>, Vec<QueueSeries>) {
        let machine = self.machine();
        let mut moved = Vec::new();
        let mut queue = Vec::new();
        for series in self.series.into_values() {
            let source = series.moved.source.as_str();
            if source == QUEUE {
                queue.push(QueueSeries {
                    values: series.values,
                    zeros: series.zeros,
                    first: series.moved.first,
                    last: series.moved.last,
                    min: series.moved.min,
                    max: series.moved.max,
                    mean: series.sum / series.values as f64,
                    object: series.moved.object,
                    name: series.moved.name,
                });
            } else if !MACHINE.contains(&source) && series.moved.min < series.moved.max {
                moved.push(series.moved);
            }
        }
        queue.sort_by(|a, b| (&a.object, &a.name).cmp(&(&b.object, &b.name)));
        moved.sort_by(|a, b| (&a.source, &a.object, &a.name).cmp(&(&b.source, &b.object, &b.name)));
        (machine, moved, queue)
    }

    fn of(&self, source: &str, object: &str, name: &str) -> Option<&Series> {
        let key = (source.to_owned(), object.to_owned(), name.to_owned());
        self.series.get(&key)
    }

    fn gained(&self, source: &str, object: &str, name: &str) -> f64 {
        let series = self.of(source, object, name);
        series.map_or(0.0, |series| series.moved.delta)
    }

    fn sum(&self, source: &str, name: &str) -> f64 {
        let all = self.series.values().map(|series| &series.moved);
        all.filter(|one| one.source == source && one.name == name && one.object != "lo")
            .map(|one| one.delta)
            .sum()
    }

    fn machine(&self) -> Option<Machine> {
        self.of("cpu", "", "idle")?;
        // What does not change has no row: the whole span is that of all modes together.
        let cpu = || {
            let all = self.series.values();
            all.filter(|one| one.moved.source == "cpu")
        };
        let first_ns = cpu().map(|one| one.first_ns).min()?;
        let last_ns = cpu().map(|one| one.last_ns).max()?;
        let over_s = (last_ns - first_ns) as f64 / 1e9;
        let modes = [
            "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal",
        ];
        let mode = |name: &str| self.gained("cpu", "", name);
        let all: f64 = modes.into_iter().map(mode).sum();
        let share = |part: f64| if all > 0.0 { part / all } else { 0.0 };
        let last = |source: &str, name: &str| {
            let series = self.of(source, "", name);
            series.map_or(0.0, |series| series.moved.last)
        };
        let pressure = ["cpu", "memory", "io"].map(|what| {
            let some = self.of("pressure", what, "some_seconds")?;
            (over_s > 0.0).then(|| (some.moved.delta / over_s).min(1.0))
        });
        Some(Machine {
            processors: last("cpu", "processors"),
            busy: share(all - mode("idle") - mode("iowait")),
            waiting_for_disk: share(mode("iowait")),
            stolen: share(mode("steal")),
            server_user_s: self.gained("server", "", "user_seconds"),
            server_system_s: self.gained("server", "", "system_seconds"),
            over_s,
            own_s: self.gained("rehearse", "", "user_seconds")
                + self.gained("rehearse", "", "system_seconds"),
            memory_bytes: last("memory", "total"),
            memory_available_min_bytes: self
                .of("memory", "", "available")
                .map_or(0.0, |series| series.moved.min),
            disk_read_bytes: self.sum("disk", "read_bytes"),
            disk_written_bytes: self.sum("disk", "written_bytes"),
            network_received_bytes: self.sum("network", "received_bytes"),
            network_sent_bytes: self.sum("network", "sent_bytes"),
            pressure: match pressure {
                [Some(cpu), Some(memory), Some(io)] => Some(Pressure { cpu, memory, io }),
                _ => None,
            },
        })
    }
}
