//! Accepts clients, handles their start-up, and connects them to the upstream.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use event_loop::Interest;
use rustls::{ClientConnection, Connection, ServerConnection};

use super::{
    ACCEPT_BATCH_MAX, ACCEPT_PAUSE_NS, FIRST_LISTENER, Forwarder, Pair, Phase, RunState,
    STARTUP_TIMEOUT_NS, Shared,
};
use crate::endpoint::{Endpoint, ReadOutcome};
use crate::inbox::ForwarderMessage;
use crate::opener::{DialResult, OpenRequest, UnreachableReason, Upstream};
use crate::proxy_event::ProxyEvent;
use crate::sasl::BindingFilter;
use crate::server_tls::ALPN;
use crate::start_up;
use crate::start_up::{Greeting, parse_greeting};
use capture_recorder::MirroredConnection;
use capture_wire::conversation::Side;

impl Forwarder {
    /// Accepts the clients that wait at a listener.
    pub(super) fn accept(&mut self, place: usize) {
        for _ in 0..ACCEPT_BATCH_MAX {
            let Some(listener) = self.listeners.get(place) else {
                return;
            };
            match listener.accept() {
                Ok((fd, name)) => {
                    self.counters.accepted.fetch_add(1, Ordering::Relaxed);
                    let inboxes = &self.shared.inboxes;
                    let inbox = &inboxes[self.next_inbox % inboxes.len()];
                    self.next_inbox += 1;
                    if Arc::ptr_eq(inbox, &self.inbox) {
                        self.add_client(fd, name);
                    } else {
                        inbox.send(ForwarderMessage::Accepted(fd, name));
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    // The client left before it was accepted.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => {
                        self.shared.events.send(ProxyEvent::AcceptingPaused {
                            reason: error.to_string(),
                        });
                        self.pause_accepting();
                        return;
                    }
                },
            }
        }
    }

    pub(super) fn pause_accepting(&mut self) {
        for listener in &self.listeners {
            let _ = self.epoll.remove(listener.as_raw_fd());
        }
        self.accept_again_ns = Some(self.shared.clock.now_ns() + ACCEPT_PAUSE_NS);
    }

    /// Resumes accepting after a pause.
    pub(super) fn resume_accepting(&mut self, now_ns: i64) {
        if self.accept_again_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.accept_again_ns = None;
            for (place, listener) in self.listeners.iter().enumerate() {
                let token = FIRST_LISTENER + place as u64;
                let _ = self.epoll.add(listener.as_raw_fd(), token, Interest::Read);
            }
        }
    }

    /// Adds a client.
    pub(super) fn add_client(&mut self, fd: OwnedFd, name: String) {
        if self.state != RunState::Running {
            return;
        }
        let connection = self.shared.next_connection.fetch_add(1, Ordering::Relaxed);
        let pair = Pair {
            connection,
            name,
            phase: Phase::Greeting {
                start: Vec::new(),
                asked: false,
                direct: false,
            },
            client: Endpoint::new(fd),
            server: None,
            mirrored: MirroredConnection::default(),
            recorded: true,
            binding_filter: None,
            idle: false,
            is_plain: false,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.pairs[slot] = Some(pair);
                slot
            }
            None => {
                self.pairs.push(Some(pair));
                self.pairs.len() - 1
            }
        };
        self.counters.open.fetch_add(1, Ordering::Relaxed);
        let at_ns = self.shared.clock.now_ns() + STARTUP_TIMEOUT_NS;
        self.greeting.push_back((at_ns, slot, connection));
        self.update_interest(slot);
    }

    /// Handles the client's first bytes.
    pub(super) fn handle_greeting_bytes(&mut self, slot: usize) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        let Phase::Greeting { start, .. } = &mut pair.phase else {
            return;
        };
        match pair.client.receive(&mut self.buffers, &mut self.encrypted) {
            Ok(ReadOutcome::Bytes(bytes)) => start.extend_from_slice(bytes),
            Ok(ReadOutcome::Nothing) => return,
            Ok(ReadOutcome::End(_)) | Err(_) => return self.close(slot),
        }
        while self.answer_greeting(slot) {}
        self.update_interest(slot);
    }

    /// Answers the client's first messages. Returns whether there may be more to answer.
    pub(super) fn answer_greeting(&mut self, slot: usize) -> bool {
        let Some(pair) = &mut self.pairs[slot] else {
            return false;
        };
        let Phase::Greeting {
            start,
            asked,
            direct,
        } = &mut pair.phase
        else {
            return false;
        };
        let encrypted = pair.client.tls().is_some();
        let (is_direct, tls) = (*direct, &self.shared.tls);
        match (parse_greeting(start, encrypted), tls) {
            (Greeting::Wait, _) => return false,
            (Greeting::AsksForTls, Some(tls)) if !*asked => {
                start.clear();
                *asked = true;
                if let Ok(connection) = ServerConnection::new(tls.config.clone())
                    && pair.client.send(b"S", &mut self.encrypted).is_ok()
                {
                    let connection = Box::new(Connection::Server(connection));
                    pair.client.encrypt(connection);
                    return false;
                }
            }
            (Greeting::AsksForTls, None) if !*asked => {
                start.clear();
                *asked = true;
                if pair.client.send(b"N", &mut self.encrypted).is_ok() {
                    return false;
                }
            }
            (Greeting::AsksForGssapi(length), _) => {
                start.drain(..length);
                if pair.client.send(b"N", &mut self.encrypted).is_ok() {
                    return true;
                }
            }
            (Greeting::BeginsTls, Some(tls)) if !*asked => {
                if let Ok(connection) = ServerConnection::new(tls.config.clone()) {
                    let said = std::mem::take(start);
                    *direct = true;
                    let connection = Box::new(Connection::Server(connection));
                    pair.client.encrypt(connection);
                    let decrypted = pair.client.decrypt(&said, start);
                    let sent = pair.client.send_tls(&mut self.encrypted);
                    if matches!(decrypted, Ok(false)) && sent.is_ok() {
                        return true;
                    }
                }
            }
            (Greeting::Cancel(length), _) => {
                let request = start[..length].to_vec();
                self.forward_cancel(slot, request);
                return false;
            }
            (Greeting::Session { replicates }, tls) => {
                let plain = !encrypted && tls.as_ref().is_some_and(|tls| tls.required);
                let other = is_direct
                    && pair
                        .client
                        .tls()
                        .is_none_or(|tls| tls.alpn_protocol() != Some(ALPN));
                if plain {
                    let message = "this proxy takes connections with TLS only; set sslmode=require";
                    self.refuse(slot, start_up::NO_ENTRY, message);
                    return false;
                }
                if !other {
                    pair.recorded = !replicates;
                    let start = std::mem::take(start);
                    pair.phase = Phase::Dialing { start };
                    self.shared.openers.submit(OpenRequest {
                        slot,
                        connection: pair.connection,
                        inbox: self.inbox.clone(),
                        cancel: None,
                    });
                    return false;
                }
            }
            _ => {}
        }
        self.close(slot);
        false
    }

    pub(super) fn forward_cancel(&mut self, slot: usize, request: Vec<u8>) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        pair.phase = Phase::Dialing { start: Vec::new() };
        let now_us = self.shared.clock.now_us();
        self.begin_mirroring(slot, &request, now_us);
        if let Some(pair) = &self.pairs[slot] {
            self.shared.openers.submit(OpenRequest {
                slot,
                connection: pair.connection,
                inbox: self.inbox.clone(),
                cancel: Some(request),
            });
        }
    }

    /// Reports a connection to the capture, with its StartupMessage.
    pub(super) fn begin_mirroring(&mut self, slot: usize, start: &[u8], now_us: i64) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        let who = (pair.connection, pair.name.as_str());
        self.mirror
            .add_opened(&mut pair.mirrored, who.0, now_us, who.1);
        self.mirror
            .add_bytes(&mut pair.mirrored, who, Side::Client, now_us, start);
        self.totals.bytes[0] += start.len() as u64;
        let total = self.totals.bytes[0];
        self.counters.client_bytes.store(total, Ordering::Relaxed);
    }

    /// Handles the result of opening the upstream connection.
    pub(super) fn handle_dial_result(&mut self, dialed: DialResult) {
        let slot = dialed.slot;
        let Some(pair) = self.pairs[slot]
            .as_mut()
            .filter(|pair| pair.connection == dialed.connection)
        else {
            return;
        };
        let (fd, tls) = match dialed.result {
            Ok(Upstream::Open(fd, tls)) => (fd, tls),
            Ok(Upstream::Cancelled) => {
                pair.client.shut_down_sending();
                return self.close(slot);
            }
            Err(UnreachableReason { reason, to_client }) => {
                self.shared
                    .events
                    .send(ProxyEvent::ClientRefused { reason });
                return self.refuse(slot, start_up::NOT_NOW, &to_client);
            }
        };
        let Phase::Dialing { start } = std::mem::replace(&mut pair.phase, Phase::Forwarding) else {
            return self.close(slot);
        };
        let mut server = Endpoint::new(fd);
        if let Some(tls) = tls {
            pair.binding_filter = new_binding_filter(&self.shared, &pair.client, &tls);
            server.encrypt(Box::new(Connection::Client(*tls)));
        }
        let now_us = self.shared.clock.now_us();
        let sent = server.send(&start, &mut self.encrypted);
        if let Some(pair) = &mut self.pairs[slot] {
            pair.is_plain = pair.client.tls().is_none() && server.tls().is_none();
            pair.server = Some(server);
        }
        self.begin_mirroring(slot, &start, now_us);
        match sent {
            Ok(()) => self.update_interest(slot),
            Err(_) => self.handle_send_failure(slot, Side::Server),
        }
    }

    /// Refuses a connection with a reason in PostgreSQL's format.
    pub(super) fn refuse(&mut self, slot: usize, sqlstate: &str, message: &str) {
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
        if let Some(pair) = &mut self.pairs[slot] {
            let message = start_up::fatal_error(sqlstate, message);
            let _ = pair.client.send(&message, &mut self.encrypted);
            pair.client.shut_down_sending();
        }
        self.close(slot);
    }
}

/// Returns the filter for channel binding offers, if one is needed: not if the client sees, by TLS,
/// the server's own certificate.
fn new_binding_filter(
    shared: &Shared,
    client: &Endpoint,
    upstream: &ClientConnection,
) -> Option<BindingFilter> {
    let own = shared.tls.as_ref().filter(|_| client.tls().is_some());
    let own = own.map(|tls| &tls.certificate);
    let its = upstream.peer_certificates().and_then(<[_]>::first);
    match (own, its) {
        (Some(own), Some(its)) if own == its => None,
        _ => Some(BindingFilter::default()),
    }
}
