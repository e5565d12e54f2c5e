//! Work of statements on both sides, as the servers counted it.
//!
//! Blocks, WAL records and temporary files do not depend on the load of a machine. Execution time does, but
//! a busy machine slows all statements alike ([`crate::cause`]).

use schemars::JsonSchema;
use serde::Serialize;
use time_breakdown::observed::StatementTotals;

use crate::observation_unit::ObservationUnit;

/// Minimum share of a run's executions that the statistics must have, so that they describe the run.
const COVERED_MIN: f64 = 0.8;
/// Maximum of the same ratio. If there are more, others used the server too.
const COVERED_MAX: f64 = 1.25;

/// Factor by which a counter of blocks or WAL records must grow to be more work. Between two runs of one
/// server, pruning, visibility maps and the order of inserts change them by less.
pub const WORK_FACTOR: f64 = 1.5;

/// Blocks of an execution by which a counter must grow, too.
const BLOCKS_MIN: f64 = 4.0;
/// Records of WAL of an execution by which their number must grow, too.
const WAL_RECORDS_MIN: f64 = 1.0;
/// Functions of an execution by which the JIT-compiled ones must grow. A plan that is compiled has at least one.
const JIT_FUNCTIONS_MIN: f64 = 0.5;
/// Parallel workers of an execution by which the planned ones must differ: half of the executions have one more.
pub(crate) const WORKERS_MIN: f64 = 0.5;

/// Work of one execution on average, over all runs of a side.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct WorkPerCall {
    /// Executions that the server counted.
    pub calls: u64,
    /// Execution time, in nanoseconds.
    pub exec_ns: f64,
    /// Standard deviation of the execution time, in nanoseconds; `null` in runs that do not have it.
    pub exec_deviation_ns: Option<f64>,
    /// Planning time, in nanoseconds; `null` if not tracked.
    pub plan_ns: Option<f64>,
    /// Rows returned or affected.
    pub rows: f64,
    /// Shared blocks, found in memory or read.
    pub shared_blocks: f64,
    /// Blocks of temporary tables.
    pub local_blocks: f64,
    /// Blocks of temporary files, read and written.
    pub temp_blocks: f64,
    /// Records of WAL; `null` if not tracked. Bytes depend on the time of the last checkpoint.
    pub wal_records: Option<f64>,
    /// Bytes of WAL; `null` if not tracked.
    pub wal_bytes: Option<f64>,
    /// Full-page images in it; `null` if not tracked.
    pub wal_full_pages: Option<f64>,
    /// Functions that were JIT-compiled; `null` if not tracked (before PostgreSQL 15).
    pub jit_functions: Option<f64>,
    /// Time of JIT compilation, in nanoseconds, which is part of the execution time; `null` if not tracked.
    pub jit_ns: Option<f64>,
    /// Parallel workers that plans asked for; `null` if not tracked (before PostgreSQL 18).
    pub workers_planned: Option<f64>,
    /// Parallel workers that were launched; `null` if not tracked (before PostgreSQL 18).
    pub workers_launched: Option<f64>,
}

impl WorkPerCall {
    /// Returns the number of executions, divided by the square of the coefficient of variation. If the time lies in a few equally
    /// long executions, it is about their number. `None` in runs that do not have the deviation.
    pub fn effective_calls(&self) -> Option<f64> {
        let variation = self.exec_deviation_ns? / self.exec_ns;
        Some(self.calls as f64 / variation.powi(2))
    }

    /// Divides totals by their executions; `None` without any.
    pub(crate) fn of(totals: &StatementTotals) -> Option<Self> {
        let calls = (totals.calls > 0).then_some(totals.calls as f64)?;
        let per_call = |count: u64| count as f64 / calls;
        let optional = |count: Option<u64>| count.map(per_call);
        Some(Self {
            calls: totals.calls,
            exec_ns: per_call(totals.exec_ns),
            exec_deviation_ns: totals.exec_square_us2.map(|sum| {
                let square_ns2 = sum as f64 * 1e6 / calls;
                (square_ns2 - per_call(totals.exec_ns).powi(2))
                    .max(0.0)
                    .sqrt()
            }),
            plan_ns: optional(totals.plan_ns),
            rows: per_call(totals.rows),
            shared_blocks: per_call(totals.shared_hit + totals.shared_read),
            local_blocks: per_call(totals.local_blocks),
            temp_blocks: per_call(totals.temp_blocks),
            wal_records: optional(totals.wal_records),
            wal_bytes: optional(totals.wal_bytes),
            wal_full_pages: optional(totals.wal_full_pages),
            jit_functions: optional(totals.jit_functions),
            jit_ns: optional(totals.jit_ns),
            workers_planned: optional(totals.workers_planned),
            workers_launched: optional(totals.workers_launched),
        })
    }
}

/// Execution times of typical runs of both sides, after / before. One run with a few very long executions changes the mean of
/// all executions, but not that of a typical run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TypicalRuns {
    /// Number of runs of the side with fewer.
    pub runs: usize,
    /// Lower median of the ratios of pairs. Without pairs, lower median of the runs after / upper median of those before.
    /// At least half of the runs differ by this or more.
    pub low: f64,
    /// Upper median of the ratios, or upper median of the runs after / lower median of those before.
    pub high: f64,
}

impl TypicalRuns {
    /// Compares the mean execution times of each run, in nanoseconds; `None` with one run on a side, or none. Runs at the
    /// same place are pairs if the unit is the pair.
    fn new(mut before: Vec<f64>, mut after: Vec<f64>, unit: ObservationUnit) -> Option<Self> {
        let runs = before.len().min(after.len());
        if runs < 2 || before.iter().any(|ns| *ns <= 0.0) {
            return None;
        }
        if unit == ObservationUnit::Pair {
            let pairs = before.iter().zip(&after);
            after = pairs.map(|(before, after)| after / before).collect();
            before = vec![1.0];
        }
        before.sort_unstable_by(f64::total_cmp);
        after.sort_unstable_by(f64::total_cmp);
        let lower = |side: &[f64]| side[(side.len() - 1) / 2];
        let upper = |side: &[f64]| side[side.len() / 2];
        Some(Self {
            runs,
            low: lower(&after) / upper(&before),
            high: upper(&after) / lower(&before),
        })
    }
}

/// Counter of work that does not depend on a machine's load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkCounter {
    /// Shared blocks.
    SharedBlocks,
    /// Blocks of temporary tables.
    LocalBlocks,
    /// Blocks of temporary files.
    TemporaryBlocks,
    /// Records of WAL.
    WalRecords,
    /// Functions that were JIT-compiled.
    JitFunctions,
}

impl WorkCounter {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            WorkCounter::SharedBlocks => "blocks",
            WorkCounter::LocalBlocks => "blocks of temporary tables",
            WorkCounter::TemporaryBlocks => "blocks of temporary files",
            WorkCounter::WalRecords => "WAL records",
            WorkCounter::JitFunctions => "JIT-compiled functions",
        }
    }
}

/// Counter of work that differs noticeably.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct WorkChange {
    /// The counter.
    pub counter: WorkCounter,
    /// Mean of an execution before.
    pub before: f64,
    /// Mean of an execution after.
    pub after: f64,
}

/// Work of a statement's executions on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WorkComparison {
    /// Work before.
    pub before: WorkPerCall,
    /// Work after.
    pub after: WorkPerCall,
    /// Counters that grew noticeably.
    pub more: Vec<WorkChange>,
    /// Counters that shrank noticeably.
    pub less: Vec<WorkChange>,
    /// Execution times of typical runs; `null` with one run on a side.
    pub typical_runs: Option<TypicalRuns>,
}

impl WorkComparison {
    /// Compares the work of the runs of both sides; `None` without executions on a side.
    pub(crate) fn of_runs(
        before: &[StatementTotals],
        after: &[StatementTotals],
        unit: ObservationUnit,
    ) -> Option<Self> {
        let all = |side: &[StatementTotals]| {
            let mut sum = StatementTotals::default();
            for run in side {
                sum.merge(run);
            }
            WorkPerCall::of(&sum)
        };
        let each = |side: &[StatementTotals]| {
            let runs = side.iter().filter_map(WorkPerCall::of);
            runs.map(|run| run.exec_ns).collect()
        };
        Some(Self {
            typical_runs: TypicalRuns::new(each(before), each(after), unit),
            ..Self::new(all(before)?, all(after)?)
        })
    }

    /// Compares the work of both sides.
    pub(crate) fn new(before: WorkPerCall, after: WorkPerCall) -> Self {
        Self {
            typical_runs: None,
            more: grown(&before, &after),
            less: grown(&after, &before)
                .into_iter()
                .map(|change| WorkChange {
                    before: change.after,
                    after: change.before,
                    ..change
                })
                .collect(),
            before,
            after,
        }
    }

    /// Whether no counter differs noticeably.
    pub fn is_same(&self) -> bool {
        self.more.is_empty() && self.less.is_empty() && !self.has_other_workers()
    }

    /// Returns the ratio of the execution times of an execution; `None` if there was none before.
    pub fn execution_ratio(&self) -> Option<f64> {
        (self.before.exec_ns > 0.0).then(|| self.after.exec_ns / self.before.exec_ns)
    }

    /// Returns the standard error of the logarithm of [`Self::execution_ratio`], by the deviations of single executions
    /// (delta method); `None` in runs that do not have them.
    pub fn execution_error(&self) -> Option<f64> {
        let part = |side: &WorkPerCall| side.effective_calls().map(f64::recip);
        let error = (part(&self.before)? + part(&self.after)?).sqrt();
        error.is_finite().then_some(error)
    }

    /// Whether plans asked for another number of parallel workers. How many of them were launched depends on what
    /// others use at the time.
    pub fn has_other_workers(&self) -> bool {
        let planned = self.before.workers_planned.zip(self.after.workers_planned);
        planned.is_some_and(|(before, after)| (after - before).abs() >= WORKERS_MIN)
    }
}

/// Returns the counters that are noticeably greater in `after`.
fn grown(before: &WorkPerCall, after: &WorkPerCall) -> Vec<WorkChange> {
    use WorkCounter::{JitFunctions, LocalBlocks, SharedBlocks, TemporaryBlocks, WalRecords};
    // A counter that one server does not have says nothing.
    let optional = |counter, of: fn(&WorkPerCall) -> Option<f64>| {
        let (before, after) = of(before).zip(of(after)).unwrap_or_default();
        (counter, before, after)
    };
    let counters = [
        (SharedBlocks, before.shared_blocks, after.shared_blocks),
        (LocalBlocks, before.local_blocks, after.local_blocks),
        (TemporaryBlocks, before.temp_blocks, after.temp_blocks),
        optional(WalRecords, |work| work.wal_records),
        optional(JitFunctions, |work| work.jit_functions),
    ];
    let is_grown = |&(counter, before, after): &(WorkCounter, f64, f64)| {
        let least = match counter {
            WalRecords => WAL_RECORDS_MIN,
            JitFunctions => JIT_FUNCTIONS_MIN,
            SharedBlocks | LocalBlocks | TemporaryBlocks => BLOCKS_MIN,
        };
        after >= WORK_FACTOR * before && after - before >= least
    };
    let grown = counters.into_iter().filter(is_grown);
    grown
        .map(|(counter, before, after)| WorkChange {
            counter,
            before,
            after,
        })
        .collect()
}

/// Whether statistics of `counted` executions describe a run that sent `sent`.
pub(crate) fn describes(counted: u64, sent: u64) -> bool {
    let share = counted as f64 / sent.max(1) as f64;
    (COVERED_MIN..=COVERED_MAX).contains(&share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(shared_blocks: f64, temp_blocks: f64) -> WorkPerCall {
        WorkPerCall {
            calls: 100,
            shared_blocks,
            temp_blocks,
            ..WorkPerCall::default()
        }
    }

    #[test]
    fn little_growth_is_the_same_work() {
        for (before, after) in [(100.0, 140.0), (2.0, 5.0), (0.0, 3.0)] {
            let compared = WorkComparison::new(work(before, 0.0), work(after, 0.0));
            assert!(compared.is_same(), "{compared:?}");
        }
    }

    #[test]
    fn growth_and_shrinkage_are_found_by_counter() {
        let compared = WorkComparison::new(work(4.0, 30.0), work(400.0, 0.0));
        let counters =
            |changes: &[WorkChange]| -> Vec<_> { changes.iter().map(|one| one.counter).collect() };
        assert_eq!(counters(&compared.more), [WorkCounter::SharedBlocks]);
        assert_eq!(counters(&compared.less), [WorkCounter::TemporaryBlocks]);
        assert_eq!(compared.less[0].before, 30.0);
    }

    #[test]
    fn counter_that_one_server_does_not_have_says_nothing() {
        let counted = WorkPerCall {
            wal_records: Some(12.0),
            jit_functions: Some(7.0),
            workers_planned: Some(2.0),
            ..work(4.0, 0.0)
        };
        for (before, after) in [(work(4.0, 0.0), counted), (counted, work(4.0, 0.0))] {
            let compared = WorkComparison::new(before, after);
            assert!(compared.is_same(), "{compared:?}");
        }
    }

    #[test]
    fn compilation_and_planned_workers_are_work() {
        let alone = WorkPerCall {
            jit_functions: Some(0.0),
            workers_planned: Some(0.0),
            workers_launched: Some(0.0),
            ..work(4.0, 0.0)
        };
        let compiled = WorkPerCall {
            jit_functions: Some(5.0),
            ..alone
        };
        let compared = WorkComparison::new(alone, compiled);
        assert_eq!(compared.more[0].counter, WorkCounter::JitFunctions);
        let parallel = WorkPerCall {
            workers_planned: Some(2.0),
            ..alone
        };
        assert!(WorkComparison::new(alone, parallel).has_other_workers());
        let starved = WorkPerCall {
            workers_launched: Some(1.0),
            ..parallel
        };
        assert!(WorkComparison::new(parallel, starved).is_same());
    }

    #[test]
    fn mean_of_a_few_long_executions_rests_on_their_number() {
        // 8 executions of 20 ms among 1,260 of 50 µs.
        let totals = StatementTotals {
            calls: 1_260,
            exec_ns: 8 * 20_000_000 + 1_252 * 50_000,
            exec_square_us2: Some(8 * 20_000 * 20_000 + 1_252 * 50 * 50),
            ..StatementTotals::default()
        };
        let effective = WorkPerCall::of(&totals).and_then(|work| work.effective_calls());
        assert!(
            effective.is_some_and(|calls| (8.0..30.0).contains(&calls)),
            "{effective:?}"
        );
    }

    #[test]
    fn typical_runs_differ_by_what_half_of_them_differ() {
        let runs = |before: &[f64], after: &[f64], unit| {
            TypicalRuns::new(before.to_vec(), after.to_vec(), unit).map(|one| (one.low, one.high))
        };
        let (run, pair) = (ObservationUnit::Run, ObservationUnit::Pair);
        assert_eq!(runs(&[2.0], &[4.0, 4.0], run), None);
        assert_eq!(runs(&[2.0, 4.0], &[4.0, 8.0], run), Some((1.0, 4.0)));
        assert_eq!(runs(&[2.0, 4.0], &[4.0, 8.0], pair), Some((2.0, 2.0)));
        let (before, after) = ([2.0, 2.0, 9.0], [90.0, 2.0, 3.0]);
        assert_eq!(runs(&before, &after, run), Some((1.5, 1.5)));
    }

    #[test]
    fn statistics_of_other_executions_do_not_describe_a_run() {
        assert!(describes(100, 100) && describes(95, 100));
        assert!(!describes(0, 100) && !describes(300, 100));
    }
}
