//! Scheduling of sessions: a job runs when it is due and its session is free.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;

use run::{Outcome, SkipReason};

use super::pipelining::{accepts_pipelined, is_pipelined};
use super::{Slot, Worker, new_execution};
use crate::counters::LOW_WATERMARK_MIN;
use crate::event_id::EventId;
use crate::job::{Action, Job, ResumedSession};
use crate::server_state::ServerState;
use crate::session::{Backlog, Hold, Phase, Release, Session};

/// Next job of a session, still in its queue.
struct NextJob {
    due_ns: i64,
    sequence: u64,
    commits_before: u64,
    dependencies: Box<[EventId]>,
    is_sent: bool,
}

/// Job that runs now, with the state of its session when it was taken.
struct DueJob {
    job: Job,
    phase: Phase,
    transaction_lost: bool,
    session_lag_ns: u64,
}

impl Worker {
    /// Adds a job to the queue of its session, and advances the session if it was the first one.
    pub(super) fn enqueue(&mut self, job: Job, now_ns: i64) {
        let slot = match self.by_session.get(&job.session) {
            Some(&slot) => slot,
            None => self.new_slot(job.session),
        };
        if let Action::Resume(resumed) = job.action {
            self.resume_session(slot, *resumed);
            return;
        }
        let session = &mut self.slots[slot].session;
        let is_last = matches!(job.action, Action::Disconnect);
        let was_waiting = !session.queue.is_empty();
        let is_busy = was_waiting || session.is_busy();
        session
            .queue
            .push(job, self.context.queue_statements_max, &mut self.spill);
        self.busy += usize::from(!is_busy);
        self.update_backlog(slot, is_last);
        if self.stopped_ns.is_some() {
            self.drop_queued_of(slot, now_ns);
        } else if !was_waiting {
            self.advance_session(slot, now_ns);
        } else {
            self.skip_overdue(slot, now_ns);
        }
    }

    fn resume_session(&mut self, slot: usize, resumed: ResumedSession) {
        let session = &mut self.slots[slot].session;
        session.phase = match self.pool {
            None => Phase::Lost,
            Some(_) => Phase::Parked,
        };
        session.server_state = ServerState::resumed(resumed.state, resumed.transaction_lost);
        session.login = Some(Box::new(resumed.login));
        let waiting = &self.context.counters.waiting;
        waiting.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn new_slot(&mut self, id: u64) -> usize {
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                let generation = self.slots[slot].generation + 1;
                self.slots[slot] = Slot::new(Session::new(id, self.context.checksums), generation);
                slot
            }
            None => {
                let session = Session::new(id, self.context.checksums);
                self.slots.push(Slot::new(session, 0));
                self.slots.len() - 1
            }
        };
        self.by_session.insert(id, slot);
        slot
    }

    /// Updates the count of sessions whose backlog is below the low watermark. `is_last`: the session's last job
    /// was queued.
    #[inline]
    fn update_backlog(&mut self, slot: usize, is_last: bool) {
        let low_watermark = self.context.counters.low_watermark.load(Ordering::Relaxed);
        let low_watermark = low_watermark.max(LOW_WATERMARK_MIN);
        let session = &mut self.slots[slot].session;
        let backlog = if is_last || session.backlog == Backlog::Complete {
            Backlog::Complete
        } else if session.queue.is_shorter_than(low_watermark) {
            Backlog::Low
        } else {
            Backlog::Sufficient
        };
        let (was_low, is_low) = (session.backlog == Backlog::Low, backlog == Backlog::Low);
        session.backlog = backlog;
        if was_low != is_low {
            let by = if is_low { 1 } else { -1 };
            let count = &self.context.counters.below_low_watermark;
            count.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// Runs all jobs that are due. Returns the time that it read last.
    pub(super) fn send_due(&mut self) -> i64 {
        loop {
            let now_ns = self.now_ns();
            self.stalls.run(now_ns);
            match self.deadlines.peek() {
                Some(&Reverse((due_ns, slot, generation))) if due_ns <= now_ns => {
                    self.deadlines.pop();
                    // A stop may have dropped the job of this deadline.
                    let still_waits = self.slots[slot].generation == generation
                        && self.slots[slot].session.end_hold(Hold::UntilDue);
                    if still_waits {
                        self.advance_session(slot, now_ns);
                    }
                }
                _ => return now_ns,
            }
        }
    }

    /// Runs the jobs of a session until it is busy, its next job is not due, or it has none.
    pub(super) fn advance_session(&mut self, slot: usize, mut now_ns: i64) {
        while let Some(due) = self.take_due_job(slot, now_ns) {
            now_ns = self.run_job(slot, due, now_ns);
        }
    }

    /// Takes the next job of a session if it can run now. Otherwise arranges that the session is advanced again.
    #[inline]
    fn take_due_job(&mut self, slot: usize, now_ns: i64) -> Option<DueJob> {
        if self.context.lag_max_ns.is_some() {
            self.skip_overdue(slot, now_ns);
            self.replace_connection(slot);
        }
        let session = &mut self.slots[slot].session;
        if session.release == Release::Transaction && !session.server_state.in_transaction() {
            session.release = Release::None;
        }
        let phase = session.phase;
        if session.hold != Hold::None
            || session.cancelling
            || matches!(phase, Phase::Connecting | Phase::Queued)
        {
            return None;
        }
        if phase == Phase::Backoff {
            self.request_connection(slot);
            return None;
        }
        let next = self.peek_job(slot, now_ns)?;
        if next.due_ns > now_ns && phase != Phase::Closed {
            let Slot {
                session,
                generation,
                ..
            } = &mut self.slots[slot];
            session.hold = Hold::UntilDue;
            self.deadlines
                .push(Reverse((next.due_ns, slot, *generation)));
            return None;
        }
        if next.is_sent
            && (next.commits_before > 0 || !next.dependencies.is_empty())
            && phase != Phase::Closed
            && self.wait_for_others(
                slot,
                next.sequence,
                next.commits_before,
                &next.dependencies,
                now_ns,
            )
        {
            return None;
        }
        let session = &mut self.slots[slot].session;
        let transaction_lost = session.server_state.transaction_lost;
        let has_no_connection = matches!(phase, Phase::Lost | Phase::Parked);
        if has_no_connection && !transaction_lost && next.is_sent {
            match &self.pool {
                None => self.reconnect(slot, now_ns),
                Some(_) => self.queue_for_connection(slot),
            }
            return None;
        }
        let mut job = session.queue.pop().expect("it was peeked at");
        job.due_ns = next.due_ns;
        // A job that does not wait for the session's previous statement is not late because of it.
        let late_ns = match job.awaited {
            true => (session.idle_since_ns - next.due_ns).max(0) as u64,
            false => 0,
        };
        // The rest of an earlier stall's delay has been caught up.
        session.tool_delay_ns = session.tool_delay_ns.min(late_ns);
        let session_lag_ns = late_ns - session.tool_delay_ns;
        self.update_backlog(slot, false);
        Some(DueJob {
            job,
            phase,
            transaction_lost,
            session_lag_ns,
        })
    }

    /// Reads the next job of a session; `None` if there is none, or if it must wait for an answer.
    #[inline]
    fn peek_job(&mut self, slot: usize, now_ns: i64) -> Option<NextJob> {
        let session = &mut self.slots[slot].session;
        let accepts_pipelined = accepts_pipelined(session);
        let job = match session.queue.peek(&mut self.spill) {
            Ok(Some(job)) => job,
            Ok(None) => {
                self.on_empty_queue(slot);
                return None;
            }
            Err(error) => {
                self.error = Some(error);
                return None;
            }
        };
        let due_ns = match (&job.action, &session.in_flight) {
            (Action::Cancel, Some(flight)) => flight.cancel_ns(job.captured_us),
            // If nothing is in flight, the session is being restored and is advanced after that.
            _ if session.phase == Phase::Running && !(accepts_pipelined && is_pipelined(job)) => {
                self.request_flush(slot);
                return None;
            }
            // The statement to cancel is done already.
            (Action::Cancel, None) => now_ns,
            _ if self.context.at_full_speed => now_ns,
            _ => match job.think_ns {
                None => job.due_ns,
                Some(think_ns) => session.idle_since_ns.saturating_add(think_ns),
            },
        };
        Some(NextJob {
            due_ns,
            sequence: job.sequence,
            commits_before: job.commits_before,
            dependencies: job.dependencies.clone(),
            is_sent: matches!(job.action, Action::Send(_)),
        })
    }

    fn on_empty_queue(&mut self, slot: usize) {
        let phase = self.slots[slot].session.phase;
        if phase == Phase::Running {
            if self.past_end {
                self.end_group(slot);
            }
            return;
        }
        self.busy -= 1;
        if self.past_end {
            self.close_if_idle(slot);
        } else if phase == Phase::Closed {
            self.free_slot(slot);
        }
    }

    /// Runs a job: sends its statement, or records why it is not sent. Returns the time.
    #[inline]
    fn run_job(&mut self, slot: usize, due: DueJob, now_ns: i64) -> i64 {
        let DueJob {
            mut job,
            phase,
            transaction_lost,
            session_lag_ns,
        } = due;
        match std::mem::replace(&mut job.action, Action::Disconnect) {
            Action::Connect(login) if phase == Phase::Fresh => {
                self.connect(slot, job, *login, now_ns);
            }
            Action::Disconnect => {
                return self.disconnect(slot, &job, phase, session_lag_ns, now_ns);
            }
            Action::Cancel => self.cancel(slot, &job, now_ns),
            Action::Skip(reason) => {
                if job.think_ns.is_some() {
                    // The next job comes as late as it would after this one.
                    let duration_ns = job.captured.duration_us.unwrap_or(0) * 1_000;
                    self.slots[slot].session.idle_since_ns = job.due_ns + duration_ns as i64;
                }
                self.record_unsent(&job, Outcome::Skipped(reason), None, now_ns);
            }
            Action::Send(_) | Action::Refuse(..) if transaction_lost && phase != Phase::Closed => {
                let state = &mut self.slots[slot].session.server_state;
                let effect = job.session_effect;
                state.transaction_lost = !effect.ends_transaction || effect.begins_transaction;
                let outcome = Outcome::Skipped(SkipReason::TransactionLost);
                self.record_unsent(&job, outcome, None, now_ns);
            }
            _ if phase != Phase::Idle && phase != Phase::Running => {
                let error = self.slots[slot].session.fatal_error.as_ref();
                let message = error.map(|(_, message)| message.clone());
                let outcome = Outcome::Skipped(SkipReason::NoConnection);
                self.record_unsent(&job, outcome, message, now_ns);
            }
            Action::Refuse(sqlstate, message) => {
                let outcome = Outcome::Failed(sqlstate);
                self.record_unsent(&job, outcome, Some(message), now_ns);
            }
            Action::Send(_) if self.skip_aborted(slot, &job, now_ns) => {}
            Action::Send(_) if self.lacks_snapshot(&job) => {
                let outcome = Outcome::Skipped(SkipReason::SnapshotUnknown);
                self.record_unsent(&job, outcome, None, now_ns);
            }
            Action::Send(_) if self.slots[slot].session.would_execute_refused(&job) => {
                let outcome = Outcome::Skipped(SkipReason::TransactionFailed);
                self.record_unsent(&job, outcome, None, now_ns);
            }
            Action::Send(messages) => return self.send(slot, job, messages, session_lag_ns),
            Action::Connect(_) | Action::Resume(_) => {
                unreachable!("a session connects once, first of all")
            }
        }
        now_ns
    }

    pub(super) fn record_unsent(
        &mut self,
        job: &Job,
        outcome: Outcome,
        message: Option<String>,
        now_ns: i64,
    ) {
        self.record(now_ns, new_execution(job, outcome, message, None, 0));
    }

    /// Ends a session as in the workload. Returns the time.
    fn disconnect(
        &mut self,
        slot: usize,
        job: &Job,
        phase: Phase,
        session_lag_ns: u64,
        mut now_ns: i64,
    ) -> i64 {
        let is_open = phase == Phase::Idle;
        if is_open {
            self.close(slot, true);
            now_ns = self.now_ns();
        }
        let outcome = match is_open {
            true => Outcome::Done,
            false if phase == Phase::Parked => {
                let live = &self.context.counters.sessions_live;
                live.fetch_sub(1, Ordering::Relaxed);
                Outcome::Skipped(SkipReason::ConnectionShared)
            }
            false => Outcome::Skipped(SkipReason::NoConnection),
        };
        let sent_ns = is_open.then_some(now_ns);
        let execution = new_execution(job, outcome, None, sent_ns, session_lag_ns);
        self.record(now_ns, execution);
        let session = &mut self.slots[slot].session;
        session.phase = Phase::Closed;
        // No more jobs of this session follow.
        session.fatal_error = None;
        now_ns
    }

    /// Closes the idle sessions that the workload does not end, after its end. Their open transactions may hold
    /// locks that others wait for.
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

    /// Frees the slot of a closed session that has no jobs. A session that lost its connection keeps its slot,
    /// since the workload may have more of its jobs.
    pub(super) fn free_slot(&mut self, slot: usize) {
        self.update_backlog(slot, true);
        if self.slots[slot].session.fatal_error.is_none() {
            self.by_session.remove(&self.slots[slot].session.id);
            self.slots[slot].generation += 1;
            self.free_slots.push(slot);
        }
    }
}
