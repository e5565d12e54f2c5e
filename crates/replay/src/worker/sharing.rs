//! `--max-connections`: sessions that share fewer connections, each between its transactions.
//!
//! A session that has a statement to send and no connection waits in a first-in, first-out queue. It gets a new
//! connection while there may be more. Otherwise it gets the connection of a session that is idle, in no
//! transaction, and has no state that is bound to its connection. The state of the previous session is discarded
//! and that of the new one is restored, so that no session sees the settings of another.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use run::{Outcome, SkipReason};

use super::socket_io::CONNECTION_FAILURE;
use super::{Worker, new_execution};
use crate::connect::ConnectError;
use crate::encode;
use crate::epoll::Interest;
use crate::job::{Job, Messages};
use crate::login::Login;
use crate::session::{Hold, Phase};

/// Connections of one worker, pool by its sessions.
pub(super) struct ConnectionPool {
    max: usize,
    /// Connections that are open or being opened.
    reserved: usize,
    /// Slots that have a connection.
    owners: Vec<usize>,
    /// Slots that wait for a connection, with their generations.
    queue: VecDeque<(usize, u32)>,
}

impl ConnectionPool {
    pub(super) fn new(max: usize) -> Self {
        ConnectionPool {
            max,
            reserved: 0,
            owners: Vec::new(),
            queue: VecDeque::new(),
        }
    }

    /// Reserves one more connection; false if there are already the most.
    pub(super) fn reserve(&mut self) -> bool {
        let free = self.reserved < self.max;
        self.reserved += usize::from(free);
        free
    }

    /// Returns the reservation of a connection that could not be opened.
    pub(super) fn unreserve(&mut self) {
        self.reserved -= 1;
    }

    pub(super) fn opened(&mut self, slot: usize) {
        self.owners.push(slot);
    }

    pub(super) fn closed(&mut self, slot: usize) {
        self.reserved -= 1;
        self.owners.retain(|owner| *owner != slot);
    }
}

impl Worker {
    /// Starts a session while all connections are in use: it gets one when it has a statement to send.
    pub(super) fn connect_parked(&mut self, slot: usize, job: &Job, login: Login, now_ns: i64) {
        let session = &mut self.slots[slot].session;
        session.phase = Phase::Parked;
        session.login = Some(Box::new(login));
        let outcome = Outcome::Skipped(SkipReason::ConnectionShared);
        self.record(now_ns, new_execution(job, outcome, None, None, 0));
    }

    /// Queues a session that has a statement to send and no connection.
    pub(super) fn queue_for_connection(&mut self, slot: usize) {
        let generation = self.slots[slot].generation;
        self.slots[slot].session.phase = Phase::Queued;
        if let Some(pool) = &mut self.pool {
            pool.queue.push_back((slot, generation));
        }
    }

    /// Gives free connections to the waiting sessions.
    pub(super) fn assign_connections(&mut self) {
        loop {
            let Some(pool) = &mut self.pool else {
                return;
            };
            let Some(&(slot, generation)) = pool.queue.front() else {
                return;
            };
            let waits = self.slots[slot].generation == generation
                && self.slots[slot].session.phase == Phase::Queued;
            if !waits {
                pool.queue.pop_front();
                continue;
            }
            let now_ns = self.context.clock.now_ns() - self.context.start_ns;
            if pool.reserve() {
                pool.queue.pop_front();
                self.open_shared(slot, now_ns);
                continue;
            }
            match self.find_free_connection(slot) {
                Some((owner, true)) => {
                    if let Some(pool) = &mut self.pool {
                        pool.queue.pop_front();
                    }
                    self.transfer_connection(owner, slot, now_ns);
                }
                // A connection of another role is closed to make room for a new one.
                Some((owner, false)) => {
                    self.close(owner, true);
                    let live = &self.context.counters.sessions_live;
                    live.fetch_add(1, Ordering::Relaxed);
                    self.slots[owner].session.phase = Phase::Parked;
                }
                None => {
                    self.release_one_for_connection();
                    return;
                }
            }
        }
    }

    /// Finds a session whose connection can be given away, preferably one with the same role as the session of
    /// `slot`. Returns its slot and whether the role is the same.
    fn find_free_connection(&self, slot: usize) -> Option<(usize, bool)> {
        let login = self.slots[slot].session.login.as_deref();
        let mut found = None;
        for &owner in &self.pool.as_ref()?.owners {
            let session = &self.slots[owner].session;
            let is_free = session.phase == Phase::Idle
                && !session.pipeline.group_is_open
                && session.server_state.may_change_connection();
            if !is_free {
                continue;
            }
            let has_same_role = login.is_some_and(|login| {
                let other = session.login.as_deref();
                other.is_some_and(|other| login.is_same_role(other))
            });
            if has_same_role {
                return Some((owner, true));
            }
            found = found.or(Some((owner, false)));
        }
        found
    }

    /// Releases a statement if all connections belong to sessions that wait for others, since what they wait for may be of
    /// sessions without a connection. The statement that waits for the fewest commits, or the longest, is released.
    fn release_one_for_connection(&self) {
        let (Some(pool), Some(order)) = (&self.pool, &self.context.order) else {
            return;
        };
        let waits = |owner: &usize| self.slots[*owner].session.hold == Hold::ForOthers;
        let all_wait = pool.owners.len() == pool.reserved && pool.owners.iter().all(waits);
        if !all_wait {
            return;
        }
        let number = self.context.number;
        let waiting = order.waiting().into_iter();
        let first = waiting
            .filter(|((worker, slot), one)| {
                *worker == number
                    && pool.owners.contains(slot)
                    && self.slots[*slot].generation == one.generation
            })
            .min_by_key(|(_, one)| (one.after, one.since_ns));
        if let Some((at, _)) = first {
            order.release_early(at);
        }
    }

    fn open_shared(&mut self, slot: usize, now_ns: i64) {
        let session = &mut self.slots[slot].session;
        if session.attempts.count == 0 {
            session.attempts.first_ns = now_ns;
            self.request_connection(slot);
            return;
        }
        // The connection was lost again before a statement was done.
        let lost = || (CONNECTION_FAILURE, "it was lost again and again".to_owned());
        let (sqlstate, message) = session.fatal_error.clone().unwrap_or_else(lost);
        self.open_failed(slot, ConnectError { sqlstate, message }, now_ns);
        if self.slots[slot].session.phase == Phase::Closed {
            self.advance_session(slot, now_ns);
        }
    }

    fn transfer_connection(&mut self, from: usize, to: usize, now_ns: i64) {
        let [giver, taker] = self
            .slots
            .get_disjoint_mut([from, to])
            .expect("a session that waits has no connection to give");
        let Some(stream) = giver.socket.take() else {
            return;
        };
        let fd = stream.as_raw_fd();
        taker.socket = Some(stream);
        taker.session.take_connection(&mut giver.session);
        if let Some(backend) = &taker.session.backend {
            let backends = self.context.metrics.backends();
            backends.add(taker.session.id, backend.process_id(), now_ns);
            if let Some(order) = &self.context.order {
                order.set_process(taker.session.id, backend.process_id());
            }
        }
        giver.session.phase = Phase::Parked;
        if let Some(pool) = &mut self.pool {
            pool.owners.retain(|owner| *owner != from);
            pool.owners.push(to);
        }
        let _ = self.epoll.change(fd, to as u64, Interest::Read);
        self.context.events.handed_over();

        let login = taker.session.login.clone().expect("it has begun");
        let mut before: Vec<Messages> = Vec::new();
        let mut say = |sql: &str| before.extend(encode::text(sql));
        // Always needed: a function may have set a parameter, taken a lock or used a sequence.
        say("DISCARD ALL");
        taker.session.forget_prepared();
        if let Some(role) = &login.role {
            say(&format!("SET ROLE \"{}\"", role.replace('"', "\"\"")));
        }
        // `DISCARD ALL` has reset it.
        let name = login.application.replace('\'', "''");
        say(&format!("SET application_name = '{name}'"));
        taker.session.idle_since_ns = now_ns;
        let restoring = taker.session.begin_restore(before);
        if restoring.is_empty() {
            taker.session.phase = Phase::Idle;
            self.advance_session(to, now_ns);
        } else {
            taker.session.phase = Phase::Running;
            self.write_later(to, restoring);
        }
    }
}
