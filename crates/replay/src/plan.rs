//! Reads the workload ahead of time and hands each worker its sessions' jobs.
//!
//! Paced, it stays a little ahead of the clock. At full speed there is no clock to stay ahead of:
//! it stays ahead of the workers by a number of statements, so that neither memory nor disk fills
//! with a workload that they have not come to. And there it opens no more sessions at once than
//! were open at once in the capture: sessions that came one after the other would otherwise all
//! come together, and the target would refuse most of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::{Clock, Speed};
use workload::{ArchiveError, EventKind, WorkloadReader};

use crate::encode;
use crate::job::Job;
use crate::options::Options;
use crate::progress::Counters;
use crate::target::Target;
use crate::worker::{Inbox, ToWorker};

/// How far ahead of its time a statement is made ready.
const AHEAD_NS: i64 = 1_000_000_000;
/// Jobs are handed over in batches of at most this many.
const BATCH_JOBS_MAX: usize = 256;
/// At full speed, how many jobs may wait at the workers in all.
const WAITING_JOBS_MAX: i64 = 50_000;
/// At full speed, how long to wait before looking again whether there is room.
const NAP: Duration = Duration::from_millis(2);

/// What the planner works with.
pub(crate) struct Planner<'a> {
    pub(crate) reader: &'a WorkloadReader,
    pub(crate) target: &'a Target,
    pub(crate) options: &'a Options,
    pub(crate) inboxes: Vec<Arc<Inbox>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) start_ns: i64,
    pub(crate) stop: &'a AtomicBool,
}

impl Planner<'_> {
    /// Plans until the workload's end or a stop; tells the workers that no more follows. Returns
    /// how many statements it handed over.
    ///
    /// # Errors
    /// Where the workload cannot be read on.
    pub(crate) fn plan(self) -> Result<u64, ArchiveError> {
        let result = self.hand_out();
        for inbox in &self.inboxes {
            inbox.send(ToWorker::End);
        }
        result
    }

    fn hand_out(&self) -> Result<u64, ArchiveError> {
        let mut batches: Vec<Vec<Job>> = self.inboxes.iter().map(|_| Vec::new()).collect();
        let mut statements = 0;
        for item in self.reader.events()? {
            let (event, fingerprint) = item?;
            let due_ns = self.options.speed.due_ns(event.due_us);
            let connects = matches!(event.kind, EventKind::Connect { .. });
            if !self.wait_for_turn(due_ns, connects, &mut batches) {
                return Ok(statements);
            }
            if connects {
                self.counters.sessions_live.fetch_add(1, Ordering::Relaxed);
            }
            statements += u64::from(event.kind.is_statement());
            let worker = (event.session % self.inboxes.len() as u64) as usize;
            let job = encode::job(
                event,
                fingerprint,
                due_ns,
                self.target,
                &self.options.logins,
            );
            self.counters
                .planned_ns
                .fetch_max(due_ns, Ordering::Relaxed);
            batches[worker].push(job);
            if batches[worker].len() >= BATCH_JOBS_MAX {
                self.send(worker, &mut batches[worker]);
            }
        }
        self.send_all(&mut batches);
        Ok(statements)
    }

    /// Waits until this is worth making ready; false after a stop.
    fn wait_for_turn(&self, due_ns: i64, connects: bool, batches: &mut [Vec<Job>]) -> bool {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            let early_ns = match self.options.speed {
                Speed::Max => {
                    let waiting = self.counters.waiting.load(Ordering::Relaxed);
                    // Where nothing is left to be done, no session will end by itself.
                    let crowded = connects
                        && waiting > 0
                        && self.counters.sessions_live.load(Ordering::Relaxed)
                            >= self.reader.info().sessions_at_once as i64;
                    let far_ahead = waiting >= WAITING_JOBS_MAX;
                    if !crowded && !far_ahead {
                        return true;
                    }
                    NAP.as_nanos() as i64
                }
                Speed::Times { .. } => {
                    let now_ns = self.clock.now_ns() - self.start_ns;
                    let early_ns = due_ns - now_ns - AHEAD_NS;
                    if early_ns <= 0 {
                        return true;
                    }
                    early_ns
                }
            };
            self.send_all(batches);
            let nap = Duration::from_nanos(early_ns as u64).min(Duration::from_millis(50));
            std::thread::sleep(nap);
        }
    }

    fn send_all(&self, batches: &mut [Vec<Job>]) {
        for (worker, batch) in batches.iter_mut().enumerate() {
            self.send(worker, batch);
        }
    }

    fn send(&self, worker: usize, batch: &mut Vec<Job>) {
        if !batch.is_empty() {
            self.counters
                .waiting
                .fetch_add(batch.len() as i64, Ordering::Relaxed);
            self.inboxes[worker].send(ToWorker::Jobs(std::mem::take(batch)));
        }
    }
}
