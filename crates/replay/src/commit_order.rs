//! `--order commit`: a statement waits for the commits that it counter in the capture, so that it sees the same
//! data.
//!
//! The dispatcher knows when each commit ended (its start and its duration). It gives each statement the number
//! of commits that ended before it began. Commits are numbered in the order of their ends. The *mark* is the
//! number of commits that have finished in the replay without a gap. A statement is sent when the mark has
//! reached its number.
//!
//! A commit is the end of a transaction that wrote, or a writing statement outside of a transaction (in a
//! pipeline, the last one of its group), judged by first words. A commit without a captured duration ends when it
//! begins. Both phases of a two-phase commit count. The changes become visible with `COMMIT PREPARED`, which may
//! be of another session and requires that `PREPARE TRANSACTION` has finished.
//!
//! `--order global`: a statement waits until all statements due before it have been sent. It is the same method
//! with every event as a commit that finishes when it is sent.
//!
//! A waiting statement's session may hold a lock that the awaited commit needs. [`crate::deadlock_breaker`]
//! detects that and releases the statement.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sql::TwoPhaseCommit;
use sql::classify;
use workload::{Boundary, Event, EventKind};

use crate::event_id::EventId;
use crate::inbox::{Inbox, WorkerMessage};
use crate::job::Job;
use crate::options::SendOrder;

/// Computes the number of commits that each statement follows, for the dispatcher.
#[derive(Default)]
pub(crate) struct CommitCounter {
    /// Sessions in a transaction, and whether it has written.
    transactions: HashMap<u64, bool>,
    /// Sessions whose open group of messages has written. Its Sync commits, not each of its statements.
    groups: HashSet<u64>,
    /// Commits that have begun, by their end in captured time.
    under_way: BinaryHeap<Reverse<(i64, EventId)>>,
    finished: u64,
}

impl CommitCounter {
    /// Sets the job's number of commits, and registers the job if it is a commit.
    pub(crate) fn assign(&mut self, event: &Event, job: &mut Job, order: &CommitOrder) {
        if order.kind == SendOrder::Global {
            // It waits for all events before it.
            job.commits_before = self.finished;
            self.finished += 1;
            order.add_commit((event.session, event.sequence));
            order.expect_next(&[(event.session, event.sequence)]);
            return;
        }
        let mut finished_now = Vec::new();
        while let Some(&Reverse((end_us, id))) = self.under_way.peek()
            && end_us <= event.due_us
        {
            self.under_way.pop();
            finished_now.push(id);
        }
        if !finished_now.is_empty() {
            self.finished += finished_now.len() as u64;
            order.expect_next(&finished_now);
        }
        job.commits_before = self.finished;
        let phases = match event.outcome.sqlstate {
            None => event.kind.sql().and_then(|sql| TwoPhaseCommit::of(sql)),
            Some(_) => None,
        };
        if self.is_commit(event, job) || phases.is_some() {
            let duration_us = event.outcome.duration_us.unwrap_or(0);
            let end_us = event.due_us.saturating_add_unsigned(duration_us);
            let id = (event.session, event.sequence);
            self.under_way.push(Reverse((end_us, id)));
            order.add_commit(id);
            if phases == Some(TwoPhaseCommit::Finish) {
                order.add_prepared_end(id);
            }
        }
    }

    fn is_commit(&mut self, event: &Event, job: &Job) -> bool {
        if event.kind == EventKind::Disconnect {
            self.transactions.remove(&event.session);
            self.groups.remove(&event.session);
            return false;
        }
        let Some(sql) = event.kind.sql() else {
            return false;
        };
        let effect = job.session_effect;
        let wrote_before = self.transactions.get(&event.session).copied();
        let writes = classify(sql).may_write() && event.outcome.sqlstate.is_none();
        let wrote = wrote_before.unwrap_or(false) || writes;
        match (
            wrote_before,
            effect.begins_transaction,
            effect.ends_transaction,
        ) {
            (_, true, _) => {
                self.transactions
                    .insert(event.session, writes && !effect.ends_transaction);
                effect.ends_transaction && wrote
            }
            (Some(_), false, false) => {
                self.transactions.insert(event.session, wrote);
                false
            }
            (_, false, true) => {
                self.transactions.remove(&event.session);
                wrote
            }
            (None, false, false) if job.boundary != Boundary::Sync => {
                if writes {
                    self.groups.insert(event.session);
                }
                false
            }
            (None, false, false) => self.groups.remove(&event.session) || writes,
        }
    }
}

/// Finished commits and waiting statements, shared by the dispatcher, the workers and the breaker.
pub(crate) struct CommitOrder {
    mark: AtomicU64,
    state: Mutex<State>,
    inboxes: Vec<Arc<Inbox>>,
    kind: SendOrder,
}

#[derive(Default)]
struct State {
    /// Commits that were dispatched and have not finished.
    open: HashSet<EventId>,
    /// Open commits that end a prepared transaction.
    ends_prepared: HashSet<EventId>,
    /// Commits after the mark, in the order of their captured ends.
    expected: VecDeque<EventId>,
    /// Waiting statements by worker and slot.
    waiting: HashMap<(usize, usize), WaitingStatement>,
    /// Number of statements that had to wait.
    waits: u64,
    /// Number of statements that were released before their turn.
    released: u64,
}

/// Statement that waits for commits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingStatement {
    pub(crate) generation: u32,
    /// The waiting statement.
    pub(crate) event: EventId,
    /// Backend process of its session, if it has one.
    pub(crate) process_id: Option<i32>,
    pub(crate) since_ns: i64,
    pub(crate) after: u64,
}

impl CommitOrder {
    pub(crate) fn new(inboxes: Vec<Arc<Inbox>>, kind: SendOrder) -> Self {
        CommitOrder {
            mark: AtomicU64::new(0),
            state: Mutex::default(),
            inboxes,
            kind,
        }
    }

    /// Returns the number of commits that have finished without a gap.
    #[inline]
    pub(crate) fn mark(&self) -> u64 {
        self.mark.load(Ordering::Acquire)
    }

    /// Adds a commit that is about to be dispatched.
    fn add_commit(&self, id: EventId) {
        self.state().open.insert(id);
    }

    /// Marks a commit that ends a prepared transaction, whose locks no process holds.
    fn add_prepared_end(&self, id: EventId) {
        self.state().ends_prepared.insert(id);
    }

    /// Appends commits to the order in which they must finish.
    fn expect_next(&self, ids: &[EventId]) {
        let mut state = self.state();
        state.expected.extend(ids);
        self.advance(state);
    }

    /// Finishes an event when it is sent, if the order is global.
    #[inline]
    pub(crate) fn on_sent(&self, session: u64, sequence: u64) {
        if self.kind == SendOrder::Global {
            self.finish(session, sequence);
        }
    }

    /// Finishes an event that is done, failed or skipped.
    pub(crate) fn finish(&self, session: u64, sequence: u64) {
        let mut state = self.state();
        if state.open.remove(&(session, sequence)) {
            state.ends_prepared.remove(&(session, sequence));
            self.advance(state);
        }
    }

    fn advance(&self, mut state: MutexGuard<'_, State>) {
        let mut passed = 0;
        while let Some(id) = state.expected.front()
            && !state.open.contains(id)
        {
            state.expected.pop_front();
            passed += 1;
        }
        if passed == 0 {
            return;
        }
        let mark = self.mark.fetch_add(passed, Ordering::AcqRel) + passed;
        let mut workers: Vec<usize> = state
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.after <= mark)
            .map(|((worker, _), _)| *worker)
            .collect();
        drop(state);
        workers.sort_unstable();
        workers.dedup();
        for worker in workers {
            self.inboxes[worker].wake();
        }
    }

    /// Registers a waiting statement. False if its commits have finished meanwhile.
    pub(crate) fn wait(&self, worker: usize, slot: usize, waiting: WaitingStatement) -> bool {
        let mut state = self.state();
        if waiting.after <= self.mark() {
            return false;
        }
        state.waits += 1;
        state.waiting.insert((worker, slot), waiting);
        true
    }

    /// Removes a waiting statement.
    pub(crate) fn remove_waiting(&self, worker: usize, slot: usize) {
        self.state().waiting.remove(&(worker, slot));
    }

    /// Returns all waiting statements.
    pub(crate) fn waiting(&self) -> Vec<((usize, usize), WaitingStatement)> {
        let state = self.state();
        state.waiting.iter().map(|(at, one)| (*at, *one)).collect()
    }

    /// Releases a statement before its turn.
    pub(crate) fn release_early(&self, (worker, slot): (usize, usize)) {
        let mut state = self.state();
        if let Some(waiting) = state.waiting.remove(&(worker, slot)) {
            state.released += 1;
            drop(state);
            self.inboxes[worker].send(WorkerMessage::Release(slot, waiting.generation));
        }
    }

    /// Releases the first waiting statement that ends a prepared transaction, since such a transaction blocks
    /// others. False if there is none.
    pub(crate) fn release_prepared_end(&self) -> bool {
        let state = self.state();
        let ends = state
            .waiting
            .iter()
            .filter(|(_, one)| state.ends_prepared.contains(&one.event));
        let first = ends
            .min_by_key(|(_, one)| (one.after, one.event))
            .map(|(at, _)| *at);
        drop(state);
        if let Some(at) = first {
            self.release_early(at);
        }
        first.is_some()
    }

    /// Returns the number of statements that waited, and of those released before their turn.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.waits, state.released)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Encoder;
    use crate::login::LoginMap;
    use crate::test_events::simple as event;
    use connect::Target;

    #[test]
    fn commit_counter_counts_the_commits_that_ended_before_a_statement() {
        let target = Target::parse("host=h", |_| None).unwrap();
        let order = CommitOrder::new(Vec::new(), SendOrder::Commit);
        let mut counter = CommitCounter::default();
        let logins = LoginMap::default();
        let mut encoder = Encoder::new(&target, &logins, None);
        let script = [
            // (session, sequence, due, duration, sql) and the number of commits that it follows
            (event(1, 0, 0, 10, "BEGIN"), 0),
            (event(1, 1, 20, 10, "UPDATE t SET a = 1"), 0),
            (event(2, 0, 25, 100, "INSERT INTO t VALUES (1)"), 0),
            (event(1, 2, 40, 20, "COMMIT"), 0),
            (event(3, 0, 50, 1, "SELECT 1"), 0),
            // COMMIT of 1 is over at 60, the INSERT of 2 at 125.
            (event(3, 1, 60, 1, "BEGIN"), 1),
            (event(3, 2, 70, 1, "SELECT 2"), 1),
            (event(3, 3, 80, 1, "COMMIT"), 1),
            (event(1, 3, 125, 1, "SELECT 3"), 2),
        ];
        let mut found = Vec::new();
        for (event, _) in &script {
            let mut job = encoder.job(event, None, event.due_us * 1_000);
            counter.assign(event, &mut job, &order);
            found.push(job.commits_before);
        }
        let expected: Vec<u64> = script.iter().map(|(_, after)| *after).collect();
        assert_eq!(found, expected);
        // They finish in another order: the mark has no gap.
        order.finish(2, 0);
        assert_eq!(order.mark(), 0);
        order.finish(1, 1);
        assert_eq!(order.mark(), 0);
        order.finish(1, 2);
        assert_eq!(order.mark(), 2);
    }

    #[test]
    fn commit_counter_counts_both_phases_of_a_two_phase_commit() {
        let target = Target::parse("host=h", |_| None).unwrap();
        let order = CommitOrder::new(Vec::new(), SendOrder::Commit);
        let mut counter = CommitCounter::default();
        let logins = LoginMap::default();
        let mut encoder = Encoder::new(&target, &logins, None);
        let mut failed = event(2, 0, 5, 1, "COMMIT PREPARED 'y'");
        failed.outcome.sqlstate = Some(workload::Sqlstate(*b"42704"));
        let script = [
            (event(1, 0, 0, 1, "BEGIN"), 0),
            (failed, 0),
            // It wrote through a function, which the first word does not show.
            (event(1, 1, 10, 1, "SELECT f()"), 0),
            (event(1, 2, 20, 10, "PREPARE TRANSACTION 'x'"), 0),
            (event(2, 1, 40, 10, "COMMIT PREPARED 'x'"), 1),
            (event(3, 0, 45, 1, "SELECT 1"), 1),
            (event(3, 1, 60, 1, "SELECT 1"), 2),
        ];
        for (event, after) in script {
            let mut job = encoder.job(&event, None, event.due_us * 1_000);
            counter.assign(&event, &mut job, &order);
            assert_eq!(job.commits_before, after, "{:?}", event.kind);
        }
    }
}
