//! Parts of a statement's time that are no execution of its plan: planning, compilation, waits for
//! locks.

use cpu_profile::phases::Phase;

use super::evidence::{Basis, Evidence, StatementEvidence};
use super::rules::flush_ns;

/// Phases that a prepared statement with a generic plan skips.
pub(super) const PLANNING_PHASES: [Phase; 4] =
    [Phase::Parse, Phase::Analyse, Phase::Rewrite, Phase::Plan];
/// Minimum number of stack samples of a statement.
const STACKS_MIN: u64 = 50;
/// Minimum number of activity samples of a statement.
const SAMPLES_MIN: u64 = 50;
/// Minimum number of activity samples that confirm the times of clients.
const FEW_SAMPLES_MIN: u64 = 10;
/// Time per call outside of the counted execution that is more than the way to the client.
const OUTSIDE_NS: f64 = 1e6;

impl StatementEvidence {
    /// Returns planning's share of planning and execution, as the server counted it.
    pub(super) fn counted_planning_share(&self) -> Option<f64> {
        let counted = self.counted.filter(|counted| counted.calls > 0)?;
        let plan_ns = counted.plan_ns? as f64;
        let all_ns = plan_ns + counted.exec_ns as f64;
        (all_ns > 0.0).then_some(plan_ns / all_ns)
    }

    /// Returns the share of stack samples in these phases, and the number of its samples; `None`
    /// if there are too few.
    pub(super) fn stack_share(&self, phases: &[Phase]) -> Option<(f64, u64)> {
        self.phase_share(phases)
            .filter(|(_, samples)| *samples >= STACKS_MIN)
    }

    /// Returns the number of samples in which it was on a processor.
    pub(super) fn running_samples(&self) -> u64 {
        let all = self.waits.iter().filter(|wait| wait.kind.is_none());
        all.map(|wait| wait.samples).sum()
    }
}

impl Evidence {
    /// Returns the share of a statement's processor time that is outside of its counted execution,
    /// and the number of samples; `None` if they are too few, or execution was not counted. Parsing,
    /// planning and starting the executor are not counted as execution.
    pub(super) fn share_before_execution(&self, one: &StatementEvidence) -> Option<(f64, u64)> {
        let each_ns = *self.sample_ns.as_ref().ok()?;
        let counted = one.counted.filter(|counted| counted.calls > 0)?;
        let samples = one.running_samples();
        let running_ns = samples as f64 * each_ns;
        let by_samples = 1.0 - counted.exec_ns as f64 / running_ns.max(1.0);
        let share = match samples {
            SAMPLES_MIN.. => by_samples,
            // Few samples confirm what the client's times say.
            FEW_SAMPLES_MIN.. => {
                let outside_ns = self
                    .ns_outside_execution(one)
                    .filter(|ns| *ns >= OUTSIDE_NS)?;
                by_samples.min(outside_ns / one.ns_per_call())
            }
            _ => return None,
        };
        Some((share.max(0.0), samples))
    }

    /// Returns planning's share of a statement's time; 0 if unknown.
    pub(super) fn planning_share(&self, one: &StatementEvidence) -> f64 {
        let stacks = || one.stack_share(&PLANNING_PHASES).map(|(share, _)| share);
        one.counted_planning_share().or_else(stacks).unwrap_or(0.0)
    }

    /// Returns the time that a statement waited for locks, by samples; 0 if unknown.
    pub(super) fn lock_ns(&self, one: &StatementEvidence) -> f64 {
        let each_ns = self.sample_ns.as_ref().copied().unwrap_or(0.0);
        each_ns * one.samples_waiting("Lock") as f64
    }

    /// Returns the shares of a statement's time in which it waited for locks, and for the flush of the write-ahead
    /// log; `None` without samples.
    pub fn waiting_shares(&self, one: &StatementEvidence) -> Option<(f64, f64)> {
        self.sample_ns.as_ref().ok()?;
        let share = |ns: f64| (ns / one.ns.max(1.0)).clamp(0.0, 1.0);
        Some((share(self.lock_ns(one)), share(flush_ns(self, one))))
    }

    /// Returns the share of a statement's time in which its plan is executed, as far as is known:
    /// without planning, just-in-time compilation and waits for locks.
    pub(super) fn execution_share(&self, one: &StatementEvidence) -> f64 {
        let compiling = one
            .stack_share(&[Phase::Jit])
            .map_or(0.0, |(share, _)| share);
        let locks = self.lock_ns(one) / one.ns.max(1.0);
        (1.0 - self.planning_share(one) - compiling - locks).clamp(0.0, 1.0)
    }

    /// Returns the time per call that clients waited outside of the counted execution of a query,
    /// in nanoseconds; `None` unless it is a run. Writes may wait for the flush of their commit.
    pub(super) fn ns_outside_execution(&self, one: &StatementEvidence) -> Option<f64> {
        let counted = one.counted.filter(|counted| counted.calls > 0)?;
        let is_query = self.basis == Basis::Run && !one.class.may_write();
        let execution_ns = counted.exec_ns as f64 / counted.calls as f64;
        is_query.then(|| (one.ns_per_call() - execution_ns).max(0.0))
    }

    /// Whether the statistics of a table are stale by the server's counters: it was never analysed,
    /// or a tenth of its rows were modified since, from which on autovacuum analyses it.
    pub fn has_stale_statistics(&self, table: &run::RelationFact) -> bool {
        let Some(rows) = table.rows else {
            return table.kind == "table";
        };
        let name = format!("{}.{}", table.schema, table.name);
        let observed = self.observed.as_ref().ok();
        let modified = observed.and_then(|observed| observed.stale_rows.get(&name));
        modified.is_some_and(|modified| *modified > 50.0 + rows as f64 / 10.0)
    }
}
