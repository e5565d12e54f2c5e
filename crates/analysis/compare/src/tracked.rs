//! What is kept of one statement in one run, of all of them, or of connecting.

use std::collections::BTreeMap;

use run::{Execution, Outcome};
use workload::Sqlstate;

use crate::rows_change::RowsSeen;
use crate::slowest::Slowest;
use statistics::Histogram;
use statistics::series::Series;

/// What is kept of one statement, of all of them, or of connecting.
#[derive(Debug, Clone)]
pub(crate) struct Tracked {
    /// Service times of what was done. What failed is not among them: an error is often faster
    /// than an answer, and would pass for an improvement.
    pub(crate) service: Series,
    /// Due → done, of what was done.
    pub(crate) response: Histogram,
    /// Waiting for the session's previous statement, of what was sent.
    pub(crate) session_lag: Histogram,
    /// How often it went which way.
    pub(crate) account: Account,
    /// Rows of what was done.
    pub(crate) rows: RowsSeen,
    /// Captured durations, in nanoseconds like all others.
    pub(crate) captured: Histogram,
    pub(crate) slowest: Slowest,
}

/// How often something went which way; those of several runs add up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account {
    pub(crate) done: u64,
    pub(crate) skipped: u64,
    pub(crate) errors: BTreeMap<Sqlstate, Failures>,
    pub(crate) captured_errors: BTreeMap<Sqlstate, u64>,
}

/// How often something failed, and with which message first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failures {
    pub(crate) count: u64,
    pub(crate) message: Option<String>,
}

impl Account {
    /// What was sent, done or not.
    pub(crate) fn calls(&self) -> u64 {
        self.done + self.failed()
    }

    pub(crate) fn failed(&self) -> u64 {
        self.errors.values().map(|failures| failures.count).sum()
    }

    pub(crate) fn captured_failed(&self) -> u64 {
        self.captured_errors.values().sum()
    }

    /// How often this error, or one whose code the source hid, was captured.
    pub(crate) fn captured_as(&self, sqlstate: Sqlstate) -> u64 {
        let of = |code| self.captured_errors.get(&code).copied().unwrap_or(0);
        let hidden = if sqlstate == Sqlstate::UNKNOWN {
            0
        } else {
            of(Sqlstate::UNKNOWN)
        };
        of(sqlstate) + hidden
    }

    /// Adds what another run counted.
    pub(crate) fn absorb(&mut self, other: &Account) {
        self.done += other.done;
        self.skipped += other.skipped;
        for (sqlstate, failures) in &other.errors {
            let mine = self.errors.entry(*sqlstate).or_default();
            mine.count += failures.count;
            if mine.message.is_none() {
                mine.message.clone_from(&failures.message);
            }
        }
        for (sqlstate, count) in &other.captured_errors {
            *self.captured_errors.entry(*sqlstate).or_default() += count;
        }
    }
}

impl Tracked {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            service: Series::new(seed),
            response: Histogram::new(),
            session_lag: Histogram::new(),
            account: Account::default(),
            rows: RowsSeen::default(),
            captured: Histogram::new(),
            slowest: Slowest::default(),
        }
    }

    pub(crate) fn add(&mut self, execution: &Execution, slot: u8) {
        let account = &mut self.account;
        match execution.outcome {
            Outcome::Done => {
                account.done += 1;
                self.rows.add(
                    execution.session,
                    execution.sequence,
                    execution.rows,
                    execution.digest,
                );
                if let Some(service_ns) = execution.service_ns() {
                    self.service.record(service_ns.max(0) as u64, slot);
                    self.slowest.offer(execution, service_ns);
                }
                if let Some(response_ns) = execution.response_ns() {
                    self.response.record(response_ns.max(0) as u64);
                }
            }
            Outcome::Failed(sqlstate) => {
                let failures = account.errors.entry(sqlstate).or_default();
                failures.count += 1;
                if failures.message.is_none() {
                    failures.message.clone_from(&execution.message);
                }
            }
            Outcome::Skipped(_) => account.skipped += 1,
        }
        if execution.sent_ns.is_some() {
            self.session_lag.record(execution.session_lag_ns);
        }
        if let Some(duration_us) = execution.captured.duration_us {
            self.captured.record(duration_us.saturating_mul(1_000));
        }
        if let Some(sqlstate) = execution.captured.sqlstate {
            *account.captured_errors.entry(sqlstate).or_default() += 1;
        }
    }
}
