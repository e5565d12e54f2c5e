//! Counts for a run's manifest.

use std::collections::{BTreeMap, HashMap};

use sql::Fingerprint;

use crate::execution::{Execution, Outcome, StatementKind};
use crate::format::RunInfo;
use crate::machine_load::MachineLoad;
use crate::tool_stall::{StallList, ToolStall};

/// Counts executions as they are written.
#[derive(Debug, Default)]
pub(crate) struct ExecutionCounts {
    statements: u64,
    done: u64,
    failed: BTreeMap<String, u64>,
    skipped: BTreeMap<String, u64>,
    connections_failed: BTreeMap<String, u64>,
    last_done_ns: i64,
    last_due_ns: i64,
    last_sent_ns: i64,
    stalls: StallList,
    pub(crate) machine: Option<MachineLoad>,
    /// Service time and calls by statement, if requested.
    service: Option<HashMap<Fingerprint, (u64, u64)>>,
}

/// Total service time of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceTime {
    /// Statement.
    pub fingerprint: Fingerprint,
    /// Sum of its service times (sent to done), in nanoseconds.
    pub service_ns: u64,
    /// Number of calls.
    pub calls: u64,
}

impl ExecutionCounts {
    pub(crate) fn sum_up_service_times(&mut self) {
        self.service.get_or_insert_default();
    }

    pub(crate) fn costliest(&self, count: usize) -> Vec<ServiceTime> {
        let times = self.service.iter().flatten();
        let mut times: Vec<ServiceTime> = times
            .map(|(&fingerprint, &(service_ns, calls))| ServiceTime {
                fingerprint,
                service_ns,
                calls,
            })
            .collect();
        times.sort_by_key(|time| (u64::MAX - time.service_ns, time.fingerprint));
        times.truncate(count);
        times
    }

    pub(crate) fn add_stall(&mut self, stall: ToolStall) {
        self.stalls.add(stall);
    }

    pub(crate) fn count(&mut self, execution: &Execution) {
        self.stalls.add_execution(execution);
        self.last_done_ns = self.last_done_ns.max(execution.done_ns.unwrap_or(0));
        if let Some(sent_ns) = execution.sent_ns {
            self.last_due_ns = self.last_due_ns.max(execution.due_ns);
            self.last_sent_ns = self.last_sent_ns.max(sent_ns);
        }
        if !execution.is_statement() {
            if let (StatementKind::Connect, Outcome::Failed(sqlstate)) =
                (execution.kind, execution.outcome)
            {
                add(&mut self.connections_failed, sqlstate.as_str());
            }
            return;
        }
        self.statements += 1;
        match &execution.outcome {
            Outcome::Done => {
                self.done += 1;
                if let Some(times) = &mut self.service
                    && let Some(fingerprint) = execution.fingerprint
                    && let Some(service_ns) = execution.service_ns()
                {
                    let (sum_ns, calls) = times.entry(fingerprint).or_default();
                    *sum_ns += u64::try_from(service_ns).unwrap_or(0);
                    *calls += 1;
                }
            }
            Outcome::Failed(sqlstate) => add(&mut self.failed, sqlstate.as_str()),
            Outcome::Skipped(reason) => add(&mut self.skipped, reason.name()),
        }
    }

    pub(crate) fn fill(&self, info: &mut RunInfo) {
        info.elapsed_ns = self.last_done_ns;
        info.span_due_ns = self.last_due_ns;
        info.span_sent_ns = self.last_sent_ns;
        info.statements = self.statements;
        info.done = self.done;
        info.failed = self.failed.clone();
        info.skipped = self.skipped.clone();
        info.connections_failed = self.connections_failed.clone();
        info.tool_stalls = self.stalls.stalls().to_vec();
        info.machine = self.machine.or(info.machine);
    }
}

fn add(counts: &mut BTreeMap<String, u64>, name: &str) {
    match counts.get_mut(name) {
        Some(count) => *count += 1,
        None => {
            counts.insert(name.to_owned(), 1);
        }
    }
}
