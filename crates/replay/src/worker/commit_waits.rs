//! `--order commit` in a worker: statements that wait for commits of other sessions.

use std::cmp::Reverse;

use super::{Slot, Worker};
use crate::commit_order::WaitingStatement;
use crate::session::{Hold, Release};

impl Worker {
    /// Makes a session's next statement wait for commits, if it must. Returns whether it waits.
    pub(super) fn wait_for_commits(
        &mut self,
        slot: usize,
        sequence: u64,
        after: u64,
        now_ns: i64,
    ) -> bool {
        let Some(order) = &self.context.order else {
            return false;
        };
        let generation = self.slots[slot].generation;
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
        if is_released || after <= order.mark() {
            return false;
        }
        let waiting = WaitingStatement {
            generation,
            event: (session.id, sequence),
            process_id: session.backend.as_ref().map(|backend| backend.process_id()),
            since_ns: now_ns,
            after,
        };
        if !order.wait(self.context.number, slot, waiting) {
            return false;
        }
        session.hold = Hold::ForCommits;
        self.commit_waits.push(Reverse((after, slot, generation)));
        true
    }

    /// Continues the sessions whose commits have finished.
    pub(super) fn release_committed(&mut self) {
        let Some(order) = self.context.order.clone() else {
            return;
        };
        while let Some(&Reverse((after, slot, generation))) = self.commit_waits.peek()
            && after <= order.mark()
        {
            self.commit_waits.pop();
            self.end_commit_wait(slot, generation);
        }
    }

    /// Releases a statement before its turn.
    pub(super) fn release_early(&mut self, slot: usize, generation: u32) {
        let Slot {
            session,
            generation: current,
            ..
        } = &mut self.slots[slot];
        if *current == generation && session.hold == Hold::ForCommits {
            session.release = match session.server_state.in_transaction() {
                true => Release::Transaction,
                false => Release::NextStatement,
            };
        }
        self.end_commit_wait(slot, generation);
    }

    fn end_commit_wait(&mut self, slot: usize, generation: u32) {
        // A statement that was released early leaves its entry in the heap.
        let Slot {
            session,
            generation: current,
            ..
        } = &mut self.slots[slot];
        if *current != generation || !session.end_hold(Hold::ForCommits) {
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
