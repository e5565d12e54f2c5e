//! How a connection ends: which side has ended, who has yet to be told, and when it is over.

use std::sync::atomic::Ordering;

use super::{Forwarder, LINGER_NS, Pair, Phase};
use crate::start_up;
use capture_wire::conversation::Side;

impl Forwarder {
    /// One side sends nothing any more: the other is told when it has all that was before.
    pub(super) fn ended(&mut self, slot: usize, side: Side) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        let Some(server) = &mut pair.server else {
            return self.close(slot);
        };
        match side {
            Side::Client => pair.client.ended = true,
            Side::Server => {
                server.ended = true;
                let at_ns = self.shared.clock.now_ns() + LINGER_NS;
                self.lingering.push_back((at_ns, slot, pair.connection));
            }
        }
        self.caught_up(slot);
    }

    /// Nothing more can be read of a side, nor sent there.
    pub(super) fn broken(&mut self, slot: usize, side: Side) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        let Some(server) = &mut pair.server else {
            return self.close(slot);
        };
        pair.client.ended = true;
        server.ended = true;
        match side {
            Side::Client => pair.client.give_up_sending(),
            Side::Server => server.give_up_sending(),
        }
        self.caught_up(slot);
    }

    /// Nothing can be sent to a side any more; what it has said last is still passed on.
    pub(super) fn cannot_send(&mut self, slot: usize, side: Side) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        let Some(server) = &mut pair.server else {
            return self.close(slot);
        };
        match side {
            Side::Client => {
                pair.client.give_up_sending();
                server.ended = true;
            }
            Side::Server => {
                server.give_up_sending();
                pair.client.ended = true;
            }
        }
        self.caught_up(slot);
    }

    /// Something changed that others waited for: ends are told, and what is over is closed.
    pub(super) fn caught_up(&mut self, slot: usize) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        // Where the ring has something to send first, this comes again.
        self.follows_up = true;
        if let Some(server) = &mut pair.server {
            if pair.client.ended {
                server.tell_end();
            }
            if server.ended {
                pair.client.tell_end();
            }
            let is_over = pair.client.ended && server.ended;
            if is_over && !pair.client.has_unsent() && !server.has_unsent() {
                return self.close(slot);
            }
        }
        self.wait(slot);
    }

    /// No new connections; those that are idle end now, the others when they are.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        // What the ring was given and has not been told of yet is looked after without waiting.
        self.follows_up = true;
        self.listeners.clear();
        for slot in 0..self.pairs.len() {
            match &self.pairs[slot] {
                // One whose last answer is on its way goes when that has gone out.
                Some(pair) if pair.idle && !pair.client.has_unsent() => self.dismiss(slot),
                Some(Pair {
                    phase: Phase::Greeting { .. },
                    ..
                }) => self.close(slot),
                _ => {}
            }
        }
    }

    /// Ends a connection between two statements, as a server that stops does.
    pub(super) fn dismiss(&mut self, slot: usize) {
        if let Some(pair) = &mut self.pairs[slot] {
            let message = "terminating connection: the capture proxy stops";
            let message = start_up::fatal(start_up::SHUTDOWN, message);
            let _ = pair.client.send(&message, &mut self.encrypted);
            pair.client.tell_end();
            if let Some(server) = &mut pair.server {
                let mut goodbye = Vec::new();
                protocol::frontend::Terminate.encode(&mut goodbye);
                let _ = server.send(&goodbye, &mut self.encrypted);
                server.tell_end();
            }
        }
        self.close(slot);
    }

    pub(super) fn close(&mut self, slot: usize) {
        let Some(mut pair) = self.pairs[slot].take() else {
            return;
        };
        self.leave_ring(slot, &mut pair);
        let now_us = self.shared.clock.now_us();
        self.tap.closed(&mut pair.track, pair.connection, now_us);
        self.counters.open.fetch_sub(1, Ordering::Relaxed);
        self.freed.push(slot);
    }

    /// Whether nothing is to be done at a time of its own.
    #[inline]
    pub(super) fn waits_for_ever(&mut self) -> bool {
        while let Some(&(_, slot, connection)) = self.greeting.front()
            && !self.is_greeting(slot, connection)
        {
            self.greeting.pop_front();
        }
        while let Some(&(_, slot, connection)) = self.lingering.front()
            && !self.is_there(slot, connection)
        {
            self.lingering.pop_front();
        }
        self.greeting.is_empty() && self.lingering.is_empty() && self.accept_again_ns.is_none()
    }

    pub(super) fn is_there(&self, slot: usize, connection: u64) -> bool {
        let is = |pair: &Pair| pair.connection == connection;
        self.pairs[slot].as_ref().is_some_and(is)
    }

    pub(super) fn is_greeting(&self, slot: usize, connection: u64) -> bool {
        let is = |pair: &Pair| {
            pair.connection == connection && matches!(pair.phase, Phase::Greeting { .. })
        };
        self.pairs[slot].as_ref().is_some_and(is)
    }

    pub(super) fn look_at_deadlines(&mut self) {
        let now_ns = self.shared.clock.now_ns();
        self.accept_again(now_ns);
        while let Some(&(at_ns, slot, connection)) = self.greeting.front()
            && at_ns <= now_ns
        {
            self.greeting.pop_front();
            if self.is_greeting(slot, connection) {
                self.close(slot);
            }
        }
        while let Some(&(at_ns, slot, connection)) = self.lingering.front()
            && at_ns <= now_ns
        {
            self.lingering.pop_front();
            if !self.is_there(slot, connection) {
                continue;
            }
            // One that reads slowly is not one that has gone.
            let is_behind = |pair: &Pair| pair.client.has_unsent();
            if self.pairs[slot].as_ref().is_some_and(is_behind) {
                let at_ns = now_ns + LINGER_NS;
                self.lingering.push_back((at_ns, slot, connection));
            } else {
                self.close(slot);
            }
        }
    }
}
