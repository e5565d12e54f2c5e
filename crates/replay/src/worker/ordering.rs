//! `--order commit` in a worker: statements that wait for commits of other sessions.

use std::cmp::Reverse;

use super::{Slot, Worker};
use crate::order::Waiting;
use crate::session::LetGo;

impl Worker {
    /// Has a session's next statement wait for commits, if it must. True: it does.
    pub(super) fn holds_back(
        &mut self,
        slot: usize,
        sequence: u64,
        after: u64,
        now_ns: i64,
    ) -> bool {
        let Some(order) = &self.parts.order else {
            return false;
        };
        let generation = self.slots[slot].generation;
        let session = &mut self.slots[slot].session;
        let in_transaction = session.server_state.in_transaction();
        let goes = match session.let_go {
            LetGo::No => false,
            LetGo::Once => true,
            LetGo::ForItsTransaction => in_transaction,
        };
        if !(goes && in_transaction) {
            session.let_go = LetGo::No;
        }
        if goes || after <= order.mark() {
            return false;
        }
        let waiting = Waiting {
            generation,
            place: (session.id, sequence),
            process_id: session.place.as_ref().map(|place| place.process_id()),
            since_ns: now_ns,
            after,
        };
        if !order.wait(self.parts.number, slot, waiting) {
            return false;
        }
        session.waits_for_commits = true;
        self.held_back.push(Reverse((after, slot, generation)));
        true
    }

    /// Goes on with what has waited long enough.
    pub(super) fn release(&mut self) {
        let Some(order) = self.parts.order.clone() else {
            return;
        };
        while let Some(&Reverse((after, slot, generation))) = self.held_back.peek()
            && after <= order.mark()
        {
            self.held_back.pop();
            self.no_longer_waits(slot, generation);
        }
    }

    /// A statement goes before its turn.
    pub(super) fn let_go(&mut self, slot: usize, generation: u32) {
        let Slot {
            session,
            generation: current,
            ..
        } = &mut self.slots[slot];
        if *current == generation && session.waits_for_commits {
            session.let_go = match session.server_state.in_transaction() {
                true => LetGo::ForItsTransaction,
                false => LetGo::Once,
            };
        }
        self.no_longer_waits(slot, generation);
    }

    fn no_longer_waits(&mut self, slot: usize, generation: u32) {
        // One that was let go has left its place in the heap.
        let Slot {
            session,
            generation: current,
            ..
        } = &mut self.slots[slot];
        if *current != generation || !std::mem::take(&mut session.waits_for_commits) {
            return;
        }
        if let Some(order) = &self.parts.order {
            order.goes(self.parts.number, slot);
        }
        let now_ns = self.now_ns();
        // It waited for others' statements: for the server.
        self.slots[slot].session.free_ns = now_ns;
        self.go_on(slot, now_ns);
    }
}
