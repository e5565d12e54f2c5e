//! Closes connections: handles the end of one side, notifies the other, and detects completion.

use std::sync::atomic::Ordering;

use super::{CLOSE_TIMEOUT_NS, Forwarder, Pair, Phase, RunState};
use crate::start_up;
use capture_wire::conversation::Side;

impl Forwarder {
    /// Handles the end of one side: the other is notified after all earlier bytes.
    pub(super) fn handle_end(&mut self, slot: usize, side: Side) {
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
                let at_ns = self.shared.clock.now_ns() + CLOSE_TIMEOUT_NS;
                self.lingering.push_back((at_ns, slot, pair.connection));
            }
        }
        self.handle_progress(slot);
    }

    /// Handles a side that can neither be read nor written.
    pub(super) fn handle_broken(&mut self, slot: usize, side: Side) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        let Some(server) = &mut pair.server else {
            return self.close(slot);
        };
        pair.client.ended = true;
        server.ended = true;
        match side {
            Side::Client => pair.client.drop_unsent(),
            Side::Server => server.drop_unsent(),
        }
        self.handle_progress(slot);
    }

    /// Handles a side that cannot be written; its last bytes are still forwarded.
    pub(super) fn handle_send_failure(&mut self, slot: usize, side: Side) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        let Some(server) = &mut pair.server else {
            return self.close(slot);
        };
        match side {
            Side::Client => {
                pair.client.drop_unsent();
                server.ended = true;
            }
            Side::Server => {
                server.drop_unsent();
                pair.client.ended = true;
            }
        }
        self.handle_progress(slot);
    }

    /// Continues work that waited for sent bytes: notifies of ends, and closes finished
    /// connections.
    pub(super) fn handle_progress(&mut self, slot: usize) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        // If the ring has something to send first, this runs again.
        self.has_follow_up = true;
        if let Some(server) = &mut pair.server {
            if pair.client.ended {
                server.shut_down_sending();
            }
            if server.ended {
                pair.client.shut_down_sending();
            }
            let is_over = pair.client.ended && server.ended;
            if is_over && !pair.client.has_unsent() && !server.has_unsent() {
                return self.close(slot);
            }
        }
        self.update_interest(slot);
    }

    /// Stops accepting; idle connections end now, the others when they are idle.
    pub(super) fn drain(&mut self) {
        self.state = RunState::Draining;
        // Work that the ring has not completed yet is checked without waiting.
        self.has_follow_up = true;
        self.listeners.clear();
        for slot in 0..self.pairs.len() {
            match &self.pairs[slot] {
                // A connection whose last answer is being sent ends after that.
                Some(pair) if pair.idle && !pair.client.has_unsent() => self.end_idle(slot),
                Some(Pair {
                    phase: Phase::Greeting { .. },
                    ..
                }) => self.close(slot),
                _ => {}
            }
        }
    }

    /// Ends a connection between two statements, as a server does at its shutdown.
    pub(super) fn end_idle(&mut self, slot: usize) {
        if let Some(pair) = &mut self.pairs[slot] {
            let message = "terminating connection: the capture proxy stops";
            let message = start_up::fatal_error(start_up::SHUTDOWN, message);
            let _ = pair.client.send(&message, &mut self.encrypted);
            pair.client.shut_down_sending();
            if let Some(server) = &mut pair.server {
                let mut goodbye = Vec::new();
                protocol::frontend::Terminate.encode(&mut goodbye);
                let _ = server.send(&goodbye, &mut self.encrypted);
                server.shut_down_sending();
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
        self.mirror
            .add_closed(&mut pair.mirrored, pair.connection, now_us);
        self.counters.open.fetch_sub(1, Ordering::Relaxed);
        self.freed.push(slot);
    }

    /// Returns whether there is no deadline.
    #[inline]
    pub(super) fn has_no_deadline(&mut self) -> bool {
        while let Some(&(_, slot, connection)) = self.greeting.front()
            && !self.is_greeting(slot, connection)
        {
            self.greeting.pop_front();
        }
        while let Some(&(_, slot, connection)) = self.lingering.front()
            && !self.is_open(slot, connection)
        {
            self.lingering.pop_front();
        }
        self.greeting.is_empty() && self.lingering.is_empty() && self.accept_again_ns.is_none()
    }

    pub(super) fn is_open(&self, slot: usize, connection: u64) -> bool {
        let is = |pair: &Pair| pair.connection == connection;
        self.pairs[slot].as_ref().is_some_and(is)
    }

    pub(super) fn is_greeting(&self, slot: usize, connection: u64) -> bool {
        let is = |pair: &Pair| {
            pair.connection == connection && matches!(pair.phase, Phase::Greeting { .. })
        };
        self.pairs[slot].as_ref().is_some_and(is)
    }

    pub(super) fn check_deadlines(&mut self) {
        let now_ns = self.shared.clock.now_ns();
        self.resume_accepting(now_ns);
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
            if !self.is_open(slot, connection) {
                continue;
            }
            // A client that reads slowly has not gone.
            let is_behind = |pair: &Pair| pair.client.has_unsent();
            if self.pairs[slot].as_ref().is_some_and(is_behind) {
                let at_ns = now_ns + CLOSE_TIMEOUT_NS;
                self.lingering.push_back((at_ns, slot, connection));
            } else {
                self.close(slot);
            }
        }
    }
}
