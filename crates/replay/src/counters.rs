//! Counters that the threads of a replay share, and the progress that they show.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use crate::due_counter::DueCounter;

/// Smallest low watermark of a session's backlog, in jobs.
pub(crate) const LOW_WATERMARK_MIN: usize = 4;

/// Progress of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Time since the replay's start, in nanoseconds.
    pub elapsed_ns: i64,
    /// Due time of the last dispatched job, in nanoseconds from the start. The position in the workload is the
    /// lesser of this and the elapsed time.
    pub dispatched_ns: i64,
    /// Statements of the workload.
    pub statements: u64,
    /// Statements that the server did.
    pub done: u64,
    /// Statements that failed.
    pub failed: u64,
    /// Statements that were never sent.
    pub skipped: u64,
    /// Connections open now.
    pub sessions_open: u64,
    /// Time of the target's last answer, in nanoseconds from the start.
    pub last_answer_ns: i64,
    /// Largest tool lag since the previous snapshot, in nanoseconds.
    pub tool_lag_ns: i64,
}

/// Counters that all threads share.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) planned_ns: AtomicI64,
    pub(crate) done: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) sessions_open: AtomicU64,
    pub(crate) tool_lag_ns: AtomicI64,
    /// Time of the target's last answer.
    pub(crate) heard_ns: AtomicI64,
    /// Sessions whose connect was dispatched and that have not ended.
    pub(crate) sessions_live: AtomicI64,
    /// Jobs given to workers and not yet done.
    pub(crate) waiting: AtomicI64,
    /// The same for each client of a load source.
    pub(crate) waiting_by_client: Vec<AtomicI64>,
    /// Sessions whose backlog is below the low watermark and that are not completely dispatched.
    pub(crate) below_low_watermark: AtomicI64,
    /// Low watermark of a session's backlog, in jobs.
    pub(crate) low_watermark: AtomicUsize,
    /// Statements that are due so far.
    pub(crate) due: DueCounter,
}

/// Resolution of the time of the last answer.
const ANSWER_RESOLUTION_NS: i64 = 50_000_000;

impl Counters {
    /// Creates counters for a load source with this number of clients.
    pub(crate) fn with_clients(clients: u32) -> Self {
        Counters {
            waiting_by_client: (0..clients).map(|_| AtomicI64::new(0)).collect(),
            ..Counters::default()
        }
    }

    /// Counts a job of this session as done.
    #[inline]
    pub(crate) fn finish_job(&self, session: u64) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if !self.waiting_by_client.is_empty() {
            let client = (session % self.waiting_by_client.len() as u64) as usize;
            self.waiting_by_client[client].fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Records the time of an answer. It is written seldom, so that workers rarely share the cache line.
    #[inline]
    pub(crate) fn note_answer(&self, now_ns: i64) {
        if now_ns - self.heard_ns.load(Ordering::Relaxed) > ANSWER_RESOLUTION_NS {
            self.heard_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    pub(crate) fn snapshot(&self, elapsed_ns: i64, statements: u64) -> Snapshot {
        Snapshot {
            elapsed_ns,
            dispatched_ns: self.planned_ns.load(Ordering::Relaxed),
            statements,
            done: self.done.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
            sessions_open: self.sessions_open.load(Ordering::Relaxed),
            last_answer_ns: self.heard_ns.load(Ordering::Relaxed),
            tool_lag_ns: self.tool_lag_ns.swap(0, Ordering::Relaxed),
        }
    }
}
