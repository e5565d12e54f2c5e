//! A proxy that forwards bytes unchanged and records a copy.
//!
//! ```text
//! clients ◄─► forwarders (epoll; each owns its connections) ◄─► upstream
//!                  │  copies, in chunks             ▲
//!                  ▼  (dropped if there is          │ openers (names, sockets, TLS)
//!               recorder no room, and counted)
//!                  │
//!                  ▼
//!            Conversations ─► Recording (a workload)
//! ```
//!
//! The program calls [`Proxy::start`] with typed [`ProxyOptions`] and a function that opens
//! recordings. It starts and stops recordings ([`RecordingControl::start_recording`],
//! [`RecordingControl::stop_recording`]), reads the status ([`Proxy::status`]) and the events
//! ([`Proxy::take_events`]), and ends the proxy ([`Proxy::end`]).
//!
//! Forwarding has priority over recording: a capture that is slow, fails or panics never affects a
//! connection. The proxy is no async program, pools no connections and handles no passwords:
//! authentication is between the client and the server.

mod capture_status;
mod endpoint;
mod forwarder;
mod inbox;
mod listen;
mod mirror;
mod opener;
mod proxy_event;
mod recorder;
mod recording;
mod sasl;
mod server_tls;
mod start_up;
mod wall_clock;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use connect::dial::SocketOpener;
use connect::{Host, SessionAttributes, Target, TargetError};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use schemars::JsonSchema;
use serde::Serialize;
use workload::CapturedServer;

pub use capture_status::{CaptureStatus, FinishedRecording, RecordingState, RecordingStatus};
use capture_wire::conversation::DecoderOptions;
use forwarder::{Counters, Forwarder, Shared};
use inbox::{ForwarderMessage, Inbox};
use listen::Listener;
pub use listen::{ListenAddress, ListenError};
use mirror::{CHUNK_BYTES, Chunk, MirrorQueue, MirrorState};
use opener::OpenerPool;
pub use proxy_event::ProxyEvent;
use proxy_event::ProxyEventSender;
use recorder::{Action, Command, RecorderParts};
pub use recording::{IncompleteRange, OpenRecording, Recording, RecordingAccount};
pub use server_tls::ServerTls;
use wall_clock::WallClock;

/// Options of a proxy.
pub struct ProxyOptions {
    /// Addresses for clients; at least one.
    pub listen: Vec<ListenAddress>,
    /// Server to connect to. Its user, database and password are not used: clients send their own.
    pub upstream: Target,
    /// TLS towards clients; without it, a client's request for TLS is declined.
    pub tls: Option<ServerTls>,
    /// Number of forwarding threads.
    pub threads: usize,
    /// Maximum size of copies that wait for the capture, in bytes; further ones are dropped.
    pub buffer_bytes: usize,
    /// Whether connections without TLS are forwarded by io_uring, if the system has it.
    pub use_io_uring: bool,
    /// Details to record in addition to the statements.
    pub conversation: DecoderOptions,
    /// Options of the capture that recordings list in their manifest.
    pub options: BTreeMap<String, String>,
}

/// Reason why a proxy does not run.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// An address cannot be used.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The upstream is invalid.
    #[error(transparent)]
    Upstream(#[from] TargetError),
    /// The system refuses a resource.
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

/// A running proxy.
pub struct Proxy {
    upstream: String,
    addresses: Vec<ListenAddress>,
    inboxes: Vec<Arc<Inbox>>,
    counters: Vec<Arc<Counters>>,
    mirrors: Vec<Arc<MirrorState>>,
    forwarders: Vec<JoinHandle<io::Result<()>>>,
    recorder: Option<JoinHandle<()>>,
    status: Arc<Mutex<CaptureStatus>>,
    control: RecordingControl,
    events: Receiver<ProxyEvent>,
}

/// Starts and stops recordings. Clones control the same proxy.
#[derive(Clone)]
pub struct RecordingControl {
    inboxes: Vec<Arc<Inbox>>,
    commands: Sender<Command>,
    next: Arc<AtomicU64>,
}

/// Maximum duration of a command: a disk may be slow.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);

impl RecordingControl {
    /// Starts a recording at this point of the traffic. Returns its path.
    ///
    /// # Errors
    /// If a recording exists already, it cannot be created, or the capture does not answer.
    pub fn start_recording(&self) -> Result<String, String> {
        self.command(Action::Start)
    }

    /// Stops the recording at this point of the traffic, and completes it. Returns its path.
    ///
    /// # Errors
    /// If there is no recording, it cannot be completed, or the capture does not answer.
    pub fn stop_recording(&self) -> Result<String, String> {
        self.command(Action::Stop)
    }

    fn command(&self, action: Action) -> Result<String, String> {
        let (reply, replied) = bounded(1);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let broken = || "the capture has broken down; forwarding continues".to_owned();
        let command = Command {
            number,
            action,
            reply,
        };
        self.commands.send(command).map_err(|_| broken())?;
        for inbox in &self.inboxes {
            inbox.send(ForwarderMessage::Mark(number));
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
    /// Starts to listen and forward. Recording starts on request.
    ///
    /// # Errors
    /// If it cannot listen, or the upstream is invalid.
    pub fn start(options: ProxyOptions, open: OpenRecording) -> Result<Self, ProxyError> {
        if options.upstream.session != SessionAttributes::Any {
            return Err(ProxyError::Upstream(TargetError::Unsupported {
                what: "a kind of session (target_session_attrs), which only a login could tell"
                    .to_owned(),
                instead: "name the server that is meant, or leave target_session_attrs=any",
            }));
        }
        // The limit is raised as far as possible: further clients wait at the listener.
        let _ = event_loop::raise_fd_limit(1 << 20);
        let opener = SocketOpener::new(&options.upstream)?;
        let listeners: Vec<Listener> = options
            .listen
            .iter()
            .map(Listener::bind)
            .collect::<Result<_, _>>()?;
        let addresses: Vec<ListenAddress> = listeners
            .iter()
            .map(Listener::address)
            .collect::<Result<_, _>>()?;
        let (inboxes, messages) = create_inboxes(options.threads.max(1))?;
        let upstream = options.upstream.address();
        let mut servers = captured_servers(&options.upstream);
        servers.extend(own_addresses(&addresses));
        let clock = Arc::new(WallClock::start());
        let (event_sender, events) = ProxyEventSender::new();
        let shared = Arc::new(Shared {
            clock: clock.clone(),
            openers: OpenerPool::new(opener),
            tls: options.tls,
            use_io_uring: options.use_io_uring,
            events: event_sender.clone(),
            next_connection: AtomicU64::new(1),
            binding_removed: AtomicBool::new(false),
            inboxes: inboxes.clone(),
        });
        let chunk_limit = (options.buffer_bytes / CHUNK_BYTES).max(2);
        let (forwarders, mirrors) = create_forwarders(&shared, messages, listeners, chunk_limit)?;
        let (commands, commanded) = unbounded();
        let status = Arc::new(Mutex::new(CaptureStatus::default()));
        let parts = RecorderParts {
            clock,
            chunks: mirrors.chunks,
            free: mirrors.free,
            mirrors: mirrors.states.clone(),
            inboxes: inboxes.clone(),
            commands: commanded,
            status: status.clone(),
            events: event_sender,
            open,
            conversation: options.conversation,
            source: upstream.clone(),
            servers,
            options: options.options,
        };
        let recorder = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || recorder::run(parts))?;
        let forwarders = forwarders
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
            control: RecordingControl {
                inboxes: inboxes.clone(),
                commands,
                next: Arc::new(AtomicU64::new(1)),
            },
            inboxes,
            counters: mirrors.counters,
            mirrors: mirrors.states,
            forwarders,
            recorder: Some(recorder),
            status,
            events,
        })
    }

    /// Addresses at which it listens, with the selected ports.
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }

    /// Returns a handle for starting and stopping recordings.
    pub fn control(&self) -> RecordingControl {
        self.control.clone()
    }

    /// Returns the events since the last call.
    pub fn take_events(&self) -> Vec<ProxyEvent> {
        self.events.try_iter().collect()
    }

    /// Returns a handle for reading the status, for other threads.
    pub fn status_reader(&self) -> StatusReader {
        StatusReader {
            upstream: self.upstream.clone(),
            counters: self.counters.clone(),
            mirrors: self.mirrors.clone(),
            status: self.status.clone(),
        }
    }

    /// Returns the current status.
    pub fn status(&self) -> ProxyStatus {
        self.status_reader().status()
    }

    /// Returns whether a forwarder has ended unexpectedly.
    pub fn is_broken(&self) -> bool {
        self.forwarders.iter().any(JoinHandle::is_finished)
    }

    /// Stops accepting. Connections that are idle outside of a transaction are closed, others when
    /// they become idle.
    pub fn drain(&self) {
        for inbox in &self.inboxes {
            inbox.send(ForwarderMessage::Drain);
        }
    }

    /// Closes all connections, and completes the recording. After that, the counts of lost bytes
    /// and the accounts of recordings are final.
    ///
    /// # Errors
    /// If a forwarder ended with an error of the system.
    pub fn end(mut self) -> (ProxyStatus, Vec<ProxyEvent>, io::Result<()>) {
        for inbox in &self.inboxes {
            inbox.send(ForwarderMessage::End);
        }
        let mut ended = Ok(());
        for forwarder in self.forwarders.drain(..) {
            let result = match forwarder.join() {
                Ok(result) => result,
                Err(_) => Err(io::Error::other("a forwarder has broken down")),
            };
            ended = ended.and(result);
        }
        if let Some(recorder) = self.recorder.take() {
            let _ = recorder.join();
        }
        (self.status(), self.take_events(), ended)
    }
}

/// Creates the message queues of forwarders, and their receiving ends.
#[expect(clippy::type_complexity, reason = "two lists of the two ends")]
fn create_inboxes(
    threads: usize,
) -> io::Result<(Vec<Arc<Inbox>>, Vec<Receiver<ForwarderMessage>>)> {
    let mut inboxes = Vec::new();
    let mut messages = Vec::new();
    for _ in 0..threads {
        let (inbox, received) = Inbox::new()?;
        inboxes.push(inbox);
        messages.push(received);
    }
    Ok((inboxes, messages))
}

/// Other threads' ends of the forwarders' mirror queues.
struct Mirrors {
    chunks: Receiver<Chunk>,
    /// Queues for returning processed chunks, by forwarder.
    free: Vec<Sender<Vec<u8>>>,
    states: Vec<Arc<MirrorState>>,
    counters: Vec<Arc<Counters>>,
}

/// Creates a forwarder for each message queue; the first one accepts the clients.
fn create_forwarders(
    shared: &Arc<Shared>,
    messages: Vec<Receiver<ForwarderMessage>>,
    listeners: Vec<Listener>,
    chunk_limit: usize,
) -> io::Result<(Vec<Forwarder>, Mirrors)> {
    let (chunks, received) = bounded(chunk_limit);
    let mut mirrors = Mirrors {
        chunks: received,
        free: Vec::new(),
        states: Vec::new(),
        counters: Vec::new(),
    };
    let mut forwarders = Vec::new();
    let mut listeners = Some(listeners);
    for (index, messages) in messages.into_iter().enumerate() {
        let state = Arc::new(MirrorState::default());
        let (returned, spare) = bounded(POOLED_CHUNKS);
        let mirror = MirrorQueue::new(index, chunks.clone(), spare, state.clone());
        let counters = Arc::new(Counters::default());
        forwarders.push(Forwarder::new(
            shared.clone(),
            shared.inboxes[index].clone(),
            messages,
            counters.clone(),
            mirror,
            listeners.take().unwrap_or_default(),
        )?);
        mirrors.states.push(state);
        mirrors.free.push(returned);
        mirrors.counters.push(counters);
    }
    Ok((forwarders, mirrors))
}

/// Number of chunks kept for reuse.
const POOLED_CHUNKS: usize = 8;

/// Reads the status of a proxy.
#[derive(Clone)]
pub struct StatusReader {
    upstream: String,
    counters: Vec<Arc<Counters>>,
    mirrors: Vec<Arc<MirrorState>>,
    status: Arc<Mutex<CaptureStatus>>,
}

impl StatusReader {
    /// Returns the current status.
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
        for mirror in &self.mirrors {
            status.lost_bytes += mirror.lost_bytes.load(Ordering::Relaxed);
        }
        let capture = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.capture = capture.clone();
        status
    }
}

/// Returns what identifies the servers of an upstream.
fn captured_servers(upstream: &Target) -> Vec<CapturedServer> {
    let machine = connect::machine_name();
    let identify = |server: &connect::Server| CapturedServer {
        host: server.host.as_ref().map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(directory) => directory.display().to_string(),
            Host::Abstract(name) => format!("@{name}"),
        }),
        addresses: server.ip_addresses(),
        port: server.port,
        machine: machine.clone(),
        ..CapturedServer::default()
    };
    upstream.servers.iter().map(identify).collect()
}

/// Returns the addresses of the proxy, by which its upstream can be reached, too.
fn own_addresses(listening: &[ListenAddress]) -> impl Iterator<Item = CapturedServer> {
    listening.iter().filter_map(|address| match address {
        ListenAddress::Tcp(address) => Some(CapturedServer {
            addresses: vec![address.ip()],
            port: address.port(),
            machine: connect::machine_name(),
            ..CapturedServer::default()
        }),
        ListenAddress::Unix(_) => None,
    })
}
