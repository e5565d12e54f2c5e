//! Changes of counters, and the summary of the machine's counters.

use std::collections::HashMap;

use run::Counter;
use schemars::JsonSchema;
use serde::Serialize;

/// Sources of counters of the machine and of this program.
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

/// Summary of the machine during the observation. Seconds and bytes are totals.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Machine {
    /// Number of processors.
    pub processors: f64,
    /// Share of the processors' time in use, stolen time included and waiting for disks not.
    pub busy: f64,
    /// Share of the processors' time that was idle while waiting for a disk.
    pub waiting_for_disk: f64,
    /// Share of the time that the hypervisor gave to other machines (steal).
    pub stolen: f64,
    /// CPU time of the server's processes in user mode, in seconds.
    pub server_user_s: f64,
    /// CPU time of the server's processes in kernel mode, in seconds.
    pub server_system_s: f64,
    /// Time over which these were counted, in seconds.
    pub over_s: f64,
    /// CPU time of this program's observation and replay, in seconds.
    pub own_s: f64,
    /// Total memory, in bytes.
    pub memory_bytes: f64,
    /// Minimum of the available memory, in bytes.
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

/// Shares of the time in which tasks stalled on a resource, from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Pressure {
    /// Stalls on processors.
    pub cpu: f64,
    /// Stalls on memory.
    pub memory: f64,
    /// Stalls on disks.
    pub io: f64,
}

/// A counter that changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct CounterChange {
    /// View of the server that has the counter.
    pub source: String,
    /// Object that it counts for; empty if there is only one.
    pub object: String,
    /// Name in the view. Times are in the view's unit.
    pub name: String,
    /// First value.
    pub first: f64,
    /// Last value.
    pub last: f64,
    /// Least value.
    pub min: f64,
    /// Greatest value.
    pub max: f64,
    /// Increase, including the values lost at resets; for a gauge, last minus first value.
    pub delta: f64,
    /// Whether it can decrease; other counters only grow.
    pub gauge: bool,
}

/// Series of the user's query.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct QueueSeries {
    /// Text columns of the row.
    pub object: String,
    /// Name of the numeric column.
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
    change: CounterChange,
    first_ns: i64,
    last_ns: i64,
    values: u64,
    zeros: u64,
    sum: f64,
}

/// Sums counters. Memory is bounded by the number of counters.
#[derive(Default)]
pub(super) struct Counters {
    series: HashMap<(String, String, String), Series>,
}

impl Counters {
    pub(super) fn add(&mut self, row: &Counter) {
        let key = (row.source.clone(), row.object.clone(), row.name.clone());
        let series = self.series.entry(key).or_insert_with(|| Series {
            change: CounterChange {
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
        let change = &mut series.change;
        let of_the_machine = MACHINE.contains(&row.source.as_str());
        change.delta += match row.value - change.last {
            step if step >= 0.0 || row.gauge => step,
            // Kernel times sometimes decrease slightly (`iowait`, or a process that ends between
            // two reads), and only reset when the machine restarts.
            _ if of_the_machine => 0.0,
            // The counter was reset, and has grown to this value since.
            _ => row.value,
        };
        change.last = row.value;
        change.min = change.min.min(row.value);
        change.max = change.max.max(row.value);
        series.last_ns = row.at_ns;
        series.values += 1;
        series.zeros += u64::from(row.value == 0.0);
        series.sum += row.value;
    }

    /// Returns the rows of each table that were modified since its last `ANALYZE`.
    pub(super) fn stale_rows(&self) -> HashMap<String, f64> {
        let all = self.series.values().map(|series| &series.change);
        all.filter(|one| one.name == "n_mod_since_analyze")
            .map(|one| (one.object.clone(), one.max))
            .collect()
    }

    pub(super) fn finish(self) -> (Option<Machine>, Vec<CounterChange>, Vec<QueueSeries>) {
        let machine = self.machine();
        let mut changed = Vec::new();
        let mut queue = Vec::new();
        for series in self.series.into_values() {
            let source = series.change.source.as_str();
            if source == QUEUE {
                queue.push(QueueSeries {
                    values: series.values,
                    zeros: series.zeros,
                    first: series.change.first,
                    last: series.change.last,
                    min: series.change.min,
                    max: series.change.max,
                    mean: series.sum / series.values as f64,
                    object: series.change.object,
                    name: series.change.name,
                });
            } else if !MACHINE.contains(&source) && series.change.min < series.change.max {
                changed.push(series.change);
            }
        }
        queue.sort_by(|a, b| (&a.object, &a.name).cmp(&(&b.object, &b.name)));
        changed
            .sort_by(|a, b| (&a.source, &a.object, &a.name).cmp(&(&b.source, &b.object, &b.name)));
        (machine, changed, queue)
    }

    fn of(&self, source: &str, object: &str, name: &str) -> Option<&Series> {
        let key = (source.to_owned(), object.to_owned(), name.to_owned());
        self.series.get(&key)
    }

    fn increase(&self, source: &str, object: &str, name: &str) -> f64 {
        let series = self.of(source, object, name);
        series.map_or(0.0, |series| series.change.delta)
    }

    fn sum(&self, source: &str, name: &str) -> f64 {
        let all = self.series.values().map(|series| &series.change);
        all.filter(|one| one.source == source && one.name == name && one.object != "lo")
            .map(|one| one.delta)
            .sum()
    }

    fn machine(&self) -> Option<Machine> {
        self.of("cpu", "", "idle")?;
        // Unchanged counters have no row, so the span is the sum over all modes.
        let cpu = || {
            let all = self.series.values();
            all.filter(|one| one.change.source == "cpu")
        };
        let first_ns = cpu().map(|one| one.first_ns).min()?;
        let last_ns = cpu().map(|one| one.last_ns).max()?;
        let over_s = (last_ns - first_ns) as f64 / 1e9;
        let modes = [
            "user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal",
        ];
        let mode = |name: &str| self.increase("cpu", "", name);
        let all: f64 = modes.into_iter().map(mode).sum();
        let share = |part: f64| if all > 0.0 { part / all } else { 0.0 };
        let last = |source: &str, name: &str| {
            let series = self.of(source, "", name);
            series.map_or(0.0, |series| series.change.last)
        };
        let pressure = ["cpu", "memory", "io"].map(|what| {
            let some = self.of("pressure", what, "some_seconds")?;
            (over_s > 0.0).then(|| (some.change.delta / over_s).min(1.0))
        });
        Some(Machine {
            processors: last("cpu", "processors"),
            busy: share(all - mode("idle") - mode("iowait")),
            waiting_for_disk: share(mode("iowait")),
            stolen: share(mode("steal")),
            server_user_s: self.increase("server", "", "user_seconds"),
            server_system_s: self.increase("server", "", "system_seconds"),
            over_s,
            own_s: self.increase("rehearse", "", "user_seconds")
                + self.increase("rehearse", "", "system_seconds"),
            memory_bytes: last("memory", "total"),
            memory_available_min_bytes: self
                .of("memory", "", "available")
                .map_or(0.0, |series| series.change.min),
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
