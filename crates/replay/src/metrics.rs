//! Metrics of a running replay.
//!
//! Each worker writes its own [`WorkerCounts`], with relaxed loads and stores and no other writer; a reader sums
//! them. So the values of one reading are not of a single moment, but every count only grows, and after the end
//! all add up.
//!
//! To add a counter, add one line to the table [`Count`] and a call `metrics.add(worker, Count::It, 1)`. For rare
//! events of all threads, add one line to `ConnectionEvents::counted`. Every renderer of [`MetricsReading`] then shows
//! it, and the test of the dashboard asks for a panel.
//!
//! Metrics formats, and metrics that the operating system has of the process, are left to the program.

mod histogram;
mod labels;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use clock::Clock;
use run::{Execution, Outcome, StatementKind};
use sql::TraceParent;

use crate::backends::Backends;
use crate::connection_events::{ConnectionEvents, Counter};
use crate::counters::Counters;
use crate::live_stats::{LatencyHistograms, LiveStats, TopStatements};
use crate::sampled_executions::{ExecutionSampler, SampledExecutions};
use histogram::Cells;
pub use histogram::{BOUNDS_NS, Histogram};
use labels::{Codes, Names, codes, names};

macro_rules! counts {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $help:literal;)*) => {
        /// Counter of a worker.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Count { $($(#[doc = $doc])* $variant,)* }

        impl Count {
            const ALL: &'static [(Count, &'static str, &'static str)] =
                &[$((Count::$variant, $name, $help),)*];
        }
    };
}

counts! {
    /// Statements that the server did.
    Done = "", "";
    /// Statements that failed.
    Failed = "", "";
    /// Statements that were never sent.
    Skipped = "", "";
    /// Records sent to the recorder.
    Recorded = "", "";
    /// Statements of which at least a part was handed to the operating system.
    Sent = "statements_sent", "Statements that were sent.";
    /// Sent statements that ended, however.
    Ended = "statements_ended", "Sent statements that ended, however.";
    /// Connections asked of the connectors.
    OpensAsked = "connection_attempts", "Attempts to open a connection.";
    /// Answers of the connectors, with a connection or without.
    OpensAnswered = "connection_attempts_ended", "Attempts to open a connection that ended, however.";
    /// Rows returned or affected.
    Rows = "rows_received", "Rows returned or affected, as the server's command tags count them.";
    /// Bytes of answers.
    Bytes = "bytes_received", "Bytes of answers, all messages with their headers, before encryption.";
}

/// Counts of one worker. No two workers share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct WorkerCounts {
    counts: [AtomicU64; Count::ALL.len()],
    tool_lag: Cells,
    session_lag: Cells,
    service: Cells,
    response: Cells,
    connect: Cells,
    failed: codes::Cells,
    connections_failed: codes::Cells,
    skipped: names::Cells,
    spilled: AtomicU64,
}

/// Adds without a locked instruction, since each cell has one writer.
#[inline]
fn add(cell: &AtomicU64, by: u64) {
    cell.store(
        cell.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

impl WorkerCounts {
    #[inline]
    fn add(&self, count: Count, by: u64) {
        add(&self.counts[count as usize], by);
    }
}

/// Metrics of a replay. A reading costs the replay only cache traffic.
pub struct Metrics {
    workers: Vec<WorkerCounts>,
    codes: Codes,
    reasons: Names,
    /// Records that the recorder has written, of those that [`Count::Recorded`] counts.
    count_written: AtomicU64,
    counters: Arc<Counters>,
    events: Arc<ConnectionEvents>,
    backends: Backends,
    clock: Arc<dyn Clock>,
    start_ns: i64,
    statements: u64,
    /// End of the replay; `i64::MAX` while it runs.
    over_ns: AtomicI64,
    /// Statistics of executions, if requested.
    live_stats: Mutex<Option<LiveStats>>,
    /// Sampler of executions, if requested.
    sampler: OnceLock<ExecutionSampler>,
}

impl Metrics {
    pub(crate) fn new(
        workers: usize,
        counters: &Arc<Counters>,
        events: &Arc<ConnectionEvents>,
        clock: &Arc<dyn Clock>,
        start_ns: i64,
        statements: u64,
    ) -> Self {
        Metrics {
            workers: (0..workers).map(|_| WorkerCounts::default()).collect(),
            codes: Codes::default(),
            reasons: Names::default(),
            count_written: AtomicU64::new(0),
            counters: counters.clone(),
            events: events.clone(),
            backends: Backends::default(),
            clock: clock.clone(),
            start_ns,
            statements,
            over_ns: AtomicI64::new(i64::MAX),
            live_stats: Mutex::new(None),
            sampler: OnceLock::new(),
        }
    }

    /// Starts keeping statistics of executions ([`Self::latencies`], [`Self::top_statements`]) and counting due statements
    /// ([`MetricsReading::due`]). Must be called before the first statement is sent.
    pub fn enable_live_stats(&self) {
        self.ledger().get_or_insert_default();
        self.counters.due.enable();
    }

    /// Starts sampling the executions of these traces. Must be called before the first statement is sent, and once.
    pub fn sample_executions(
        &self,
        selects: impl Fn(&TraceParent) -> bool + Send + Sync + 'static,
    ) -> SampledExecutions {
        let (sampler, sampled) = ExecutionSampler::new(selects);
        // A second reader gets none.
        let _ = self.sampler.set(sampler);
        sampled
    }

    /// Returns the histograms so far; `None` if they are not kept. They come from the recorder, so they lag the
    /// other metrics by up to a tenth of a second.
    pub fn latencies(&self) -> Option<LatencyHistograms> {
        self.ledger().as_ref().map(LiveStats::times)
    }

    /// Returns at most `most` statements with the most service time so far; `None` if they are not kept.
    pub fn top_statements(&self, most: usize) -> Option<TopStatements> {
        self.ledger().as_ref().map(|ledger| ledger.costliest(most))
    }

    /// Adds a worker's records to the statistics and to the sample, with one lock for the whole batch.
    pub(crate) fn record_batch(&self, records: &[(i64, Execution)]) {
        if let Some(ledger) = &mut *self.ledger() {
            records.iter().for_each(|(_, one)| ledger.count(one));
        }
        if let Some(sampler) = self.sampler.get() {
            records.iter().for_each(|(_, one)| sampler.offer(one));
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Option<LiveStats>> {
        self.live_stats
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the backends of the sessions.
    pub fn backends(&self) -> &Backends {
        &self.backends
    }

    /// Adds to a counter. Must be called on the thread of that worker.
    #[inline]
    pub(crate) fn add(&self, worker: usize, count: Count, by: u64) {
        self.workers[worker].add(count, by);
    }

    /// Sets the number of a worker's jobs that are spilled to disk.
    pub(crate) fn set_spilled(&self, worker: usize, jobs: u64) {
        self.workers[worker].spilled.store(jobs, Ordering::Relaxed);
    }

    /// Counts a record for the recorder. Must be called on the thread of that worker.
    #[inline]
    pub(crate) fn record(&self, worker: usize, execution: &Execution) {
        let tally = &self.workers[worker];
        tally.add(Count::Recorded, 1);
        if !execution.is_statement() {
            if execution.kind == StatementKind::Connect {
                if let Some(ns) = execution.service_ns() {
                    tally.connect.count(ns);
                }
                if let Outcome::Failed(sqlstate) = execution.outcome {
                    tally.connections_failed.count(&self.codes, sqlstate);
                }
            }
            return;
        }
        match execution.outcome {
            Outcome::Done => tally.add(Count::Done, 1),
            Outcome::Failed(sqlstate) => {
                tally.add(Count::Failed, 1);
                tally.failed.count(&self.codes, sqlstate);
            }
            Outcome::Skipped(reason) => {
                tally.add(Count::Skipped, 1);
                tally.skipped.count(&self.reasons, reason.name());
            }
        }
        let Some(tool_lag_ns) = execution.tool_lag_ns() else {
            return;
        };
        tally.add(Count::Ended, 1);
        tally.tool_lag.count(tool_lag_ns);
        tally.session_lag.count(execution.session_lag_ns as i64);
        if let (Some(service_ns), Some(response_ns)) =
            (execution.service_ns(), execution.response_ns())
        {
            tally.service.count(service_ns);
            tally.response.count(response_ns);
            tally.add(Count::Rows, execution.rows);
            tally.add(Count::Bytes, execution.bytes);
        }
    }

    /// Counts a record that the recorder has written.
    pub(crate) fn written(&self) {
        self.count_written.fetch_add(1, Ordering::Relaxed);
    }

    /// Stops the elapsed time.
    pub(crate) fn stop(&self) {
        let now_ns = self.clock.now_ns() - self.start_ns;
        self.over_ns.store(now_ns, Ordering::Release);
    }

    /// Returns the time since the replay's start, in nanoseconds, as executions have it; negative before it.
    pub fn now_ns(&self) -> i64 {
        self.clock.now_ns() - self.start_ns
    }

    /// Reads all metrics.
    pub fn read(&self) -> MetricsReading {
        let over_ns = self.over_ns.load(Ordering::Acquire);
        let elapsed_ns = (self.clock.now_ns() - self.start_ns).min(over_ns).max(0);
        // Ends are read before beginnings, so that the number in progress is never negative.
        let written = self.count_written.load(Ordering::Relaxed);
        let sum = |count: Count| -> u64 {
            let of = |tally: &WorkerCounts| tally.counts[count as usize].load(Ordering::Relaxed);
            self.workers.iter().map(of).sum()
        };
        let (ended, answered) = (sum(Count::Ended), sum(Count::OpensAnswered));
        let histogram =
            |cells: fn(&WorkerCounts) -> &Cells| Histogram::sum(self.workers.iter().map(cells));
        let mut counted: Vec<Counter> = Count::ALL
            .iter()
            .filter(|(_, name, _)| !name.is_empty())
            .map(|&(count, name, help)| Counter {
                name,
                help,
                value: match count {
                    Count::Ended => ended,
                    Count::OpensAnswered => answered,
                    count => sum(count),
                },
            })
            .collect();
        counted.extend(self.events.counted());
        MetricsReading {
            running: over_ns == i64::MAX,
            elapsed_ns,
            dispatched_ns: self.counters.planned_ns.load(Ordering::Relaxed),
            last_answer_ns: self.counters.heard_ns.load(Ordering::Relaxed),
            statements: self.statements,
            due: self.counters.due.due_by(elapsed_ns),
            done: sum(Count::Done),
            failed: sum(Count::Failed),
            skipped: sum(Count::Skipped),
            failed_by: self
                .codes
                .sum(self.workers.iter().map(|tally| &tally.failed)),
            skipped_by: self
                .reasons
                .sum(self.workers.iter().map(|tally| &tally.skipped)),
            connections_failed: self
                .codes
                .sum(self.workers.iter().map(|tally| &tally.connections_failed)),
            connections_lost: self.events.lost_by(),
            sessions_open: self.counters.sessions_open.load(Ordering::Relaxed),
            sessions_connecting: sum(Count::OpensAsked).saturating_sub(answered),
            sessions_waiting: sum(Count::Sent).saturating_sub(ended),
            jobs_waiting: self.counters.waiting.load(Ordering::Relaxed).max(0) as u64,
            jobs_spilled: self
                .workers
                .iter()
                .map(|tally| tally.spilled.load(Ordering::Relaxed))
                .sum(),
            recorder_backlog: sum(Count::Recorded).saturating_sub(written),
            counters: counted,
            tool_lag: histogram(|tally| &tally.tool_lag),
            session_lag: histogram(|tally| &tally.session_lag),
            service: histogram(|tally| &tally.service),
            response: histogram(|tally| &tally.response),
            connect: histogram(|tally| &tally.connect),
        }
    }
}

/// Values of a [`Metrics`] at one time. Counters only grow; gauges ("now") may also fall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsReading {
    /// Whether the replay still runs.
    pub running: bool,
    /// Time since the start, in nanoseconds; 0 before it.
    pub elapsed_ns: i64,
    /// Due time of the last dispatched job, in nanoseconds from the start.
    pub dispatched_ns: i64,
    /// Time of the last answer of the target, in nanoseconds from the start, exact to 50 ms.
    pub last_answer_ns: i64,
    /// Statements of the workload, copies included.
    pub statements: u64,
    /// Statements that are due so far. `None` if they are not counted ([`Metrics::enable_live_stats`]); 0 at full speed
    /// and in a closed loop, which have no due times.
    pub due: Option<u64>,
    /// Statements that the server did.
    pub done: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Statements that were never sent.
    pub skipped: u64,
    /// Failures by SQLSTATE; past a fixed number of different ones, under `other`.
    pub failed_by: Vec<(String, u64)>,
    /// Skipped statements by [`run::SkipReason::name`].
    pub skipped_by: Vec<(String, u64)>,
    /// Sessions whose connection could not be opened, by SQLSTATE.
    pub connections_failed: Vec<(String, u64)>,
    /// Connections that were lost, by SQLSTATE.
    pub connections_lost: Vec<(String, u64)>,
    /// Connections open now.
    pub sessions_open: u64,
    /// Connections being opened now.
    pub sessions_connecting: u64,
    /// Statements in flight now: their sessions wait for the server.
    pub sessions_waiting: u64,
    /// Jobs given to workers and not done: read ahead, waiting for a slow statement, or in flight.
    pub jobs_waiting: u64,
    /// Jobs among these that are spilled to disk.
    pub jobs_spilled: u64,
    /// Records that are not yet written to the run.
    pub recorder_backlog: u64,
    /// All other counters.
    pub counters: Vec<Counter>,
    /// Tool lag of sent statements.
    pub tool_lag: Histogram,
    /// Session lag of sent statements.
    pub session_lag: Histogram,
    /// Service times, from sent to done, of answered statements.
    pub service: Histogram,
    /// Response times, from due to done, of answered statements.
    pub response: Histogram,
    /// Connect times of sessions, failed attempts included.
    pub connect: Histogram,
}

#[cfg(test)]
mod tests;
