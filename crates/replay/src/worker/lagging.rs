//! Lag of a replay that follows a series: a session that lags more than the limit skips what is overdue.
//!
//! So neither memory nor disk fills while the target is slow or gone, and the session is on time again after it. What it
//! skipped may have changed its state, and its transaction may be open. Therefore its connection is replaced, with the
//! state restored as if the skipped statements had succeeded, and the rest of the transaction is not sent.

use run::{Outcome, SkipReason};

use super::Worker;
use super::socket_io::CONNECTION_FAILURE;
use crate::job::{Action, Job};
use crate::session::Phase;

impl Worker {
    /// Skips the overdue jobs of a session, if the first of them is more overdue than the limit.
    pub(super) fn skip_overdue(&mut self, slot: usize, now_ns: i64) {
        let Some(lag_max_ns) = self.context.lag_max_ns else {
            return;
        };
        let mut before_ns = now_ns.saturating_sub(lag_max_ns);
        loop {
            let session = &mut self.slots[slot].session;
            match session.queue.peek(&mut self.spill) {
                Ok(Some(job)) if job.due_ns < before_ns && is_skippable(&job.action) => {}
                Ok(_) => return,
                Err(error) => {
                    self.error = Some(error);
                    return;
                }
            }
            // The session is on time again after it.
            before_ns = now_ns;
            let job = session.queue.pop().expect("it was peeked at");
            let reason = self.note_skipped(slot, &job);
            self.record_unsent(&job, Outcome::Skipped(reason), None, now_ns);
        }
    }

    /// Follows the effect of a job that is skipped. Returns the reason to record.
    fn note_skipped(&mut self, slot: usize, job: &Job) -> SkipReason {
        let session = &mut self.slots[slot].session;
        let effect = job.session_effect;
        let messages = match &job.action {
            Action::Skip(reason) => return *reason,
            Action::Send(messages) => Some(messages),
            _ => None,
        };
        let state = &mut session.server_state;
        if state.transaction_lost {
            state.transaction_lost = !effect.ends_transaction || effect.begins_transaction;
            return SkipReason::LagLimit;
        }
        let is_open = !matches!(session.phase, Phase::Lost | Phase::Closed);
        session.replaces_connection |= is_open;
        if session.will_be_in_transaction() || effect.begins_transaction {
            // The skipped COMMIT of an open transaction leaves nothing to skip.
            let state = &mut session.server_state;
            state.transaction_lost = !effect.ends_transaction || effect.begins_transaction;
        } else if let Some(messages) = messages.filter(|_| effect.changes_state) {
            let state = &mut session.server_state;
            state.answered(Some(&messages.bytes), None, false);
        }
        SkipReason::LagLimit
    }

    /// Closes the connection of an idle session that skipped statements. It is opened again for the next one.
    pub(super) fn replace_connection(&mut self, slot: usize) {
        let session = &mut self.slots[slot].session;
        if !session.replaces_connection || session.phase != Phase::Idle {
            return;
        }
        let transaction_lost = session.server_state.transaction_lost;
        session.server_state.lost(false);
        session.server_state.transaction_lost = transaction_lost;
        let idle_since_ns = session.idle_since_ns;
        self.close(slot, true);
        let session = &mut self.slots[slot].session;
        session.replaces_connection = false;
        session.idle_since_ns = idle_since_ns;
        session.phase = Phase::Lost;
        let reason = "its session skipped statements, since it lagged".to_owned();
        session.fatal_error = Some((CONNECTION_FAILURE, reason));
    }
}

/// Whether a job may be skipped. Connecting and disconnecting keep the state of the session.
fn is_skippable(action: &Action) -> bool {
    matches!(
        action,
        Action::Send(_) | Action::Refuse(..) | Action::Skip(_) | Action::Cancel
    )
}
