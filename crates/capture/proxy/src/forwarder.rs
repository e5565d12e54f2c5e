//! Runs one thread that forwards: it waits for all of its connections at once and passes on their
//! bytes immediately and unchanged.
//!
//! If the system has io_uring, connections without TLS are forwarded by a ring ([`io_uring`]), where
//! all transfers share one system call. Otherwise each statement costs one read, one write and a
//! share of one wait in each direction. No timer runs while connections are only forwarded, and
//! forwarded bytes wake no other thread.

mod accept;
mod io_uring;
mod shutdown;
mod yield_policy;

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crossbeam_channel::Receiver;
use event_loop::{Interest, Poller, Ready, Ring};

use self::yield_policy::YieldPolicy;
use super::endpoint::{Endpoint, ReadBuffers, ReadOutcome};
use super::inbox::{ForwarderMessage, Inbox};
use super::listen::Listener;
use super::opener::OpenerPool;
use super::proxy_event::{ProxyEvent, ProxyEventSender};
use super::sasl::{BindingFilter, FilterResult};
use super::server_tls::ServerTls;
use capture_recorder::{MirrorQueue, MirroredConnection, Totals, WallClock};
use capture_wire::conversation::Side;

/// Tokens of descriptors other than connections.
const WAKER: u64 = u64::MAX;
const FIRST_LISTENER: u64 = 1 << 63;

/// Time after which a client that has not sent its StartupMessage is closed, as by
/// `authentication_timeout`.
const STARTUP_TIMEOUT_NS: i64 = 60_000_000_000;
/// Time after which a client is closed that does not close a connection that the server has ended.
const CLOSE_TIMEOUT_NS: i64 = 60_000_000_000;
/// Interval between checks for such clients.
const DEADLINE_INTERVAL_NS: i64 = 500_000_000;
/// Maximum number of connections accepted in a row.
const ACCEPT_BATCH_MAX: usize = 64;
/// Interval between attempts to accept if the system is out of file descriptors.
const ACCEPT_PAUSE_NS: i64 = 100_000_000;

/// End of the server's bytes when it waits for the next statement, outside of a transaction.
const IDLE: &[u8] = b"Z\0\0\0\x05I";

/// Counters of a forwarder, for other threads.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) accepted: AtomicU64,
    pub(super) open: AtomicUsize,
    pub(super) refused: AtomicU64,
    pub(super) client_bytes: AtomicU64,
    pub(super) server_bytes: AtomicU64,
}

/// State that all forwarders share.
pub(super) struct Shared {
    pub(super) clock: Arc<WallClock>,
    pub(super) openers: OpenerPool,
    pub(super) tls: Option<ServerTls>,
    pub(super) use_io_uring: bool,
    pub(super) events: ProxyEventSender,
    pub(super) next_connection: AtomicU64,
    /// The removal of a channel binding offer was reported.
    pub(super) binding_removed: AtomicBool,
    /// Message queues of all forwarders.
    pub(super) inboxes: Vec<Arc<Inbox>>,
}

enum Phase {
    /// The client has not sent its StartupMessage.
    Greeting {
        start: Vec<u8>,
        asked: bool,
        direct: bool,
    },
    /// The upstream connection is being opened.
    Dialing { start: Vec<u8> },
    /// Bytes are forwarded.
    Forwarding,
}

struct Pair {
    connection: u64,
    name: String,
    phase: Phase,
    client: Endpoint,
    server: Option<Endpoint>,
    mirrored: MirroredConnection,
    /// Whether it is copied for the capture.
    recorded: bool,
    /// Set while an offer of channel binding may have to be removed.
    binding_filter: Option<BindingFilter>,
    /// Whether the server waits for the next statement, outside of a transaction.
    idle: bool,
    /// Whether it is being forwarded without TLS on either side.
    is_plain: bool,
}

impl Pair {
    /// Counts the bytes of one side, and copies them for the capture if the connection is recorded.
    #[inline]
    fn record_bytes(
        &mut self,
        side: Side,
        bytes: &[u8],
        now_us: i64,
        (mirror, totals, counters): (&mut MirrorQueue, &mut Totals, &Counters),
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
        if self.recorded {
            let who = (self.connection, self.name.as_str());
            mirror.add_bytes(&mut self.mirrored, who, side, now_us, bytes);
        } else {
            totals.passed[place] += bytes.len() as u64;
        }
    }
}

/// The connections of one thread.
pub(super) struct Forwarder {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    messages: Receiver<ForwarderMessage>,
    counters: Arc<Counters>,
    epoll: Poller,
    /// Set if the system has io_uring.
    ring: Option<Ring>,
    /// Whether descriptors watched by epoll may be ready.
    epoll_pending: bool,
    /// Whether work remains as soon as the ring has sent its buffers.
    has_follow_up: bool,
    /// Time of the ring's current notifications.
    notified_us: i64,
    yield_policy: YieldPolicy,
    pairs: Vec<Option<Pair>>,
    free: Vec<usize>,
    /// Slots that are free once all current notifications were handled; until then, one of them may
    /// be for the previous connection.
    freed: Vec<usize>,
    mirror: MirrorQueue,
    totals: Totals,
    buffers: ReadBuffers,
    encrypted: Vec<u8>,
    listeners: Vec<Listener>,
    next_inbox: usize,
    accept_again_ns: Option<i64>,
    /// Deadlines for the StartupMessage: time, slot and connection number.
    greeting: VecDeque<(i64, usize, u64)>,
    /// Deadlines for closing a connection that the server has ended.
    lingering: VecDeque<(i64, usize, u64)>,
    state: RunState,
}

/// State of a forwarder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunState {
    Running,
    /// It accepts no clients, and connections end when they are idle.
    Draining,
    /// It accepts no clients, and all connections are closed.
    Ending,
}

impl Forwarder {
    pub(super) fn new(
        shared: Arc<Shared>,
        inbox: Arc<Inbox>,
        messages: Receiver<ForwarderMessage>,
        counters: Arc<Counters>,
        mirror: MirrorQueue,
        listeners: Vec<Listener>,
    ) -> io::Result<Self> {
        let epoll = Poller::new()?;
        epoll.add(inbox.bell.fd(), WAKER, Interest::Read)?;
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
            epoll_pending: true,
            has_follow_up: false,
            notified_us: 0,
            yield_policy: YieldPolicy::default(),
            pairs: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            mirror,
            totals: Totals::default(),
            buffers: ReadBuffers::new(),
            encrypted: Vec::new(),
            listeners,
            next_inbox: 0,
            accept_again_ns: None,
            greeting: VecDeque::new(),
            lingering: VecDeque::new(),
            state: RunState::Running,
        })
    }

    /// Forwards until the end is requested and no connection is left.
    pub(super) fn run(mut self) -> io::Result<()> {
        self.create_ring();
        loop {
            match self.ring.as_ref().is_some_and(|ring| !ring.is_idle()) {
                true => self.run_once_by_ring()?,
                false => self.run_once()?,
            }
            self.free.append(&mut self.freed);
            let open = self.pairs.len() - self.free.len();
            if self.state != RunState::Running && open == 0 {
                break;
            }
        }
        self.mirror
            .add_mark(0, self.shared.clock.now_us(), self.totals);
        // The capture may be slow, and its last copies delay only the user's exit.
        for _ in 0..200 {
            if !self.mirror.has_unsent_reports() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            self.mirror.flush(self.shared.clock.now_us(), self.totals);
        }
        Ok(())
    }

    /// Waits for notifications and handles them.
    fn run_once(&mut self) -> io::Result<()> {
        if self.has_no_deadline() {
            self.epoll.wait_without_timeout()?;
        } else {
            self.epoll.wait(self.wait_limit_ns())?;
            self.check_deadlines();
        }
        self.handle_ready_descriptors();
        Ok(())
    }

    /// Returns the maximum wait until the next deadline.
    fn wait_limit_ns(&self) -> i64 {
        match self.accept_again_ns.is_some() {
            true => ACCEPT_PAUSE_NS,
            false => DEADLINE_INTERVAL_NS,
        }
    }

    fn handle_ready_descriptors(&mut self) {
        for place in 0..self.epoll.ready_count() {
            let ready = self.epoll.ready(place);
            match ready.token {
                WAKER => self.read_messages(),
                token if token >= FIRST_LISTENER => {
                    self.accept((token - FIRST_LISTENER) as usize);
                }
                _ => self.handle_ready(ready),
            }
        }
        self.epoll_pending = self.epoll.ready_count() > 0;
    }

    fn read_messages(&mut self) {
        self.inbox.bell.reset();
        while let Ok(message) = self.messages.try_recv() {
            match message {
                ForwarderMessage::Accepted(fd, name) => self.add_client(fd, name),
                ForwarderMessage::Dialed(dialed) => self.handle_dial_result(dialed),
                ForwarderMessage::Mark(command) => {
                    let now_us = self.shared.clock.now_us();
                    self.mirror.add_mark(command, now_us, self.totals);
                }
                ForwarderMessage::Flush => {
                    let now_us = self.shared.clock.now_us();
                    self.mirror.flush(now_us, self.totals);
                }
                ForwarderMessage::Drain => self.drain(),
                ForwarderMessage::End => {
                    self.listeners.clear();
                    self.state = RunState::Ending;
                    for slot in 0..self.pairs.len() {
                        self.close(slot);
                    }
                }
            }
        }
    }

    /// Updates the epoll registration of both ends.
    fn update_interest(&mut self, slot: usize) {
        let Some(pair) = &mut self.pairs[slot] else {
            return;
        };
        let token = slot as u64 * 2;
        let (read_client, read_server) = match (&pair.phase, &pair.server) {
            (Phase::Greeting { .. }, _) => (true, false),
            (Phase::Dialing { .. }, _) | (_, None) => (false, false),
            (Phase::Forwarding, Some(server)) => {
                (!server.is_congested(), !pair.client.is_congested())
            }
        };
        let mut wait = |end: &mut Endpoint, side: Side, read: bool| {
            let token = token + u64::from(side == Side::Server);
            match &mut self.ring {
                Some(ring) if pair.is_plain => {
                    end.arm(ring, io_uring::token(slot, side, pair.connection), read)?;
                    end.update_interest(&self.epoll, token, false)
                }
                _ => end.update_interest(&self.epoll, token, read),
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
    fn handle_ready(&mut self, ready: Ready) {
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
        if (ready.writable || ready.closed) && end.is_congested() {
            if end.flush().is_err() {
                self.handle_send_failure(slot, side);
            } else if !end.is_congested() {
                self.handle_progress(slot);
            }
        }
        let is_by_ring =
            self.ring.is_some() && self.pairs[slot].as_ref().is_some_and(|pair| pair.is_plain);
        if !ready.readable || is_by_ring {
            return;
        }
        match &self.pairs[slot] {
            Some(pair) if matches!(pair.phase, Phase::Forwarding) => self.forward(slot, side),
            Some(pair) if matches!(pair.phase, Phase::Greeting { .. }) => {
                self.handle_greeting_bytes(slot)
            }
            _ => {}
        }
    }

    /// Forwards the bytes of one side.
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
        // Further bytes wait in the source's socket while the sink is congested.
        if source.ended || sink.is_congested() {
            return;
        }
        let (bytes, end) = match source.receive(&mut self.buffers, &mut self.encrypted) {
            Ok(ReadOutcome::Bytes(bytes)) => (bytes, false),
            Ok(ReadOutcome::End(bytes)) => (bytes, true),
            Ok(ReadOutcome::Nothing) => return,
            Err(_) => return self.handle_broken(slot, side),
        };
        if bytes.is_empty() {
            if end {
                self.handle_end(slot, side);
            }
            return;
        }
        let now_us = self.shared.clock.now_us();
        let rewritten;
        let mut bytes = bytes;
        if side == Side::Server
            && let Some(offers) = &mut pair.binding_filter
        {
            match offers.handle_bytes(bytes) {
                FilterResult::Wait if !end => return,
                FilterResult::Wait => rewritten = offers.rest(),
                FilterResult::Pass { bytes, removed } => {
                    rewritten = bytes;
                    pair.binding_filter = None;
                    if removed && !self.shared.binding_removed.swap(true, Ordering::Relaxed) {
                        self.shared.events.send(ProxyEvent::BindingRemoved);
                    }
                }
            }
            bytes = &rewritten;
        }
        let sent = sink.send(bytes, &mut self.encrypted);
        let is_behind = sink.is_congested() || source.is_congested();
        let counts = (&mut self.mirror, &mut self.totals, &*self.counters);
        pair.record_bytes(side, bytes, now_us, counts);
        let is_idle = pair.idle;
        if sent.is_err() {
            self.handle_send_failure(slot, opposite(side));
        } else if is_behind {
            self.update_interest(slot);
        }
        if end {
            self.handle_end(slot, side);
        } else if self.state == RunState::Draining && is_idle {
            self.end_idle(slot);
        }
    }
}

fn opposite(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}
