//! Whose turn it is: what waits in a session is done when it is due and its session is free.

use std::cmp::Reverse;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use run::{Outcome, SkipReason};

use super::{Slot, Worker, done, flight};
use crate::connector::{Opened, Wanted};
use crate::epoll::Interest;
use crate::job::{Action, Job, Messages};
use crate::login::Login;
use crate::session::{Phase, Session};

impl Worker {
    pub(super) fn queue(&mut self, job: Job, now_ns: i64) {
        let slot = match self.by_session.get(&job.session) {
            Some(&slot) => slot,
            None => self.new_slot(job.session),
        };
        let session = &mut self.slots[slot].session;
        let was_waiting = !session.queue.is_empty();
        let is_busy = was_waiting || matches!(session.phase, Phase::Connecting | Phase::Running);
        session
            .queue
            .push(job, self.parts.queue_statements_max, &mut self.spill);
        self.busy += usize::from(!is_busy);
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
                self.slots[slot] = Slot {
                    session: Session::new(id),
                    socket: None,
                    generation,
                    waits_for_room: false,
                };
                slot
            }
            None => {
                self.slots.push(Slot {
                    session: Session::new(id),
                    socket: None,
                    generation: 0,
                    waits_for_room: false,
                });
                self.slots.len() - 1
            }
        };
        self.by_session.insert(id, slot);
        slot
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
            if session.scheduled || matches!(session.phase, Phase::Connecting | Phase::Running) {
                return;
            }
            let due_ns = match session.queue.peek(&mut self.spill) {
                Ok(Some(_)) if self.parts.at_full_speed => now_ns,
                Ok(Some(job)) => match job.think_ns {
                    None => job.due_ns,
                    Some(think_ns) => session.free_ns.saturating_add(think_ns),
                },
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
            if due_ns > now_ns && session.phase != Phase::Gone {
                session.scheduled = true;
                self.deadlines.push(Reverse((due_ns, slot, generation)));
                return;
            }
            let Some(mut job) = session.queue.pop() else {
                continue;
            };
            job.due_ns = due_ns;
            let free_ns = session.free_ns;
            let phase = session.phase;
            let session_lag_ns = (free_ns - due_ns).max(0) as u64;
            match std::mem::replace(&mut job.action, Action::Disconnect) {
                Action::Connect(login) if phase == Phase::Fresh => {
                    self.connect(slot, job, *login);
                }
                Action::Disconnect => {
                    let open = phase == Phase::Idle;
                    if open {
                        self.close(slot, true);
                        now_ns = self.now_ns();
                    }
                    let outcome = match open {
                        true => Outcome::Done,
                        false => Outcome::Skipped(SkipReason::NoConnection),
                    };
                    let sent_ns = open.then_some(now_ns);
                    self.record(now_ns, done(&job, outcome, None, sent_ns, session_lag_ns));
                    self.slots[slot].session.phase = Phase::Gone;
                }
                Action::Skip(reason) => {
                    if job.think_ns.is_some() {
                        // What follows comes as it would behind it.
                        let as_long_ns = job.captured.duration_us.unwrap_or(0) * 1_000;
                        self.slots[slot].session.free_ns = due_ns + as_long_ns as i64;
                    }
                    self.record(now_ns, done(&job, Outcome::Skipped(reason), None, None, 0));
                }
                _ if phase != Phase::Idle => {
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
                Action::Send(messages) => {
                    self.send(slot, job, messages, session_lag_ns);
                    now_ns = self.now_ns();
                }
                Action::Connect(_) => {
                    unreachable!("a session connects once, first of all")
                }
            }
        }
    }

    pub(super) fn connect(&mut self, slot: usize, job: Job, login: Login) {
        let generation = self.slots[slot].generation;
        let session = &mut self.slots[slot].session;
        session.phase = Phase::Connecting;
        session.in_flight = Some(Box::new(flight(job, 0, 0, &Messages::default())));
        let wanted = Wanted {
            slot,
            generation,
            login,
            inbox: self.parts.inbox.clone(),
        };
        // The connectors outlive the workers.
        let _ = self.parts.connectors.send(wanted);
    }

    pub(super) fn opened(&mut self, opened: Opened) -> io::Result<()> {
        let slot = opened.slot;
        let now_ns = self.now_ns();
        if self.slots[slot].generation != opened.generation
            || self.slots[slot].session.phase != Phase::Connecting
        {
            return Ok(());
        }
        let flight = self.slots[slot]
            .session
            .in_flight
            .take()
            .expect("a session that connects has it in flight");
        let mut execution = done(&flight.job, Outcome::Done, None, Some(opened.sent_ns), 0);
        execution.done_ns = Some(now_ns);
        self.slots[slot].session.free_ns = now_ns;
        match opened.result {
            Ok(connection) => {
                self.epoll
                    .add(connection.link.as_raw_fd(), slot as u64, Interest::Read)?;
                self.slots[slot].socket = Some(connection.link);
                let session = &mut self.slots[slot].session;
                session.phase = Phase::Idle;
                session.guard = connection.guard;
                // Notices that came behind the first ReadyForQuery.
                let _ = session.hear(&mut &connection.unread[..], now_ns);
                self.parts
                    .counters
                    .sessions_open
                    .fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                self.parts
                    .counters
                    .sessions_live
                    .fetch_sub(1, Ordering::Relaxed);
                execution.outcome = Outcome::Failed(error.sqlstate);
                execution.message = Some(error.message.clone());
                let session = &mut self.slots[slot].session;
                session.phase = Phase::Gone;
                session.farewell = Some((error.sqlstate, error.message));
            }
        }
        self.record(now_ns, execution);
        self.go_on(slot, now_ns);
        Ok(())
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
        if self.slots[slot].session.farewell.is_none() {
            self.by_session.remove(&self.slots[slot].session.id);
            self.slots[slot].generation += 1;
            self.free_slots.push(slot);
        }
    }
}
