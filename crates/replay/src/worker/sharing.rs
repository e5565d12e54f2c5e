//! `--max-connections`: more sessions than connections, which they share between transactions.
//!
//! A session that has something to send and no connection waits in a queue, first come, first served.
//! It gets a new connection while there may be more; else that of a session that is idle, in no
//! transaction, and holds nothing that hangs on its connection. What that one had set is discarded,
//! and what this one had set is set again, so that no session sees another's settings.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use run::{Outcome, SkipReason};

use super::wire::LOST;
use super::{Worker, done};
use crate::connect::ConnectError;
use crate::encode;
use crate::epoll::Interest;
use crate::job::{Job, Messages};
use crate::login::Login;
use crate::session::Phase;

/// The connections of one worker's sessions.
pub(super) struct Shared {
    max: usize,
    /// Open, or being opened.
    taken: usize,
    /// The slots that have one.
    owners: Vec<usize>,
    /// Slots that wait for one, and which of the slot's sessions.
    queue: VecDeque<(usize, u32)>,
}

impl Shared {
    pub(super) fn new(max: usize) -> Self {
        Shared {
            max,
            taken: 0,
            owners: Vec::new(),
            queue: VecDeque::new(),
        }
    }

    /// Takes the right to one more connection, if there is one.
    pub(super) fn take(&mut self) -> bool {
        let free = self.taken < self.max;
        self.taken += usize::from(free);
        free
    }

    /// A connection that was taken could not be opened.
    pub(super) fn untaken(&mut self) {
        self.taken -= 1;
    }

    pub(super) fn opened(&mut self, slot: usize) {
        self.owners.push(slot);
    }

    pub(super) fn closed(&mut self, slot: usize) {
        self.taken -= 1;
        self.owners.retain(|owner| *owner != slot);
    }
}

impl Worker {
    /// A session begins while all connections are taken: it has none until it sends something.
    pub(super) fn begin_parked(&mut self, slot: usize, job: &Job, login: Login, now_ns: i64) {
        let session = &mut self.slots[slot].session;
        session.phase = Phase::Parked;
        session.login = Some(Box::new(login));
        let outcome = Outcome::Skipped(SkipReason::ConnectionShared);
        self.record(now_ns, done(job, outcome, None, None, 0));
    }

    /// A session has something to send, and no connection.
    pub(super) fn queue_up(&mut self, slot: usize) {
        let generation = self.slots[slot].generation;
        self.slots[slot].session.phase = Phase::Queued;
        if let Some(shared) = &mut self.shared {
            shared.queue.push_back((slot, generation));
        }
    }

    /// Gives connections to those who wait, as far as there are any.
    pub(super) fn serve_queue(&mut self) {
        loop {
            let Some(shared) = &mut self.shared else {
                return;
            };
            let Some(&(slot, generation)) = shared.queue.front() else {
                return;
            };
            let waits = self.slots[slot].generation == generation
                && self.slots[slot].session.phase == Phase::Queued;
            if !waits {
                shared.queue.pop_front();
                continue;
            }
            let now_ns = self.parts.clock.now_ns() - self.parts.start_ns;
            if shared.take() {
                shared.queue.pop_front();
                self.open_shared(slot, now_ns);
                continue;
            }
            let login = self.slots[slot].session.login.as_deref();
            let mut found: Option<(usize, bool)> = None;
            for &owner in &shared.owners {
                let session = &self.slots[owner].session;
                let free = session.phase == Phase::Idle
                    && !session.pipeline.group_is_open
                    && session.server_state.may_change_connection();
                if !free {
                    continue;
                }
                let same = login.is_some_and(|login| {
                    let other = session.login.as_deref();
                    other.is_some_and(|other| login.is_same_role(other))
                });
                if same || found.is_none() {
                    found = Some((owner, same));
                }
                if same {
                    break;
                }
            }
            match found {
                Some((owner, true)) => {
                    shared.queue.pop_front();
                    self.change_hands(owner, slot, now_ns);
                }
                // Another role's: it makes room for a new one.
                Some((owner, false)) => {
                    self.close(owner, true);
                    let live = &self.parts.counters.sessions_live;
                    live.fetch_add(1, Ordering::Relaxed);
                    self.slots[owner].session.phase = Phase::Parked;
                }
                None => {
                    self.let_one_go_for_its_connection();
                    return;
                }
            }
        }
    }

    /// Where every connection is that of a session which waits, within its transaction, for others'
    /// commits, those who have none may be the ones it waits for: who waits for the least goes on.
    fn let_one_go_for_its_connection(&self) {
        let (Some(shared), Some(order)) = (&self.shared, &self.parts.order) else {
            return;
        };
        let all_wait = shared.owners.len() == shared.taken
            && (shared.owners.iter()).all(|owner| self.slots[*owner].session.waits_for_commits);
        if !all_wait {
            return;
        }
        let waiting = self.held_back.iter().map(|Reverse(waiting)| *waiting);
        let first = waiting
            .filter(|(_, slot, generation)| {
                shared.owners.contains(slot) && self.slots[*slot].generation == *generation
            })
            .min();
        if let Some((_, slot, _)) = first {
            order.let_go((self.parts.number, slot));
        }
    }

    fn open_shared(&mut self, slot: usize, now_ns: i64) {
        let session = &mut self.slots[slot].session;
        if session.tries.count == 0 {
            session.tries.since_ns = now_ns;
            self.open(slot);
            return;
        }
        // Lost again before it did anything.
        let lost = || (LOST, "it was lost again and again".to_owned());
        let (sqlstate, message) = session.farewell.clone().unwrap_or_else(lost);
        self.has_none(slot, ConnectError { sqlstate, message }, now_ns);
        if self.slots[slot].session.phase == Phase::Gone {
            self.go_on(slot, now_ns);
        }
    }

    fn change_hands(&mut self, from: usize, to: usize, now_ns: i64) {
        let [giver, taker] = self
            .slots
            .get_disjoint_mut([from, to])
            .expect("a session that waits has no connection to give");
        let Some(link) = giver.socket.take() else {
            return;
        };
        let fd = link.as_raw_fd();
        taker.socket = Some(link);
        taker.session.take_over(&mut giver.session);
        if let Some(place) = &taker.session.place {
            let backends = self.parts.meter.backends();
            backends.speaks_with(taker.session.id, place.process_id(), now_ns);
        }
        giver.session.phase = Phase::Parked;
        if let Some(shared) = &mut self.shared {
            shared.owners.retain(|owner| *owner != from);
            shared.owners.push(to);
        }
        let _ = self.epoll.change(fd, to as u64, Interest::Read);
        self.parts.incidents.handed_over();

        let login = taker.session.login.clone().expect("it has begun");
        let mut before: Vec<Messages> = Vec::new();
        let mut say = |sql: &str| before.extend(encode::text(sql));
        // Whatever the giver's texts say: a function may have set something, taken a lock or asked a sequence.
        say("DISCARD ALL");
        taker.session.forget_prepared();
        if let Some(role) = &login.role {
            say(&format!("SET ROLE \"{}\"", role.replace('"', "\"\"")));
        }
        // What it is after that is not known here.
        let name = login.application.replace('\'', "''");
        say(&format!("SET application_name = '{name}'"));
        taker.session.free_ns = now_ns;
        let restoring = taker.session.restore(before);
        if restoring.is_empty() {
            taker.session.phase = Phase::Idle;
            self.go_on(to, now_ns);
        } else {
            taker.session.phase = Phase::Running;
            self.write_later(to, restoring);
        }
    }
}
