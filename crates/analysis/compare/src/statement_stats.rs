//! Statistics of one statement in one run, of all statements, or of connecting.

use std::collections::{BTreeMap, BTreeSet};

use run::{Execution, Outcome};
use workload::Sqlstate;

use crate::error_key::ErrorKey;
use crate::row_checksums::RowChecksums;
use crate::slowest::Slowest;
use statistics::Histogram;
use statistics::series::Series;

/// Statistics of one statement, of all statements, or of connecting.
#[derive(Debug, Clone)]
pub(crate) struct StatementStats {
    /// Service times of the executions that succeeded. Failures are excluded, because an error is
    /// often faster than a result and would look like an improvement.
    pub(crate) service: Series,
    /// Response time (due → done) of the executions that succeeded.
    pub(crate) response: Histogram,
    /// Session lag of the executions that were sent.
    pub(crate) session_lag: Histogram,
    /// Counts by outcome.
    pub(crate) outcomes: OutcomeCounts,
    /// Row checksums of the executions that succeeded.
    pub(crate) rows: RowChecksums,
    /// Captured durations, in nanoseconds like all others.
    pub(crate) captured: Histogram,
    pub(crate) slowest: Slowest,
    /// Executions whose time from due to done overlaps a stall of the tool. Their times are not compared.
    pub(crate) in_stalls: u64,
}

/// Counts of executions by outcome; counts of several runs can be merged.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutcomeCounts {
    pub(crate) done: u64,
    pub(crate) skipped: u64,
    pub(crate) errors: BTreeMap<Sqlstate, FailureCount>,
    pub(crate) captured_errors: BTreeMap<Sqlstate, u64>,
}

/// Number of failures, and their first message.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailureCount {
    pub(crate) count: u64,
    /// Number of these that are consequences of an earlier failure.
    pub(crate) consequences: u64,
    /// Number of these consequences by the failure that they follow from.
    pub(crate) causes: BTreeMap<ErrorKey, u64>,
    /// Number of failures that are consequences of these.
    pub(crate) following: u64,
    /// Number of these within stalls of the tool.
    pub(crate) in_stalls: u64,
    pub(crate) message: Option<String>,
}

impl FailureCount {
    /// Returns the number of failures that are no consequences of others.
    pub(crate) fn roots(&self) -> u64 {
        self.count - self.consequences
    }
}

impl OutcomeCounts {
    /// Returns the number of executions that were sent.
    pub(crate) fn calls(&self) -> u64 {
        self.done + self.failed()
    }

    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().map(|failures| failures.count).sum()
    }

    pub(crate) fn captured_failed(&self) -> u64 {
        self.captured_errors.values().sum()
    }

    /// Returns the captured number of these errors, including errors whose code the source hid.
    pub(crate) fn captured_as(&self, codes: &BTreeSet<Sqlstate>) -> u64 {
        let of = |code| self.captured_errors.get(code).copied().unwrap_or(0);
        let hidden = match codes.contains(&Sqlstate::UNKNOWN) {
            true => 0,
            false => of(&Sqlstate::UNKNOWN),
        };
        codes.iter().map(of).sum::<u64>() + hidden
    }

    /// Adds the counts of another run.
    pub(crate) fn merge(&mut self, other: &OutcomeCounts) {
        self.done += other.done;
        self.skipped += other.skipped;
        for (sqlstate, failures) in &other.errors {
            let mine = self.errors.entry(*sqlstate).or_default();
            mine.count += failures.count;
            mine.consequences += failures.consequences;
            for (cause, count) in &failures.causes {
                *mine.causes.entry(*cause).or_default() += count;
            }
            mine.following += failures.following;
            mine.in_stalls += failures.in_stalls;
            if mine.message.is_none() {
                mine.message.clone_from(&failures.message);
            }
        }
        for (sqlstate, count) in &other.captured_errors {
            *self.captured_errors.entry(*sqlstate).or_default() += count;
        }
    }
}

impl StatementStats {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            service: Series::new(seed),
            response: Histogram::new(),
            session_lag: Histogram::new(),
            outcomes: OutcomeCounts::default(),
            rows: RowChecksums::default(),
            captured: Histogram::new(),
            slowest: Slowest::default(),
            in_stalls: 0,
        }
    }

    /// Adds an execution. `in_stall`: whether a stall of the tool delayed it.
    pub(crate) fn add(&mut self, execution: &Execution, slot: u8, in_stall: bool) {
        self.in_stalls += u64::from(in_stall && execution.sent_ns.is_some());
        let outcomes = &mut self.outcomes;
        match execution.outcome {
            Outcome::Done => {
                outcomes.done += 1;
                self.rows.add(
                    execution.session,
                    execution.sequence,
                    execution.rows,
                    execution.digest,
                );
                if let Some(service_ns) = execution.service_ns()
                    && !in_stall
                {
                    self.service.record(service_ns.max(0) as u64, slot);
                    self.slowest.offer(execution, service_ns);
                }
                if let Some(response_ns) = execution.response_ns()
                    && !in_stall
                {
                    self.response.record(response_ns.max(0) as u64);
                }
            }
            Outcome::Failed(sqlstate) => {
                let failures = outcomes.errors.entry(sqlstate).or_default();
                failures.count += 1;
                failures.in_stalls += u64::from(in_stall);
                if failures.message.is_none() {
                    failures.message.clone_from(&execution.message);
                }
            }
            Outcome::Skipped(_) => outcomes.skipped += 1,
        }
        if execution.sent_ns.is_some() {
            self.session_lag.record(execution.session_lag_ns);
        }
        if let Some(duration_us) = execution.captured.duration_us {
            self.captured.record(duration_us.saturating_mul(1_000));
        }
        if let Some(sqlstate) = execution.captured.sqlstate {
            *outcomes.captured_errors.entry(sqlstate).or_default() += 1;
        }
    }
}
