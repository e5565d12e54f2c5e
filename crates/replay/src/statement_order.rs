//! Order of statements across sessions: what a statement waits for, and which waits are over.

use std::collections::HashMap;
use std::sync::Arc;

use crate::commit_order::{CommitOrder, WaitingStatement};
use crate::dependencies::DependencyOrder;
use crate::inbox::Inbox;
use crate::options::SendOrder;

/// Order that the dispatcher, the workers and the breaker share.
pub(crate) enum StatementOrder {
    /// A number of commits, or of statements sent.
    Commits(CommitOrder),
    /// Single executions.
    Dependencies(DependencyOrder),
}

impl StatementOrder {
    /// Creates the order; `None` if a statement waits for its own session only.
    pub(crate) fn new(order: SendOrder, inboxes: &[Arc<Inbox>]) -> Option<Arc<Self>> {
        let inboxes = inboxes.to_vec();
        let order = match order {
            SendOrder::Session => return None,
            SendOrder::Commit | SendOrder::Global => {
                StatementOrder::Commits(CommitOrder::new(inboxes, order))
            }
            SendOrder::Dependencies => StatementOrder::Dependencies(DependencyOrder::new(inboxes)),
        };
        Some(Arc::new(order))
    }

    /// Returns a number that grows while waits end.
    pub(crate) fn progress(&self) -> u64 {
        match self {
            StatementOrder::Commits(order) => order.mark(),
            StatementOrder::Dependencies(order) => order.done(),
        }
    }

    /// Finishes an event when it is sent, if the order is global.
    #[inline]
    pub(crate) fn on_sent(&self, session: u64, sequence: u64) {
        if let StatementOrder::Commits(order) = self {
            order.on_sent(session, sequence);
        }
    }

    /// Finishes an event that is done, failed or skipped. `is_last`: it is the last of its session.
    pub(crate) fn finish(&self, session: u64, sequence: u64, is_last: bool) {
        match self {
            StatementOrder::Commits(order) => order.finish(session, sequence),
            StatementOrder::Dependencies(order) if is_last => order.end_session(session),
            StatementOrder::Dependencies(order) => order.finish(session, sequence),
        }
    }

    /// Removes a waiting statement.
    pub(crate) fn remove_waiting(&self, worker: usize, slot: usize) {
        match self {
            StatementOrder::Commits(order) => order.remove_waiting(worker, slot),
            StatementOrder::Dependencies(order) => order.remove_waiting(worker, slot),
        }
    }

    /// Returns all waiting statements.
    pub(crate) fn waiting(&self) -> Vec<((usize, usize), WaitingStatement)> {
        match self {
            StatementOrder::Commits(order) => order.waiting(),
            StatementOrder::Dependencies(order) => order.waiting(),
        }
    }

    /// Releases a statement before its turn.
    pub(crate) fn release_early(&self, at: (usize, usize)) {
        match self {
            StatementOrder::Commits(order) => order.release_early(at),
            StatementOrder::Dependencies(order) => order.release_early(at),
        }
    }

    /// Returns waiting statements whose sessions hold locks that what they wait for needs. `blocking`: processes that
    /// wait for locks, with those that hold them.
    pub(crate) fn deadlocked(
        &self,
        waiting: &[((usize, usize), WaitingStatement)],
        blocking: &HashMap<i32, Vec<i32>>,
    ) -> Vec<(usize, usize)> {
        match self {
            // Any commit may be the one that is awaited.
            StatementOrder::Commits(_) => {
                let blocks = |pid: i32| blocking.values().flatten().any(|one| *one == pid);
                let holders = waiting
                    .iter()
                    .filter(|(_, one)| one.process_id.is_some_and(blocks));
                holders.map(|(at, _)| *at).collect()
            }
            StatementOrder::Dependencies(order) => order.deadlocked(blocking).into_iter().collect(),
        }
    }

    /// Notes the server's process of a session.
    pub(crate) fn set_process(&self, session: u64, process_id: i32) {
        if let StatementOrder::Dependencies(order) = self {
            order.set_process(session, process_id);
        }
    }

    /// Releases the first waiting statement that ends a prepared transaction, since such a transaction blocks others.
    /// False if there is none.
    pub(crate) fn release_prepared_end(&self) -> bool {
        match self {
            StatementOrder::Commits(order) => order.release_prepared_end(),
            StatementOrder::Dependencies(_) => false,
        }
    }

    /// Returns the number of statements that waited, and of those released before their turn.
    pub(crate) fn counts(&self) -> (u64, u64) {
        match self {
            StatementOrder::Commits(order) => order.counts(),
            StatementOrder::Dependencies(order) => order.counts(),
        }
    }
}
