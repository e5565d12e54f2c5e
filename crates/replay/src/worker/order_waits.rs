//! Statements that wait for executions of other sessions (`--order`).

use std::cmp::Reverse;

use super::{Slot, Worker};
use crate::commit_order::WaitingStatement;
use crate::event_id::EventId;
use crate::session::{Hold, Release};
use crate::statement_order::StatementOrder;

impl Worker {
    /// Makes a session's next statement wait for other sessions, if it must. Returns whether it waits.
    pub(super) fn wait_for_others(
        &mut self,
        slot: usize,
        sequence: u64,
        commits_before: u64,
        dependencies: &[EventId],
        now_ns: i64,
    ) -> bool {
        let Some(order) = self.context.order.clone() else {
            return false;
        };
        if self.is_released(slot) {
            return false;
        }
        let Slot {
            session,
            generation,
            ..
        } = &mut self.slots[slot];
        let waiting = WaitingStatement {
            generation: *generation,
            event: (session.id, sequence),
            process_id: session.backend.as_ref().map(|backend| backend.process_id()),
            since_ns: now_ns,
            after: commits_before,
        };
        let number = self.context.number;
        match &*order {
            StatementOrder::Commits(order) => {
                if commits_before <= order.mark() || !order.wait(number, slot, waiting) {
                    return false;
                }
                self.commit_waits
                    .push(Reverse((commits_before, slot, *generation)));
            }
            StatementOrder::Dependencies(order) => loop {
                let Some(unfinished) = order.first_unfinished(dependencies) else {
                    return false;
                };
                if order.wait(number, slot, waiting, unfinished) {
                    break;
                }
            },
        }
        session.hold = Hold::ForOthers;
        true
    }

    /// Whether the session's next statement was released from waiting.
    fn is_released(&mut self, slot: usize) -> bool {
        let session = &mut self.slots[slot].session;
        let in_transaction = session.server_state.in_transaction();
        let is_released = match session.release {
            Release::None => false,
            Release::NextStatement => true,
            Release::Transaction => in_transaction,
        };
        if !(is_released && in_transaction) {
            session.release = Release::None;
        }
        is_released
    }

    /// Continues the sessions whose commits have finished.
    pub(super) fn release_committed(&mut self) {
        let Some(order) = self.context.order.clone() else {
            return;
        };
        let StatementOrder::Commits(order) = &*order else {
            return;
        };
        while let Some(&Reverse((after, slot, generation))) = self.commit_waits.peek()
            && after <= order.mark()
        {
            self.commit_waits.pop();
            self.end_wait(slot, generation);
        }
    }

    /// Releases a statement before its turn.
    pub(super) fn release_early(&mut self, slot: usize, generation: u32) {
        let Slot {
            session,
            generation: current,
            ..
        } = &mut self.slots[slot];
        if *current == generation && session.hold == Hold::ForOthers {
            session.release = match session.server_state.in_transaction() {
                true => Release::Transaction,
                false => Release::NextStatement,
            };
        }
        self.end_wait(slot, generation);
    }

    /// Continues a session whose wait is over.
    pub(super) fn end_wait(&mut self, slot: usize, generation: u32) {
        // A statement that was released early leaves its entry in the heap.
        let Slot {
            session,
            generation: current,
            ..
        } = &mut self.slots[slot];
        if *current != generation || !session.end_hold(Hold::ForOthers) {
            return;
        }
        if let Some(order) = &self.context.order {
            order.remove_waiting(self.context.number, slot);
        }
        let now_ns = self.now_ns();
        // The wait was for statements of other sessions, so it counts as waiting for the server.
        self.slots[slot].session.idle_since_ns = now_ns;
        self.advance_session(slot, now_ns);
    }
}
