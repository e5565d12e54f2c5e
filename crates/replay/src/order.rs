//! `--order commit`: a statement waits for the commits that it followed in the capture, so that it
//! sees what it saw.
//!
//! The planner knows when each commit was over (its start and its duration) and gives each statement
//! the number of commits that were over before it began. The commits count in the order of their
//! ends: the *mark* is how many of them are done here without a gap. A statement goes when the
//! mark has reached its number.
//!
//! A commit is the end of a transaction that wrote, or a statement that may write outside of one (in a
//! pipeline, the last of its group), as far as first words tell. Where the capture has no duration, a commit counts as over when it began.
//! Of a commit in two phases both count: nobody sees what was written before `COMMIT PREPARED`, which may
//! be another session's and needs that `PREPARE TRANSACTION` is over.
//!
//! `--order global`: a statement waits until all that was due before it has been sent. It is the same
//! with every event for a commit, that is over when it is sent.
//!
//! What waits here may hold a lock that the commit in question waits for. [`crate::breaker`] notices
//! that, and lets go.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sql::TwoPhaseCommit;
use sql::classify;
use workload::{Boundary, Event, EventKind};

use crate::job::Job;
use crate::options::SendOrder;
use crate::worker::{Inbox, ToWorker};

/// One event of the run.
pub(crate) type Place = (u64, u64);

/// Which statements wait for how many commits: the planner's part.
#[derive(Default)]
pub(crate) struct Followed {
    /// Whether each session is in a transaction, and whether that wrote.
    transactions: HashMap<u64, bool>,
    /// Sessions whose open group of messages wrote: its Sync commits, and not each of its statements.
    groups: HashSet<u64>,
    /// Commits that began, by when they were over, in captured time.
    under_way: BinaryHeap<Reverse<(i64, Place)>>,
    over: u64,
}

impl Followed {
    /// Gives the job its number, and takes it in if it commits.
    pub(crate) fn place(&mut self, event: &Event, job: &mut Job, order: &Order) {
        if order.kind == SendOrder::Global {
            // All before it.
            job.after = self.over;
            self.over += 1;
            order.commits((event.session, event.sequence));
            order.expect(&[(event.session, event.sequence)]);
            return;
        }
        let mut over_now = Vec::new();
        while let Some(&Reverse((end_us, place))) = self.under_way.peek()
            && end_us <= event.due_us
        {
            self.under_way.pop();
            over_now.push(place);
        }
        if !over_now.is_empty() {
            self.over += over_now.len() as u64;
            order.expect(&over_now);
        }
        job.after = self.over;
        let phases = match event.outcome.sqlstate {
            None => event.kind.sql().and_then(|sql| TwoPhaseCommit::of(sql)),
            Some(_) => None,
        };
        if self.commits(event, job) || phases.is_some() {
            let duration_us = event.outcome.duration_us.unwrap_or(0);
            let end_us = event.due_us.saturating_add_unsigned(duration_us);
            let place = (event.session, event.sequence);
            self.under_way.push(Reverse((end_us, place)));
            order.commits(place);
            if phases == Some(TwoPhaseCommit::Ends) {
                order.ends_prepared(place);
            }
        }
    }

    fn commits(&mut self, event: &Event, job: &Job) -> bool {
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

/// What is done and what waits: shared by the planner, the workers and the breaker.
pub(crate) struct Order {
    mark: AtomicU64,
    state: Mutex<State>,
    inboxes: Vec<Arc<Inbox>>,
    kind: SendOrder,
}

#[derive(Default)]
struct State {
    /// Commits that were handed out and are not done.
    open: HashSet<Place>,
    /// Of these, the ones that end a prepared transaction.
    ends_prepared: HashSet<Place>,
    /// Commits that others wait for and that are not done without a gap, by their ends.
    expected: VecDeque<Place>,
    /// What waits, by worker and slot.
    waiting: HashMap<(usize, usize), Waiting>,
    /// How often somebody waited, and was let go before its turn.
    waits: u64,
    let_go: u64,
}

/// A statement that waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) generation: u32,
    /// Its session and its number there.
    pub(crate) place: Place,
    /// The server's process of its session, if it has one.
    pub(crate) process_id: Option<i32>,
    pub(crate) since_ns: i64,
    pub(crate) after: u64,
}

impl Order {
    pub(crate) fn new(inboxes: Vec<Arc<Inbox>>, kind: SendOrder) -> Self {
        Order {
            mark: AtomicU64::new(0),
            state: Mutex::default(),
            inboxes,
            kind,
        }
    }

    /// How many commits are done without a gap.
    #[inline]
    pub(crate) fn mark(&self) -> u64 {
        self.mark.load(Ordering::Acquire)
    }

    /// A commit is handed out.
    fn commits(&self, place: Place) {
        self.state().open.insert(place);
    }

    /// It ends a prepared transaction, whose locks no process holds.
    fn ends_prepared(&self, place: Place) {
        self.state().ends_prepared.insert(place);
    }

    /// These commits come next, in this order, before others.
    fn expect(&self, places: &[Place]) {
        let mut state = self.state();
        state.expected.extend(places);
        self.advance(state);
    }

    /// A statement is sent: where that is what others wait for, it is over.
    #[inline]
    pub(crate) fn sent(&self, session: u64, sequence: u64) {
        if self.kind == SendOrder::Global {
            self.done(session, sequence);
        }
    }

    /// An event is done, failed or skipped.
    pub(crate) fn done(&self, session: u64, sequence: u64) {
        let mut state = self.state();
        if state.open.remove(&(session, sequence)) {
            state.ends_prepared.remove(&(session, sequence));
            self.advance(state);
        }
    }

    fn advance(&self, mut state: MutexGuard<'_, State>) {
        let mut passed = 0;
        while let Some(place) = state.expected.front()
            && !state.open.contains(place)
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

    /// A statement waits. False: its commits are done meanwhile.
    pub(crate) fn wait(&self, worker: usize, slot: usize, waiting: Waiting) -> bool {
        let mut state = self.state();
        if waiting.after <= self.mark() {
            return false;
        }
        state.waits += 1;
        state.waiting.insert((worker, slot), waiting);
        true
    }

    /// It waits no more.
    pub(crate) fn goes(&self, worker: usize, slot: usize) {
        self.state().waiting.remove(&(worker, slot));
    }

    /// All that waits.
    pub(crate) fn waiting(&self) -> Vec<((usize, usize), Waiting)> {
        let state = self.state();
        state.waiting.iter().map(|(at, one)| (*at, *one)).collect()
    }

    /// Lets one go before its turn.
    pub(crate) fn let_go(&self, (worker, slot): (usize, usize)) {
        let mut state = self.state();
        if let Some(waiting) = state.waiting.remove(&(worker, slot)) {
            state.let_go += 1;
            drop(state);
            self.inboxes[worker].send(ToWorker::LetGo(slot, waiting.generation));
        }
    }

    /// A prepared transaction holds others up: lets go the first of those that may end it.
    pub(crate) fn let_go_who_ends_prepared(&self) -> bool {
        let state = self.state();
        let ends = state
            .waiting
            .iter()
            .filter(|(_, one)| state.ends_prepared.contains(&one.place));
        let first = ends
            .min_by_key(|(_, one)| (one.after, one.place))
            .map(|(at, _)| *at);
        drop(state);
        if let Some(at) = first {
            self.let_go(at);
        }
        first.is_some()
    }

    /// How often a statement waited, and how often one was let go before its turn.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.state();
        (state.waits, state.let_go)
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
    use connect::Target;
    use workload::Outcome;

    fn event(session: u64, sequence: u64, due_us: i64, duration_us: u64, sql: &str) -> Event {
        Event {
            session,
            sequence,
            due_us,
            kind: EventKind::Simple { sql: sql.into() },
            outcome: Outcome {
                duration_us: Some(duration_us),
                ..Outcome::default()
            },
            unreplayable: None,
            source: 0,
            line: 0,
            prelude: false,
            particulars: None,
        }
    }

    #[test]
    fn a_statement_waits_for_the_commits_that_were_over_before_it_began() {
        let target = Target::parse("host=h", |_| None).unwrap();
        let order = Order::new(Vec::new(), SendOrder::Commit);
        let mut followed = Followed::default();
        let logins = LoginMap::default();
        let mut encoder = Encoder::new(&target, &logins, None);
        let script = [
            // (session, sequence, due, duration, sql) and how many commits it follows
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
            let mut job = encoder.job(event.clone(), None, event.due_us * 1_000);
            followed.place(event, &mut job, &order);
            found.push(job.after);
        }
        let expected: Vec<u64> = script.iter().map(|(_, after)| *after).collect();
        assert_eq!(found, expected);
        // They are done here in the other order: the mark has no gap.
        order.done(2, 0);
        assert_eq!(order.mark(), 0);
        order.done(1, 1);
        assert_eq!(order.mark(), 0);
        order.done(1, 2);
        assert_eq!(order.mark(), 2);
    }

    #[test]
    fn of_two_phases_both_are_waited_for() {
        let target = Target::parse("host=h", |_| None).unwrap();
        let order = Order::new(Vec::new(), SendOrder::Commit);
        let mut followed = Followed::default();
        let logins = LoginMap::default();
        let mut encoder = Encoder::new(&target, &logins, None);
        let mut failed = event(2, 0, 5, 1, "COMMIT PREPARED 'y'");
        failed.outcome.sqlstate = Some(workload::Sqlstate(*b"42704"));
        let script = [
            (event(1, 0, 0, 1, "BEGIN"), 0),
            (failed, 0),
            // It wrote through a function, which nobody sees.
            (event(1, 1, 10, 1, "SELECT f()"), 0),
            (event(1, 2, 20, 10, "PREPARE TRANSACTION 'x'"), 0),
            (event(2, 1, 40, 10, "COMMIT PREPARED 'x'"), 1),
            (event(3, 0, 45, 1, "SELECT 1"), 1),
            (event(3, 1, 60, 1, "SELECT 1"), 2),
        ];
        for (event, after) in script {
            let mut job = encoder.job(event.clone(), None, event.due_us * 1_000);
            followed.place(&event, &mut job, &order);
            assert_eq!(job.after, after, "{:?}", event.kind);
        }
    }
}
