//! A proxy that forwards bytes as they are, and reads along.
//!
//! ```text
//! clients ◄─► forwarders (epoll; each owns its connections) ◄─► upstream
//!                 │  copies, in pieces             ▲
//!                 ▼  (dropped where there is       │ openers (names, sockets, TLS)
//!             scribe  no room, and counted)
//!                 │
//!                 ▼
//!            Conversations ─► Recording (a workload)
//! ```
//!
//! Who drives: the program calls [`Proxy::start`] with typed [`ProxyOptions`] and something that opens
//! recordings; it starts and stops them ([`Proxy::start_recording`], [`Proxy::stop_recording`]), asks
//! how far it is ([`Proxy::status`]) and what happened ([`Proxy::happened`]), and ends it
//! ([`Proxy::end`]).
//!
//! What passes comes before what is recorded: a capture that is slow, fails or breaks down never
//! touches a connection. Deliberately absent: async, pooling, and passwords: authentication is
//! between the client and the server.

mod end;
mod forwarder;
mod happening;
mod listen;
mod opener;
mod recording;
mod sasl;
mod scribe;
mod server_tls;
mod start_up;
mod tap;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use connect::dial::Opener;
use connect::{SessionAttributes, Target, TargetError};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use schemars::JsonSchema;
use serde::Serialize;

use capture_wire::conversation::ConversationOptions;
use forwarder::{Counters, Forwarder, Inbox, Shared, ToForwarder, WallClock};
pub use happening::Happening;
use happening::Happenings;
use listen::Listener;
pub use listen::{Listen, ListenError};
use opener::Openers;
pub use recording::{Incomplete, OpenRecording, Recording, RecordingAccount};
use scribe::{Action, Command, Parts};
pub use scribe::{CaptureStatus, Finished, RecordingState, RecordingStatus};
pub use server_tls::ServerTls;
use tap::{CHUNK_BYTES, Tap, TapState};

/// How a proxy runs.
pub struct ProxyOptions {
    /// Where clients connect to; at least one.
    pub listen: Vec<Listen>,
    /// Where their connections lead. Its users, databases and passwords are not used: clients say
    /// their own.
    pub upstream: Target,
    /// TLS towards clients; without it, clients that ask for it are told that there is none.
    pub tls: Option<ServerTls>,
    /// How many threads forward.
    pub threads: usize,
    /// How many bytes of copies may wait for the capture before they are dropped.
    pub buffer_bytes: usize,
    /// Connections without TLS are forwarded by io_uring, where the system has it.
    pub by_ring: bool,
    /// What is taken down beyond the statements.
    pub conversation: ConversationOptions,
    /// Options that recordings name as those that shaped them.
    pub options: BTreeMap<String, String>,
}

/// Why a proxy does not run.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// Nothing can listen there.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The upstream is of no use.
    #[error(transparent)]
    Upstream(#[from] TargetError),
    /// The system has no room for what it needs.
    #[error("the proxy cannot start: {0}")]
    System(#[from] io::Error),
}

/// State of a proxy.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ProxyStatus {
    /// Address of the server.
    pub upstream: String,
    /// Open connections, including those that have not logged in yet.
    pub connections: usize,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Accepted connections that could not be connected to the server.
    pub refused: u64,
    /// Bytes that clients sent, recorded or not.
    pub client_bytes: u64,
    /// Bytes that servers sent, recorded or not.
    pub server_bytes: u64,
    /// Bytes whose copies were dropped, recorded or not.
    pub lost_bytes: u64,
    /// State of the capture.
    #[serde(flatten)]
    pub capture: CaptureStatus,
}

/// A proxy that runs.
pub struct Proxy {
    upstream: String,
    addresses: Vec<Listen>,
    inboxes: Vec<Arc<Inbox>>,
    counters: Vec<Arc<Counters>>,
    taps: Vec<Arc<TapState>>,
    forwarders: Vec<JoinHandle<io::Result<()>>>,
    scribe: Option<JoinHandle<()>>,
    status: Arc<Mutex<CaptureStatus>>,
    control: Control,
    happened: Receiver<Happening>,
}

/// Starts and stops recordings; clones do the same.
#[derive(Clone)]
pub struct Control {
    inboxes: Vec<Arc<Inbox>>,
    commands: Sender<Command>,
    next: Arc<AtomicU64>,
}

/// How long a command is waited for: a disk may be slow.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

impl Control {
    /// Begins a recording here in what passes. Returns where it will lie.
    ///
    /// # Errors
    /// Where there is one already, it cannot be made, or the capture does not answer.
    pub fn start_recording(&self) -> Result<String, String> {
        self.command(Action::Start)
    }

    /// Ends the recording here in what passes, and completes it. Returns where it lies.
    ///
    /// # Errors
    /// Where there is none, it cannot be completed, or the capture does not answer.
    pub fn stop_recording(&self) -> Result<String, String> {
        self.command(Action::Stop)
    }

    fn command(&self, action: Action) -> Result<String, String> {
        let (reply, replied) = bounded(1);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let broken = || "the capture has broken down; what passes goes on".to_owned();
        let command = Command {
            number,
            action,
            reply,
        };
        self.commands.send(command).map_err(|_| broken())?;
        for inbox in &self.inboxes {
            inbox.send(ToForwarder::Mark(number));
        }
        match replied.recv_timeout(COMMAND_TIMEOUT) {
            Ok(reply) => reply,
            Err(error) if error.is_timeout() => Err(format!(
                "the capture has not answered for {} s; is its disk slow?",
                COMMAND_TIMEOUT.as_secs()
            )),
            Err(_) => Err(broken()),
        }
    }
}

impl Proxy {
    /// Listens, and forwards from now on. Nothing is recorded until that is asked for.
    ///
    /// # Errors
    /// Where it cannot listen, or the upstream makes no sense.
    pub fn start(options: ProxyOptions, open: OpenRecording) -> Result<Self, ProxyError> {
        if options.upstream.session != SessionAttributes::Any {
            return Err(ProxyError::Upstream(TargetError::Unsupported {
                what: "a kind of session (target_session_attrs), which only a login could tell"
                    .to_owned(),
                instead: "name the server that is meant, or leave target_session_attrs=any",
            }));
        }
        // What there is room for: more clients than that wait at the listener.
        let _ = event_loop::make_room(1 << 20);
        let threads = options.threads.max(1);
        let opener = Opener::new(&options.upstream)?;
        let listeners: Vec<Listener> = options
            .listen
            .iter()
            .map(Listener::bind)
            .collect::<Result<_, _>>()?;
        let addresses = listeners
            .iter()
            .map(Listener::address)
            .collect::<Result<_, _>>()?;
        let mut inboxes = Vec::new();
        let mut received = Vec::new();
        for _ in 0..threads {
            let (inbox, messages) = Inbox::new()?;
            inboxes.push(inbox);
            received.push(messages);
        }
        let upstream = options.upstream.address();
        let clock = Arc::new(WallClock::start());
        let (happenings, happened) = Happenings::new();
        let shared = Arc::new(Shared {
            clock: clock.clone(),
            openers: Openers::new(opener),
            tls: options.tls,
            by_ring: options.by_ring,
            happenings: happenings.clone(),
            next_connection: AtomicU64::new(1),
            binding_removed: AtomicBool::new(false),
            inboxes: inboxes.clone(),
        });
        let (chunks, copied) = bounded((options.buffer_bytes / CHUNK_BYTES).max(2));
        let (commands, commanded) = unbounded();
        let status = Arc::new(Mutex::new(CaptureStatus::default()));
        let mut taps = Vec::new();
        let mut free = Vec::new();
        let mut counters = Vec::new();
        let mut made = Vec::new();
        let mut listeners = Some(listeners);
        for (place, messages) in received.into_iter().enumerate() {
            let state = Arc::new(TapState::default());
            let (given_back, spare) = bounded(SPARE_CHUNKS);
            let tap = Tap::new(place, chunks.clone(), spare, state.clone());
            let counted = Arc::new(Counters::default());
            made.push(Forwarder::new(
                shared.clone(),
                inboxes[place].clone(),
                messages,
                counted.clone(),
                tap,
                listeners.take().unwrap_or_default(),
            )?);
            taps.push(state);
            free.push(given_back);
            counters.push(counted);
        }
        drop(chunks);
        let parts = Parts {
            clock,
            chunks: copied,
            free,
            taps: taps.clone(),
            inboxes: inboxes.clone(),
            commands: commanded,
            status: status.clone(),
            happenings,
            open,
            conversation: options.conversation,
            source: upstream.clone(),
            options: options.options,
        };
        let scribe = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || scribe::run(parts))?;
        let forwarders = made
            .into_iter()
            .map(|forwarder| {
                std::thread::Builder::new()
                    .name("forwarder".to_owned())
                    .spawn(move || forwarder.run())
            })
            .collect::<io::Result<_>>()?;
        Ok(Proxy {
            upstream,
            addresses,
            control: Control {
                inboxes: inboxes.clone(),
                commands,
                next: Arc::new(AtomicU64::new(1)),
            },
            inboxes,
            counters,
            taps,
            forwarders,
            scribe: Some(scribe),
            status,
            happened,
        })
    }

    /// Where it listens, with the ports that were free.
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// What starts and stops recordings.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// What has happened since this was last asked.
    pub fn happened(&self) -> Vec<Happening> {
        self.happened.try_iter().collect()
    }

    /// What tells how far it is, for other threads.
    pub fn watch(&self) -> Watch {
        Watch {
            upstream: self.upstream.clone(),
            counters: self.counters.clone(),
            taps: self.taps.clone(),
            status: self.status.clone(),
        }
    }

    /// How far it is.
    pub fn status(&self) -> ProxyStatus {
        self.watch().status()
    }

    /// Whether a forwarder has ended although nobody asked for it.
    pub fn is_broken(&self) -> bool {
        self.forwarders.iter().any(JoinHandle::is_finished)
    }

    /// Takes no connections any more; those that are idle outside of a transaction are closed, and
    /// others when they are.
    pub fn drain(&self) {
        for inbox in &self.inboxes {
            inbox.send(ToForwarder::Drain);
        }
    }

    /// Closes what is open, and completes the recording. What is read as lost in `status` and what
    /// recordings say is final then.
    ///
    /// # Errors
    /// Where a forwarder ended with an error of the system.
    pub fn end(mut self) -> (ProxyStatus, Vec<Happening>, io::Result<()>) {
        for inbox in &self.inboxes {
            inbox.send(ToForwarder::End);
        }
        let mut ended = Ok(());
        for forwarder in self.forwarders.drain(..) {
            let result = match forwarder.join() {
                Ok(result) => result,
                Err(_) => Err(io::Error::other("a forwarder has broken down")),
            };
            ended = ended.and(result);
        }
        if let Some(scribe) = self.scribe.take() {
            let _ = scribe.join();
        }
        (self.status(), self.happened(), ended)
    }
}

/// Pieces that are kept to be used again.
const SPARE_CHUNKS: usize = 8;

/// Tells how far a proxy is.
#[derive(Clone)]
pub struct Watch {
    upstream: String,
    counters: Vec<Arc<Counters>>,
    taps: Vec<Arc<TapState>>,
    status: Arc<Mutex<CaptureStatus>>,
}

impl Watch {
    /// How far it is.
    pub fn status(&self) -> ProxyStatus {
        let mut status = ProxyStatus {
            upstream: self.upstream.clone(),
            ..ProxyStatus::default()
        };
        for counters in &self.counters {
            status.connections += counters.open.load(Ordering::Relaxed);
            status.accepted += counters.accepted.load(Ordering::Relaxed);
            status.refused += counters.refused.load(Ordering::Relaxed);
            status.client_bytes += counters.client_bytes.load(Ordering::Relaxed);
            status.server_bytes += counters.server_bytes.load(Ordering::Relaxed);
        }
        for tap in &self.taps {
            status.lost_bytes += tap.lost_bytes.load(Ordering::Relaxed);
        }
        let capture = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.capture = capture.clone();
        status
    }
}
