//! Whose turn it is: what waits in a session is done when it is due and its session is free.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;

use run::{Outcome, SkipReason};

use super::pipelining::{goes_behind, takes_behind};
use super::{Slot, Worker, done};
use crate::job::{Action, Job};
use crate::plan::LITTLE_JOBS_MIN;
use crate::server_state::ServerState;
use crate::session::{Phase, Session};

impl Worker {
    pub(super) fn queue(&mut self, job: Job, now_ns: i64) {
        let slot = match self.by_session.get(&job.session) {
            Some(&slot) => slot,
            None => self.new_slot(job.session),
        };
        let session = &mut self.slots[slot].session;
        if let Action::Resume(resumed) = job.action {
            session.phase = match self.shared {
                None => Phase::Lost,
                Some(_) => Phase::Parked,
            };
            session.server_state = ServerState::resumed(resumed.state, resumed.transaction_lost);
            session.login = Some(Box::new(resumed.login));
            let waiting = &self.parts.counters.waiting;
            waiting.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        session.is_whole |= matches!(job.action, Action::Disconnect);
        let was_waiting = !session.queue.is_empty();
        let is_busy = was_waiting || session.is_busy();
        session
            .queue
            .push(job, self.parts.queue_statements_max, &mut self.spill);
        self.busy += usize::from(!is_busy);
        self.look_at_hunger(slot);
        if self.stopped_ns.is_some() {
            self.drop_waiting_of(slot, now_ns);
        } else if !was_waiting {
            self.go_on(slot, now_ns);
        }
    }

    pub(super) fn new_slot(&mut self, id: u64) -> usize {
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                let generation = self.slots[slot].generation + 1;
                self.slots[slot] = Slot::new(Session::new(id, self.parts.digest), generation);
                slot
            }
            None => {
                let session = Session::new(id, self.parts.digest);
                self.slots.push(Slot::new(session, 0));
                self.slots.len() - 1
            }
        };
        self.by_session.insert(id, slot);
        slot
    }

    /// Has the planner know whether a session has little waiting.
    #[inline]
    fn look_at_hunger(&mut self, slot: usize) {
        let little = self.parts.counters.little.load(Ordering::Relaxed);
        let little = little.max(LITTLE_JOBS_MIN);
        let session = &mut self.slots[slot].session;
        let hungry = !session.is_whole && session.queue.holds_fewer_than(little);
        if hungry != session.hungry {
            session.hungry = hungry;
            let by = if hungry { 1 } else { -1 };
            self.parts.counters.hungry.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// Sends all that is due; returns the time it looked at last.
    pub(super) fn send_due(&mut self) -> i64 {
        loop {
            let now_ns = self.now_ns();
            match self.deadlines.peek() {
                Some(&Reverse((due_ns, slot, generation))) if due_ns <= now_ns => {
                    self.deadlines.pop();
                    // A stop may have dropped what was scheduled.
                    let still_waits = self.slots[slot].generation == generation
                        && std::mem::take(&mut self.slots[slot].session.scheduled);
                    if still_waits {
                        self.go_on(slot, now_ns);
                    }
                }
                _ => return now_ns,
            }
        }
    }

    /// Does what a session has waiting, until it is busy, waits for its time, or has nothing.
    pub(super) fn go_on(&mut self, slot: usize, mut now_ns: i64) {
        let generation = self.slots[slot].generation;
        loop {
            let session = &mut self.slots[slot].session;
            if session.scheduled
                || session.cancelling
                || session.waits_for_commits
                || matches!(session.phase, Phase::Connecting | Phase::Queued)
            {
                return;
            }
            if session.phase == Phase::Waiting {
                self.open(slot);
                return;
            }
            let is_pipeline = takes_behind(session);
            let job = match session.queue.peek(&mut self.spill) {
                Ok(Some(job)) => job,
                Ok(None) if session.phase == Phase::Running => {
                    if self.past {
                        self.end_group(slot);
                    }
                    return;
                }
                Ok(None) => {
                    // Not busy any more; nothing waits.
                    self.busy -= 1;
                    if self.past {
                        self.close_if_idle(slot);
                    } else if session.phase == Phase::Gone {
                        self.retire(slot);
                    }
                    return;
                }
                Err(error) => {
                    self.broken = Some(error);
                    return;
                }
            };
            let due_ns = match (&job.action, &session.in_flight) {
                (Action::Cancel, Some(flight)) => flight.cancel_ns(job.captured_us),
                // What is running while nothing is in flight brings the session back.
                _ if session.phase == Phase::Running && !(is_pipeline && goes_behind(job)) => {
                    self.ask_for_answers(slot);
                    return;
                }
                // It is over already.
                (Action::Cancel, None) => now_ns,
                _ if self.parts.at_full_speed => now_ns,
                _ => match job.think_ns {
                    None => job.due_ns,
                    Some(think_ns) => session.free_ns.saturating_add(think_ns),
                },
            };
            if due_ns > now_ns && session.phase != Phase::Gone {
                session.scheduled = true;
                self.deadlines.push(Reverse((due_ns, slot, generation)));
                return;
            }
            let phase = session.phase;
            let is_sent = matches!(job.action, Action::Send(_));
            let (sequence, after) = (job.sequence, job.after);
            if is_sent
                && after > 0
                && phase != Phase::Gone
                && self.holds_back(slot, sequence, after, now_ns)
            {
                return;
            }
            let session = &mut self.slots[slot].session;
            let transaction_lost = session.server_state.transaction_lost;
            let has_none = matches!(phase, Phase::Lost | Phase::Parked);
            if has_none && !transaction_lost && is_sent {
                match &self.shared {
                    None => self.reconnect(slot, now_ns),
                    Some(_) => self.queue_up(slot),
                }
                return;
            }
            let Some(mut job) = session.queue.pop() else {
                continue;
            };
            self.look_at_hunger(slot);
            let session = &self.slots[slot].session;
            job.due_ns = due_ns;
            // What does not wait for the session's previous statement is not late because of it.
            let session_lag_ns = match job.awaited {
                true => (session.free_ns - due_ns).max(0) as u64,
                false => 0,
            };
            match std::mem::replace(&mut job.action, Action::Disconnect) {
                Action::Connect(login) if phase == Phase::Fresh => {
                    self.connect(slot, job, *login, now_ns);
                }
                Action::Disconnect => {
                    let open = phase == Phase::Idle;
                    if open {
                        self.close(slot, true);
                        now_ns = self.now_ns();
                    }
                    let outcome = match open {
                        true => Outcome::Done,
                        false if phase == Phase::Parked => {
                            let live = &self.parts.counters.sessions_live;
                            live.fetch_sub(1, Ordering::Relaxed);
                            Outcome::Skipped(SkipReason::ConnectionShared)
                        }
                        false => Outcome::Skipped(SkipReason::NoConnection),
                    };
                    let sent_ns = open.then_some(now_ns);
                    self.record(now_ns, done(&job, outcome, None, sent_ns, session_lag_ns));
                    let session = &mut self.slots[slot].session;
                    session.phase = Phase::Gone;
                    // Nothing more will come of it.
                    session.farewell = None;
                }
                Action::Cancel => self.cancel(slot, &job, now_ns),
                Action::Skip(reason) => {
                    if job.think_ns.is_some() {
                        // What follows comes as it would behind it.
                        let as_long_ns = job.captured.duration_us.unwrap_or(0) * 1_000;
                        self.slots[slot].session.free_ns = due_ns + as_long_ns as i64;
                    }
                    self.record(now_ns, done(&job, Outcome::Skipped(reason), None, None, 0));
                }
                Action::Send(_) | Action::Refuse(..)
                    if transaction_lost && phase != Phase::Gone =>
                {
                    let state = &mut self.slots[slot].session.server_state;
                    let effect = job.session_effect;
                    state.transaction_lost = !effect.ends_transaction || effect.begins_transaction;
                    let outcome = Outcome::Skipped(SkipReason::TransactionLost);
                    self.record(now_ns, done(&job, outcome, None, None, 0));
                }
                _ if phase != Phase::Idle && phase != Phase::Running => {
                    let why = self.slots[slot]
                        .session
                        .farewell
                        .as_ref()
                        .map(|(_, message)| message.clone());
                    let outcome = Outcome::Skipped(SkipReason::NoConnection);
                    self.record(now_ns, done(&job, outcome, why, None, 0));
                }
                Action::Refuse(sqlstate, message) => {
                    let outcome = Outcome::Failed(sqlstate);
                    self.record(now_ns, done(&job, outcome, Some(message), None, 0));
                }
                Action::Send(_) if self.is_passed_over(slot, &job, now_ns) => {}
                Action::Send(messages) => {
                    now_ns = self.send(slot, job, messages, session_lag_ns);
                }
                Action::Connect(_) | Action::Resume(_) => {
                    unreachable!("a session connects once, first of all")
                }
            }
        }
    }

    /// Behind the workload's end: sessions whose end it does not hold. Their open transactions may
    /// have what others wait for.
    pub(super) fn close_idle(&mut self) {
        for slot in 0..self.slots.len() {
            self.close_if_idle(slot);
        }
    }

    fn close_if_idle(&mut self, slot: usize) {
        let session = &self.slots[slot].session;
        if session.phase == Phase::Idle && session.queue.is_empty() {
            self.close(slot, true);
        }
    }

    /// A session that is gone and has nothing waiting leaves its slot to another. One that was
    /// lost stays known: the workload may hold more of it.
    pub(super) fn retire(&mut self, slot: usize) {
        self.slots[slot].session.is_whole = true;
        self.look_at_hunger(slot);
        if self.slots[slot].session.farewell.is_none() {
            self.by_session.remove(&self.slots[slot].session.id);
            self.slots[slot].generation += 1;
            self.free_slots.push(slot);
        }
    }
}
