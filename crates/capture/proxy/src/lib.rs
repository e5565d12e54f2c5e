//! A proxy that forwards bytes unchanged and records a copy.
//!
//! ```text
//! clients ◄─► forwarders (epoll; each owns its connections) ◄─► upstream
//!                  │  copies, in chunks             ▲
//!                  ▼  (dropped if there is          │ openers (names, sockets, TLS)
//!               recorder no room, and counted; the crate `capture-recorder`)
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

mod endpoint;
mod forwarder;
mod inbox;
mod listen;
mod opener;
mod proxy_event;
mod sasl;
mod server_tls;
mod start_up;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use connect::dial::SocketOpener;
use connect::{Host, SessionAttributes, Target, TargetError};
use crossbeam_channel::Receiver;
use schemars::JsonSchema;
use serde::Serialize;
use workload::CapturedServer;

pub use capture_recorder::{
    CaptureEvent, CaptureStatus, FinishedRecording, IncompleteRange, OpenRecording, Recording,
    RecordingAccount, RecordingControl, RecordingState, RecordingStatus,
};
use capture_recorder::{
    CaptureStatusReader, MirrorQueue, MirrorSource, Recorder, RecorderOptions, RecordingOrigin,
    WallClock,
};
use capture_wire::conversation::DecoderOptions;
use forwarder::{Counters, Forwarder, Shared};
use inbox::{ForwarderMessage, Inbox};
use listen::Listener;
pub use listen::{ListenAddress, ListenError};
use opener::OpenerPool;
pub use proxy_event::ProxyEvent;
use proxy_event::ProxyEventSender;
pub use server_tls::ServerTls;

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
    forwarders: Vec<JoinHandle<io::Result<()>>>,
    recorder: Recorder,
    events: Receiver<ProxyEvent>,
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
        let sources = inboxes.iter();
        let (recorder, queues) = Recorder::start(RecorderOptions {
            clock,
            sources: sources
                .map(|inbox| inbox.clone() as Arc<dyn MirrorSource>)
                .collect(),
            buffer_bytes: options.buffer_bytes,
            conversation: options.conversation,
            open,
            origin: RecordingOrigin {
                kind: "proxy",
                name: upstream.clone(),
                servers,
                options: options.options,
            },
            on_event: Arc::new(move |event| event_sender.send(ProxyEvent::Capture(event))),
        })?;
        let (forwarders, counters) = create_forwarders(&shared, messages, listeners, queues)?;
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
            inboxes,
            counters,
            forwarders,
            recorder,
            events,
        })
    }

    /// Addresses at which it listens, with the selected ports.
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }

    /// Returns a handle for starting and stopping recordings.
    pub fn control(&self) -> RecordingControl {
        self.recorder.control()
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
            capture: self.recorder.status_reader(),
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
        let status = self.status_reader();
        self.recorder.join();
        (status.status(), self.events.try_iter().collect(), ended)
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

/// Creates a forwarder for each message queue; the first one accepts the clients. Also returns their counters.
fn create_forwarders(
    shared: &Arc<Shared>,
    messages: Vec<Receiver<ForwarderMessage>>,
    listeners: Vec<Listener>,
    queues: Vec<MirrorQueue>,
) -> io::Result<(Vec<Forwarder>, Vec<Arc<Counters>>)> {
    let (mut forwarders, mut all_counters) = (Vec::new(), Vec::new());
    let mut listeners = Some(listeners);
    for (index, (messages, mirror)) in messages.into_iter().zip(queues).enumerate() {
        let counters = Arc::new(Counters::default());
        forwarders.push(Forwarder::new(
            shared.clone(),
            shared.inboxes[index].clone(),
            messages,
            counters.clone(),
            mirror,
            listeners.take().unwrap_or_default(),
        )?);
        all_counters.push(counters);
    }
    Ok((forwarders, all_counters))
}

/// Reads the status of a proxy.
#[derive(Clone)]
pub struct StatusReader {
    upstream: String,
    counters: Vec<Arc<Counters>>,
    capture: CaptureStatusReader,
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
        status.lost_bytes = self.capture.lost_bytes();
        status.capture = self.capture.status();
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
