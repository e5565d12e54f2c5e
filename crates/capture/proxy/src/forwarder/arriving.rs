//! How a connection comes about: the client is taken, says who it is, and is led to the upstream.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use event_loop::Interest;
use rustls::{ClientConnection, Connection, ServerConnection};

use super::{
    ACCEPT_AGAIN_NS, ACCEPTED_AT_ONCE, FIRST_LISTENER, Forwarder, GREETING_NS, Pair, Phase, Shared,
    ToForwarder,
};
use crate::end::{End, Found};
use crate::happening::Happening;
use crate::opener::{Dialed, Job, Unreachable, Upstream};
use crate::sasl::Offers;
use crate::server_tls::ALPN;
use crate::start_up;
use crate::start_up::{Greeting, greeting};
use crate::tap::Track;
use capture_wire::conversation::Side;

impl Forwarder {
    /// Takes the clients that wait at a listener.
    pub(super) fn accept(&mut self, place: usize) {
        for _ in 0..ACCEPTED_AT_ONCE {
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
                        self.begin(fd, name);
                    } else {
                        inbox.send(ToForwarder::Accepted(fd, name));
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    // It went away before it was taken.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    _ => {
                        self.shared.happenings.tell(Happening::NoRoom {
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
        self.accept_again_ns = Some(self.shared.clock.now_ns() + ACCEPT_AGAIN_NS);
    }

    /// Takes clients again where that was paused for long enough.
    pub(super) fn accept_again(&mut self, now_ns: i64) {
        if self.accept_again_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.accept_again_ns = None;
            for (place, listener) in self.listeners.iter().enumerate() {
                let token = FIRST_LISTENER + place as u64;
                let _ = self.epoll.add(listener.as_raw_fd(), token, Interest::Read);
            }
        }
    }

    /// A client is there.
    pub(super) fn begin(&mut self, fd: OwnedFd, name: String) {
        if self.draining || self.ending {
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
            client: End::new(fd),
            server: None,
            track: Track::default(),
            followed: true,
            offers: None,
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
        let at_ns = self.shared.clock.now_ns() + GREETING_NS;
        self.greeting.push_back((at_ns, slot, connection));
        self.wait(slot);
    }

    /// The client says who it is.
    pub(super) fn hear(&mut self, slot: usize) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        let Phase::Greeting { start, .. } = &mut pair.phase else {
            return;
        };
        match pair.client.receive(&mut self.space, &mut self.encrypted) {
            Ok(Found::Bytes(bytes)) => start.extend_from_slice(bytes),
            Ok(Found::Nothing) => return,
            Ok(Found::End(_)) | Err(_) => return self.close(slot),
        }
        while self.greet(slot) {}
        self.wait(slot);
    }

    /// Answers what the client has said. Returns whether there may be more to answer.
    pub(super) fn greet(&mut self, slot: usize) -> bool {
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
        match (greeting(start, encrypted), tls) {
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
                self.ask_to_cancel(slot, request);
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
                    pair.followed = !replicates;
                    let start = std::mem::take(start);
                    pair.phase = Phase::Dialing { start };
                    self.shared.openers.want(Job {
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

    pub(super) fn ask_to_cancel(&mut self, slot: usize, request: Vec<u8>) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        pair.phase = Phase::Dialing { start: Vec::new() };
        let now_us = self.shared.clock.now_us();
        self.begin_to_follow(slot, &request, now_us);
        if let Some(pair) = &self.pairs[slot] {
            self.shared.openers.want(Job {
                slot,
                connection: pair.connection,
                inbox: self.inbox.clone(),
                cancel: Some(request),
            });
        }
    }

    /// The capture hears of a connection, with its start-up packet.
    pub(super) fn begin_to_follow(&mut self, slot: usize, start: &[u8], now_us: i64) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        let who = (pair.connection, pair.name.as_str());
        self.tap.opened(&mut pair.track, who.0, now_us, who.1);
        self.tap
            .bytes(&mut pair.track, who, Side::Client, now_us, start);
        self.totals.bytes[0] += start.len() as u64;
        let total = self.totals.bytes[0];
        self.counters.client_bytes.store(total, Ordering::Relaxed);
    }

    /// The upstream is there, or is not.
    pub(super) fn dialed(&mut self, dialed: Dialed) {
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
                pair.client.tell_end();
                return self.close(slot);
            }
            Err(Unreachable { reason, to_client }) => {
                self.shared.happenings.tell(Happening::Refused { reason });
                return self.refuse(slot, start_up::NOT_NOW, &to_client);
            }
        };
        let Phase::Dialing { start } = std::mem::replace(&mut pair.phase, Phase::Forwarding) else {
            return self.close(slot);
        };
        let mut server = End::new(fd);
        if let Some(tls) = tls {
            pair.offers = offers(&self.shared, &pair.client, &tls);
            server.encrypt(Box::new(Connection::Client(*tls)));
        }
        let now_us = self.shared.clock.now_us();
        let sent = server.send(&start, &mut self.encrypted);
        if let Some(pair) = &mut self.pairs[slot] {
            pair.is_plain = pair.client.tls().is_none() && server.tls().is_none();
            pair.server = Some(server);
        }
        self.begin_to_follow(slot, &start, now_us);
        match sent {
            Ok(()) => self.wait(slot),
            Err(_) => self.cannot_send(slot, Side::Server),
        }
    }

    /// Ends a connection that cannot begin, with a reason in PostgreSQL's own words.
    pub(super) fn refuse(&mut self, slot: usize, sqlstate: &str, message: &str) {
        self.counters.refused.fetch_add(1, Ordering::Relaxed);
        if let Some(pair) = &mut self.pairs[slot] {
            let message = start_up::fatal(sqlstate, message);
            let _ = pair.client.send(&message, &mut self.encrypted);
            pair.client.tell_end();
        }
        self.close(slot);
    }
}

/// Whether an offer of channel binding is to be looked for: not where the client sees, through TLS, the
/// very certificate that the server has.
fn offers(shared: &Shared, client: &End, upstream: &ClientConnection) -> Option<Offers> {
    let own = shared.tls.as_ref().filter(|_| client.tls().is_some());
    let own = own.map(|tls| &tls.certificate);
    let its = upstream.peer_certificates().and_then(<[_]>::first);
    match (own, its) {
        (Some(own), Some(its)) if own == its => None,
        _ => Some(Offers::default()),
    }
}
