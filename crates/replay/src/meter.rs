//! What a replay counts while it runs, for whoever measures the tool itself.
//!
//! Each worker writes a [`Tally`] of its own, with relaxed loads and stores and no other writer;
//! whoever reads sums them. A reading is therefore no single moment's, but every count in it only
//! grows, and after the end all add up.
//!
//! To add a counter: one line in the table [`Count`], and `meter.add(worker, Count::It, 1)` where it
//! happens; for what is seldom and of all threads, one line in `Incidents::counted`. Whatever
//! renders [`Readings`] shows it from then on, and the test of the dashboard asks for a panel.
//!
//! Deliberately absent: texts of metrics formats, and what the operating system knows of the process.

mod histogram;
mod labels;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clock::Clock;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use run::{Execution, Outcome, StatementKind};
use workload::Sqlstate;

use crate::backends::Backends;
use crate::incidents::Incidents;
use crate::ledger::{Costliest, Ledger, LedgerTimes};
use crate::progress::Counters;
use histogram::Cells;
pub use histogram::{BOUNDS_NS, Histogram};
use labels::{Codes, Names, codes, names};

/// What happened that a log should tell and that nobody has fetched yet: more is counted only.
const HAPPENINGS_MAX: usize = 1_024;

macro_rules! counts {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $help:literal;)*) => {
        /// A count that only grows.
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
    /// All that goes to the recorder.
    Recorded = "", "";
    /// Statements of which at least a part was handed to the operating system.
    Sent = "statements_sent", "Statements that were sent.";
    /// Sent statements that ended, however.
    Ended = "statements_ended", "Sent statements that ended, however.";
    /// Connections asked of the connectors.
    OpensAsked = "connection_attempts", "Attempts to open a connection.";
    /// Such that came back, with a connection or without.
    OpensAnswered = "connection_attempts_ended", "Attempts to open a connection that ended, however.";
    /// Rows returned or affected.
    Rows = "rows_received", "Rows returned or affected, as the server's command tags count them.";
    /// Bytes of answers.
    Bytes = "bytes_received", "Bytes of answers, all messages with their headers, before encryption.";
}

/// A worker's own counts. No two workers share a line of cache.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Tally {
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

/// Adds without a locked instruction: a tally has one writer.
#[inline]
fn add(cell: &AtomicU64, by: u64) {
    cell.store(
        cell.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}

impl Tally {
    #[inline]
    fn add(&self, count: Count, by: u64) {
        add(&self.counts[count as usize], by);
    }
}

/// Something that a log should tell of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// A connection could not be opened, and its session does not begin.
    ConnectionRefused {
        /// The session's number in the run.
        session: u64,
        /// The code.
        sqlstate: Sqlstate,
        /// The target's message, or the system's.
        message: String,
    },
    /// A connection was lost.
    ConnectionLost {
        /// The code.
        sqlstate: Sqlstate,
    },
    /// A lost connection was opened again.
    ConnectionReopened {
        /// Statements that failed of those that bring the session to where it was.
        restore_errors: u64,
    },
    /// A connection could not be opened, and will be tried again.
    ConnectionTriedAgain,
    /// A cancel request did not reach the target.
    CancelFailed,
    /// The replay gives the target up.
    GivenUp {
        /// Why, in words.
        reason: String,
    },
}

/// Where what happens is left for the observer's thread. Never waits.
#[derive(Debug)]
pub(crate) struct Happenings {
    sender: Sender<Happening>,
    receiver: Receiver<Happening>,
    left_out: AtomicU64,
}

impl Default for Happenings {
    fn default() -> Self {
        let (sender, receiver) = bounded(HAPPENINGS_MAX);
        Happenings {
            sender,
            receiver,
            left_out: AtomicU64::new(0),
        }
    }
}

impl Happenings {
    pub(crate) fn tell(&self, happening: Happening) {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(happening) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What has happened since the last time, and how much more that there was no room for.
    pub(crate) fn take(&self) -> (Vec<Happening>, u64) {
        (
            self.receiver.try_iter().collect(),
            self.left_out.swap(0, Ordering::Relaxed),
        )
    }
}

/// What a replay counts. Reading it costs the replay nothing but the traffic between caches.
pub struct Meter {
    tallies: Vec<Tally>,
    codes: Codes,
    reasons: Names,
    /// Of [`Count::Recorded`], what the recorder has written.
    written: AtomicU64,
    counters: Arc<Counters>,
    incidents: Arc<Incidents>,
    backends: Backends,
    clock: Arc<dyn Clock>,
    start_ns: i64,
    statements: u64,
    /// When it was over; before, `i64::MAX`.
    over_ns: AtomicI64,
    /// What is kept of executions, where somebody asked for it.
    ledger: Mutex<Option<Ledger>>,
}

impl Meter {
    pub(crate) fn new(
        workers: usize,
        counters: &Arc<Counters>,
        incidents: &Arc<Incidents>,
        clock: &Arc<dyn Clock>,
        start_ns: i64,
        statements: u64,
    ) -> Self {
        Meter {
            tallies: (0..workers).map(|_| Tally::default()).collect(),
            codes: Codes::default(),
            reasons: Names::default(),
            written: AtomicU64::new(0),
            counters: counters.clone(),
            incidents: incidents.clone(),
            backends: Backends::default(),
            clock: clock.clone(),
            start_ns,
            statements,
            over_ns: AtomicI64::new(i64::MAX),
            ledger: Mutex::new(None),
        }
    }

    /// Keeps a ledger from now on ([`Self::times`], [`Self::costliest`]), and counts what is due
    /// ([`Readings::due`]). To be asked for before anything is sent.
    pub fn keep_ledger(&self) {
        self.ledger().get_or_insert_default();
        self.counters.due.keep();
    }

    /// The times so far; `None` without a ledger. They come from the recorder, so up to a tenth of a
    /// second behind what is read from the meter.
    pub fn times(&self) -> Option<LedgerTimes> {
        self.ledger().as_ref().map(Ledger::times)
    }

    /// The statements that took the most service time so far, this many at most; `None` without a
    /// ledger.
    pub fn costliest(&self, most: usize) -> Option<Costliest> {
        self.ledger().as_ref().map(|ledger| ledger.costliest(most))
    }

    /// Takes what workers handed to the recorder into the ledger: one lock for some hundred.
    pub(crate) fn note(&self, records: &[(i64, Execution)]) {
        if let Some(ledger) = &mut *self.ledger() {
            records.iter().for_each(|(_, one)| ledger.count(one));
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Option<Ledger>> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which backends sessions speak with.
    pub fn backends(&self) -> &Backends {
        &self.backends
    }

    /// Counts; only on the thread of that worker.
    #[inline]
    pub(crate) fn add(&self, worker: usize, count: Count, by: u64) {
        self.tallies[worker].add(count, by);
    }

    /// How many of a worker's jobs wait on disk.
    pub(crate) fn spilled(&self, worker: usize, jobs: u64) {
        self.tallies[worker].spilled.store(jobs, Ordering::Relaxed);
    }

    /// Counts what goes to the recorder; only on the thread of that worker.
    #[inline]
    pub(crate) fn record(&self, worker: usize, execution: &Execution) {
        let tally = &self.tallies[worker];
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

    /// The recorder has written one more.
    pub(crate) fn written(&self) {
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    /// Time stands still from here on.
    pub(crate) fn over(&self) {
        let now_ns = self.clock.now_ns() - self.start_ns;
        self.over_ns.store(now_ns, Ordering::Release);
    }

    /// The time since the replay's start, in nanoseconds, as executions have it; negative before.
    pub fn now_ns(&self) -> i64 {
        self.clock.now_ns() - self.start_ns
    }

    /// Reads all of it.
    pub fn read(&self) -> Readings {
        let over_ns = self.over_ns.load(Ordering::Acquire);
        let elapsed_ns = (self.clock.now_ns() - self.start_ns).min(over_ns).max(0);
        // Ends before beginnings, so that what is under way never comes out negative.
        let written = self.written.load(Ordering::Relaxed);
        let sum = |count: Count| -> u64 {
            let of = |tally: &Tally| tally.counts[count as usize].load(Ordering::Relaxed);
            self.tallies.iter().map(of).sum()
        };
        let (ended, answered) = (sum(Count::Ended), sum(Count::OpensAnswered));
        let histogram =
            |cells: fn(&Tally) -> &Cells| Histogram::sum(self.tallies.iter().map(cells));
        let mut counted: Vec<Counted> = Count::ALL
            .iter()
            .filter(|(_, name, _)| !name.is_empty())
            .map(|&(count, name, help)| Counted {
                name,
                help,
                value: match count {
                    Count::Ended => ended,
                    Count::OpensAnswered => answered,
                    count => sum(count),
                },
            })
            .collect();
        counted.extend(self.incidents.counted());
        Readings {
            running: over_ns == i64::MAX,
            elapsed_ns,
            planned_ns: self.counters.planned_ns.load(Ordering::Relaxed),
            heard_ns: self.counters.heard_ns.load(Ordering::Relaxed),
            statements: self.statements,
            due: self.counters.due.by(elapsed_ns),
            done: sum(Count::Done),
            failed: sum(Count::Failed),
            skipped: sum(Count::Skipped),
            failed_by: self
                .codes
                .sum(self.tallies.iter().map(|tally| &tally.failed)),
            skipped_by: self
                .reasons
                .sum(self.tallies.iter().map(|tally| &tally.skipped)),
            connections_failed: self
                .codes
                .sum(self.tallies.iter().map(|tally| &tally.connections_failed)),
            connections_lost: self.incidents.lost_by(),
            sessions_open: self.counters.sessions_open.load(Ordering::Relaxed),
            sessions_connecting: sum(Count::OpensAsked).saturating_sub(answered),
            sessions_waiting: sum(Count::Sent).saturating_sub(ended),
            jobs_waiting: self.counters.waiting.load(Ordering::Relaxed).max(0) as u64,
            jobs_spilled: self
                .tallies
                .iter()
                .map(|tally| tally.spilled.load(Ordering::Relaxed))
                .sum(),
            recorder_backlog: sum(Count::Recorded).saturating_sub(written),
            counted,
            tool_lag: histogram(|tally| &tally.tool_lag),
            session_lag: histogram(|tally| &tally.session_lag),
            service: histogram(|tally| &tally.service),
            response: histogram(|tally| &tally.response),
            connect: histogram(|tally| &tally.connect),
        }
    }
}

/// A count with its name, without a prefix and without a suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// What it is called.
    pub name: &'static str,
    /// What it counts, as a sentence.
    pub help: &'static str,
    /// How many.
    pub value: u64,
}

/// What a [`Meter`] shows. Counts only grow; what is "now" may go both ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readings {
    /// Whether the replay still runs.
    pub running: bool,
    /// Since its start, in nanoseconds; 0 before it.
    pub elapsed_ns: i64,
    /// Due time of what was planned last, in nanoseconds from the start.
    pub planned_ns: i64,
    /// When something came from the target last, in nanoseconds from the start, within a twentieth of a
    /// second.
    pub heard_ns: i64,
    /// Statements of the workload, copies among them.
    pub statements: u64,
    /// Statements whose time has come; `None` where it is not counted ([`Meter::keep_ledger`]), 0 where
    /// no time decides: at full speed and in a closed loop.
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
    /// Jobs given to workers and not done: read ahead, behind a slow statement, or in flight.
    pub jobs_waiting: u64,
    /// Of these, those on disk.
    pub jobs_spilled: u64,
    /// What was done and is not yet written to the run.
    pub recorder_backlog: u64,
    /// All other counts.
    pub counted: Vec<Counted>,
    /// Tool lag of what was sent.
    pub tool_lag: Histogram,
    /// Session lag of what was sent.
    pub session_lag: Histogram,
    /// Sent → done, of what was answered.
    pub service: Histogram,
    /// Due → done, of what was answered.
    pub response: Histogram,
    /// How long sessions took to connect, tries that failed among it.
    pub connect: Histogram,
}

#[cfg(test)]
mod tests;
