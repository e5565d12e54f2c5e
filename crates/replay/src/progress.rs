//! How far a replay is, for whoever watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};

use run::{ArchiveError, RunWriter};

use crate::due::DueCounts;
use crate::meter::{Happening, Meter};

/// How far a replay is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Since the replay's start, in nanoseconds.
    pub elapsed_ns: i64,
    /// Due time of what was planned last, in nanoseconds from the start; how far the replay has
    /// got in the workload is the lesser of this and the elapsed time.
    pub planned_ns: i64,
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
    /// When the target was heard last, in nanoseconds from the start.
    pub heard_ns: i64,
    /// The largest tool lag since the snapshot before, in nanoseconds.
    pub tool_lag_ns: i64,
}

/// Watches a replay, on the thread that called it, about ten times a second.
pub trait Observer {
    /// Is given the run before the first connection is opened, for what else it is to keep.
    ///
    /// # Errors
    /// Where that cannot be written: there is no replay then.
    fn beginning(&mut self, _run: &mut RunWriter) -> Result<(), ArchiveError> {
        Ok(())
    }

    /// Is given the run when the last connection is closed, before it is finished.
    ///
    /// # Errors
    /// Where it cannot be written; the run then stays unfinished.
    fn ending(&mut self, _run: &mut RunWriter) -> Result<(), ArchiveError> {
        Ok(())
    }

    /// Is given the replay's meter before anything is sent; it can be read from any thread, and
    /// after the end.
    fn started(&mut self, _meter: &Arc<Meter>) {}

    /// Is told what a log should tell, in the order in which it happened; `left_out` is how much
    /// more happened than there was room for.
    fn happened(&mut self, _happenings: &[Happening], _left_out: u64) {}

    /// Is told how far it is.
    fn progress(&mut self, snapshot: &Snapshot);

    /// Is asked whether to stop in order: nothing more is sent, what is in flight may end within
    /// a few seconds, and the run says that it was stopped.
    fn should_stop(&mut self) -> bool;
}

/// What the threads count together.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) planned_ns: AtomicI64,
    pub(crate) done: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) sessions_open: AtomicU64,
    pub(crate) tool_lag_ns: AtomicI64,
    /// When something came from the target last.
    pub(crate) heard_ns: AtomicI64,
    /// Sessions whose connect was handed out and that have not ended.
    pub(crate) sessions_live: AtomicI64,
    /// Of a feed, the same for each client.
    pub(crate) of_clients: Vec<AtomicI64>,
    /// Jobs given to workers and not yet done, for a planner that need not keep time.
    pub(crate) waiting: AtomicI64,
    /// Sessions that have little waiting, and of which more may come.
    pub(crate) hungry: AtomicI64,
    /// What is little: fewer jobs of one session than this.
    pub(crate) little: AtomicUsize,
    /// Statements whose time has come.
    pub(crate) due: DueCounts,
}

/// How exactly the moment is kept at which something was heard.
const HEARD_STEP_NS: i64 = 50_000_000;

impl Counters {
    /// With a place for each client of a feed.
    pub(crate) fn of(clients: u32) -> Self {
        Counters {
            of_clients: (0..clients).map(|_| AtomicI64::new(0)).collect(),
            ..Counters::default()
        }
    }

    /// A job of this session is over.
    #[inline]
    pub(crate) fn over(&self, session: u64) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if !self.of_clients.is_empty() {
            let client = (session % self.of_clients.len() as u64) as usize;
            self.of_clients[client].fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Something came from the target. Written seldom, so that workers need not share the line.
    #[inline]
    pub(crate) fn heard(&self, now_ns: i64) {
        if now_ns - self.heard_ns.load(Ordering::Relaxed) > HEARD_STEP_NS {
            self.heard_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    pub(crate) fn snapshot(&self, elapsed_ns: i64, statements: u64) -> Snapshot {
        Snapshot {
            elapsed_ns,
            planned_ns: self.planned_ns.load(Ordering::Relaxed),
            statements,
            done: self.done.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
            sessions_open: self.sessions_open.load(Ordering::Relaxed),
            heard_ns: self.heard_ns.load(Ordering::Relaxed),
            tool_lag_ns: self.tool_lag_ns.swap(0, Ordering::Relaxed),
        }
    }
}
