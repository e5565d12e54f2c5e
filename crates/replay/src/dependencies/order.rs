//! Executions that are done, and statements that wait for them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::commit_order::WaitingStatement;
use crate::event_id::EventId;
use crate::inbox::{Inbox, WorkerMessage};

/// Statement that waits for an execution of another session: its worker, slot and generation, and the number of
/// executions of that session that must be done.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    worker: usize,
    slot: usize,
    generation: u32,
    executions: u64,
}

/// Progress of a session.
#[derive(Debug, Default)]
struct SessionProgress {
    /// Number of executions that are done.
    done: AtomicU64,
    /// Process of the server; 0 if it is not known.
    process_id: AtomicI32,
    waiters: Mutex<Vec<Waiter>>,
}

/// Executions that are done, shared by the dispatcher, the workers and the breaker.
pub(crate) struct DependencyOrder {
    sessions: RwLock<HashMap<u64, Arc<SessionProgress>>>,
    inboxes: Vec<Arc<Inbox>>,
    state: Mutex<State>,
    /// Number of executions that are done.
    done: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Waiting statements by worker and slot, each with the session that it waits for.
    waiting: HashMap<(usize, usize), (WaitingStatement, u64)>,
    waits: u64,
    released: u64,
}

impl DependencyOrder {
    pub(crate) fn new(inboxes: Vec<Arc<Inbox>>) -> Self {
        DependencyOrder {
            sessions: RwLock::default(),
            inboxes,
            state: Mutex::default(),
            done: AtomicU64::new(0),
        }
    }

    /// Returns the number of executions that are done.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Adds a session before its first event is dispatched.
    pub(crate) fn begin_session(&self, session: u64) {
        let mut sessions = self
            .sessions
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        sessions.entry(session).or_default();
    }

    /// Forgets a session whose last event is done. What waits for it continues.
    pub(crate) fn end_session(&self, session: u64) {
        self.finish(session, u64::MAX - 1);
        let mut sessions = self
            .sessions
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        sessions.remove(&session);
    }

    /// Finishes an execution that is done, failed or skipped.
    pub(crate) fn finish(&self, session: u64, sequence: u64) {
        self.done.fetch_add(1, Ordering::Relaxed);
        let Some(progress) = self.progress(session) else {
            return;
        };
        let done = progress
            .done
            .fetch_max(sequence + 1, Ordering::SeqCst)
            .max(sequence + 1);
        let mut waiters = lock(&progress.waiters);
        waiters.retain(|one| {
            let still_waits = one.executions > done;
            if !still_waits {
                let message = WorkerMessage::Continue(one.slot, one.generation);
                self.inboxes[one.worker].send(message);
            }
            still_waits
        });
    }

    /// Removes executions that are done.
    pub(crate) fn remove_done(&self, executions: &mut Vec<EventId>) {
        executions.retain(|id| !self.is_done(*id));
    }

    /// Returns the first of these executions that is not done.
    pub(crate) fn first_unfinished(&self, executions: &[EventId]) -> Option<EventId> {
        let unfinished = |id: &&EventId| !self.is_done(**id);
        executions.iter().find(unfinished).copied()
    }

    fn is_done(&self, (session, sequence): EventId) -> bool {
        let progress = self.progress(session);
        progress.is_none_or(|progress| progress.done.load(Ordering::SeqCst) > sequence)
    }

    /// Registers a statement that waits for an execution. False if that is done meanwhile.
    pub(crate) fn wait(
        &self,
        worker: usize,
        slot: usize,
        waiting: WaitingStatement,
        (session, sequence): EventId,
    ) -> bool {
        let Some(progress) = self.progress(session) else {
            return false;
        };
        let mut waiters = lock(&progress.waiters);
        if progress.done.load(Ordering::SeqCst) > sequence {
            return false;
        }
        waiters.push(Waiter {
            worker,
            slot,
            generation: waiting.generation,
            executions: sequence + 1,
        });
        drop(waiters);
        let mut state = lock(&self.state);
        state.waits += 1;
        state.waiting.insert((worker, slot), (waiting, session));
        true
    }

    /// Removes a waiting statement.
    pub(crate) fn remove_waiting(&self, worker: usize, slot: usize) {
        lock(&self.state).waiting.remove(&(worker, slot));
    }

    /// Returns all waiting statements.
    pub(crate) fn waiting(&self) -> Vec<((usize, usize), WaitingStatement)> {
        let state = lock(&self.state);
        let waiting = state.waiting.iter();
        waiting.map(|(at, (one, _))| (*at, *one)).collect()
    }

    /// Releases a statement before its turn.
    pub(crate) fn release_early(&self, (worker, slot): (usize, usize)) {
        let mut state = lock(&self.state);
        if let Some((waiting, _)) = state.waiting.remove(&(worker, slot)) {
            state.released += 1;
            drop(state);
            self.inboxes[worker].send(WorkerMessage::Release(slot, waiting.generation));
        }
    }

    /// Notes the server's process of a session.
    pub(crate) fn set_process(&self, session: u64, process_id: i32) {
        if let Some(progress) = self.progress(session) {
            progress.process_id.store(process_id, Ordering::Relaxed);
        }
    }

    /// Returns a waiting statement whose session holds a lock that what it waits for needs, possibly through other
    /// sessions. `blocking`: processes that wait for locks, with those that hold them.
    pub(crate) fn deadlocked(&self, blocking: &HashMap<i32, Vec<i32>>) -> Option<(usize, usize)> {
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        let process = |progress: &Arc<SessionProgress>| progress.process_id.load(Ordering::Relaxed);
        let by_process: HashMap<i32, u64> = sessions
            .iter()
            .map(|(id, one)| (process(one), *id))
            .collect();
        let state = lock(&self.state);
        let awaited: HashMap<u64, u64> = state
            .waiting
            .values()
            .map(|(one, session)| (one.event.0, *session))
            .collect();
        let next = |session: u64| {
            let pids = sessions
                .get(&session)
                .and_then(|one| blocking.get(&process(one)));
            let holders = pids
                .into_iter()
                .flatten()
                .filter_map(|pid| by_process.get(pid));
            holders
                .chain(awaited.get(&session))
                .copied()
                .collect::<Vec<u64>>()
        };
        let is_in_cycle = |start: u64| {
            let (mut seen, mut pending) = (HashSet::new(), next(start));
            while let Some(session) = pending.pop() {
                if session == start {
                    return true;
                }
                if seen.insert(session) {
                    pending.extend(next(session));
                }
            }
            false
        };
        let mut waiting: Vec<_> = state.waiting.iter().collect();
        waiting.sort_by_key(|(_, (one, _))| one.since_ns);
        let found = waiting
            .into_iter()
            .find(|(_, (one, _))| is_in_cycle(one.event.0));
        found.map(|(at, _)| *at)
    }

    /// Returns the number of statements that waited, and of those released before their turn.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = lock(&self.state);
        (state.waits, state.released)
    }

    fn progress(&self, session: u64) -> Option<Arc<SessionProgress>> {
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        sessions.get(&session).cloned()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> WaitingStatement {
        WaitingStatement {
            generation: 7,
            event: (2, 5),
            process_id: None,
            since_ns: 0,
            after: 0,
        }
    }

    #[test]
    fn statement_continues_when_the_execution_is_done() {
        let (inbox, messages) = Inbox::new().unwrap();
        let order = DependencyOrder::new(vec![inbox]);
        order.begin_session(1);
        assert_eq!(order.first_unfinished(&[(1, 3), (9, 1)]), Some((1, 3)));
        assert!(order.wait(0, 4, waiting(), (1, 3)));
        order.finish(1, 2);
        assert!(messages.try_recv().is_err());
        order.finish(1, 3);
        assert!(matches!(
            messages.try_recv(),
            Ok(WorkerMessage::Continue(4, 7))
        ));
        assert_eq!(order.first_unfinished(&[(1, 3)]), None);
        assert!(!order.wait(0, 4, waiting(), (1, 3)));
        assert_eq!(order.counts(), (1, 0));
    }

    #[test]
    fn end_of_a_session_finishes_all_of_it() {
        let (inbox, messages) = Inbox::new().unwrap();
        let order = DependencyOrder::new(vec![inbox]);
        order.begin_session(1);
        assert!(order.wait(0, 4, waiting(), (1, 300)));
        order.end_session(1);
        assert!(matches!(
            messages.try_recv(),
            Ok(WorkerMessage::Continue(4, 7))
        ));
        assert_eq!(order.first_unfinished(&[(1, 301)]), None);
    }

    #[test]
    fn only_a_statement_that_blocks_what_it_waits_for_is_deadlocked() {
        let (inbox, _messages) = Inbox::new().unwrap();
        let order = DependencyOrder::new(vec![inbox]);
        for session in 1..=4 {
            order.begin_session(session);
            order.set_process(session, 100 + session as i32);
        }
        // 2 waits for 1, and 1 for 3.
        assert!(order.wait(0, 2, waiting(), (1, 0)));
        let of_1 = WaitingStatement {
            event: (1, 0),
            ..waiting()
        };
        assert!(order.wait(0, 1, of_1, (3, 0)));
        assert_eq!(order.deadlocked(&HashMap::from([(104, vec![102])])), None);
        assert_eq!(order.deadlocked(&HashMap::from([(103, vec![104])])), None);
        assert!(
            order
                .deadlocked(&HashMap::from([(103, vec![102])]))
                .is_some()
        );
        assert!(
            order
                .deadlocked(&HashMap::from([(103, vec![104]), (104, vec![102])]))
                .is_some()
        );
    }
}
