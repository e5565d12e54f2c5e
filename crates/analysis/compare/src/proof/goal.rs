//! What a change is to better.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use statistics::Unit;

/// What a change is to better: one number of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// The response times (due → done) of all statements, summed.
    Total,
    /// The median of response times.
    P50,
    /// Their 99th percentile.
    P99,
    /// CPU time of the server's processes, as the kernel counts it.
    Cpu,
    /// Bytes of WAL that were written.
    Wal,
    /// The workload's statements a second, over the time that the replay took.
    Throughput,
}

impl Goal {
    /// All of them, as they are shown.
    pub const ALL: [Goal; 6] = [
        Goal::Total,
        Goal::P50,
        Goal::P99,
        Goal::Cpu,
        Goal::Wal,
        Goal::Throughput,
    ];

    /// As it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Total => "total",
            Goal::P50 => "p50",
            Goal::P99 => "p99",
            Goal::Cpu => "cpu",
            Goal::Wal => "wal",
            Goal::Throughput => "throughput",
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Goal::Total => "total response time",
            Goal::P50 => "response time, p50",
            Goal::P99 => "response time, p99",
            Goal::Cpu => "server CPU time",
            Goal::Wal => "WAL",
            Goal::Throughput => "throughput",
        }
    }

    /// Returns the unit in which its number is shown.
    pub fn unit(self) -> Unit {
        match self {
            Goal::Total | Goal::P50 | Goal::P99 | Goal::Cpu => Unit::Nanoseconds,
            Goal::Wal => Unit::Bytes,
            Goal::Throughput => Unit::PerSecond,
        }
    }

    /// Returns a run's number, which has seconds or microseconds, in the goal's unit.
    pub fn in_unit(self, number: f64) -> f64 {
        match self {
            Goal::Total | Goal::Cpu => number * 1e9,
            Goal::P50 | Goal::P99 => number * 1e3,
            Goal::Wal | Goal::Throughput => number,
        }
    }

    /// A greater number is a better one.
    pub fn more_is_better(self) -> bool {
        self == Goal::Throughput
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Goal::ALL.into_iter().find(|goal| goal.name() == text);
        found.ok_or_else(|| {
            format!("'{text}' is no goal; give total, p50, p99, cpu, wal or throughput")
        })
    }
}
