//! Needs of a replay, and the limits of one machine that they exceed.

use clock::Speed;
use replay::{Demand, Options};
use schemars::JsonSchema;
use serde::Serialize;
use workload::WorkloadReader;

use super::{StatementCost, order_factors};
use crate::connection_limit::{TargetRoom, find_shortage};
use crate::failure::Failure;

/// Share of a machine's measured rate that a replay may need at its peak. Near the whole rate, statements wait for each
/// other (ours).
const USED_SHARE_MAX: f64 = 0.7;
/// Memory of a replay without sessions, and of a session, in bytes (docs/benchmarks/replay.md).
const BASE_BYTES: u64 = 40 << 20;
const SESSION_BYTES: u64 = 10 << 10;
/// Factors for the lowest and highest cost of a statement: the beginning of a workload is not all of it, and the target
/// is not the answering server (docs/benchmarks/replay.md has predictions next to measurements).
const LOW_FACTOR: f64 = 0.7;
const HIGH_FACTOR: f64 = 1.5;

/// An estimate with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// Low end.
    pub low: f64,
    /// Expected value.
    pub expected: f64,
    /// High end.
    pub high: f64,
}

/// Needs of a replay on its machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Needs {
    /// CPU time of the tool over the whole replay, in seconds; `null` if nothing could be measured.
    pub cpu_seconds: Option<Estimate>,
    /// Processors that the tool keeps busy in the busiest second; `null` at full speed, when it takes what it gets.
    pub peak_cores: Option<Estimate>,
    /// Longest time that a statement waits because the tool sends no faster than it did in the measurement, in
    /// nanoseconds; `null` at full speed.
    pub longest_wait_ns: Option<i64>,
    /// Open files: connections and others.
    pub descriptors: u64,
    /// Connections to the target at the same time.
    pub connections: u64,
    /// Network to and from the target in the busiest second, in bits per second.
    pub peak_bits_per_second: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

impl Needs {
    /// Estimates what a demand on this number of connections needs at this cost of a statement.
    pub(super) fn estimate(
        demand: &Demand,
        connections: u64,
        engine: &Options,
        cost: Option<StatementCost>,
    ) -> Needs {
        let (order_mean, order_max) = order_factors(engine.order);
        let of_statements = |statements: u64| {
            let seconds = |us: f64| statements as f64 * us / 1e6;
            cost.map(|cost| Estimate {
                low: seconds(cost.min_us) * LOW_FACTOR,
                expected: seconds(cost.mean_us) * order_mean,
                high: seconds(cost.max_us) * order_max * HIGH_FACTOR,
            })
        };
        let is_paced = engine.speed != Speed::Max;
        let second = demand.peaks.second;
        Needs {
            cpu_seconds: of_statements(demand.statements),
            peak_cores: of_statements(second.statements).filter(|_| is_paced),
            longest_wait_ns: (is_paced && cost.is_some()).then_some(demand.peaks.longest_wait_ns),
            descriptors: connections + event_loop::OTHER_FILES,
            connections,
            peak_bits_per_second: 8 * (second.sent_bytes + second.received_bytes),
            memory_bytes: BASE_BYTES + connections * SESSION_BYTES,
        }
    }
}

/// Kind of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// The limit of open files.
    Descriptors,
    /// The statements per second that this machine can send.
    Rate,
    /// The free memory.
    Memory,
    /// The target's `max_connections`, which more machines do not change.
    TargetConnections,
    /// The division of the sessions among several machines, which the order of statements does not allow.
    Division,
}

/// A limit that the replay exceeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Limit {
    /// Kind.
    pub kind: LimitKind,
    /// Description.
    pub message: String,
    /// Remedy.
    pub remedy: String,
}

/// Limits of this machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    /// Most open files of this process.
    pub(super) files: u64,
    /// Memory that is free for programs, in bytes, if the system tells.
    pub(super) memory_bytes: Option<u64>,
}

impl Machine {
    /// Reads the limits. The soft limit of open files is raised to the hard one.
    pub(super) fn read() -> Result<Self, Failure> {
        let room = event_loop::raise_fd_limit(1 << 40).map_err(Failure::could_not)?;
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let available = meminfo.lines().find_map(|line| {
            let kib = line
                .strip_prefix("MemAvailable:")?
                .split_whitespace()
                .next()?;
            kib.parse::<u64>().ok()
        });
        Ok(Machine {
            files: room.map_or(u64::MAX, |room| room + event_loop::OTHER_FILES),
            memory_bytes: available.map(|kib| kib << 10),
        })
    }

    /// Returns options with which both ends of each connection are within the limit of open files; `None` if even a few
    /// connections are not.
    pub(super) fn options_of_measurement(
        &self,
        reader: &WorkloadReader,
        engine: &Options,
    ) -> Option<Options> {
        const CONNECTIONS_MIN: u64 = 4;
        let room = self.files.saturating_sub(event_loop::OTHER_FILES) / 2;
        if room < CONNECTIONS_MIN {
            return None;
        }
        let mut options = engine.clone();
        if replay::connections_needed(reader, engine) > room {
            options.connections_max = u32::try_from(room).ok();
        }
        Some(options)
    }
}

/// Returns the limits that a replay exceeds on this machine, and the number of machines like it that are enough. `capacity`
/// is the number of statements per second that the tool can send; `None` if it is unknown or no limit.
pub(super) fn find_limits(
    needs: &Needs,
    peak_statements: u64,
    capacity: Option<f64>,
    machine: &Machine,
    room: Option<TargetRoom>,
) -> (Vec<Limit>, u64) {
    let mut limits = Vec::new();
    let mut workers = 1;
    let mut add = |kind, of_kind: u64, message: String, remedy: String| {
        workers = workers.max(of_kind);
        limits.push(Limit {
            kind,
            message,
            remedy,
        });
    };
    if needs.descriptors > machine.files {
        let room = machine.files.saturating_sub(event_loop::OTHER_FILES).max(1);
        let machines = needs.connections.div_ceil(room);
        add(
            LimitKind::Descriptors,
            machines,
            format!(
                "{} connections at once need {} open files, and this process may open {}",
                needs.connections, needs.descriptors, machine.files
            ),
            format!(
                "raise the limit with ulimit -n {}, share connections with --max-connections {room}, or use {machines} machines",
                needs.descriptors
            ),
        );
    }
    let usable = capacity.map(|capacity| capacity * USED_SHARE_MAX);
    if let Some(usable) = usable.filter(|usable| (peak_statements as f64) > *usable) {
        let machines = (peak_statements as f64 / usable.max(1.0)).ceil() as u64;
        add(
            LimitKind::Rate,
            machines,
            format!(
                "the busiest second has {peak_statements} statements, and this machine can send about {usable:.0} per second without delay"
            ),
            format!("use {machines} machines, a lower --speed, or a machine with more processors"),
        );
    }
    if let Some(free) = machine
        .memory_bytes
        .filter(|free| needs.memory_bytes > *free)
    {
        let machines = needs.memory_bytes.div_ceil(free.max(1));
        add(
            LimitKind::Memory,
            machines,
            format!(
                "the replay needs about {} MiB of memory, and {} MiB are free",
                needs.memory_bytes >> 20,
                free >> 20
            ),
            format!("use {machines} machines, or one with more memory"),
        );
    }
    if let Some(shortage) = room.and_then(|room| find_shortage(needs.connections, room)) {
        add(
            LimitKind::TargetConnections,
            1,
            shortage.message,
            shortage.remedy,
        );
    }
    (limits, workers)
}

#[cfg(test)]
mod tests {
    use replay::SendOrder;

    use super::*;

    fn needs(connections: u64) -> Needs {
        Needs {
            cpu_seconds: None,
            peak_cores: None,
            longest_wait_ns: None,
            descriptors: connections + event_loop::OTHER_FILES,
            connections,
            peak_bits_per_second: 0,
            memory_bytes: 100 << 20,
        }
    }

    const AMPLE: Machine = Machine {
        files: 1 << 20,
        memory_bytes: Some(1 << 30),
    };

    #[test]
    fn small_replay_needs_one_machine_and_exceeds_nothing() {
        let room = Some(TargetRoom {
            max_connections: 100,
            reserved: 3,
        });
        let found = find_limits(&needs(50), 6_999, Some(10_000.0), &AMPLE, room);
        assert_eq!(found, (Vec::new(), 1));
        // Nothing is known.
        let unknown = Machine {
            memory_bytes: None,
            ..AMPLE
        };
        let found = find_limits(&needs(50), u64::MAX, None, &unknown, None);
        assert_eq!(found, (Vec::new(), 1));
    }

    #[test]
    fn each_limit_names_its_numbers_and_the_worst_decides() {
        let machine = Machine {
            files: 228,
            memory_bytes: Some(60 << 20),
        };
        let room = Some(TargetRoom {
            max_connections: 100,
            reserved: 3,
        });
        let (limits, workers) = find_limits(&needs(250), 30_000, Some(10_000.0), &machine, room);
        let kinds: Vec<LimitKind> = limits.iter().map(|limit| limit.kind).collect();
        let expected = [
            LimitKind::Descriptors,
            LimitKind::Rate,
            LimitKind::Memory,
            LimitKind::TargetConnections,
        ];
        assert_eq!(kinds, expected);
        // By descriptors three, by rate five, by memory two.
        assert_eq!(workers, 5);
        assert!(limits[0].message.contains("378 open files"), "{limits:?}");
        assert!(limits[0].remedy.contains("ulimit -n 378"), "{limits:?}");
        assert!(limits[0].remedy.contains("3 machines"), "{limits:?}");
        assert!(limits[3].remedy.contains("--max-connections"), "{limits:?}");
    }

    #[test]
    fn estimate_grows_with_the_statements_and_the_order_of_dependencies() {
        let cost = Some(StatementCost {
            min_us: 10.0,
            mean_us: 20.0,
            max_us: 40.0,
        });
        let demand = Demand {
            statements: 1_000_000,
            ..Demand::default()
        };
        let mut engine = Options::default();
        let estimate = |engine: &Options| {
            Needs::estimate(&demand, 30, engine, cost)
                .cpu_seconds
                .unwrap()
        };
        let Estimate {
            low,
            expected,
            high,
        } = estimate(&engine);
        assert_eq!((low, expected, high), (7.0, 20.0, 60.0));
        engine.order = SendOrder::Dependencies;
        assert!(estimate(&engine).expected > expected);
        let needs = Needs::estimate(&demand, 8, &engine, None);
        assert_eq!((needs.connections, needs.cpu_seconds), (8, None));
    }
}
