//! Goals that a change is to improve.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use statistics::Unit;

/// Number of a run that a change is to improve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Sum of the response times (due → done) of all statements.
    Total,
    /// Median of the response times.
    P50,
    /// 99th percentile of the response times.
    P99,
    /// CPU time of the server's processes, as the kernel counts it.
    Cpu,
    /// Bytes of WAL written.
    Wal,
    /// Blocks of tables and indexes read, from memory or not.
    Blocks,
    /// Statements per second over the time of the replay.
    Throughput,
}

impl Goal {
    /// All goals, in display order.
    pub const ALL: [Goal; 7] = [
        Goal::Total,
        Goal::P50,
        Goal::P99,
        Goal::Cpu,
        Goal::Wal,
        Goal::Blocks,
        Goal::Throughput,
    ];

    /// Returns the name of the option value.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Total => "total",
            Goal::P50 => "p50",
            Goal::P99 => "p99",
            Goal::Cpu => "cpu",
            Goal::Wal => "wal",
            Goal::Blocks => "blocks",
            Goal::Throughput => "throughput",
        }
    }

    /// Returns the goal in words.
    pub fn words(self) -> &'static str {
        match self {
            Goal::Total => "total response time",
            Goal::P50 => "response time, p50",
            Goal::P99 => "response time, p99",
            Goal::Cpu => "server CPU time",
            Goal::Wal => "WAL",
            Goal::Blocks => "blocks of tables and indexes read",
            Goal::Throughput => "throughput",
        }
    }

    /// Returns the unit in which its number is displayed.
    pub fn unit(self) -> Unit {
        match self {
            Goal::Total | Goal::P50 | Goal::P99 | Goal::Cpu => Unit::Nanoseconds,
            Goal::Wal => Unit::Bytes,
            Goal::Blocks => Unit::Count,
            Goal::Throughput => Unit::PerSecond,
        }
    }

    /// Converts a run's number, in seconds or microseconds, to the goal's unit.
    pub fn in_unit(self, number: f64) -> f64 {
        match self {
            Goal::Total | Goal::Cpu => number * 1e9,
            Goal::P50 | Goal::P99 => number * 1e3,
            Goal::Wal | Goal::Blocks | Goal::Throughput => number,
        }
    }

    /// Whether it is a counter of work, which does not depend on the load of the machine.
    pub fn is_work(self) -> bool {
        matches!(self, Goal::Wal | Goal::Blocks)
    }

    /// Whether a greater number is better.
    pub fn more_is_better(self) -> bool {
        self == Goal::Throughput
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Goal::ALL.into_iter().find(|goal| goal.name() == text);
        found.ok_or_else(|| {
            format!("'{text}' is no goal; give total, p50, p99, cpu, wal, blocks or throughput")
        })
    }
}
