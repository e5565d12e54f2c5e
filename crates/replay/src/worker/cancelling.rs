//! Cancel requests: at their time, and again while what they are for goes on.
//!
//! A server process that was not yet at a statement when the signal came takes no notice of it
//! (`ProcessInterrupts` in the server's postgres.c: `DoingCommandRead`). In the capture the request
//! came in time; on a target that is slow to begin it would leave the statement running for ever.

use run::{Captured, Outcome, SkipReason};
use workload::Sqlstate;

use super::{Slot, Worker, done};
use crate::connector::{Cancel, Wanted};
use crate::job::Job;
use crate::session::{InFlight, Phase};

/// How long behind a request the first repetition comes; each further one twice as long.
const PAUSE_NS: i64 = 100_000_000;
const PAUSE_NS_MAX: i64 = 5_000_000_000;

/// query_canceled.
const CANCELED: Sqlstate = Sqlstate(*b"57014");

/// A request that is sent again if the statement that it was for is still in flight.
pub(super) struct Repetition {
    at_ns: i64,
    pause_ns: i64,
    slot: usize,
    generation: u32,
    sequence: u64,
}

/// Whether the capture knows of an end that no cancel request had brought about: then the request
/// came too late there, and may come too late here.
fn ended_otherwise(captured: &Captured) -> bool {
    match captured.sqlstate {
        Some(sqlstate) => sqlstate != CANCELED && sqlstate != Sqlstate::UNKNOWN,
        None => captured.duration_us.is_some() || captured.rows.is_some(),
    }
}

impl Worker {
    /// Has what runs cancelled.
    pub(super) fn cancel(&mut self, slot: usize, job: &Job, now_ns: i64) {
        // What is to be cancelled is sent before.
        if let Err(error) = self.send_outgoing() {
            self.broken = Some(error);
        }
        let Slot {
            session,
            generation,
            ..
        } = &self.slots[slot];
        let Some(flight) = session
            .in_flight
            .as_deref()
            .filter(|_| session.phase == Phase::Running && session.place.is_some())
        else {
            let outcome = Outcome::Skipped(SkipReason::NothingToCancel);
            self.record(now_ns, done(job, outcome, None, None, 0));
            return;
        };
        if !ended_otherwise(&flight.job.captured) {
            self.repetitions.push(Repetition {
                at_ns: now_ns + PAUSE_NS,
                pause_ns: PAUSE_NS,
                slot,
                generation: *generation,
                sequence: flight.job.sequence,
            });
        }
        self.request_cancel(slot);
        let mut execution = done(job, Outcome::Done, None, Some(now_ns), 0);
        execution.done_ns = Some(now_ns);
        self.record(now_ns, execution);
    }

    /// Until the server has taken the request, nothing more is sent in the session: it might be
    /// what the cancel hits.
    fn request_cancel(&mut self, slot: usize) {
        let Slot {
            session,
            generation,
            ..
        } = &mut self.slots[slot];
        let Some(place) = session.place.clone() else {
            return;
        };
        session.cancelling = true;
        let wanted = Wanted::Cancel(Cancel {
            slot,
            generation: *generation,
            place,
            inbox: self.parts.inbox.clone(),
        });
        let _ = self.parts.connectors.send(wanted);
    }

    /// Sends again what was sent too early.
    pub(super) fn repeat_cancels(&mut self, now_ns: i64) {
        let mut at = 0;
        while at < self.repetitions.len() {
            let repetition = &mut self.repetitions[at];
            let Slot {
                session,
                generation,
                ..
            } = &self.slots[repetition.slot];
            let goes_on = *generation == repetition.generation
                && session.phase == Phase::Running
                && session.in_flight.as_deref().map(InFlight::sequence)
                    == Some(repetition.sequence);
            if !goes_on {
                self.repetitions.swap_remove(at);
                continue;
            }
            at += 1;
            if now_ns < repetition.at_ns || session.cancelling {
                continue;
            }
            repetition.pause_ns = (2 * repetition.pause_ns).min(PAUSE_NS_MAX);
            repetition.at_ns = now_ns + repetition.pause_ns;
            let slot = repetition.slot;
            self.request_cancel(slot);
            self.parts.incidents.cancel_repeated();
        }
    }

    /// The server has taken a cancel, or could not be reached.
    pub(super) fn cancelled(&mut self, slot: usize, generation: u32) {
        let Slot {
            session,
            generation: current,
            ..
        } = &mut self.slots[slot];
        // A stop may have given the session up meanwhile.
        if *current != generation || !std::mem::take(&mut session.cancelling) {
            return;
        }
        let now_ns = self.now_ns();
        self.go_on(slot, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_that_came_too_late_in_the_capture_is_not_repeated() {
        let captured = |sqlstate: Option<&[u8; 5]>, duration_us| Captured {
            sqlstate: sqlstate.map(|code| Sqlstate(*code)),
            duration_us,
            ..Captured::default()
        };
        assert!(!ended_otherwise(&captured(None, None)));
        assert!(!ended_otherwise(&captured(Some(b"57014"), Some(3))));
        assert!(ended_otherwise(&captured(None, Some(3))));
        assert!(ended_otherwise(&captured(Some(b"23505"), None)));
    }
}
