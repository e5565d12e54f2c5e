//! Pipelines in a worker: what is sent before the answer to what stands before it is there.

use protocol::frontend::{Flush, Sync};
use run::{Outcome, SkipReason};
use workload::Boundary;

use super::{Worker, done};
use crate::job::{Action, Job};
use crate::session::{Phase, Session};

/// Whether a statement may go while what the session has under way is not answered.
pub(super) fn takes_behind(session: &Session) -> bool {
    // Where it must not write, what stands before must be answered first: only then is it known
    // whether the session must be set back to reading only.
    session.in_flight.is_some() && (!session.guard.stands() || session.pipeline.group_is_open)
}

/// Whether a statement does not wait for the answer to what stands before it.
pub(super) fn goes_behind(job: &Job) -> bool {
    !job.awaited && matches!(job.action, Action::Send(_))
}

impl Worker {
    /// What waits next must see the answers so far. Where nobody has asked the server for them, it
    /// would wait for ever.
    pub(super) fn ask_for_answers(&mut self, slot: usize) {
        let session = &mut self.slots[slot].session;
        if session.pipeline.group_is_open && !session.pipeline.asked && session.in_flight.is_some()
        {
            session.pipeline.asked = true;
            let mut flush = Vec::new();
            Flush.encode(&mut flush);
            self.write_later(slot, flush);
        }
    }

    /// Behind the workload's end: groups whose end it does not hold.
    pub(super) fn end_groups(&mut self) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].session.queue.is_empty() {
                self.end_group(slot);
            }
        }
    }

    /// Nothing more comes of this session: what is under way is answered.
    pub(super) fn end_group(&mut self, slot: usize) {
        let session = &mut self.slots[slot].session;
        if session.phase == Phase::Running && session.pipeline.group_is_open {
            session.pipeline.group_is_open = false;
            let mut sync = Vec::new();
            Sync.encode(&mut sync);
            self.write_later(slot, sync);
        }
    }

    /// After a failure within a group the server passes over what is left of it.
    pub(super) fn pass_over_aborted(&mut self, slot: usize, now_ns: i64) {
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

    /// A statement within a group that has failed already need not be sent. True: it was this.
    pub(super) fn is_passed_over(&mut self, slot: usize, job: &Job, now_ns: i64) -> bool {
        let passed_over = self.slots[slot].session.pipeline.passes_over_next();
        if !passed_over || job.boundary == Boundary::Sync {
            return false;
        }
        let outcome = Outcome::Skipped(SkipReason::PipelineAborted);
        self.record(now_ns, done(job, outcome, None, None, 0));
        true
    }
}
