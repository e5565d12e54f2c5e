//! One thread that forwards: it waits for all of its connections at once and passes on what comes,
//! at once and as it is.
//!
//! Where the system has io_uring, connections without TLS are forwarded by a ring ([`by_ring`]): all
//! that passes costs a share of one call. Without, and for all that is not plain forwarding, there is
//! for each statement and direction one read, one write, and a share of one wait. No timer runs while
//! connections are only forwarded, and no other thread is woken for what passes.

mod arriving;
mod by_ring;
mod giving_way;
mod leaving;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use clock::{Clock, SystemClock};
use crossbeam_channel::{Receiver, Sender, unbounded};
use event_loop::{Bell, Epoll, Interest, Ready, Ring};

use self::giving_way::GivingWay;
use super::end::{End, Found, Space};
use super::happening::{Happening, Happenings};
use super::listen::Listener;
use super::opener::{Dialed, Openers};
use super::sasl::{Offers, Said};
use super::server_tls::ServerTls;
use super::tap::{Tap, Totals, Track};
use capture_wire::conversation::Side;

/// Tokens of what is no connection.
const BELL: u64 = u64::MAX;
const FIRST_LISTENER: u64 = 1 << 63;

/// A client that has not said who it is after so long is closed, as by `authentication_timeout`.
const GREETING_NS: i64 = 60_000_000_000;
/// A client that does not close a connection that the server has ended.
const LINGER_NS: i64 = 60_000_000_000;
/// How often these are looked for.
const LOOK_EVERY_NS: i64 = 500_000_000;
/// So many connections are taken before others have their turn.
const ACCEPTED_AT_ONCE: usize = 64;
/// Where the system has no room for another file, it is asked again after this.
const ACCEPT_AGAIN_NS: i64 = 100_000_000;

/// The end of what a server sends when it waits for the next statement, outside of a transaction.
const IDLE: &[u8] = b"Z\0\0\0\x05I";

/// What a forwarder is told by others.
pub(super) enum ToForwarder {
    /// A client has connected.
    Accepted(OwnedFd, String),
    /// What came of a wish.
    Dialed(Dialed),
    /// A command to the capture stands here in what passes.
    Mark(u64),
    /// Copies are to be handed on.
    HandOn,
    /// No new connections; those that are there end when they are idle.
    Drain,
    /// All connections end.
    End,
}

/// The way to a forwarder.
pub(super) struct Inbox {
    bell: Bell,
    messages: Sender<ToForwarder>,
}

impl Inbox {
    pub(super) fn new() -> io::Result<(Arc<Self>, Receiver<ToForwarder>)> {
        let (messages, received) = unbounded();
        let bell = Bell::new()?;
        Ok((Arc::new(Inbox { bell, messages }), received))
    }

    pub(super) fn send(&self, message: ToForwarder) {
        // One that has ended needs nothing any more.
        let _ = self.messages.send(message);
        self.bell.ring();
    }
}

/// What a forwarder counts, for others to read.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) accepted: AtomicU64,
    pub(super) open: AtomicUsize,
    pub(super) refused: AtomicU64,
    pub(super) client_bytes: AtomicU64,
    pub(super) server_bytes: AtomicU64,
}

/// What all forwarders share.
pub(super) struct Shared {
    pub(super) clock: Arc<WallClock>,
    pub(super) openers: Openers,
    pub(super) tls: Option<ServerTls>,
    pub(super) by_ring: bool,
    pub(super) happenings: Happenings,
    pub(super) next_connection: AtomicU64,
    /// It was said that an offer of channel binding is taken out.
    pub(super) binding_removed: AtomicBool,
    /// The ways to all of them.
    pub(super) inboxes: Vec<Arc<Inbox>>,
}

/// Wall time that never goes back: the machine's at the start, and what has passed since.
pub(super) struct WallClock {
    clock: SystemClock,
    start_us: i64,
}

impl WallClock {
    pub(super) fn start() -> Self {
        let clock = SystemClock::start();
        WallClock {
            start_us: clock.wall_us(),
            clock,
        }
    }

    /// Microseconds since 1970-01-01 UTC.
    #[inline]
    pub(super) fn now_us(&self) -> i64 {
        self.start_us + self.clock.now_ns() / 1_000
    }

    pub(super) fn now_ns(&self) -> i64 {
        self.clock.now_ns()
    }
}

enum Phase {
    /// The client says who it is.
    Greeting {
        start: Vec<u8>,
        asked: bool,
        direct: bool,
    },
    /// The upstream is asked for.
    Dialing { start: Vec<u8> },
    /// What comes is passed on.
    Forwarding,
}

struct Pair {
    connection: u64,
    name: String,
    phase: Phase,
    client: End,
    server: Option<End>,
    track: Track,
    /// It is copied.
    followed: bool,
    /// Where an offer of channel binding is to be taken out.
    offers: Option<Offers>,
    /// The server waits for the next statement, outside of a transaction.
    idle: bool,
    /// It is forwarded, without TLS on either side.
    is_plain: bool,
}

impl Pair {
    /// Counts what one side has sent, and copies it for the capture where it is followed.
    #[inline]
    fn note(
        &mut self,
        side: Side,
        bytes: &[u8],
        now_us: i64,
        (tap, totals, counters): (&mut Tap, &mut Totals, &Counters),
    ) {
        let place = usize::from(side == Side::Server);
        totals.bytes[place] += bytes.len() as u64;
        let total = totals.bytes[place];
        match side {
            Side::Client => {
                self.idle = false;
                counters.client_bytes.store(total, Ordering::Relaxed);
            }
            Side::Server => {
                self.idle = bytes.ends_with(IDLE);
                counters.server_bytes.store(total, Ordering::Relaxed);
            }
        }
        if self.followed {
            let who = (self.connection, self.name.as_str());
            tap.bytes(&mut self.track, who, side, now_us, bytes);
        } else {
            totals.passed[place] += bytes.len() as u64;
        }
    }
}

/// One thread's connections.
pub(super) struct Forwarder {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    messages: Receiver<ToForwarder>,
    counters: Arc<Counters>,
    epoll: Epoll,
    /// Where the system has it.
    ring: Option<Ring>,
    /// What epoll waits for may be ready.
    epoll_has_more: bool,
    /// Something is to be done as soon as what the ring was given has gone out.
    follows_up: bool,
    /// When the ring told of what is looked at.
    told_us: i64,
    giving_way: GivingWay,
    pairs: Vec<Option<Pair>>,
    free: Vec<usize>,
    /// Places that are free when all that is ready was looked at: until then something that is
    /// ready may be of the connection that was there.
    freed: Vec<usize>,
    tap: Tap,
    totals: Totals,
    space: Space,
    encrypted: Vec<u8>,
    listeners: Vec<Listener>,
    next_inbox: usize,
    accept_again_ns: Option<i64>,
    /// When a client must have said who it is: place and number.
    greeting: VecDeque<(i64, usize, u64)>,
    /// When a client must have closed what the server has ended.
    lingering: VecDeque<(i64, usize, u64)>,
    draining: bool,
    ending: bool,
}

impl Forwarder {
    pub(super) fn new(
        shared: Arc<Shared>,
        inbox: Arc<Inbox>,
        messages: Receiver<ToForwarder>,
        counters: Arc<Counters>,
        tap: Tap,
        listeners: Vec<Listener>,
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(inbox.bell.fd(), BELL, Interest::Read)?;
        for (place, listener) in listeners.iter().enumerate() {
            epoll.add(
                listener.as_raw_fd(),
                FIRST_LISTENER + place as u64,
                Interest::Read,
            )?;
        }
        Ok(Forwarder {
            shared,
            inbox,
            messages,
            counters,
            epoll,
            ring: None,
            epoll_has_more: true,
            follows_up: false,
            told_us: 0,
            giving_way: GivingWay::default(),
            pairs: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            tap,
            totals: Totals::default(),
            space: Space::new(),
            encrypted: Vec::new(),
            listeners,
            next_inbox: 0,
            accept_again_ns: None,
            greeting: VecDeque::new(),
            lingering: VecDeque::new(),
            draining: false,
            ending: false,
        })
    }

    /// Forwards until it is told to end, and no connection is left.
    pub(super) fn run(mut self) -> io::Result<()> {
        self.begin_ring();
        loop {
            match self.ring.as_ref().is_some_and(|ring| !ring.is_idle()) {
                true => self.turn_by_ring()?,
                false => self.turn()?,
            }
            self.free.append(&mut self.freed);
            let open = self.pairs.len() - self.free.len();
            if (self.ending || self.draining) && open == 0 {
                break;
            }
        }
        self.tap.mark(0, self.shared.clock.now_us(), self.totals);
        // The capture may be slow, and there is nobody left to keep waiting but the user.
        for _ in 0..200 {
            if !self.tap.is_behind() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            self.tap
                .hand_on_all(self.shared.clock.now_us(), self.totals);
        }
        Ok(())
    }

    /// Waits, and does what is to be done then.
    fn turn(&mut self) -> io::Result<()> {
        if self.waits_for_ever() {
            self.epoll.wait_for_ever()?;
        } else {
            self.epoll.wait(self.patience_ns())?;
            self.look_at_deadlines();
        }
        self.look_at_ready();
        Ok(())
    }

    /// How long to wait where something is to be done at a time of its own.
    fn patience_ns(&self) -> i64 {
        match self.accept_again_ns.is_some() {
            true => ACCEPT_AGAIN_NS,
            false => LOOK_EVERY_NS,
        }
    }

    fn look_at_ready(&mut self) {
        for place in 0..self.epoll.ready_count() {
            let ready = self.epoll.ready(place);
            match ready.token {
                BELL => self.read_messages(),
                token if token >= FIRST_LISTENER => {
                    self.accept((token - FIRST_LISTENER) as usize);
                }
                _ => self.look_at(ready),
            }
        }
        self.epoll_has_more = self.epoll.ready_count() > 0;
    }

    fn read_messages(&mut self) {
        self.inbox.bell.silence();
        while let Ok(message) = self.messages.try_recv() {
            match message {
                ToForwarder::Accepted(fd, name) => self.begin(fd, name),
                ToForwarder::Dialed(dialed) => self.dialed(dialed),
                ToForwarder::Mark(command) => {
                    let now_us = self.shared.clock.now_us();
                    self.tap.mark(command, now_us, self.totals);
                }
                ToForwarder::HandOn => {
                    let now_us = self.shared.clock.now_us();
                    self.tap.hand_on_all(now_us, self.totals);
                }
                ToForwarder::Drain => self.drain(),
                ToForwarder::End => {
                    self.listeners.clear();
                    self.ending = true;
                    for slot in 0..self.pairs.len() {
                        self.close(slot);
                    }
                }
            }
        }
    }

    /// Has both ends' readiness be told as it is wanted now.
    fn wait(&mut self, slot: usize) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        let token = slot as u64 * 2;
        let (read_client, read_server) = match (&pair.phase, &pair.server) {
            (Phase::Greeting { .. }, _) => (true, false),
            (Phase::Dialing { .. }, _) | (_, None) => (false, false),
            (Phase::Forwarding, Some(server)) => (!server.is_behind(), !pair.client.is_behind()),
        };
        let mut wait = |end: &mut End, side: Side, read: bool| {
            let token = token + u64::from(side == Side::Server);
            match &mut self.ring {
                Some(ring) if pair.is_plain => {
                    end.arm(ring, by_ring::token(slot, side, pair.connection), read)?;
                    end.wait(&self.epoll, token, false)
                }
                _ => end.wait(&self.epoll, token, read),
            }
        };
        let waits = wait(&mut pair.client, Side::Client, read_client);
        let waits = waits.and_then(|()| match &mut pair.server {
            Some(server) => wait(server, Side::Server, read_server),
            None => Ok(()),
        });
        if waits.is_err() {
            self.close(slot);
        }
    }

    #[inline]
    fn look_at(&mut self, ready: Ready) {
        let slot = (ready.token / 2) as usize;
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        let side = match ready.token % 2 {
            0 => Side::Client,
            _ => Side::Server,
        };
        let end = match side {
            Side::Client => &mut pair.client,
            Side::Server => match &mut pair.server {
                Some(server) => server,
                None => return,
            },
        };
        if (ready.writable || ready.gone) && end.is_behind() {
            if end.flush().is_err() {
                self.cannot_send(slot, side);
            } else if !end.is_behind() {
                self.caught_up(slot);
            }
        }
        let is_by_ring =
            self.ring.is_some() && self.pairs[slot].as_ref().is_some_and(|pair| pair.is_plain);
        if !ready.readable || is_by_ring {
            return;
        }
        match &self.pairs[slot] {
            Some(pair) if matches!(pair.phase, Phase::Forwarding) => self.forward(slot, side),
            Some(pair) if matches!(pair.phase, Phase::Greeting { .. }) => self.hear(slot),
            _ => {}
        }
    }

    /// Passes on what one side has sent.
    #[inline]
    fn forward(&mut self, slot: usize, side: Side) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        let Some(server) = &mut pair.server else {
            return;
        };
        let (source, sink) = match side {
            Side::Client => (&mut pair.client, server),
            Side::Server => (server, &mut pair.client),
        };
        // What comes next waits in the source's socket as long as the sink is behind.
        if source.ended || sink.is_behind() {
            return;
        }
        let (bytes, end) = match source.receive(&mut self.space, &mut self.encrypted) {
            Ok(Found::Bytes(bytes)) => (bytes, false),
            Ok(Found::End(bytes)) => (bytes, true),
            Ok(Found::Nothing) => return,
            Err(_) => return self.broken(slot, side),
        };
        if bytes.is_empty() {
            if end {
                self.ended(slot, side);
            }
            return;
        }
        let now_us = self.shared.clock.now_us();
        let rewritten;
        let mut bytes = bytes;
        if side == Side::Server
            && let Some(offers) = &mut pair.offers
        {
            match offers.take(bytes) {
                Said::Wait if !end => return,
                Said::Wait => rewritten = offers.rest(),
                Said::Pass { bytes, removed } => {
                    rewritten = bytes;
                    pair.offers = None;
                    if removed && !self.shared.binding_removed.swap(true, Ordering::Relaxed) {
                        self.shared.happenings.tell(Happening::BindingRemoved);
                    }
                }
            }
            bytes = &rewritten;
        }
        let sent = sink.send(bytes, &mut self.encrypted);
        let is_behind = sink.is_behind() || source.is_behind();
        let counts = (&mut self.tap, &mut self.totals, &*self.counters);
        pair.note(side, bytes, now_us, counts);
        let is_idle = pair.idle;
        if sent.is_err() {
            self.cannot_send(slot, other(side));
        } else if is_behind {
            self.wait(slot);
        }
        if end {
            self.ended(slot, side);
        } else if self.draining && is_idle {
            self.dismiss(slot);
        }
    }
}

fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}
