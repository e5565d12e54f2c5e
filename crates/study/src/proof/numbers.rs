//! Measurements of a proof's run.

use std::collections::{BTreeMap, HashMap};

use compare::proof::Goal;
use run::{Execution, MachineLoad, Outcome, RunInfo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sql::{Fingerprint, StatementClass};
use statistics::Histogram;

use crate::stalled_share::{TrialStalls, stalled_share};

/// Bytes of temporary files that count as few.
const TEMPORARY_BYTES_FEW: u64 = 1 << 20;

/// Counter of work that supports an effect on time. WAL is none: a longer run has more checkpoints, so that the load affects
/// its full-page images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkCounter {
    /// Blocks of tables and indexes.
    Blocks,
    /// Bytes of temporary files.
    TemporaryFiles,
}

impl WorkCounter {
    /// All counters.
    pub const ALL: [WorkCounter; 2] = [WorkCounter::Blocks, WorkCounter::TemporaryFiles];
}

/// The size of a table or index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RelationSize {
    /// Name, with its schema.
    pub name: String,
    /// Whether it is an index.
    pub is_index: bool,
    /// Size of all forks; for a table, without its TOAST table.
    pub bytes: u64,
}

/// Plan of a statement, by its shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatementShape {
    /// Fingerprint of the statement, in hexadecimal.
    pub fingerprint: String,
    /// Hash of the plan's operations, in hexadecimal.
    pub shape: String,
    /// Part of the service time of all statements with a plan.
    pub share: f64,
}

/// Measurements of a run, from its first connection to its last answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProofNumbers {
    /// Duration in seconds.
    pub elapsed_s: f64,
    /// Statements that succeeded.
    pub done: u64,
    /// Statements that failed, by SQLSTATE.
    #[serde(default)]
    pub failed: BTreeMap<String, u64>,
    /// Statements that were never sent, by reason.
    #[serde(default)]
    pub skipped: BTreeMap<String, u64>,
    /// Sessions whose connection could not be opened.
    #[serde(default)]
    pub connections_failed: u64,
    /// Sum of response times (due → done) of statements that succeeded, in seconds.
    pub response_s: f64,
    /// Their median, in microseconds.
    pub p50_us: f64,
    /// Their 99th percentile, in microseconds.
    pub p99_us: f64,
    /// 99th percentile of the delay by this program, in microseconds.
    pub tool_lag_p99_us: f64,
    /// CPU time of the server's processes, in seconds.
    pub server_cpu_s: Option<f64>,
    /// CPU time of this process, in seconds.
    pub client_cpu_s: Option<f64>,
    /// WAL that was written, in bytes.
    pub wal_bytes: Option<u64>,
    /// Sum of service times (sent → done) of statements that only read (`SELECT`), in seconds.
    #[serde(default)]
    pub reads_s: f64,
    /// Sum of service times of statements that write rows (`INSERT`, `UPDATE`, `DELETE`, `MERGE`, `COPY`), in seconds.
    #[serde(default)]
    pub writes_s: f64,
    /// Blocks of tables and indexes that were read, from shared buffers or not; of the user's tables in the
    /// database of most sessions.
    #[serde(default)]
    pub blocks: Option<u64>,
    /// Bytes of temporary files of this database.
    #[serde(default)]
    pub temporary_bytes: Option<u64>,
    /// Load of the machine during the run.
    #[serde(default)]
    pub machine: Option<MachineLoad>,
    /// Time of a fixed computation before and after the run, in seconds: the load of the machine by others.
    #[serde(default)]
    pub load_probes_s: Option<(f64, f64)>,
    /// Rows of these tables that were updated.
    #[serde(default)]
    pub updates: Option<u64>,
    /// HOT updates among them.
    #[serde(default)]
    pub hot_updates: Option<u64>,
    /// Sizes of tables and indexes after the run, the largest first; in the database of most sessions.
    #[serde(default)]
    pub sizes: Vec<RelationSize>,
    /// Plans of the statements with the most time, if they were asked for.
    #[serde(default)]
    pub plans: Vec<StatementShape>,
    /// Stalls of this program during the run.
    #[serde(default)]
    pub stalls: TrialStalls,
    /// Measurements that are missing, with the reasons.
    #[serde(default)]
    pub missing: BTreeMap<String, String>,
}

impl ProofNumbers {
    /// Returns the part of the service time in this run that statements had whose plan is another one in `other`. `None` if a
    /// run has no plans.
    pub fn replanned_share(&self, other: &ProofNumbers) -> Option<f64> {
        if self.plans.is_empty() || other.plans.is_empty() {
            return None;
        }
        let is_replanned = |one: &&StatementShape| {
            let mut others = other.plans.iter();
            let same = others.find(|same| same.fingerprint == one.fingerprint);
            same.is_some_and(|same| same.shape != one.shape)
        };
        Some(
            self.plans
                .iter()
                .filter(is_replanned)
                .map(|one| one.share)
                .sum(),
        )
    }

    /// Returns the measurement of a goal, or `None` if it was not measured. `statements` is the size of the unchanged
    /// workload, because a rewritten one does the same work in another number of statements.
    pub fn of(&self, goal: Goal, statements: u64) -> Option<f64> {
        let found = match goal {
            Goal::Total => self.response_s,
            Goal::P50 => self.p50_us,
            Goal::P99 => self.p99_us,
            Goal::Cpu => self.server_cpu_s?,
            Goal::Wal => self.wal_bytes? as f64,
            Goal::Blocks => self.blocks? as f64,
            Goal::Throughput => statements as f64 / self.elapsed_s,
        };
        (found.is_finite() && found > 0.0).then_some(found)
    }

    /// Returns a counter of work, if it is known. It is at least 1, so that ratios exist.
    pub fn work(&self, counter: WorkCounter) -> Option<f64> {
        let found = match counter {
            WorkCounter::Blocks => self.blocks?,
            // A few small files are no work.
            WorkCounter::TemporaryFiles => self.temporary_bytes?.max(TEMPORARY_BYTES_FEW),
        };
        Some(found.max(1) as f64)
    }

    /// Returns the logarithm of the load of the machine by others, up to a constant; `None` if it was not measured.
    pub fn load(&self) -> Option<f64> {
        let (before_s, after_s) = self.load_probes_s?;
        Some((before_s.ln() + after_s.ln()) / 2.0)
    }

    /// Returns the service times of reads, in seconds; `None` without reads.
    pub fn reads(&self) -> Option<f64> {
        (self.reads_s > 0.0).then_some(self.reads_s)
    }

    /// Returns the service times of writes, in seconds; `None` without writes.
    pub fn writes(&self) -> Option<f64> {
        (self.writes_s > 0.0).then_some(self.writes_s)
    }

    /// Returns the share of updates that were HOT, from 0 to 1; `None` without updates.
    pub fn hot_share(&self) -> Option<f64> {
        let (all, hot) = (self.updates?, self.hot_updates?);
        (all > 0).then(|| hot as f64 / all as f64)
    }

    /// Returns the size of all indexes (or else tables), in bytes; `None` if sizes are not known.
    pub fn bytes(&self, indexes: bool) -> Option<u64> {
        let of = self.sizes.iter().filter(|one| one.is_index == indexes);
        (!self.sizes.is_empty()).then(|| of.map(|one| one.bytes).sum())
    }

    /// Returns the number of statements that failed.
    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }
}

/// Sums of executions.
#[derive(Debug, Default)]
pub(super) struct Sums {
    classes: HashMap<Fingerprint, StatementClass>,
    reads_ns: f64,
    writes_ns: f64,
    response: Histogram,
    tool_lag: Histogram,
    response_ns: f64,
}

impl Sums {
    /// Starts sums of a run whose statements have these classes.
    pub(super) fn new(classes: HashMap<Fingerprint, StatementClass>) -> Self {
        Sums {
            classes,
            ..Sums::default()
        }
    }

    pub(super) fn take(&mut self, execution: &Execution) {
        if !execution.is_statement() {
            return;
        }
        if let Some(lag_ns) = execution.tool_lag_ns() {
            self.tool_lag.record(lag_ns.max(0) as u64);
        }
        if execution.outcome == Outcome::Done
            && let Some(response_ns) = execution.response_ns()
        {
            let response_ns = response_ns.max(0) as u64;
            self.response.record(response_ns);
            self.response_ns += response_ns as f64;
        }
        if execution.outcome == Outcome::Done
            && let (Some(service_ns), Some(class)) = (execution.service_ns(), self.class(execution))
        {
            match class {
                StatementClass::Select => self.reads_ns += service_ns as f64,
                StatementClass::Insert
                | StatementClass::Update
                | StatementClass::Delete
                | StatementClass::Merge
                | StatementClass::Copy => self.writes_ns += service_ns as f64,
                _ => {}
            }
        }
    }

    fn class(&self, execution: &Execution) -> Option<StatementClass> {
        self.classes.get(&execution.fingerprint?).copied()
    }

    pub(super) fn finish(self, info: &RunInfo) -> ProofNumbers {
        let marks = self.response.latency_summary();
        let us = |ns: Option<u64>| ns.map_or(0.0, |ns| ns as f64 / 1e3);
        ProofNumbers {
            elapsed_s: info.elapsed_ns as f64 / 1e9,
            done: info.done,
            failed: info.failed.clone(),
            skipped: info.skipped.clone(),
            connections_failed: info.connections_failed.values().sum(),
            response_s: self.response_ns / 1e9,
            reads_s: self.reads_ns / 1e9,
            writes_s: self.writes_ns / 1e9,
            p50_us: us(marks.map(|marks| marks.p50_ns)),
            p99_us: us(marks.map(|marks| marks.p99_ns)),
            stalls: TrialStalls {
                share: stalled_share(info),
                repeats: 0,
            },
            tool_lag_p99_us: us(self.tool_lag.latency_summary().map(|marks| marks.p99_ns)),
            ..ProofNumbers::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replanned_share_counts_statements_with_another_shape() {
        let run = |shapes: [(&str, f64); 3]| ProofNumbers {
            plans: (1..)
                .zip(shapes)
                .map(|(number, (shape, share))| StatementShape {
                    fingerprint: format!("{number:016x}"),
                    shape: shape.to_owned(),
                    share,
                })
                .collect(),
            ..ProofNumbers::default()
        };
        let before = run([("a", 0.6), ("b", 0.3), ("c", 0.1)]);
        let after = run([("x", 0.1), ("b", 0.5), ("y", 0.4)]);
        assert_eq!(before.replanned_share(&after), Some(0.6 + 0.1));
        assert_eq!(before.replanned_share(&before), Some(0.0));
        assert_eq!(before.replanned_share(&ProofNumbers::default()), None);
    }
}
