//! Measurements of a sweep's trial, from its run.

use std::collections::BTreeMap;

use run::{Execution, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::{Histogram, LatencySummary};

use super::statement_counts::Counted;
use crate::stalled_share::TrialStalls;

/// Times, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)]
pub struct Times {
    pub count: u64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub max_us: f64,
}

impl From<LatencySummary> for Times {
    fn from(marks: LatencySummary) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        Times {
            count: marks.count,
            mean_us: marks.mean_ns / 1e3,
            p50_us: us(marks.p50_ns),
            p95_us: us(marks.p95_ns),
            p99_us: us(marks.p99_ns),
            max_us: us(marks.max_ns),
        }
    }
}

/// Measurements of a trial, between the end of its warm-up and its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Numbers {
    /// Duration of this window, in seconds.
    pub window_s: f64,
    /// Statements that succeeded in the window.
    pub statements: u64,
    /// Statements that failed in the window, by SQLSTATE.
    #[serde(default)]
    pub failed: BTreeMap<String, u64>,
    /// Statements of the whole trial that were never sent, by reason. Those due after the end of the trial are not
    /// included.
    #[serde(default)]
    pub skipped: BTreeMap<String, u64>,
    /// Transactions that ended in the window; statements, if the load is a workload.
    pub transactions: u64,
    /// Transactions a second.
    pub per_s: f64,
    /// Transactions that ended in each second of the window; the last second may be incomplete.
    #[serde(default)]
    pub each_second: Vec<u64>,
    /// Response times of transactions, from when one was due to its end.
    pub response: Option<Times>,
    /// Average number of clients that waited for the server. If it is below the number of clients, this program did
    /// not keep them busy, or they had nothing to do.
    pub busy: f64,
    /// 99th percentile of the delay by this program, in microseconds.
    pub tool_lag_p99_us: Option<f64>,
    /// CPU time of this process for each statement, in microseconds.
    pub client_cpu_us: Option<f64>,
    /// CPU time of the server's processes for each statement, in microseconds.
    pub server_cpu_us: Option<f64>,
    /// Share of the processors' time in use, stolen time included and waiting for disks not.
    pub machine_busy: Option<f64>,
    /// Counts of `pg_stat_statements`.
    pub counted: Option<Counted>,
    /// Stalls of this program in the window.
    #[serde(default)]
    pub stalls: TrialStalls,
    /// Measurements that are missing, with the reasons.
    #[serde(default)]
    pub missing: BTreeMap<String, String>,
    /// Sessions whose connection could not be opened.
    #[serde(default)]
    pub connections_failed: u64,
}

/// Sums of executions.
pub(super) struct Sums {
    window: (i64, i64),
    of_one: u64,
    /// Open transactions, by session: when each was due, and whether a statement of it failed.
    open: BTreeMap<u64, (i64, bool)>,
    response: Histogram,
    tool_lag: Histogram,
    busy_ns: i64,
    numbers: Numbers,
}

impl Sums {
    /// Starts sums over a window, in nanoseconds from the replay's start. A transaction has `of_one` statements.
    pub(super) fn new(window: (i64, i64), of_one: u64) -> Self {
        let seconds = (window.1 - window.0).max(1) as f64 / 1e9;
        Sums {
            window,
            of_one: of_one.max(1),
            open: BTreeMap::new(),
            response: Histogram::new(),
            tool_lag: Histogram::new(),
            busy_ns: 0,
            numbers: Numbers {
                window_s: seconds,
                each_second: vec![0; seconds.ceil() as usize],
                ..Numbers::default()
            },
        }
    }

    /// Adds an execution. Those of a session come in their order.
    pub(super) fn take(&mut self, execution: &Execution) {
        let (from_ns, to_ns) = self.window;
        if let Outcome::Skipped(reason) = execution.outcome {
            if execution.is_statement() && reason != run::SkipReason::Stopped {
                let skipped = &mut self.numbers.skipped;
                *skipped.entry(reason.name().to_owned()).or_default() += 1;
            }
            return;
        }
        let (Some(sent_ns), Some(done_ns)) = (execution.sent_ns, execution.done_ns) else {
            return;
        };
        if !execution.is_statement() {
            return;
        }
        self.busy_ns += (done_ns.min(to_ns) - sent_ns.max(from_ns)).max(0);
        let place = execution.sequence.saturating_sub(1) % self.of_one;
        let fails = execution.outcome != Outcome::Done;
        let (begins_ns, failed) = match (self.of_one, place) {
            (1, _) => (execution.due_ns, fails),
            (_, 0) => {
                self.open
                    .insert(execution.session, (execution.due_ns, fails));
                (execution.due_ns, fails)
            }
            _ => {
                let begun = self.open.entry(execution.session);
                let (begins_ns, failed) = begun.or_insert((execution.due_ns, false));
                *failed |= fails;
                (*begins_ns, *failed)
            }
        };
        if !(from_ns..to_ns).contains(&done_ns) {
            return;
        }
        match execution.outcome {
            Outcome::Done => self.numbers.statements += 1,
            Outcome::Failed(code) => {
                let failed = &mut self.numbers.failed;
                *failed.entry(code.to_string()).or_default() += 1;
            }
            Outcome::Skipped(_) => {}
        }
        if let Some(lag_ns) = execution.tool_lag_ns() {
            self.tool_lag.record(lag_ns as u64);
        }
        if place + 1 == self.of_one && !failed {
            self.numbers.transactions += 1;
            self.response.record((done_ns - begins_ns).max(0) as u64);
            let second = ((done_ns - from_ns) / 1_000_000_000) as usize;
            if let Some(count) = self.numbers.each_second.get_mut(second) {
                *count += 1;
            }
        }
    }

    /// Returns the measurements that follow from executions.
    pub(super) fn finish(mut self) -> Numbers {
        let window_ns = (self.window.1 - self.window.0).max(1) as f64;
        self.numbers.per_s = self.numbers.transactions as f64 * 1e9 / window_ns;
        self.numbers.busy = self.busy_ns as f64 / window_ns;
        self.numbers.response = self.response.latency_summary().map(Times::from);
        let lag = self.tool_lag.latency_summary();
        self.numbers.tool_lag_p99_us = lag.map(|lag| lag.p99_ns as f64 / 1e3);
        self.numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use run::{Captured, SkipReason, StatementKind};
    use workload::Sqlstate;

    const S: i64 = 1_000_000_000;

    fn execution(session: u64, sequence: u64, sent_ns: i64, done_ns: i64) -> Execution {
        Execution {
            session,
            sequence,
            fingerprint: None,
            kind: StatementKind::Simple,
            outcome: Outcome::Done,
            due_ns: sent_ns - 1_000,
            sent_ns: Some(sent_ns),
            first_byte_ns: None,
            done_ns: Some(done_ns),
            session_lag_ns: 0,
            stalled_ns: 0,
            rows: 0,
            bytes: 0,
            digest: None,
            message: None,
            captured: Captured::default(),
        }
    }

    #[test]
    fn sums_count_only_executions_that_end_in_the_window() {
        let mut sums = Sums::new((S, 3 * S), 1);
        sums.take(&execution(1, 1, 0, S / 2));
        sums.take(&execution(1, 2, S / 2, S + S / 2));
        sums.take(&execution(1, 3, S + S / 2, 2 * S + S / 2));
        sums.take(&execution(1, 4, 2 * S + S / 2, 4 * S));
        let mut failed = execution(2, 1, S, 2 * S);
        failed.outcome = Outcome::Failed(Sqlstate(*b"40001"));
        sums.take(&failed);
        for reason in [SkipReason::Stopped, SkipReason::TransactionLost] {
            let mut skipped = execution(3, 1, 0, 0);
            skipped.outcome = Outcome::Skipped(reason);
            (skipped.sent_ns, skipped.done_ns) = (None, None);
            sums.take(&skipped);
        }
        let numbers = sums.finish();
        assert_eq!((numbers.statements, numbers.transactions), (2, 2));
        assert_eq!(numbers.failed, [("40001".to_owned(), 1)].into());
        assert_eq!(numbers.skipped, [("transaction_lost".to_owned(), 1)].into());
        assert_eq!((numbers.window_s, numbers.per_s), (2.0, 1.0));
        assert_eq!(numbers.each_second, [1, 1]);
        // Session 1 the whole window, session 2 the half of it.
        assert!((numbers.busy - 1.5).abs() < 1e-9);
        assert_eq!(numbers.response.unwrap().count, 2);
        assert_eq!(numbers.tool_lag_p99_us, Some(1.0));
    }

    #[test]
    fn sums_measure_a_transaction_from_first_due_to_last_done() {
        let mut sums = Sums::new((0, S), 3);
        for (session, at) in [(7, 0), (8, 100)] {
            for sequence in 1..=6i64 {
                let sent = at + sequence * 10_000;
                sums.take(&execution(session, sequence as u64, sent, sent + 8_000));
            }
        }
        let numbers = sums.finish();
        assert_eq!((numbers.statements, numbers.transactions), (12, 4));
        let response = numbers.response.unwrap();
        // Due 1 µs before it is sent, with two more statements of 10 µs before the last of 8 µs.
        assert!((response.max_us - 29.0).abs() < 1e-9, "{response:?}");
        // A transaction with a failed statement does not count, since its end rolls it back.
        let mut sums = Sums::new((0, S), 3);
        sums.take(&execution(1, 1, 1, 2));
        let mut failed = execution(1, 2, 3, 4);
        failed.outcome = Outcome::Failed(Sqlstate(*b"40P01"));
        sums.take(&failed);
        sums.take(&execution(1, 3, 5, 6));
        assert_eq!(sums.finish().transactions, 0);
    }
}
