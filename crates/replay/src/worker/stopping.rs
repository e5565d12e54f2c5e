//! A stop in order: what waits is not sent any more, what is in flight may end.

use run::{Outcome, SkipReason};

use super::{Worker, done};

impl Worker {
    pub(super) fn drop_waiting(&mut self) {
        let now_ns = self.now_ns();
        for slot in 0..self.slots.len() {
            self.drop_waiting_of(slot, now_ns);
        }
    }

    pub(super) fn drop_waiting_of(&mut self, slot: usize, now_ns: i64) {
        let session = &mut self.slots[slot].session;
        if session.queue.is_empty() {
            return;
        }
        session.scheduled = false;
        session.waits_for_commits = false;
        let queue = &mut session.queue;
        let mut dropped = Vec::new();
        while let Ok(Some(_)) = queue.peek(&mut self.spill) {
            dropped.extend(queue.pop());
        }
        for job in dropped {
            let outcome = Outcome::Skipped(SkipReason::Stopped);
            self.record(now_ns, done(&job, outcome, None, None, 0));
        }
        if !self.slots[slot].session.is_busy() {
            self.busy -= 1;
        }
    }

    /// What is still in flight after the grace ends as stopped.
    pub(super) fn give_up(&mut self, now_ns: i64) {
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
                let execution = done(
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
