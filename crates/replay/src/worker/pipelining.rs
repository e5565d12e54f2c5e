//! Pipelines in a worker: statements that are sent before the previous ones are answered.

use protocol::frontend::{Flush, Sync};
use run::{Outcome, SkipReason};
use workload::Boundary;

use super::{Worker, new_execution};
use crate::job::{Action, Job};
use crate::session::{Phase, Session};

/// Whether a session may send a statement before the previous one is answered.
pub(super) fn accepts_pipelined(session: &Session) -> bool {
    // A read-only session needs the answer first: only then is it known whether the session must be set back to
    // read-only.
    session.in_flight.is_some() && (!session.guard.is_active() || session.pipeline.group_is_open)
}

/// Whether a job does not wait for the answer to the previous one.
pub(super) fn is_pipelined(job: &Job) -> bool {
    !job.awaited && matches!(job.action, Action::Send(_))
}

impl Worker {
    /// Sends a Flush, if the next job waits for answers that the server does not have to send yet.
    pub(super) fn request_flush(&mut self, slot: usize) {
        let session = &mut self.slots[slot].session;
        if session.pipeline.group_is_open
            && !session.pipeline.flush_sent
            && session.in_flight.is_some()
        {
            session.pipeline.flush_sent = true;
            let mut flush = Vec::new();
            Flush.encode(&mut flush);
            self.write_later(slot, flush);
        }
    }

    /// Ends all open groups, after the workload's end.
    pub(super) fn end_groups(&mut self) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].session.queue.is_empty() {
                self.end_group(slot);
            }
        }
    }

    /// Sends the Sync of a group that the workload does not end.
    pub(super) fn end_group(&mut self, slot: usize) {
        let session = &mut self.slots[slot].session;
        if session.phase == Phase::Running && session.pipeline.group_is_open {
            session.pipeline.group_is_open = false;
            let mut sync = Vec::new();
            Sync.encode(&mut sync);
            self.write_later(slot, sync);
        }
    }

    /// Finishes the statements that the server skips after a failure within their group.
    pub(super) fn finish_aborted(&mut self, slot: usize, now_ns: i64) {
        while self.slots[slot].session.pipeline.aborting {
            let session = &mut self.slots[slot].session;
            match &mut session.in_flight {
                Some(flight) if flight.job.boundary == Boundary::Sync => {
                    flight.aborted = true;
                    return;
                }
                Some(flight) => flight.aborted = true,
                None => return,
            }
            self.finish_statement(slot, now_ns, None);
        }
    }

    /// Skips a statement of a group that has already failed. Returns whether it was skipped.
    pub(super) fn skip_aborted(&mut self, slot: usize, job: &Job, now_ns: i64) -> bool {
        let passed_over = self.slots[slot].session.pipeline.aborts_next();
        if !passed_over || job.boundary == Boundary::Sync {
            return false;
        }
        let outcome = Outcome::Skipped(SkipReason::PipelineAborted);
        self.record(now_ns, new_execution(job, outcome, None, None, 0));
        true
    }
}
