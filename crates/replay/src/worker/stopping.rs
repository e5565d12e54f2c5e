//! Orderly stop: queued jobs are skipped, and statements in flight may end within a grace period.

use run::{Outcome, SkipReason};

use super::{Worker, new_execution};
use crate::session::Hold;

impl Worker {
    /// Skips the queued jobs of all sessions.
    pub(super) fn drop_queued(&mut self) {
        let now_ns = self.now_ns();
        for slot in 0..self.slots.len() {
            self.drop_queued_of(slot, now_ns);
        }
    }

    /// Skips the queued jobs of a session.
    pub(super) fn drop_queued_of(&mut self, slot: usize, now_ns: i64) {
        let session = &mut self.slots[slot].session;
        if session.queue.is_empty() {
            return;
        }
        session.hold = Hold::None;
        let queue = &mut session.queue;
        let mut dropped = Vec::new();
        while let Ok(Some(_)) = queue.peek(&mut self.spill) {
            dropped.extend(queue.pop());
        }
        for job in dropped {
            let outcome = Outcome::Skipped(SkipReason::Stopped);
            self.record(now_ns, new_execution(&job, outcome, None, None, 0));
        }
        if !self.slots[slot].session.is_busy() {
            self.busy -= 1;
        }
    }

    /// Ends the statements that are still in flight after the grace period.
    pub(super) fn abandon_in_flight(&mut self, now_ns: i64) {
        for slot in 0..self.slots.len() {
            let session = &mut self.slots[slot].session;
            if !session.is_busy() {
                continue;
            }
            session.cancelling = false;
            let mut flights: Vec<_> = session.in_flight.take().into_iter().collect();
            flights.extend(std::iter::from_fn(|| session.pipeline.pop()));
            self.close(slot, true);
            for flight in flights {
                let outcome = Outcome::Skipped(SkipReason::Stopped);
                let message = Some("it was in flight when the replay was stopped".to_owned());
                let sent_ns = Some(flight.sent_ns);
                let execution = new_execution(
                    &flight.job,
                    outcome,
                    message,
                    sent_ns,
                    flight.session_lag_ns,
                );
                self.record(now_ns, execution);
            }
            self.busy -= 1;
        }
    }
}
