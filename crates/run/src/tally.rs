//! The counts that a run's manifest carries.

use std::collections::BTreeMap;

use crate::execution::{Execution, Outcome, StatementKind};
use crate::format::RunInfo;

/// Counts executions as they are written.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    statements: u64,
    done: u64,
    failed: BTreeMap<String, u64>,
    skipped: BTreeMap<String, u64>,
    connections_failed: BTreeMap<String, u64>,
    last_done_ns: i64,
    last_due_ns: i64,
    last_sent_ns: i64,
}

impl Tally {
    pub(crate) fn count(&mut self, execution: &Execution) {
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
            Outcome::Done => self.done += 1,
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
