//! Cancel requests: sent at their time, and again while their statement still runs.
//!
//! A backend that has not begun the statement when the signal arrives ignores it (`ProcessInterrupts` in the
//! server's postgres.c: `DoingCommandRead`). In the capture the request came in time. On a target that is slow to
//! begin, the statement would run forever.

use run::{Captured, Outcome, SkipReason};
use workload::Sqlstate;

use super::{Slot, Worker, new_execution};
use crate::connector::{CancelRequest, ConnectorRequest};
use crate::in_flight::InFlight;
use crate::job::Job;
use crate::session::Phase;

/// Delay of the first retry; each further delay is twice the previous one.
const RETRY_DELAY_NS: i64 = 100_000_000;
const RETRY_DELAY_NS_MAX: i64 = 5_000_000_000;

/// query_canceled.
const CANCELED: Sqlstate = Sqlstate(*b"57014");

/// Retry of a cancel request, if its statement is still in flight.
pub(super) struct CancelRetry {
    at_ns: i64,
    delay_ns: i64,
    slot: usize,
    generation: u32,
    sequence: u64,
}

/// Whether the captured statement ended without being cancelled. Then the request came too late in the capture,
/// and may do so here.
fn ended_without_cancel(captured: &Captured) -> bool {
    match captured.sqlstate {
        Some(sqlstate) => sqlstate != CANCELED && sqlstate != Sqlstate::UNKNOWN,
        None => captured.duration_us.is_some() || captured.rows.is_some(),
    }
}

impl Worker {
    /// Cancels the running statement.
    pub(super) fn cancel(&mut self, slot: usize, job: &Job, now_ns: i64) {
        // The statement itself must be sent first.
        if let Err(error) = self.send_outgoing() {
            self.error = Some(error);
        }
        let Slot {
            session,
            generation,
            ..
        } = &self.slots[slot];
        let Some(flight) = session
            .in_flight
            .as_deref()
            .filter(|_| session.phase == Phase::Running && session.backend.is_some())
        else {
            let outcome = Outcome::Skipped(SkipReason::NothingToCancel);
            self.record(now_ns, new_execution(job, outcome, None, None, 0));
            return;
        };
        if !ended_without_cancel(&flight.job.captured) {
            self.cancel_retries.push(CancelRetry {
                at_ns: now_ns + RETRY_DELAY_NS,
                delay_ns: RETRY_DELAY_NS,
                slot,
                generation: *generation,
                sequence: flight.job.sequence,
            });
        }
        self.request_cancel(slot);
        let mut execution = new_execution(job, Outcome::Done, None, Some(now_ns), 0);
        execution.done_ns = Some(now_ns);
        self.record(now_ns, execution);
    }

    /// Sends a cancel request. The session sends nothing more until the server has taken it, since the request
    /// could hit the next statement.
    fn request_cancel(&mut self, slot: usize) {
        let Slot {
            session,
            generation,
            ..
        } = &mut self.slots[slot];
        let Some(backend) = session.backend.clone() else {
            return;
        };
        session.cancelling = true;
        let request = ConnectorRequest::Cancel(CancelRequest {
            slot,
            generation: *generation,
            backend,
            inbox: self.context.inbox.clone(),
        });
        let _ = self.context.connectors.send(request);
    }

    /// Retries cancel requests whose statements still run.
    pub(super) fn retry_cancels(&mut self, now_ns: i64) {
        let mut at = 0;
        while at < self.cancel_retries.len() {
            let retry = &mut self.cancel_retries[at];
            let Slot {
                session,
                generation,
                ..
            } = &self.slots[retry.slot];
            let still_runs = *generation == retry.generation
                && session.phase == Phase::Running
                && session.in_flight.as_deref().map(InFlight::sequence) == Some(retry.sequence);
            if !still_runs {
                self.cancel_retries.swap_remove(at);
                continue;
            }
            at += 1;
            if now_ns < retry.at_ns || session.cancelling {
                continue;
            }
            retry.delay_ns = (2 * retry.delay_ns).min(RETRY_DELAY_NS_MAX);
            retry.at_ns = now_ns + retry.delay_ns;
            let slot = retry.slot;
            self.request_cancel(slot);
            self.context.events.cancel_repeated();
        }
    }

    /// Continues a session after the server has taken a cancel request, or could not be reached.
    pub(super) fn cancelled(&mut self, slot: usize, generation: u32) {
        let Slot {
            session,
            generation: current,
            ..
        } = &mut self.slots[slot];
        // A stop may have ended the session meanwhile.
        if *current != generation || !std::mem::take(&mut session.cancelling) {
            return;
        }
        let now_ns = self.now_ns();
        self.advance_session(slot, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancel_that_was_too_late_in_the_capture_is_not_retried() {
        let captured = |sqlstate: Option<&[u8; 5]>, duration_us| Captured {
            sqlstate: sqlstate.map(|code| Sqlstate(*code)),
            duration_us,
            ..Captured::default()
        };
        assert!(!ended_without_cancel(&captured(None, None)));
        assert!(!ended_without_cancel(&captured(Some(b"57014"), Some(3))));
        assert!(ended_without_cancel(&captured(None, Some(3))));
        assert!(ended_without_cancel(&captured(Some(b"23505"), None)));
    }
}
